"""The two axes of a chart: k, shared by all charts, and the chart's values. Each is linear or logarithmic."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pages.ui import words

_LOG_FROM_RATIO = 100.0
_LOG_FROM_ROWS = 24
_ROOM_BELOW, _ROOM_ABOVE = 0.1, 0.2  # of the span; above stand the numbers of the points
_FLOOR_BELOW = 0.15  # of the span: how far below the smallest positive value what is not positive is drawn
_TINIEST, _LARGEST_POWER = 1e-290, 308.0  # so that no power of ten is 0 or infinite
_FAR = 1e3  # times the largest value: a gate farther off is named at the edge and does not stretch the axis
_TICKS = 5
_K_ROOM = 0.02  # of the axis, at both of its ends
_TICK_ROOM = 0.075  # of the axis, from one tick of k to the next


@dataclass(frozen=True)
class KAxis:
    """The k axis from 1 to the most rows, and which ks have a tick."""

    most_rows: int
    log: bool
    selected: int
    ticks: tuple[int, ...] = ()

    @classmethod
    def over(cls, most_rows: int, selected: int, candidates: Iterable[int], log: bool | None) -> "KAxis":
        """An axis with ticks at the selected k and the ends, and as far as there is room at candidates and powers of 2.

        Where `log` is None, it is logarithmic for many rows: small ks matter most.
        """
        axis = cls(most_rows, most_rows >= _LOG_FROM_ROWS if log is None else log, selected)
        powers = [2**power for power in range(most_rows.bit_length())]
        ticks = axis.spaced([selected, 1, most_rows, *candidates, *powers], _TICK_ROOM)
        return replace(axis, ticks=tuple(sorted(ticks)))

    def share(self, k: int) -> float:
        """How far along the axis a k stands, from 0 to 1."""
        if self.most_rows == 1:
            return 0.0
        return math.log(k) / math.log(self.most_rows) if self.log else (k - 1) / (self.most_rows - 1)

    def spaced(self, ks: Iterable[int], room: float) -> list[int]:
        """The ks, in this order of importance, that keep this share of the axis from those before them."""
        taken: list[int] = []
        for k in ks:
            if all(abs(self.share(k) - self.share(other)) >= room for other in taken):
                taken.append(k)
        return taken

    @property
    def layout(self) -> dict[str, Any]:
        """The axis for Plotly, the selected k in bold."""
        low, high = (0.0, math.log10(self.most_rows)) if self.log else (1.0, float(self.most_rows))
        room = (high - low or 1.0) * _K_ROOM
        return {
            "title": {"text": f"k, rows read{' (log scale)' if self.log else ''}", "standoff": 8},
            "type": "log" if self.log else "linear",
            "range": [low - room, high + room],
            "tickvals": list(self.ticks),
            "ticktext": [f"<b>{k}</b>" if k == self.selected else str(k) for k in self.ticks],
            "fixedrange": True,
            "showgrid": False,
            "zeroline": False,
        }


@dataclass(frozen=True)
class Axis:
    """The value axis. Ends are as Plotly wants them: on a logarithmic axis they are powers of ten.

    There, what is not positive has no place, and is drawn at `floor`, under a label of its own.
    """

    low: float
    high: float
    log: bool
    floor: float | None = None
    floor_label: str = "0"

    @classmethod
    def around(cls, values: Iterable[float], best: float, log: bool | None = None) -> "Axis":
        """An axis with room for the values; logarithmic if asked for, or by itself where the values lie far apart."""
        marks = [value for value in values if math.isfinite(value)] or [0.0]
        if log is None:
            log = min(marks) > _TINIEST and max(marks) >= _LOG_FROM_RATIO * min(marks)
        if log:
            return cls._logarithmic(marks)
        marks.append(best if math.isfinite(best) else 0.0)
        span = max(marks) - min(marks) or 1.0
        if not math.isfinite(span):
            return cls(min(marks), max(marks), log=False)
        return cls(min(marks) - _ROOM_BELOW * span, max(marks) + _ROOM_ABOVE * span, log=False)

    @classmethod
    def _logarithmic(cls, marks: Sequence[float]) -> "Axis":
        powers = [math.log10(mark) for mark in marks if mark > _TINIEST] or [0.0]
        low, high = min(powers), max(powers)
        span = high - low or 1.0
        top = min(high + _ROOM_ABOVE * span, _LARGEST_POWER)
        if min(marks) > _TINIEST:
            return cls(low - _ROOM_BELOW * span, top, log=True)
        floor = max(low - _FLOOR_BELOW * span, math.log10(_TINIEST))
        label = "0" if min(marks) >= 0.0 else "≤ 0"
        return cls(floor - _ROOM_BELOW * span, top, True, 10.0**floor, label)

    def drawn(self, value: float) -> float:
        """The value at which a value is drawn: itself, or the floor where it has no place of its own."""
        return self.floor if self.floor is not None and self.on_floor(value) else value

    def on_floor(self, value: float) -> bool:
        """Whether a value has no place of its own, and is drawn at the floor."""
        return self.floor is not None and value <= _TINIEST

    def place(self, value: float) -> float:
        """Where a value stands between the ends."""
        return math.log10(self.drawn(value)) if self.log else value

    def beyond(self, value: float) -> int:
        """Whether a value is off the axis: above its upper end 1, below its lower one -1, else 0."""
        if self.log and self.drawn(value) <= 0.0:
            return -1
        place = self.place(value)
        return (place > self.high) - (place < self.low)

    def failing_end(self, side: Literal["min", "max"]) -> float:
        """The value at the end where a gate of this side fails."""
        end = self.low if side == "min" else self.high
        return 10.0**end if self.log else end

    @property
    def ticks(self) -> list[float]:
        """Round values, few of them; the floor is one."""
        ticks = _log_ticks(self.low, self.high) if self.log else _round_values(self.low, self.high)
        if self.floor is None:
            return ticks
        clear = math.log10(self.floor) + 0.07 * (self.high - self.low)  # so that no label touches that of the floor
        return [self.floor, *(tick for tick in ticks if math.log10(tick) >= clear)]

    @property
    def layout(self) -> dict[str, Any]:
        """The axis for Plotly."""
        ticks = self.ticks
        texts = _texts(ticks)
        if self.floor is not None:
            texts[0] = self.floor_label
        return {
            "type": "log" if self.log else "linear",
            "range": [self.low, self.high],
            "tickvals": ticks,
            "ticktext": texts,
            "fixedrange": True,
            "zeroline": False,
        }


def stretches(threshold: float, values: Iterable[float]) -> bool:
    """Whether a threshold is so far from the values that the axis had better not reach it."""
    return abs(threshold) > _FAR * max((abs(value) for value in values if value), default=1.0)


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, or 1, 2 and 5 times them, or plain round values where even those are too few."""
    every = max(1, math.ceil((high - low) / _TICKS))
    powers = range(math.ceil(low), math.floor(high) + 1)
    for ticks in (
        [10.0**power for power in powers if power % every == 0],
        [m * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)],
    ):
        inside = [tick for tick in ticks if low <= math.log10(tick) <= high]
        if len(inside) >= 3:
            return inside
    return [tick for tick in _round_values(10.0**low, 10.0**high) if tick > 0.0]


def _round_values(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    rough = (high / _TICKS) - (low / _TICKS)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= rough * (1 - 1e-9))
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _texts(ticks: Sequence[float]) -> list[str]:
    """The ticks in as few digits as tell them apart."""
    for digits in range(3, 17):
        texts = [words.number(tick, digits) for tick in ticks]
        if len(set(texts)) == len(texts):
            break
    return texts
