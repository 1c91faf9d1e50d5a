"""The heads of a sweep, worst first, and the one among them that is looked at more closely."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from pages.ui import head_map, heads
from polykv_core import words
from polykv_core.canonical import sha256_of
from polykv_core.gates import GATES
from polykv_core.sweep.maps import HeadMap
from polykv_core.sweep.verdict import HeadVerdict, SweepVerdict

_MOST_HEIGHT = 430
_CHOSEN, _TABLES = "sweep_chosen", "sweep_tables"


def short(head: HeadVerdict) -> str:
    """A head's name within its file."""
    return head.item.head or head.name


def choose_on_map(key: str, shown: HeadMap) -> None:
    """The head whose square was clicked; a click beside them chooses nothing else."""
    points = st.session_state[key].selection.points
    if points:
        _choose(head_map.place_of(shown, points[0]["point_index"]))
        # A table anew, in which that head's row is marked: of the one that is there the marks cannot be moved.
        st.session_state[_TABLES] = st.session_state.get(_TABLES, 0) + 1


def chosen_name() -> str:
    """Which head was chosen; empty if none was."""
    return st.session_state.get(_CHOSEN) or ""


def draw(judged: SweepVerdict) -> None:
    """A row a head; a click chooses it. The row of the head that is chosen is marked, however the gates rank it."""
    ranked = judged.ranked
    chosen = [row for row, head in enumerate(ranked) if head.name == chosen_name()]
    # Marks are kept by number of row: in another order they would stand at other heads.
    order = sha256_of("\n".join(head.name for head in ranked).encode())
    key = f"sweep_list_{st.session_state.get(_TABLES, 0)}_{order}"
    st.dataframe(
        [_row(head) for head in ranked],
        hide_index=True,
        height=min(38 + 35 * len(ranked), _MOST_HEIGHT),
        on_select=partial(_choose_row, key, ranked),
        selection_mode="single-row",
        selection_default={"selection": {"rows": chosen, "columns": [], "cells": []}},
        key=key,
        column_config={
            "Margin (%)": st.column_config.NumberColumn(
                help="Of the worst gate's threshold; negative fails, higher is better.", format="compact"
            ),
            **{_heading(gate.metric): st.column_config.NumberColumn(format="%.4g") for gate in GATES},
        },
        alt="Every head, worst first",
    )


def draw_chosen(judged: SweepVerdict) -> None:
    """The head that was clicked, or the worst one, and the ways to it."""
    chosen = next((head for head in judged.heads if head.name == chosen_name()), None)
    head = chosen or judged.worst
    if head is None:
        return
    with st.container(border=True, key="sweep_head"):
        st.markdown("**The head you chose**" if chosen else "**The worst head**")
        st.text(short(head))
        if head.receipt is None:
            st.error("It has no verdict.", icon=":material/report:")
            st.text(head.error or "")
            return
        gate = head.worst_gate
        st.markdown(f"{words.marked(head.passed)} at k = {head.selected_k}")
        if gate is not None and gate.passed:
            st.caption(f"Its tightest gate is {gate.gate.label}, with {words.margin(gate, 4)}.")
        elif gate is not None:
            st.caption(words.blocker(gate))
        with st.container(horizontal=True):
            for label, page, icon in (
                ("Open in Replay", "pages/replay/page.py", ":material/monitoring:"),
                ("Open in Explain", "pages/explain/page.py", ":material/troubleshoot:"),
            ):
                if st.button(label, key=f"sweep_{page}", icon=icon, on_click=_put_on_screen, args=(head,)):
                    st.switch_page(page)


def _choose_row(key: str, ranked: Sequence[HeadVerdict]) -> None:
    rows = st.session_state[key].selection.rows
    _choose(ranked[rows[0]] if rows else None)


def _choose(head: HeadVerdict | None) -> None:
    """Look at this head; at None, at the worst one."""
    st.session_state[_CHOSEN] = head.name if head else None


def _put_on_screen(head: HeadVerdict) -> None:
    """Put the head on screen, on every page."""
    if head.item.head is not None:
        st.session_state[heads.HEAD] = head.item.head


def _row(head: HeadVerdict) -> dict[str, object]:
    gate, metrics = head.worst_gate, head.metrics
    return {
        "Head": short(head),
        "Verdict": "! no verdict" if head.receipt is None else words.marked(head.passed),
        "Worst gate": "" if gate is None else gate.gate.label,
        "Margin (%)": None if gate is None else 100 * gate.share,
        "Selected k": head.selected_k,
        "Smallest passing k": head.smallest_passing_k,
        **{_heading(gate.metric): None if metrics is None else getattr(metrics, gate.metric) for gate in GATES},
    }


def _heading(metric: str) -> str:
    return words.heading(words.METRIC_BY_NAME[metric])
