"""What is on screen: the last fixture, ks and verdict that were good, kept for one session; and what was refused since.

An uploaded fixture lives in the session that brought it, never in a cache. What is cached for everybody is the
measurement: it holds none of the fixture's rows, and only the same fixture with the same ks finds it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from pages.ui.controls import Choice, parsed_ks
from pages.ui.samples import Sample
from polykv_core import (
    DEFAULT_CANDIDATE_KS,
    CapturedMeasurement,
    CapturedReplayConfig,
    CapturedReplayFixture,
    CapturedReplayReceipt,
    PolyKvError,
    check_replayable,
    judge,
    load_fixture,
    measure,
)

_LAST_GOOD = "last_good"
_LAST_UPLOAD = "last_upload"

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """A fixture, the name it goes by, and what it shows if it is a sample."""

    name: str
    fixture: CapturedReplayFixture
    shows: str = ""


@dataclass(frozen=True)
class Shown:
    """A fixture and the verdict on it."""

    source: Source
    receipt: CapturedReplayReceipt


@dataclass(frozen=True)
class Refusal:
    """What was not used, and why; the reason may quote the input and must be shown verbatim."""

    what: str
    reason: str


@dataclass(frozen=True)
class Screen:
    """What the page shows. `shown` is None only if nothing good was ever there."""

    shown: Shown | None
    refusals: tuple[Refusal, ...]


def screen(choice: Choice) -> Screen:
    """Follow the sidebar as far as it makes sense; where it does not, keep what was good and say so."""
    refusals: list[Refusal] = []

    def attempt(what: str, step: Callable[[], T], kept: T) -> T:
        try:
            return step()
        except PolyKvError as bad:
            refusals.append(Refusal(what, str(bad)))
            return kept

    last: Shown | None = st.session_state.get(_LAST_GOOD)
    name = "The sample" if choice.upload is None else "The uploaded file"
    source = attempt(name, lambda: _source(choice), last.source if last else None)
    if source is None:
        return Screen(None, tuple(refusals))
    last_ks = last.receipt.config.candidate_ks if last else DEFAULT_CANDIDATE_KS
    ks = attempt("The candidate ks", lambda: parsed_ks(choice.ks_text), last_ks)
    shown = attempt(name, lambda: _judged(source, ks, choice.thresholds), last)
    st.session_state[_LAST_GOOD] = shown
    return Screen(shown, tuple(refusals))


def _judged(source: Source, ks: tuple[int, ...], thresholds: dict[str, float]) -> Shown:
    config = CapturedReplayConfig(ks, **thresholds)
    return Shown(source, judge(_measured(source.fixture.digest, ks, source.fixture), config))


def _source(choice: Choice) -> Source:
    if choice.upload is not None:
        return _uploaded(choice.upload)
    st.session_state.pop(_LAST_UPLOAD, None)
    return _sample(choice.sample)


def _uploaded(upload: UploadedFile) -> Source:
    """The uploaded fixture, read once an upload and then kept in the session, with its error if it was faulty."""
    last = st.session_state.get(_LAST_UPLOAD)
    if last is None or last[0] != upload.file_id:
        last = (upload.file_id, _read(upload))
        st.session_state[_LAST_UPLOAD] = last
    if isinstance(last[1], PolyKvError):
        raise last[1].with_traceback(None)  # or every rerun would add to its traceback
    source: Source = last[1]
    return source


def _read(upload: UploadedFile) -> Source | PolyKvError:
    try:
        fixture = load_fixture(upload.getvalue())
        check_replayable(fixture)
    except PolyKvError as bad:
        return bad
    return Source(upload.name, fixture)


@st.cache_resource(max_entries=8, show_spinner=False)
def _sample(sample: Sample) -> Source:
    return Source(sample.title, load_fixture(sample.path), sample.shows)


@st.cache_resource(max_entries=32, show_spinner="Replaying the fixture")
def _measured(digest: str, ks: tuple[int, ...], _fixture: CapturedReplayFixture) -> CapturedMeasurement:  # noqa: ARG001
    """The measurement, found by digest and ks; the underscore keeps Streamlit from hashing arrays, which it samples."""
    return measure(_fixture, ks)
