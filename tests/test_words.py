"""Numbers, gates and verdicts in words."""

import math

import pytest

from polykv_core import GATES, METRICS, GateVerdict, words


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.metric)
def test_a_blocker_that_is_not_finite_is_a_sentence_too(gate):
    """A number that is not finite fails its gate, and the sentence says no more than that."""
    failed = GateVerdict(gate, math.nan, 0.5)
    assert words.blocker(failed) == f"{gate.label} is not a finite number, and such a number fails its gate."
    assert words.margin(failed) == "no margin"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1e-6, "1e-06"), (-3.25e-7, "-3.25e-07"), (0.000123456789, "0.000123457"), (219.371, "219.371")],
)
def test_small_numbers_never_show_as_zero(value, text):
    """Six significant digits, scientific below 1e-4."""
    assert words.number(value) == text


def test_every_metric_has_words_for_its_unit():
    """Units stand behind numbers and in table headings."""
    texts = {metric.name: words.with_unit(2.0, metric.name) for metric in METRICS}
    assert texts["kl_divergence_mean"] == "2 nats"
    assert texts["decode_reduction"] == "2\N{MULTIPLICATION SIGN}"
    assert texts["output_cosine_mean"] == "2"


def test_a_value_just_beside_its_threshold_does_not_look_like_it():
    """As many digits as it takes."""
    assert words.told_apart(0.74999999, 0.75) == "0.74999999"
    assert words.told_apart(0.75, 0.75) == "0.75"


@pytest.mark.parametrize(("value", "text"), [(1000.0, "1000"), (123456.7, "123457"), (2e9, "2e+09"), (1e-9, "1e-09")])
def test_a_number_below_a_million_is_written_out(value, text):
    """However few digits are asked for."""
    assert words.number(value, 3) == text
