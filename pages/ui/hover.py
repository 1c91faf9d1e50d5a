"""What a chart says where the pointer is: about a k of the curve, or a candidate; in lines for Plotly."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from polykv_core import GATES, GateVerdict, verdicts, words
from polykv_core.k_curve import KCurve
from polykv_core.view import Point, View


@dataclass(frozen=True, eq=False)
class Hover:
    """The sentences for the charts of a curve over k."""

    k_curve: KCurve

    @cached_property
    def failing(self) -> list[str]:
        """The gates that fail at each k of the curve, as a phrase; empty where all pass."""
        rows = np.zeros(len(self.k_curve.ks), dtype=np.int64)
        for bit, gate in enumerate(GATES):
            gated = gate.gated(self.k_curve.ordered.metrics[gate.metric])
            rows |= ~gate.passes(gated, getattr(self.k_curve.receipt.config, gate.threshold)) << bit
        phrases = {
            code: words.listed([gate.label for bit, gate in enumerate(GATES) if code >> bit & 1])
            for code in set(rows.tolist())
        }
        return [phrases[code] for code in rows.tolist()]

    def on_curve(self, view: View, index: int) -> str:
        """About a k of the curve."""
        return _lines(view, f"k = {self.k_curve.ks[index]}", float(view.values[index]), self.failing[index])

    def on_point(self, view: View, point: Point) -> str:
        """About a candidate."""
        k = f"k = {point.candidate.candidate_k}"
        if point.candidate.candidate_k > self.k_curve.most_rows:
            k += f", which reads all {self.k_curve.most_rows} rows"
        failing = words.failing(verdicts(point.candidate, self.k_curve.receipt.config))
        return _lines(view, k, point.value, failing)


def _lines(view: View, k: str, value: float, failing: str) -> str:
    lines = [f"With {k}, {view.label} is {words.with_unit(value, view.metric.name)}."]
    if view.gate:
        verdict = GateVerdict(view.gate, value, view.threshold)
        lines.append(f"It {words.verb(verdict.passed)} its gate, {words.margin(verdict)}.")
    lines.append(f"This k fails at {failing}." if failing else "This k passes all gates.")
    return "<br>".join(lines)
