"""What the dashboard's charts and words say about a receipt."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from pages.ui import figures, words
from pages.ui.axis import Axis
from polykv_core import GATES, METRICS, CapturedReplayConfig, judge, load_fixture, measure, verdicts

SYNTHETIC = Path(__file__).parents[1] / "sample_fixtures" / "synthetic_d16_basic.json"
KS = (64, 16, 8, 16)


@pytest.fixture(scope="module")
def receipt():
    """A receipt with candidates that pass and that fail, listed out of order, one of them twice."""
    config = CapturedReplayConfig(KS, min_output_cosine=0.73, max_ppl_delta=10.0)
    return judge(measure(load_fixture(SYNTHETIC), KS), config)


@pytest.fixture(scope="module")
def charts(receipt):
    """The charts of that receipt by metric."""
    return {chart.metric: chart for chart in figures.charts(receipt)}


def trace(chart, name):
    """One of a chart's traces."""
    return next(trace for trace in chart.figure.data if trace.name == name)


def test_every_gate_has_a_chart():
    """A new gate is not forgotten among the charts."""
    assert {gate.metric for gate in GATES} < set(figures.CHARTED)


def test_candidates_that_pass_and_fail_differ_in_symbol_and_word(charts):
    """Colour is never the only difference."""
    passing, failing = trace(charts["output_cosine_mean"], "passes"), trace(charts["output_cosine_mean"], "fails")
    assert (list(passing.x), list(failing.x)) == (["64"], ["8", "16"])
    assert passing.marker.symbol != failing.marker.symbol


def test_the_selected_candidate_is_ringed(charts):
    """The ring stands at the receipt's k, in every chart."""
    assert {tuple(trace(chart, "selected").x) for chart in charts.values()} == {("64",)}


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.metric)
def test_the_failing_side_of_a_gate_is_shaded_to_the_end_of_the_axis(charts, receipt, gate):
    """The line stands at the threshold; below it a minimum fails, above it a maximum."""
    figure = charts[gate.metric].figure
    shade, line = figure.layout.shapes
    threshold = getattr(receipt.config, gate.threshold)
    assert line.y0 == line.y1 == shade.y0 == threshold
    assert (shade.y1 < threshold) == (gate.side == "min")
    (label,) = figure.layout.annotations
    assert label.text.endswith("fails below" if gate.side == "min" else "fails above")


def test_a_metric_without_a_gate_says_so(charts):
    """Decode reduction has no line and no shade, and its subtitle tells."""
    layout = charts["decode_reduction"].figure.layout
    assert not layout.shapes
    assert layout.title.subtitle.text == "higher is better, no gate"


def test_a_hover_text_reads_as_sentences(charts):
    """Value, gate, margin and what the candidate fails at."""
    text = trace(charts["output_cosine_mean"], "fails").customdata[0]
    assert text.split("<br>") == [
        "With k = 8, Output cosine is 0.671322.",
        "It fails its gate, 0.0586778 short.",
        "The candidate fails at Output cosine.",
    ]


def test_a_chart_is_also_told_in_words(charts):
    """The alternative text has gate, values and verdicts."""
    assert charts["kl_divergence_mean"].alt == (
        "KL divergence for each candidate k; lower is better, gate: at most 0.5 nats. "
        "k = 8: 0.09117 nats, fails; k = 16: 0.07677 nats, fails; k = 64: 0.06994 nats, passes. Selected: k = 64."
    )


def test_a_value_that_is_not_finite_is_left_out_and_named(receipt):
    """The other candidates are drawn; the subtitle says which one is not."""
    broken = [replace(c, output_mse_mean=math.inf if c.candidate_k == 8 else 0.1) for c in receipt.candidate_results]
    chart = figures.charts(replace(receipt, candidate_results=tuple(broken)))[1]
    assert "not finite at k = 8" in chart.figure.layout.title.subtitle.text
    assert list(chart.figure.data[0].x) == ["16", "64"]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.metric)
def test_a_blocker_that_is_not_finite_is_a_sentence_too(receipt, gate):
    """A number that is not finite fails its gate, and the sentence says no more than that."""
    broken = replace(receipt.candidate_results[0], **{gate.metric: math.nan})
    failed = next(verdict for verdict in verdicts(broken, receipt.config) if verdict.gate is gate)
    assert words.blocker(failed) == f"{gate.label} is not a finite number, and such a number fails its gate."
    assert words.margin(failed) == "no margin"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1e-6, "1e-06"), (-3.25e-7, "-3.25e-07"), (0.000123456789, "0.000123457"), (219.371, "219.371")],
)
def test_small_numbers_never_show_as_zero(value, text):
    """Six significant digits, scientific below 1e-4."""
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("values", "log"),
    [([0.1, 0.5], False), ([0.001, 0.5], True), ([0.0, 0.5], False), ([-1.0, 900.0], False), ([math.nan], False)],
)
def test_values_far_apart_get_a_logarithmic_axis(values, log):
    """Only where all are positive; either way every finite value has a place on the axis."""
    axis = Axis.around(values, best=0.0)
    assert axis.log == log
    assert all(axis.low < axis.place(value) < axis.high for value in values if math.isfinite(value))


def test_every_metric_has_words_for_its_unit():
    """Units stand behind numbers and in table headings."""
    texts = {metric.name: words.with_unit(2.0, metric.name) for metric in METRICS}
    assert texts["kl_divergence_mean"] == "2 nats"
    assert texts["decode_reduction"] == "2\N{MULTIPLICATION SIGN}"
    assert texts["output_cosine_mean"] == "2"
