"""Scores under the microscope: what compression does to each row's score, and to the weight that follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from polykv_core.arrays import Array, Bool, Float32, Float64
from polykv_core.attention import best_first

Tier = Literal["pool", "shell"]
TIERS: tuple[Tier, ...] = ("pool", "shell")


@dataclass(frozen=True, eq=False)
class QueryRows:
    """One query's rows, in the fixture's order: scores and weights, exact and compressed, and which rows were read.

    Scores carry the replay's scale. Weights are each score's share over all rows, whether read or not.
    """

    shared_tokens: int
    exact_scores: Float32[Array, " t"]
    coded_scores: Float32[Array, " t"]
    exact_weights: Float64[Array, " t"]
    coded_weights: Float64[Array, " t"]
    read: Bool[Array, " t"]

    def of(self, tier: Tier) -> slice:
        """The rows of a tier."""
        return slice(0, self.shared_tokens) if tier == "pool" else slice(self.shared_tokens, None)

    @property
    def mass_read(self) -> float:
        """The share of the exact weight that the rows read hold."""
        return float(self.exact_weights[self.read].sum())

    @property
    def mass_to_pool(self) -> float:
        """How much weight compression moves from the shell to the pool; negative the other way."""
        pool = self.of("pool")
        return float(self.coded_weights[pool].sum() - self.exact_weights[pool].sum())

    @property
    def misplaced(self) -> float:
        """How much weight compression moves from one row to another."""
        return float(np.abs(self.coded_weights - self.exact_weights).sum()) / 2.0

    @property
    def overlap(self) -> float:
        """The share of the rows read that are also among the best by exact score."""
        count = int(self.read.sum())
        return float(self.read[best_first(self.exact_scores)[:count]].mean())


@dataclass(frozen=True)
class TierScores:
    """How a tier's compressed scores compare with the exact ones; means over the queries.

    `bias`: mean of compressed - exact. `spread`: standard deviation of that difference. `deviation`: standard deviation
    of the exact scores. `rank_correlation`: Spearman's; None where one side is constant in every query.
    """

    tier: Tier
    bias: float
    spread: float
    deviation: float
    rank_correlation: float | None


@dataclass(frozen=True)
class ScoreReport:
    """Both tiers, and what the errors of the scores do to selection and weight; means over the queries.

    `tier_bias`: by how much the pool's scores are raised against the shell's; to hold it against, `deviation`: the
    standard deviation of all exact scores of a query. `overlap`: share of the rows read that exact scores would read
    too. `mass_read`: exact weight on the rows read. `mass_to_pool`: weight moved from shell to pool. `misplaced`:
    weight that lands on other rows than it should, over all rows.
    """

    tiers: tuple[TierScores, ...]
    tier_bias: float
    deviation: float
    overlap: float
    mass_read: float
    mass_to_pool: float
    misplaced: float


@np.errstate(invalid="ignore", over="ignore")
def score_report(queries: Sequence[QueryRows]) -> ScoreReport:
    """Compare the scores of all queries, tier by tier; scores that are not finite give numbers that are not."""
    tiers = tuple(_tier_scores(queries, tier) for tier in TIERS)
    return ScoreReport(
        tiers=tiers,
        tier_bias=tiers[0].bias - tiers[1].bias,
        deviation=_mean([float(rows.exact_scores.astype(np.float64).std()) for rows in queries]),
        overlap=_mean([rows.overlap for rows in queries]),
        mass_read=_mean([rows.mass_read for rows in queries]),
        mass_to_pool=_mean([rows.mass_to_pool for rows in queries]),
        misplaced=_mean([rows.misplaced for rows in queries]),
    )


def _tier_scores(queries: Sequence[QueryRows], tier: Tier) -> TierScores:
    exact = [rows.exact_scores[rows.of(tier)].astype(np.float64) for rows in queries]
    coded = [rows.coded_scores[rows.of(tier)].astype(np.float64) for rows in queries]
    errors = [c - e for c, e in zip(coded, exact, strict=True)]
    found = [_rank_correlation(e, c) for e, c in zip(exact, coded, strict=True)]
    correlations = [value for value in found if value is not None]
    return TierScores(
        tier,
        bias=_mean([float(error.mean()) for error in errors]),
        spread=_mean([float(error.std()) for error in errors]),
        deviation=_mean([float(scores.std()) for scores in exact]),
        rank_correlation=_mean(correlations) if correlations else None,
    )


def _rank_correlation(a: Float64[Array, " t"], b: Float64[Array, " t"]) -> float | None:
    ranks = [_ranks(scores) for scores in (a, b)]
    centred = [rank - rank.mean() for rank in ranks]
    lengths = [float(np.sqrt((rank**2).sum())) for rank in centred]
    if not all(lengths):
        return None
    return float((centred[0] * centred[1]).sum() / (lengths[0] * lengths[1]))


def _ranks(scores: Float64[Array, " t"]) -> Float64[Array, " t"]:
    """Ranks from the lowest; those of equal scores are their mean."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[places]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
