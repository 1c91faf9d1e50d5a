"""A fixture from a file: JSON, JSON in gzip, or a compact file, told apart by their content."""

import hashlib
import os
from pathlib import Path
from typing import TypeGuard

from polykv_core.canonical import sha256_of
from polykv_core.checks import Checks, shown
from polykv_core.errors import FixtureError
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.jsontext import MAX_BYTES, Source, parse_json, read_bytes
from polykv_core.packs import MAX_PACK_BYTES, Head, Pack, is_pack, open_pack

# A field that tells another kind of file of this project, so that nobody is told to add fields to it.
_OTHER_KINDS = {
    "shape": "a model-replay case (polykv model-replay takes it)",
    "candidate_results": "a receipt",
    "candidate_ks": "a config (polykv replay FIXTURE --config takes it)",
}

_check = Checks(FixtureError)


def load_fixture(source: Source, head: str | None = None) -> CapturedReplayFixture:
    """Read a fixture from a path, bytes or a file object; `head` chooses one where a compact file holds several.

    Raises FixtureError, naming the place, for what cannot be read or does not fit together.
    """
    pack = _pack_at(source)
    if pack is not None and _is_file(source):
        return pack.fixture(head, _file_digest(source))
    content = _content(source)
    if is_pack(content[:16]):
        return open_pack(content).fixture(head, sha256_of(content))
    if head is not None:
        raise FixtureError(f"the file is one fixture in JSON, and has no heads to choose from; leave {shown(head)} out")
    data = _check.record(parse_json(content, FixtureError), "the file")
    if "output_projection" not in data:
        for mark, kind in _OTHER_KINDS.items():
            if mark in data:
                raise FixtureError(f"the file is {kind}, not a captured fixture")
    return CapturedReplayFixture.from_dict(data, sha256_of(content))


def heads_in(source: Source) -> tuple[Head, ...]:
    """The heads of a compact file, without their arrays; none for a fixture in JSON. Raises FixtureError."""
    pack = _pack_at(source)
    if pack is None and not _is_file(source):
        content = _content(source)
        pack = open_pack(content) if is_pack(content[:16]) else None
    return pack.heads if pack is not None else ()


def _pack_at(source: Source) -> Pack | None:
    """The compact file at a path, read no further than its layout; None for anything else."""
    if not _is_file(source):
        return None
    try:
        with Path(source).open("rb") as file:
            start = file.read(16)
    except OSError:
        return None  # told where it is read
    _refuse_model(start)
    return open_pack(source) if is_pack(start) else None


def _content(source: Source) -> bytes:
    """All of a source; a file that is no pack is JSON, and is not read beyond what that may hold."""
    content = read_bytes(source, FixtureError, MAX_BYTES if _is_file(source) else MAX_PACK_BYTES)
    _refuse_model(content)
    return content


def _refuse_model(start: bytes) -> None:
    """Raise FixtureError for what is no capture but what one is made from."""
    if start.startswith(b"GGUF"):
        raise FixtureError("the file is a model in GGUF, not a captured fixture; polykv capture makes one from it")


def _is_file(source: Source) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a source is the path of a file that can be read again; a pipe gives its bytes only once."""
    return isinstance(source, str | os.PathLike) and os.path.isfile(source)


def _file_digest(path: str | os.PathLike[str]) -> str:
    with Path(path).open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
