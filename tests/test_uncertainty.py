"""Bootstrap intervals: the same each time, a point where nothing varies, and about as wide as they claim to be."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polykv_core import (
    GATES,
    RESAMPLES,
    STATISTICS,
    CapturedReplayConfig,
    Interval,
    QueryMetrics,
    intervals,
    verdicts,
)
from polykv_core.gates import candidate_of

NAMES = [gate.metric for gate in GATES]
RESAMPLED = ("mean", "p95")


def queries_of(**columns):
    """Queries with these numbers at one k; what is not given is that of a perfect replay."""
    count = len(next(iter(columns.values())))
    perfect = {"cosine": 1.0, "mse": 0.0, "kl": 0.0, "nll_exact": 0.5, "nll_compressed": 0.5, "top1_same": True}
    arrays = {name: np.asarray(columns.get(name, [value] * count))[:, None] for name, value in perfect.items()}
    return QueryMetrics(**arrays, decoded_values=np.full((count, 1), 8), rows=np.full(count, 24))


def drawn(count, draw=0):
    """Queries that differ in every metric."""
    random = np.random.default_rng(draw)
    return queries_of(
        cosine=random.uniform(0.5, 1.0, count),
        mse=random.exponential(1.0, count),
        kl=random.exponential(0.3, count),
        nll_exact=random.exponential(1.0, count),
        nll_compressed=random.exponential(1.5, count),
        top1_same=random.random(count) < 0.7,
    )


@pytest.mark.parametrize("statistic", RESAMPLED)
def test_the_same_queries_give_the_same_intervals(statistic):
    """Each time, for every gated metric, in the gates' order; other queries give others."""
    first, second, other = (intervals(drawn(12, draw), statistic) for draw in (0, 0, 1))
    assert list(first) == NAMES
    assert first == second
    assert all(first[name] != other[name] for name in ("output_mse_mean", "kl_divergence_mean", "ppl_proxy_delta"))


@pytest.mark.parametrize("statistic", RESAMPLED)
def test_a_single_query_has_no_interval(statistic):
    """There is nothing to resample; two are enough."""
    assert intervals(drawn(1), statistic) == {}
    assert list(intervals(drawn(2), statistic)) == NAMES


@pytest.mark.parametrize("statistic", RESAMPLED)
@given(count=st.integers(2, 20), value=st.floats(0.01, 3.0))
def test_queries_that_are_all_alike_give_points(statistic, count, value):
    """Whatever is drawn is the same again."""
    alike = queries_of(**{name: [value] * count for name in ("cosine", "mse", "kl", "nll_exact", "nll_compressed")})
    assert all(interval.low == interval.high for interval in intervals(alike, statistic).values())
    assert intervals(alike, statistic)["output_mse_mean"].low == pytest.approx(value, rel=1e-12)


@given(draw=st.integers(0, 999), count=st.integers(2, 40), statistic=st.sampled_from(RESAMPLED))
def test_an_interval_stays_within_the_queries(draw, count, statistic):
    """No resample has a mean or a p95 below the least or above the largest; low is no higher than high."""
    queries = drawn(count, draw)
    found = intervals(queries, statistic)
    for name, values in (("output_cosine_mean", queries.cosine), ("output_mse_mean", queries.mse)):
        slack = 1e-12 * values.max()
        assert values.min() - slack <= found[name].low <= found[name].high <= values.max() + slack


@pytest.mark.parametrize("count", [20, 60])
def test_an_interval_covers_the_mean_as_often_as_it_claims(count):
    """Of 300 sets of normal numbers around 5 about 95 % have 5 in their interval, a little less where they are few."""
    random = np.random.default_rng(count)
    found = [intervals(queries_of(mse=random.normal(5.0, 1.0, count)))["output_mse_mean"] for _ in range(300)]
    covered = np.mean([interval.low <= 5.0 <= interval.high for interval in found])
    assert 0.87 <= covered <= 0.985
    width = np.mean([interval.high - interval.low for interval in found])
    assert width == pytest.approx(2 * 1.96 / math.sqrt(count), rel=0.08)


