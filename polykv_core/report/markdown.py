"""Outcomes as Markdown that fits a comment on a pull request, on GitHub and GitLab alike."""

import math
from collections.abc import Iterator, Sequence

from polykv_core import judged, words
from polykv_core.gates import GATES, CandidateReplayMetrics, verdicts
from polykv_core.judged import distinct, gates_at_selected, tightest
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.report.inline import in_html, prose, quoted
from polykv_core.report.outcome import Outcome, odd, passed, sentence, told

_WORDS = {True: "✅ PASSED", False: "❌ FAILED", None: "⚠️ NO VERDICT"}
_MOST = 58_000  # characters; GitHub takes 65,536
_TABLE, _END = 40_000, 2_000  # of these at most for the table and for the end, so that some details have room too
_HEADS = ("Fixture", "Verdict", "k", "Worst gate", "Value", "Asked for", "Margin", "Decode reduction")
_TEXTS = ("Fixture", "Verdict", "Worst gate", "Asked for")


def markdown_summary(outcomes: Sequence[Outcome]) -> str:
    """The verdict, a table with a row a fixture, and details to unfold; below 60,000 characters, come what may.

    Fixtures without a verdict stand first, then those that fail. What does not fit is left out from the end, and said.
    """
    ordered = sorted(outcomes, key=_gravity)
    rows = list(_within(_TABLE, map(_row, ordered)))
    page = [f"## {_WORDS[passed(outcomes)]}", sentence(outcomes, quoted)]
    if rows:
        page.append(_table(_HEADS, rows))
    boundaries = dict.fromkeys(outcome.receipt.claim_boundary for outcome in outcomes if outcome.receipt)
    end = list(_within(_END, (f"What is not claimed: {prose(boundary)}." for boundary in boundaries)))
    detailed = [outcome for outcome in ordered if outcome.receipt]
    room = _MOST - sum(map(len, [*page, *end]))
    details = list(_within(room, (_details(outcome, outcome.receipt) for outcome in detailed if outcome.receipt)))
    left_out = _left_out(len(ordered) - len(rows), len(detailed) - len(details))
    return "\n\n".join([*page, *details, *left_out, *end]) + "\n"


def _gravity(outcome: Outcome) -> int:
    return 0 if outcome.receipt is None else 1 + outcome.receipt.passed


def _within(room: int, texts: Iterator[str]) -> Iterator[str]:
    """The texts as long as there is room for them."""
    for text in texts:
        room -= len(text) + 2
        if room < 0:
            return
        yield text


def _left_out(rows: int, details: int) -> list[str]:
    lost = [f"{rows} rows of the table"] if rows else []
    lost += [f"the details of {details} fixture{'s' * (details > 1)}"] if details else []
    return [f"Left out, for a comment holds no more: {words.listed(lost)}."] if lost else []


def _row(outcome: Outcome) -> str:
    receipt = outcome.receipt
    if receipt is None:
        why = quoted(outcome.error) if outcome.error else ""
        return _line([quoted(outcome.name), _WORDS[None], "", why, *[""] * (len(_HEADS) - 4)])
    verdict = tightest(receipt)
    gate = ["every gate is off", "", "", ""]
    if verdict:
        value = words.told_apart(verdict.value, verdict.threshold)
        label = f"{verdict.gate.label}{words.over_queries(verdict.statistic)}"
        unit = words.after(verdict.gate.metric) if math.isfinite(verdict.value) else ""
        gate = [label, f"{value}{unit}", words.asked_for(verdict), words.margin(verdict, 4)]
    reduction = words.with_unit(receipt.metrics.decode_reduction, "decode_reduction", 4)
    cells = [quoted(outcome.name), _WORDS[receipt.passed], str(receipt.selected_candidate_k), *gate, reduction]
    return _line(cells)


def _details(outcome: Outcome, receipt: CapturedReplayReceipt) -> str:
    mark = "✓" if receipt.passed else "✕"
    return "\n\n".join(
        [
            f"<details>\n<summary>{mark} <code>{in_html(outcome.name)}</code></summary>",
            f"Model {quoted(receipt.model_id)}",
            _candidates(receipt),
            "✕: fails its gate.",
            *([f"Relative gates: at most {quoted(outcome.relative)}."] if outcome.relative else []),
            *_said(receipt),
            "</details>",
        ]
    )


def _said(receipt: CapturedReplayReceipt) -> Iterator[str]:
    """Why it fails, what is not as usual, what is odd, and which fixture it was."""
    blockers = [f"- {words.blocker(verdict)}" for verdict in judged.blockers(receipt)]
    if blockers:
        yield "\n".join([f"Blockers at k = {receipt.selected_candidate_k}, the last listed:", "", *blockers])
    off = judged.off(receipt)
    if off:
        yield f"Switched off: {words.listed(off)}."
    if receipt.departures:
        yield "\n".join(["Not as the reference replays:", "", *(f"- {prose(text)}" for text in receipt.departures)])
    found = odd(receipt)
    if found:
        yield "\n".join(["What is odd about it:", "", *(f"- {prose(finding.text)}" for finding in found)])
    digests = {"Fixture": told(receipt, "fixture", "digest"), "Receipt": receipt.digest}
    known = [f"{kind} {quoted(digest)}" for kind, digest in digests.items() if isinstance(digest, str)]
    if known:
        yield "<br>".join(known)


def _candidates(receipt: CapturedReplayReceipt) -> str:
    heads = ["k"]
    for gate, verdict in zip(GATES, gates_at_selected(receipt), strict=True):
        heads.append(f"{words.named(gate.metric, gate.label)} {words.asked_for(verdict)}")
    heads += ["Decode reduction", "Verdict"]
    return _table(heads, [_candidate(candidate, receipt) for candidate in distinct(receipt)])


def _candidate(candidate: CandidateReplayMetrics, receipt: CapturedReplayReceipt) -> str:
    selected = " (selected)" if candidate.candidate_k == receipt.selected_candidate_k else ""
    cells = [
        f"{'' if v.passed else '✕ '}{words.told_apart(v.value, v.threshold, 5)}"
        for v in verdicts(candidate, receipt.config)
    ]
    reduction = words.with_unit(candidate.decode_reduction, "decode_reduction", 4)
    return _line([f"{candidate.candidate_k}{selected}", *cells, reduction, words.marked(candidate.passed)])


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    return "\n".join([_line(heads), _line(["---" if head in _TEXTS else "---:" for head in heads]), *rows])


def _line(cells: Sequence[str]) -> str:
    """A row of a table; a bar, even in a code span, would end its cell."""
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"
