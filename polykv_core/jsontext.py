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

from polykv_core.checks import plain_rows, shown
from polykv_core.errors import PolyKvError


@runtime_checkable
class Readable(Protocol):
    """An open file of bytes or text."""

    def read(self) -> bytes | str:
        """All of it."""


Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Readable

# Of text, unpacked. Python needs some ten times as much to hold it as lists of numbers.
MAX_BYTES = 2**28
_MAX_DIGITS = 400
_MAX_PLACE = 80
_GZIP_MARK = b"\x1f\x8b"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_json(source: Source, error: type[PolyKvError]) -> Any:
    """The JSON value in a source; gzip is recognised by content, a UTF-8 byte order mark is skipped.

    Lists of equally long rows of numbers come as float64 arrays.

    Raises `error`, naming the place, for what cannot be read, is no JSON, or holds a key twice in one object.
    """
    return parse_json(read_bytes(source, error), error)


def read_bytes(source: Source, error: type[PolyKvError], limit: int = MAX_BYTES) -> bytes:
    """What a source holds, as it is. Raises `error` for what cannot be read or is too large."""
    try:
        data = _read(source, error, limit)
    except (OSError, ValueError) as bad:
        reason = getattr(bad, "strerror", None) or str(bad)
        raise error(f"cannot read {shown(str(source))}: {reason}") from None
    if len(data) > limit:
        raise error(f"the file holds more than {limit >> 20} MiB; split it into several")
    return data


def parse_json(data: bytes, error: type[PolyKvError]) -> Any:
    """As read_json, of a file's bytes."""
    if data[:2] == _GZIP_MARK:
        data = _unzipped(data, error)
    if len(data) > MAX_BYTES:
        raise error(f"the file holds more than {MAX_BYTES >> 20} MiB of JSON; split it into several")
    text = _text(data, error)
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
        fields = {name: _compact(value) for name, value in pairs}
        if len(fields) == len(pairs):
            return fields
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                break
            seen.add(key)
        return self._fault(f"has the key {shown(key)} twice; keep one of them")

    def integer(self, digits: str) -> Any:
        if len(digits) <= _MAX_DIGITS:
            return int(digits)
        return self._fault(f"is a number of {len(digits)} digits ({digits[:12]}...); no field takes such a number")

    def constant(self, literal: str) -> Any:
        return self._fault(f"is {literal}, which is not JSON; every number must be finite")

    def _fault(self, text: str) -> _Fault:
        self.found = True
        return _Fault(text)


def _compact(value: Any) -> Any:
    """Rows of numbers as an array, so that a file's numbers are never all there as Python objects at once."""
    if not (isinstance(value, list) and value and isinstance(value[0], list)):
        return value
    rows = plain_rows(value, len(value[0]))
    return value if rows is None else rows


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


def _read(source: object, error: type[PolyKvError], limit: int) -> bytes:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if isinstance(source, str | os.PathLike):
        with Path(source).open("rb") as file:
            return file.read(limit + 1)
    if isinstance(source, Readable):
        content = source.read()
        if isinstance(content, bytes | bytearray | str):
            return content.encode() if isinstance(content, str) else bytes(content)
    raise error(f"cannot read {shown(source)}; give a path, bytes, or an open file of bytes or text")


def _unzipped(data: bytes, error: type[PolyKvError]) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            return stream.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as bad:
        raise error(f"the gzip file is damaged or cut off: {bad}") from None