def resampled(values, statistic):
    """The statistic of sets drawn from some values, larger being worse: by another generator, one set at a time."""
    random = np.random.default_rng(1)
    sets = (random.choice(values, len(values)) for _ in range(RESAMPLES))
    of_set = {"mean": np.mean, "p95": lambda drawn: np.percentile(drawn, 95.0)}[statistic]
    return np.percentile([of_set(drawn) for drawn in sets], [2.5, 97.5])


@pytest.mark.parametrize("statistic", RESAMPLED)
def test_an_interval_is_that_of_a_plain_bootstrap(statistic):
    """Of the mean and of what 95 % keep to: as other draws have it, up to the noise of drawing."""
    queries = drawn(30)
    found = intervals(queries, statistic)
    for name, worse in (("output_mse_mean", queries.mse), ("output_cosine_mean", -queries.cosine)):
        low, high = resampled(worse[:, 0], statistic)
        expected = (low, high) if name == "output_mse_mean" else (-high, -low)
        noise = 0.15 * np.ptp(worse) if statistic == "p95" else 0.08 * worse.std()
        assert (found[name].low, found[name].high) == pytest.approx(expected, abs=noise)


def test_the_worst_query_has_no_interval():
    """Drawing from the queries there are never shows a worse one, so it would always look certain on that side."""
    assert intervals(drawn(10), "worst") == {}


def test_a_perplexity_delta_is_looked_at_as_its_gate_does():
    """By its distance from 0: exact and replayed losses stay together when queries are drawn."""
    nll = np.linspace(0.1, 2.0, 20)
    for sign in (1.0, -1.0):
        found = intervals(queries_of(nll_exact=nll, nll_compressed=nll + sign * 0.1))["ppl_proxy_delta"]
        exact = math.exp(nll.mean())
        assert 0.0 < found.low < abs(math.exp(sign * 0.1) - 1.0) * exact < found.high
        assert found.high < 2.0 * found.low
    same = intervals(queries_of(nll_exact=nll, nll_compressed=nll))["ppl_proxy_delta"]
    assert (same.low, same.high) == (0.0, 0.0)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_metric_that_is_not_finite_has_no_interval(bad, statistic):
    """In one query of twenty; the other metrics keep theirs."""
    queries = drawn(20)
    queries.mse[3, 0] = bad
    found, whole = intervals(queries, statistic), intervals(drawn(20), statistic)
    assert found == {name: interval for name, interval in whole.items() if name != "output_mse_mean"}


@pytest.mark.parametrize(
    ("low", "high", "straddles"),
    [
        (0.8, 0.9, False),
        (0.6, 0.7, False),
        (0.7, 0.8, True),
        (0.75, 0.8, False),
        (0.7, 0.75, True),
        (0.75, 0.75, False),
    ],
)
def test_an_interval_straddles_a_gate_inside_it(low, high, straddles):
    """A cosine of 0.75 passes, all below it fails; as an MSE, from the other side, equality passes as well."""
    cosine, mse, *_ = verdicts(candidate_of(drawn(5), 0, 8), CapturedReplayConfig((8,), max_output_mse=0.75))
    assert cosine.threshold == mse.threshold == 0.75
    assert Interval(low, high).straddles(cosine) == straddles
    assert Interval(1.5 - high, 1.5 - low).straddles(mse) == straddles


@given(draw=st.integers(0, 99), threshold=st.floats(0.0, 2.0))
def test_an_interval_straddles_only_where_the_gate_lies_inside(draw, threshold):
    """For every gate: the threshold is between the ends, of which the one on the passing side may equal it."""
    queries = drawn(8, draw)
    found = intervals(queries)
    config = CapturedReplayConfig((8,), **{gate.threshold: threshold for gate in GATES})
    for verdict in verdicts(candidate_of(queries, 0, 8), config):
        low, high = found[verdict.gate.metric].low, found[verdict.gate.metric].high
        inside = low < threshold <= high if verdict.gate.side == "min" else low <= threshold < high
        assert found[verdict.gate.metric].straddles(verdict) == inside
