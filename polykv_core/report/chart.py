"""A metric over k as inline SVG.

Drawn by hand: no library that is to be had makes SVG that follows its reader's light or dark, prints, and needs
neither script nor browser. Colours are classes of report.css, and every distinction is made by a shape or a word too.
"""

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from polykv_core import words
from polykv_core.axis import Axis, KAxis
from polykv_core.report.gate_mark import GateMark
from polykv_core.report.svg import FONT, LINE, Box, add, as_text, drawing, first_free, line, path, text_width
from polykv_core.view import Point, View

_WIDTH, _HEIGHT = 400.0, 250.0
_TOP, _BOTTOM = 26.0, 44.0
_MARKER, _RING, _DIAMOND, _CROSS = 4.5, 9.5, 7.0, 4.5
_TICK_GAP = 8.0  # between the texts of two ticks
_DROP = 9.0  # from the top of a number to its base line
_NEAR, _FAR, _SLANT = 14.0, 28.0, 10.0  # from a point to its number; how far that reaches past it at the right end
_STEP = 4.0  # how closely the curve is followed where texts look for room


def metric_chart(view: View, identity: str) -> str:
    """The chart of a view; `identity` is unique in the page."""
    return as_text(_Chart(view).drawn(identity))


@dataclass(frozen=True, eq=False)
class _Chart:
    """A chart while it is drawn: where everything stands."""

    view: View

    @cached_property
    def axis(self) -> Axis:
        return self.view.axis()

    @cached_property
    def k_axis(self) -> KAxis:
        return KAxis.over(self.view.k_curve.most_rows)

    @cached_property
    def gate(self) -> GateMark | None:
        return GateMark(self.view.gate, self.view.threshold, self.axis) if self.view.gate else None

    @cached_property
    def plot(self) -> Box:
        """The area between the axes."""
        ticks = max((text_width(text) for _, text in self.axis.ticks), default=0.0)
        label = self.gate.width if self.gate else 0.0
        return Box(max(44.0, ticks + 12.0), _TOP, _WIDTH - max(24.0, label + 10.0), _HEIGHT - _BOTTOM)

    def x(self, k: int) -> float:
        return self.plot.left + self.k_axis.share(float(k)) * (self.plot.right - self.plot.left)

    def y(self, value: float) -> float:
        return self.plot.bottom - self.axis.share(value) * (self.plot.bottom - self.plot.top)

    @cached_property
    def runs(self) -> list[list[tuple[float, float]]]:
        """The curve, in as many pieces as gaps make: where a value has no place, there is none."""
        pieces: list[list[tuple[float, float]]] = [[]]
        for index in self.view.drawn.tolist():
            value = float(self.view.values[index])
            if math.isnan(value) or self.axis.on_floor(value):
                pieces.append([])
            else:
                pieces[-1].append((self.x(self.view.k_curve.ks[index]), self.y(value)))
        return [piece for piece in pieces if piece]

    @cached_property
    def points(self) -> list[Point]:
        """The candidates that have a place, the selected one first."""
        return sorted(self.view.placed, key=lambda point: point.row != self.view.k_curve.selected)

    def drawn(self, identity: str) -> ET.Element:
        view = self.view
        root = drawing(_WIDTH, _HEIGHT, identity, f"{view.label} over k", view.alt)
        if self.gate:
            self.gate.draw_shade(root, self.plot)
        self._draw_values(root)
        if self.gate:
            self.gate.draw_line(root, self.plot)
        self._draw_ks(root)
        for run in self.runs:
            add(root, "path", d=path(run), kind="curve")
        self._draw_floor(root)
        self._draw_smallest(root)
        for point in reversed(self.points):
            self._draw_point(root, point)
        self._draw_numbers(root)
        return root

    def _draw_values(self, root: ET.Element) -> None:
        """The value axis: its title above it, and a line across for each tick."""
        view = self.view
        scale = ", log scale" if self.axis.log else ""
        title = f"{words.named(view.metric.name, view.label)}, {view.direction}{scale}"
        add(root, "text", title, x=0.0, y=FONT, kind="axis-title")
        for tick, text in self.axis.ticks:
            y = self.y(tick)
            line(root, (self.plot.left, y), (self.plot.right, y), "grid")
            add(root, "text", text, x=self.plot.left - 6, y=y + FONT / 3, text_anchor="end")

    def _draw_ks(self, root: ET.Element) -> None:
        """The k axis: as many ticks as have room, the selected one in bold."""
        k_curve, plot = self.view.k_curve, self.plot
        line(root, (plot.left, plot.bottom), (plot.right, plot.bottom), "base")
        taken: list[Box] = []
        candidates = [point.row for point in self.view.points]
        for k in self.k_axis.worth_a_tick(k_curve.selected, candidates):
            x, y = self.x(k), plot.bottom + LINE + 3
            box = Box.of_text(str(k), x, y, "middle")
            if any(box.left < other.right + _TICK_GAP and other.left < box.right + _TICK_GAP for other in taken):
                continue
            taken.append(box)
            line(root, (x, plot.bottom), (x, plot.bottom + 4), "base")
            kind = "selected-k" if k == k_curve.selected else ""
            add(root, "text", str(k), x=x, y=y, text_anchor="middle", kind=kind)
        title = f"k, rows read{' (log scale)' if self.k_axis.log else ''}"
        middle = (plot.left + plot.right) / 2
        add(root, "text", title, x=middle, y=_HEIGHT - 6, text_anchor="middle", kind="axis-title")

    def _draw_floor(self, root: ET.Element) -> None:
        """On a logarithmic axis, the ks whose value is zero: at the floor, where a tick says so."""
        for index in self.view.drawn.tolist():
            value = float(self.view.values[index])
            if self.axis.on_floor(value):
                x, y = self.x(self.view.k_curve.ks[index]), self.y(value)
                add(root, "path", d=path([(x - 3, y - 3), (x + 3, y - 3), (x, y + 3)]) + "Z", kind="zero")

    def _draw_smallest(self, root: ET.Element) -> None:
        k_curve = self.view.k_curve
        if k_curve.smallest is None or not k_curve.every_k:
            return
        value = float(self.view.values[k_curve.ks.index(k_curve.smallest)])
        if math.isfinite(value):
            x, y, r = self.x(k_curve.smallest), self.y(value), _DIAMOND
            add(root, "path", d=path([(x, y - r), (x + r, y), (x, y + r), (x - r, y)]) + "Z", kind="smallest")

    def _draw_point(self, root: ET.Element, point: Point) -> None:
        """A candidate; the pointer, held on it, tells its numbers."""
        x, y, r = self.x(point.row), self.y(point.value), _CROSS
        group = add(root, "g")
        told = f"k = {point.candidate.candidate_k}: {self.view.brief(point.value)}"
        add(group, "title", f"{told}; this k {words.verb(point.candidate.passed)}")
        if point.candidate.passed:
            add(group, "circle", cx=x, cy=y, r=_MARKER, kind="pass")
        else:
            strokes = path([(x - r, y - r), (x + r, y + r)]) + path([(x - r, y + r), (x + r, y - r)])
            add(group, "path", d=strokes, kind="fail")
        if point.row == self.view.k_curve.selected:
            add(group, "circle", cx=x, cy=y, r=_RING, kind="selected")

    def _draw_numbers(self, root: ET.Element) -> None:
        """The candidates' values, as many as find room clear of everything else."""
        bounds = Box(self.plot.left + 2, self.plot.top, _WIDTH, self.plot.bottom - 2)
        solid = [Box.around(self.x(p.row), self.y(p.value), _RING) for p in self.points]
        solid += self.gate.taken(self.plot) if self.gate else []
        for point in self.points:
            x, y, text = self.x(point.row), self.y(point.value), words.number(point.value, digits=3)
            places = _places(x, y)
            free = first_free(places, text, bounds, [*solid, *self._along_the_curve])
            if free is None and point.row == self.view.k_curve.selected:
                free = first_free(places, text, bounds, solid)  # legible on the curve too
            if free is not None:
                x, y, anchor = places[free]
                solid.append(Box.of_text(text, x, y, anchor))
                add(root, "text", text, x=x, y=y, text_anchor=anchor, kind="number")

    @cached_property
    def _along_the_curve(self) -> list[Box]:
        boxes = []
        for run in self.runs:
            for (x, y), (next_x, next_y) in pairwise(run):
                steps = max(1, math.ceil(math.hypot(next_x - x, next_y - y) / _STEP))
                along = [(x + (next_x - x) * n / steps, y + (next_y - y) * n / steps) for n in range(steps + 1)]
                boxes += [Box.around(*place, 1.5) for place in along]
        return boxes


def _places(x: float, y: float) -> list[tuple[float, float, str]]:
    """Where the number of a point may stand, the best place first."""
    above, below = (x, y - _NEAR, "middle"), (x, y + _NEAR + _DROP, "middle")
    far_above, far_below = (x, y - _FAR, "middle"), (x, y + _FAR + _DROP, "middle")
    beside = [(x + _NEAR, y + FONT / 3, "start"), (x - _NEAR, y + FONT / 3, "end")]
    aslant = [(x + _SLANT, place[1], "end") for place in (above, below, far_above, far_below)]
    return [above, below, far_above, far_below, *beside, *aslant]
