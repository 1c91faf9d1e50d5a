"""Measuring: dear, and knows no thresholds. A kept measurement is judged again and again without a second replay."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from polykv_core.arrays import U64_MASK, Array, Float32, Float64, Int64
from polykv_core.attention import RankedRows, exact_output, outputs_at, project, rank, softmax
from polykv_core.codecs import POOL_CODEC, SHELL_CODEC
from polykv_core.config import ModelReplayConfig, checked_ks
from polykv_core.errors import CacheError, ConfigError
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.metrics import METRICS, QueryMetrics, argmax_last, cosine, kl_divergence, mse, nll
from polykv_core.model_case import ModelReplayQuery, checked_queries
from polykv_core.pool import SharedKVPool
from polykv_core.shell import AgentShell
from polykv_core.tier import KvTensorShape

OnQuery = Callable[[int, int], None]
T = TypeVar("T")

_SHELL_SEED_OFFSET = 10_000
# Weights of one chunk of ks, so that scratch memory stays in the megabytes however many ks and rows there are.
_CHUNK_WEIGHTS = 2**21


def _keep_going(done: int, total: int) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """What a replay measured at each candidate k, for each query and over all of them."""

    candidate_ks: tuple[int, ...]
    queries: QueryMetrics

    @cached_property
    def metrics(self) -> dict[str, Float64[Array, " k"]]:
        """Every metric of METRICS by name, over the queries, for each candidate k."""
        return {metric.name: metric.over_queries(self.queries) for metric in METRICS}

    @property
    def query_count(self) -> int:
        """Queries replayed."""
        return len(self.queries.rows)

    @property
    def full_decode_value_count(self) -> int:
        """Value rows that reading everything would decode."""
        return int(self.queries.rows.sum())

    @cached_property
    def _places(self) -> dict[int, int]:
        most_rows = int(self.queries.rows.max())
        return {min(k, most_rows): index for index, k in enumerate(self.candidate_ks)}

    def index_of(self, k: int) -> int:
        """Where a k stands in candidate_ks; beyond the rows of every query, all such ks are the same.

        Raises ConfigError if it was not measured.
        """
        most_rows = int(self.queries.rows.max())
        if min(k, most_rows) in self._places:
            return self._places[min(k, most_rows)]
        measured = ", ".join(map(str, self.candidate_ks[:8])) + (", ..." if len(self.candidate_ks) > 8 else "")
        raise ConfigError(f"candidate k {k} was not measured; measured were {measured}")


@dataclass(frozen=True, eq=False)
class CapturedMeasurement(Measurement):
    """The measurement of a captured fixture, and whose it is."""

    model_id: str
    fixture_digest: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Exact:
    """What a query's replay is held against."""

    output: Float32[Array, " d"]
    logits: Float32[Array, " v"]
    projection: Float32[Array, "v d"]
    label: int


def measure(
    fixture: CapturedReplayFixture,
    candidate_ks: Sequence[int] | Int64[Array, " k"],
    on_query: OnQuery = _keep_going,
) -> CapturedMeasurement:
    """Replay every query of a fixture through pool and shell, reading the top k rows for each k.

    A query's pool and shell are built once and its rows ranked once, whatever the number of ks. A query's numbers do
    not depend on the other queries, nor a k's on the other ks. `on_query` is told before each query, and after the last
    one, how many are done of how many; it may raise to stop the work.

    Raises ConfigError for ks that mean nothing and CodecError for rows or a head size the codecs cannot hold, before
    any work.
    """
    ks = checked_ks(candidate_ks)
    check_replayable(fixture)
    row_counts = _row_counts(ks)
    queries = _each(range(len(fixture.queries)), lambda index: _captured_query(fixture, index, row_counts), on_query)
    return CapturedMeasurement(ks, queries, fixture.model_id, fixture.digest, fixture.warnings)


def every_k(fixture: CapturedReplayFixture) -> range:
    """Every k that makes a difference: 1 to the most rows that a query has."""
    return range(1, max(query.row_count for query in fixture.queries) + 1)


def check_replayable(fixture: CapturedReplayFixture) -> None:
    """Raise CodecError, naming query and row, if the codecs cannot hold this fixture's head size or rows."""
    for codec in (POOL_CODEC, SHELL_CODEC):
        codec.check_head_dim(fixture.head_dim)
    pool_rows, shell_rows = slice(0, fixture.shared_tokens), slice(fixture.shared_tokens, None)
    for index, query in enumerate(fixture.queries):
        for kind, rows in (("keys", query.keys), ("values", query.values)):
            POOL_CODEC.check_rows(rows[pool_rows], partial(_row_name, index, kind, 0))
            SHELL_CODEC.check_rows(rows[shell_rows], partial(_row_name, index, kind, fixture.shared_tokens))


