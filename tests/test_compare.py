"""Comparing runs: only of one fixture, with intervals paired by query; and gates against a baseline."""

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import GOLDEN, changed, encoded, fixture_fields, read_golden

from polykv_core import (
    ACROSS,
    GATES,
    METRICS,
    STATISTICS,
    CapturedReplayConfig,
    CapturedReplayReceipt,
    CompareError,
    ConfigError,
    ReceiptError,
    ReplayOptions,
    compare,
    every_k,
    intervals,
    judge,
    load_fixture,
    measure,
    relative_config,
    run_captured_model_replay,
)
from polykv_core.compare import check_comparable, check_statistic
from polykv_core.uncertainty import paired_interval

FIXTURE_FIELDS = fixture_fields(rows=12, shared=7, queries=6, draw=3)
FIXTURE = load_fixture(encoded(FIXTURE_FIELDS))
# Both ks pass, so the first is selected.
CONFIG = CapturedReplayConfig((3, 8))
MEASUREMENT = measure(FIXTURE, every_k(FIXTURE))
RUN = judge(MEASUREMENT, CONFIG)
BY_METRIC = {gate.metric: index for index, gate in enumerate(GATES)}
OTHER_OPTIONS = {
    "attention_scale": 0.5,
    "query_coding": "exact",
    "pool_codec": "fib_k4_n64",
    "shell_codec": "exact",
}


def shifted(measurement, **by):
    """A measurement whose queries' numbers all lie that much higher."""
    arrays = {name: getattr(measurement.queries, name) + off for name, off in by.items()}
    return replace(measurement, queries=replace(measurement.queries, **arrays))


def from_file(receipt):
    """The receipt as somebody else reads it."""
    return CapturedReplayReceipt.from_json(receipt.to_json())


# What can be compared


def test_a_run_does_not_differ_from_itself():
    """At the selected k and at each other one: every difference is 0, and so is its interval."""
    found = compare(RUN, RUN)
    assert (found.before, found.after, found.change) == (RUN, RUN, "same")
    assert [(moved.k_before, moved.k_after, moved.before.gate) for moved in found.selected] == [
        (3, 3, gate) for gate in GATES
    ]
    assert [(moved.k_before, moved.k_after, moved.before.gate) for moved in found.at_ks] == [
        (8, 8, gate) for gate in GATES
    ]
    for moved in (*found.selected, *found.at_ks):
        assert (moved.difference, moved.differs, moved.better, moved.clear, moved.change) == (
            0,
            False,
            None,
            False,
            "same",
        )
        assert (moved.interval.low, moved.interval.high) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("other", "names"),
    [
        (changed(FIXTURE_FIELDS, "seed", to=8), "the fixture's digest is sha256:"),
        (changed(FIXTURE_FIELDS, "model_id", to="b"), "the fixture's digest is sha256:"),
        (fixture_fields(rows=12, shared=7, queries=5), "the fixture's digest is sha256:"),
    ],
)
@pytest.mark.parametrize("across", [(), ("digest", "the fixture's digest", "rows", *ACROSS)])
def test_runs_of_two_fixtures_are_never_comparable(other, names, across):
    """Whatever is allowed to differ."""
    run = run_captured_model_replay(load_fixture(encoded(other)), CONFIG)
    for one, two in ((RUN, run), (run, RUN)):
        with pytest.raises(CompareError) as refused:
            compare(one, two, across)
        assert str(refused.value).startswith(f"the runs are not comparable: {names}")
        assert str(refused.value).endswith("; only runs of the same fixture and queries can be compared")
        assert one.fixture_digest in str(refused.value)


@pytest.mark.parametrize("across", [(), ("rows", *ACROSS)])
def test_runs_over_other_rows_are_never_comparable(across):
    """A receipt put together from two would have the digest, and other queries."""
    rows = MEASUREMENT.queries.rows.copy()
    rows[2] += 1
    other = replace(MEASUREMENT, queries=replace(MEASUREMENT.queries, rows=rows))
    with pytest.raises(
        CompareError, match=r"^the runs are not comparable: the rows of its queries is a list of 6 in one"
    ):
        check_comparable(MEASUREMENT, other, across)


@pytest.mark.parametrize(("name", "value"), OTHER_OPTIONS.items())
def test_runs_with_another_option_are_comparable_only_where_that_is_said(name, value):
    """The refusal names the option, both values, and the way out; another name does not open it."""
    other = run_captured_model_replay(FIXTURE, CONFIG, ReplayOptions(**{name: value}))
    told = ReplayOptions().to_dict()[name]
    for across in ((), [one for one in ACROSS if one != name]):
        with pytest.raises(CompareError) as refused:
            compare(RUN, other, across)
        text = str(refused.value)
        assert text.startswith(f"the runs are not comparable: {name} is {told} in one and {value} in the other; ")
        assert text.endswith(f"to compare just that, name it as what differs on purpose (--across {name})")
    found = compare(RUN, other, [name])
    assert any(moved.differs for moved in found.at_ks)
    assert all(moved.interval is not None for moved in found.at_ks)


