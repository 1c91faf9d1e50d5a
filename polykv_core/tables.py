"""Verdicts as tables for a terminal: words and signs carry the meaning, colour only repeats it."""

import math

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from polykv_core.gates import CandidateReplayMetrics, GateVerdict, first_passing, verdicts
from polykv_core.metrics import METRICS
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayReceipt

Receipt = CapturedReplayReceipt | ModelReplayReceipt

_UNITS = {metric.name: metric.unit for metric in METRICS}
_FOOTNOTE = (
    "! fails its gate; equality passes. Margin: distance to the threshold, negative where the gate fails. "
    "Decode reduction: all value rows / value rows read. Scores are not divided by sqrt(head_dim)."
)


def receipt_text(receipt: Receipt) -> str:
    """The verdict in words, a row for each candidate k, and the gates at the selected k, as wide as the terminal."""
    selected = first_passing(receipt.candidate_results)
    return rendered(
        _verdict_line(receipt),
        Text(),
        _candidates_table(receipt),
        Text(),
        Text(f"Gates at k = {selected.candidate_k}"),
        _gates_table(verdicts(selected, receipt.config)),
        Text(),
        Text(_FOOTNOTE),
    )


def rendered(*parts: RenderableType) -> str:
    """What a console on standard output would print; with colour only where that is a terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return captured.get()


def number(value: float, digits: int = 5) -> str:
    """A number with so many significant digits, scientific below 1e-4."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:+}"
    return f"{value:#.{digits}g}" if value else "0"


def _verdict_line(receipt: Receipt) -> Text:
    k = receipt.selected_candidate_k
    if receipt.passed:
        return Text(f"PASSED at k = {k}", style="bold green")
    return Text(f"FAILED: no k passes; last listed k = {k}", style="bold red")


def _candidates_table(receipt: Receipt) -> Table:
    """A row for each candidate, in the order listed; a column's head says what passes."""
    table = _table()
    table.add_column("k", justify="right", overflow="fold")
    for verdict in verdicts(receipt.candidate_results[0], receipt.config):
        sign = ">=" if verdict.gate.side == "min" else "<="
        head = [*verdict.gate.label.split(), f"{sign} {verdict.threshold:.5g}"]
        table.add_column("\n".join(head), justify="right", overflow="fold", vertical="bottom")
    table.add_column("Decode\nreduction", justify="right", overflow="fold", vertical="bottom")
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
        _word(candidate.passed),
    ]


def _gates_table(judged: tuple[GateVerdict, ...]) -> Table:
    table = _table()
    for head in ("Gate", "Value", "Threshold", "Margin", "Verdict"):
        table.add_column(head, justify="right" if head in ("Value", "Margin") else "left", overflow="fold")
    for verdict in judged:
        unit = _UNITS[verdict.gate.metric]
        bound = "at least" if verdict.gate.side == "min" else "at most"
        margin = number(verdict.margin)
        table.add_row(
            f"{verdict.gate.label} ({unit})" if unit else verdict.gate.label,
            number(verdict.value, digits=7),
            f"{bound} {verdict.threshold!r}",
            margin if margin[0] in "+-N0" else f"+{margin}",
            _word(verdict.passed),
        )
    return table


def _word(passed: bool) -> Text:
    return Text("pass", style="green") if passed else Text("FAIL", style="bold red")


def _table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
