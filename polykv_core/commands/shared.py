"""What the commands share: files in and out, and complaints that name the file."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import click

from polykv_core.errors import PolyKvError
from polykv_core.files import write_whole
from polykv_core.fixture import CapturedReplayFixture, load_fixture
from polykv_core.program import reason
from polykv_core.terminal import complain, inert

Loaded = TypeVar("Loaded")
Facts = list[tuple[str, str]]


def keep(option: str, written: str | None, *inputs: str | None) -> None:
    """Refuse to write over what is read."""
    for path in inputs:
        with suppress(OSError, ValueError):
            if written and path and os.path.samefile(written, path):
                raise click.UsageError(f"{option} {written} would overwrite the input {path}; give another path")


def fixture_at(path: str) -> CapturedReplayFixture:
    """The fixture at a path, its warnings told."""
    fixture = loaded(path, load_fixture)
    for warning in fixture.warnings:
        complain("warning", f"{path}: {warning}")
    return fixture


def loaded(path: str, load: Callable[[bytes], Loaded]) -> Loaded:
    """What a file holds; every complaint names the file."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as bad:
        raise click.ClickException(f"cannot read {path or repr(path)}: {reason(bad)}") from None
    with naming(path):
        return load(data)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Complaints about a file's content say which file."""
    try:
        yield
    except PolyKvError as bad:
        raise click.ClickException(f"{path}: {bad}") from None


def write(path: str, data: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        write_whole(path, data)
    except (OSError, ValueError) as bad:
        raise click.ClickException(f"cannot write {path}: {reason(bad)}") from None


def queries_told(fixture: CapturedReplayFixture) -> str:
    """How many queries, and how many rows each tier has for them."""
    shell = [query.row_count - fixture.shared_tokens for query in fixture.queries]
    low, high = min(shell), max(shell)
    rows = str(low) if low == high else f"{low} to {high} (ragged)"
    return f"{len(shell)}, each with {fixture.shared_tokens} rows in the pool and {rows} in the shell"


def lines(facts: Facts) -> str:
    """A fact a line, aligned."""
    width = max(len(name) for name, _ in facts) + 2
    return "".join(f"{name:<{width}}{inert(text)}\n" for name, text in facts)
