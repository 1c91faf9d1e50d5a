"""What the commands share: files in and out, and complaints that name the file."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import click

from polykv_core.errors import FixtureError, PolyKvError
from polykv_core.files import write_whole
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.loading import heads_in, load_fixture
from polykv_core.program import reason
from polykv_core.terminal import complain, inert, is_standard_output

Loaded = TypeVar("Loaded")
Facts = list[tuple[str, str]]


STANDARD_OUTPUT = "-"


def is_shown(path: str) -> bool:
    """Whether what is written to a path goes to standard output, which then has nothing else."""
    return path == STANDARD_OUTPUT or is_standard_output(path)


def keep(option: str, written: str | None, *inputs: str | None) -> None:
    """Refuse to write over what is read."""
    for path in inputs:
        with suppress(OSError, ValueError):
            if written and path and os.path.samefile(written, file_and_head(path)[0]):
                raise click.UsageError(f"{option} {written} would overwrite the input {path}; give another path")


def fixture_at(path: str) -> CapturedReplayFixture:
    """The fixture at a path, or with FILE#HEAD one of a compact file's; its warnings told."""
    file, head = file_and_head(path)
    source = source_at(file)
    with naming(path):
        heads = heads_in(source)
        if len(heads) > 1 and head is None:
            raise FixtureError(f"the file holds {len(heads)} heads; choose one, such as {file}#{heads[0].name}")
        fixture = load_fixture(source, head)
    for warning in fixture.warnings:
        complain("warning", f"{path}: {warning}")
    return fixture


def file_and_head(path: str) -> tuple[str, str | None]:
    """A path, and the head that it names after a #. Names of files and of heads may have one as well."""
    if "#" not in path or os.path.exists(path):
        return path, None
    parts = path.split("#")
    cuts = [("#".join(parts[:count]), "#".join(parts[count:])) for count in range(len(parts) - 1, 0, -1)]
    return next((cut for cut in cuts if os.path.exists(cut[0])), cuts[0])


def with_first_head(file: str) -> str:
    """FILE#HEAD of the first head, for a file that holds several; the file itself else."""
    with naming(file):
        heads = heads_in(source_at(file)) if os.path.isfile(file) else ()
    return f"{file}#{heads[0].name}" if len(heads) > 1 else file


def source_at(path: str) -> Path | bytes:
    """What to read a fixture from: a file that can be opened again and again, or all that a pipe gives, once."""
    with _reading(path):
        if not os.path.isfile(path):
            return Path(path).read_bytes()
        Path(path).open("rb").close()
        return Path(path)


def loaded(path: str, load: Callable[[bytes], Loaded]) -> Loaded:
    """What a file holds; every complaint names the file."""
    with _reading(path):
        data = Path(path).read_bytes()
    with naming(path):
        return load(data)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as bad:
        raise click.ClickException(f"cannot read {path or repr(path)}: {reason(bad)}") from None


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Complaints about a file's content say which file."""
    try:
        yield
    except PolyKvError as bad:
        raise click.ClickException(f"{path}: {bad}") from None


def make_folder(path: str) -> None:
    """Make a folder, if it is not there."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as bad:
        raise click.ClickException(f"cannot make the folder {path}: {reason(bad)}") from None


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
