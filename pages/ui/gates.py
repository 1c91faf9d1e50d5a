"""Every gate at the selected k, the nearest move of it that would change something, and gates made from a result."""

from dataclasses import replace

import streamlit as st

from pages.ui import settings, style
from polykv_core import (
    RESAMPLES,
    Flip,
    Gate,
    GateVerdict,
    Interval,
    Measurement,
    intervals,
    just_passing,
    nearest_flip,
    words,
)
from polykv_core.judged import Receipt, gates_at_selected


def draw(receipt: Receipt, curve: Measurement) -> None:
    """The table of gates, with the button that makes gates from a candidate."""
    selected = curve.queries.at(curve.index_of(receipt.selected_candidate_k))
    found = intervals(selected, receipt.config.statistic)
    with st.container(horizontal=True, vertical_alignment="center", key="gates_table_heading"):
        st.markdown(f"**Gates at k = {receipt.selected_candidate_k}**")
        _draw_from_result(receipt)
    with st.container(key=style.LAST_CELL_BELOW):
        st.table(
            [_row(verdict, receipt, found.get(verdict.gate.metric)) for verdict in gates_at_selected(receipt)],
            border="horizontal",
            hide_index=True,
            alt=f"The gates at k = {receipt.selected_candidate_k}",
        )
    if found:
        st.caption(
            f"95 % interval: where the metric would lie with other queries, by {RESAMPLES} resamples of these "
            f"{curve.query_count}. Where it reaches across its gate, the verdict is uncertain."
        )


def way_out(receipt: Receipt) -> str:
    """What would make a failed replay pass, as a sentence."""
    for verdict in gates_at_selected(receipt):
        flip = nearest_flip(receipt.candidate_results, receipt.config, verdict.gate)
        if flip is not None:
            return f"One move would do: with {verdict.gate.label}, {flip_in_words(verdict, receipt)}."
    return "No single gate, moved, makes a candidate pass; **Gates from this result** moves them all."


def _draw_from_result(receipt: Receipt) -> None:
    by_k = {result.candidate_k: result for result in receipt.candidate_results if settings.can_apply(result)}
    if not by_k:
        return
    with st.popover("Gates from this result", icon=":material/tune:"):
        st.caption("Sets every gate to the value of one candidate, so that it just passes.")
        selected = list(by_k).index(receipt.selected_candidate_k) if receipt.selected_candidate_k in by_k else 0
        k = st.selectbox("Candidate k", list(by_k), index=selected, key="preset_k")
        st.button("Set the gates", key="apply_result", on_click=settings.apply_result, args=(by_k[k],))


def _row(verdict: GateVerdict, receipt: Receipt, interval: Interval | None) -> dict[str, str]:
    return {
        "Gate": words.named(verdict.gate.metric, verdict.gate.label),
        "Value": words.told_apart(verdict.value, verdict.threshold, digits=6),
        "Asked for": words.asked_for(verdict),
        "Margin": "" if verdict.off else words.margin(verdict),
        "95 % interval": words.span(interval),
        "Verdict": words.judged(verdict, interval),
        "Nearest flip": flip_in_words(verdict, receipt),
    }


def flip_in_words(verdict: GateVerdict, receipt: Receipt) -> str:
    """The smallest move of a gate that changes what becomes of a candidate, as a sentence."""
    gate = verdict.gate
    flip = nearest_flip(receipt.candidate_results, receipt.config, gate)
    if flip is None:
        return "none alone: other gates fail too"
    k = words.unbroken(f"k = {flip.candidate_k}")
    if not flip.passes and flip.candidate_k != receipt.selected_candidate_k:
        k += " (not selected)"
    looser, tighter = ("lowering", "raising") if gate.side == "min" else ("raising", "lowering")
    if flip.passes:
        return f"{looser} it to {words.number(flip.threshold)} would pass {k}"
    beyond = f"{'above' if gate.side == 'min' else 'below'} {words.number(_surely_tighter(flip, gate))}"
    return f"set {beyond} it would fail {k}" if verdict.off else f"{tighter} it {beyond} would fail {k}"


def _surely_tighter(flip: Flip, gate: Gate) -> float:
    """The flip's threshold with few digits, rounded such that whatever is beyond it fails."""
    return just_passing(flip.threshold, replace(gate, side="max" if gate.side == "min" else "min"))