def measure_model(
    pool: SharedKVPool,
    shell: AgentShell,
    queries: Sequence[ModelReplayQuery],
    config: ModelReplayConfig,
    on_query: OnQuery = _keep_going,
) -> Measurement:
    """Replay queries over one layer and head of a given pool and shell, against exact attention over the decoded cache.

    Of the config only layer, head, candidate_ks, vocab_size and projection_seed matter; `on_query` is as in measure.
    Raises ConfigError for no ks,
    CaseError for queries that do not fit, CacheError for a layer or head out of range or a tier without rows.
    """
    ks = checked_ks(config.candidate_ks)
    queries = checked_queries(queries, pool.shape.head_dim, config.vocab_size)
    if shell.tier.shape != pool.shape:
        raise CacheError(f"the shell has shape {shell.tier.shape}, the pool {pool.shape}; they must be the same")
    tiers = (pool.tier, shell.tier)
    keys = np.concatenate([tier.keys(config.layer, config.head) for tier in tiers])
    values = np.concatenate([tier.values(config.layer, config.head) for tier in tiers])
    projection = synthetic_projection(config.vocab_size, pool.shape.head_dim, config.projection_seed)
    row_counts = _row_counts(ks)

    def replayed(query: ModelReplayQuery) -> QueryMetrics:
        ranked = rank(pool, shell, config.layer, config.head, query.query, int(row_counts.max()))
        output = exact_output(keys, values, query.query)
        logits = project(output[None], projection)[0]
        return _compared(ranked, row_counts, _Exact(output, logits, projection, query.label_token))

    return Measurement(ks, _each(queries, replayed, on_query))


def synthetic_projection(vocab_size: int, head_dim: int, seed: int) -> Float32[Array, "v d"]:
    """The model replay's deterministic output projection: a sine and a cosine of token, dimension and seed."""
    token = (np.arange(vocab_size, dtype=np.float32) + np.float32(1.0)) * np.float32(0.013)
    dim = (np.arange(head_dim, dtype=np.float32) + np.float32(1.0)) * np.float32(0.017)
    x = (token[:, None] + dim + np.float32(seed) * np.float32(0.0001)).astype(np.float64)
    sine, cosine_ = np.sin(x).astype(np.float32), np.cos(x).astype(np.float32)
    return sine * np.float32(0.25) + cosine_ * np.float32(0.10)


def _each(items: Sequence[T], replayed: Callable[[T], QueryMetrics], on_query: OnQuery) -> QueryMetrics:
    parts = []
    for done, item in enumerate(items):
        on_query(done, len(items))
        parts.append(replayed(item))
    on_query(len(items), len(items))
    return QueryMetrics.joined(parts)


def _captured_query(fixture: CapturedReplayFixture, index: int, row_counts: Int64[Array, " k"]) -> QueryMetrics:
    query = fixture.queries[index]
    shape = KvTensorShape(num_layers=1, num_kv_heads=1, head_dim=fixture.head_dim)
    rows = np.concatenate([query.keys, query.values], axis=1)
    seed = fixture.seed + index
    pool = SharedKVPool.build(rows[: fixture.shared_tokens], shape, seed & U64_MASK)
    shell = pool.materialize_shell(
        f"captured_{fixture.model_id}_{index}", rows[fixture.shared_tokens :], (seed + _SHELL_SEED_OFFSET) & U64_MASK
    )
    ranked = rank(pool, shell, 0, 0, query.query, int(row_counts.max()))
    exact = _Exact(query.exact_attention_output, query.exact_logits, fixture.output_projection, query.label_token)
    return _compared(ranked, row_counts, exact)


def _compared(ranked: RankedRows, row_counts: Int64[Array, " k"], exact: _Exact) -> QueryMetrics:
    """One query's metrics at every k."""
    size = max(1, _CHUNK_WEIGHTS // max(len(ranked.scores), len(exact.projection)))
    chunks = [row_counts[start : start + size] for start in range(0, len(row_counts), size)]
    return QueryMetrics.side_by_side([_compared_chunk(ranked, chunk, exact) for chunk in chunks])


def _compared_chunk(ranked: RankedRows, row_counts: Int64[Array, " k"], exact: _Exact) -> QueryMetrics:
    outputs = outputs_at(ranked, row_counts)
    logits = project(outputs, exact.projection)
    p, q = softmax(exact.logits[None]), softmax(logits)
    return QueryMetrics(
        cosine=cosine(exact.output, outputs)[None],
        mse=mse(exact.output, outputs)[None],
        kl=kl_divergence(p[0], q)[None],
        nll_exact=nll(p, exact.label),
        nll_compressed=nll(q, exact.label)[None],
        top1_same=(argmax_last(logits) == argmax_last(exact.logits[None]))[None],
        decoded_values=np.minimum(row_counts, ranked.row_count)[None],
        rows=np.array([ranked.row_count]),
    )


def _row_name(query: int, kind: str, offset: int, row: int) -> str:
    return f"query {query}, {kind} row {offset + row}"


def _row_counts(ks: Sequence[int]) -> Int64[Array, " k"]:
    """The ks as an index array; beyond any number of rows there can be, larger makes no difference."""
    return np.array([min(k, 2**62) for k in ks], dtype=np.int64)
