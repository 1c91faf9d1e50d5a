"""Parts as one HTML file for a colleague: it needs nothing but itself, runs nothing, and carries the receipts."""

import base64
import binascii
from collections.abc import Sequence
from html.parser import HTMLParser

from jinja2 import Environment, PackageLoader, StrictUndefined

from polykv_core.errors import ReceiptError
from polykv_core.report.outcome import Outcome, passed, sentence
from polykv_core.report.page import DATA_LINK, ReportPart, anchors, page_of
from polykv_core.version import __version__


def html_report(parts: Sequence[ReportPart], without_verdict: Sequence[Outcome] = ()) -> str:
    """The report as a file's whole text, in UTF-8; fixtures without a verdict are named first.

    Raises ReceiptError for nothing to report on, or for a receipt with a number that is not finite.
    """
    if not parts and not without_verdict:
        raise ReceiptError("there is no receipt to report on")
    outcomes = [*without_verdict, *(Outcome(part.name, part.receipt) for part in parts)]
    templates = Environment(
        loader=PackageLoader("polykv_core.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("report.html.jinja").render(
        pages=[page_of(part, anchor) for part, anchor in zip(parts, anchors(parts), strict=True)],
        passed=passed(outcomes),
        sentence=sentence(outcomes),
        without_verdict=without_verdict,
        version=__version__,
    )


def receipts_in_report(html: str | bytes) -> tuple[bytes, ...]:
    """The receipts that a report carries, byte for byte. Raises ReceiptError if there is none, or one is damaged."""
    reader = _Links()
    try:
        reader.feed(html if isinstance(html, str) else html.decode("utf-8", "replace"))
        reader.close()
    except AssertionError:  # how this parser ends on some declarations
        raise ReceiptError("the file is no HTML that polykv wrote") from None
    if reader.foreign:
        raise ReceiptError("the report offers a download that polykv did not write; it was changed")
    if not reader.found:
        raise ReceiptError("the file holds no receipt; expected a report of polykv")
    try:
        return tuple(base64.b64decode(data, validate=True) for data in reader.found)
    except (binascii.Error, ValueError):
        raise ReceiptError("a receipt in the report is damaged: it is no base64") from None


class _Links(HTMLParser):
    """The data behind the links that download a receipt."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.foreign = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href") or ""
        if tag == "a" and "download" in dict(attrs):
            if target.startswith(DATA_LINK):
                self.found.append(target.removeprefix(DATA_LINK))
            else:
                self.foreign = True
