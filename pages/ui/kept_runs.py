"""The history as the pages use it: what is kept, found, labelled and let go. It is the server's, not the session's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import streamlit as st

from pages.ui.notices import draw_fault
from pages.ui.state import Shown
from polykv_core import CapturedMeasurement, CapturedReplayReceipt, PolyKvError, ReceiptError
from polykv_core.history import Run, RunQuery, RunSummary, Store, default_path, exists, open_store
from polykv_core.kept import measured, packed

_SELECTED = "history_runs"
_TAGS, _NOTE = "keep_tags", "keep_note"
_FAULT = "history_fault"
_DONE = "history_done"
MOST_LISTED = 200


@dataclass(frozen=True)
class Opened:
    """A run, its receipt, and what was measured: all that was kept, else what the receipt tells.

    `damage` says why it is only that, where more was kept.
    """

    summary: RunSummary
    receipt: CapturedReplayReceipt
    measurement: CapturedMeasurement
    damage: str = ""


def listed(query: RunQuery) -> tuple[RunSummary, ...]:
    """The runs that fit, newest first; none where there is no history yet."""
    if not exists():
        return ()
    with open_store() as store:
        return store.runs(query)


def opened(numbers: Sequence[int]) -> list[Opened]:
    """Some runs, in this order. Raises PolyKvError for one that is gone or damaged."""
    with open_store() as store:
        return [_opened(store.run(number)) for number in numbers]


def query(text: str, verdict: str, gate: str | None, model: str | None, tag: str | None, days: Any) -> RunQuery:
    """The filters as a question to the history; a day is one of UTC."""
    first, last = (*days, None, None)[:2] if isinstance(days, tuple | list) else (None, None)
    return RunQuery(
        text=text.strip() or None,
        model_id=model,
        passed={"Passed": True, "Failed": False}.get(verdict),
        failing_gate=gate,
        tag=tag,
        since=_midnight(first),
        until=_midnight(last + timedelta(days=1)) if last else None,
        limit=MOST_LISTED,
    )


def draw_keep(shown: Shown) -> None:
    """The button that keeps the verdict on screen, with tags and a note."""
    with st.popover("Keep in history", icon=":material/inventory_2:"):
        st.caption("On the machine that serves this page: whoever opens it there sees it.")
        st.text_input("Tags", key=_TAGS, placeholder="nightly, head 7")
        st.text_area("Note", key=_NOTE, height=80)
        st.button("Keep", key="keep", type="primary", on_click=_keep, args=(shown,))
        draw_outcome("keep")


def draw_label(run: RunSummary) -> None:
    """Tags, note, pin and deletion of a run."""
    with st.form(f"label_{run.id}", border=False):
        tags = st.text_input("Tags", value=", ".join(run.tags), key=f"tags_{run.id}")
        note = st.text_area("Note", value=run.note, key=f"note_{run.id}", height=80)
        if st.form_submit_button("Save tags and note"):
            change("label", lambda store: store.annotate(run.id, tags=split(tags), note=note), "Saved")
            st.rerun()
    with st.container(horizontal=True):
        if run.pinned:
            st.button(
                "Unpin", key=f"unpin_{run.id}", icon=":material/keep_off:",
                on_click=change, args=("label", lambda store: store.unpin(run.id), "Unpinned"),
            )  # fmt: skip
        else:
            st.button(
                "Pin as baseline", key=f"pin_{run.id}", icon=":material/keep:",
                on_click=change, args=("label", lambda store: store.pin(run.id), "Pinned"),
                help="Of its fixture: gates can be set relative to it, here and by polykv replay --baseline pinned.",
            )  # fmt: skip
        with st.popover("Delete", icon=":material/delete:"):
            st.text(f"Delete run {run.id} from the history? It cannot be undone.")
            st.button("Delete it", key=f"delete_{run.id}", on_click=_delete, args=(run.id,))
    draw_outcome("label")


def draw_outcome(place: str) -> None:
    """What came of the last button here: done, or why not."""
    fault, done = st.session_state.pop(f"{_FAULT}_{place}", ""), st.session_state.pop(f"{_DONE}_{place}", "")
    if fault:
        draw_fault("The history could not be changed.", fault)
    if done:
        st.success(done, icon=":material/check:")


def change(place: str, act: Callable[[Store], object], done: str) -> None:
    """Change the history, and take note of what came of it for the page to say."""
    try:
        with open_store() as store:
            result = act(store)
    except PolyKvError as bad:
        st.session_state[f"{_FAULT}_{place}"] = str(bad)
    else:
        st.session_state[f"{_DONE}_{place}"] = done.format(result)


def split(tags: str) -> list[str]:
    """Tags as they are typed, with commas between."""
    return [tag.strip() for tag in tags.split(",") if tag.strip()]


def where() -> str:
    """The history's file, as data to show."""
    return str(default_path())


def _keep(shown: Shown) -> None:
    # From the fields, not from when the button was drawn: a press may come together with what was typed last.
    receipt, tags, note = shown.receipt, split(st.session_state[_TAGS]), st.session_state[_NOTE]

    def save(store: Store) -> int:
        data = packed(shown.replayed.curve, receipt.config.candidate_ks)
        return store.save(receipt.to_json(), data, file_name=shown.source.file_name, tags=tags, note=note)

    change("keep", save, "Kept as run {}")


def _delete(number: int) -> None:
    st.session_state[_SELECTED] = [one for one in st.session_state.get(_SELECTED, []) if one != number]
    change("list", lambda store: store.delete([number]), f"Run {number} is deleted")


def _opened(run: Run) -> Opened:
    receipt = CapturedReplayReceipt.from_json(run.receipt_json)
    try:
        return Opened(run.summary, receipt, measured(receipt, run.measurement))
    except ReceiptError as bad:
        return Opened(run.summary, receipt, receipt.measurement, damage=str(bad))


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)
