"""Runs held against the first of them: what became of the verdict and of each gate, paired query by query."""

from collections.abc import Sequence

import streamlit as st

from pages.ui import overlay, style
from pages.ui.kept_runs import Opened
from pages.ui.notices import draw_fault
from pages.ui.overlay import Line
from polykv_core import ACROSS, Comparison, Moved, PolyKvError, compare, words

_ONLY = {"All rows": "all", "Only differences": "differs", "Regressed": "regressed", "Fixed": "fixed", "Same": "same"}
_CHANGES = {
    "regressed": ":red[:material/trending_down:] regressed: it passed, and fails now",
    "fixed": ":green[:material/trending_up:] fixed: it failed, and passes now",
    "same": ":material/trending_flat: the same verdict",
}
_MARKS = {"regressed": "✕ regressed", "fixed": "✓ fixed"}


def draw(runs: Sequence[Opened]) -> None:
    """The comparison of two or more runs; where they are not comparable, the field that differs."""
    across = st.pills(
        "Differs on purpose",
        ACROSS,
        selection_mode="multi",
        key="compare_across",
        help="Runs with other options or another statistic are not comparable, unless just that is the question.",
    )
    only = st.segmented_control("Rows", list(_ONLY), default="All rows", key="compare_only") or "All rows"
    first, comparable = runs[0], [runs[0]]
    for other in runs[1:]:
        st.subheader(f"Run {other.summary.id} against run {first.summary.id}", anchor=False)
        try:
            comparison = compare(first.receipt, other.receipt, across)
        except PolyKvError as bad:
            draw_fault("They are not comparable.", str(bad))
        else:
            _draw_one(first, other, comparison, _ONLY[only])
            comparable.append(other)
    if len(comparable) > 1:
        _draw_charts(comparable)


def _draw_charts(runs: Sequence[Opened]) -> None:
    """The runs over every k that was kept, laid over each other."""
    lines = [Line(f"run {run.summary.id}", run.receipt, run.measurement) for run in runs[: overlay.MOST_RUNS]]
    if len(runs) > len(lines):
        st.caption(f"The charts show the first {len(lines)} runs.")
    with st.container(key=f"{style.SIDE_BY_SIDE}_overlay"):
        charts = overlay.overlays(lines)
        for start in range(0, len(charts), 2):
            for column, chart in zip(st.columns(2, gap="medium"), charts[start : start + 2], strict=False):
                column.plotly_chart(
                    chart.figure, key=f"overlay_{chart.metric}", alt=chart.alt, config={"displayModeBar": False}
                )


def _draw_one(first: Opened, other: Opened, comparison: Comparison, only: str) -> None:
    st.markdown(_CHANGES[comparison.change])
    versions = [run.measurement.made_with for run in (first, other)]
    if versions[0] != versions[1]:
        st.text(f"Made with other versions: {versions[0]} and {versions[1]}")
    rows = [
        _row(one, first, other)
        for one in (*comparison.selected, *comparison.at_ks)
        if only in ("all", one.change) or (only == "differs" and one.differs)
    ]
    if not rows:
        st.caption("No row is like that.")
        return
    with st.container(key=f"{style.FIRST_CELL_ABOVE}_4_compare_{other.summary.id}"):
        st.table(rows, border="horizontal", hide_index=True)
    st.caption(
        "The difference is that of the later run less the first, over the same queries; its 95 % interval is paired by "
        "query. Clearly: the interval does not hold 0. First the selected ks, then each k that both list."
    )


def _row(one: Moved, first: Opened, other: Opened) -> dict[str, str]:
    metric = one.after.gate.metric
    side = {None: "stays", True: "better", False: "worse"}[one.better]
    k = str(one.k_after) if one.k_before == one.k_after else f"{one.k_before} → {one.k_after}"
    return {
        "Gate": f"{words.named(metric, one.after.gate.label)} at {words.unbroken(f'k = {k}')}",
        f"Run {first.summary.id}": words.number(one.before.value),
        f"Run {other.summary.id}": words.number(one.after.value),
        "Difference": words.number(one.difference, 3),
        "95 % interval": words.span(one.interval),
        "Moved": f"{side}, clearly" if one.clear else side,
        "Verdict": f"{words.verb(one.before.passed)} in both" if one.change == "same" else _MARKS[one.change],
    }
