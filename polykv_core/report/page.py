"""What a report shows of one fixture: every text, table and chart, ready to be laid out."""

import base64
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from polykv_core.advice import reasons
from polykv_core.explain import Explanation
from polykv_core.exports import file_stem
from polykv_core.measurement import CapturedMeasurement
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.report import words
from polykv_core.report.bars import ladder_chart
from polykv_core.report.chart import metric_chart
from polykv_core.report.outcome import findings
from polykv_core.report.rows import Table, candidates_table, gates_table, queries_table, stages_table
from polykv_core.report.sweep import Sweep, View
from polykv_core.report.why import apart, blockers, headline, outlook, reasons_for
from polykv_core.terminal import inert

DATA_LINK = "data:application/json;base64,"
CHARTED = (
    "output_cosine_mean",
    "output_mse_mean",
    "kl_divergence_mean",
    "decode_reduction",
    "top1_agreement",
    "ppl_proxy_delta",
)
_LADDERS = ("output_cosine_mean", "kl_divergence_mean")
_LEGEND = (
    "On it: ● candidate that passes all gates, ✕ candidate that fails at least one, ◯ selected{smallest}. ▾ on the "
    "floor: 0. Shaded: the failing side of the gate."
)


@dataclass(frozen=True)
class ReportPart:
    """A fixture in a report.

    `curve` is measured at every k, or at least at the candidates; `explanation` is that of the selected k; `command` is
    the shell command that gives the same receipt.
    """

    name: str
    receipt: CapturedReplayReceipt
    curve: CapturedMeasurement
    explanation: Explanation | None
    command: str


@dataclass(frozen=True)
class Chart:
    """A chart with its heading, what there is to say in short, and a warning or nothing. `svg` is markup."""

    heading: str
    facts: str
    svg: str
    note: str = ""


@dataclass(frozen=True)
class Page:
    """A part of the report as it is laid out. All texts are plain, but for the charts."""

    anchor: str
    name: str
    passed: bool
    headline: str
    why: list[str]
    blockers: list[str]
    outlook: list[str]
    apart: list[str]
    facts: list[tuple[str, str]]
    gates: Table
    legend: str
    charts: list[Chart]
    reasons: list[str]
    ladders: list[Chart]
    stages: Table | None
    findings: list[str]
    candidates: Table
    queries: Table
    boundary: str
    commands: list[str]
    download: str
    link: str
    receipt: str


def page_of(part: ReportPart, anchor: str) -> Page:
    """Everything about a part; `anchor` is unique in the report. Raises ReceiptError for what no receipt may hold."""
    receipt, sweep, explanation = part.receipt, Sweep(part.receipt, part.curve), part.explanation
    text = receipt.to_json()
    download = f"{file_stem(receipt.model_id, receipt.passed, part.curve.fixture_digest)}.json"
    stages = explanation.stages if explanation else ()
    return Page(
        anchor=anchor,
        name=inert(part.name),
        passed=receipt.passed,
        headline=headline(receipt),
        why=reasons_for(sweep),
        blockers=blockers(receipt),
        outlook=outlook(sweep),
        apart=[inert(text) for text in apart(receipt)],
        facts=_facts(part),
        gates=gates_table(sweep),
        legend=_legend(sweep),
        charts=[_chart(View(sweep, words.METRIC_BY_NAME[name]), f"{anchor}-{name}") for name in CHARTED],
        reasons=list(reasons(explanation)) if explanation else [],
        ladders=[Chart("", "", ladder_chart(stages, name, f"{anchor}-ladder-{name}")) for name in _LADDERS if stages],
        stages=stages_table(stages) if stages else None,
        findings=[inert(text) for text in findings(receipt) or [finding.text for finding in part.curve.findings]],
        candidates=candidates_table(receipt),
        queries=queries_table(sweep, explanation),
        boundary=inert(receipt.claim_boundary),
        commands=[inert(part.command), inert(shlex.join(["polykv", "verify", download, part.name]))],
        download=download,
        link=DATA_LINK + base64.b64encode(text.encode("utf-8")).decode("ascii"),
        receipt=_visible(text),
    )


def _chart(view: View, identity: str) -> Chart:
    lost = [str(point.candidate.candidate_k) for point in view.points if not point.value < float("inf")]
    statistic = view.sweep.receipt.config.statistic
    facts = [words.STATISTICS[statistic]] if statistic != "mean" and view.metric.per_query else []
    facts += [view.rule, *([f"not finite at k = {words.listed(lost)}"] if lost else [])]
    return Chart(view.label, ", ".join(facts), metric_chart(view, identity), view.note)


def _legend(sweep: Sweep) -> str:
    line = "The line is every k." if sweep.every_k else "The line joins the ks that were measured."
    return f"{line} {_LEGEND.format(smallest=', ◇ smallest k of all that passes' * sweep.every_k)}"


def _facts(part: ReportPart) -> list[tuple[str, str]]:
    """Which fixture it was, and what measured it."""
    fixture, curve, made = part.curve.fixture, part.curve, part.curve.made_with
    fewest, most = int(curve.queries.rows.min()), int(curve.queries.rows.max())
    rows = f"{fewest} rows each" if fewest == most else f"{fewest} to {most} rows (ragged)"
    return [
        ("Fixture", inert(part.name)),
        ("Model", inert(part.receipt.model_id)),
        ("Queries", f"{curve.query_count}, {rows}, {fixture.shared_tokens} of them in the shared pool"),
        ("Head", f"{fixture.head_dim} dimensions, projected to {fixture.vocab} tokens; seed {fixture.seed}"),
        ("Fixture digest", inert(fixture.digest)),
        *([("File digest", inert(fixture.file_digest))] if fixture.file_digest else []),
        *([("Receipt digest", inert(part.receipt.digest))] if part.receipt.digest else []),
        ("Schema", inert(part.receipt.schema_version)),
        ("Made with", inert(f"polykv {made.polykv}, Python {made.python}, NumPy {made.numpy}")),
    ]


def _visible(text: str) -> str:
    """JSON text with every character that cannot be seen, or moves others, as JSON's own escape: it reads the same."""
    return re.sub(r"[^\n]", lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


def anchors(parts: Sequence[ReportPart]) -> list[str]:
    """A name for each part in the page's addresses."""
    return [f"fixture-{index}" for index, _ in enumerate(parts, start=1)]
