"""Attention over the two tiers: rank once by compressed score, then read off the output for every k."""

from dataclasses import dataclass

import numpy as np

from polykv_core.arrays import Array, Bool, Float, Float32, Float64, Int64, as_float32, contract, sum_in_order
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.pool import SharedKVPool
from polykv_core.shell import AgentShell

IN_ORDER_ROWS = 1024
_SUMMED_AT_A_TIME = 1024
_SOFTMAX_FLOOR = float(np.finfo(np.float32).eps)


@dataclass(frozen=True, eq=False)
class RankedRows:
    """The best rows of both tiers for one query, best first. Row numbers count the pool's tokens, then the shell's."""

    rows: Int64[Array, " m"]
    scores: Float32[Array, " m"]
    values: Float32[Array, "m d"]
    row_count: int


def rank(
    pool: SharedKVPool,
    shell: AgentShell,
    layer: int,
    head: int,
    query: Float32[Array, " d"],
    limit: int,
    options: ReplayOptions = REFERENCE,
) -> RankedRows:
    """Score every row of both tiers, rank them, and decode the values of the best `limit` (or all there are).

    A scale is applied after ranking: it changes weights, never which rows are read.
    """
    scores = cache_scores(pool, shell, layer, head, query, options)
    order = best_first(scores)[:limit]
    in_pool = order < pool.tier.token_count
    values = np.empty((len(order), len(query)), dtype=np.float32)
    values[in_pool] = pool.tier.values(layer, head, order[in_pool])
    values[~in_pool] = shell.tier.values(layer, head, order[~in_pool] - pool.tier.token_count)
    return RankedRows(order, scaled(scores[order], options.scale(len(query))), values, len(scores))


def cache_scores(
    pool: SharedKVPool,
    shell: AgentShell,
    layer: int,
    head: int,
    query: Float32[Array, " d"],
    options: ReplayOptions = REFERENCE,
) -> Float32[Array, " t"]:
    """The score of every row of both tiers, the pool's first, before any scale."""
    exact_query = options.query_coding == "exact"
    return np.concatenate(
        [tier.scores(layer, head, query, exact_query=exact_query) for tier in (pool.tier, shell.tier)]
    )


