"""From a receipt and the curve over every k to Plotly figures: one chart a metric, all with the same k axis.

Colours are from Okabe and Ito's set, legible on light and dark; every distinction is also made by a symbol or a word.
Plotly reads some HTML in its texts, so those are built from numbers and the core's own labels, never from a fixture.
Figures are put together as plain records and checked once, which takes a quarter of the time of adding trace by trace.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import plotly.graph_objects as go

from pages.ui import gate_line, plotly_axis
from pages.ui.hover import Hover
from polykv_core import Measurement, words
from polykv_core.axis import Axis, KAxis
from polykv_core.judged import Receipt
from polykv_core.k_curve import KCurve
from polykv_core.view import Point, View, views

Export = Literal["svg", "png"]
Trace = dict[str, Any]

_PASS, _FAIL, _SELECTED, _CURVE = "#009E73", "#D55E00", "#0072B2", "#888888"
_TEXT = "#757575"  # in saved pictures, legible on white and on black; on the page texts have the theme's colour
_NUMBER_ROOM = 0.235  # of the k axis, from one written number to the next
_NUMBER_HEIGHT = 0.16  # of the value axis, from a point to the far side of its number
_NEAR_END = 0.78  # of the k axis
_FLAT = 0.03  # of the value axis: how little a curve moves before a point to count as flat there
_PNG_SCALE = 3  # sharp on paper too


@dataclass(frozen=True)
class Chart:
    """A figure, the metric it shows, the same in words for those who do not see it, and Plotly's settings for it.

    `note` is a warning to stand beside it, or nothing.
    """

    metric: str
    figure: go.Figure
    alt: str
    note: str
    config: dict[str, Any]


def charts(
    receipt: Receipt,
    curve: Measurement,
    *,
    log: bool | None = None,
    log_k: bool | None = None,
    export: Export = "svg",
    stem: str = "polykv",
) -> list[Chart]:
    """The charts of a receipt, in the order of CHARTED.

    `curve` is measured at every k from 1 to the most rows. `log` and `log_k` set the value axes and the k axis, None
    leaves them to what reads best. A saved picture is named `stem` and the metric; `stem` must be a safe file name.
    """
    k_curve = KCurve(receipt, curve)
    k_axis, hover = KAxis.over(k_curve.most_rows, log_k), Hover(k_curve)
    shown = []
    for view in views(k_curve):
        axis, name = view.axis(log), view.metric.name
        figure = go.Figure(data=_traces(view, axis, k_axis, hover), layout=_layout(view, axis, k_axis))
        shown.append(Chart(name, figure, view.alt, view.note, _config(f"{stem}_{name}", export)))
    return shown


def _config(name: str, export: Export) -> dict[str, Any]:
    scale = _PNG_SCALE if export == "png" else 1
    return {
        "displaylogo": False,
        "displayModeBar": True,
        "modeBarButtons": [["toImage"]],
        "toImageButtonOptions": {"format": export, "filename": name, "scale": scale},
    }


def _traces(view: View, axis: Axis, k_axis: KAxis, hover: Hover) -> list[Trace]:
    traces = [*_curve(view, axis, hover), *_smallest(view, axis)]
    points = view.placed
    for passes, symbol, colour in ((True, "circle", _PASS), (False, "x", _FAIL)):
        some = [point for point in points if point.candidate.passed == passes]
        marker = {"symbol": symbol, "color": colour, "size": 10}
        traces.append(
            _trace(
                [point.row for point in some],
                [axis.drawn(point.value) for point in some],
                name="passes" if passes else "fails",
                mode="markers",
                marker=marker,
                customdata=[hover.on_point(view, point) for point in some],
            )
        )
    ring = {"symbol": "circle-open", "color": _SELECTED, "size": 20, "line": {"width": 2.5}}
    selected = [point for point in points if point.row == view.k_curve.selected]
    traces.append(
        _trace(
            [point.row for point in selected],
            [axis.drawn(point.value) for point in selected],
            name="selected",
            mode="markers",
            marker=ring,
        )
    )
    traces.append(_numbers(view, axis, k_axis))
    return [trace for trace in traces if len(trace["x"])]


def _numbers(view: View, axis: Axis, k_axis: KAxis) -> Trace:
    """The values of the candidates, as many as there is room for, where neither the curve nor the gate runs."""
    rows = plotly_axis.spaced(k_axis, [view.k_curve.selected, *(point.row for point in view.placed)], _NUMBER_ROOM)
    named = [point for point in view.placed if point.row in rows]
    rising = bool(view.values[-1] > view.values[0])

    def position(point: Point) -> str:
        # What rises leaves room below on the right and above on the left; what falls, the other way round.
        above = not rising
        if view.gate:
            gate_above = axis.share(view.threshold) - axis.share(point.value)
            in_the_way = 0.0 < (gate_above if above else -gate_above) < _NUMBER_HEIGHT
            above = above != in_the_way
        side = "right" if above != rising else "left"
        at = view.k_curve.ks.index(point.row)
        before = float(view.values[(at + 1) * 2 // 3]) if at else math.nan
        flat = abs(axis.share(before) - axis.share(point.value)) < _FLAT
        if flat or (side == "right" and k_axis.share(float(point.row)) > _NEAR_END):
            side = "center"  # a flat curve is not in the way; at the right end stands the gate's label
        return f"{'top' if above else 'bottom'} {side}"

    return _trace(
        [point.row for point in named],
        [axis.drawn(point.value) for point in named],
        name="numbers",
        mode="markers+text",
        marker={"size": 18, "opacity": 0},  # unseen; keeps the numbers clear of the ring
        text=[words.number(point.value, digits=3) for point in named],
        textposition=[position(point) for point in named],
    )


def _curve(view: View, axis: Axis, hover: Hover) -> list[Trace]:
    """The line over the ks, with a gap where a value has no place; those below a logarithmic axis at its floor."""
    drawn = view.drawn.tolist()
    values = [float(view.values[index]) for index in drawn]
    floored = [index for index, value in zip(drawn, values, strict=True) if axis.on_floor(value)]
    line = [math.nan if axis.on_floor(value) else value for value in values]

    def trace(indices: list[int], values: Sequence[float | None], **looks: Any) -> Trace:
        sentences = [hover.on_curve(view, index) for index in indices]
        return _trace([view.k_curve.ks[index] for index in indices], values, customdata=sentences, **looks)

    marker = {"symbol": "triangle-down", "color": _CURVE, "size": 7}
    return [
        trace(drawn, line, name="every k", mode="lines", line={"color": _CURVE, "width": 2}),
        trace(floored, [axis.floor] * len(floored), name="zero", mode="markers", marker=marker),
    ]


def _smallest(view: View, axis: Axis) -> list[Trace]:
    k_curve = view.k_curve
    if k_curve.smallest is None or not math.isfinite(value := float(view.values[k_curve.ks.index(k_curve.smallest)])):
        return []
    marker = {"symbol": "diamond-open", "color": _PASS, "size": 13, "line": {"width": 1.5}}
    return [_trace([k_curve.smallest], [axis.drawn(value)], name="smallest", mode="markers", marker=marker)]


def _trace(ks: Sequence[int], values: Sequence[float | None], **looks: Any) -> Trace:
    trace = {"type": "scatter", "x": ks, "y": values, "cliponaxis": False, **looks}
    hover = {"hovertemplate": "%{customdata}<extra></extra>"} if "customdata" in looks else {"hoverinfo": "skip"}
    return trace | hover


def _layout(view: View, axis: Axis, k_axis: KAxis) -> dict[str, Any]:
    k_curve = view.k_curve
    facts = filter(None, [view.statistic, view.direction, view.rule, "log scale" * axis.log, view.lost])
    shapes, annotations = gate_line.drawn(view.gate, view.threshold, axis) if view.gate else ([], [])
    return {
        "title": {"text": words.named(view.metric.name, view.label), "subtitle": {"text": ", ".join(facts)}},
        "showlegend": False,
        "font": {"color": _TEXT},
        "dragmode": False,
        "hoverlabel": {"align": "left", "bgcolor": "#262730", "bordercolor": "#262730", "font": {"color": "#ffffff"}},
        "height": 330,
        # Fixed, so that the k axes of charts below each other stand below each other.
        "margin": {"l": 64, "r": 96, "t": 70, "b": 50, "autoexpand": False},
        "xaxis": plotly_axis.ks(k_axis, k_curve.selected, map(k_curve.row, k_curve.receipt.config.candidate_ks)),
        "yaxis": plotly_axis.values(axis) | {"automargin": False},
        "shapes": shapes,
        "annotations": annotations,
    }
