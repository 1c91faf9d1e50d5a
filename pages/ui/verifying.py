"""A receipt held against a fixture: the two files that the page takes, and the check beside the page."""

import hashlib
import io
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from pages.ui import jobs, uploads
from pages.ui.jobs import OnQuery
from pages.ui.replayed import Read
from pages.ui.state import Shown
from pages.ui.uploads import Upload
from polykv_core import (
    CapturedReplayReceipt,
    PolyKvError,
    Verification,
    load_fixture,
    load_model_case,
    receipt_fields,
    verify,
)
from polykv_core.receipt_file import receipt_in
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
        # Of a report with several receipts, the one of the fixture on screen; another fixture is asked for its digest.
        data = receipt_in(receipt.read(), _digest(other, shown))
        fields = receipt_fields(io.BytesIO(data))
        model = is_model_replay(fields)
        read: Read
        if other is not None:
            read, whose, name = other.read, f"upload {other.number}", other.name
        elif shown is not None and not model and _stated_digest(fields) in (None, shown.source.digest):
            read, whose, name = shown.replayed.read, shown.source.digest, shown.source.name
        else:
            return Check(missing=_CASE_MISSING if model else _FIXTURE_MISSING if shown is None else _OTHER_FIXTURE)
        work = partial(_model_checked if model else _checked, fields, read)
        key = f"{hashlib.sha256(data).hexdigest()} {whose}"
        return Check(jobs.run(uploads.VERIFY_JOB, key, f"{name}, to verify the receipt", work).result())
    except jobs.Cancelled:
        return Check(cancelled=True)
    except PolyKvError as bad:
        return Check(fault=str(bad))


def _digest(other: Upload | None, shown: Shown | None) -> str | None:
    if other is not None:
        with suppress(PolyKvError):
            return load_fixture(other.read()).digest
    return None if shown is None else shown.source.digest


def _stated_digest(fields: Mapping[str, Any]) -> str | None:
    """Of which fixture a receipt says it is, if it says so."""
    return CapturedReplayReceipt.from_dict(fields).fixture_digest


def try_again() -> None:
    """Start a cancelled check anew."""
    jobs.forget(uploads.VERIFY_JOB)


def _checked(fields: Mapping[str, Any], read: Read, on_query: OnQuery) -> Checked:
    return Checked(fields, verify(fields, load_fixture(read()), on_query))


def _model_checked(fields: Mapping[str, Any], read: Read, _on_query: OnQuery) -> Checked:
    return Checked(fields, verify_model(fields, load_model_case(read())))


def _take(slot: str, count: int) -> None:
    file = st.session_state.get(f"{slot}_{count}")
    if file is None or count != st.session_state.get(f"{slot}_count", 0):
        return
    st.session_state[f"{slot}_count"] = count + 1
    st.session_state[f"{slot}_held"] = Upload.of(count + 1, file.name, file.getvalue())
    uploads.release()


def _clear(slot: str) -> None:
    st.session_state.pop(f"{slot}_held", None)