def test_runs_by_another_statistic_are_comparable_only_where_that_is_said():
    """Then without intervals: the difference of a mean and a worst query is no mean of anything."""
    other = judge(MEASUREMENT, replace(CONFIG, statistic="p95"))
    with pytest.raises(CompareError) as refused:
        compare(RUN, other)
    assert str(refused.value) == (
        "the runs are not comparable: statistic is mean in one and p95 in the other; "
        "to compare just that, name it as what differs on purpose (--across statistic)"
    )
    found = compare(RUN, other, ["statistic"])
    assert {moved.interval for moved in found.at_ks} == {None}
    assert not any(moved.clear for moved in found.at_ks)
    assert check_statistic("mean", "worst", ["statistic"]) is None


def test_several_things_may_differ_on_purpose():
    """All that ACROSS names, at once."""
    other = run_captured_model_replay(FIXTURE, replace(CONFIG, statistic="worst"), ReplayOptions(**OTHER_OPTIONS))
    assert set(ACROSS) == {*OTHER_OPTIONS, "statistic"}
    assert compare(RUN, other, ACROSS).after == other


def test_thresholds_and_ks_may_differ():
    """That is what runs are compared for; at_ks holds the ks that both list, each once, in the first one's order.

    The selected one is left out where it is the same in both, and has been said.
    """
    before = judge(MEASUREMENT, replace(CONFIG, candidate_ks=(8, 3, 8, 5)))
    after = judge(MEASUREMENT, replace(CONFIG, candidate_ks=(3, 4, 8), max_kl_divergence=9.0))
    found = compare(before, after)
    assert [moved.k_before for moved in found.at_ks[::5]] == [8, 3]
    assert (found.selected[0].k_before, found.selected[0].k_after) == (8, 3)
    found = compare(before, judge(MEASUREMENT, replace(CONFIG, candidate_ks=(8, 3))))
    assert [moved.k_before for moved in found.at_ks[::5]] == [3]


def test_other_versions_and_files_may_differ():
    """Whether an upgrade moved anything is a question to ask."""
    text = RUN.to_json().replace(RUN.measurement.made_with.numpy, "1.0.0")
    assert not any(moved.differs for moved in compare(CapturedReplayReceipt.from_json(text), RUN).at_ks)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_receipt_from_a_file_compares_as_the_one_in_memory(statistic):
    """To the last bit of each interval: it holds each query's numbers."""
    config = replace(CONFIG, statistic=statistic)
    one, two = (
        judge(MEASUREMENT, config),
        run_captured_model_replay(FIXTURE, config, ReplayOptions(query_coding="exact")),
    )
    in_memory = compare(one, two, ["query_coding"])
    assert compare(from_file(one), from_file(two), ["query_coding"]) == in_memory
    assert compare(one, from_file(two), ["query_coding"]) == in_memory


def test_a_receipt_of_the_crate_cannot_be_compared():
    """It holds no query's own numbers."""
    crate = CapturedReplayReceipt.from_dict(read_golden(GOLDEN / "captured" / "d8_unscaled" / "receipt.json"))
    for one, two in ((crate, RUN), (RUN, crate), (crate, crate)):
        with pytest.raises(ReceiptError, match=r"^the receipt, provenance has no field 'queries'; add it$"):
            compare(one, two)


@pytest.mark.parametrize("cut", ["candidate_results", "candidates"])
def test_a_receipt_that_lost_a_candidate_is_refused(cut):
    """Its result, or its queries' numbers: a ReceiptError that says so."""
    told = json.loads(RUN.to_json())
    assert told["selected_candidate_k"] != 8
    listed = told["candidate_results"] if cut == "candidate_results" else told["provenance"]["queries"]["candidates"]
    del listed[1]
    with pytest.raises(ReceiptError, match=r"candidate k 8"):
        compare(RUN, CapturedReplayReceipt.from_dict(told))


# What is said of a gate


@pytest.mark.parametrize(
    ("metric", "by"),
    [
        ("output_cosine_mean", {"cosine": -0.01}),
        ("output_mse_mean", {"mse": 0.01}),
        ("kl_divergence_mean", {"kl": 0.01}),
        ("ppl_proxy_delta", {"nll_compressed": 0.01}),
    ],
)
def test_what_is_worse_depends_on_the_gate_s_side(metric, by):
    """A lower cosine, and a higher error; the way back is the better one. The others did not move."""
    assert all(result.ppl_proxy_delta > 0 for result in RUN.candidate_results)
    worse = judge(shifted(MEASUREMENT, **by), CONFIG)
    for one, two, better in ((RUN, worse, False), (worse, RUN, True)):
        for moved in compare(one, two).at_ks:
            if moved.before.gate.metric == metric:
                assert moved.differs
                assert moved.better is better
            else:
                assert (moved.differs, moved.better) == (False, None)


