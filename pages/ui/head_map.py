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
from polykv_core.sweep.losses import BASE
from polykv_core.sweep.maps import HeadMap, loss_name
from polykv_core.sweep.verdict import HeadVerdict

MARGIN, SMALLEST_K, METRIC = "margin", "smallest_passing_k", "metric"
# What can be mapped: of the last ones, in one of the gated metrics.
KINDS = {
    MARGIN: "Worst gate's margin",
    SMALLEST_K: "Smallest passing k",
    METRIC: "A metric at the selected k",
    BASE: "Loss before any compression",
    **{step: f"Loss added by {STAGE_WORDS[step][0].lower()}" for step in ALONE},
}
# Pale enough for black text, and told apart by those who see colours otherwise: blue is good, orange is bad.
_GOOD, _MIDDLE, BAD = "#74ADD1", "#F7F7F7", "#F08A3C"
_TEXT = "#111111"
_ROW, _COLUMN = 44, 64
_LEAST_PLOT = 132  # pixels, for the labels of the colours
_LEAST_ROW, _LEAST_COLUMN = 16, 18
_MOST_HEIGHT, _MOST_WIDTH = 900, 1000
_ROOM_FOR_NUMBERS, _ROOM_FOR_A_TICK = 52, 24  # pixels of a column
# Margins, in % of a threshold: colours go with their logarithm beyond 1 %, to where they no longer change.
_MARGIN_TICKS = (-10_000, -100, 0, 100)
_MOST_TICKS = 8


@dataclass(frozen=True)
class Shown:
    """A figure, and the same in words for those who do not see it."""

    figure: go.Figure
    alt: str


def needs_metric(kind: str) -> bool:
    """Whether a map is of one of the gated metrics."""
    return kind not in (MARGIN, SMALLEST_K)


def draw_map(found: HeadMap, kind: str, metric: str, chosen: str = "") -> Shown:
    """The map of a model's heads; the one of the name `chosen` is framed."""
    grid = found.grids[_grid(kind, metric)]
    rows, columns = np.nonzero([[(la, he) in found.heads for he in found.head_indices] for la in found.layers])
    heads = [place_of(found, index) for index in range(len(rows))]
    values = grid[rows, columns].tolist()
    width = max(_LEAST_COLUMN, min(_COLUMN, _MOST_WIDTH // len(found.head_indices)))
    height = max(_LEAST_ROW, min(_ROW, _MOST_HEIGHT // len(found.layers)))
    height = max(height, _LEAST_PLOT // len(found.layers))
    label, scale = _label(kind, metric), _scale(kind, metric, _coloured(kind, metric, np.array(values)).tolist())
    colours = {
        "type": "heatmap",
        "z": _coloured(kind, metric, np.where(np.isfinite(grid), grid, np.nan)),
        "text": _texts(found, grid, kind, width),
        "texttemplate": "%{text}",
        "textfont": {"color": _TEXT},  # of a size that fits
        "xgap": 2,
        "ygap": 2,
        "hoverinfo": "skip",
        "colorbar": {"thickness": 12, "outlinewidth": 0, **scale["colorbar"]},
        **{name: scale[name] for name in ("colorscale", "zmin", "zmax")},
    }
    marks = {
        "type": "scatter",
        "mode": "markers",
        "x": columns.tolist(),
        "y": rows.tolist(),
        "marker": {"symbol": "square", "size": min(height, width), "color": "rgba(0,0,0,0)"},
        "customdata": [_told(head, value, label, kind) for head, value in zip(heads, values, strict=True)],
        "hovertemplate": "%{customdata}<extra></extra>",
        "selected": {"marker": {"opacity": 1.0}},
        "unselected": {"marker": {"opacity": 1.0}},
    }
    layout: dict[str, Any] = {
        "title": {"text": label, "subtitle": {"text": _direction(kind, metric)}},
        "height": 124 + height * len(found.layers),
        "margin": {"l": 56, "r": 24, "t": 70, "b": 54},
        "showlegend": False,
        "shapes": [
            _frame(row, column)
            for row, column, head in zip(rows.tolist(), columns.tolist(), heads, strict=True)
            if head.name == chosen
        ],
        "dragmode": False,
        "hoverlabel": {"align": "left", "bgcolor": _MIDDLE, "font": {"color": _TEXT}},
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
    return words.METRIC_BY_NAME[metric].direction if kind == METRIC else f"{STAGE_WORDS[kind][1]}; lower is better"


def _coloured(kind: str, metric: str, grid: Float64[Array, "*places"]) -> Float64[Array, "*places"]:
    """What the colours go by: margins differ by powers of ten, and of some metrics the sign is neither good nor bad."""
    if kind == MARGIN:
        return np.asarray(np.sign(grid) * np.log10(1.0 + np.abs(100.0 * grid)))
    towards_zero = kind == METRIC and words.METRIC_BY_NAME[metric].direction == "closer to 0 is better"
    return np.abs(grid) if towards_zero else grid


def _scale(kind: str, metric: str, values: Sequence[float]) -> dict[str, Any]:
    """The colours, from where to where they go, and their labels."""
    if kind == MARGIN:
        low, *middle, high = _coloured(kind, metric, np.array(_MARGIN_TICKS) / 100.0).tolist()
        labels = {
            "tickvals": [low, *middle, high],
            "ticktext": [f"{tick:+,d}%" if tick else "0" for tick in _MARGIN_TICKS],
        }
        colours = [[0.0, BAD], [-low / (high - low), _MIDDLE], [1.0, _GOOD]]
        return {"colorscale": colours, "zmin": low, "zmax": high, "colorbar": labels}
    finite = sorted({value for value in values if math.isfinite(value)}) or [0.0]
    # All alike is no reason for a scale of no width.
    low, high = finite[0], finite[-1]
    high = high if high > low else low + 1.0
    colours = [[0.0, _MIDDLE], [1.0, BAD]]
    if kind == METRIC and words.METRIC_BY_NAME[metric].direction == "higher is better":
        colours = [[0.0, BAD], [1.0, _MIDDLE]]
    few = {"tickvals": finite} if kind == SMALLEST_K and len(finite) <= _MOST_TICKS else {}
    return {"colorscale": colours, "zmin": low, "zmax": high, "colorbar": few}


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
    percent = 100.0 * value
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(percent) >= size:
            beyond = "<-999G%" if percent < 0 else ">999G%"
            return f"{percent / size:+.3g}{letter}%" if abs(percent) < 1000.0 * size else beyond
    return f"{percent:+.2g}%" if abs(percent) < 10 else f"{percent:+.0f}%"


def _told(head: HeadVerdict, value: float, label: str, kind: str) -> str:
    place = f"Layer {head.item.layer}, head {head.item.head_index}"
    if head.receipt is None:
        return f"<b>{place}</b>: no verdict"
    gate = head.worst_gate
    worst = "" if gate is None else f"<br>Worst gate: {gate.gate.label}, {words.margin(gate, 4)}"
    shown = "none" if not math.isfinite(value) else _number(value, kind) if kind == MARGIN else words.number(value, 5)
    return f"<b>{place}</b> {words.verb(head.passed)} at k = {head.selected_k}{worst}<br>{label}: {shown}"


def _frame(row: int, column: int) -> dict[str, Any]:
    """Around a square, however wide it is drawn."""
    corners = {"x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5}
    return {"type": "rect", **corners, "line": {"width": 3, "color": _TEXT}}


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
