"""A receipt held against a fixture: the two files that the page takes, and the check beside the page."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from pages.ui import jobs, uploads
from pages.ui.jobs import OnQuery, Work
from pages.ui.replayed import Load
from pages.ui.state import Shown
from pages.ui.uploads import Upload
from polykv_core import (
    CapturedReplayFixture,
    CapturedReplayReceipt,
    PolyKvError,
    Verification,
    heads_in,
    load_fixture,
    load_model_case,
    receipt_fields,
    verify,
)
from polykv_core.receipt_file import receipts_in, the_receipt
from polykv_core.verify import is_model_replay, verify_model

RECEIPT, FIXTURE = "verified_receipt", "verified_fixture"

_CASE_MISSING = "This is a model replay's receipt: give its case beside it."
_OTHER_FIXTURE = "The receipt is of another fixture than the one on the left: give its file beside it."
_FIXTURE_MISSING = "No fixture is on screen: give the receipt's beside it."


@dataclass(frozen=True)
class Checked:
    """What a receipt says of itself, and what its check found."""

    fields: Mapping[str, Any]
    found: Verification


@dataclass(frozen=True)
class Check:
    """What is on the page: nothing yet, a result, or why there is none; `missing` asks for the file it takes."""

    checked: Checked | None = None
    fault: str = ""
    cancelled: bool = False
    missing: str = ""


def held(slot: str) -> Upload | None:
    """The file that was given, if one was."""
    upload: Upload | None = st.session_state.get(f"{slot}_held")
    return upload


def draw_uploader(slot: str, label: str, kinds: list[str], help_text: str) -> None:
    """An uploader that takes its file at once, with the file it took and a button that lets that go."""
    upload, count = held(slot), st.session_state.get(f"{slot}_count", 0)
    if upload is not None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(upload.name)
            st.button("Clear", key=f"{slot}_clear", on_click=_clear, args=(slot,), icon=":material/delete:")
    st.file_uploader(
        f"Another {label.lower()}" if upload else label,
        type=kinds,
        key=f"{slot}_{count}",
        on_change=_take,
        args=(slot, count),
        help=help_text,
    )


def check(shown: Shown | None) -> Check:
    """Hold the receipt against the fixture that was given, or the one on screen."""
    receipt, other = held(RECEIPT), held(FIXTURE)
    if receipt is None:
        jobs.forget(uploads.VERIFY_JOB)
        return Check()
    try:
        receipts = receipts_in(receipt.read())
        fields = receipt_fields(io.BytesIO(receipts[0])) if len(receipts) == 1 else None
        model = fields is not None and is_model_replay(fields)
        if other is not None:
            of_head = partial(_verify, receipts, partial(_meant, other, receipts))
            work = partial(_verify_model, receipts, other) if model else of_head
            return _checked(receipts, work, f"upload {other.number}", other.name)
        if model or shown is None:
            return Check(missing=_CASE_MISSING if model else _FIXTURE_MISSING)
        meant = the_receipt(receipts, shown.source.digest)
        if CapturedReplayReceipt.from_json(meant).fixture_digest not in (None, shown.source.digest):
            return Check(missing=_OTHER_FIXTURE)
        work = partial(_verify, [meant], shown.replayed.load)
        return _checked([meant], work, shown.source.digest, shown.source.name)
    except jobs.Cancelled:
        return Check(cancelled=True)
    except PolyKvError as bad:
        return Check(fault=str(bad))


def try_again() -> None:
    """Start a cancelled check anew."""
    jobs.forget(uploads.VERIFY_JOB)


def _checked(receipts: Sequence[bytes], work: Work[Checked], whose: str, name: str) -> Check:
    """The check beside the page: what came of it, or nothing yet."""
    key = f"{hashlib.sha256(b''.join(receipts)).hexdigest()} {whose}"
    return Check(jobs.run(uploads.VERIFY_JOB, key, f"{name}, to verify the receipt", work).result())


def _verify(receipts: Sequence[bytes], load: Load, on_query: OnQuery) -> Checked:
    fixture = load()
    fields = receipt_fields(io.BytesIO(the_receipt(receipts, fixture.digest)))
    return Checked(fields, verify(fields, fixture, on_query))


def _meant(upload: Upload, receipts: Sequence[bytes]) -> CapturedReplayFixture:
    """The uploaded fixture; of several heads the one that the receipts tell of, else the first."""
    content = upload.read()
    if len(upload.heads) < 2:
        return load_fixture(content)
    meant = {CapturedReplayReceipt.from_json(receipt).model_id for receipt in receipts}
    names = [head.name for head in heads_in(content) if head.model_id in meant]
    return load_fixture(content, names[0] if names else upload.heads[0])


def _verify_model(receipts: Sequence[bytes], case: Upload, _on_query: OnQuery) -> Checked:
    fields = receipt_fields(io.BytesIO(the_receipt(receipts)))
    return Checked(fields, verify_model(fields, load_model_case(case.read())))


def _take(slot: str, count: int) -> None:
    file = st.session_state.get(f"{slot}_{count}")
    if file is None or count != st.session_state.get(f"{slot}_count", 0):
        return
    st.session_state[f"{slot}_count"] = count + 1
    st.session_state[f"{slot}_held"] = Upload.of(count + 1, file.name, file.getvalue())
    uploads.release()


def _clear(slot: str) -> None:
    st.session_state.pop(f"{slot}_held", None)
