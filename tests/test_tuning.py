"""Moving gates over a kept measurement: suggested thresholds hold, flips flip, curves keep what matters."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import encoded, fixture_facts, fixture_fields

from polykv_core import (
    GATES,
    METRICS,
    PRESETS,
    THRESHOLDS,
    CandidateReplayMetrics,
    CapturedMeasurement,
    CapturedReplayConfig,
    judge,
    just_passing,
    largest_reversal,
    load_fixture,
    measure,
    nearest_flip,
    passing,
    smallest_passing_k,
    thinned,
    thresholds_from,
    verdicts,
)
from polykv_core.metrics import QueryMetrics

BY_METRIC = {metric.name: metric for metric in METRICS}
COSINE = GATES[0]
MEASUREMENT = measure(load_fixture(encoded(fixture_fields(rows=12, shared=8, queries=3))), range(1, 13))
KS = MEASUREMENT.candidate_ks
values = st.floats(-1e6, 1e6).filter(lambda value: value == 0.0 or abs(value) > 1e-12)
gates = st.sampled_from(GATES)


def curve(**columns):
    """A measurement of one query whose metrics at ks 1, 2, ... are given."""
    count = len(next(iter(columns.values())))
    defaults = {"cosine": 1.0, "mse": 0.0, "kl": 0.0, "nll_compressed": 0.5}
    arrays = {name: np.array([columns.get(name, [value] * count)], np.float64) for name, value in defaults.items()}
    queries = QueryMetrics(
        **arrays,
        nll_exact=np.array([[0.5]]),
        top1_same=np.ones((1, count), dtype=bool),
        decoded_values=np.arange(1, count + 1)[None],
        rows=np.array([count]),
    )
    return CapturedMeasurement(tuple(range(1, count + 1)), queries, "model", fixture_facts())


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_whole_set_of_gates(name):
    """Every threshold and no other, and a valid config."""
    assert list(PRESETS[name]) == list(THRESHOLDS)
    assert CapturedReplayConfig((1,), **PRESETS[name])


def test_presets_are_ordered_by_their_names():
    """Lenient is looser than the seed's defaults at every gate, strict is tighter."""
    for gate in GATES:
        lenient, seed, strict = (PRESETS[name][gate.threshold] for name in ("Lenient", "Seed defaults", "Strict"))
        assert (lenient <= seed <= strict) if gate.side == "min" else (lenient >= seed >= strict)


@given(value=values, gate=gates)
def test_a_suggested_threshold_is_passed_closely_and_short(value, gate):
    """The value passes it, it lies within a thousandth of the value, and has four digits (or sits on them)."""
    threshold = just_passing(value, gate)
    assert gate.passes(value, threshold)
    assert abs(threshold - value) <= 1.001e-3 * abs(value)
    on_four_digits = abs(value - float(f"{value:.4g}")) <= 1e-12 * abs(value)
    assert threshold == float(f"{threshold:.4g}") or on_four_digits


@pytest.mark.parametrize("k", KS)
def test_thresholds_taken_from_a_candidate_let_it_pass(k):
    """All gates at once, each at its own value, rounded to the passing side."""
    candidate = judge(MEASUREMENT, CapturedReplayConfig((k,))).candidate_results[0]
    config = CapturedReplayConfig((k,), **thresholds_from(candidate))
    assert judge(MEASUREMENT, config).passed


# Each gate off, or at the value that one of the ks has: verdicts of every kind, and equality.
thresholds = st.tuples(
    *[
        st.sampled_from([gate.off, gate.off, *map(gate.gated, MEASUREMENT.metrics[gate.metric].tolist())])
        for gate in GATES
    ]
)


@given(numbers=thresholds)
def test_passing_says_what_judging_says(numbers):
    """For every k, without building its record; and the smallest passing k is the smallest of those."""
    config = CapturedReplayConfig(KS, *numbers)
    results = judge(MEASUREMENT, config).candidate_results
    assert passing(MEASUREMENT, config).tolist() == [result.passed for result in results]
    passed = [result.candidate_k for result in results if result.passed]
    assert smallest_passing_k(MEASUREMENT, config) == (min(passed) if passed else None)


def test_the_smallest_passing_k_is_not_the_first_listed():
    """Whatever the order of the ks."""
    measurement = measure(load_fixture(encoded(fixture_fields(rows=6))), (6, 2, 5))
    assert smallest_passing_k(measurement, CapturedReplayConfig((6,), -1.0, 1e9, 1e9, 1e9, 0.0)) == 2


@given(numbers=thresholds, gate=gates)
def test_a_flip_flips(numbers, gate):
    """With the gate at its threshold a failing k passes; a passing k passes there and fails a hair tighter."""
    config = CapturedReplayConfig(KS, *numbers)
    candidates = judge(MEASUREMENT, config).candidate_results
    flip = nearest_flip(candidates, config, gate)
    others = [
        [verdict.passed for verdict in verdicts(candidate, config) if verdict.gate != gate] for candidate in candidates
    ]
    if flip is None:
        assert not any(all(rest) for rest in others)
        return
    before = next(c for c in candidates if c.candidate_k == flip.candidate_k)
    assert before.passed != flip.passes
    tighter = math.nextafter(flip.threshold, math.inf if gate.side == "min" else -math.inf)

    def passes(threshold):
        moved = CapturedReplayConfig((flip.candidate_k,), **{**limits(config), gate.threshold: threshold})
        return judge(MEASUREMENT, moved).passed

    assert passes(flip.threshold)
    if not flip.passes:
        assert not passes(tighter)