def test_top1_agreement_is_better_higher():
    """Of six queries one token came to stay."""
    same = MEASUREMENT.queries.top1_same.copy()
    same[:] = False
    none = replace(MEASUREMENT, queries=replace(MEASUREMENT.queries, top1_same=same))
    one_same = same.copy()
    one_same[0] = True
    one = replace(none, queries=replace(none.queries, top1_same=one_same))
    moved = compare(judge(none, CONFIG), judge(one, CONFIG)).selected[BY_METRIC["top1_agreement"]]
    assert (moved.difference, moved.better) == (pytest.approx(1 / 6), True)


def test_a_perplexity_nearer_to_the_exact_one_is_better():
    """The gate looks at the distance: from far above to a little below is an improvement."""
    queries = MEASUREMENT.queries
    above, below = (
        replace(
            MEASUREMENT,
            queries=replace(queries, nll_compressed=np.broadcast_to(queries.nll_exact + off, queries.kl.shape)),
        )
        for off in (0.5, -0.1)
    )
    moved = compare(judge(above, CONFIG), judge(below, CONFIG)).selected[BY_METRIC["ppl_proxy_delta"]]
    assert moved.better
    assert moved.after.value > 0


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [(0.0, 0.0, "same"), (1.0, 1.0, "same"), (0.0, 1.0, "regressed"), (1.0, 0.0, "fixed")],
)
def test_a_gate_regressed_or_was_fixed_where_its_verdict_turned(before, after, change):
    """Of gate and verdict alike; by the thresholds alone as well, where no number moved."""
    one, two = (
        judge(MEASUREMENT, replace(CONFIG, candidate_ks=(3,), min_output_cosine=limit)) for limit in (before, after)
    )
    found = compare(one, two)
    assert found.change == change
    moved = found.selected[BY_METRIC["output_cosine_mean"]]
    assert (moved.change, moved.difference, moved.better) == (change, 0.0, None)
    assert moved.differs == (change != "same")
    assert {moved.change for moved in found.selected[1:]} == {"same"}


def test_a_gate_that_regressed_at_one_k_may_hold_at_another():
    """Each k is judged by itself, and the verdict by the selected one."""
    cosines = [result.output_cosine_mean for result in RUN.candidate_results]
    limit = sum(cosines) / 2
    assert cosines[0] < limit < cosines[1]
    found = compare(RUN, judge(MEASUREMENT, replace(CONFIG, min_output_cosine=limit)))
    changes = {
        moved.k_before: moved.change for moved in found.at_ks if moved.before.gate.metric == "output_cosine_mean"
    }
    assert changes == {3: "regressed", 8: "same"}
    assert (found.change, found.selected[0].k_before, found.selected[0].k_after) == ("same", 3, 8)


# The paired interval


def test_a_constant_shift_is_seen_through_any_spread_of_the_queries():
    """The same queries are drawn on both sides: the interval is the shift itself, far narrower than the runs' own."""
    after = shifted(MEASUREMENT, kl=1e-3)
    moved = compare(RUN, judge(after, CONFIG)).selected[BY_METRIC["kl_divergence_mean"]]
    alone = intervals(MEASUREMENT.queries.at(2))["kl_divergence_mean"]
    assert moved.interval.low == pytest.approx(1e-3, rel=1e-6)
    assert moved.interval.high == pytest.approx(1e-3, rel=1e-6)
    assert moved.interval.high - moved.interval.low < 1e-6 * (alone.high - alone.low)
    assert moved.clear
    assert moved.difference < alone.high - alone.low


def test_a_difference_that_other_queries_would_turn_is_not_clear():
    """Half of the queries up, half down by almost as much: its interval holds 0, though the mean moved."""
    kl = MEASUREMENT.queries.kl.copy()
    kl[::2] += 0.2
    kl[1::2] -= 0.19
    moved = compare(RUN, judge(replace(MEASUREMENT, queries=replace(MEASUREMENT.queries, kl=kl)), CONFIG)).selected
    moved = moved[BY_METRIC["kl_divergence_mean"]]
    assert (moved.better, moved.clear) == (False, False)
    assert moved.interval.low < 0.0 < moved.interval.high