def scaled(scores: Float32[Array, " t"], scale: np.float32) -> Float32[Array, " t"]:
    """Scores times the scale of attention, in float32."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return scores * scale


def best_first(scores: Float32[Array, " t"]) -> Int64[Array, " t"]:
    """Rows by score: largest first, in the total order on floats; a tie goes to the lower row, so to the pool."""
    return np.argsort(~_total_order(scores), kind="stable")


def outputs_at(ranked: RankedRows, ks: Int64[Array, " k"]) -> Float32[Array, "k d"]:
    """Attention output over the first k ranked rows for every k: softmax of the scores as they are, times the values.

    Over up to IN_ORDER_ROWS rows the weights are rounded and added as the reference does, so that receipts agree to the
    digit. That takes k steps for each k. Beyond, outputs are read off running sums in float64, which is more exact and
    takes one step for each k. Which of the two depends on the k alone, so that a k has the same digits whichever others
    are asked for.
    """
    counts = np.minimum(ks, len(ranked.scores))
    in_order = counts <= IN_ORDER_ROWS
    outputs = np.empty((len(ks), ranked.values.shape[1]), dtype=np.float32)
    if in_order.any():
        outputs[in_order] = _added_in_order(ranked, counts[in_order])
    if not in_order.all():
        outputs[~in_order] = _off_running_sums(ranked, counts[~in_order])
    return outputs


def exact_output(
    keys: Float32[Array, "t d"], values: Float32[Array, "t d"], query: Float32[Array, " d"]
) -> Float32[Array, " d"]:
    """Unscaled softmax attention of one query over all rows, as they are."""
    with np.errstate(invalid="ignore", over="ignore"):
        return contract(_softmax_float32(sum_in_order(keys * query)[None]), values)[0]


def project(outputs: Float32[Array, "k d"], projection: Float32[Array, "v d"]) -> Float32[Array, "k v"]:
    """Logits: the projection times each output."""
    with np.errstate(invalid="ignore", over="ignore"):
        return contract(outputs, projection.T)


def softmax(logits: Float32[Array, "k v"]) -> Float64[Array, "k v"]:
    """Probabilities of each row of logits: computed in float32, then widened."""
    with np.errstate(invalid="ignore", over="ignore"):
        return _softmax_float32(logits).astype(np.float64)


def _added_in_order(ranked: RankedRows, counts: Int64[Array, " k"]) -> Float32[Array, "k d"]:
    """Weights of each k, rounded to float32, times the values, added in float32 from the best row on."""
    rows = np.s_[: counts.max()]
    read = np.arange(counts.max()) < counts[:, None]
    exps, usable_rows = _exps(ranked, rows), _usable_rows(ranked, rows)
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.cumsum(exps)[counts - 1, None]
        weights = np.where(_usable(total), exps / total, np.float32(1.0) / counts[:, None].astype(np.float32))
        values = np.where(usable_rows[:, None], ranked.values[rows], np.float32(0.0))
        outputs = contract(np.where(read, weights, np.float32(0.0)), values)
    # A value beyond float32 leaves no output from the k on that reads it (0 x inf must not spoil the smaller ks).
    outputs[(read & ~usable_rows).any(axis=1)] = np.nan
    return outputs


def _off_running_sums(ranked: RankedRows, counts: Int64[Array, " k"]) -> Float32[Array, "k d"]:
    """Sums of weighted values from the best row on, over the sum of the weights."""
    rows = np.s_[: counts.max()]
    usable_rows, exps = _usable_rows(ranked, rows), _exps(ranked, rows)
    values = ranked.values[rows]
    if not usable_rows.all():
        values = np.where(usable_rows[:, None], values, np.float32(np.nan))
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.cumsum(exps, dtype=np.float64)[counts - 1, None]
        usable = _usable(total)
        outputs = as_float32(_sums_at(exps[:, None] * values, counts) / total)
        if not usable.all():
            outputs = np.where(usable, outputs, as_float32(_sums_at(values, counts) / counts[:, None]))
    return outputs


def _sums_at(rows: Float32[Array, "m d"], counts: Int64[Array, " k"]) -> Float64[Array, "k d"]:
    """The sum of the first rows, for each of some counts; added up in float64, some rows at a time."""
    sums = np.empty((len(counts), rows.shape[1]))
    before = np.zeros((1, rows.shape[1]))
    for start in range(0, len(rows), _SUMMED_AT_A_TIME):
        part = rows[start : start + _SUMMED_AT_A_TIME]
        running = np.cumsum(np.concatenate([before, part]), axis=0)
        here = (counts > start) & (counts <= start + len(part))
        sums[here] = running[counts[here] - start]
        before = running[-1:]
    return sums


def _exps(ranked: RankedRows, rows: slice) -> Float32[Array, " m"]:
    """exp(score - best score): the largest score comes first, so all ks share one shift."""
    with np.errstate(invalid="ignore", over="ignore"):
        return _shifted_exp(ranked.scores[rows], ranked.scores[:1])


def _usable_rows(ranked: RankedRows, rows: slice) -> Bool[Array, " m"]:
    """Whether a row's value is finite."""
    return np.isfinite(ranked.values[rows]).all(axis=1)


def _softmax_float32(logits: Float32[Array, "k v"]) -> Float32[Array, "k v"]:
    """Max-shifted softmax in float32; uniform where the sum of exponentials vanishes or is not finite."""
    exps = _shifted_exp(logits, logits.max(axis=-1, keepdims=True))
    total = sum_in_order(exps)[:, None]
    return np.where(_usable(total), exps / total, np.float32(1.0 / logits.shape[1]))


def _usable(total: Float[Array, "k 1"]) -> Bool[Array, "k 1"]:
    """Whether a sum of exponentials can be divided by; where not, the reference falls back to equal weights."""
    return (total > _SOFTMAX_FLOOR) & np.isfinite(total)


def _shifted_exp(scores: Float32[Array, "... m"], largest: Float32[Array, "... 1"]) -> Float32[Array, "... m"]:
    """exp(score - largest), shifted in float32, exponentiated in float64, rounded to float32."""
    return np.exp((scores - largest).astype(np.float64)).astype(np.float32)


def _total_order(scores: Float32[Array, " t"]) -> Array:
    """Integers that sort as the floats do in IEEE total order: -NaN, -inf ... -0, +0 ... inf, NaN."""
    bits = scores.view(np.int32)
    return bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
