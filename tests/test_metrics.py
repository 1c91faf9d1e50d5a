"""The metrics, by their properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from polykv_core import METRICS, STATISTICS
from polykv_core.metrics import QueryMetrics, argmax_last, cosine, kl_divergence, mse, nll

entries = st.floats(-100.0, 100.0, width=32)
vectors = arrays(np.float32, 6, elements=entries)
outputs = arrays(np.float32, (3, 6), elements=entries)
logits = arrays(np.float64, 5, elements=st.floats(-40.0, 5.0))


def distribution(numbers):
    """Probabilities of logits."""
    weights = np.exp(numbers - numbers.max())
    return weights / weights.sum()


@given(exact=vectors, replayed=outputs)
def test_a_cosine_lies_between_minus_one_and_one(exact, replayed):
    """Up to rounding."""
    assert (np.abs(cosine(exact, replayed)) <= 1.0 + 1e-12).all()


@given(exact=vectors, replayed=outputs, power=st.integers(-10, 10))
def test_a_cosine_does_not_see_lengths(exact, replayed, power):
    """Scaling either side changes nothing; turning one around changes the sign."""
    factor = np.float32(2.0**power)
    tiny = (np.linalg.norm(exact) < 1e-10) | (np.linalg.norm(replayed, axis=1) < 1e-10)
    found = cosine(exact, replayed)[~tiny]
    np.testing.assert_allclose(cosine(exact * factor, replayed)[~tiny], found, rtol=0, atol=1e-12)
    np.testing.assert_allclose(cosine(exact, replayed * factor)[~tiny], found, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(cosine(exact, -replayed)[~tiny], -found)


@given(exact=vectors)
def test_a_cosine_with_itself_is_one_unless_there_is_no_length(exact):
    """And 0 where there is none."""
    expected = 1.0 if np.linalg.norm(exact.astype(np.float64)) > 2.3e-16 else 0.0
    if not 2.1e-16 < np.linalg.norm(exact.astype(np.float64)) < 2.3e-16:
        assert cosine(exact, exact[None])[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("length", [0.0, 2.0e-16])
def test_a_cosine_with_a_vector_of_no_length_is_zero(length):
    """On either side; 2.2e-16 is where length begins."""
    none, some = np.array([length, 0.0], np.float32), np.array([1.0, 0.0], np.float32)
    barely = np.array([2.3e-16, 0.0], np.float32)
    assert cosine(none, some[None]).tolist() == [0.0]
    assert cosine(some, none[None]).tolist() == [0.0]
    assert cosine(barely, barely[None]).tolist() == [1.0]


def test_a_cosine_with_an_undefined_output_is_undefined():
    """NaN is not taken for a vector of no length."""
    replayed = np.array([[np.nan, 1.0], [1.0, 1.0]], np.float32)
    found = cosine(np.ones(2, np.float32), replayed)
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(1.0)


@given(a=vectors, b=vectors)
def test_the_squared_error_is_symmetric_and_zero_only_for_equals(a, b):
    """A mean of squares over dims."""
    assert mse(a, b[None])[0] == mse(b, a[None])[0]
    assert mse(a, b[None])[0] == pytest.approx(
        sum((x - y) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True)) / 6
    )
    assert mse(a, a[None])[0] == 0.0


@given(p=logits, q=logits)
def test_the_divergence_is_not_negative_and_zero_for_equals(p, q):
    """Gibbs' inequality, up to rounding and the floor of 1e-12 that q is held to."""
    p, q = distribution(p), distribution(q)
    assert kl_divergence(p, q[None])[0] >= -1e-9
    assert abs(kl_divergence(p, p[None])[0]) <= 1e-9


def test_the_divergence_s_floor_and_zeros():
    """Entries of p that are 0 add nothing; a q of 0 counts as 1e-12."""
    p = np.array([0.0, 1.0])
    assert kl_divergence(p, np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])).tolist() == pytest.approx(
        [math.log(1e12), math.log(2.0), 0.0]
    )


