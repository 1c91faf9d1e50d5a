"""The core's axes as Plotly wants them."""

from collections.abc import Iterable
from typing import Any

from polykv_core.axis import Axis, KAxis, Scale

_TICK_ROOM = 0.07  # of the axis, from one tick of k to the next


def values(axis: Axis) -> dict[str, Any]:
    """The value axis."""
    tickvals, ticktext = zip(*axis.ticks, strict=True) if axis.ticks else ((), ())
    return _settings(axis) | {"tickvals": list(tickvals), "ticktext": list(ticktext)}


def ks(axis: KAxis, selected: int, candidates: Iterable[int] = ()) -> dict[str, Any]:
    """The k axis, with as many ticks as there is room for, the selected k in bold."""
    ticks = k_ticks(axis, selected, candidates)
    return _settings(axis) | {
        "title": {"text": f"k, rows read{' (log scale)' if axis.log else ''}", "standoff": 8},
        "tickvals": ticks,
        "ticktext": [f"<b>{k}</b>" if k == selected else str(k) for k in ticks],
        "showgrid": False,
    }


def k_ticks(axis: KAxis, selected: int, candidates: Iterable[int] = ()) -> list[int]:
    """Ticks at the selected k and the ends, and as far as there is room at candidates and powers of 2."""
    return sorted(spaced(axis, axis.worth_a_tick(selected, candidates), _TICK_ROOM))


def spaced(axis: KAxis, ks: Iterable[int], room: float) -> list[int]:
    """The ks, in this order of importance, that keep this share of the axis from those before them."""
    taken: list[int] = []
    for k in ks:
        if all(abs(axis.share(float(k)) - axis.share(float(other))) >= room for other in taken):
            taken.append(k)
    return taken


def _settings(axis: Scale) -> dict[str, Any]:
    kind = "log" if axis.log else "linear"
    return {"type": kind, "range": [axis.low, axis.high], "fixedrange": True, "zeroline": False}
