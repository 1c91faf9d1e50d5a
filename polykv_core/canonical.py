"""One way to write a JSON value, so that a digest of it depends on nothing but what it says."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from polykv_core.arrays import Array
from polykv_core.errors import ReceiptError

_DEEPEST = 64  # many times what a receipt needs, and far from where Python gives up
_EXACT = 2**53  # below it each whole number is a float64 too


def canonical(value: Any) -> bytes:
    """A JSON value in UTF-8 on one line: sorted keys, no blanks, shortest digits, a whole number without a point.

    So a program that reads the value and writes it again in its own way, 1.0 as 1, keeps the digest.
    """
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def as_read(value: Any, depth: int = 0) -> Any:
    """A receipt's JSON value with lists where the reader has arrays of rows.

    Raises ReceiptError for what could not be written again: half of a surrogate pair, and what is nested too deeply.
    """
    if depth > _DEEPEST:
        raise ReceiptError("the receipt is nested too deeply to be one")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ReceiptError("the receipt holds half of a surrogate pair, which is no text") from None
    if isinstance(value, Mapping):
        return {as_read(name, depth): as_read(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list | tuple | Array):
        items = value.tolist() if isinstance(value, Array) else value
        return [as_read(inner, depth + 1) for inner in items] if isinstance(items, list | tuple) else items
    return value


def sha256_of(content: bytes) -> str:
    """The digest as it stands in receipts."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value
