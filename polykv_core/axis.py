"""The two axes of a chart: k, and the chart's values. Each is linear or logarithmic, and knows where a value stands."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polykv_core import words

_LOG_FROM_RATIO = 100.0
_LOG_FROM_ROWS = 24
_ROOM_BELOW, _ROOM_ABOVE = 0.1, 0.2  # of the span; above stand the numbers of the points
_K_ROOM = 0.03  # of the span, at both ends
_FLOOR_BELOW = 0.15  # of the span: how far below the smallest positive value what is not positive is drawn
_TINIEST, _LARGEST_POWER = 1e-290, 308.0  # so that no power of ten is 0 or infinite
_FAR = 1e3  # times the largest value: a gate farther off is named at the edge and does not stretch the axis
_TICKS = 5
_CLEAR = 0.08  # of the axis, from the floor's label to the next


@dataclass(frozen=True)
class Scale:
    """An axis from its lower end to its upper one. On a logarithmic axis the ends are powers of ten."""

    low: float
    high: float
    log: bool

    def place(self, value: float) -> float:
        """Where a value stands between the ends."""
        if not self.log:
            return value
        return math.log10(value) if value > 0.0 else -math.inf

    def share(self, value: float) -> float:
        """How far along the axis a value stands: 0 at its lower end, 1 at its upper one, and beyond."""
        return self.place(value) / (self.high - self.low) - self.low / (self.high - self.low)

    def beyond(self, value: float) -> int:
        """Whether a value is off the axis: above its upper end 1, below its lower one -1, else 0."""
        return (self.place(value) > self.high) - (self.place(value) < self.low)


@dataclass(frozen=True)
class KAxis(Scale):
    """The k axis from 1 to the most rows, with some room at both ends."""

    most_rows: int

    @classmethod
    def over(cls, most_rows: int, log: bool | None = None) -> "KAxis":
        """An axis that is logarithmic if asked for, or by itself for many rows: small ks matter most."""
        log = most_rows >= _LOG_FROM_ROWS if log is None else log
        first, last = (0.0, math.log10(most_rows)) if log else (1.0, float(most_rows))
        room = (last - first or 1.0) * _K_ROOM
        return cls(first - room, last + room, log, most_rows)

    def worth_a_tick(self, selected: int, candidates: Iterable[int]) -> list[int]:
        """The ks that may have a tick, the most important first."""
        powers = [2**power for power in range(self.most_rows.bit_length())]
        return list(dict.fromkeys([selected, 1, self.most_rows, *candidates, *powers]))


@dataclass(frozen=True)
class Axis(Scale):
    """The value axis. What is not positive has no place on a logarithmic one.

    It is drawn at `floor`, under a label of its own.
    """

    floor: float | None = None
    floor_label: str = "0"

    @classmethod
    def around(cls, values: Iterable[float], best: float, log: bool | None = None) -> "Axis":
        """An axis with room for the values; logarithmic if asked for, or by itself where they lie far apart.

        Zeros do not keep it from that: on a linear axis those that matter would lie flat on them.
        """
        marks = [value for value in values if math.isfinite(value)] or [0.0]
        positive = [mark for mark in marks if mark > _TINIEST]
        if log is None:
            log = bool(positive) and min(marks) >= 0.0 and max(positive) >= _LOG_FROM_RATIO * min(positive)
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

    def on_floor(self, value: float) -> bool:
        """Whether a value has no place of its own, and is drawn at the floor."""
        return self.floor is not None and value <= _TINIEST

    def drawn(self, value: float) -> float:
        """The value at which a value is drawn: itself, or the floor where it has no place of its own."""
        return self.floor if self.floor is not None and self.on_floor(value) else value

    def place(self, value: float) -> float:
        """Where a value stands between the ends."""
        return super().place(self.drawn(value))

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round values, few of them, each with its text; the floor is one."""
        ticks = _log_ticks(self.low, self.high) if self.log else _round_values(self.low, self.high)
        if self.floor is None:
            return list(zip(ticks, _texts(ticks), strict=True))
        clear = self.share(self.floor) + _CLEAR
        ticks = [tick for tick in ticks if self.share(tick) >= clear]
        return [(self.floor, self.floor_label), *zip(ticks, _texts(ticks), strict=True)]


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
    return texts if ticks else []
