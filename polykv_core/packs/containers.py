"""The two files that hold named arrays, .safetensors and .npz: read when they are asked for, and never pickled."""

import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors.numpy

from polykv_core.arrays import Array
from polykv_core.checks import shown
from polykv_core.errors import FixtureError

# The entry that holds the layout as JSON: metadata in .safetensors, an array of bytes in .npz.
LAYOUT = "polykv"
MAX_PACK_BYTES = MAX_ARRAY_BYTES = 2**32
_SAFETENSORS: Any = safetensors  # its compiled part tells no types
_ZIP, _EMPTY_ZIP = b"PK\x03\x04", b"PK\x05\x06"
# What the readers raise for a file that is not as it should be.
_UNREADABLE = (
    _SAFETENSORS.SafetensorError,
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    RuntimeError,
    MemoryError,
)
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_TYPES: Mapping[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "U8": np.uint8,
}


@dataclass(frozen=True)
class Container:
    """Named arrays in a file: the layout's text, the names, and a way to read one of them."""

    layout: str
    names: frozenset[str]
    read: Callable[[str], Array]

    def array(self, name: object) -> Array:
        """An array by its name. Raises FixtureError for one that is not there or is damaged."""
        if not isinstance(name, str) or name not in self.names:
            raise FixtureError(f"the file has no array {shown(name)}; write it, or correct the layout that names it")
        try:
            return self.read(name)
        except _UNREADABLE as bad:
            raise FixtureError(f"the array {shown(name)} cannot be read: {_line(bad)}") from None


def is_container(head: bytes) -> bool:
    """Whether a file that begins so holds named arrays: sixteen bytes are enough."""
    # JSON may have a { there too. The eight bytes of a header's length end in zeros, and JSON holds none.
    return head[:4] in (_ZIP, _EMPTY_ZIP) or (head[8:9] == b"{" and b"\0" in head[:8])


def opened(source: str | os.PathLike[str] | bytes) -> Container:
    """The arrays of a file or of its bytes. Raises FixtureError for what is no such file, or no safe one."""
    head = source[:16] if isinstance(source, bytes) else _head(source)
    try:
        container = _npz(source) if head[:2] == b"PK" else _safetensors(source)
    except _UNREADABLE as bad:
        raise FixtureError(f"the file is damaged or cut off: {_line(bad)}") from None
    for name in container.names:
        if not is_array_name(name):
            raise FixtureError(f"the file has an array called {shown(name)}; names are letters, digits, _ - and dots")
    return container


def is_array_name(name: str) -> bool:
    """Whether an array may be called so: no path, and nothing that a program might take for one."""
    return _NAME.fullmatch(name) is not None


def safetensors_bytes(arrays: Mapping[str, Array], layout: str) -> bytes:
    """A .safetensors file."""
    return safetensors.numpy.save({name: np.ascontiguousarray(a) for name, a in arrays.items()}, {LAYOUT: layout})


def npz_bytes(arrays: Mapping[str, Array], layout: str) -> bytes:
    """A compressed .npz file; bfloat16, which it does not know, as uint16 that the layout names."""
    file = io.BytesIO()
    held: dict[str, Any] = {name: a.view(np.uint16) if _is_bfloat16(a) else a for name, a in arrays.items()}
    halves = sorted(name for name, a in arrays.items() if _is_bfloat16(a))
    text = json.dumps({**json.loads(layout), "bfloat16": halves}) if halves else layout
    held[LAYOUT] = np.frombuffer(text.encode(), dtype=np.uint8)
    np.savez_compressed(file, **held)
    return file.getvalue()


def _safetensors(source: str | os.PathLike[str] | bytes) -> Container:
    if isinstance(source, bytes):
        held = dict(_SAFETENSORS.deserialize(source))
        length = int.from_bytes(source[:8], "little")
        metadata = json.loads(source[8 : 8 + length]).get("__metadata__", {})

        def read(name: str) -> Array:
            entry = held[name]
            return np.frombuffer(entry["data"], dtype=_TYPES[entry["dtype"]]).reshape(entry["shape"])

        return Container(metadata.get(LAYOUT, ""), frozenset(held), read)
    file = _SAFETENSORS.safe_open(os.fspath(source), framework="np")
    return Container((file.metadata() or {}).get(LAYOUT, ""), frozenset(file.keys()), file.get_tensor)


def _npz(source: str | os.PathLike[str] | bytes) -> Container:
    archive = zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if len(members) != len(archive.infolist()):
        raise FixtureError("the file has an array twice; keep one of them")
    if LAYOUT not in members:
        return Container("", frozenset(members), _nothing)
    halves: list[str] = []

    def read(name: str) -> Array:
        info = members[name]
        if info.file_size > MAX_ARRAY_BYTES:
            raise ValueError(f"it unpacks to more than {MAX_ARRAY_BYTES >> 30} GiB")
        with archive.open(info) as stream:
            array = np.lib.format.read_array(stream, allow_pickle=False)
        return array.view(ml_dtypes.bfloat16) if name in halves else array

    text = read(LAYOUT).tobytes().decode()
    told = json.loads(text)
    halves += told.get("bfloat16", []) if isinstance(told, dict) else []
    return Container(text, frozenset(members) - {LAYOUT}, read)


def _nothing(name: str) -> Array:
    raise KeyError(name)


def _is_bfloat16(array: Array) -> bool:
    return array.dtype == ml_dtypes.bfloat16


def _head(path: str | os.PathLike[str]) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(16)
    except (OSError, ValueError) as bad:
        raise FixtureError(f"cannot read {shown(str(path))}: {getattr(bad, 'strerror', None) or bad}") from None


def _line(bad: BaseException) -> str:
    return " ".join(str(bad).split())[:200] or type(bad).__name__
