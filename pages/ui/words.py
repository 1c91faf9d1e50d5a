"""Numbers, gates and verdicts in words, the same everywhere on the page."""

import math
from collections.abc import Iterable, Sequence

from polykv_core import METRICS, Gate, GateVerdict, Statistic

STATISTICS: dict[Statistic, str] = {
    "mean": "mean over the queries",
    "p95": "what 95 % of queries keep to",
    "worst": "worst query",
}
_MANY = 2.0  # beyond that, "times" reads better than per cent
METRIC_BY_NAME = {metric.name: metric for metric in METRICS}


def number(value: float, digits: int = 6) -> str:
    """A number with so many significant digits; below 1e-4 scientific, so that it never shows as zero."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "not finite"


def with_unit(value: float, metric: str, digits: int = 6) -> str:
    """A value of a metric with its unit."""
    unit = _unit(metric)
    return number(value, digits) + (f" {unit}" if unit.isalpha() else unit)


def named(metric: str, label: str) -> str:
    """A label with the metric's unit, for numbers that then need none."""
    unit = _unit(metric)
    return f"{label} ({unit})" if unit else label


def unbroken(text: str) -> str:
    """A text that is not broken into lines."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def at_bound(gate: Gate) -> str:
    """Which side of its threshold a gate lets pass."""
    return "at least" if gate.side == "min" else "at most"


def rule(gate: Gate, threshold: float) -> str:
    """What a gate asks for, such as "at least 0.75"."""
    return f"{at_bound(gate)} {with_unit(threshold, gate.metric)}"


def verb(passed: bool) -> str:
    """A verdict as a word."""
    return "passes" if passed else "fails"


def marked(passed: bool) -> str:
    """A verdict as a word with a mark."""
    return f"{'✓' if passed else '✕'} {verb(passed)}"


def margin(verdict: GateVerdict) -> str:
    """How far a value is from its threshold, and on which side."""
    if not math.isfinite(verdict.margin):
        return "no margin"
    missed = "too low" if verdict.gate.side == "min" else "too high"
    return f"{number(abs(verdict.margin))} {'to spare' if verdict.passed else missed}"


def share(verdict: GateVerdict) -> str:
    """A margin as a share of what the gate asks for, in brackets after a space; nothing of a gate at 0."""
    if not verdict.threshold or not math.isfinite(verdict.margin):
        return ""
    share = abs(verdict.margin / verdict.threshold)
    return (
        f" ({number(share, 3)} times its threshold)"
        if share > _MANY
        else f" ({number(100 * share, 3)} % of its threshold)"
    )


def over_queries(statistic: Statistic) -> str:
    """What of the queries a metric is, where it is not their mean; with a space before it."""
    return "" if statistic == "mean" else f" ({STATISTICS[statistic]})"


def blocker(verdict: GateVerdict) -> str:
    """Why a gate fails, as a sentence."""
    gate = verdict.gate
    name = f"{gate.label}{over_queries(verdict.statistic)}"
    if not math.isfinite(verdict.value):
        return f"{name} is not a finite number, and such a number fails its gate."
    return (
        f"{name} is {with_unit(verdict.value, gate.metric)}, but the gate asks for "
        f"{rule(gate, verdict.threshold)}: it misses by {with_unit(-verdict.margin, gate.metric)}"
        f"{share(verdict)}."
    )


def failing(judged: Iterable[GateVerdict]) -> str:
    """The gates that fail, as a phrase; empty if none does."""
    return listed([verdict.gate.label for verdict in judged if not verdict.passed])


def listed(items: Sequence[str]) -> str:
    """Items as a phrase: a, b and c."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def _unit(metric: str) -> str:
    unit = METRIC_BY_NAME[metric].unit
    return "\N{MULTIPLICATION SIGN}" if unit == "x" else unit
