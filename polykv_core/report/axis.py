"""The two axes of a chart: k, and the chart's values. Each is linear or logarithmic, and knows where a value stands."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polykv_core.report import words

_LOG_FROM_RATIO = 100.0
_LOG_FROM_ROWS = 24
_ROOM_BELOW, _ROOM_ABOVE = 0.1, 0.2  # of the span; above stand the numbers of the points
_FLOOR_BELOW = 0.15  # of the span: how far below the smallest positive value 0 is drawn
_TINIEST, _LARGEST_POWER = 1e-290, 308.0  # so that no power of ten is 0 or infinite
_FAR = 1e3  # times the largest value: a gate farther off is named at the edge and does not stretch the axis
_TICKS = 5
_CLEAR = 0.08  # of the axis, from the floor's label to the next
_K_ROOM = 0.03  # of the axis, at both of its ends


@dataclass(frozen=True)
class KAxis:
    """The k axis from 1 to the most rows; logarithmic for many rows, for small ks matter most."""

    most_rows: int

    @property
    def log(self) -> bool:
        """Whether it is logarithmic."""
        return self.most_rows >= _LOG_FROM_ROWS

    def share(self, k: int) -> float:
        """How far along the axis a k stands, from 0 to 1; at both ends some room is left."""
        if self.most_rows == 1:
            return 0.5
        along = math.log(k) / math.log(self.most_rows) if self.log else (k - 1) / (self.most_rows - 1)
        return _K_ROOM + (1.0 - 2.0 * _K_ROOM) * along

    def worth_a_tick(self, selected: int, candidates: Iterable[int]) -> list[int]:
        """The ks that may have a tick, the most important first."""
        powers = [2**power for power in range(self.most_rows.bit_length())]
        return list(dict.fromkeys([selected, 1, self.most_rows, *candidates, *powers]))


@dataclass(frozen=True)
class Axis:
    """The value axis. Ends are values, or on a logarithmic axis powers of ten.

    There 0 has no place, and is drawn at `floor`, under a label of its own.
    """

    low: float
    high: float
    log: bool
    floor: float | None = None

    @classmethod
    def around(cls, values: Iterable[float], best: float) -> "Axis":
        """An axis with room for the values; logarithmic where they lie far apart."""
        marks = [value for value in values if math.isfinite(value)] or [0.0]
        positive = [mark for mark in marks if mark > _TINIEST]
        if positive and min(marks) >= 0.0 and max(positive) >= _LOG_FROM_RATIO * min(positive):
            return cls._logarithmic(marks)
        marks.append(best if math.isfinite(best) else 0.0)
        span = max(marks) - min(marks) or 1.0
        if not math.isfinite(span):
            return cls(min(marks), max(marks), log=False)
        return cls(min(marks) - _ROOM_BELOW * span, max(marks) + _ROOM_ABOVE * span, log=False)

    @classmethod
    def _logarithmic(cls, marks: Sequence[float]) -> "Axis":
        powers = [math.log10(mark) for mark in marks if mark > _TINIEST]
        low, high = min(powers), max(powers)
        span = high - low or 1.0
        top = min(high + _ROOM_ABOVE * span, _LARGEST_POWER)
        if min(marks) > _TINIEST:
            return cls(low - _ROOM_BELOW * span, top, log=True)
        floor = max(low - _FLOOR_BELOW * span, math.log10(_TINIEST))
        return cls(floor - _ROOM_BELOW * span, top, True, 10.0**floor)

    def on_floor(self, value: float) -> bool:
        """Whether a value has no place of its own, and is drawn at the floor."""
        return self.floor is not None and value <= _TINIEST

    def share(self, value: float) -> float:
        """How far up the axis a value stands: 0 at its lower end, 1 at its upper one, and beyond."""
        if self.on_floor(value) and self.floor is not None:
            value = self.floor
        if self.log and value <= 0.0:
            return -math.inf
        place = math.log10(value) if self.log else value
        return place / (self.high - self.low) - self.low / (self.high - self.low)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round values, few of them, each with its text; the floor is one."""
        ticks = _log_ticks(self.low, self.high) if self.log else _round_values(self.low, self.high)
        if self.floor is None:
            return list(zip(ticks, _texts(ticks), strict=True))
        clear = self.share(self.floor) + _CLEAR
        ticks = [tick for tick in ticks if self.share(tick) >= clear]
        return [(self.floor, "0"), *zip(ticks, _texts(ticks), strict=True)]


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
