"""JUnit XML as CI services read it: failures exactly where a verdict fails, and no text that breaks the file."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polykv_core import GATES, CapturedReplayConfig, ReplayOptions, judge, load_fixture, measure
from polykv_core.report import Outcome, junit_xml

junitparser = pytest.importorskip("junitparser", reason="install junitparser: pip install 'polykv[dev]'")

SAMPLES = Path(__file__).parents[1] / "sample_fixtures"
MEASURED = measure(load_fixture(SAMPLES / "synthetic_d16_basic.json"), (8, 64))
PASSING = {"max_ppl_delta": 10.0}


def outcome(*ks, name="a.json", **gates):
    """The synthetic sample judged: at k = 64 it passes with PASSING, at k = 8 its cosine is too low."""
    return Outcome(name, judge(MEASURED, CapturedReplayConfig(ks or (8, 64), **gates)))


def read(*outcomes):
    """What a CI service sees."""
    return junitparser.JUnitXml.fromstring(junit_xml(outcomes).encode())


def results(suites, kind):
    """The messages of one kind of result, by the name of their test."""
    return {
        case.name: found.message for suite in suites for case in suite for found in case.result if type(found) is kind
    }


def test_a_test_for_each_gate_of_each_candidate():
    """Named by k and by rule, under the model and its k."""
    (suite,) = read(outcome(**PASSING))
    cases = list(suite)
    assert len(cases) == 2 * len(GATES)
    assert suite.name == "a.json"
    assert (cases[0].classname, cases[0].name) == ("synthetic-head-d16, k = 8", "k = 8: Output cosine at least 0.75")
    assert cases[2].name == "k = 8: KL divergence at most 0.5 nats"


def test_a_failed_replay_has_a_failure_for_each_gate_that_fails():
    """At every candidate."""
    failures = results(read(outcome()), junitparser.Failure)
    assert list(failures) == [
        "k = 8: Output cosine at least 0.75",
        "k = 8: |PPL delta| at most 1",
        "k = 64: |PPL delta| at most 1",
    ]
    assert failures["k = 64: |PPL delta| at most 1"].startswith("|PPL delta| is 4.7496")


def test_a_passed_replay_has_no_failure():
    """What fails at a k that nobody needs is skipped, and says which k is selected."""
    suites = read(outcome(**PASSING))
    assert results(suites, junitparser.Failure) == {}
    assert results(suites, junitparser.Skipped) == {
        "k = 8: Output cosine at least 0.75": "fails (0.6713 < 0.75), but k = 64 is selected and passes"
    }


def test_a_gate_that_is_off_is_skipped():
    """And its name gives no threshold."""
    skipped = results(read(outcome(64, max_ppl_delta=GATES[3].off)), junitparser.Skipped)
    assert skipped == {"k = 64: |PPL delta| off": "gate is off"}


def test_a_gate_that_is_off_still_fails_what_is_not_finite():
    """The verdict fails, so there is a failure."""
    good = outcome(64, max_output_mse=GATES[1].off, **PASSING).receipt
    broken = replace(good.candidate_results[0], output_mse_mean=float("nan"), passed=False)
    receipt = replace(good, candidate_results=(broken,), passed=False)
    assert list(results(read(Outcome("a", receipt)), junitparser.Failure)) == ["k = 64: Output MSE off"]


def test_no_verdict_is_an_error():
    """One test that says why."""
    suites = read(Outcome("x.json", None, "no such file"))
    assert results(suites, junitparser.Error) == {"verdict": "no such file"}
    assert suites.tests == suites.errors == 1


def test_a_repeated_k_is_tested_once():
    """In the order listed; two tests of one name would be taken for one that ran twice."""
    (suite,) = read(outcome(64, 8, 64))
    names = [case.name for case in suite]
    assert len(names) == len(set(names)) == 2 * len(GATES)
    assert names[0].startswith("k = 64")


def test_the_counts_are_those_of_the_tests():
    """For each suite, and over all."""
    suites = read(outcome(), outcome(name="b", **PASSING), Outcome("c", None))
    suites_again = read(outcome(), outcome(name="b", **PASSING), Outcome("c", None))
    stated = [(s.tests, s.failures, s.errors, s.skipped) for s in (suites, *suites)]
    for suite in suites_again:
        suite.update_statistics()
    suites_again.update_statistics()
    assert stated == [(s.tests, s.failures, s.errors, s.skipped) for s in (suites_again, *suites_again)]
    assert stated[0] == (21, 3, 1, 1)


@given(min_cosine=st.floats(-1, 1), max_kl=st.floats(0, 1), max_ppl=st.floats(0, 12))
def test_failures_are_there_exactly_if_the_verdict_fails(min_cosine, max_kl, max_ppl):
    """Whatever the gates."""
    judged = outcome(min_output_cosine=min_cosine, max_kl_divergence=max_kl, max_ppl_delta=max_ppl)
    assert (read(judged).failures == 0) == judged.receipt.passed


@given(name=st.text(), model_id=st.text(), error=st.text())
def test_any_text_can_be_read_back(name, model_id, error):
    """Control characters and the like are replaced, all else is there."""
    receipt = replace(outcome(**PASSING).receipt, model_id=model_id)
    suites = read(Outcome(name, receipt), Outcome(name, None, error))
    assert [suite.tests for suite in suites] == [10, 1]


def test_what_xml_cannot_hold_is_replaced():
    """NUL, escape, a lone surrogate, U+FFFE; markup and an emoji stay, and what moves text about is escaped."""
    (suite,) = read(Outcome("\x00\x1b\ud800\ufffe\t\u202e<&>\"'😀", None))
    assert suite.name == "����\\t\\u202e<&>\"'😀"


def test_what_is_not_as_the_reference_replays_is_a_property_of_the_suite():
    """An option each, and the statistic; the reference's own replay has none."""
    fixture = load_fixture(SAMPLES / "synthetic_d16_basic.json")
    measured = measure(fixture, (8,), options=ReplayOptions(attention_scale=0.5))
    receipt = judge(measured, CapturedReplayConfig((8,), statistic="worst"))
    plain, apart = read(outcome(), Outcome("b.json", receipt))
    assert [found.value for found in plain.properties()] == []
    assert [found.value for found in apart.properties()] == receipt.departures
    assert "attention_scale 0.5" in receipt.departures
