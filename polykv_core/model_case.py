"""The model-replay case: the rows of pool and shell, the queries and the config, in one file."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from polykv_core.arrays import Array, Float32
from polykv_core.checks import Checks
from polykv_core.config import ModelReplayConfig
from polykv_core.errors import CaseError
from polykv_core.jsontext import Source, read_json
from polykv_core.tier import KvTensorShape

_check = Checks(CaseError)
_CASE_FIELDS = ("shape", "shared", "hot", "pool_seed", "shell_seed", "queries", "config")


@dataclass(frozen=True, eq=False)
class ModelReplayQuery:
    """A query vector for one layer and head, and the synthetic label its perplexity proxy is taken at."""

    query: Float32[Array, " d"]
    label_token: int


@dataclass(frozen=True, eq=False)
class ModelReplayCase:
    """Everything a model replay needs; rows [t, layers * KV heads * 2 * head_dim]."""

    shape: KvTensorShape
    shared: Float32[Array, "t width"]
    hot: Float32[Array, "u width"]
    pool_seed: int
    shell_seed: int
    queries: tuple[ModelReplayQuery, ...]
    config: ModelReplayConfig

    @classmethod
    def from_dict(cls, data: object) -> "ModelReplayCase":
        """A case from JSON fields. Raises CaseError (CacheError, ConfigError for those parts), naming the place."""
        record = _check.record(data, "the case", _CASE_FIELDS)
        shape = KvTensorShape.from_dict(_check.record(record["shape"], "shape"))
        width = "layers x KV heads x 2 x head_dim"
        queries = [
            (index, _check.record(query, f"query {index}", ("query", "label_token")))
            for index, query in enumerate(_check.items(record["queries"], "queries"))
        ]
        return cls(
            shape=shape,
            shared=_check.rows(record["shared"], "shared", shape.row_width, width),
            hot=_check.rows(record["hot"], "hot", shape.row_width, width),
            pool_seed=_check.integer(record["pool_seed"], "pool_seed"),
            shell_seed=_check.integer(record["shell_seed"], "shell_seed"),
            queries=tuple(
                ModelReplayQuery(
                    _check.vector(query["query"], f"query {index}, query", shape.head_dim, "head_dim"),
                    _check.integer(query["label_token"], f"query {index}, label_token"),
                )
                for index, query in queries
            ),
            config=ModelReplayConfig.from_dict(_check.record(record["config"], "config")),
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON fields; every number reads back as the same float32."""
        return {
            "shape": asdict(self.shape),
            "shared": self.shared.tolist(),
            "hot": self.hot.tolist(),
            "pool_seed": self.pool_seed,
            "shell_seed": self.shell_seed,
            "queries": [{"query": query.query.tolist(), "label_token": query.label_token} for query in self.queries],
            "config": self.config.to_dict(),
        }

    def to_json(self) -> str:
        """The case as a file's whole text."""
        return json.dumps(self.to_dict(), allow_nan=False) + "\n"


def load_model_case(source: Source) -> ModelReplayCase:
    """Read a case (JSON, or JSON in gzip) from a path, bytes or a file object."""
    return ModelReplayCase.from_dict(_check.record(read_json(source, CaseError), "the file"))


def checked_queries(queries: object, head_dim: int, vocab_size: int) -> list[ModelReplayQuery]:
    """The queries, if there are any, all of head_dim finite numbers, with labels below vocab_size. Raises CaseError."""
    items = _check.items(queries, "queries")
    if not items:
        raise CaseError("queries is empty; give at least one query")
    return [
        ModelReplayQuery(
            _check.vector(query.query, f"query {index}, query", head_dim, "head_dim"),
            _check.integer(query.label_token, f"query {index}, label_token", high=vocab_size - 1),
        )
        for index, query in enumerate(items)
    ]
