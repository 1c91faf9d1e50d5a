"""Attention over the two tiers: rank once by compressed score, then read off the output for every k."""

from dataclasses import dataclass

import numpy as np

from polykv_core.arrays import Array, Bool, Float, Float32, Float64, Int64, contract, sum_in_order
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.pool import SharedKVPool
from polykv_core.shell import AgentShell

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

    The largest score comes first, so all ks share one shift, and the softmax's sums are running sums.
    """
    read = np.arange(len(ranked.scores)) < ks[:, None]
    last = np.minimum(ks, len(ranked.scores)) - 1
    usable_rows = np.isfinite(ranked.values).all(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        exps = _shifted_exp(ranked.scores, ranked.scores[:1])
        total = np.cumsum(exps)[last, None]
        weights = np.where(_usable(total), exps / total, np.float32(1.0) / (last + 1)[:, None].astype(np.float32))
        outputs = contract(np.where(read, weights, np.float32(0.0)), np.where(usable_rows[:, None], ranked.values, 0.0))
    # A value beyond float32 leaves no output from the k on that reads it (0 x inf must not spoil the smaller ks).
    outputs[(read & ~usable_rows).any(axis=1)] = np.nan
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
