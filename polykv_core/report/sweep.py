"""A receipt beside a curve over k: which ks were measured, which pass, and what one metric has to say there."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from polykv_core.arrays import Array, Float64, Int64
from polykv_core.gates import GATES, CandidateReplayMetrics, Gate
from polykv_core.measurement import CapturedMeasurement
from polykv_core.metrics import Metric
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.report import words
from polykv_core.report.outcome import distinct
from polykv_core.tuning import Reversal, largest_reversal, smallest_passing_k, thinned

Number = TypeVar("Number", float, Array)

_MOST_POINTS = 200


@dataclass(frozen=True, eq=False)
class Sweep:
    """A receipt beside the measurement of every k, from 1 to the most rows a query has, or of the candidates only."""

    receipt: CapturedReplayReceipt
    measured: CapturedMeasurement

    @cached_property
    def curve(self) -> CapturedMeasurement:
        """What was measured, each k once, ascending, over the queries as the gates look at it."""
        rows, first = np.unique([self.row(k) for k in self.measured.candidate_ks], return_index=True)
        taken = replace(self.measured, candidate_ks=tuple(rows.tolist()), queries=self.measured.queries.take(first))
        return taken.by(self.receipt.config.statistic)

    @cached_property
    def most_rows(self) -> int:
        """The k that reads everything; larger ones read no more, and stand where it does."""
        return int(self.measured.queries.rows.max())

    @property
    def ks(self) -> tuple[int, ...]:
        """The ks of the curve."""
        return self.curve.candidate_ks

    @property
    def every_k(self) -> bool:
        """Whether the curve leaves no k out."""
        return len(self.ks) == self.most_rows

    def row(self, k: int) -> int:
        """Where a k stands on the k axis."""
        return min(k, self.most_rows)

    @property
    def selected(self) -> int:
        """Where the selected k stands."""
        return self.row(self.receipt.selected_candidate_k)

    @cached_property
    def smallest(self) -> int | None:
        """The smallest of the measured ks that passes every gate."""
        return smallest_passing_k(self.curve, self.receipt.config)

    @cached_property
    def candidates(self) -> list[CandidateReplayMetrics]:
        """The candidates by k, each once."""
        return sorted(distinct(self.receipt), key=lambda candidate: candidate.candidate_k)


@dataclass(frozen=True)
class Point:
    """A candidate in one chart: `row` is its place on the k axis."""

    candidate: CandidateReplayMetrics
    row: int
    value: float


@dataclass(frozen=True, eq=False)
class View:
    """A sweep seen through one metric: its curve, its points, its gate, and what there is to say about them."""

    sweep: Sweep
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
        return float(getattr(self.sweep.receipt.config, self._own_gate.threshold)) if self._own_gate else math.nan

    @cached_property
    def values(self) -> Float64[Array, " k"]:
        """The metric at every k of the sweep, as its gate looks at it; not a number where it is not finite."""
        values = self._gated(self.sweep.curve.metrics[self.metric.name])
        return np.where(np.isfinite(values), values, np.nan)

    @cached_property
    def drawn(self) -> Int64[Array, " m"]:
        """Which of the values are drawn: all of few, of many those that make a difference to the eye."""
        kept = [self.sweep.selected, *(point.row for point in self.points)]
        kept += [self.sweep.smallest] if self.sweep.smallest else []
        kept += [self.reversal.from_k, self.reversal.to_k] if self.reversal else []
        thresholds = [self.threshold] if self.gate else []
        return thinned(self.values, thresholds, map(self.sweep.ks.index, kept), _MOST_POINTS)

    @cached_property
    def points(self) -> list[Point]:
        """The candidates by k. Of those in one place, which read the same, the selected one or else the first."""
        by_row: dict[int, Point] = {}
        for candidate in self.sweep.candidates:
            row = self.sweep.row(candidate.candidate_k)
            if row not in by_row or candidate.candidate_k == self.sweep.receipt.selected_candidate_k:
                by_row[row] = Point(candidate, row, self._value(candidate))
        return [by_row[row] for row in sorted(by_row)]

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

    @cached_property
    def reversal(self) -> Reversal | None:
        """Where reading more rows makes it worse; decode reduction, which has no gate, always falls."""
        return largest_reversal(self.sweep.curve, self.metric) if self._own_gate else None

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
    def in_words(self) -> str:
        """The whole chart for those who do not see it."""
        first, last = self.sweep.ks[0], self.sweep.ks[-1]
        over = f"for every k from 1 to {last}" if self.sweep.every_k else "at the candidate ks"
        judged = [
            f"k = {c.candidate_k}: {self.brief(self._value(c))}, {words.verb(c.passed)}" for c in self.sweep.candidates
        ]
        sentences = [
            f"{self.label} {over}; {self.direction}, {self.rule}",
            f"It is {self.brief(float(self.values[0]))} at k = {first} and {self.brief(float(self.values[-1]))} at "
            f"k = {last}",
            *([self.note.rstrip(".")] if self.note else []),
            f"Candidates: {'; '.join(judged)}",
            f"Selected: k = {self.sweep.receipt.selected_candidate_k}",
        ]
        return ". ".join(sentences) + "."

    @property
    def _own_gate(self) -> Gate | None:
        return next((gate for gate in GATES if gate.metric == self.metric.name), None)

    def _value(self, candidate: CandidateReplayMetrics) -> float:
        return self._gated(float(getattr(candidate, self.metric.name)))

    def _gated(self, values: Number) -> Number:
        return self._own_gate.gated(values) if self._own_gate else values