def test_the_loss_is_the_label_s_with_a_floor():
    """-ln of the label's probability, at most that of 1e-12."""
    probabilities = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert nll(probabilities, 0).tolist() == pytest.approx([math.log(4.0), 0.0])
    assert nll(probabilities, 1).tolist() == pytest.approx([-math.log(0.75), math.log(1e12)])


@given(rows=arrays(np.float32, (4, 5), elements=st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0])))
def test_the_last_of_equal_largest_entries_wins(rows):
    """As the reference's max_by does; zeros of either sign are equal."""
    expected = [max(range(5), key=lambda index: (row[index], index)) for row in rows.tolist()]
    assert argmax_last(rows).tolist() == expected


def queries(**arrays_of):
    """Two queries at three ks."""
    shape = (2, 3)
    fields = {
        "cosine": np.full(shape, 0.5),
        "mse": np.full(shape, 0.1),
        "kl": np.full(shape, 0.2),
        "nll_exact": np.array([[0.0], [1.0]]),
        "nll_compressed": np.full(shape, 1.0),
        "top1_same": np.array([[True, False, True], [True, False, False]]),
        "decoded_values": np.array([[1, 2, 3], [1, 2, 4]]),
        "rows": np.array([3, 5]),
    }
    return QueryMetrics(**{**fields, **arrays_of})


OVER = {metric.name: metric.over_queries for metric in METRICS}


def test_metrics_are_means_over_queries():
    """Of cosine, MSE, KL and top-1 agreement, at every k."""
    random = np.random.default_rng(0).random((2, 3))
    found = queries(cosine=random, mse=random + 1, kl=random + 2)
    np.testing.assert_allclose(OVER["output_cosine_mean"](found), random.mean(axis=0))
    np.testing.assert_allclose(OVER["output_mse_mean"](found), random.mean(axis=0) + 1)
    np.testing.assert_allclose(OVER["kl_divergence_mean"](found), random.mean(axis=0) + 2)
    assert OVER["top1_agreement"](found).tolist() == [1.0, 0.0, 0.5]


def test_perplexities_are_exponentials_of_mean_losses():
    """The exponential of the mean, not the mean of exps; the delta is compressed less exact, with its sign."""
    found = queries(nll_compressed=np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]) / 4)
    np.testing.assert_allclose(OVER["ppl_proxy_exact"](found), [math.exp(0.5)] * 3)
    np.testing.assert_allclose(OVER["ppl_proxy_compressed"](found), [math.exp(0.25)] * 3)
    np.testing.assert_allclose(OVER["ppl_proxy_delta"](found), [math.exp(0.25) - math.exp(0.5)] * 3)


def test_the_decode_reduction_is_all_rows_over_the_rows_read():
    """8 rows there are; 2, 4 and 7 were read. Nothing read counts as one."""
    assert OVER["decode_reduction"](queries()).tolist() == [4.0, 2.0, 8 / 7]
    assert OVER["decode_reduction"](queries(decoded_values=np.zeros((2, 3), np.int64))).tolist() == [8.0] * 3


PERFECT = {
    "cosine": np.ones((2, 3)),
    "mse": np.zeros((2, 3)),
    "kl": np.zeros((2, 3)),
    "top1_same": np.ones((2, 3), bool),
}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_s_best_value_agrees_with_its_direction(metric):
    """No value a perfect or any other replay gives is better than `best`, in the direction the metric declares."""
    lossless = queries(**PERFECT, nll_exact=np.zeros((2, 1)), nll_compressed=np.zeros((2, 3)))
    if metric.name != "decode_reduction":
        assert metric.over_queries(lossless).tolist() == [metric.best] * 3
    for value in metric.over_queries(queries()):
        match metric.direction:
            case "higher is better":
                assert value <= metric.best
            case "lower is better":
                assert value >= metric.best
            case "closer to 0 is better":
                assert metric.best == 0.0


