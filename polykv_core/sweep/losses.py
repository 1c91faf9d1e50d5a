"""What each step costs alone, at every candidate k in one pass: the part of `explain` that a map over heads shows.

The numbers are those of the stages `recomputed` and `alone` of an Explanation. That says all there is to say of one
head at one k; this codes a query's cache once and reads every k off it, so that no moved gate needs another replay.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from polykv_core.arrays import Array, Float32, Int64, sum_in_order
from polykv_core.attention import RankedRows, best_first, cache_scores, outputs_at, scaled
from polykv_core.explain import ALONE, stage
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.gates import CandidateReplayMetrics, candidate_of, measured_candidate
from polykv_core.measure import captured_cache, captured_exact
from polykv_core.measurement import CapturedMeasurement, compared
from polykv_core.metrics import QueryMetrics

# Exact attention at the replay's scale, and what each step costs beyond it.
BASE = "recomputed"
STEPS = (BASE, *ALONE)
_BASE, _KEYS, _VALUES, _FIRST_SELECTION = 0, 1, 2, 3


@dataclass(frozen=True)
class StepLosses:
    """A head's replay at one k with one step made as the replay makes it and all else exact, for each of STEPS.

    The first is exact attention itself: what it loses is the scale's and the projection's doing.
    """

    candidate_k: int
    metrics: Mapping[str, CandidateReplayMetrics]

    def loss(self, step: str) -> dict[str, float]:
        """What a step adds to the loss of each gated metric; of exact attention, all of it. Negative: it gives back."""
        base = None if step == BASE else self.metrics[BASE]
        return dict(stage(step, self.metrics[step], base).added)


def step_losses(fixture: CapturedReplayFixture, measurement: CapturedMeasurement) -> tuple[StepLosses, ...]:
    """The losses at each measured k, of the fixture that was measured. They are of the mean over the queries."""
    ks = measurement.candidate_ks
    # Beyond any number of rows there can be, larger makes no difference.
    counts = np.array([min(k, 2**62) for k in ks], dtype=np.int64)
    queries = QueryMetrics.joined(
        [_one_step_each(fixture, index, counts, measurement) for index in range(len(fixture.queries))]
    )

    def at(index: int, k: int) -> StepLosses:
        found = {
            BASE: candidate_of(queries, _BASE, k),
            "keys": candidate_of(queries, _KEYS, k),
            "values": candidate_of(queries, _VALUES, k),
            "selection": candidate_of(queries, _FIRST_SELECTION + index, k),
            "joint": measured_candidate(measurement.by("mean"), k),
        }
        return StepLosses(k, {step: found[step] for step in STEPS})

    return tuple(at(index, k) for index, k in enumerate(ks))


def _one_step_each(
    fixture: CapturedReplayFixture, index: int, ks: Int64[Array, " k"], measurement: CapturedMeasurement
) -> QueryMetrics:
    """One query's metrics with all exact, with coded keys, with coded values, and with the rows of each k."""
    query, options = fixture.queries[index], measurement.options
    scale, exact = options.scale(fixture.head_dim), captured_exact(fixture, index)
    pool, shell = captured_cache(fixture, index, options)
    coded_scores = cache_scores(pool, shell, 0, 0, query.query, options)
    coded_values = np.concatenate([tier.values(0, 0) for tier in (pool.tier, shell.tier)])
    with np.errstate(over="ignore", invalid="ignore"):
        exact_scores = sum_in_order(query.keys * query.query)
    every, best = np.arange(query.row_count), best_first(coded_scores)

    def step(scores: Float32[Array, " t"], values: Float32[Array, "t d"], rows: Int64[Array, " m"]) -> QueryMetrics:
        order = rows[best_first(scores[rows])]
        ranked = RankedRows(order, scaled(scores[order], scale), values[order], len(scores))
        return compared(outputs_at(ranked, np.array([len(order)])), np.array([len(order)]), query.row_count, exact)

    return QueryMetrics.side_by_side(
        [
            step(exact_scores, query.values, every),
            step(coded_scores, query.values, every),
            step(exact_scores, coded_values, every),
            *(step(exact_scores, query.values, best[:k]) for k in ks),
        ]
    )
