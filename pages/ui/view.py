"""What a chart shows, before it is drawn: texts of numbers and the core's labels only, never of a fixture."""

import math
from dataclasses import dataclass
from functools import cached_property

from pages.ui import words
from polykv_core import CandidateReplayMetrics, CapturedReplayReceipt, GateVerdict, Metric, verdicts


@dataclass(frozen=True)
class Point:
    """A candidate in one chart; `verdict` is that of the chart's gate."""

    candidate: CandidateReplayMetrics
    value: float
    verdict: GateVerdict | None
    selected: bool

    @property
    def k(self) -> str:
        """The candidate k as a category of the axis."""
        return str(self.candidate.candidate_k)


@dataclass(frozen=True)
class View:
    """A receipt seen through one metric: its points, its gate, and what there is to say about them."""

    receipt: CapturedReplayReceipt
    metric: Metric

    @cached_property
    def points(self) -> list[Point]:
        """The candidates by k, each once."""
        by_k = {candidate.candidate_k: self._point(candidate) for candidate in self.receipt.candidate_results}
        return [by_k[k] for k in sorted(by_k)]

    @cached_property
    def drawn(self) -> list[Point]:
        """The points that have a place on the axis."""
        return [point for point in self.points if math.isfinite(point.value)]

    @property
    def gate(self) -> GateVerdict | None:
        """The metric's gate and threshold, as every point has them."""
        return self.points[0].verdict

    @property
    def label(self) -> str:
        """What is on the value axis."""
        return self.gate.gate.label if self.gate else self.metric.label

    @property
    def direction(self) -> str:
        """Which way is better; of an absolute value, down."""
        return "lower is better" if self.gate and self.gate.gate.absolute else self.metric.direction

    @property
    def rule(self) -> str:
        """The gate in words."""
        return f"gate: {words.rule(self.gate.gate, self.gate.threshold)}" if self.gate else "no gate"

    def sentence(self, point: Point) -> str:
        """What there is to say about a point, in lines for Plotly."""
        lines = [f"With k = {point.k}, {self.label} is {words.with_unit(point.value, self.metric.name)}."]
        if point.verdict:
            lines.append(f"It {words.verb(point.verdict.passed)} its gate, {words.margin(point.verdict)}.")
        failing = words.failing(verdicts(point.candidate, self.receipt.config))
        lines.append(f"The candidate fails at {failing}." if failing else "The candidate passes all gates.")
        return "<br>".join(lines)

    @property
    def alt(self) -> str:
        """The whole chart in words."""
        points = "; ".join(self._brief(point) for point in self.points)
        selected = self.receipt.selected_candidate_k
        return f"{self.label} for each candidate k; {self.direction}, {self.rule}. {points}. Selected: k = {selected}."

    def _brief(self, point: Point) -> str:
        value = words.with_unit(point.value, self.metric.name, digits=4)
        return f"k = {point.k}: {value}, {words.verb(point.candidate.passed)}"

    def _point(self, candidate: CandidateReplayMetrics) -> Point:
        judged = verdicts(candidate, self.receipt.config)
        verdict = next((verdict for verdict in judged if verdict.gate.metric == self.metric.name), None)
        value = verdict.value if verdict else float(getattr(candidate, self.metric.name))
        return Point(candidate, value, verdict, candidate.candidate_k == self.receipt.selected_candidate_k)
