"""What is on screen: the last result that was good, judged anew at every run; and what was not used since, and why.

Of a fixture the session keeps facts and measured numbers, never its rows, so no more than one fixture is in memory for
a moment. Measurements are shared by everybody: they hold none of a fixture's rows, and only its whole digest finds one.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import streamlit as st
from cachetools import LRUCache

from pages.ui import jobs, links, memory, replay_options, uploads
from pages.ui.controls import Choice
from pages.ui.jobs import Job, OnQuery
from polykv_core import (
    DEFAULT_CANDIDATE_KS,
    REFERENCE,
    CapturedMeasurement,
    CapturedReplayConfig,
    CapturedReplayFixture,
    CapturedReplayReceipt,
    Finding,
    PolyKvError,
    ReplayOptions,
    check_fixture,
    check_replayable,
    every_k,
    judge,
    load_fixture,
    measure,
    parse_ks,
    replay_findings,
)

_MOST_KEPT = 16


@dataclass(frozen=True)
class Source:
    """What is said of a fixture: the names it goes by, and what it holds; `shows` only if it is a sample."""

    name: str
    file_name: str
    shows: str
    model_id: str
    digest: str
    warnings: tuple[str, ...]
    rows: tuple[int, ...]
    shared_tokens: int
    head_dim: int
    vocab: int
    seed: int

    @classmethod
    def of(cls, fixture: CapturedReplayFixture, *, name: str, file_name: str, shows: str) -> "Source":
        """The facts of a fixture."""
        return cls(
            name=name,
            file_name=file_name,
            shows=shows,
            model_id=fixture.model_id,
            digest=fixture.digest,
            warnings=fixture.warnings,
            rows=tuple(query.row_count for query in fixture.queries),
            shared_tokens=fixture.shared_tokens,
            head_dim=fixture.head_dim,
            vocab=len(fixture.output_projection),
            seed=fixture.seed,
        )


@dataclass(frozen=True)
class Replayed:
    """A fixture's facts, what is odd about it, and its measurement over every k."""

    source: Source
    findings: tuple[Finding, ...]
    curve: CapturedMeasurement


@dataclass(frozen=True)
class Shown:
    """A replay and the verdict on it."""

    replayed: Replayed
    receipt: CapturedReplayReceipt

    @property
    def source(self) -> Source:
        """Whose verdict it is."""
        return self.replayed.source

    @property
    def curve(self) -> CapturedMeasurement:
        """What was measured, over every k, as its gates look at it."""
        return self.replayed.curve.by(self.receipt.config.statistic)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is odd about the fixture, and about its replay at the selected k but that it reads every row."""
        k = self.receipt.selected_candidate_k
        found = replay_findings(self.curve.queries.at(self.curve.index_of(k)), k)
        return (*self.replayed.findings, *(finding for finding in found if finding.code != "k_beyond_rows"))


@dataclass(frozen=True)
class Refusal:
    """What was not used, and why; the reason may quote the input and must be shown verbatim."""

    what: str
    reason: str


@dataclass(frozen=True)
class Screen:
    """What the page shows. `shown` is None if nothing good is there yet; `wanted` is a digest that is waited for."""

    shown: Shown | None
    refusals: tuple[Refusal, ...] = ()
    wanted: str = ""
    cancelled: str = ""


class _Shelf:
    """The measurements made last, by digest and options, for all sessions and their threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: LRUCache[tuple[str, ReplayOptions], CapturedMeasurement] = LRUCache(_MOST_KEPT)

    def get(self, digest: str, options: ReplayOptions) -> CapturedMeasurement | None:
        with self._lock:
            return self._kept.get((digest, options))

    def put(self, measurement: CapturedMeasurement) -> None:
        with self._lock:
            self._kept[measurement.fixture_digest, measurement.options] = measurement


def screen(choice: Choice) -> Screen:
    """Follow the sidebar as far as it makes sense; where it does not, keep what was good and say so."""
    wanted = links.wanted()
    if wanted and choice.upload is None and choice.sample.shipped:
        return Screen(None, wanted=wanted)
    last: Shown | None = st.session_state.get(uploads.LAST_GOOD)
    refusals: list[Refusal] = []
    options = last.replayed.curve.options if last else REFERENCE
    try:
        options = replay_options.parsed(choice.options)
    except PolyKvError as bad:
        refusals.append(Refusal("The replay options", str(bad)))
    job = _job(choice, options, wanted)
    replayed, cancelled = None, ""
    try:
        replayed = job.result()
    except jobs.Cancelled:
        cancelled = job.name
    except PolyKvError as bad:
        refusals.append(Refusal("The sample" if choice.upload is None else "The uploaded file", str(bad)))
    if replayed is not None:
        if last is None or replayed is not last.replayed:
            memory.give_back()
        links.show("" if choice.upload is None and choice.sample.shipped else replayed.source.digest)
    elif last is not None and not wanted:
        replayed = last.replayed
    if replayed is None:
        return Screen(None, tuple(refusals), wanted, cancelled)

    ks = last.receipt.config.candidate_ks if last else DEFAULT_CANDIDATE_KS
    try:
        ks = parse_ks(choice.ks_text)
    except PolyKvError as bad:
        refusals.append(Refusal("The candidate ks", str(bad)))
    receipt = judge(replayed.curve, CapturedReplayConfig.from_dict({"candidate_ks": ks, **choice.gates}))
    shown = st.session_state[uploads.LAST_GOOD] = Shown(replayed, receipt)
    return Screen(shown, tuple(refusals), cancelled=cancelled)


def try_again() -> None:
    """Start a cancelled replay anew."""
    jobs.forget(uploads.REPLAY_JOB)


def go_on_with_sample() -> None:
    """Forget what a link asks for, and what was uploaded instead."""
    links.forget()
    uploads.clear()


def go_on_with_upload() -> None:
    """Forget what a link asks for, and take the file that was uploaded instead."""
    links.forget()
    jobs.forget(uploads.REPLAY_JOB)


def content(choice: Choice) -> Callable[[], Path | bytes]:
    """Where the chosen fixture is read from, when it is read."""
    return choice.upload.read if choice.upload else lambda: choice.sample.path


def _job(choice: Choice, options: ReplayOptions, wanted: str) -> Job[Replayed]:
    upload, sample = choice.upload, choice.sample
    name, file_name = (upload.name, upload.name) if upload else (sample.title, sample.file_name)
    key = f"upload {upload.number}" if upload else f"sample {sample.file_name}"
    told = partial(Source.of, name=name, file_name=file_name, shows="" if upload else sample.shows)
    work = partial(_replay, content(choice), told, options, _shelf(), wanted)
    return jobs.run(uploads.REPLAY_JOB, f"{key} {options}", name, work)


def _replay(
    read: Callable[[], Path | bytes],
    told: Callable[[CapturedReplayFixture], Source],
    options: ReplayOptions,
    shelf: _Shelf,
    wanted: str,
    on_query: OnQuery,
) -> Replayed:
    """Read a fixture and measure every k, unless the shelf has that; what is not the wanted fixture is refused."""
    fixture = load_fixture(read())
    links.check(fixture.digest, wanted)
    curve = shelf.get(fixture.digest, options)
    if curve is None:
        check_replayable(fixture, options)
        curve = measure(fixture, every_k(fixture), on_query, options=options)
        shelf.put(curve)
    return Replayed(told(fixture), check_fixture(fixture), curve)


@st.cache_resource(max_entries=1, show_spinner=False)
def _shelf() -> _Shelf:
    return _Shelf()
