"""The verdict in words and tables. Texts that came with a fixture are data: st.text and st.code show them verbatim."""

from collections.abc import Sequence

import streamlit as st

from pages.ui import gates, style, words
from pages.ui.replayed import Source
from pages.ui.sweep import Receipt
from polykv_core import METRICS, CandidateReplayMetrics, Measurement, passing, smallest_passing_k, verdicts

_ARROWS = {"higher is better": "↑", "lower is better": "↓", "closer to 0 is better": "→0"}


def draw_headline(receipt: Receipt) -> None:
    """The verdict in one line, and which gates had no say in it."""
    if receipt.passed:
        st.title(f":green[:material/check_circle:] PASSED at k = {receipt.selected_candidate_k}", anchor=False)
    else:
        st.title(":red[:material/cancel:] FAILED at every candidate k", anchor=False)
    off = gates.off(receipt)
    if off:
        which = f"{words.listed(off)} {'is' if len(off) == 1 else 'are'} off and cannot fail"
        st.markdown(f":orange-badge[:material/toggle_off: {which}]")
    draw_apart(receipt)


def draw_apart(receipt: Receipt) -> None:
    """What keeps a verdict from being the reference's, if anything does."""
    if receipt.departures:
        st.markdown(f":material/tune: **Not as the reference replays:** {'; '.join(receipt.departures)}.")


def draw_reasons(receipt: Receipt, curve: Measurement) -> None:
    """What the verdict rests on, in sentences."""
    k = words.unbroken(f"k = {receipt.selected_candidate_k}")
    if receipt.passed:
        first = f"**{k}** is the first candidate in the list that passes all gates. {_saving(receipt)}"
        st.markdown(" ".join(filter(None, [first, _order(receipt), gates.tightest(receipt)])))
    else:
        st.markdown(
            f"No candidate passes all gates. The receipt selects the last in the list, **{k}**, with its blockers:"
        )
        failed = [verdict for verdict in gates.at_selected(receipt) if not verdict.passed]
        st.markdown("\n".join(f"- {words.blocker(verdict)}" for verdict in failed))
        st.markdown(f"{_outlook(receipt)} {gates.way_out(receipt)}")
    st.markdown(_of_all(receipt, curve))


def draw_fixture(source: Source, ks: Sequence[int]) -> None:
    """Which fixture this is, and what is odd about it though it was accepted."""
    with st.container(border=True, gap="xsmall"):
        st.markdown("**Fixture**")
        st.text(source.name)
        st.code(source.model_id, language=None, wrap_lines=True)
        for line in (source.shows, _facts(source), _past_the_end(source, ks)):
            if line:
                st.caption(line)
        for warning in source.warnings:
            st.warning("The fixture was accepted with a warning:", icon=":material/warning:")
            st.text(warning)


def draw_candidates(receipt: Receipt) -> None:
    """Every candidate with every metric, in the order listed."""
    with st.container(key=style.TURNED):
        st.table(
            [_candidate_row(candidate, receipt) for candidate in receipt.candidate_results],
            border="horizontal",
            hide_index=True,
            alt="All candidates with their metrics",
        )
    st.caption(
        "↑ higher is better, ↓ lower is better, →0 closer to 0 is better; ✕ before a number: it fails its gate. "
        "The PPL proxy is a perplexity over the captured tokens only."
    )
    st.caption(f"What is not claimed: {receipt.claim_boundary}.")


def _saving(receipt: Receipt) -> str:
    metrics = receipt.metrics
    if metrics.decoded_values_total == metrics.full_decode_value_count:
        return f"It decodes all {metrics.full_decode_value_count} value rows: nothing is saved."
    fewer = words.with_unit(metrics.decode_reduction, "decode_reduction", digits=4)
    return f"It decodes {metrics.decoded_values_total} of {metrics.full_decode_value_count} value rows, {fewer} fewer."


def _order(receipt: Receipt) -> str:
    """Where a smaller k passes as well but stands later in the list, a sentence that says so."""
    selected = receipt.selected_candidate_k
    smaller = [c.candidate_k for c in receipt.candidate_results if c.passed and c.candidate_k < selected]
    if not smaller:
        return ""
    return f"The order decided: {selected} is listed before {min(smaller)}, which passes as well."


def _of_all(receipt: Receipt, curve: Measurement) -> str:
    """Which of all ks pass, in the list or not."""
    every = f"Of all k from 1 to {curve.candidate_ks[-1]}"
    smallest = smallest_passing_k(curve, receipt.config)
    if smallest is None:
        return f"{every}, none passes."
    found = f"{every}, the smallest that passes is **{words.unbroken(f'k = {smallest}')}**"
    judged = zip(curve.candidate_ks, passing(curve, receipt.config), strict=True)
    failing = [k for k, passes in judged if k > smallest and not passes]
    if not failing:
        return f"{found}; every larger one passes too." if smallest < curve.candidate_ks[-1] else f"{found}."
    fail = "fails" if len(failing) == 1 else "fail"
    return (
        f"{found}. :material/warning: Larger is not always better: of the {curve.candidate_ks[-1] - smallest} larger "
        f"ones {len(failing)} {fail}, the first at {words.unbroken(f'k = {failing[0]}')}."
    )


def _outlook(receipt: Receipt) -> str:
    """Whether another k of the list would do for some of the gates."""
    by_gate = zip(*(verdicts(candidate, receipt.config) for candidate in receipt.candidate_results), strict=True)
    hopeless = [gate[0].gate.label for gate in by_gate if not any(verdict.passed for verdict in gate)]
    if not hopeless:
        return "Every gate passes at some candidate, but no candidate passes them all."
    fail = "fails" if len(hopeless) == 1 else "fail"
    return f"At every candidate {words.listed(hopeless)} {fail}: no other k of the list helps there."


def _candidate_row(candidate: CandidateReplayMetrics, receipt: Receipt) -> dict[str, str]:
    failing = {verdict.gate.metric for verdict in verdicts(candidate, receipt.config) if not verdict.passed}
    selected = " (selected)" if candidate.candidate_k == receipt.selected_candidate_k else ""
    row = {"k": f"{candidate.candidate_k}{selected}", "Verdict": words.marked(candidate.passed)}
    for metric in METRICS:
        mark = "✕ " if metric.name in failing else ""
        heading = f"{words.named(metric.name, metric.label)} {_ARROWS[metric.direction]}"
        row[heading] = f"{mark}{words.number(getattr(candidate, metric.name))}"
    row["Value rows decoded"] = f"{candidate.decoded_values_total} of {candidate.full_decode_value_count}"
    return {heading: words.unbroken(text) for heading, text in row.items()}


def _facts(source: Source) -> str:
    fewest, most = min(source.rows), max(source.rows)
    ragged = f"{fewest} to {most} rows each (ragged: beyond k = {fewest} the shorter ones are read whole)"
    span = f"{fewest} rows each" if fewest == most else ragged
    return (
        f"It has {len(source.rows)} queries with {span}, {source.shared_tokens} of them in the shared pool, "
        f"{source.head_dim} dimensions, a projection to {source.vocab} tokens, and seed {source.seed}."
    )


def _past_the_end(source: Source, ks: Sequence[int]) -> str:
    """A sentence on the ks that are larger than the rows there are, or nothing."""
    past = [str(k) for k in sorted(set(ks)) if k > min(source.rows)]
    return f"Some queries have fewer rows than k = {words.listed(past)}; of those every row is read." if past else ""
