"""Numbers, gates and verdicts in words, the same on the page and in reports."""

import math
from collections.abc import Iterable, Sequence

from polykv_core.gates import GATES, Gate, GateVerdict
from polykv_core.metrics import METRICS, Metric, Statistic
from polykv_core.uncertainty import Interval

STATISTICS: dict[Statistic, str] = {
    "mean": "mean over the queries",
    "p95": "what 95 % of queries keep to",
    "worst": "worst query",
}
GATE_LABELS = {gate.threshold: gate.label for gate in GATES}
METRIC_BY_NAME = {metric.name: metric for metric in METRICS}
_ARROWS = {"higher is better": "↑", "lower is better": "↓", "closer to 0 is better": "→0"}
_MANY = 2.0  # beyond that, "times" reads better than per cent
_THRESHOLD_DIGITS = 12  # as somebody typed it
_SCIENTIFIC_FROM = 1e6
_ALL_DIGITS = 17  # no two numbers look alike in as many


def number(value: float, digits: int = 6) -> str:
    """A number with so many significant digits; below 1e-4 scientific, so that it never shows as zero.

    A number below a million is never scientific: its whole part has all its digits.
    """
    if not math.isfinite(value):
        return "not finite"
    whole = len(str(int(abs(value)))) if abs(value) < _SCIENTIFIC_FROM else 0
    return f"{value:.{max(digits, whole)}g}"


def told_apart(value: float, threshold: float, digits: int = 4) -> str:
    """A value in so many digits, or in as many more as it takes not to look like the threshold it differs from."""
    written = number(threshold, _THRESHOLD_DIGITS)
    texts = [number(value, more) for more in range(digits, _ALL_DIGITS + 1)]
    return next((text for text in texts if value == threshold or text != written), texts[-1])


def with_unit(value: float, metric: str, digits: int = 6) -> str:
    """A value of a metric with its unit."""
    return f"{number(value, digits)}{after(metric)}"


def after(metric: str) -> str:
    """A metric's unit as it stands behind a number; nothing for a metric without one."""
    unit = _unit(metric)
    return f" {unit}" if unit.isalpha() else unit


def named(metric: str, label: str) -> str:
    """A label with the metric's unit, for numbers that then need none."""
    unit = _unit(metric)
    return f"{label} ({unit})" if unit else label


def heading(metric: Metric) -> str:
    """A metric over a column of numbers: its label with its unit, and an arrow to where it is better."""
    return f"{named(metric.name, metric.label)} {_ARROWS[metric.direction]}"


def span(interval: Interval | None) -> str:
    """From where to where an interval reaches; nothing where there is none."""
    return f"{number(interval.low, 3)} to {number(interval.high, 3)}" if interval else ""


def cut(text: str, most: int) -> str:
    """A text of at most so many characters; what is left out is marked."""
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def unbroken(text: str) -> str:
    """A text that is not broken into lines."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def at_bound(gate: Gate) -> str:
    """Which side of its threshold a gate lets pass."""
    return "at least" if gate.side == "min" else "at most"


def rule(gate: Gate, threshold: float) -> str:
    """What a gate asks for, such as "at least 0.75"."""
    return f"{at_bound(gate)} {with_unit(threshold, gate.metric, _THRESHOLD_DIGITS)}"


def asked_for(verdict: GateVerdict) -> str:
    """What a gate asks for, without the unit; "off" for one that is switched off."""
    return "off" if verdict.off else f"{at_bound(verdict.gate)} {number(verdict.threshold, _THRESHOLD_DIGITS)}"


def verb(passed: bool) -> str:
    """A verdict as a word."""
    return "passes" if passed else "fails"


def marked(passed: bool) -> str:
    """A verdict as a word with a mark."""
    return f"{'✓' if passed else '✕'} {verb(passed)}"


def margin(verdict: GateVerdict, digits: int = 6) -> str:
    """How far a value is from its threshold, and on which side."""
    if not math.isfinite(verdict.margin):
        return "no margin"
    missed = "too low" if verdict.gate.side == "min" else "too high"
    return f"{number(abs(verdict.margin), digits)} {'to spare' if verdict.passed else missed}"


def share(verdict: GateVerdict) -> str:
    """A margin as a share of what the gate asks for, in brackets after a space; nothing of a gate at 0."""
    if not verdict.threshold or not math.isfinite(verdict.margin):
        return ""
    part = abs(verdict.share)
    return (
        f" ({number(part, 3)} times its threshold)"
        if part > _MANY
        else f" ({number(100 * part, 3)} % of its threshold)"
    )


def judged(verdict: GateVerdict, interval: Interval | None) -> str:
    """What became of a gate, and a doubt where other queries might have it otherwise."""
    if verdict.off and verdict.passed:
        return "off"
    doubt = ", but uncertain" if interval and not verdict.off and interval.straddles(verdict) else ""
    return f"{unbroken(marked(verdict.passed))}{doubt}"


def failing(verdicts: Iterable[GateVerdict]) -> str:
    """The gates that fail, as a phrase; empty if none does."""
    return listed([verdict.gate.label for verdict in verdicts if not verdict.passed])


def over_queries(statistic: Statistic) -> str:
    """What of the queries a metric is, where it is not their mean; with a space before it."""
    return "" if statistic == "mean" else f" ({STATISTICS[statistic]})"


def blocker(verdict: GateVerdict) -> str:
    """Why a gate fails, as a sentence."""
    gate = verdict.gate
    name = f"{gate.label}{over_queries(verdict.statistic)}"
    if not math.isfinite(verdict.value):
        return f"{name} is not a finite number, and such a number fails its gate."
    value = told_apart(verdict.value, verdict.threshold, digits=6)
    return (
        f"{name} is {value}{after(gate.metric)}, but the gate asks for {rule(gate, verdict.threshold)}: it misses by "
        f"{with_unit(-verdict.margin, gate.metric)}{share(verdict)}."
    )


def listed(items: Sequence[str]) -> str:
    """Items as a phrase: a, b and c."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def _unit(metric: str) -> str:
    unit = METRIC_BY_NAME[metric].unit
    return "\N{MULTIPLICATION SIGN}" if unit == "x" else unit
