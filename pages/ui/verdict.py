"""The verdict in words and tables. Texts that came with a fixture are data: st.text and st.code show them verbatim."""

import streamlit as st

from pages.ui import words
from pages.ui.state import Screen, Source
from polykv_core import (
    METRICS,
    CandidateReplayMetrics,
    CapturedReplayConfig,
    CapturedReplayFixture,
    CapturedReplayReceipt,
    GateVerdict,
    ReceiptError,
    verdicts,
)

_ARROWS = {"higher is better": "↑", "lower is better": "↓", "closer to 0 is better": "→0"}


def draw_refusals(screen: Screen) -> None:
    """Say what was not used and why, and what is on screen instead."""
    for refusal in screen.refusals:
        _draw_fault(f"{refusal.what} could not be used.", refusal.reason)
    if screen.refusals and screen.shown:
        st.text(f"Below is the last good result, for {screen.shown.source.name}.")


def draw_headline(receipt: CapturedReplayReceipt) -> None:
    """The verdict in one line."""
    if receipt.passed:
        st.title(f":green[:material/check_circle:] PASSED at k = {receipt.selected_candidate_k}", anchor=False)
    else:
        st.title(":red[:material/cancel:] FAILED at every candidate k", anchor=False)


def draw_reasons(receipt: CapturedReplayReceipt) -> None:
    """What the verdict rests on, in sentences."""
    k = words.unbroken(f"k = {receipt.selected_candidate_k}")
    if receipt.passed:
        st.markdown(f"**{k}** is the first candidate in the list that passes all gates. {_saving(receipt)}")
        return
    st.markdown(f"No candidate passes all gates. The receipt selects the last in the list, **{k}**, with its blockers:")
    st.markdown("\n".join(f"- {words.blocker(verdict)}" for verdict in _at_selected(receipt) if not verdict.passed))
    st.markdown(_outlook(receipt))


def draw_receipt(receipt: CapturedReplayReceipt, digest: str) -> None:
    """The button that downloads the receipt, byte for byte what the CLI writes."""
    payload = b""
    try:
        payload = receipt.to_json().encode()
    except ReceiptError as bad:
        _draw_fault("The receipt cannot be written.", str(bad))
    st.session_state["receipt"] = payload  # tests compare it; a button does not give its bytes away
    st.download_button(
        "Download receipt",
        payload,
        file_name=f"receipt-{digest.removeprefix('sha256:')[:12]}.json",
        mime="application/json",
        icon=":material/download:",
        key="download_receipt",
        disabled=not payload,
        on_click="ignore",
    )


def draw_fixture(source: Source, config: CapturedReplayConfig) -> None:
    """Which fixture this is, and what is odd about it though it was accepted."""
    with st.container(border=True, gap="xsmall"):
        st.markdown("**Fixture**")
        st.text(source.name)
        st.code(source.fixture.model_id, language=None, wrap_lines=True)
        for line in (source.shows, _facts(source.fixture), _past_the_end(source.fixture, config)):
            if line:
                st.caption(line)
        for warning in source.fixture.warnings:
            st.warning("The fixture was accepted with a warning:", icon=":material/warning:")
            st.text(warning)


def draw_gates(receipt: CapturedReplayReceipt) -> None:
    """Every gate at the selected k."""
    st.markdown(f"**Gates at k = {receipt.selected_candidate_k}**")
    st.table(
        [_gate_row(verdict) for verdict in _at_selected(receipt)],
        border="horizontal",
        hide_index=True,
        alt=f"The gates at k = {receipt.selected_candidate_k}",
    )


def draw_candidates(receipt: CapturedReplayReceipt) -> None:
    """Every candidate with every metric, in the order listed."""
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


def _draw_fault(what: str, reason: str) -> None:
    with st.container(border=True):
        st.error(what, icon=":material/report:")
        st.text(reason)


def _at_selected(receipt: CapturedReplayReceipt) -> tuple[GateVerdict, ...]:
    k = receipt.selected_candidate_k
    return verdicts(next(c for c in receipt.candidate_results if c.candidate_k == k), receipt.config)


def _saving(receipt: CapturedReplayReceipt) -> str:
    metrics = receipt.metrics
    fewer = words.with_unit(metrics.decode_reduction, "decode_reduction", digits=4)
    return f"It decodes {metrics.decoded_values_total} of {metrics.full_decode_value_count} value rows, {fewer} fewer."


def _outlook(receipt: CapturedReplayReceipt) -> str:
    """Whether another k of the list would do for some of the gates."""
    by_gate = zip(*(verdicts(candidate, receipt.config) for candidate in receipt.candidate_results), strict=True)
    hopeless = [gate[0].gate.label for gate in by_gate if not any(verdict.passed for verdict in gate)]
    if not hopeless:
        return "Every gate passes at some candidate, but no candidate passes them all."
    fail = "fails" if len(hopeless) == 1 else "fail"
    return f"At every candidate {words.listed(hopeless)} {fail}: no other k of the list helps there."


def _gate_row(verdict: GateVerdict) -> dict[str, str]:
    asked_for = f"{words.at_bound(verdict.gate)} {words.number(verdict.threshold)}"
    return {
        "Gate": words.named(verdict.gate.metric, verdict.gate.label),
        "Value": words.number(verdict.value),
        "Asked for": words.unbroken(asked_for),
        "Margin": words.unbroken(words.margin(verdict)),
        "Verdict": words.unbroken(words.marked(verdict.passed)),
    }


def _candidate_row(candidate: CandidateReplayMetrics, receipt: CapturedReplayReceipt) -> dict[str, str]:
    failing = {verdict.gate.metric for verdict in verdicts(candidate, receipt.config) if not verdict.passed}
    selected = " (selected)" if candidate.candidate_k == receipt.selected_candidate_k else ""
    row = {"k": f"{candidate.candidate_k}{selected}", "Verdict": words.marked(candidate.passed)}
    for metric in METRICS:
        mark = "✕ " if metric.name in failing else ""
        heading = f"{words.named(metric.name, metric.label)} {_ARROWS[metric.direction]}"
        row[heading] = f"{mark}{words.number(getattr(candidate, metric.name))}"
    row["Value rows decoded"] = f"{candidate.decoded_values_total} of {candidate.full_decode_value_count}"
    return {heading: words.unbroken(text) for heading, text in row.items()}


def _facts(fixture: CapturedReplayFixture) -> str:
    rows = [query.row_count for query in fixture.queries]
    span = f"{min(rows)} rows" if min(rows) == max(rows) else f"{min(rows)} to {max(rows)} rows"
    return (
        f"It has {len(rows)} queries with {span} each, {fixture.shared_tokens} of them in the shared pool, "
        f"{fixture.head_dim} dimensions, a projection to {len(fixture.output_projection)} tokens, "
        f"and seed {fixture.seed}."
    )


def _past_the_end(fixture: CapturedReplayFixture, config: CapturedReplayConfig) -> str:
    """A sentence on the ks that are larger than the rows there are, or nothing."""
    fewest = min(query.row_count for query in fixture.queries)
    past = [str(k) for k in sorted(set(config.candidate_ks)) if k > fewest]
    return f"Some queries have fewer rows than k = {words.listed(past)}; of those every row is read." if past else ""
