"""What a call comes to: the worst gate by name, whether all pass, and the one sentence that says so."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polykv_core import (
    GATES,
    CapturedReplayConfig,
    CapturedReplayReceipt,
    GateVerdict,
    judge,
    load_fixture,
    measure,
)
from polykv_core.report import Outcome, passed, sentence, worst

SAMPLES = Path(__file__).parents[1] / "sample_fixtures"
KS = (8, 64)
COSINE, MSE, KL, PPL, TOP1 = GATES


@pytest.fixture(scope="module")
def measured():
    """The synthetic sample at two ks: at k = 64 its cosine is 0.7559, its MSE 0.12618, its |PPL delta| 4.7496."""
    return measure(load_fixture(SAMPLES / "synthetic_d16_basic.json"), KS)


@pytest.fixture(scope="module")
def outcome_of(measured):
    """An outcome of the sample under other gates."""

    def judged(name="a.json", **gates):
        return Outcome(name, judge(measured, CapturedReplayConfig(KS, **{"max_ppl_delta": 10.0, **gates})))

    return judged


def not_finite(outcome, metric):
    """An outcome whose selected candidate has a metric that is not a number."""
    receipt = outcome.receipt
    *others, last = receipt.candidate_results
    candidates = (*others, replace(last, **{metric: np.nan}))
    return Outcome(outcome.name, replace(receipt, candidate_results=candidates, passed=False))


def test_the_worst_gate_misses_by_the_largest_share_of_what_it_asks_for(outcome_of):
    """Not by the largest number: KL misses by less than PPL here, and by more of its threshold."""
    outcome = outcome_of(max_kl_divergence=0.001, max_ppl_delta=4.0)
    assert worst([outcome]).verdict.gate == KL


def test_the_worst_fixture_is_named(outcome_of):
    """Wherever in the list it stands."""
    outcomes = [outcome_of("a.json"), outcome_of("b.json", max_ppl_delta=1.0), outcome_of("c.json")]
    found = worst(outcomes)
    assert (found.outcome.name, found.verdict.gate) == ("b.json", PPL)


def test_no_verdict_is_worst_of_all(outcome_of):
    """Worse than any gate that fails."""
    outcomes = [outcome_of(max_ppl_delta=0.1), Outcome("broken.json", None, "no such file")]
    assert worst(outcomes).outcome.name == "broken.json"
    assert worst(outcomes).verdict is None


def test_what_is_not_finite_is_the_worst_gate(outcome_of):
    """However far another gate misses."""
    outcome = not_finite(outcome_of(max_ppl_delta=1e-9), "output_mse_mean")
    assert worst([outcome]).verdict.gate == MSE


def test_a_gate_that_is_off_has_no_say(outcome_of):
    """Its threshold is so far away that its share would still say nothing."""
    outcome = outcome_of(min_output_cosine=COSINE.off, min_top1_agreement=TOP1.off)
    assert worst([outcome]).verdict.gate not in (COSINE, TOP1)


def test_a_gate_that_is_off_still_fails_what_is_not_finite(outcome_of):
    """Such a fixture fails, so the gate that fails it is the one to name."""
    outcome = not_finite(outcome_of(max_output_mse=MSE.off), "output_mse_mean")
    assert worst([outcome]).verdict.gate == MSE


def test_with_every_gate_off_there_is_no_worst(outcome_of):
    """And the sentence says why."""
    outcome = outcome_of(**{gate.threshold: gate.off for gate in GATES})
    assert worst([outcome]) is None
    assert sentence([outcome]) == "PASSED at k = 8; every gate is off."


def test_at_a_threshold_of_zero_the_margin_itself_counts():
    """There is no share of nothing."""
    assert GateVerdict(KL, 0.25, 0.0).share == -0.25


def test_equality_passes():
    """A value at its threshold has no margin, and no failure."""
    verdict = GateVerdict(KL, 0.5, 0.5)
    assert verdict.share == 0.0
    assert verdict.passed


def test_all_must_pass(outcome_of):
    """One failure fails the call; one missing verdict leaves it open."""
    good, bad, none = outcome_of(), outcome_of(max_ppl_delta=1.0), Outcome("x", None)
    assert passed([good, good]) is True
    assert passed([good, bad]) is False
    assert passed([good, bad, none]) is None
    assert passed([]) is None


def test_a_failure_in_a_sentence(outcome_of):
    """How many of how many, and the worst gate with place, value, unit and rule."""
    outcomes = [outcome_of("a.json", max_kl_divergence=0.01), outcome_of("b.json"), outcome_of("c.json")]
    assert sentence(outcomes) == (
        "FAILED: 1 of 3 fixtures fails; worst: KL divergence of a.json at k = 64, 0.06994 nats where at most 0.01 is "
        "asked for."
    )


def test_a_pass_in_a_sentence(outcome_of):
    """The gate with the least to spare is named."""
    told = "Output cosine of a.json at k = 64, 0.7559 where at least 0.75 is asked for."
    assert sentence([outcome_of()]) == f"PASSED at k = 64; tightest: {told}"
    assert sentence([outcome_of(), outcome_of("b.json")]) == f"PASSED: all 2 fixtures pass; tightest: {told}"


def test_a_missing_verdict_in_a_sentence(outcome_of):
    """Which fixture, why, and what became of the others."""
    outcomes = [outcome_of(max_ppl_delta=1.0), outcome_of(), Outcome("x.json", None, "no such file")]
    assert sentence(outcomes) == "NO VERDICT: 1 of 3 fixtures has none, x.json (no such file); 1 fails."


def test_another_statistic_is_said(measured):
    """A gate on the worst query is not taken for one on the mean."""
    config = CapturedReplayConfig(KS, statistic="worst")
    assert "(worst query) of a.json" in sentence([Outcome("a.json", judge(measured, config))])


def test_a_name_does_nothing_to_a_terminal(outcome_of):
    """Newlines and control characters are shown as escapes."""
    assert "a\\n\\x1b[31m.json" in sentence([outcome_of("a\n\x1b[31m.json")])


def test_a_receipt_read_from_a_file_gives_the_same_sentence(outcome_of):
    """Nothing is taken from what only a fresh receipt has."""
    outcome = outcome_of()
    read = CapturedReplayReceipt.from_json(outcome.receipt.to_json())
    assert sentence([Outcome(outcome.name, read)]) == sentence([outcome])
