"""The map of a sweep: a square for each head, layers down and heads across, coloured by one number and marked by word.

A square is a marker, not a cell of a heat map: only a marker can be clicked. Plotly reads some HTML in its texts, so
those are built from numbers and the core's own labels, never from a file.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from polykv_core import words
from polykv_core.arrays import Array, Float64
from polykv_core.explain import ALONE
from polykv_core.gates import GATES
from polykv_core.ladder import STAGE_WORDS
from polykv_core.sweep.maps import HeadMap, loss_name
from polykv_core.sweep.verdict import HeadVerdict

MARGIN, SMALLEST_K, METRIC = "margin", "smallest_passing_k", "metric"
# What can be mapped: of the last ones, in one of the gated metrics.
KINDS = {
    MARGIN: "Worst gate's margin",
    SMALLEST_K: "Smallest passing k",
    METRIC: "A metric at the selected k",
    **{step: f"Loss by {STAGE_WORDS[step][0].lower()}" for step in ALONE},
}
# Both read well by those who see colours otherwise: blue is good, orange is bad; bright is good.
_SIDES = [[0.0, "#B35806"], [0.5, "#F7F7F7"], [1.0, "#2166AC"]]
_SHADES = "Cividis"
_ROW, _COLUMN = 44, 64
_LEAST_ROW, _LEAST_COLUMN = 16, 18
_MOST_HEIGHT, _MOST_WIDTH = 900, 1000
_ROOM_FOR_NUMBERS, _ROOM_FOR_A_TICK = 52, 24  # pixels of a column
_TIMES_FROM, _MOST_TIMES = 9.995, 999.0  # margins, as shares of a threshold
_MARGIN_SHOWN = 1.0  # beyond a threshold's own size, colours no longer change


@dataclass(frozen=True)
class Shown:
    """A figure, and the same in words for those who do not see it."""

    figure: go.Figure
    alt: str


def needs_metric(kind: str) -> bool:
    """Whether a map is of one of the gated metrics."""
    return kind not in (MARGIN, SMALLEST_K)


def draw_map(found: HeadMap, kind: str, metric: str) -> Shown:
    """The map of a model's heads."""
    grid = found.grids[_grid(kind, metric)]
    rows, columns = np.nonzero([[(la, he) in found.heads for he in found.head_indices] for la in found.layers])
    heads = [place_of(found, index) for index in range(len(rows))]
    values = grid[rows, columns].tolist()
    width = max(_LEAST_COLUMN, min(_COLUMN, _MOST_WIDTH // len(found.head_indices)))
    height = max(_LEAST_ROW, min(_ROW, _MOST_HEIGHT // len(found.layers)))
    label, scale = _label(kind, metric), _scale(kind, values)
    colours = {
        "type": "heatmap",
        "z": np.where(np.isfinite(grid), grid, np.nan),
        "text": _texts(found, grid, kind, width),
        "texttemplate": "%{text}",  # Plotly chooses black or white for each square
        "textfont": {"size": 11},
        "xgap": 2,
        "ygap": 2,
        "hoverinfo": "skip",
        "colorbar": {"thickness": 12, "outlinewidth": 0, "tickformat": ".0%" if kind == MARGIN else ""},
        **{name: scale[name] for name in ("colorscale", "zmin", "zmax")},
    }
    marks = {
        "type": "scatter",
        "mode": "markers",
        "x": columns.tolist(),
        "y": rows.tolist(),
        "marker": {"symbol": "square", "size": min(height, width), "color": "rgba(0,0,0,0)"},
        "customdata": [_told(head, value, label) for head, value in zip(heads, values, strict=True)],
        "hovertemplate": "%{customdata}<extra></extra>",
        "selected": {"marker": {"opacity": 1.0}},
        "unselected": {"marker": {"opacity": 1.0}},
    }
    layout: dict[str, Any] = {
        "title": {"text": label, "subtitle": {"text": _direction(kind, metric)}},
        "height": 124 + height * len(found.layers),
        "margin": {"l": 56, "r": 24, "t": 70, "b": 54},
        "showlegend": False,
        "dragmode": False,
        "hoverlabel": {"align": "left"},
        "xaxis": _axis("head", found.head_indices, width),
        "yaxis": _axis("layer", found.layers, height) | {"range": [len(found.layers) - 0.5, -0.5]},
    }
    return Shown(go.Figure(data=[colours, marks], layout=layout), _alt(found, label, kind, metric, values, heads))


def place_of(found: HeadMap, index: int) -> HeadVerdict:
    """The head that was clicked: they are numbered row by row."""
    return found.heads[sorted(found.heads)[index]]


def _grid(kind: str, metric: str) -> str:
    if kind == METRIC:
        return metric
    return loss_name(kind, metric) if needs_metric(kind) else kind


def _label(kind: str, metric: str) -> str:
    if not needs_metric(kind):
        return KINDS[kind]
    name = words.named(metric, words.METRIC_BY_NAME[metric].label)
    return f"{name} at the selected k" if kind == METRIC else f"{KINDS[kind]} in {name}"


def _direction(kind: str, metric: str) -> str:
    if kind == MARGIN:
        return "in % of its threshold; negative fails, higher is better"
    if kind == SMALLEST_K:
        return "of the candidates; lower is better, none where every candidate fails"
    return (
        words.METRIC_BY_NAME[metric].direction
        if kind == METRIC
        else "one step made as the replay does; lower is better"
    )


def _scale(kind: str, values: Sequence[float]) -> dict[str, Any]:
    """The colours, and from where to where they go."""
    if kind == MARGIN:
        return {"colorscale": _SIDES, "zmin": -_MARGIN_SHOWN, "zmax": _MARGIN_SHOWN}
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    # All alike is no reason for a scale of no width.
    low, high = min(finite), max(finite)
    return {"colorscale": _SHADES, "zmin": low, "zmax": high if high > low else low + 1.0}


def _texts(found: HeadMap, grid: Float64[Array, "layer head"], kind: str, width: int) -> list[list[str]]:
    """A mark for each verdict, and the number where there is room; nothing where there is no head."""
    texts = []
    for layer, values in zip(found.layers, grid.tolist(), strict=True):
        heads = [found.heads.get((layer, index)) for index in found.head_indices]
        texts.append(
            [_text(head, value, kind, width) if head else "" for head, value in zip(heads, values, strict=True)]
        )
    return texts


def _text(head: HeadVerdict, value: float, kind: str, width: int) -> str:
    mark = "!" if head.receipt is None else "✓" if head.passed else "✕"
    return mark if width < _ROOM_FOR_NUMBERS else f"{mark}<br>{_number(value, kind)}"


def _number(value: float, kind: str) -> str:
    """A number in five letters or so; the whole of it is told beside the pointer."""
    if not math.isfinite(value):
        return "none"
    if kind != MARGIN:
        return words.number(value, 3)
    if abs(value) < _TIMES_FROM:
        return f"{100 * value:+.0f}%"
    beyond = f"{'<-' if value < 0 else '>'}{_MOST_TIMES:.0f}"
    return words.unbroken(f"{beyond if abs(value) > _MOST_TIMES else f'{value:+.0f}'}\N{MULTIPLICATION SIGN}")


def _told(head: HeadVerdict, value: float, label: str) -> str:
    place = f"Layer {head.item.layer}, head {head.item.head_index}"
    if head.receipt is None:
        return f"<b>{place}</b>: no verdict"
    gate = head.worst_gate
    worst = "" if gate is None else f"<br>Worst gate: {gate.gate.label}, {words.margin(gate, 4)}"
    shown = "none" if not math.isfinite(value) else words.number(value, 5)
    return f"<b>{place}</b> {words.verb(head.passed)} at k = {head.selected_k}{worst}<br>{label}: {shown}"


def _axis(title: str, places: Sequence[int], pixels: int) -> dict[str, Any]:
    step = 1 if pixels >= _ROOM_FOR_A_TICK else 4
    return {
        "title": {"text": title},
        "tickvals": list(range(0, len(places), step)),
        "ticktext": [str(place) for place in places[::step]],
        "range": [-0.5, len(places) - 0.5],
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }


def _alt(
    found: HeadMap, label: str, kind: str, metric: str, values: Sequence[float], heads: Sequence[HeadVerdict]
) -> str:
    finite = [value for value in values if math.isfinite(value)]
    span = f"; from {words.number(min(finite), 4)} to {words.number(max(finite), 4)}" if finite else ""
    passing = sum(head.passed for head in heads)
    size = f"{len(found.layers)} layers by {len(found.head_indices)} heads"
    return f"{label}, {_direction(kind, metric)}. A map of {size}, {passing} of {len(heads)} pass{span}."


METRICS = tuple(gate.metric for gate in GATES)
