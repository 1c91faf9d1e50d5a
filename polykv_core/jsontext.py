"""Reading JSON from a path, bytes or a file object: strict, with messages for people instead of tracebacks."""

import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from polykv_core.checks import shown
from polykv_core.errors import PolyKvError


@runtime_checkable
class Readable(Protocol):
    """An open file of bytes or text."""

    def read(self) -> bytes | str:
        """All of it."""


Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Readable

MAX_BYTES = 2**30
_MAX_DIGITS = 400
_MAX_PLACE = 80
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_json(source: Source, error: type[PolyKvError]) -> Any:
    """The JSON value in a source; gzip is recognised by content, a UTF-8 byte order mark is skipped.

    Raises `error`, naming the place, for what cannot be read, is no JSON, or holds a key twice in one object.
    """
    text = _text(_content(source, error), error)
    faults = _Faults()
    try:
        value = json.loads(
            text, object_pairs_hook=faults.record, parse_constant=faults.constant, parse_int=faults.integer
        )
    except json.JSONDecodeError as bad:
        cut_off = bad.pos >= len(text.rstrip()) or bad.msg.startswith("Unterminated")
        hint = "; the file seems to be cut off, copy it again" if cut_off else ""
        raise error(f"no valid JSON at line {bad.lineno}, column {bad.colno}: {bad.msg}{hint}") from None
    except RecursionError:
        raise error("the JSON is nested too deeply to be a fixture, config, case or receipt") from None
    if faults.found:
        place, fault = next(_places(value, ""))
        raise error(f"{_short(place) or 'the file'} {fault.text}")
    return value


@dataclass(frozen=True)
class _Fault:
    """Stands in the parsed JSON where something was wrong that the parser lets through, until its place is known."""

    text: str


class _Faults:
    """The parser's hooks: what they are given back, or a fault in its place."""

    def __init__(self) -> None:
        self.found = False

    def record(self, pairs: list[tuple[str, Any]]) -> Any:
        fields = dict(pairs)
        if len(fields) == len(pairs):
            return fields
        keys = [key for key, _ in pairs]
        twice = next(key for key in fields if keys.count(key) > 1)
        return self._fault(f"has the key {shown(twice)} twice; keep one of them")

    def integer(self, digits: str) -> Any:
        if len(digits) <= _MAX_DIGITS:
            return int(digits)
        return self._fault(f"is a number of {len(digits)} digits ({digits[:12]}...); no field takes such a number")

    def constant(self, literal: str) -> Any:
        return self._fault(f"is {literal}, which is not JSON; every number must be finite")

    def _fault(self, text: str) -> _Fault:
        self.found = True
        return _Fault(text)


def _places(value: Any, place: str) -> Iterator[tuple[str, _Fault]]:
    """Every fault in a parsed value, with its place."""
    if isinstance(value, _Fault):
        yield place, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            name = name if name.isprintable() and len(name) <= _MAX_PLACE else shown(name)
            yield from _places(inner, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, f"{place}[{index}]")


def _short(place: str) -> str:
    return place if len(place) <= _MAX_PLACE else f"...{place[-_MAX_PLACE:]}"


def _text(data: bytes, error: type[PolyKvError]) -> str:
    if data[:2] in _UTF16_MARKS or b"\0" in data[:4]:
        raise error("the file looks like UTF-16 or UTF-32; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        raise error(f"byte {bad.start} is not UTF-8; expected JSON text in UTF-8") from None
    if not text.strip():
        raise error("the file is empty; expected JSON")
    return text


def _content(source: Source, error: type[PolyKvError]) -> bytes:
    try:
        if isinstance(source, bytes | bytearray | memoryview):
            data = bytes(source)
        elif isinstance(source, str | os.PathLike):
            data = Path(source).read_bytes()
        else:
            read = source.read()
            data = read.encode() if isinstance(read, str) else read
    except (OSError, ValueError) as bad:
        reason = getattr(bad, "strerror", None) or str(bad)
        raise error(f"cannot read {shown(str(source))}: {reason}") from None
    return _unzipped(data, error) if data[:2] == b"\x1f\x8b" else data


def _unzipped(data: bytes, error: type[PolyKvError]) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            text = stream.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as bad:
        raise error(f"the gzip file is damaged or cut off: {bad}") from None
    if len(text) > MAX_BYTES:
        raise error(f"the gzip file holds more than {MAX_BYTES >> 20} MiB; split the fixture")
    return text
