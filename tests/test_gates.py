"""Judging: which side of a threshold passes, what a failure is called, which k is selected."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polykv_core import (
    GATES,
    METRICS,
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
    return CapturedMeasurement(tuple(range(1, count + 1)), queries, "model", "sha256:0", ())


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
