"""The heads of a sweep, worst first, and the one among them that is looked at more closely."""

from collections.abc import Sequence

import streamlit as st

from pages.ui import heads
from polykv_core import words
from polykv_core.gates import GATES
from polykv_core.sweep.verdict import HeadVerdict

_MOST_HEIGHT = 430


def short(head: HeadVerdict) -> str:
    """A head's name within its file."""
    return head.item.head or head.name


def draw(ranked: Sequence[HeadVerdict]) -> HeadVerdict | None:
    """A row a head; says which one was clicked."""
    event = st.dataframe(
        [_row(head) for head in ranked],
        hide_index=True,
        height=min(38 + 35 * len(ranked), _MOST_HEIGHT),
        on_select="rerun",
        selection_mode="single-row",
        key="sweep_list",
        column_config={
            "Margin (%)": st.column_config.NumberColumn(
                help="Of the worst gate's threshold; negative fails.", format="%.4g"
            ),
            **{_heading(gate.metric): st.column_config.NumberColumn(format="%.5g") for gate in GATES},
        },
        alt="Every head, worst first",
    )
    rows = event.selection.rows
    return ranked[rows[0]] if rows and rows[0] < len(ranked) else None


def draw_chosen(head: HeadVerdict) -> None:
    """The head that was clicked, or the worst one, and the ways to it."""
    with st.container(border=True, key="sweep_head"):
        st.markdown("**The head that was chosen, or the worst one**")
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
                if st.button(label, key=f"sweep_{page}", icon=icon, on_click=_choose, args=(head,)):
                    st.switch_page(page)


def _choose(head: HeadVerdict) -> None:
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
