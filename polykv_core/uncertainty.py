"""How far a metric would move with other queries: percentile bootstrap intervals over the queries there are.

Source: Efron, "Bootstrap methods: another look at the jackknife", 1979. Seeded, so that the same replay gives the same
interval. A few queries make a rough interval, and one makes none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from polykv_core.arrays import Array, Float64
from polykv_core.gates import GATES, Gate, GateVerdict
from polykv_core.metrics import METRICS, QueryMetrics, Statistic

RESAMPLES = 1000
CONFIDENCE = 0.95
_SEED = 0x506F6C794B56


@dataclass(frozen=True)
class Interval:
    """Where a metric lies in 95 % of the resampled sets of queries."""

    low: float
    high: float

    def straddles(self, verdict: GateVerdict) -> bool:
        """Whether a gate would pass somewhere in the interval and fail elsewhere in it."""
        ends = [bool(verdict.gate.passes(end, verdict.threshold)) for end in (self.low, self.high)]
        return ends[0] != ends[1]


def intervals(queries: QueryMetrics, statistic: Statistic = "mean") -> Mapping[str, Interval]:
    """An interval for each gated metric, as its gate looks at it; `queries` holds one k.

    None for a single query, and none for the worst query: drawing from the queries there are never shows a worse one.
    """
    count = len(queries.rows)
    if count < 2 or statistic == "worst":
        return {}
    resampled = _resampled(queries)
    found = {}
    for gate in GATES:
        with np.errstate(invalid="ignore", over="ignore"):
            values = gated_over(gate, resampled, statistic)
        if np.isfinite(values).all():
            found[gate.metric] = _interval(values)
    return found


def paired_interval(
    before: QueryMetrics, after: QueryMetrics, gate: Gate, statistic: Statistic = "mean"
) -> Interval | None:
    """Where the difference of a gated metric, after less before, lies in 95 % of the resampled sets of queries.

    Both hold one k of the same queries. The same ones are drawn on both sides, so that what a query brings to both does
    not widen the interval. None for a single query, and for the worst query, as in intervals.
    """
    if len(before.rows) < 2 or statistic == "worst":
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        moved = gated_over(gate, _resampled(after), statistic) - gated_over(gate, _resampled(before), statistic)
    return _interval(moved) if np.isfinite(moved).all() else None


def gated_over(gate: Gate, queries: QueryMetrics, statistic: Statistic) -> Float64[Array, " k"]:
    """A gate's metric at each k, as the gate looks at it."""
    metric = next(metric for metric in METRICS if metric.name == gate.metric)
    return gate.gated(metric.over(queries, statistic))


def _interval(values: Float64[Array, " resamples"]) -> Interval:
    tail = 100.0 * (1.0 - CONFIDENCE) / 2.0
    low, high = np.percentile(values, [tail, 100.0 - tail])
    return Interval(float(low), float(high))


def _resampled(queries: QueryMetrics) -> QueryMetrics:
    """Sets of as many queries, drawn with replacement: the resamples stand where the ks were."""
    count = len(queries.rows)
    draws = np.random.default_rng(_SEED).integers(count, size=(count, RESAMPLES))
    taken = {field.name: getattr(queries, field.name) for field in fields(queries)}
    return QueryMetrics(**{name: a[:, 0][draws] if a.ndim == 2 else a for name, a in taken.items()})
