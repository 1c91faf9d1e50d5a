"""Foreign text in Markdown: it is shown, and does nothing.

In a code span nothing is a mention, a link, an image, an emoji or HTML, neither for GitHub nor for GitLab.
"""

import html
import re
from itertools import groupby

from polykv_core import words
from polykv_core.terminal import inert

_LONGEST = 120
_LONGEST_PROSE = 600
# Sentences of letters, digits and punctuation that starts nothing: a colon or % only before a blank, a dot only where
# it ends a sentence or is within a number (no www. and no ://), no @ # ! $ & ~ ` * _ [ < or backslash.
_PLAIN = re.compile(r"(?!.*GH-\d)[A-Za-z](?:[A-Za-z0-9 ,;()'+=/-]|\.(?=[\d ),;]|$)|[:%](?=[ ,.;)]|$))*")


def quoted(text: str, most: int = _LONGEST) -> str:
    """Text as a code span on one line, cut where it is long."""
    shown = words.cut(inert(text), most)
    if not shown.strip():
        return "(no name)"
    fence = "`" * (1 + max((len(list(run)) for mark, run in groupby(shown) if mark == "`"), default=0))
    # Markdown takes one blank off both ends.
    room = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{room}{shown}{room}{fence}"


def in_html(text: str) -> str:
    """Text for an HTML element, where Markdown does not look."""
    return html.escape(words.cut(inert(text), _LONGEST)) or "(no name)"


def prose(text: str) -> str:
    """A sentence as it is, where it is plain beyond doubt; any other text as a code span."""
    return text if len(text) <= _LONGEST_PROSE and _PLAIN.fullmatch(text) else quoted(text, _LONGEST_PROSE)
