"""Measuring: dear, and knows no thresholds. A kept measurement is judged again and again without a second replay."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from polykv_core.arrays import U64_MASK, Array, Float32, Int64
from polykv_core.attention import RankedRows, exact_output, outputs_at, project, rank
from polykv_core.config import ModelReplayConfig, checked_ks
from polykv_core.errors import CacheError
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.health import ACCEPTED, Finding, check_fixture
from polykv_core.measurement import CapturedMeasurement, Exact, Measurement, compared
from polykv_core.metrics import QueryMetrics
from polykv_core.model_case import ModelReplayQuery, checked_queries
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.pool import SharedKVPool
from polykv_core.shell import AgentShell
from polykv_core.tier import KvTensorShape

OnQuery = Callable[[int, int], None]
T = TypeVar("T")

_SHELL_SEED_OFFSET = 10_000
# Logits of one chunk of ks, so that scratch memory stays in the megabytes however many ks there are.
_CHUNK_LOGITS = 2**18
# Below so many numbers a query, threads wait for each other more than they work; each takes its own scratch memory.
_WORTH_THREADS, _MOST_THREADS = 2**20, 4


def keep_going(done: int, total: int) -> None:
    """Nobody wants to know."""


def measure(
    fixture: CapturedReplayFixture,
    candidate_ks: Sequence[int] | Int64[Array, " k"],
    on_query: OnQuery = keep_going,
    *,
    options: ReplayOptions = REFERENCE,
) -> CapturedMeasurement:
    """Replay every query of a fixture through pool and shell, reading the top k rows for each k.

    A query's pool and shell are built once and its rows ranked once, whatever the number of ks. A query's numbers do
    not depend on the other queries, nor a k's on the other ks. `on_query` is told before each query, and after the last
    one, how many are done of how many; it may raise to stop the work.

    Raises ConfigError for ks that mean nothing and CodecError for rows or a head size the codecs cannot hold, before
    any work.
    """
    ks = checked_ks(candidate_ks)
    check_replayable(fixture, options)
    row_counts = _row_counts(ks)

    def replayed(index: int) -> QueryMetrics:
        pool, shell = captured_cache(fixture, index, options)
        ranked = rank(pool, shell, 0, 0, fixture.queries[index].query, int(row_counts.max()), options)
        return _replayed(ranked, row_counts, captured_exact(fixture, index))

    numbers = len(ks) * len(fixture.output_projection) + fixture.queries[0].keys.size
    with ThreadPoolExecutor(1) as aside:  # for a long fixture it takes as long as a query
        found = aside.submit(check_fixture, fixture, options)
        queries = each(range(len(fixture.queries)), replayed, on_query, numbers)
        odd = (*(Finding(ACCEPTED, warning) for warning in fixture.warnings), *found.result())
    return CapturedMeasurement(ks, queries, fixture.model_id, fixture.facts, odd, options)


def every_k(fixture: CapturedReplayFixture) -> range:
    """Every k that makes a difference: 1 to the most rows that a query has."""
    return range(1, max(query.row_count for query in fixture.queries) + 1)


def check_replayable(fixture: CapturedReplayFixture, options: ReplayOptions = REFERENCE) -> None:
    """Raise CodecError, naming query and row, if the codecs cannot hold this fixture's head size or rows."""
    for codec in (options.pool_codec, options.shell_codec):
        codec.check_head_dim(fixture.head_dim)
    shared = fixture.shared_tokens
    checked: dict[
        int, int
    ] = {}  # queries of a compact file share their rows: by where they begin, how many are checked
    for index, query in enumerate(fixture.queries):
        for kind, rows in (("keys", query.keys), ("values", query.values)):
            done = checked.get(rows.ctypes.data, 0)
            if not done:
                options.pool_codec.check_rows(rows[:shared], partial(_row_name, index, kind, 0))
            first = max(done, shared)
            options.shell_codec.check_rows(rows[first:], partial(_row_name, index, kind, first))
            checked[rows.ctypes.data] = max(done, len(rows))


