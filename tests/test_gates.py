"""Judging: which side of a threshold passes, what a failure is called, which k is selected."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import fixture_facts

from polykv_core import (
    GATES,
    METRICS,
    STATISTICS,
    CandidateReplayMetrics,
    CapturedMeasurement,
    CapturedReplayConfig,
    ConfigError,
    gates_off,
    judge,
    verdicts,
)
from polykv_core.metrics import QueryMetrics

BY_METRIC = {gate.metric: gate for gate in GATES}
GATED = ("output_cosine_mean", "output_mse_mean", "kl_divergence_mean", "ppl_proxy_delta", "top1_agreement")
PASSING = {
    "output_cosine_mean": 0.75,
    "output_mse_mean": 0.25,
    "kl_divergence_mean": 0.5,
    "ppl_proxy_delta": 1.0,
    "top1_agreement": 0.25,
}
CONFIG = CapturedReplayConfig((8,))


def candidate(**metrics):
    """A candidate whose metrics equal the default thresholds, but for those given."""
    rest = {"ppl_proxy_exact": 2.0, "ppl_proxy_compressed": 3.0, "decode_reduction": 2.0}
    counts = {"decoded_values_total": 8, "full_decode_value_count": 16}
    return CandidateReplayMetrics(candidate_k=8, **counts, **{**PASSING, **rest, **metrics})


def blockers(config=CONFIG, **metrics):
    """The failures of a candidate."""
    return [verdict.blocker for verdict in verdicts(candidate(**metrics), config) if not verdict.passed]


def measured(**by_k):
    """A measurement of one query at ks 1, 2, ... with the given metrics of it, and perfect ones otherwise."""
    count = len(next(iter(by_k.values())))
    columns = {"cosine": 1.0, "mse": 0.0, "kl": 0.0, "nll_compressed": 0.5}
    arrays = {name: np.array([by_k.get(name, [value] * count)], dtype=np.float64) for name, value in columns.items()}
    queries = QueryMetrics(
        **arrays,
        nll_exact=np.array([[0.5]]),
        top1_same=np.ones((1, count), dtype=bool),
        decoded_values=np.arange(1, count + 1)[None],
        rows=np.array([count + 8]),
    )
    return CapturedMeasurement(tuple(range(1, count + 1)), queries, "model", fixture_facts())


def test_the_gates_are_the_reference_s_five_in_its_order():
    """Cosine, MSE, KL, PPL delta, top-1; each metric exists, and each threshold is a field of the config."""
    assert tuple(gate.metric for gate in GATES) == GATED
    assert {gate.metric for gate in GATES} <= {metric.name for metric in METRICS}
    assert all(hasattr(CONFIG, gate.threshold) for gate in GATES)


def test_a_gate_s_side_is_its_metric_s_direction():
    """Where higher is better the threshold is a minimum, else a maximum; a metric that should be 0 is held by size."""
    directions = {metric.name: metric.direction for metric in METRICS}
    for gate in GATES:
        assert (gate.side == "min") == (directions[gate.metric] == "higher is better")
        assert gate.absolute == (directions[gate.metric] == "closer to 0 is better")
        assert gate.threshold.startswith(f"{gate.side}_")


def test_equality_passes():
    """A metric that equals its threshold passes, at every gate."""
    assert blockers() == []


@pytest.mark.parametrize("metric", GATED)
def test_one_step_beyond_a_threshold_fails(metric):
    """The next float on the wrong side fails that gate and no other; on the right side it passes."""
    lower = BY_METRIC[metric].side == "min"
    worse, better = (math.nextafter(PASSING[metric], end) for end in ((-9, 9) if lower else (9, -9)))
    assert [text.split()[0] for text in blockers(**{metric: worse})] == [BY_METRIC[metric].blocker_name]
    assert blockers(**{metric: better}) == []


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(value=finite, threshold=finite)
def test_every_gate_is_a_plain_comparison(value, threshold):
    """A minimum passes from the threshold up, a maximum up to it, the PPL delta by its absolute value."""
    for gate in GATES:
        config = CapturedReplayConfig((8,), **{gate.threshold: threshold})
        verdict = gate.check(candidate(**{gate.metric: value}), config)
        held = abs(value) if gate.absolute else value
        assert verdict.passed == (held >= threshold if gate.side == "min" else held <= threshold)
        assert verdict.value == held
        assert (verdict.margin >= 0) == verdict.passed


@pytest.mark.parametrize("delta", [1.5, -1.5])
def test_a_perplexity_that_moves_either_way_fails(delta):
    """The delta's gate looks at its size."""
    assert blockers(ppl_proxy_delta=delta) == ["abs(ppl_proxy_delta) 1.5000 > 1.0000"]


