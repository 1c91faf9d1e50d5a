"""A compact fixture file: which heads it holds, and each of them as a captured fixture."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from polykv_core.arrays import Array, Int64, as_float32, frozen
from polykv_core.checks import Checks, shown
from polykv_core.errors import FixtureError
from polykv_core.fixture import CAPTURED_REPLAY_FIXTURE_SCHEMA, CapturedReplayFixture, CapturedReplayQuery
from polykv_core.packs.containers import Container, is_container, opened

PACK_FORMAT = "polykv_compact_fixture_v1"
# A head's arrays and their axes; `rows` holds for each query its first row and how many it attends to.
ARRAYS = {
    "keys": "t d",
    "values": "t d",
    "output_projection": "v d",
    "query": "q d",
    "exact_attention_output": "q d",
    "exact_logits": "q v",
    "label_token": "q",
    "rows": "q 2",
}
_PRECISIONS = (np.float32, np.float16, ml_dtypes.bfloat16)
_WHOLE = ("label_token", "rows")
_FEW_NAMED = 8

_check = Checks(FixtureError)


@dataclass(frozen=True)
class Head:
    """A head in the layout: the name it is chosen by, what a fixture says of itself, and where its arrays stand."""

    name: str
    model_id: str
    shared_tokens: int
    seed: int
    schema_version: str
    arrays: Mapping[str, str]
    about: Mapping[str, Any]


@dataclass(frozen=True)
class Pack:
    """A compact file: its heads in order, read one at a time."""

    heads: tuple[Head, ...]
    _container: Container

    def head(self, name: str | None) -> Head:
        """The head of this name, or the only one. Raises FixtureError that names those there are."""
        named = {head.name: head for head in self.heads}
        if name is None and len(self.heads) == 1:
            return self.heads[0]
        if name in named:
            return named[name]
        few = ", ".join(list(named)[:_FEW_NAMED]) + (", ..." if len(named) > _FEW_NAMED else "")
        if name is None:
            raise FixtureError(f"the file holds {len(named)} heads; choose one of {few}")
        raise FixtureError(f"the file has no head {shown(name)}; it has {few}")

    def fixture(self, name: str | None = None, file_digest: str | None = None) -> CapturedReplayFixture:
        """A head as a fixture; queries that share rows share their memory. Raises FixtureError with the place."""
        head = self.head(name)
        arrays = {role: self._array(head, role) for role in ARRAYS}
        axes: dict[str, tuple[int, str]] = {}
        for role, array in arrays.items():
            _check_axes(head.name, role, array, axes)
        spans = _spans(head.name, arrays["rows"], len(arrays["keys"]))
        queries = tuple(
            CapturedReplayQuery(
                query=arrays["query"][index],
                keys=arrays["keys"][first:last],
                values=arrays["values"][first:last],
                exact_attention_output=arrays["exact_attention_output"][index],
                exact_logits=arrays["exact_logits"][index],
                label_token=int(arrays["label_token"][index]),
            )
            for index, (first, last) in enumerate(spans)
        )
        return CapturedReplayFixture(
            schema_version=head.schema_version,
            model_id=head.model_id,
            head_dim=axes["d"][0],
            shared_tokens=head.shared_tokens,
            seed=head.seed,
            output_projection=arrays["output_projection"],
            queries=queries,
            file_digest=file_digest,
        )

    def _array(self, head: Head, role: str) -> Array:
        array = self._container.array(head.arrays[role])
        place = f"head {head.name}, {role}"
        if role in _WHOLE:
            if array.dtype.kind not in "iu":
                raise FixtureError(f"{place} holds {array.dtype}; expected whole numbers (int64 or int32)")
            return array.astype(np.int64)
        if array.dtype in _PRECISIONS:
            return frozen(as_float32(array))
        raise FixtureError(f"{place} holds {array.dtype}; expected float32, float16 or bfloat16")


def is_pack(head: bytes) -> bool:
    """Whether a file that begins so is a compact fixture rather than JSON: sixteen bytes are enough."""
    return is_container(head)


def open_pack(source: str | os.PathLike[str] | bytes) -> Pack:
    """A compact file by its path or bytes; from a path, arrays are read only when a head is. Raises FixtureError."""
    container = opened(source)
    if not container.layout:
        raise FixtureError(
            "the file tells no layout (`polykv` in its metadata); see docs/formats.md, or polykv convert"
        )
    try:
        layout = json.loads(container.layout)
    except (ValueError, RecursionError):
        raise FixtureError("the file's layout is no JSON; write it anew") from None
    record = _check.record(layout, "the layout", ("format", "heads"))
    if record["format"] != PACK_FORMAT:
        raise FixtureError(f"the layout's format is {shown(record['format'])}; expected {PACK_FORMAT!r}")
    entries = _check.items(record["heads"], "the layout, heads")
    heads = tuple(_head(entry, f"the layout, heads[{index}]") for index, entry in enumerate(entries))
    if not heads:
        raise FixtureError("the layout names no head")
    if len({head.name for head in heads}) < len(heads):
        raise FixtureError("the layout has two heads of one name; give each a name of its own")
    return Pack(heads, container)


def _head(entry: Any, place: str) -> Head:
    record = _check.record(entry, place, ("name", "model_id", "shared_tokens", "seed"))
    name = _check.text(record["name"], f"{place}, name")
    named = _check.record(record.get("arrays", {}), f"{place}, arrays")
    known = {"name", "model_id", "shared_tokens", "seed", "schema_version", "arrays"}
    return Head(
        name=name,
        model_id=_check.text(record["model_id"], f"{place}, model_id"),
        shared_tokens=_check.integer(record["shared_tokens"], f"{place}, shared_tokens"),
        seed=_check.integer(record["seed"], f"{place}, seed"),
        schema_version=_check.text(
            record.get("schema_version", CAPTURED_REPLAY_FIXTURE_SCHEMA), f"{place}, schema_version"
        ),
        arrays={role: _check.text(named.get(role, f"{name}.{role}"), f"{place}, arrays, {role}") for role in ARRAYS},
        about={key: value for key, value in record.items() if key not in known},
    )


def _check_axes(head: str, role: str, array: Array, axes: dict[str, tuple[int, str]]) -> None:
    """Whether an array has its axes, each as long as where it was seen before."""
    names = ARRAYS[role].split()
    if array.ndim != len(names):
        raise FixtureError(f"head {head}, {role} has shape {array.shape}; expected [{', '.join(names)}]")
    for axis, length in zip(names, array.shape, strict=True):
        expected, where = (int(axis), "") if axis.isdecimal() else axes.setdefault(axis, (length, role))
        if length != expected:
            as_in = f" as {where} has" if where else ""
            raise FixtureError(f"head {head}, {role} has shape {array.shape}; expected {axis} = {expected}{as_in}")


def _spans(head: str, rows: Int64[Array, "q 2"], count: int) -> list[tuple[int, int]]:
    """Each query's first row and the one behind its last."""
    firsts, counts = rows[:, 0], rows[:, 1]
    # Compared without adding, which could overflow.
    left = count - np.clip(firsts, 0, count)
    wrong = np.flatnonzero((firsts < 0) | (counts < 0) | (firsts > count) | (counts > left))
    if len(wrong):
        query = int(wrong[0])
        raise FixtureError(
            f"head {head}, rows says that query {query} has {counts[query]} rows from row {firsts[query]} on; "
            f"there are {count}"
        )
    return [(int(first), int(first + length)) for first, length in zip(firsts, counts, strict=True)]
