"""What a report shows of one fixture: every text, table and chart, ready to be laid out."""

import base64
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from polykv_core import why
from polykv_core.advice import reasons
from polykv_core.explain import Explanation
from polykv_core.exports import file_stem
from polykv_core.k_curve import KCurve
from polykv_core.measurement import CapturedMeasurement
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.report.bars import ladder_chart
from polykv_core.report.chart import metric_chart
from polykv_core.report.outcome import odd
from polykv_core.report.rows import Table, candidates_table, gates_table, queries_table, stages_table
from polykv_core.terminal import inert
from polykv_core.view import View, legend, views

DATA_LINK = "data:application/json;base64,"
_LADDERS = ("output_cosine_mean", "kl_divergence_mean")


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
    receipt, k_curve, explanation = part.receipt, KCurve(part.receipt, part.curve), part.explanation
    text = receipt.to_json()
    download = f"{file_stem(receipt.model_id, receipt.passed, part.curve.fixture_digest)}.json"
    stages = explanation.stages if explanation else ()
    of_all = list(filter(None, [" ".join(why.of_all(k_curve))]))
    return Page(
        anchor=anchor,
        name=inert(part.name),
        passed=receipt.passed,
        headline=why.headline(receipt),
        why=[why.reason(receipt), *(of_all if receipt.passed else [])],
        blockers=why.blockers(receipt),
        outlook=[] if receipt.passed else [why.outlook(receipt), *of_all],
        apart=[inert(text) for text in _apart(receipt)],
        facts=_facts(part),
        gates=gates_table(k_curve),
        legend=legend(every_k=k_curve.every_k),
        charts=[_chart(view, anchor) for view in views(k_curve)],
        reasons=list(reasons(explanation)) if explanation else [],
        ladders=[Chart("", "", ladder_chart(stages, name, f"{anchor}-ladder-{name}")) for name in _LADDERS if stages],
        stages=stages_table(stages) if stages else None,
        findings=[inert(finding.text) for finding in odd(receipt) or part.curve.findings],
        candidates=candidates_table(receipt),
        queries=queries_table(k_curve, explanation),
        boundary=inert(receipt.claim_boundary),
        commands=[inert(part.command), inert(shlex.join(["polykv", "verify", download, part.name]))],
        download=download,
        link=DATA_LINK + base64.b64encode(text.encode("utf-8")).decode("ascii"),
        receipt=_visible(text),
    )


def _chart(view: View, anchor: str) -> Chart:
    facts = ", ".join(filter(None, [view.statistic, view.rule, view.lost]))
    return Chart(view.label, facts, metric_chart(view, f"{anchor}-{view.metric.name}"), view.note)


def _apart(receipt: CapturedReplayReceipt) -> list[str]:
    """Which gates are off, and what keeps the verdict from being the reference's."""
    off = why.off(receipt)
    said = [f"{off}."] if off else []
    return [*said, *([f"Not as the reference replays: {'; '.join(receipt.departures)}."] if receipt.departures else [])]


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
