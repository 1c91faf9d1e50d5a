"""What the commands share of the history: which file, and a run or a receipt by the name that a person gives it."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from polykv_core.commands.shared import loaded
from polykv_core.errors import ReceiptError, StoreError
from polykv_core.history import Run, Store, default_path, exists, open_store
from polykv_core.history.runs import checked_note, checked_tags
from polykv_core.provenance import edited
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.receipt_file import receipts_in, the_receipt
from polykv_core.verify import receipt_fields

PINNED = "pinned"
_MOST_DIGITS = 40  # of a run's number; what is longer is a file's name

store_option = click.option(
    "--store", metavar="PATH", help="The history's file.  [default: POLYKV_STORE, else one in your data folder]"
)


@contextmanager
def existing_store(path: str | None) -> Iterator[Store]:
    """The history at a path, which must be there: reading must not make one."""
    if not exists(path):
        where = path or default_path()
        raise click.ClickException(f"there is no history at {where}; `polykv replay FIXTURE --keep` begins one")
    with open_store(path) as store:
        yield store


def receipt_of(run: Run) -> CapturedReplayReceipt:
    """A run's receipt, which must be a captured replay's."""
    if run.summary.kind != "captured":
        raise click.ClickException(f"run {run.summary.id} is a model replay, which has no queries' numbers")
    return CapturedReplayReceipt.from_json(run.receipt_json)


def referred(
    name: str, store: str | None, pinned: Callable[[Store], Run | None] | None = None
) -> CapturedReplayReceipt:
    """The receipt that a person means: a run by its number, "pinned", or a file with a receipt or a report."""
    if name.isascii() and name.isdecimal() and len(name) <= _MOST_DIGITS:
        with existing_store(store) as history:
            return receipt_of(history.run(int(name)))
    if name == PINNED and pinned is not None:
        with existing_store(store) as history:
            run = pinned(history)
        if run is None:
            raise StoreError("no run of this fixture is pinned; pin one with polykv history pin RUN")
        return receipt_of(run)
    return loaded(name, _sealed)


def _sealed(data: bytes) -> CapturedReplayReceipt:
    """A receipt in a file that nobody edited, as far as its seal tells."""
    fields = receipt_fields(io.BytesIO(the_receipt(receipts_in(data))))
    if edited(fields):
        raise ReceiptError("the receipt was edited after it was sealed, so it is no measure; see polykv verify")
    return CapturedReplayReceipt.from_dict(fields)


def keep_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Whether a run is kept, and how it is labelled."""
    for option in (
        store_option,
        click.option("--note", metavar="TEXT", callback=_checked(checked_note), help="A note to keep with it."),
        click.option(
            "--tag", "tags", multiple=True, metavar="TAG", callback=_checked(checked_tags), help="A tag to find it by."
        ),
        click.option("--keep", is_flag=True, help="Keep the run in the history (polykv history)."),
    ):
        command = option(command)
    return command


def name_of(path: str) -> str:
    """How a run's fixture is called in the history: by its file, not by its place."""
    return Path(path).name.encode("utf-8", "backslashreplace").decode()  # a name may hold bytes that are no text


def _checked(check: Callable[[Any], Any]) -> Callable[..., Any]:
    """A callback of an option: what a history would refuse is told before all the work."""

    def callback(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        if value is not None:
            check(value)
        return value

    return callback
