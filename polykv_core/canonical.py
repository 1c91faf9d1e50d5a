"""One way to write a JSON value, so that a digest of it depends on nothing but what it says."""

import hashlib
import json
from typing import Any

from polykv_core.arrays import Array

_EXACT = 2**53  # below it each whole number is a float64 too


def canonical(value: Any) -> bytes:
    """A JSON value in UTF-8 on one line: sorted keys, no blanks, shortest digits, a whole number without a point.

    So a program that reads the value and writes it again in its own way, 1.0 as 1, keeps the digest.
    """
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def sha256_of(content: bytes) -> str:
    """The digest as it stands in receipts."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | Array):
        return [_plain(inner) for inner in (value.tolist() if isinstance(value, Array) else value)]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value