def test_metrics_have_names_and_labels_of_their_own():
    """No two metrics share a name or a label."""
    assert len({metric.name for metric in METRICS}) == len({metric.label for metric in METRICS}) == len(METRICS)


def test_queries_join_in_order():
    """Joining parts keeps each query's numbers where they belong."""
    first, second = queries(), queries(cosine=np.full((2, 3), 0.9), rows=np.array([7, 8]))
    joined = QueryMetrics.joined([first, second])
    assert joined.rows.tolist() == [3, 5, 7, 8]
    assert joined.cosine[:, 0].tolist() == [0.5, 0.5, 0.9, 0.9]
    assert joined.top1_same.dtype == bool


def test_a_cosine_stays_within_its_bounds():
    """Rounding never takes it below -1, where a gate that is switched off stands."""
    outputs = np.random.default_rng(0).standard_normal((2000, 16)).astype(np.float32)
    opposite = np.array([cosine(output, -output[None])[0] for output in outputs])
    assert opposite.min() >= -1.0
    assert opposite.max() < -0.999999


numbers_of_queries = arrays(
    np.float64, st.tuples(st.integers(1, 45), st.integers(1, 3)), elements=st.floats(-1e6, 1e6, allow_subnormal=False)
)
DIRECTIONS = {
    "output_cosine_mean": "higher",
    "output_mse_mean": "lower",
    "kl_divergence_mean": "lower",
    "top1_agreement": "higher",
    "ppl_proxy_delta": "zero",
}
SUMMED = pytest.mark.parametrize("name", DIRECTIONS)
METRIC = {metric.name: metric for metric in METRICS}


def measured_as(name, values):
    """Queries whose own value of this metric is `values`, or near it where it is an exponential's; and that value."""
    count = len(values)
    counts = {"decoded_values": np.ones(values.shape, np.int64), "rows": np.ones(count, np.int64)}
    blank = dict.fromkeys(("cosine", "mse", "kl", "nll_compressed"), np.zeros(values.shape))
    blank |= {"top1_same": np.zeros(values.shape, bool), "nll_exact": np.zeros((count, 1))}
    field = {"output_cosine_mean": "cosine", "output_mse_mean": "mse", "kl_divergence_mean": "kl"}.get(name)
    if field:
        given = {field: values}
    elif name == "top1_agreement":
        values = values > 0.0
        given = {"top1_same": values}
    else:
        losses = np.abs(values) % 20.0
        given = {"nll_compressed": losses, "nll_exact": np.full((count, 1), 3.0)}
        values = np.exp(losses) - np.exp(3.0)
    return QueryMetrics(**{**blank, **counts, **given}), values.astype(np.float64)


def worst_first(name, column):
    """One k's values from the worst to the best, in Python's own floats; distances from 0 where that is the best."""
    sizes = [abs(value) for value in column.tolist()] if DIRECTIONS[name] == "zero" else column.tolist()
    return sorted(sizes, reverse=DIRECTIONS[name] != "higher")


@SUMMED
@given(values=numbers_of_queries)
def test_the_worst_is_the_worst_query_s_own_value(name, values):
    """The smallest where higher is better, the largest where lower is, the farthest where 0 is; at each k its own."""
    queries, values = measured_as(name, values)
    found = METRIC[name].over(queries, "worst")
    assert found.tolist() == [worst_first(name, column)[0] for column in values.T]


@SUMMED
@given(values=numbers_of_queries)
def test_the_p95_is_what_95_of_100_queries_keep_to(name, values):
    """Interpolated between the queries on either side of the last 5 %, counted from the worst end."""
    queries, values = measured_as(name, values)
    found = METRIC[name].over(queries, "p95").tolist()
    for value, column in zip(found, values.T, strict=True):
        ordered = worst_first(name, column)
        place = 0.05 * (len(ordered) - 1)
        before = min(int(place), len(ordered) - 1)
        after = min(before + 1, len(ordered) - 1)
        expected = ordered[before] + (ordered[after] - ordered[before]) * (place - before)
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-6 * max(map(abs, ordered)) + 1e-300)