@pytest.mark.parametrize(("value", "text"), [(math.nan, "NaN"), (math.inf, "inf"), (-math.inf, "-inf")])
@pytest.mark.parametrize("metric", GATED)
def test_a_metric_that_is_not_finite_fails_its_gate(metric, value, text):
    """NaN, and infinity on the passing side as well; the blocker says so."""
    gate = BY_METRIC[metric]
    shown = text.removeprefix("-") if gate.absolute else text
    sign = "<" if gate.side == "min" else ">"
    assert blockers(**{metric: value}) == [f"{gate.blocker_name} {shown} {sign} {PASSING[metric]:.4f}"]


def test_blockers_are_worded_as_the_reference_words_them():
    """All five at once, in order, with four decimals."""
    worst = {"output_cosine_mean": -0.123456, "output_mse_mean": 12.34567, "kl_divergence_mean": 0.50006}
    assert blockers(**worst, ppl_proxy_delta=-1234.5, top1_agreement=0.0) == [
        "output_cosine_mean -0.1235 < 0.7500",
        "output_mse_mean 12.3457 > 0.2500",
        "kl_divergence_mean 0.5001 > 0.5000",
        "abs(ppl_proxy_delta) 1234.5000 > 1.0000",
        "top1_agreement 0.0000 < 0.2500",
    ]


def test_the_first_passing_k_in_the_order_listed_is_selected():
    """Not the smallest, not the best: the first of the list that passes."""
    measurement = measured(cosine=[0.1, 0.8, 0.9, 0.7])
    for ks, selected in (((1, 2, 3, 4), 2), ((4, 3, 2, 1), 3), ((1, 3), 3), ((2,), 2)):
        receipt = judge(measurement, CapturedReplayConfig(ks))
        assert (receipt.selected_candidate_k, receipt.passed, receipt.blockers) == (selected, True, ())
        assert [result.candidate_k for result in receipt.candidate_results] == list(ks)


def test_where_none_passes_the_last_listed_is_selected():
    """With its blockers and metrics."""
    receipt = judge(measured(cosine=[0.1, 0.3, 0.2]), CapturedReplayConfig((3, 1, 2)))
    assert (receipt.selected_candidate_k, receipt.passed) == (2, False)
    assert receipt.blockers == ("output_cosine_mean 0.3000 < 0.7500",)
    assert receipt.metrics.output_cosine_mean == 0.3


def test_repeated_ks_are_reported_as_often_as_asked():
    """Each mention has its row; the selected one is the first of them."""
    receipt = judge(measured(cosine=[0.1, 0.9]), CapturedReplayConfig((2, 1, 2)))
    assert [result.candidate_k for result in receipt.candidate_results] == [2, 1, 2]
    assert receipt.candidate_results[0] == receipt.candidate_results[2]
    assert receipt.selected_candidate_k == 2


def test_a_k_that_was_not_measured_is_refused():
    """Judging never measures; the message lists what there is."""
    with pytest.raises(ConfigError) as refused:
        judge(measured(cosine=[0.1, 0.9]), CapturedReplayConfig((2, 7)))
    assert str(refused.value) == "candidate k 7 was not measured; measured were 1, 2"


