"""The loss ladder as inline SVG: what each stage of the replay adds to the loss in one metric."""

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from polykv_core import words
from polykv_core.explain import Stage
from polykv_core.ladder import STAGE_WORDS, in_words, loss
from polykv_core.report.svg import FONT, Box, add, as_text, drawing, line, text_width

_WIDTH, _TOP, _ROW, _BAR = 400.0, 26.0, 28.0, 16.0
_LEFT = 120.0  # for the names


@dataclass(frozen=True)
class _Bar:
    """One row: from where to where it reaches, and what it says."""

    name: str
    start: float
    end: float
    text: str
    kind: str


def ladder_chart(stages: Sequence[Stage], metric: str, identity: str) -> str:
    """The loss in a metric, built up stage by stage, the whole of it last; `identity` is unique in the page."""
    bars = _bars(stages, metric)
    height = _TOP + _ROW * len(bars) + 6
    label = words.METRIC_BY_NAME[metric].label
    root = drawing(_WIDTH, height, identity, f"Loss in {label}, stage by stage", in_words(stages, metric))
    title = f"Loss in {words.named(metric, label)}, lower is better"
    add(root, "text", title, x=0.0, y=FONT, kind="axis-title")
    ends = [end for bar in bars for end in (bar.start, bar.end) if math.isfinite(end)]
    low, high = min(0.0, *ends, 0.0), max(0.0, *ends, 0.0)
    room = max(text_width(bar.text) for bar in bars) + 12
    plot = Box(_LEFT + (room if low < 0.0 else 0.0), _TOP, _WIDTH - room, height - 6)

    def x(value: float) -> float:
        return plot.left + (plot.right - plot.left) * (value - low) / (high - low or 1.0)

    line(root, (x(0.0), plot.top), (x(0.0), plot.bottom), "base")
    for index, bar in enumerate(bars):
        _draw(root, bar, _TOP + _ROW * index, x(bar.start), x(bar.end))
    return as_text(root)


def _bars(stages: Sequence[Stage], metric: str) -> list[_Bar]:
    added = [stage.added[metric] for stage in stages]
    ends = list(accumulate(added))
    bars = [
        _Bar(STAGE_WORDS[stage.name][0], start, end, _signed(amount), "given-back" if amount < 0.0 else "lost")
        for stage, start, end, amount in zip(stages, [0.0, *ends], ends, added, strict=False)
    ]
    whole = stages[-1].loss[metric]
    return [*bars, _Bar("Whole loss", 0.0, whole, loss(whole), "whole")]


def _signed(amount: float) -> str:
    text = loss(amount)
    return f"+{text}" if amount > 0.0 and text[0].isdigit() and text != "0" else text.replace("-", "\N{MINUS SIGN}", 1)


def _draw(root: ET.Element, bar: _Bar, top: float, start: float, end: float) -> None:
    """A row: its name, its bar, and its number beyond the bar's right end."""
    base = top + _ROW / 2 + FONT / 3
    add(root, "text", bar.name, x=_LEFT - 10, y=base, text_anchor="end")
    if not math.isfinite(start) or not math.isfinite(end):
        add(root, "text", bar.text, x=_LEFT + 4, y=base, kind="number")
        return
    left, right = min(start, end), max(start, end)
    if bar.text != "0":
        width = max(right - left, 1.0)
        add(root, "rect", x=left, y=top + (_ROW - _BAR) / 2, width=width, height=_BAR, kind=f"bar {bar.kind}")
    add(root, "text", bar.text, x=right + 6, y=base, kind="number")
