"""Scores under the microscope: every number against plain sums, scipy's Spearman, and rows made by hand."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from polykv_core import QueryRows
from polykv_core.scores import score_report

# Few values, so that there are ties; eighths, so that sums are exact.
eighths = st.integers(-16, 16).map(lambda number: number / 8.0)
tiers_of_scores = st.lists(st.tuples(eighths, eighths), min_size=1, max_size=9)
queries_of_scores = st.lists(st.tuples(tiers_of_scores, tiers_of_scores), min_size=1, max_size=4)


def rows_of(pool, shell, *, read=(0,)):
    """A query's rows from (exact score, compressed score) of each row of both tiers, with the weights they give."""
    exact, coded = (np.array(column, np.float32) for column in zip(*pool, *shell, strict=True))
    return QueryRows(len(pool), exact, coded, softmax(exact), softmax(coded), np.isin(np.arange(len(exact)), read))


def softmax(scores):
    """Weights in float64."""
    weights = np.exp(scores.astype(np.float64) - scores.max())
    return weights / weights.sum()


def weighed(exact, coded, *, shared=2, read=(0,)):
    """A query's rows with these weights, and scores that are their logarithms."""
    exact, coded = np.array(exact), np.array(coded)
    scores = (np.log(weights).astype(np.float32) for weights in (exact, coded))
    return QueryRows(shared, *scores, exact, coded, np.isin(np.arange(len(exact)), read))


def mean(numbers):
    """The mean."""
    return math.fsum(numbers) / len(numbers)


def deviation(numbers):
    """The root of the mean square of the distances from the mean."""
    return math.sqrt(mean([(number - mean(numbers)) ** 2 for number in numbers]))


def errors(tier):
    """Compressed score less exact score, row by row."""
    return [coded - exact for exact, coded in tier]


def varies(tier):
    """Whether neither score is the same in all rows."""
    return all(len(set(column)) > 1 for column in zip(*tier, strict=True))


@given(queries=queries_of_scores)
def test_bias_spread_and_deviation_are_those_of_plain_sums(queries):
    """Of each tier for each query, then the mean over the queries."""
    report = score_report([rows_of(*tiers) for tiers in queries])
    assert [tier.tier for tier in report.tiers] == ["pool", "shell"]
    for found, tiers in zip(report.tiers, zip(*queries, strict=True), strict=True):
        assert found.bias == pytest.approx(mean([mean(errors(tier)) for tier in tiers]), abs=1e-12)
        assert found.spread == pytest.approx(mean([deviation(errors(tier)) for tier in tiers]), abs=1e-12)
        exact = [deviation([exact for exact, _ in tier]) for tier in tiers]
        assert found.deviation == pytest.approx(mean(exact), abs=1e-12)
    every = [deviation([exact for tier in tiers for exact, _ in tier]) for tiers in queries]
    assert report.deviation == pytest.approx(mean(every), abs=1e-12)


@given(queries=queries_of_scores)
def test_the_rank_correlation_is_spearman_s(queries):
    """Ties share their mean rank; a query whose scores are all equal, on either side, has none and is left out."""
    report = score_report([rows_of(*tiers) for tiers in queries])
    for found, tiers in zip(report.tiers, zip(*queries, strict=True), strict=True):
        expected = [spearmanr(*zip(*tier, strict=True)).statistic for tier in tiers if varies(tier)]
        if expected:
            assert found.rank_correlation == pytest.approx(mean(expected), abs=1e-12)
        else:
            assert found.rank_correlation is None


@pytest.mark.parametrize("constant", [0, 1], ids=["exact", "compressed"])
def test_constant_scores_have_no_rank_correlation(constant):
    """Nor has a tier of one row; the other tier keeps its own."""
    pool = [(0.0, 1.0), (1.0, 2.0), (2.0, 4.0)]
    flat = [tuple(3.0 if side == constant else score for side, score in enumerate(row)) for row in pool]
    for shell in (flat, [(1.0, 2.0)]):
        first, second = score_report([rows_of(pool, shell)]).tiers
        assert (first.rank_correlation, second.rank_correlation) == (pytest.approx(1.0), None)


@given(tier=st.lists(st.tuples(eighths, eighths), min_size=2, max_size=9))
def test_the_rank_correlation_sees_the_order_alone(tier):
    """Any increasing function of the compressed scores leaves it, and a decreasing one turns its sign."""
    assume(varies(tier))

    def correlation(function):
        return score_report([rows_of([(e, function(c)) for e, c in tier], tier)]).tiers[0].rank_correlation

    assert correlation(lambda score: score**3) == correlation(lambda score: score)
    assert correlation(lambda score: -score) == pytest.approx(-correlation(lambda score: score), abs=1e-12)


