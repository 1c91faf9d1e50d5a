"""How far a replayed query is from the exact one: the functions, and METRICS, the list of what a receipt reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from polykv_core.arrays import Array, Bool, Float32, Float64, Int64, sum_in_order

Direction = Literal["higher is better", "lower is better", "closer to 0 is better"]
Statistic = Literal["mean", "p95", "worst"]
STATISTICS: tuple[Statistic, ...] = ("mean", "p95", "worst")

PROBABILITY_FLOOR = 1e-12
# What does not depend on the k.
_ALIKE = ("nll_exact", "rows")
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class QueryMetrics:
    """What was measured for each query and each k: the raw material of every mean. nll_exact is the same at every k."""

    cosine: Float64[Array, "q k"]
    mse: Float64[Array, "q k"]
    kl: Float64[Array, "q k"]
    nll_exact: Float64[Array, "q #k"]
    nll_compressed: Float64[Array, "q k"]
    top1_same: Bool[Array, "q k"]
    decoded_values: Int64[Array, "q k"]
    rows: Int64[Array, " q"]

    @classmethod
    def joined(cls, parts: Sequence["QueryMetrics"]) -> "QueryMetrics":
        """The queries of all parts, one after the other; all parts have the same ks."""
        return cls(
            **{field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)}
        )

    @classmethod
    def side_by_side(cls, parts: Sequence["QueryMetrics"]) -> "QueryMetrics":
        """The ks of all parts, one after the other; all parts have the same queries."""
        if len(parts) == 1:
            return parts[0]
        arrays = {field.name: [getattr(part, field.name) for part in parts] for field in fields(cls)}
        return cls(**{name: a[0] if name in _ALIKE else np.concatenate(a, axis=1) for name, a in arrays.items()})

    def at(self, index: int) -> "QueryMetrics":
        """All queries at one of the ks alone."""
        return self.take(np.array([index]))

    def take(self, indices: Int64[Array, " m"]) -> "QueryMetrics":
        """All queries at some of the ks."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return QueryMetrics(**{name: a if name in _ALIKE else a[:, indices] for name, a in arrays.items()})


@dataclass(frozen=True)
class Metric:
    """One number of a receipt: its field, how to read it, and how it comes from the queries (an array over k).

    `per_query` is what it is for a query alone; None where that says nothing of its own.
    """

    name: str
    label: str
    unit: str
    direction: Direction
    best: float
    over_queries: Callable[[QueryMetrics], Float64[Array, " k"]]
    per_query: Callable[[QueryMetrics], Array] | None = None

    def over(self, queries: QueryMetrics, statistic: Statistic = "mean") -> Float64[Array, " k"]:
        """The metric at each k: the reference's mean, the worst query's, or the one that 95 % of them keep to.

        Percentiles interpolate linearly. Where a query alone says nothing, it is the mean whatever is asked for.
        """
        if statistic == "mean" or self.per_query is None:
            return self.over_queries(queries)
        values = self.per_query(queries).astype(np.float64)
        if self.direction == "closer to 0 is better":
            values = np.abs(values)
        higher = self.direction == "higher is better"
        if statistic == "worst":
            return values.min(axis=0) if higher else values.max(axis=0)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.percentile(values, 5.0 if higher else 95.0, axis=0)


def _mean(per_query: Array) -> Float64[Array, " k"]:
    """Mean over the queries, added in their order: np.mean adds in another one where there is a single k."""
    return sum_in_order(per_query.T.astype(np.float64)) / len(per_query)


def _ppl_exact(queries: QueryMetrics) -> Float64[Array, " k"]:
    return np.broadcast_to(np.exp(_mean(queries.nll_exact)), queries.cosine.shape[1:])


def _ppl_compressed(queries: QueryMetrics) -> Float64[Array, " k"]:
    return np.exp(_mean(queries.nll_compressed))


def _decode_reduction(queries: QueryMetrics) -> Float64[Array, " k"]:
    return queries.rows.sum() / np.maximum(queries.decoded_values.sum(axis=0), 1)


def _averaged(
    name: str, label: str, unit: str, direction: Direction, best: float, per_query: Callable[[QueryMetrics], Array]
) -> Metric:
    return Metric(name, label, unit, direction, best, lambda queries: _mean(per_query(queries)), per_query)


METRICS = (
    _averaged("output_cosine_mean", "Output cosine", "", "higher is better", 1.0, lambda q: q.cosine),
    _averaged("output_mse_mean", "Output MSE", "", "lower is better", 0.0, lambda q: q.mse),
    _averaged("kl_divergence_mean", "KL divergence", "nats", "lower is better", 0.0, lambda q: q.kl),
    _averaged("top1_agreement", "Top-1 agreement", "", "higher is better", 1.0, lambda q: q.top1_same),
    Metric("ppl_proxy_exact", "PPL proxy, exact", "", "lower is better", 1.0, _ppl_exact),
    Metric("ppl_proxy_compressed", "PPL proxy, compressed", "", "lower is better", 1.0, _ppl_compressed),
    Metric(
        "ppl_proxy_delta",
        "PPL delta",
        "",
        "closer to 0 is better",
        0.0,
        lambda q: _ppl_compressed(q) - _ppl_exact(q),
        lambda q: np.exp(q.nll_compressed) - np.exp(q.nll_exact),
    ),
    Metric("decode_reduction", "Decode reduction", "x", "higher is better", np.inf, _decode_reduction),
)


def cosine(exact: Float32[Array, " d"], outputs: Float32[Array, "k d"]) -> Float64[Array, " k"]:
    """Cosine of the angle between the exact output and each replayed one; 0 where either has no length."""
    a, b = exact.astype(np.float64), outputs.astype(np.float64)
    norm_a, norm_b = np.sqrt(sum_in_order(a * a)), np.sqrt(sum_in_order(b * b))
    defined = (norm_a > _EPSILON) & ~(norm_b <= _EPSILON)
    ratio = sum_in_order(b * a) / np.where(defined, norm_a * norm_b, 1.0)
    # Rounding may leave the last digit outside, where a gate that is switched off at -1 would fail.
    return np.where(defined, np.clip(ratio, -1.0, 1.0), 0.0)


def mse(exact: Float32[Array, " d"], outputs: Float32[Array, "k d"]) -> Float64[Array, " k"]:
    """Mean squared difference between the exact output and each replayed one."""
    return sum_in_order((exact.astype(np.float64) - outputs.astype(np.float64)) ** 2) / len(exact)


def kl_divergence(p: Float64[Array, " v"], q: Float64[Array, "k v"]) -> Float64[Array, " k"]:
    """KL(p || q) in nats; q is floored at 1e-12, entries of p that are 0 add nothing."""
    held = p > 0.0
    if not held.all():
        p, q = p[held], q[:, held]
    terms = np.maximum(q, PROBABILITY_FLOOR)
    np.divide(p, terms, out=terms)
    np.log(terms, out=terms)
    np.multiply(p, terms, out=terms)
    return sum_in_order(terms)


def nll(probabilities: Float64[Array, "k v"], label: int) -> Float64[Array, " k"]:
    """Negative log-likelihood of the label, in nats; the probability is floored at 1e-12."""
    return -np.log(np.maximum(probabilities[:, label], PROBABILITY_FLOOR))


def argmax_last(logits: Float32[Array, "k v"]) -> Int64[Array, " k"]:
    """Index of the largest entry; the last one wins a tie, as in the reference."""
    return logits.shape[1] - 1 - np.argmax(logits[:, ::-1], axis=1)
