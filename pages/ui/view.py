"""What a chart shows, before it is drawn: texts of numbers and the core's labels only, never of a fixture."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from pages.ui import words
from pages.ui.sweep import Sweep
from polykv_core import GATES, CandidateReplayMetrics, Gate, GateVerdict, Metric, Reversal, largest_reversal, thinned

Number = TypeVar("Number", float, np.ndarray)

_MOST_POINTS = 200


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
    def values(self) -> np.ndarray:
        """The metric at every k, as its gate looks at it; not a number where it is not finite."""
        values = self._gated(self.sweep.curve.metrics[self.metric.name])
        return np.where(np.isfinite(values), values, np.nan)

    @cached_property
    def drawn(self) -> np.ndarray:
        """The ks of the curve that are drawn: all of few, of many those that make a difference to the eye."""
        kept = [self.sweep.selected, self.sweep.smallest or 1, *(point.row for point in self.points)]
        if self.reversal:
            kept += [self.reversal.from_k, self.reversal.to_k]
        thresholds = [self.threshold] if self.gate else []
        return thinned(self.values, thresholds, [k - 1 for k in kept], _MOST_POINTS) + 1

    @cached_property
    def points(self) -> list[Point]:
        """The candidates by k. Of those in one place, which read the same, the selected one or else the first."""
        by_row: dict[int, Point] = {}
        for candidate in self.sweep.candidates:
            row = self.sweep.row(candidate.candidate_k)
            if row not in by_row or candidate.candidate_k == self.sweep.receipt.selected_candidate_k:
                by_row[row] = Point(candidate, row, float(self._gated(getattr(candidate, self.metric.name))))
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

    def sentence(self, k: int) -> str:
        """What there is to say about a k that reads no more than all rows, in lines for Plotly."""
        return self._sentence(f"k = {k}", float(self.values[k - 1]), self.sweep.failing[k - 1])

    def point_sentence(self, point: Point) -> str:
        """What there is to say about a candidate."""
        k = f"k = {point.candidate.candidate_k}"
        if point.candidate.candidate_k > self.sweep.most_rows:
            k += f", which reads all {self.sweep.most_rows} rows"
        judged = [gate.check(point.candidate, self.sweep.receipt.config) for gate in GATES]
        return self._sentence(k, point.value, words.failing(judged))

    @property
    def alt(self) -> str:
        """The whole chart in words."""
        last = self.sweep.most_rows
        sentences = [
            f"{self.label} for every k from 1 to {last}; {self.direction}, {self.rule}",
            f"It is {self._brief(self.values[0])} at k = 1 and {self._brief(self.values[-1])} at k = {last}",
        ]
        if self.gate:
            sentences.append(self._crossing(self.gate))
        if self.note:
            sentences.append(self.note.rstrip("."))
        verdicts = [
            f"k = {c.candidate_k}: {self._brief(self._gated(getattr(c, self.metric.name)))}, {words.verb(c.passed)}"
            for c in self.sweep.candidates
        ]
        smallest = "no k passes all gates"
        if self.sweep.smallest:
            smallest = f"the smallest k of all that passes all gates is {self.sweep.smallest}"
        sentences += [
            f"Candidates: {'; '.join(verdicts)}",
            f"Selected: k = {self.sweep.receipt.selected_candidate_k}; {smallest}",
        ]
        return ". ".join(sentences) + "."

    @property
    def _own_gate(self) -> Gate | None:
        return next((gate for gate in GATES if gate.metric == self.metric.name), None)

    def _gated(self, values: Number) -> Number:
        return self._own_gate.gated(values) if self._own_gate else values

    def _brief(self, value: float) -> str:
        return words.with_unit(value, self.metric.name, digits=4)

    def _sentence(self, k: str, value: float, failing: str) -> str:
        lines = [f"With {k}, {self.label} is {words.with_unit(value, self.metric.name)}."]
        if self.gate:
            verdict = GateVerdict(self.gate, value, self.threshold)
            lines.append(f"It {words.verb(verdict.passed)} its gate, {words.margin(verdict)}.")
        lines.append(f"This k fails at {failing}." if failing else "This k passes all gates.")
        return "<br>".join(lines)

    def _crossing(self, gate: Gate) -> str:
        """Where the curve gets through its gate, and whether it stays there."""
        passes = gate.passes(self.values, self.threshold)
        if passes.all() or not passes.any():
            return f"It {words.verb(bool(passes.all()))} its gate at every k"
        first = int(np.argmax(passes))
        again = np.flatnonzero(~passes[first:])
        after = f", and fails it again at k = {first + int(again[0]) + 1}" if len(again) else ""
        return f"It first passes its gate at k = {first + 1}{after}"
