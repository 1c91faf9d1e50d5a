"""The verdict in words and tables. Texts that came with a fixture are data: st.text and st.code show them verbatim."""

from collections.abc import Sequence

import streamlit as st

from pages.ui import gates, style
from pages.ui.replayed import Source
from polykv_core import METRICS, CandidateReplayMetrics, Measurement, verdicts, why, words
from polykv_core.judged import Receipt
from polykv_core.k_curve import KCurve


def draw_headline(receipt: Receipt) -> None:
    """The verdict in one line, and which gates had no say in it."""
    mark = ":green[:material/check_circle:]" if receipt.passed else ":red[:material/cancel:]"
    st.title(f"{mark} {why.headline(receipt)}", anchor=False)
    off = why.off(receipt)
    if off:
        st.markdown(f":orange-badge[:material/toggle_off: {off}]")
    draw_apart(receipt)


def draw_apart(receipt: Receipt) -> None:
    """What keeps a verdict from being the reference's, if anything does."""
    if receipt.departures:
        st.markdown(f":material/tune: **Not as the reference replays:** {'; '.join(receipt.departures)}.")


def draw_reasons(receipt: Receipt, curve: Measurement) -> None:
    """What the verdict rests on, in sentences."""
    st.markdown(why.reason(receipt, _bold))
    if not receipt.passed:
        st.markdown("\n".join(f"- {blocker}" for blocker in why.blockers(receipt)))
        st.markdown(f"{why.outlook(receipt)} {gates.way_out(receipt)}")
    found, *warnings = why.of_all(KCurve(receipt, curve), _bold)
    st.markdown(" ".join([found, *(f":material/warning: {warning}" for warning in warnings)]))


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
    st.text(f"What is not claimed: {receipt.claim_boundary}.")  # a kept receipt may say anything


def _bold(k: int) -> str:
    return f"**{words.unbroken(why.plainly(k))}**"


def _candidate_row(candidate: CandidateReplayMetrics, receipt: Receipt) -> dict[str, str]:
    failing = {verdict.gate.metric for verdict in verdicts(candidate, receipt.config) if not verdict.passed}
    selected = " (selected)" if candidate.candidate_k == receipt.selected_candidate_k else ""
    row = {"k": f"{candidate.candidate_k}{selected}", "Verdict": words.marked(candidate.passed)}
    for metric in METRICS:
        mark = "✕ " if metric.name in failing else ""
        row[words.heading(metric)] = f"{mark}{words.number(getattr(candidate, metric.name))}"
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
