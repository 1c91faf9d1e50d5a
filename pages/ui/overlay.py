"""Runs laid over each other: one chart a gated metric, a line a run, told apart by colour, dash and symbol."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from pages.ui import plotly_axis
from polykv_core import GATES, CapturedMeasurement, CapturedReplayReceipt, Gate, judged, words
from polykv_core.axis import KAxis

# After Okabe and Ito, the blue lighter so that it is seen on dark too.
_LOOKS = (
    ("#2B83C6", "solid", "circle"),
    ("#D55E00", "dash", "square"),
    ("#009E73", "dot", "diamond"),
    ("#CC79A7", "dashdot", "triangle-up"),
    ("#E69F00", "longdash", "cross"),
    ("#56B4E9", "longdashdot", "x"),
)
MOST_RUNS = len(_LOOKS)


@dataclass(frozen=True)
class Line:
    """A run in the charts: `name` must be made by this program, for Plotly reads some HTML in it."""

    name: str
    receipt: CapturedReplayReceipt
    measurement: CapturedMeasurement


@dataclass(frozen=True)
class Overlay:
    """A figure, its metric, and the same in words for those who do not see it."""

    metric: str
    figure: go.Figure
    alt: str


def overlays(lines: Sequence[Line]) -> list[Overlay]:
    """A chart for each gate, in the gates' order; at most MOST_RUNS lines."""
    return [_overlay(gate, lines) for gate in GATES]


def _overlay(gate: Gate, lines: Sequence[Line]) -> Overlay:
    traces, told = [], []
    for line, (colour, dash, symbol) in zip(lines, _LOOKS, strict=False):
        ks, values = _curve(gate, line)
        selected = judged.selected(line.receipt)
        at = min(selected.candidate_k, int(line.measurement.queries.rows.max()))
        value = gate.gated(getattr(selected, gate.metric))
        traces.append(_trace(line.name, ks, values, mode="lines", line={"color": colour, "dash": dash, "width": 2}))
        marker = {"color": colour, "symbol": symbol, "size": 11}
        traces.append(_trace(line.name, [at], [value], mode="markers", marker=marker, showlegend=False))
        told.append(f"{line.name}: {words.with_unit(value, gate.metric, 4)} at its selected k = {at}")
    title = words.named(gate.metric, gate.label)
    side = "higher is better" if gate.side == "min" else "lower is better"
    layout: dict[str, Any] = {
        "title": {"text": title, "subtitle": {"text": f"{side}; the symbol marks the selected k"}},
        "height": 330,
        "margin": {"l": 64, "r": 24, "t": 70, "b": 90},
        "dragmode": False,
        "legend": {"orientation": "h", "yanchor": "bottom", "yref": "container", "y": 0.0, "x": 0.0},
        "xaxis": _k_axis(lines),
        "yaxis": {"fixedrange": True, "rangemode": "normal"},
        "shapes": _gate_lines(gate, lines),
    }
    return Overlay(gate.metric, go.Figure(data=traces, layout=layout), f"{title}, {side}. {'; '.join(told)}.")


def _k_axis(lines: Sequence[Line]) -> dict[str, Any]:
    most = max(int(line.measurement.queries.rows.max()) for line in lines)
    selected = min(lines[0].receipt.selected_candidate_k, most)
    return plotly_axis.ks(KAxis.over(most), selected)


def _curve(gate: Gate, line: Line) -> tuple[list[int], list[float | None]]:
    measured = line.measurement.by(line.receipt.config.statistic)
    values = gate.gated(measured.metrics[gate.metric]).tolist()
    most = int(measured.queries.rows.max())
    points = sorted({min(k, most): value for k, value in zip(measured.candidate_ks, values, strict=True)}.items())
    return [k for k, _ in points], [value if math.isfinite(value) else None for _, value in points]


def _gate_lines(gate: Gate, lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The gate of each run, where it is on and near enough not to stretch the axis; one line for those that agree."""
    thresholds = {getattr(line.receipt.config, gate.threshold) for line in lines} - {gate.off}
    values = [value for line in lines for value in _curve(gate, line)[1] if value is not None] or [0.0]
    far = 3.0 * max(abs(value) for value in values)
    return [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": at,
            "y1": at,
            "line": {"color": "#888888", "dash": "dot"},
        }
        for at in sorted(thresholds)
        if abs(at) <= far
    ]


def _trace(name: str, ks: Sequence[int], values: Sequence[float | None], **looks: Any) -> dict[str, Any]:
    hover = {"hovertemplate": f"{name}, k = %{{x}}: %{{y:.6g}}<extra></extra>"}
    return {"type": "scatter", "name": name, "x": list(ks), "y": list(values), **hover, **looks}
