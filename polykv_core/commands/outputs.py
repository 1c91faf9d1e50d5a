"""What a replay writes beside its table: receipts, and reports for CI and for people."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from polykv_core.commands.shared import STANDARD_OUTPUT, is_shown, keep, make_folder, write
from polykv_core.exports import candidates_csv, receipt_stem
from polykv_core.program import show
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.report import Outcome, ReportPart, html_report, junit_xml, markdown_summary

_FILES = {
    "receipt": "Write the receipt (JSON) there; - is standard output, which then has no table, as for those below.",
    "junit": "Write a JUnit report there: a test case for each gate of each candidate.",
    "markdown": "Write a summary there, fit for a pull request.",
    "html": "Write a report for people there: one file that needs no network.",
    "csv": "Write every candidate as a table there.",
}

_CALLED = {"junit": "JUnit", "html": "HTML", "csv": "CSV", "json": "JSON"}


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where to write what a replay found."""
    options = [click.option(f"--{name}", metavar="PATH", help=text) for name, text in _FILES.items()]
    folder = click.option("--receipts", metavar="DIR", help="Write each fixture's receipt into this folder.")
    for option in reversed([options[0], folder, *options[1:]]):
        command = option(command)
    return command


class Outputs:
    """The files that were asked for."""

    def __init__(self, given: dict[str, Any], inputs: Sequence[str | None], fixtures: int) -> None:
        """Take the paths out of what was given. Raises click.UsageError for those that cannot all be written."""
        named = {name: given.pop(name, None) for name in (*_FILES, "json")}
        self._paths: dict[str, str] = {name: path for name, path in named.items() if path is not None}
        self._folder: str | None = given.pop("receipts")
        self._inputs = inputs
        for name, path in self._paths.items():
            keep(f"--{name}", path, *inputs)
        if "receipt" in self._paths and fixtures > 1:
            raise click.UsageError("--receipt takes one fixture's receipt; give --receipts DIR for several")
        places = [STANDARD_OUTPUT if is_shown(path) else os.path.realpath(path) for path in self._paths.values()]
        if len(set(places)) < len(places):
            raise click.UsageError("two outputs go to the same place; give each a path of its own")

    @property
    def wants_report(self) -> bool:
        """Whether every k is to be measured and explained."""
        return "html" in self._paths

    @property
    def hold_receipts(self) -> bool:
        """Whether a receipt is to be written anywhere, which one with a number that is not finite cannot be."""
        return self._folder is not None or bool({"receipt", "html"} & self._paths.keys())

    @property
    def only_json(self) -> bool:
        """Whether nothing else is to be written."""
        return self._folder is None and not self._paths.keys() - {"json"}

    def written(
        self, outcomes: Sequence[Outcome], parts: Sequence[ReportPart], json_text: Callable[[], str] | None = None
    ) -> list[tuple[str, str]] | None:
        """Write everything, and say what as facts; None where standard output took one of them and wants no table.

        `json_text` makes what `--json` writes, for a command that has it.
        """
        told, silent = [], False
        for name, data in self._contents(outcomes, parts, json_text):
            path = self._paths[name]
            if is_shown(path):
                show(data)
                silent = True
            else:
                write(path, data)
                told.append((_CALLED.get(name, name.capitalize()), path))
        receipts = [outcome.receipt for outcome in outcomes if outcome.receipt is not None]
        if self._folder is not None:
            told.append(("Receipts", self._written_receipts(self._folder, receipts)))
        return None if silent else told

    def _contents(
        self, outcomes: Sequence[Outcome], parts: Sequence[ReportPart], json_text: Callable[[], str] | None
    ) -> Iterator[tuple[str, bytes]]:
        receipts = [outcome.receipt for outcome in outcomes if outcome.receipt is not None]
        makers: dict[str, tuple[bool, Callable[[], str]]] = {
            "receipt": (bool(receipts), lambda: receipts[0].to_json()),
            "junit": (True, lambda: junit_xml(outcomes)),
            "markdown": (True, lambda: markdown_summary(outcomes)),
            "html": (True, lambda: html_report(parts, [one for one in outcomes if one.receipt is None])),
            "csv": (bool(receipts), lambda: candidates_csv(receipts)),
        }
        if json_text is not None:
            makers["json"] = (True, json_text)
        for name, (possible, make) in makers.items():
            if possible and name in self._paths:
                yield name, make().encode("utf-8")

    def _written_receipts(self, folder: str, receipts: Sequence[CapturedReplayReceipt]) -> str:
        make_folder(folder)
        stems: list[str] = []
        for receipt in receipts:
            stem = receipt_stem(receipt)
            stems.append(stem)
            again = stems.count(stem)  # the same head from two files
            path = os.path.join(folder, f"{stem}{f'_{again}' if again > 1 else ''}.json")
            keep("--receipts", path, *self._inputs)  # such as the baseline
            write(path, receipt.to_json().encode("utf-8"))
        return folder