@pytest.mark.parametrize("statistic", ["mean", "p95"])
@given(off=st.floats(-0.5, 0.5), metric=st.sampled_from(["cosine", "mse", "kl"]))
def test_a_paired_interval_holds_a_constant_shift(statistic, off, metric):
    """Whatever its size: every resampled difference is that shift, rounded."""
    gate = GATES[("cosine", "mse", "kl").index(metric)]
    one, two = MEASUREMENT.queries.at(3), shifted(MEASUREMENT, **{metric: off}).queries.at(3)
    found = paired_interval(one, two, gate, statistic)
    assert math.isclose(found.low, off, abs_tol=1e-12)
    assert math.isclose(found.high, off, abs_tol=1e-12)
    back = paired_interval(two, one, gate, statistic)
    assert (back.low, back.high) == (-found.high, -found.low)


def test_there_is_no_interval_where_nothing_can_be_drawn():
    """Of a single query, of the worst one, and of numbers that are not finite."""
    single = replace(
        MEASUREMENT,
        queries=type(MEASUREMENT.queries)(
            **{field.name: getattr(MEASUREMENT.queries, field.name)[:1] for field in fields(MEASUREMENT.queries)}
        ),
    )
    assert {moved.interval for moved in compare(judge(single, CONFIG), judge(single, CONFIG)).at_ks} == {None}
    worst = judge(MEASUREMENT, replace(CONFIG, statistic="worst"))
    assert {moved.interval for moved in compare(worst, worst).at_ks} == {None}
    infinite = judge(shifted(MEASUREMENT, kl=math.inf), CONFIG)
    moved = compare(RUN, infinite).selected
    assert [one.interval is None for one in moved] == [gate.metric == "kl_divergence_mean" for gate in GATES]


# Gates against a baseline


def test_gates_against_a_baseline_allow_so_many_per_cent_worse():
    """Above its KL divergence and MSE, below its cosine and top-1 agreement, of the distance of its PPL."""
    found = relative_config(CONFIG, RUN, {gate.threshold: 10.0 for gate in GATES})
    at = RUN.metrics
    assert found.min_output_cosine == pytest.approx(0.9 * at.output_cosine_mean)
    assert found.max_output_mse == pytest.approx(1.1 * at.output_mse_mean)
    assert found.max_kl_divergence == pytest.approx(1.1 * at.kl_divergence_mean)
    assert found.max_ppl_delta == pytest.approx(1.1 * abs(at.ppl_proxy_delta))
    assert found.min_top1_agreement == pytest.approx(0.9 * at.top1_agreement)
    assert found.candidate_ks == CONFIG.candidate_ks


def test_a_gate_that_is_not_named_stays():
    """And without a name nothing moves."""
    found = relative_config(CONFIG, RUN, {"max_kl_divergence": 10.0})
    assert replace(found, max_kl_divergence=CONFIG.max_kl_divergence) == CONFIG
    assert relative_config(CONFIG, RUN, {}) == CONFIG


@pytest.mark.parametrize(("value", "expected"), [(-0.5, -0.55), (0.0, 0.0), (0.5, 0.45)])
def test_below_a_negative_cosine_is_further_from_zero(value, expected):
    """10 % worse than -0.5 is -0.55, not -0.45."""
    baseline = replace(RUN, metrics=replace(RUN.metrics, output_cosine_mean=value))
    found = relative_config(CONFIG, baseline, {"min_output_cosine": 10.0})
    assert found.min_output_cosine == pytest.approx(expected)


def test_a_ppl_delta_below_zero_is_taken_by_its_distance():
    """As its gate does."""
    baseline = replace(RUN, metrics=replace(RUN.metrics, ppl_proxy_delta=-2.0))
    assert relative_config(CONFIG, baseline, {"max_ppl_delta": 50.0}).max_ppl_delta == pytest.approx(3.0)


@given(percents=st.lists(st.floats(0.0, 1e3), min_size=5, max_size=5))
def test_a_baseline_passes_the_gates_that_are_relative_to_it(percents):
    """However little worse is allowed: equality passes."""
    found = relative_config(CONFIG, RUN, dict(zip((gate.threshold for gate in GATES), percents, strict=True)))
    at = next(one for one in judge(MEASUREMENT, found).candidate_results if one.candidate_k == RUN.selected_candidate_k)
    assert at.passed


def test_what_no_threshold_can_be_is_refused():
    """Per cents that leave the floating-point numbers."""
    with pytest.raises(ConfigError, match=r"^max_kl_divergence is inf; expected a finite number$"):
        relative_config(CONFIG, RUN, {"max_kl_divergence": math.inf})


def test_every_gate_s_metric_is_one_that_can_be_resampled():
    """So that each has an interval."""
    assert {gate.metric for gate in GATES} <= {metric.name for metric in METRICS if metric.per_query is not None}
