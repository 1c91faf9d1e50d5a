"""From a receipt to Plotly figures: one chart a metric, its gate as a line and the failing side shaded.

Colours are from Okabe and Ito's set, legible on light and dark; every distinction is also made by a symbol or a word.
Plotly reads some HTML in its texts, so those are built from numbers and the core's own labels, never from a fixture.
"""

import math
from dataclasses import dataclass

import plotly.graph_objects as go

from pages.ui import words
from pages.ui.axis import Axis
from pages.ui.view import Point, View
from polykv_core import CapturedReplayReceipt, GateVerdict

CHARTED = (
    "output_cosine_mean",
    "output_mse_mean",
    "kl_divergence_mean",
    "decode_reduction",
    "top1_agreement",
    "ppl_proxy_delta",
)
LEGEND = "● passes all gates, ✕ fails at least one gate, ◯ selected; shaded: the failing side of the gate."

_PASS, _FAIL, _SELECTED, _LINE = "#009E73", "#D55E00", "#0072B2", "#888888"
_SHADE = "rgba(213, 94, 0, 0.14)"
_MOST_NUMBERS = 10


@dataclass(frozen=True)
class Chart:
    """A figure, the metric it shows, and the same in words for those who do not see it."""

    metric: str
    figure: go.Figure
    alt: str


def charts(receipt: CapturedReplayReceipt) -> list[Chart]:
    """The charts of a receipt, in the order of CHARTED."""
    return [_chart(View(receipt, words.METRIC_BY_NAME[name])) for name in CHARTED]


def _chart(view: View) -> Chart:
    thresholds = [view.gate.threshold] if view.gate else []
    axis = Axis.around([*(point.value for point in view.points), *thresholds], view.metric.best)
    figure = go.Figure()
    _add_points(figure, view)
    if view.gate:
        _add_gate(figure, view.gate, axis)
    _lay_out(figure, view, axis)
    return Chart(view.metric.name, figure, view.alt)


def _add_points(figure: go.Figure, view: View) -> None:
    line = {"color": _LINE, "width": 1.5, "dash": "dot"}
    _add_trace(figure, view.drawn, mode="lines", line=line, hoverinfo="skip")
    for passes, symbol, colour in ((True, "circle", _PASS), (False, "x", _FAIL)):
        points = [point for point in view.drawn if point.candidate.passed == passes]
        _add_trace(
            figure,
            points,
            mode="markers",
            marker={"symbol": symbol, "color": colour, "size": 10},
            name="passes" if passes else "fails",
            customdata=[view.sentence(point) for point in points],
            hovertemplate="%{customdata}<extra></extra>",
        )
    ring = {"symbol": "circle-open", "color": _SELECTED, "size": 20, "line": {"width": 2}}
    selected = [point for point in view.drawn if point.selected]
    _add_trace(figure, selected, mode="markers", marker=ring, name="selected", hoverinfo="skip")
    if len(view.drawn) <= _MOST_NUMBERS:
        unseen = {"size": 22, "opacity": 0}  # keeps the numbers clear of the ring
        numbers = [words.number(point.value, digits=4) for point in view.drawn]
        _add_trace(
            figure,
            view.drawn,
            mode="markers+text",
            marker=unseen,
            text=numbers,
            textposition="top center",
            hoverinfo="skip",
        )


def _add_trace(figure: go.Figure, points: list[Point], **looks: object) -> None:
    figure.add_scatter(x=[point.k for point in points], y=[point.value for point in points], cliponaxis=False, **looks)


def _add_gate(figure: go.Figure, verdict: GateVerdict, axis: Axis) -> None:
    threshold, side = verdict.threshold, verdict.gate.side
    sign, failing = ("≥", "below") if side == "min" else ("≤", "above")
    across = {"xref": "paper", "x0": 0, "x1": 1, "y0": threshold}
    figure.add_shape(
        type="rect", y1=axis.failing_end(side), fillcolor=_SHADE, line={"width": 0}, layer="below", **across
    )
    figure.add_shape(type="line", y1=threshold, line={"color": _FAIL, "width": 2, "dash": "dash"}, **across)
    figure.add_annotation(
        text=f"gate {sign} {words.number(threshold)}<br>fails {failing}",
        x=1.01,
        xref="paper",
        xanchor="left",
        y=axis.place(threshold),
        align="left",
        showarrow=False,
    )


def _lay_out(figure: go.Figure, view: View, axis: Axis) -> None:
    lost = [point.k for point in view.points if point not in view.drawn]
    facts = [view.direction, view.rule]
    facts += ["log scale"] if axis.log else []
    facts += [f"not finite at k = {words.listed(lost)}"] if lost else []
    every = math.ceil(len(view.points) / _MOST_NUMBERS)
    ticks = [point for index, point in enumerate(view.points) if index % every == 0 or point.selected]
    figure.update_layout(
        title={"text": words.named(view.metric.name, view.label), "subtitle": {"text": ", ".join(facts)}},
        showlegend=False,
        dragmode=False,
        hoverlabel={"align": "left"},
        height=330,
        margin={"l": 10, "r": 100, "t": 70, "b": 50},
    )
    figure.update_xaxes(
        title="candidate k (rows read)",
        type="category",  # candidates are choices: close or far apart, each gets the same room
        categoryarray=[point.k for point in view.points],
        range=[-0.5, len(view.points) - 0.5],
        tickvals=[point.k for point in ticks],
        ticktext=[f"<b>{point.k}</b>" if point.selected else point.k for point in ticks],
        fixedrange=True,
    )
    figure.update_yaxes(
        type="log" if axis.log else "linear", range=[axis.low, axis.high], dtick=axis.tick_step, fixedrange=True
    )
