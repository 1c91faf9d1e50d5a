"""Drawings as SVG elements, and where in them a text finds room."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FONT = 12.0
LINE = 14.0  # from one line of text to the next
_LETTER = 0.6  # of the font size: about as wide as a digit of the usual fonts
_ABOVE, _BELOW = 0.75, 0.25  # of the font size, from a text's base line


@dataclass(frozen=True)
class Box:
    """A rectangle that something takes up; y runs downwards."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, radius: float) -> "Box":
        """The square around a point."""
        return cls(x - radius, y - radius, x + radius, y + radius)

    @classmethod
    def of_text(cls, text: str, x: float, y: float, anchor: str) -> "Box":
        """What a text takes up; x is its start, middle or end, y its base line."""
        width = text_width(text)
        left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * width
        return cls(left, y - _ABOVE * FONT, left + width, y + _BELOW * FONT)

    def meets(self, other: "Box") -> bool:
        """Whether two boxes overlap."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def within(self, other: "Box") -> bool:
        """Whether this box lies in another one."""
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )


def text_width(text: str) -> float:
    """About how wide a text is."""
    return _LETTER * FONT * len(text)


def drawing(width: float, height: float, identity: str, title: str, description: str) -> ET.Element:
    """A picture that tells in words what it shows; `identity` is unique in the page."""
    root = ET.Element(
        "svg",
        {
            "viewBox": f"0 0 {width:g} {height:g}",
            "role": "img",
            "aria-labelledby": f"{identity}-title",
            "aria-describedby": f"{identity}-desc",
        },
    )
    add(root, "title", title, id=f"{identity}-title")
    add(root, "desc", description, id=f"{identity}-desc")
    return root


def add(parent: ET.Element, tag: str, text: str = "", **attributes: float | str) -> ET.Element:
    """A new element; an underscore in an attribute's name is a hyphen, `kind` its classes."""
    names = {name: "class" if name == "kind" else name.replace("_", "-") for name in attributes}
    written = {names[name]: _written(value) for name, value in attributes.items() if value != ""}
    element = ET.SubElement(parent, tag, written)
    element.text = text or None
    return element


def line(parent: ET.Element, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
    """A straight line."""
    add(parent, "line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], kind=kind)


def path(points: Iterable[tuple[float, float]]) -> str:
    """The points as the d of a path."""
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def as_text(root: ET.Element) -> str:
    """The drawing as it stands in a page."""
    return ET.tostring(root, encoding="unicode")


def first_free(places: Sequence[tuple[float, float, str]], text: str, bounds: Box, taken: Sequence[Box]) -> int | None:
    """The first of the places (x, base line, anchor) where a text is within bounds and meets nothing."""
    for index, (x, y, anchor) in enumerate(places):
        box = Box.of_text(text, x, y, anchor)
        if box.within(bounds) and not any(box.meets(other) for other in taken):
            return index
    return None


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