@SUMMED
def test_a_percentile_is_read_off_21_queries(name):
    """With 21 of them exactly one is beyond: the p95 is the second worst, in the metric's own direction."""
    values = np.random.default_rng(0).permutation(np.arange(1.0, 22.0))[:, None] / 4.0
    queries, values = measured_as(name, values)
    expected = worst_first(name, values[:, 0])[1]
    assert METRIC[name].over(queries, "p95").tolist() == pytest.approx([expected], rel=1e-12)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
@given(values=numbers_of_queries)
def test_without_a_statistic_a_metric_is_the_reference_s(metric, values):
    """Bit for bit the mean, summed in the queries' order; asked for by name or not."""
    queries, _ = measured_as("ppl_proxy_delta", values)
    expected = metric.over_queries(queries)
    assert metric.over(queries).tobytes() == metric.over(queries, "mean").tobytes() == expected.tobytes()
    if metric.name == "top1_agreement" or metric.per_query is None or metric.name == "ppl_proxy_delta":
        return
    totals = [0.0] * values.shape[1]
    for row in metric.per_query(queries).tolist():
        totals = [total + value for total, value in zip(totals, row, strict=True)]
    assert expected.tolist() == [total / len(values) for total in totals]


@pytest.mark.parametrize("statistic", ["worst", "p95"])
def test_what_says_nothing_of_one_query_stays_as_it_is(statistic):
    """Both perplexities and the decode reduction; all others have a value for each query, and follow the statistic."""
    found = queries(nll_compressed=np.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    alone = {metric.name for metric in METRICS if metric.per_query is None}
    assert alone == {"ppl_proxy_exact", "ppl_proxy_compressed", "decode_reduction"}
    assert {metric.name for metric in METRICS} - alone == set(DIRECTIONS)
    for name in alone:
        np.testing.assert_array_equal(METRIC[name].over(found, statistic), METRIC[name].over(found))


@pytest.mark.parametrize("statistic", STATISTICS)
@SUMMED
@given(values=arrays(np.float64, (1, 3), elements=st.floats(-1e6, 1e6)))
def test_of_a_single_query_every_statistic_is_its_own_value(name, statistic, values):
    """But for the sign of what should be 0, where the worst is a distance."""
    queries, values = measured_as(name, values)
    found = METRIC[name].over(queries, statistic)
    np.testing.assert_allclose(np.abs(found), np.abs(values[0]), rtol=1e-12)
    if DIRECTIONS[name] != "zero":
        np.testing.assert_allclose(found, values[0], rtol=1e-12)


@SUMMED
@given(values=numbers_of_queries)
def test_no_statistic_is_better_than_a_stricter_one(name, values):
    """The worst is no better than the p95, and that no better than the best query."""
    queries, values = measured_as(name, values)
    worst, p95 = (METRIC[name].over(queries, statistic) for statistic in ("worst", "p95"))
    best = np.array([worst_first(name, column)[-1] for column in values.T])
    better = 1.0 if DIRECTIONS[name] == "higher" else -1.0
    slack = 1e-9 * np.abs(values).max()
    assert (better * worst <= better * p95 + slack).all()
    assert (better * p95 <= better * best + slack).all()


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("name", ["output_cosine_mean", "output_mse_mean", "kl_divergence_mean"])
def test_a_query_that_is_not_a_number_spoils_every_statistic(name, statistic):
    """It is never sorted away to where a percentile does not look; the other ks are as they were."""
    values = np.full((40, 2), 0.5)
    values[7, 0] = np.nan
    found = METRIC[name].over(measured_as(name, values)[0], statistic)
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(0.5)