@given(queries=queries_of_scores, constant=eighths, raised=st.sampled_from(["pool", "shell"]))
def test_a_constant_on_one_tier_is_the_tier_bias(queries, constant, raised):
    """Exactly: compressed scores that are exact but for it, whatever the rows; for the shell with the sign turned."""

    def compressed(tier, name):
        return [(exact, exact + (constant if name == raised else 0.0)) for exact, _ in tier]

    report = score_report([rows_of(compressed(pool, "pool"), compressed(shell, "shell")) for pool, shell in queries])
    assert report.tier_bias == (constant if raised == "pool" else -constant)
    assert [tier.bias for tier in report.tiers] == [constant if tier.tier == raised else 0.0 for tier in report.tiers]
    assert [tier.spread for tier in report.tiers] == [0.0, 0.0]


@given(queries=queries_of_scores, constant=eighths)
def test_a_constant_on_both_tiers_moves_no_weight(queries, constant):
    """Softmax does not see it: no tier bias, nothing misplaced, nothing moved to the pool."""
    shifted = [[[(exact, exact + constant) for exact, _ in tier] for tier in tiers] for tiers in queries]
    report = score_report([rows_of(*tiers) for tiers in shifted])
    assert report.tier_bias == 0.0
    assert (report.misplaced, report.mass_to_pool) == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.0, abs=1e-12))


def test_the_pool_s_rows_come_first():
    """Of five rows with two shared, the pool has the first two and the shell the other three."""
    rows = weighed([0.2] * 5, [0.2] * 5)
    assert np.arange(5)[rows.of("pool")].tolist() == [0, 1]
    assert np.arange(5)[rows.of("shell")].tolist() == [2, 3, 4]


def test_the_mass_read_is_the_exact_weight_on_the_rows_read():
    """Rows 1 and 3 hold 0.5 of it, whatever they hold after compression."""
    assert weighed([0.1, 0.2, 0.4, 0.3], [0.7, 0.1, 0.1, 0.1], read=(1, 3)).mass_read == pytest.approx(0.5)


def test_weight_moves_to_the_pool_or_from_it():
    """The pool's share goes from 0.3 to 0.8; the other way round, the sign turns."""
    before, after = [0.1, 0.2, 0.4, 0.3], [0.7, 0.1, 0.1, 0.1]
    assert weighed(before, after).mass_to_pool == pytest.approx(0.5)
    assert weighed(after, before).mass_to_pool == pytest.approx(-0.5)


def test_misplaced_is_the_weight_that_lands_elsewhere():
    """0.6 arrives on row 0, and as much is gone from the others; all of it where no row keeps any."""
    assert weighed([0.1, 0.2, 0.4, 0.3], [0.7, 0.1, 0.1, 0.1]).misplaced == pytest.approx(0.6)
    swapped = QueryRows(1, *np.zeros((2, 2), np.float32), np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.ones(2, bool))
    assert swapped.misplaced == 1.0


@pytest.mark.parametrize(
    ("read", "overlap"), [((0,), 0.0), ((2,), 1.0), ((2, 3), 1.0), ((0, 2), 0.5), ((0, 1, 2), 2 / 3), (range(4), 1.0)]
)
def test_the_overlap_is_the_share_of_rows_that_exact_scores_read_too(read, overlap):
    """By exact score the order is 2, 3, 1, 0, and as many count as were read."""
    assert weighed([0.1, 0.2, 0.4, 0.3], [0.25] * 4, read=read).overlap == pytest.approx(overlap)


def test_of_equal_exact_scores_the_lower_row_counts():
    """As in the ranking itself: of four equal rows, 0 is the best."""
    assert [weighed([0.25] * 4, [0.25] * 4, read=(row,)).overlap for row in range(4)] == [1.0, 0.0, 0.0, 0.0]


def test_a_report_is_the_mean_over_the_queries():
    """Overlap, weight read, weight moved and weight misplaced of two queries that differ in all of them."""
    queries = [
        weighed([0.1, 0.2, 0.4, 0.3], [0.7, 0.1, 0.1, 0.1], read=(1, 3)),
        weighed([0.6, 0.2, 0.1, 0.1], [0.3, 0.2, 0.1, 0.4], read=(0, 1)),
    ]
    report = score_report(queries)
    for name in ("overlap", "mass_read", "mass_to_pool", "misplaced"):
        first, second = (getattr(rows, name) for rows in queries)
        assert first != second
        assert getattr(report, name) == pytest.approx((first + second) / 2.0)


@pytest.mark.parametrize("side", ["exact_scores", "coded_scores"])
def test_infinite_scores_are_reported_without_a_warning(side):
    """Products that overflow float32 on either side give numbers that are not finite; the other tier has its own."""
    rows = rows_of([(0.0, 1.0), (1.0, 2.0)], [(1.0, 1.0), (0.0, 0.5)])
    getattr(rows, side)[3] = np.inf
    pool, shell = score_report([rows]).tiers
    assert (pool.bias, abs(shell.bias)) == (1.0, np.inf)
