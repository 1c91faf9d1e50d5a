"""A gate in a chart: a line at its threshold, a shade on its failing side, and both said in words beside it."""

from typing import Any

from polykv_core import Gate, words
from polykv_core.axis import Axis

Mark = dict[str, Any]

_COLOUR = "#D55E00"
_SHADE = "rgba(213, 94, 0, 0.12)"


def drawn(gate: Gate, threshold: float, axis: Axis) -> tuple[list[Mark], list[Mark]]:
    """The line at the threshold, the shade on its failing side, and the label in the margin."""
    sign, failing = ("≥", "below") if gate.side == "min" else ("≤", "above")
    text = f"gate {sign} {words.number(threshold, digits=4)}"
    label = {"x": 1.0, "xshift": 6, "xref": "paper", "xanchor": "left", "align": "left", "showarrow": False}
    across = {"xref": "paper", "x0": 0, "x1": 1}
    shade = across | {"type": "rect", "layer": "below", "fillcolor": _SHADE, "line": {"width": 0}}

    side = axis.beyond(threshold)
    if not side:
        y = axis.drawn(threshold)
        line = across | {"type": "line", "y0": y, "y1": y, "line": {"color": _COLOUR, "width": 1.5, "dash": "dash"}}
        end = axis.low if gate.side == "min" else axis.high
        shade |= {"y0": y, "y1": 10.0**end if axis.log else end}
        return [shade, line], [label | {"text": f"{text}<br>fails {failing}", "y": axis.place(threshold)}]

    # Too far off to be drawn: then every value is on the same side of it.
    arrow, end, anchor = ("↑", axis.high, "top") if side > 0 else ("↓", axis.low, "bottom")
    all_fail = (side > 0) == (gate.side == "min")
    shades = [shade | {"yref": "paper", "y0": 0, "y1": 1}] if all_fail else []
    return shades, [label | {"text": f"{arrow} {text},<br>off this scale", "y": end, "yanchor": anchor}]