@given(low=st.floats(-1, 1), high=st.floats(-1, 1), cosines=st.lists(st.floats(-1, 1), min_size=1, max_size=5))
def test_a_stricter_gate_passes_no_more(low, high, cosines):
    """Raising a minimum never turns a failure into a pass, and changes no measured number."""
    low, high = sorted((low, high))
    ks = tuple(range(1, len(cosines) + 1))
    measurement = measured(cosine=cosines)
    lax, strict = (judge(measurement, CapturedReplayConfig(ks, min_output_cosine=gate)) for gate in (low, high))
    for easy, hard in zip(lax.candidate_results, strict.candidate_results, strict=True):
        assert easy.passed or not hard.passed
        assert easy.output_cosine_mean == hard.output_cosine_mean


def test_a_candidate_not_judged_has_not_passed():
    """The default of a candidate is no pass."""
    assert candidate().passed is False


@given(value=finite)
def test_a_gate_that_is_off_is_failed_by_no_metric(value):
    """At its `off` threshold a gate passes every value its metric can take, and still fails what is not finite."""
    ranges = {"output_cosine_mean": (-1.0, 1.0), "top1_agreement": (0.0, 1.0), "ppl_proxy_delta": (-1e300, 1e300)}
    for gate in GATES:
        low, high = ranges.get(gate.metric, (0.0, 1e300))
        config = CapturedReplayConfig((8,), **{gate.threshold: gate.off})
        assert gate.check(candidate(**{gate.metric: min(max(value, low), high)}), config).passed
        assert gate.check(candidate(), config).off
        assert not gate.check(candidate(), CONFIG).off
        assert not gate.check(candidate(**{gate.metric: math.nan}), config).passed
        assert gates_off(config) == [gate.threshold]
    assert gates_off(CONFIG) == []


CATASTROPHIC = np.array([[0.99, 0.95]] * 9 + [[-1.0, 0.9]])


def several(**columns):
    """A measurement of some queries at ks 1, 2, ...: the given columns [query, k], perfect ones otherwise."""
    shape = next(iter(columns.values())).shape
    perfect = {"cosine": 1.0, "mse": 0.0, "kl": 0.0, "nll_compressed": 0.5}
    queries = QueryMetrics(
        **{name: columns.get(name, np.full(shape, value)) for name, value in perfect.items()},
        nll_exact=np.full((shape[0], 1), 0.5),
        top1_same=columns.get("top1_same", np.ones(shape, dtype=bool)),
        decoded_values=np.ones(shape, dtype=np.int64),
        rows=np.full(shape[0], 64),
    )
    return CapturedMeasurement(tuple(range(1, shape[1] + 1)), queries, "model", fixture_facts())


def test_one_catastrophic_query_passes_by_the_mean_and_fails_by_the_worst():
    """Nine queries at 0.99 and one at -1 have a mean of 0.791; the statistic that the config names is judged."""
    measurement = several(cosine=CATASTROPHIC[:, :1])
    mean = judge(measurement, CapturedReplayConfig((1,)))
    worst = judge(measurement, CapturedReplayConfig((1,), statistic="worst"))
    assert (mean.passed, mean.metrics.output_cosine_mean) == (True, pytest.approx(0.791))
    assert (worst.passed, worst.metrics.output_cosine_mean) == (False, -1.0)
    assert worst.blockers == ("output_cosine_mean (worst over queries) -1.0000 < 0.7500",)


def test_another_k_may_be_selected_by_another_statistic():
    """The mean takes the first k, the worst query only the second."""
    measurement = several(cosine=CATASTROPHIC)
    selected = {
        name: judge(measurement, CapturedReplayConfig((1, 2), statistic=name)).selected_candidate_k
        for name in ("mean", "worst")
    }
    assert selected == {"mean": 1, "worst": 2}


