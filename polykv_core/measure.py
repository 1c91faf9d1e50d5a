"""Measuring: dear, and knows no thresholds. A kept measurement is judged again and again without a second replay."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from polykv_core.arrays import U64_MASK, Array, Float32, Float64, Int64
from polykv_core.attention import RankedRows, exact_output, outputs_at, project, rank, softmax
from polykv_core.codecs import POOL_CODEC, SHELL_CODEC
from polykv_core.config import ModelReplayConfig, checked_ks
from polykv_core.errors import CacheError, ConfigError
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.metrics import METRICS, QueryMetrics, argmax_last, cosine, kl_divergence, mse, nll
from polykv_core.model_case import ModelReplayQuery, check_queries
from polykv_core.pool import SharedKVPool
from polykv_core.shell import AgentShell
from polykv_core.tier import KvTensorShape

_SHELL_SEED_OFFSET = 10_000


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

    def index_of(self, k: int) -> int:
        """Where a k stands in candidate_ks. Raises ConfigError if it was not measured."""
        try:
            return self.candidate_ks.index(k)
        except ValueError:
            raise ConfigError(f"candidate k {k} was not measured; measured were {list(self.candidate_ks)}") from None


@dataclass(frozen=True, eq=False)
class CapturedMeasurement(Measurement):
    """The measurement of a captured fixture, and whose it is."""

    model_id: str
    fixture_digest: str
    warnings: tuple[str, ...]


def measure(fixture: CapturedReplayFixture, candidate_ks: Sequence[int] | Int64[Array, " k"]) -> CapturedMeasurement:
    """Replay every query of a fixture through pool and shell, reading the top k rows for each k.

    A query's pool and shell are built once and its rows ranked once, whatever the number of ks. A query's numbers do
    not depend on the other queries. Raises ConfigError for ks that mean nothing and CodecError for rows or a head size
    the codecs cannot hold, before any work.
    """
    ks = checked_ks(candidate_ks)
    check_replayable(fixture)
    queries = QueryMetrics.joined(
        [_captured_query(fixture, index, _row_counts(ks)) for index in range(len(fixture.queries))]
    )
    return CapturedMeasurement(ks, queries, fixture.model_id, fixture.digest, fixture.warnings)


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
    pool: SharedKVPool, shell: AgentShell, queries: Sequence[ModelReplayQuery], config: ModelReplayConfig
) -> Measurement:
    """Replay queries over one layer and head of a given pool and shell, against exact attention over the decoded cache.

    Of the config only layer, head, candidate_ks, vocab_size and projection_seed matter. Raises ConfigError for no ks,
    CaseError for queries that do not fit, CacheError for a layer or head out of range or a tier without rows.
    """
    ks = checked_ks(config.candidate_ks)
    check_queries(queries, pool.shape.head_dim, config.vocab_size)
    tiers = (pool.tier, shell.tier)
    for tier in tiers:
        if not tier.token_count:
            raise CacheError(f"the {tier.name} has no rows; a replay needs rows in both tiers")
    keys = np.concatenate([tier.keys(config.layer, config.head) for tier in tiers])
    values = np.concatenate([tier.values(config.layer, config.head) for tier in tiers])
    projection = synthetic_projection(config.vocab_size, pool.shape.head_dim, config.projection_seed)
    row_counts = _row_counts(ks)

    def replayed(query: ModelReplayQuery) -> QueryMetrics:
        ranked = rank(pool, shell, config.layer, config.head, query.query, int(row_counts.max()))
        exact = exact_output(keys, values, query.query)
        exact_logits = project(exact[None], projection)[0]
        return _compared(ranked, row_counts, projection, exact, exact_logits, query.label_token)

    return Measurement(ks, QueryMetrics.joined([replayed(query) for query in queries]))


def synthetic_projection(vocab_size: int, head_dim: int, seed: int) -> Float32[Array, "v d"]:
    """The model replay's deterministic output projection: a sine and a cosine of token, dimension and seed."""
    token = (np.arange(vocab_size, dtype=np.float32) + np.float32(1.0)) * np.float32(0.013)
    dim = (np.arange(head_dim, dtype=np.float32) + np.float32(1.0)) * np.float32(0.017)
    x = (token[:, None] + dim + np.float32(seed) * np.float32(0.0001)).astype(np.float64)
    sine, cosine_ = np.sin(x).astype(np.float32), np.cos(x).astype(np.float32)
    return sine * np.float32(0.25) + cosine_ * np.float32(0.10)


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
    return _compared(
        ranked,
        row_counts,
        fixture.output_projection,
        query.exact_attention_output,
        query.exact_logits,
        query.label_token,
    )


def _compared(
    ranked: RankedRows,
    row_counts: Int64[Array, " k"],
    projection: Float32[Array, "v d"],
    exact: Float32[Array, " d"],
    exact_logits: Float32[Array, " v"],
    label: int,
) -> QueryMetrics:
    """One query's metrics at every k."""
    outputs = outputs_at(ranked, row_counts)
    logits = project(outputs, projection)
    p, q = softmax(exact_logits[None]), softmax(logits)
    return QueryMetrics(
        cosine=cosine(exact, outputs)[None],
        mse=mse(exact, outputs)[None],
        kl=kl_divergence(p[0], q)[None],
        nll_exact=nll(p, label),
        nll_compressed=nll(q, label)[None],
        top1_same=(argmax_last(logits) == argmax_last(exact_logits[None]))[None],
        decoded_values=np.minimum(row_counts, ranked.row_count)[None],
        rows=np.array([ranked.row_count]),
    )


def _row_name(query: int, kind: str, offset: int, row: int) -> str:
    return f"query {query}, {kind} row {offset + row}"


def _row_counts(ks: Sequence[int]) -> Int64[Array, " k"]:
    """The ks as an index array; beyond any number of rows there can be, larger makes no difference."""
    return np.array([min(k, 2**62) for k in ks], dtype=np.int64)
