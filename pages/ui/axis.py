"""The value axis of a chart: its ends, and whether it is logarithmic."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

_LOG_FROM_RATIO = 100.0
_ROOM_BELOW, _ROOM_ABOVE = 0.1, 0.25  # of the span; above stand the numbers of the points


@dataclass(frozen=True)
class Axis:
    """Ends as Plotly wants them: on a logarithmic axis they are powers of ten."""

    low: float
    high: float
    log: bool

    @classmethod
    def around(cls, values: Iterable[float], best: float) -> "Axis":
        """An axis with room for the values and the best one; logarithmic where the values lie far apart."""
        marks = [value for value in values if math.isfinite(value)] or [0.0]
        log = min(marks) > 0.0 and max(marks) >= _LOG_FROM_RATIO * min(marks)
        if log:
            marks = [math.log10(mark) for mark in marks]
        else:
            marks.append(best if math.isfinite(best) else 0.0)
        span = max(marks) - min(marks) or 1.0
        return cls(min(marks) - _ROOM_BELOW * span, max(marks) + _ROOM_ABOVE * span, log)

    def place(self, value: float) -> float:
        """Where a value stands between the ends."""
        return math.log10(value) if self.log else value

    def failing_end(self, side: Literal["min", "max"]) -> float:
        """The value at the end where a gate of this side fails."""
        end = self.low if side == "min" else self.high
        return 10.0**end if self.log else end

    @property
    def tick_step(self) -> float | None:
        """Whole powers of ten on a logarithmic axis, else what Plotly thinks best."""
        return math.ceil((self.high - self.low) / 5.0) if self.log else None
