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

from pages.ui import gate_line, words
from pages.ui.axis import Axis, KAxis, stretches
from pages.ui.sweep import Receipt, Sweep
from pages.ui.view import Point, View
from polykv_core import Measurement

CHARTED = (
    "output_cosine_mean",
    "output_mse_mean",
    "kl_divergence_mean",
    "decode_reduction",
    "top1_agreement",
    "ppl_proxy_delta",
)
LEGEND = (
    "The line is every k. On it: ● candidate that passes all gates, ✕ candidate that fails at least one, ◯ selected, "
    "◇ smallest k of all that passes. Shaded: the failing side of the gate."
)

Export = Literal["svg", "png"]
Trace = dict[str, Any]

_PASS, _FAIL, _SELECTED, _CURVE = "#009E73", "#D55E00", "#0072B2", "#888888"
_TEXT = "#757575"  # in saved pictures, legible on white and on black; on the page texts have the theme's colour
_NUMBER_ROOM = 0.25  # of the k axis, from one written number to the next
_NUMBER_HEIGHT = 0.16  # of the value axis, from a point to the far side of its number
_NEAR_END = 0.8  # of the k axis
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
    sweep = Sweep(receipt, curve)
    k_axis = KAxis.over(sweep.most_rows, sweep.selected, map(sweep.row, receipt.config.candidate_ks), log_k)
    return [
        _chart(View(sweep, words.METRIC_BY_NAME[name]), k_axis, log, _config(f"{stem}_{name}", export))
        for name in CHARTED
    ]


def _chart(view: View, k_axis: KAxis, log: bool | None, config: dict[str, Any]) -> Chart:
    values = [*view.values.tolist(), *(point.value for point in view.points)]
    marks = [view.threshold] if view.gate and not stretches(view.threshold, values) else []
    axis = Axis.around([*values, *marks], view.metric.best, log)
    figure = go.Figure(data=_traces(view, axis, k_axis), layout=_layout(view, axis, k_axis))
    return Chart(view.metric.name, figure, view.alt, view.note, config)


def _config(name: str, export: Export) -> dict[str, Any]:
    scale = _PNG_SCALE if export == "png" else 1
    return {
        "displaylogo": False,
        "displayModeBar": True,
        "modeBarButtons": [["toImage"]],
        "toImageButtonOptions": {"format": export, "filename": name, "scale": scale},
    }


def _traces(view: View, axis: Axis, k_axis: KAxis) -> list[Trace]:
    traces = [_curve(view, axis), *_floor(view, axis), *_smallest(view, axis)]
    points = [point for point in view.points if math.isfinite(point.value)]
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
                customdata=[view.point_sentence(point) for point in some],
            )
        )
    ring = {"symbol": "circle-open", "color": _SELECTED, "size": 20, "line": {"width": 2.5}}
    selected = [point for point in points if point.row == view.sweep.selected]
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
    points = [point for point in view.points if math.isfinite(point.value)]
    rows = k_axis.spaced([view.sweep.selected, *(point.row for point in points)], _NUMBER_ROOM)
    named = [point for point in points if point.row in rows]
    rising = bool(view.values[-1] > view.values[0])

    def position(point: Point) -> str:
        # What rises leaves room below on the right and above on the left; what falls, the other way round.
        above = not rising
        if view.gate:
            gate_above = (axis.place(view.threshold) - axis.place(point.value)) / (axis.high - axis.low)
            in_the_way = 0.0 < (gate_above if above else -gate_above) < _NUMBER_HEIGHT
            above = above != in_the_way
        side = "right" if above != rising else "left"
        before = float(view.values[point.row * 2 // 3]) if point.row > 1 else math.nan
        flat = abs(axis.place(before) - axis.place(point.value)) < _FLAT * (axis.high - axis.low)
        if flat or (side == "right" and k_axis.share(point.row) > _NEAR_END):
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


def _curve(view: View, axis: Axis) -> Trace:
    """The line over the ks; a gap where a value has no place."""
    values = view.values[view.drawn - 1]
    placed = [math.nan if axis.on_floor(value) else value for value in values.tolist()]
    sentences = [view.sentence(k) for k in view.drawn.tolist()]
    line = {"color": _CURVE, "width": 2}
    return _trace(view.drawn.tolist(), placed, name="every k", mode="lines", line=line, customdata=sentences)


def _floor(view: View, axis: Axis) -> list[Trace]:
    """On a logarithmic axis, the ks whose value is zero or below: at the floor, where a tick says so."""
    ks = [k for k in view.drawn.tolist() if axis.on_floor(float(view.values[k - 1]))]
    marker = {"symbol": "triangle-down", "color": _CURVE, "size": 7}
    sentences = [view.sentence(k) for k in ks]
    places = [axis.floor] * len(ks)
    return [_trace(ks, places, name="zero", mode="markers", marker=marker, customdata=sentences)]


def _smallest(view: View, axis: Axis) -> list[Trace]:
    k = view.sweep.smallest
    if k is None or not math.isfinite(view.values[k - 1]):
        return []
    marker = {"symbol": "diamond-open", "color": _PASS, "size": 13, "line": {"width": 1.5}}
    place = [axis.drawn(float(view.values[k - 1]))]
    return [_trace([k], place, name="smallest", mode="markers", marker=marker)]


def _trace(ks: Sequence[int], values: Sequence[float | None], **looks: Any) -> Trace:
    trace = {"type": "scatter", "x": ks, "y": values, "cliponaxis": False, **looks}
    hover = {"hovertemplate": "%{customdata}<extra></extra>"} if "customdata" in looks else {"hoverinfo": "skip"}
    return trace | hover


def _layout(view: View, axis: Axis, k_axis: KAxis) -> dict[str, Any]:
    lost = [str(point.candidate.candidate_k) for point in view.points if not math.isfinite(point.value)]
    statistic = view.sweep.receipt.config.statistic
    facts = [words.STATISTICS[statistic]] if statistic != "mean" and view.metric.per_query else []
    facts += [view.direction, view.rule]
    facts += ["log scale"] if axis.log else []
    facts += [f"not finite at k = {words.listed(lost)}"] if lost else []
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
        "xaxis": k_axis.layout,
        "yaxis": axis.layout | {"automargin": False},
        "shapes": shapes,
        "annotations": annotations,
    }
