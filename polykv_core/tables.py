"""Verdicts as tables for a terminal: words and signs carry the meaning, colour only repeats it."""

import io
import math
import sys
from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from polykv_core.advice import Change, reasons
from polykv_core.explain import Explanation, Stage
from polykv_core.gates import CandidateReplayMetrics, GateVerdict, first_passing, verdicts
from polykv_core.health import Finding
from polykv_core.metrics import METRICS
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayReceipt
from polykv_core.statistics import head_statistics
from polykv_core.terminal import wrapped

Receipt = CapturedReplayReceipt | ModelReplayReceipt

_UNITS = {metric.name: metric.unit for metric in METRICS}
_WIDE = 1000
_EXPLAINED = {
    "output_cosine_mean": "Cosine",
    "output_mse_mean": "MSE",
    "kl_divergence_mean": "KL (nats)",
    "ppl_proxy_delta": "PPL delta",
    "top1_agreement": "Top-1",
}
_FOOTNOTE = """
k: rows read for each query, best score first. Decode reduction: value rows
there are / value rows read. ! fails its gate; equality passes. Margin: how far
inside its threshold a value is. """
_UNSCALED = "Scores are not divided by sqrt(head_dim)."


def receipt_text(receipt: Receipt) -> str:
    """The verdict in words, a row for each candidate k, and the gates at the selected k."""
    selected = first_passing(receipt.candidate_results)
    return rendered(
        _verdict_line(receipt),
        Text(),
        _candidates_table(receipt),
        Text(),
        Text(f"Gates at k = {selected.candidate_k}"),
        _gates_table(verdicts(selected, receipt.config)),
        Text(_FOOTNOTE + ("" if "attention_scale" in receipt.options.changed else _UNSCALED), style="dim"),
        *_apart(receipt),
    )


def explanation_text(explanation: Explanation, changes: Sequence[Change]) -> str:
    """Reasons, the ladder, what would help, what is odd, and the statistics."""
    return rendered(
        Text(f"Where the fidelity goes at k = {explanation.candidate_k}", style="bold"),
        *(prose(f"{index}. ", reason) for index, reason in enumerate(reasons(explanation), start=1)),
        Text("\nThe loss ladder: each row makes one more step as the replay does", style="bold"),
        _stages_table(explanation.stages),
        Text("\nOne step at a time, all else exact, every row read unless selected", style="bold"),
        _stages_table(explanation.alone),
        Text("\nControls: exact attention with the fitted scale, over random rows, over the last rows", style="bold"),
        _stages_table(explanation.controls),
        Text("\nWhat would help: one change at a time", style="bold"),
        _changes_table(changes),
        Text("\nWhat is odd about this fixture or replay", style="bold"),
        *(prose("- ", finding.text) for finding in explanation.findings or (Finding("", "Nothing."),)),
        Text(),
        Text("\n".join(head_statistics(explanation.queries, 0).lines())),
    )


def rendered(*parts: RenderableType) -> str:
    """What a console would print; with colour only where standard output is a terminal.

    As wide as the content needs, below 80 columns for usual numbers: a folded number is worse than a long line.
    """
    page = io.StringIO()
    colour = True if sys.stdout and sys.stdout.isatty() else None  # None leaves it to rich, which knows FORCE_COLOR
    console = Console(file=page, force_terminal=colour, width=_WIDE, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in page.getvalue().splitlines())


def number(value: float, digits: int = 5, sign: str = "") -> str:
    """A number with so many significant digits, scientific below 1e-4; `sign` "+" writes a plus as well."""
    if math.isnan(value):
        return "NaN"
    return f"{value:{sign}#.{digits}g}".rstrip(".") if value else "0"


def _verdict_line(receipt: Receipt) -> Text:
    k = receipt.selected_candidate_k
    if receipt.passed:
        return Text(f"PASSED at k = {k}", style="bold green")
    return Text(f"FAILED: no k passes; last listed k = {k}", style="bold red")


def _candidates_table(receipt: Receipt) -> Table:
    """A row for each candidate, in the order listed; a column's head says what passes."""
    table = plain_table()
    table.add_column("k", justify="right")
    for verdict in verdicts(receipt.candidate_results[0], receipt.config):
        sign = ">=" if verdict.gate.side == "min" else "<="
        head = [*_label(verdict).split(), "off" if verdict.off else f"{sign} {verdict.threshold:.5g}"]
        table.add_column("\n".join(head), justify="right", vertical="bottom")
    table.add_column("Decode\nreduction", justify="right", vertical="bottom")
    table.add_column("Verdict", vertical="bottom")
    for candidate in receipt.candidate_results:
        table.add_row(*_candidate_row(candidate, verdicts(candidate, receipt.config)))
    return table


def _candidate_row(candidate: CandidateReplayMetrics, judged: tuple[GateVerdict, ...]) -> list[Text]:
    values = [Text(number(v.value)) if v.passed else Text(f"!{number(v.value)}", style="red") for v in judged]
    return [
        Text(str(candidate.candidate_k)),
        *values,
        Text(f"{number(candidate.decode_reduction)}x"),
        word(candidate.passed),
    ]


def _gates_table(judged: tuple[GateVerdict, ...]) -> Table:
    table = plain_table()
    for head in ("Gate", "Value", "Threshold", "Margin", "Verdict"):
        table.add_column(head, justify="right" if head in ("Value", "Margin") else "left")
    for verdict in judged:
        bound = "at least" if verdict.gate.side == "min" else "at most"
        table.add_row(
            _label(verdict),
            number(verdict.value, digits=7),
            "none" if verdict.off else f"{bound} {verdict.threshold!r}",
            "" if verdict.off else number(verdict.margin, sign="+"),
            Text("off") if verdict.off else word(verdict.passed),
        )
    return table


def prose(start: str, text: str) -> Text:
    """Sentences in lines of a terminal's usual width."""
    return Text(wrapped(start, text))


def _apart(receipt: Receipt) -> list[Text]:
    """What keeps a verdict from being the reference's, if anything does."""
    apart = receipt.departures
    return [prose("", f"Not as the reference replays: {'; '.join(apart)}.")] if apart else []


def _stages_table(stages: Sequence[Stage]) -> Table:
    table = plain_table()
    for head in ("Stage", *_EXPLAINED.values(), "Cosine lost", "KL added"):
        table.add_column(head, justify="left" if head == "Stage" else "right")
    for stage in stages:
        added = [stage.added[name] for name in ("output_cosine_mean", "kl_divergence_mean")]
        table.add_row(stage.name, *_explained(stage.metrics), *(number(value, sign="+") for value in added))
    return table


def _changes_table(changes: Sequence[Change]) -> Table:
    table = plain_table()
    for head in ("Change", *_EXPLAINED.values()):
        table.add_column(head, justify="left" if head == "Change" else "right")
    for change in changes:
        table.add_row(change.name, *_explained(change.metrics))
    return table


def _explained(candidate: CandidateReplayMetrics) -> list[str]:
    return [number(getattr(candidate, name)) for name in _EXPLAINED]


def _label(verdict: GateVerdict) -> str:
    unit = _UNITS[verdict.gate.metric]
    return f"{verdict.gate.label} ({unit})" if unit else verdict.gate.label


def word(passed: bool) -> Text:
    """A verdict as a word."""
    return Text("pass", style="green") if passed else Text("FAIL", style="bold red")


def plain_table() -> Table:
    """A table with no lines, its columns apart."""
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