def measure_model(
    pool: SharedKVPool,
    shell: AgentShell,
    queries: Sequence[ModelReplayQuery],
    config: ModelReplayConfig,
    on_query: OnQuery = keep_going,
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
        return _replayed(ranked, row_counts, Exact(output, logits, projection, query.label_token))

    return Measurement(ks, each(queries, replayed, on_query))


def synthetic_projection(vocab_size: int, head_dim: int, seed: int) -> Float32[Array, "v d"]:
    """The model replay's deterministic output projection: a sine and a cosine of token, dimension and seed."""
    token = (np.arange(vocab_size, dtype=np.float32) + np.float32(1.0)) * np.float32(0.013)
    dim = (np.arange(head_dim, dtype=np.float32) + np.float32(1.0)) * np.float32(0.017)
    x = (token[:, None] + dim + np.float32(seed) * np.float32(0.0001)).astype(np.float64)
    sine, cosine_ = np.sin(x).astype(np.float32), np.cos(x).astype(np.float32)
    return sine * np.float32(0.25) + cosine_ * np.float32(0.10)


def each(
    items: Sequence[T], replayed: Callable[[T], QueryMetrics], on_query: OnQuery, numbers: int = 0
) -> QueryMetrics:
    """Replay the queries, telling how many are done; some side by side where each has very many numbers."""
    parts = []
    with _replays(items, replayed, numbers) as replays:
        for done in range(len(items)):
            on_query(done, len(items))
            parts.append(next(replays))
    on_query(len(items), len(items))
    return QueryMetrics.joined(parts)


def captured_exact(fixture: CapturedReplayFixture, index: int) -> Exact:
    """What a fixture's query is held against."""
    query = fixture.queries[index]
    return Exact(query.exact_attention_output, query.exact_logits, fixture.output_projection, query.label_token)


def captured_cache(
    fixture: CapturedReplayFixture, index: int, options: ReplayOptions = REFERENCE
) -> tuple[SharedKVPool, AgentShell]:
    """The compressed cache that a fixture's query is replayed through; each query has seeds of its own."""
    query = fixture.queries[index]
    shape = KvTensorShape(num_layers=1, num_kv_heads=1, head_dim=fixture.head_dim)
    rows = np.concatenate([query.keys, query.values], axis=1)
    seed = fixture.seed + index
    pool = SharedKVPool.build(rows[: fixture.shared_tokens], shape, seed & U64_MASK, options.pool_codec)
    shell = pool.materialize_shell(
        f"captured_{fixture.model_id}_{index}",
        rows[fixture.shared_tokens :],
        (seed + _SHELL_SEED_OFFSET) & U64_MASK,
        options.shell_codec,
    )
    return pool, shell


def _replayed(ranked: RankedRows, row_counts: Int64[Array, " k"], exact: Exact) -> QueryMetrics:
    """One query's metrics at every k."""
    outputs, counts = outputs_at(ranked, row_counts), np.minimum(row_counts, ranked.row_count)
    size = max(1, _CHUNK_LOGITS // max(exact.projection.shape))
    chunks = [slice(start, start + size) for start in range(0, len(counts), size)]
    return QueryMetrics.side_by_side(
        [compared(outputs[chunk], counts[chunk], ranked.row_count, exact) for chunk in chunks]
    )


@contextmanager
def _replays(
    items: Sequence[T], replayed: Callable[[T], QueryMetrics], numbers: int
) -> Iterator[Iterator[QueryMetrics]]:
    """The replays in order; with threads only where NumPy is long enough at one thing for another thread to use it."""
    if numbers < _WORTH_THREADS:
        yield map(replayed, items)
        return
    pool = ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS))
    # Threads of BLAS would wait for each other, and burn the time that these ones could use.
    with threadpool_limits(1, user_api="blas"):
        try:
            yield pool.map(replayed, items)
        finally:
            pool.shutdown(cancel_futures=True)


def _row_name(query: int, kind: str, offset: int, row: int) -> str:
    return f"query {query}, {kind} row {offset + row}"


def _row_counts(ks: Sequence[int]) -> Int64[Array, " k"]:
    """The ks as an index array; beyond any number of rows there can be, larger makes no difference."""
    return np.array([min(k, 2**62) for k in ks], dtype=np.int64)
