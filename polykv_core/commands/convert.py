"""`polykv convert`: fixtures between the crate's JSON and compact files, both ways, to the last bit of float32."""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from polykv_core.commands.options import KINDS, precision_option
from polykv_core.commands.shared import file_and_head, fixture_at, keep, naming, source_at, write
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.loading import heads_in
from polykv_core.packs import Precision, fixture_json, pack_bytes
from polykv_core.program import PASSED, show


@click.command()
@click.argument("fixtures", nargs=-1, required=True, metavar="FIXTURE...")
@click.argument("out")
@precision_option
def convert(fixtures: tuple[str, ...], out: str, precision: Precision) -> int:
    """Write each FIXTURE into OUT.

    OUT's ending says what it becomes: .safetensors or .npz, which hold many heads, or .json or .json.gz, which hold
    one. FIXTURE is any of these; FILE#HEAD is one head of a compact file, and FILE alone all of them.
    """
    keep("OUT", out, *(file_and_head(path)[0] for path in fixtures))
    heads, about = _heads(fixtures)
    kind = KINDS.get(Path(out).suffix)
    if kind is not None:
        with naming(out):
            data = pack_bytes(heads, kind, precision, about)
    elif len(heads) > 1:
        raise click.UsageError(f"{out} would hold one head and {len(heads)} are given; name one as FILE#HEAD")
    elif out.endswith((".json", ".json.gz")):
        text = fixture_json(next(iter(heads.values()))).encode()
        data = gzip.compress(text, mtime=0) if out.endswith(".gz") else text
    else:
        raise click.UsageError(f"{out} must end in .safetensors, .npz, .json or .json.gz")
    write(out, data)
    show(f"{out}: {len(heads)} {'head' if len(heads) == 1 else 'heads'}, {len(data):,} bytes\n")
    return PASSED


def _heads(paths: tuple[str, ...]) -> tuple[dict[str, CapturedReplayFixture], dict[str, Mapping[str, Any]]]:
    """Every head that is meant, by a name of its own: the one it has, else its file's; and what files say of them."""
    found: dict[str, CapturedReplayFixture] = {}
    about: dict[str, Mapping[str, Any]] = {}
    for path in paths:
        file, chosen = file_and_head(path)
        source = source_at(file)
        with naming(path):
            told = {head.name: head.about for head in heads_in(source)}
        names = [chosen] if chosen else list(told)
        for name, whole in [(name, f"{file}#{name}") for name in names] or [(_stem(file), file)]:
            if name in found:
                raise click.UsageError(f"two heads are called {name}; convert them into files of their own")
            found[name] = fixture_at(whole)
            about[name] = told.get(name, {})
    return found, about


def _stem(path: str) -> str:
    """A file's name as a head's: letters, digits, _ and - only."""
    name = Path(path).name.removesuffix(".gz").removesuffix(".json")
    stem = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in name)
    return stem or "head"
