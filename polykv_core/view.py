"""What a chart of one metric over k shows, before it is drawn. Texts are of numbers and labels, never of a fixture."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from polykv_core import words
from polykv_core.arrays import Array, Float64, Int64
from polykv_core.axis import Axis, stretches
from polykv_core.gates import GATES, CandidateReplayMetrics, Gate
from polykv_core.k_curve import KCurve
from polykv_core.metrics import Metric
from polykv_core.tuning import Reversal, largest_reversal, thinned

Number = TypeVar("Number", float, Array)

CHARTED = (
    "output_cosine_mean",
    "output_mse_mean",
    "kl_divergence_mean",
    "decode_reduction",
    "top1_agreement",
    "ppl_proxy_delta",
)
_MOST_POINTS = 200


@dataclass(frozen=True)
class Point:
    """A candidate in one chart: `row` is its place on the k axis."""

    candidate: CandidateReplayMetrics
    row: int
    value: float


@dataclass(frozen=True, eq=False)
class View:
    """A curve over k seen through one metric: its curve, its points, its gate, and what there is to say about them."""

    k_curve: KCurve
    metric: Metric

    @cached_property
    def gate(self) -> Gate | None:
        """The metric's gate, if it has one and that is not switched off."""
        return None if self._own_gate is None or self.off else self._own_gate

    @property
    def off(self) -> bool:
        """Whether the metric's gate is switched off."""
        return self._own_gate is not None and self.threshold == self._own_gate.off

    @cached_property
    def threshold(self) -> float:
        """The gate's threshold; not a number without a gate."""
        return float(getattr(self.k_curve.receipt.config, self._own_gate.threshold)) if self._own_gate else math.nan

    @cached_property
    def values(self) -> Float64[Array, " k"]:
        """The metric at each k of the curve, as its gate looks at it; not a number where it is not finite."""
        values = self._gated(self.k_curve.ordered.metrics[self.metric.name])
        return np.where(np.isfinite(values), values, np.nan)

    @cached_property
    def drawn(self) -> Int64[Array, " m"]:
        """Which of the values are drawn: all of few, of many those that make a difference to the eye."""
        kept = [self.k_curve.selected, *(point.row for point in self.points)]
        kept += [self.k_curve.smallest] if self.k_curve.smallest else []
        kept += [self.reversal.from_k, self.reversal.to_k] if self.reversal else []
        thresholds = [self.threshold] if self.gate else []
        return thinned(self.values, thresholds, map(self.k_curve.ks.index, kept), _MOST_POINTS)

    @cached_property
    def points(self) -> list[Point]:
        """The candidates by k. Of those in one place, which read the same, the selected one or else the first."""
        by_row: dict[int, Point] = {}
        for candidate in self.k_curve.candidates:
            row = self.k_curve.row(candidate.candidate_k)
            if row not in by_row or candidate.candidate_k == self.k_curve.receipt.selected_candidate_k:
                by_row[row] = Point(candidate, row, self._value(candidate))
        return [by_row[row] for row in sorted(by_row)]

    @cached_property
    def placed(self) -> list[Point]:
        """The points that are somewhere: what is not finite has no place."""
        return [point for point in self.points if math.isfinite(point.value)]

    def axis(self, log: bool | None = None) -> Axis:
        """The value axis, logarithmic if asked for or by itself; a gate that is too far off does not stretch it."""
        values = [*self.values.tolist(), *(point.value for point in self.points)]
        marks = [self.threshold] if self.gate and not stretches(self.threshold, values) else []
        return Axis.around([*values, *marks], self.metric.best, log)

    @property
    def label(self) -> str:
        """What is on the value axis."""
        return self._own_gate.label if self._own_gate else self.metric.label

    @property
    def direction(self) -> str:
        """Which way is better; of an absolute value, down."""
        return "lower is better" if self._own_gate and self._own_gate.absolute else self.metric.direction

    @property
    def rule(self) -> str:
        """The gate in words."""
        if self.gate:
            return f"gate: {words.rule(self.gate, self.threshold)}"
        return "gate off" if self.off else "no gate"

    @property
    def statistic(self) -> str:
        """What of the queries it shows, where that is not their mean."""
        statistic = self.k_curve.receipt.config.statistic
        return words.STATISTICS[statistic] if statistic != "mean" and self.metric.per_query else ""

    @property
    def lost(self) -> str:
        """Which candidates have no place, as a phrase; empty if all have one."""
        lost = [str(point.candidate.candidate_k) for point in self.points if not math.isfinite(point.value)]
        return f"not finite at k = {words.listed(lost)}" if lost else ""

    @cached_property
    def reversal(self) -> Reversal | None:
        """Where reading more rows makes it worse; decode reduction, which has no gate, always falls."""
        return largest_reversal(self.k_curve.ordered, self.metric) if self._own_gate else None

    @property
    def note(self) -> str:
        """A warning where reading more rows does not always help, or nothing."""
        if not self.reversal:
            return ""
        start, end = self.reversal.from_k, self.reversal.to_k
        amount = words.with_unit(self.reversal.amount, self.metric.name, digits=3)
        return f"Not monotone: from k = {start} to k = {end} it gets worse by {amount}."

    def brief(self, value: float) -> str:
        """A value of the metric in few digits, with its unit."""
        return words.with_unit(value, self.metric.name, digits=4)

    @property
    def alt(self) -> str:
        """The whole chart for those who do not see it; of ks that were not measured it claims nothing."""
        k_curve = self.k_curve
        first, last = k_curve.ks[0], k_curve.ks[-1]
        over = f"for every k from 1 to {last}" if k_curve.every_k else "at the candidate ks"
        start, end = self.brief(float(self.values[0])), self.brief(float(self.values[-1]))
        judged = [
            f"k = {c.candidate_k}: {self.brief(self._value(c))}, {words.verb(c.passed)}" for c in k_curve.candidates
        ]
        found = f"the smallest k of all that passes all gates is {k_curve.smallest}"
        smallest = f"; {found if k_curve.smallest else 'no k passes all gates'}" if k_curve.every_k else ""
        sentences = [
            f"{self.label} {over}; {self.direction}, {self.rule}",
            f"It is {start} at k = {first} and {end} at k = {last}",
            self._crossing(self.gate) if self.gate and k_curve.every_k else "",
            self.note.rstrip("."),
            f"Candidates: {'; '.join(judged)}",
            f"Selected: k = {k_curve.receipt.selected_candidate_k}{smallest}",
        ]
        return ". ".join(filter(None, sentences)) + "."

    @property
    def _own_gate(self) -> Gate | None:
        return next((gate for gate in GATES if gate.metric == self.metric.name), None)

    def _value(self, candidate: CandidateReplayMetrics) -> float:
        return self._gated(float(getattr(candidate, self.metric.name)))

    def _gated(self, values: Number) -> Number:
        return self._own_gate.gated(values) if self._own_gate else values

    def _crossing(self, gate: Gate) -> str:
        """Where the curve gets through its gate, and whether it stays there."""
        passes = gate.passes(self.values, self.threshold)
        if passes.all() or not passes.any():
            return f"It {words.verb(bool(passes.all()))} its gate at every k"
        first = int(np.argmax(passes))
        again = np.flatnonzero(~passes[first:])
        after = f", and fails it again at k = {self.k_curve.ks[first + int(again[0])]}" if len(again) else ""
        return f"It first passes its gate at k = {self.k_curve.ks[first]}{after}"


def views(k_curve: KCurve) -> list[View]:
    """A view for each chart, in the order of CHARTED."""
    return [View(k_curve, words.METRIC_BY_NAME[name]) for name in CHARTED]


def legend(*, every_k: bool) -> str:
    """What the marks of the charts are."""
    line = "is every k" if every_k else "joins the ks that were measured"
    smallest = ", ◇ smallest k of all that passes" if every_k else ""
    return (
        f"The line {line}. On it: ● candidate that passes all gates, ✕ candidate that fails at least one, ◯ selected"
        f"{smallest}. ▾ at the floor of a log scale: 0 or less. Shaded: the failing side of the gate."
    )