@pytest.mark.parametrize("statistic", ["worst", "p95"])
def test_blockers_name_the_statistic(statistic):
    """Behind the metric, whatever the gate; by the mean they are the reference's words."""
    config = CapturedReplayConfig((8,), statistic=statistic)
    failing = {"output_cosine_mean": -0.5, "ppl_proxy_delta": -1.5, "top1_agreement": 0.0}
    assert blockers(config, **failing) == [
        f"output_cosine_mean ({statistic} over queries) -0.5000 < 0.7500",
        f"abs(ppl_proxy_delta) ({statistic} over queries) 1.5000 > 1.0000",
        f"top1_agreement ({statistic} over queries) 0.0000 < 0.2500",
    ]
    assert [text.replace(f" ({statistic} over queries)", "") for text in blockers(config, **failing)] == blockers(
        **failing
    )


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_query_that_is_not_a_number_fails_by_every_statistic(statistic):
    """One in forty is enough, though 95 % of them keep to the threshold."""
    values = np.zeros((40, 1))
    values[3] = math.nan
    receipt = judge(several(mse=values), CapturedReplayConfig((1,), statistic=statistic))
    assert not receipt.passed
    assert receipt.blockers[0].startswith("output_mse_mean ")
    assert receipt.blockers[0].endswith(" NaN > 0.2500")


def test_the_p95_forgives_one_query_in_forty_but_not_four():
    """That is what it is for."""
    for lost, passed in ((1, True), (4, False)):
        values = np.zeros((40, 1))
        values[:lost] = 9.0
        config = CapturedReplayConfig((1,), statistic="p95")
        assert judge(several(mse=values), config).passed is passed


def test_a_measurement_by_another_statistic_leaves_the_first_as_it_was():
    """Same queries, ks, model and warnings; only the metrics are summed up in another way."""
    measurement = several(cosine=CATASTROPHIC)
    before = {name: values.copy() for name, values in measurement.metrics.items()}
    worst = measurement.by("worst")
    assert worst.metrics["output_cosine_mean"].tolist() == [-1.0, 0.9]
    assert (measurement.statistic, worst.statistic) == ("mean", "worst")
    assert {name: values.tolist() for name, values in measurement.metrics.items()} == {
        name: values.tolist() for name, values in before.items()
    }
    assert isinstance(worst, CapturedMeasurement)
    assert worst.queries is measurement.queries
    for name in ("candidate_ks", "model_id", "fixture", "findings", "options", "made_with"):
        assert getattr(worst, name) == getattr(measurement, name)


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("other", STATISTICS)
def test_asking_for_a_statistic_twice_is_asking_once(statistic, other):
    """Asked again it is the same object; by way of another one the same numbers."""
    measurement = several(cosine=CATASTROPHIC)
    once = measurement.by(statistic)
    assert once.by(statistic) is once
    again = measurement.by(other).by(statistic)
    for name, values in once.metrics.items():
        assert again.metrics[name].tobytes() == values.tobytes()


@pytest.mark.parametrize("kept", STATISTICS)
def test_the_config_s_statistic_is_judged_whatever_the_measurement_is_kept_by(kept):
    """A measurement that is looked at by the worst query is still judged by the mean where the config says so."""
    measurement = several(cosine=CATASTROPHIC)
    for statistic in STATISTICS:
        config = CapturedReplayConfig((1, 2), statistic=statistic)
        assert judge(measurement.by(kept), config) == judge(measurement, config)


@given(cosines=st.lists(st.floats(-1, 1), min_size=1, max_size=30), threshold=st.floats(-1, 1))
def test_the_worst_passes_only_where_every_query_would_alone(cosines, threshold):
    """The verdict of the worst is that of each query by itself, all together."""
    config = CapturedReplayConfig((1,), min_output_cosine=threshold, statistic="worst")
    together = judge(several(cosine=np.array(cosines)[:, None]), config).passed
    alone = [judge(several(cosine=np.array([[value]])), config).passed for value in cosines]
    assert together is all(alone)
