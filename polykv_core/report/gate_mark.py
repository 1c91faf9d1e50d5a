"""A gate in a chart: a line at its threshold, a shade on its failing side, and a label in the margin beside it."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import cached_property

from polykv_core import words
from polykv_core.axis import Axis
from polykv_core.gates import Gate
from polykv_core.report.svg import FONT, LINE, Box, add, line, text_width


@dataclass(frozen=True, eq=False)
class GateMark:
    """A gate on a value axis, or off it: then every value is on the same side of it."""

    gate: Gate
    threshold: float
    axis: Axis

    @cached_property
    def lines(self) -> list[str]:
        """The label: above or below the axis it says so."""
        sign, failing = ("≥", "below") if self.gate.side == "min" else ("≤", "above")
        rule = f"{sign} {words.number(self.threshold, digits=4)}"
        if self._off_axis:
            return [f"{'↑' if self._off_axis > 0 else '↓'} gate", rule, "off scale"]
        return ["gate", rule, f"fails {failing}"]

    @property
    def width(self) -> float:
        """How much room the label takes."""
        return max(map(text_width, self.lines))

    def draw_shade(self, root: ET.Element, plot: Box) -> None:
        """The failing side, below everything else."""
        y = self._y(plot)
        top, bottom = (y, plot.bottom) if self.gate.side == "min" else (plot.top, y)
        if bottom > top:
            width = plot.right - plot.left
            add(root, "rect", x=plot.left, y=top, width=width, height=bottom - top, kind="fails-here")

    def draw_line(self, root: ET.Element, plot: Box) -> None:
        """The line, unless it is off the axis, and the label."""
        if not self._off_axis:
            y = self._y(plot)
            line(root, (plot.left, y), (plot.right, y), "gate")
        for index, text in enumerate(self.lines):
            add(root, "text", text, x=plot.right + 6, y=self._first_line(plot) + index * LINE, kind="gate-label")

    def taken(self, plot: Box) -> list[Box]:
        """What numbers must keep clear of: the line and the label."""
        y, first = self._y(plot), self._first_line(plot)
        label = Box(plot.right, first - FONT, plot.right + 6 + self.width, first + 2 * LINE + 4)
        return [label] if self._off_axis else [label, Box(plot.left, y - 2, plot.right, y + 2)]

    @cached_property
    def _off_axis(self) -> int:
        """Above the axis's upper end 1, below its lower one -1, else 0."""
        return self.axis.beyond(self.threshold)

    def _y(self, plot: Box) -> float:
        """Where the threshold stands, or the end of the axis that is nearest to it."""
        share = min(1.0, max(0.0, self.axis.share(self.threshold)))
        return plot.bottom - share * (plot.bottom - plot.top)

    def _first_line(self, plot: Box) -> float:
        """The label's first base line: around the threshold, and within the plot."""
        around = self._y(plot) - LINE + FONT / 3
        return min(max(around, plot.top + FONT), plot.bottom - 2 * LINE)
