"""The captured fixture: one attention head's tensors, read, checked and named by a digest."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import no_type_check

from polykv_core.arrays import Array, Float32
from polykv_core.checks import Checks, shown
from polykv_core.errors import FixtureError

CAPTURED_REPLAY_FIXTURE_SCHEMA = "poly_kv_captured_replay_fixture_v1"

_check = Checks(FixtureError)
_FIXTURE_FIELDS = (
    "schema_version", "model_id", "head_dim", "shared_tokens", "seed", "output_projection", "queries",
)  # fmt: skip
_QUERY_FIELDS = ("query", "keys", "values", "exact_attention_output", "exact_logits", "label_token")


@no_type_check  # takes what comes, and checks it itself
@dataclass(frozen=True, eq=False)
class CapturedReplayQuery:
    """One captured query with the rows it attends to, and what the model made of them."""

    query: Float32[Array, "d"]
    keys: Float32[Array, "t d"]
    values: Float32[Array, "t d"]
    exact_attention_output: Float32[Array, "d"]
    exact_logits: Float32[Array, "v"]
    label_token: int

    @property
    def row_count(self) -> int:
        """Rows this query attends to, both tiers together."""
        return len(self.keys)


@dataclass(frozen=True)
class FixtureFacts:
    """By what a fixture is known again: the sha256 of its content and of its file, and the numbers that shape a replay.

    `file_digest` is None for a fixture that was read from no file.
    """

    digest: str
    file_digest: str | None
    head_dim: int
    shared_tokens: int
    seed: int
    vocab: int


@no_type_check  # takes what comes, and checks it itself
@dataclass(frozen=True, eq=False)
class CapturedReplayFixture:
    """One attention head, captured: a projection to logits and the queries, all finite float32.

    The first `shared_tokens` rows of every query go to the shared pool, the rest to the agent shell. Query i's pool is
    seeded with seed + i and its shell with seed + 10000 + i (mod 2^64). `warnings` says what was odd but accepted,
    `file_digest` is the sha256 of the file that it was read from, if it was.

    Raises FixtureError, naming the place, where the parts do not fit together.
    """

    schema_version: str
    model_id: str
    head_dim: int
    shared_tokens: int
    seed: int
    output_projection: Float32[Array, "v d"]
    queries: tuple[CapturedReplayQuery, ...]
    warnings: tuple[str, ...] = field(default=())
    file_digest: str | None = None

    @classmethod
    def from_dict(cls, data: object, file_digest: str | None = None) -> "CapturedReplayFixture":
        """A fixture from the crate's JSON fields: scalars, and (nested) lists or arrays of numbers."""
        record = _check.record(data, "the fixture", _FIXTURE_FIELDS)
        return cls(**{name: record[name] for name in _FIXTURE_FIELDS}, file_digest=file_digest)

    def __post_init__(self) -> None:
        """Check everything, and hold it as read-only float32 arrays."""
        head_dim = _check.integer(self.head_dim, "head_dim", low=1)
        shared_tokens = _check.integer(self.shared_tokens, "shared_tokens")
        schema = _check.text(self.schema_version, "schema_version")
        projection = _check.rows(self.output_projection, "output_projection", head_dim, "head_dim")
        if not len(projection):
            raise FixtureError("output_projection is empty; expected a row for each entry of the vocabulary")
        queries = _check.items(self.queries, "queries")
        if not queries:
            raise FixtureError("queries is empty; capture at least one query")
        checked = {
            "model_id": _check.text(self.model_id, "model_id"),
            "head_dim": head_dim,
            "shared_tokens": shared_tokens,
            "seed": _check.integer(self.seed, "seed"),
            "output_projection": projection,
            "queries": tuple(
                _checked_query(query, f"query {index}", head_dim, len(projection), shared_tokens)
                for index, query in enumerate(queries)
            ),
            "warnings": tuple(dict.fromkeys((*self.warnings, *_schema_warnings(schema)))),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def facts(self) -> FixtureFacts:
        """What a receipt says of this fixture."""
        return FixtureFacts(
            digest=self.digest,
            file_digest=self.file_digest,
            head_dim=self.head_dim,
            shared_tokens=self.shared_tokens,
            seed=self.seed,
            vocab=len(self.output_projection),
        )

    @cached_property
    def digest(self) -> str:
        """sha256 of the content, whatever file format it came from.

        Hashed are, as one line of JSON with sorted keys, the scalar fields with every array's shape and every label,
        then the arrays as little-endian float32: the projection, then each query's arrays in the order of the fields.
        """
        header = {
            "schema_version": self.schema_version,
            "model_id": self.model_id,
            "head_dim": self.head_dim,
            "shared_tokens": self.shared_tokens,
            "seed": self.seed,
            "vocab": len(self.output_projection),
            "rows": [query.row_count for query in self.queries],
            "labels": [query.label_token for query in self.queries],
        }
        content = hashlib.sha256(json.dumps(header, sort_keys=True).encode() + b"\n")
        content.update(_bytes(self.output_projection))
        for query in self.queries:
            for array in (query.query, query.keys, query.values, query.exact_attention_output, query.exact_logits):
                content.update(_bytes(array))
        return f"sha256:{content.hexdigest()}"


def _checked_query(query: object, place: str, head_dim: int, vocab: int, shared_tokens: int) -> CapturedReplayQuery:
    record = vars(query) if isinstance(query, CapturedReplayQuery) else _check.record(query, place, _QUERY_FIELDS)
    keys = _check.rows(record["keys"], f"{place}, keys", head_dim, "head_dim")
    values = _check.rows(record["values"], f"{place}, values", head_dim, "head_dim")
    if len(keys) != len(values) or not len(keys):
        raise FixtureError(f"{place} has {len(keys)} keys and {len(values)} values; expected as many, and at least one")
    if not 0 < shared_tokens < len(keys):
        allowed = f"expected 1 to {len(keys) - 1}" if len(keys) > 1 else "capture at least two rows"
        raise FixtureError(
            f"shared_tokens is {shared_tokens}, but {place} has {len(keys)} rows; {allowed}, "
            "so that the pool and the shell both get rows"
        )
    output = record["exact_attention_output"]
    logits = record["exact_logits"]
    return CapturedReplayQuery(
        query=_check.vector(record["query"], f"{place}, query", head_dim, "head_dim"),
        keys=keys,
        values=values,
        exact_attention_output=_check.vector(output, f"{place}, exact_attention_output", head_dim, "head_dim"),
        exact_logits=_check.vector(logits, f"{place}, exact_logits", vocab, "rows of output_projection"),
        label_token=_check.integer(record["label_token"], f"{place}, label_token", high=vocab - 1),
    )


def _schema_warnings(schema: str) -> tuple[str, ...]:
    if schema == CAPTURED_REPLAY_FIXTURE_SCHEMA:
        return ()
    return (f"schema_version is {shown(schema)}, not {CAPTURED_REPLAY_FIXTURE_SCHEMA!r}; read as if it were",)


def _bytes(array: Float32[Array, "..."]) -> bytes:
    return array.astype("<f4", copy=False).tobytes()