def limits(config):
    """The thresholds of a config by name."""
    return {name: getattr(config, name) for name in THRESHOLDS}


@given(numbers=thresholds, gate=gates)
def test_the_nearest_flip_is_the_nearest(numbers, gate):
    """No other k that only this gate decides about is closer to the threshold."""
    config = CapturedReplayConfig(KS, *numbers)
    candidates = judge(MEASUREMENT, config).candidate_results
    flip = nearest_flip(candidates, config, gate)
    if flip is None:
        return

    def distance(candidate):
        return abs(gate.check(candidate, config).margin)

    decided = [
        candidate
        for candidate in candidates
        if all(verdict.passed for verdict in verdicts(candidate, config) if verdict.gate != gate)
    ]
    nearest = next(c for c in candidates if c.candidate_k == flip.candidate_k)
    assert distance(nearest) == min(map(distance, decided))


def test_a_candidate_without_a_number_never_flips():
    """No threshold lets NaN pass."""
    numbers = dict.fromkeys((metric.name for metric in METRICS), 1.0) | {"ppl_proxy_delta": 0.0, "output_mse_mean": 0.0}
    lost = CandidateReplayMetrics(
        candidate_k=1,
        decoded_values_total=1,
        full_decode_value_count=1,
        **{**numbers, "kl_divergence_mean": 0.0, "output_cosine_mean": math.nan},
    )
    assert nearest_flip([lost], CapturedReplayConfig((1,)), COSINE) is None


@pytest.mark.parametrize(
    ("column", "metric", "numbers", "expected"),
    [
        ("cosine", "output_cosine_mean", [0.1, 0.5, 0.9], None),
        ("cosine", "output_cosine_mean", [0.1, 0.9, 0.5, 0.95], (2, 3, 0.4)),
        ("cosine", "output_cosine_mean", [0.1, 0.9, 0.5, 0.4, 0.95, 0.9], (2, 4, 0.5)),
        ("mse", "output_mse_mean", [0.9, 0.2, 0.3, 0.1, 0.6], (4, 5, 0.5)),
        ("mse", "output_mse_mean", [0.5, 0.5, 0.5], None),
        ("mse", "output_mse_mean", [0.5, 0.5 + 1e-9], None),
    ],
)
def test_the_largest_reversal_is_from_the_best_so_far(column, metric, numbers, expected):
    """Where more rows made it worst, and by how much; a curve that only improves, or only rounds, has none."""
    found = largest_reversal(curve(**{column: numbers}), BY_METRIC[metric])
    if expected is None:
        assert found is None
    else:
        assert (found.from_k, found.to_k) == expected[:2]
        assert found.amount == pytest.approx(expected[2])


@given(numbers=st.lists(st.integers(0, 12), min_size=1, max_size=30))
def test_the_largest_reversal_is_that_of_all_pairs(numbers):
    """Of all pairs of ks the one where the larger is worst; the last best k before it begins the fall."""
    pairs = [(b - a, b, a) for at, b in enumerate(numbers) for a in numbers[:at] if b > a]
    found = largest_reversal(curve(mse=[float(number) for number in numbers]), BY_METRIC["output_mse_mean"])
    if not pairs:
        assert found is None
        return
    amount = max(pairs)[0]
    assert found.amount == amount
    assert numbers[found.to_k - 1] - numbers[found.from_k - 1] == amount
    assert all(number > numbers[found.from_k - 1] for number in numbers[found.from_k : found.to_k])


def test_a_delta_is_worse_the_farther_it_is_from_zero():
    """On either side: a perplexity delta that goes through zero and on has turned back."""
    found = largest_reversal(curve(nll_compressed=[0.9, 0.5, 0.1]), BY_METRIC["ppl_proxy_delta"])
    assert (found.from_k, found.to_k) == (2, 3)
    assert found.amount == pytest.approx(math.exp(0.5) - math.exp(0.1))


@given(
    draw=st.integers(0, 99),
    count=st.integers(1, 3000),
    threshold=st.floats(-2, 2),
    kept=st.lists(st.integers(0, 0)),
    limit=st.integers(2, 50),
)
def test_a_thinned_curve_keeps_ends_crossings_and_what_is_asked_for(draw, count, threshold, kept, limit):
    """Indices rise, begin and end with the curve's, hold both sides of every crossing, and are not many more."""
    numbers = np.cumsum(np.random.default_rng(draw).standard_normal(count)) / 10
    kept = [*kept, count // 2, count - 1]
    found = thinned(numbers, [threshold], kept, limit)
    assert (np.diff(found) > 0).all()
    assert (found[0], found[-1]) == (0, count - 1)
    crossings = np.flatnonzero(np.diff(numbers >= threshold))
    assert {*crossings.tolist(), *(crossings + 1).tolist(), *kept} <= set(found.tolist())
    assert len(found) <= limit + 2 * len(crossings) + len(kept)
