"""Writing compact fixtures: rows that queries share are stored once."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import ml_dtypes
import numpy as np

from polykv_core.arrays import Array, Float32, Int64
from polykv_core.canonical import sha256_of
from polykv_core.errors import FixtureError
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.packs.containers import is_array_name, npz_bytes, safetensors_bytes
from polykv_core.packs.pack import ARRAYS, PACK_FORMAT

Kind = Literal["safetensors", "npz"]
Precision = Literal["float32", "float16", "bfloat16"]
_TYPES: Mapping[Precision, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def pack_bytes(
    fixtures: Mapping[str, CapturedReplayFixture],
    kind: Kind = "safetensors",
    precision: Precision = "float32",
    about: Mapping[str, Mapping[str, Any]] | None = None,
) -> bytes:
    """A compact file that holds fixtures by their names; float32 keeps every bit.

    What heads have in common, such as the keys and values of a KV head, is stored once. `about` may say more of a head
    (layer, captured scale); readers take it as data. Raises FixtureError for a number that the precision cannot hold.
    """
    arrays: dict[str, Array] = {}
    stored: dict[tuple[object, ...], str] = {}
    heads = []
    for index, (name, fixture) in enumerate(fixtures.items()):
        elsewhere: dict[str, str] = {}
        prefix = name if is_array_name(name) else _free(f"head_{index}_of_{len(fixtures)}", fixtures)
        for role, array in _arrays(fixture).items():
            own = f"{prefix}.{role}"
            narrow = _narrowed(own, array, precision)
            place = stored.setdefault((narrow.dtype, narrow.shape, sha256_of(narrow.tobytes())), own)
            if place == own:
                arrays[own] = narrow
            if place != f"{name}.{role}":
                elsewhere[role] = place
        heads.append(
            {
                "name": name,
                "model_id": fixture.model_id,
                "shared_tokens": fixture.shared_tokens,
                "seed": fixture.seed,
                "schema_version": fixture.schema_version,
                **({"arrays": elsewhere} if elsewhere else {}),
                **(about or {}).get(name, {}),
            }
        )
    layout = json.dumps({"format": PACK_FORMAT, "heads": heads})
    return safetensors_bytes(arrays, layout) if kind == "safetensors" else npz_bytes(arrays, layout)


def _free(prefix: str, names: Mapping[str, object]) -> str:
    """A prefix that is no head's name: arrays of the head that has it would be overwritten."""
    while prefix in names:
        prefix += "_"
    return prefix


def _arrays(fixture: CapturedReplayFixture) -> dict[str, Array]:
    """A fixture's arrays in the order of ARRAYS."""
    queries = fixture.queries
    keys, values, rows = _shared_rows([query.keys for query in queries], [query.values for query in queries])
    stacked = {role: np.stack([getattr(query, role) for query in queries]) for role in _STACKED}
    labels = np.array([query.label_token for query in queries], dtype=np.int64)
    found = {"keys": keys, "values": values, "output_projection": fixture.output_projection, **stacked}
    found |= {"label_token": labels, "rows": rows}
    return {role: found[role] for role in ARRAYS}


_STACKED = ("query", "exact_attention_output", "exact_logits")


def _shared_rows(
    keys: Sequence[Float32[Array, "_ d"]], values: Sequence[Float32[Array, "_ d"]]
) -> tuple[Float32[Array, "t d"], Float32[Array, "t d"], Int64[Array, "q 2"]]:
    """The rows once, and each query's span of them: the first rows of the longest query, or else rows of its own."""
    order = sorted(range(len(keys)), key=lambda index: -len(keys[index]))
    bases: list[int] = []
    starts: dict[int, int] = {}
    spans = np.zeros((len(keys), 2), dtype=np.int64)
    total = 0
    for index in order:
        count = len(keys[index])
        base = next((b for b in bases if _begins(keys[b], keys[index]) and _begins(values[b], values[index])), None)
        if base is None:
            bases.append(index)
            starts[index], base = total, index
            total += count
        spans[index] = starts[base], count
    return np.concatenate([keys[b] for b in bases]), np.concatenate([values[b] for b in bases]), spans


def _begins(rows: Float32[Array, "t d"], first: Float32[Array, "_ d"]) -> bool:
    """Whether rows begin with these, to the last bit: 0 and -0 are told apart."""
    return rows[: len(first)].tobytes() == first.tobytes()


def _narrowed(name: str, array: Array, precision: Precision) -> Array:
    if array.dtype != np.float32 or precision == "float32":
        return array
    with np.errstate(over="ignore"):
        narrow = array.astype(_TYPES[precision])
    if not np.isfinite(narrow.astype(np.float32)).all():
        raise FixtureError(f"{name} holds a number that {precision} cannot; write it as float32")
    return narrow


def fixture_json(fixture: CapturedReplayFixture) -> str:
    """A fixture as the crate's JSON; every float32 is written such that it is read again to the last bit."""
    record = {
        "schema_version": fixture.schema_version,
        "model_id": fixture.model_id,
        "head_dim": fixture.head_dim,
        "shared_tokens": fixture.shared_tokens,
        "seed": fixture.seed,
        "output_projection": fixture.output_projection.tolist(),
        "queries": [
            {
                "query": query.query.tolist(),
                "keys": query.keys.tolist(),
                "values": query.values.tolist(),
                "exact_attention_output": query.exact_attention_output.tolist(),
                "exact_logits": query.exact_logits.tolist(),
                "label_token": query.label_token,
            }
            for query in fixture.queries
        ],
    }
    return json.dumps(record, ensure_ascii=False) + "\n"
