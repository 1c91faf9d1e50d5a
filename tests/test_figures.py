"""What the dashboard's charts and words say about a receipt and the curve over every k."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support import fixture_facts

from pages.ui import figures, plotly_axis
from pages.ui.hover import Hover
from polykv_core import (
    GATES,
    CapturedMeasurement,
    CapturedReplayConfig,
    Measurement,
    every_k,
    judge,
    load_fixture,
    measure,
    verdicts,
    words,
)
from polykv_core.axis import KAxis
from polykv_core.k_curve import KCurve
from polykv_core.metrics import QueryMetrics
from polykv_core.view import CHARTED, View

SYNTHETIC = Path(__file__).parents[1] / "sample_fixtures" / "synthetic_d16_basic.json"
KS = (64, 16, 8, 16)
ROWS = 72
PASSING = {"min_output_cosine": 0.73, "max_ppl_delta": 10.0}


@pytest.fixture(scope="module")
def curve():
    """The synthetic sample, measured at every k."""
    fixture = load_fixture(SYNTHETIC)
    return measure(fixture, every_k(fixture))


@pytest.fixture(scope="module")
def receipt(curve):
    """A receipt with candidates that pass and that fail, listed out of order, one of them twice."""
    return judge(curve, CapturedReplayConfig(KS, **PASSING))


@pytest.fixture(scope="module")
def charts(receipt, curve):
    """The charts of that receipt by metric."""
    return by_metric(receipt, curve)


def by_metric(receipt, curve, **options):
    """Charts by metric."""
    return {chart.metric: chart for chart in figures.charts(receipt, curve, **options)}


def trace(chart, name):
    """One of a chart's traces; None where there is none."""
    return next((trace for trace in chart.figure.data if trace.name == name), None)


def made_up(**values):
    """A measurement over as many ks as there are values, of one query; what is not given is perfect."""
    count = len(next(iter(values.values())))
    perfect = {"cosine": 1.0, "mse": 0.0, "kl": 0.0, "nll_compressed": 0.0}
    fields = {name: np.full((1, count), value) for name, value in perfect.items()}
    fields |= {name: np.array([value], dtype=np.float64) for name, value in values.items()}
    ks = np.arange(1, count + 1)
    return Measurement(
        tuple(ks.tolist()),
        QueryMetrics(
            nll_exact=np.zeros((1, 1)),
            top1_same=np.ones((1, count), dtype=bool),
            decoded_values=ks[None],
            rows=np.array([count]),
            **fields,
        ),
    )


def judged(curve, ks, **gates):
    """A receipt on a made-up measurement."""
    captured = CapturedMeasurement(curve.candidate_ks, curve.queries, "made-up", fixture_facts())
    return judge(captured, CapturedReplayConfig(ks, **gates))


def test_every_gate_has_a_chart():
    """A new gate is not forgotten among the charts."""
    assert {gate.metric for gate in GATES} < set(CHARTED)


def test_the_line_is_every_k(charts, curve):
    """From 1 to the number of rows, each at its measured value."""
    for name in ("output_cosine_mean", "decode_reduction"):
        line = trace(charts[name], "every k")
        assert list(line.x) == list(range(1, ROWS + 1))
        assert list(line.y) == curve.metrics[name].tolist()


def test_a_long_line_keeps_candidates_crossings_and_ends():
    """Thousands of ks are drawn with a few hundred points, none of which matters missing."""
    values = np.linspace(1.0, 0.0, 5000)
    values[3210] = 0.9  # one k that fails among those that pass
    curve = made_up(mse=values)
    chart = by_metric(judged(curve, (777, 3001), max_output_mse=0.5), curve)["output_mse_mean"]
    drawn = set(trace(chart, "every k").x)
    assert len(drawn) < 300
    assert {1, 777, 3001, 5000} <= drawn
    assert {2500, 2501} <= drawn, "both sides of the gate"
    assert {3210, 3211, 3212} <= drawn, "the k that fails, and its neighbours"


def test_candidates_stand_on_the_line(charts):
    """Each candidate's point is a point of the curve."""
    for chart in charts.values():
        line = trace(chart, "every k")
        on_line = dict(zip(line.x, line.y, strict=True))
        for name in ("passes", "fails"):
            points = trace(chart, name)
            assert [on_line[k] for k in points.x] == list(points.y)


def test_candidates_that_pass_and_fail_differ_in_symbol_and_word(charts):
    """Colour is never the only difference."""
    passing, failing = trace(charts["output_cosine_mean"], "passes"), trace(charts["output_cosine_mean"], "fails")
    assert (list(passing.x), list(failing.x)) == ([64], [8, 16])
    assert passing.marker.symbol != failing.marker.symbol


def test_the_selected_candidate_is_ringed(charts):
    """The ring stands at the receipt's k, in every chart."""
    assert {tuple(trace(chart, "selected").x) for chart in charts.values()} == {(64,)}


def test_the_smallest_passing_k_of_all_is_marked(charts, receipt, curve):
    """It is no candidate, and every chart marks it; where no k passes, no chart does."""
    smallest = next(k for k in curve.candidate_ks if judge(curve, replace(receipt.config, candidate_ks=(k,))).passed)
    assert {tuple(trace(chart, "smallest").x) for chart in charts.values()} == {(smallest,)}
    hopeless = judge(curve, replace(receipt.config, min_output_cosine=1.0))
    assert not any(trace(chart, "smallest") for chart in figures.charts(hopeless, curve))


@pytest.mark.parametrize("log_k", [None, True, False])
def test_all_charts_share_the_k_axis(receipt, curve, log_k):
    """Range, ticks and kind are the same in each, whatever is asked for."""
    axes = [chart.figure.layout.xaxis.to_plotly_json() for chart in figures.charts(receipt, curve, log_k=log_k)]
    assert all(axis == axes[0] for axis in axes)
    assert axes[0]["type"] == ("linear" if log_k is False else "log")
    margins = {str(chart.figure.layout.margin) for chart in figures.charts(receipt, curve)}
    assert len(margins) == 1, "or the same k would not stand at the same place"


def test_the_selected_k_has_a_bold_tick(charts):
    """Also where the end of the axis is so near that only one of the two has room."""
    axis = charts["decode_reduction"].figure.layout.xaxis
    assert "<b>64</b>" in axis.ticktext
    assert ROWS not in axis.tickvals


def test_a_k_beyond_the_rows_stands_at_the_last_one_and_says_so(curve):
    """The axis does not stretch to a k that reads nothing more."""
    chart = by_metric(judge(curve, CapturedReplayConfig((8, 100000))), curve)["output_cosine_mean"]
    assert list(trace(chart, "selected").x) == [ROWS]
    assert "With k = 100000, which reads all 72 rows, Output cosine is" in trace(chart, "fails").customdata[-1]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.metric)
def test_the_failing_side_of_a_gate_is_shaded_to_the_end_of_the_axis(charts, receipt, gate):
    """The line stands at the threshold; below it a minimum fails, above it a maximum."""
    figure = charts[gate.metric].figure
    shade, line = figure.layout.shapes
    threshold = getattr(receipt.config, gate.threshold)
    assert line.y0 == line.y1 == shade.y0 == threshold
    assert (shade.y1 < threshold) == (gate.side == "min")
    (label,) = figure.layout.annotations
    sign = "≥" if gate.side == "min" else "≤"
    assert label.text == f"gate {sign} {threshold:g}<br>fails {'below' if gate.side == 'min' else 'above'}"


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.metric)
def test_a_gate_that_is_off_draws_nothing_and_says_so(curve, receipt, gate):
    """No line, no shade, no label; the subtitle and the text in words say that it is off."""
    config = replace(receipt.config, **{gate.threshold: gate.off})
    chart = by_metric(judge(curve, config), curve)[gate.metric]
    assert not chart.figure.layout.shapes
    assert not chart.figure.layout.annotations
    assert "gate off" in chart.figure.layout.title.subtitle.text
    assert "gate off" in chart.alt
    assert "its gate" not in trace(chart, "every k").customdata[0]


def test_a_gate_far_away_is_named_at_the_edge_and_leaves_the_curve_its_room(curve, receipt):
    """A maximum of a million over values below one: nothing is shaded, and the label points there."""
    chart = by_metric(judge(curve, replace(receipt.config, max_output_mse=1e6)), curve)["output_mse_mean"]
    assert chart.figure.layout.yaxis.range[1] < 2.0
    assert not chart.figure.layout.shapes
    assert chart.figure.layout.annotations[0].text == "↑ gate ≤ 1e+06,<br>off this scale"


def test_a_gate_far_on_the_failing_side_shades_everything(curve, receipt):
    """A minimum of minus a million shades nothing; a maximum of that shades the whole chart."""
    low = replace(receipt.config, max_output_mse=-1e6, min_output_cosine=-1e6)
    charts = by_metric(judge(curve, low), curve)
    assert not charts["output_cosine_mean"].figure.layout.shapes
    (shade,) = charts["output_mse_mean"].figure.layout.shapes
    assert (shade.yref, shade.y0, shade.y1) == ("paper", 0, 1)


def test_a_chart_says_what_of_the_queries_it_shows(curve):
    """The worst query, where the gates hold that; the decode reduction is a ratio of sums whatever they hold."""
    worst = CapturedReplayConfig((4, 16), statistic="worst")
    charts = by_metric(judge(curve, worst), curve.by("worst"))
    told = {name: chart.figure.layout.title.subtitle.text for name, chart in charts.items()}
    assert [name for name, text in told.items() if text.startswith("worst query, ")] == [
        name for name in CHARTED if name != "decode_reduction"
    ]
    assert trace(charts["output_cosine_mean"], "every k").y[3] == curve.queries.cosine[:, 3].min()


def test_a_metric_without_a_gate_says_so(charts):
    """Decode reduction has no line and no shade, and its subtitle tells."""
    layout = charts["decode_reduction"].figure.layout
    assert not layout.shapes
    assert layout.title.subtitle.text == "higher is better, no gate"


def test_a_logarithmic_axis_hides_no_zero():
    """Zeros stand in a trace of their own, on a floor below every positive value, under a tick that says 0."""
    curve = made_up(mse=[1.0, 0.0, 0.01, 0.0])
    chart = by_metric(judged(curve, (1, 2)), curve, log=True)["output_mse_mean"]
    axis, floor = chart.figure.layout.yaxis, trace(chart, "zero")
    assert axis.type == "log"
    assert list(floor.x) == [2, 4]
    assert set(floor.y) == {axis.tickvals[0]}
    assert 0.0 < floor.y[0] < 0.01
    assert 10.0 ** axis.range[0] < floor.y[0]
    assert axis.ticktext[0] == "0"
    assert "Output MSE is 0." in floor.customdata[0]
    line = trace(chart, "every k")
    assert [math.isnan(value) for value in line.y] == [False, True, False, True]
    assert list(trace(chart, "passes").y) == [floor.y[0]], "a candidate at zero stands there too"


def test_a_logarithmic_axis_hides_nothing_below_zero():
    """Negative values stand on the floor as well, and its tick says so."""
    curve = made_up(cosine=[-0.5, 0.0, 0.5, 1.0])
    chart = by_metric(judged(curve, (4,)), curve, log=True)["output_cosine_mean"]
    assert list(trace(chart, "zero").x) == [1, 2]
    assert chart.figure.layout.yaxis.ticktext[0] == "≤ 0"
    assert "Output cosine is -0.5." in trace(chart, "zero").customdata[0]


def test_a_linear_axis_has_no_floor(receipt, curve):
    """There zeros have a place of their own."""
    for chart in figures.charts(receipt, curve, log=False):
        assert chart.figure.layout.yaxis.type == "linear"
        assert trace(chart, "zero") is None


def test_a_hover_text_reads_as_sentences(charts):
    """Value, gate, margin and what the k fails at; on the line and on the candidates."""
    sentences = [
        "With k = 8, Output cosine is 0.671322.",
        "It fails its gate, 0.0586778 too low.",
        "This k fails at Output cosine.",
    ]
    chart = charts["output_cosine_mean"]
    assert trace(chart, "fails").customdata[0].split("<br>") == sentences
    assert trace(chart, "every k").customdata[7].split("<br>") == sentences
    assert trace(chart, "every k").customdata[71].endswith("This k passes all gates.")


def test_a_chart_is_also_told_in_words(charts):
    """The alternative text tells gate, start, end, crossing, reversal, candidates and what is marked."""
    assert charts["output_cosine_mean"].alt == (
        "Output cosine for every k from 1 to 72; higher is better, gate: at least 0.73. "
        "It is 0.3163 at k = 1 and 0.7562 at k = 72. "
        "It first passes its gate at k = 19, and fails it again at k = 20. "
        "Not monotone: from k = 5 to k = 7 it gets worse by 0.00511. "
        "Candidates: k = 8: 0.6713, fails; k = 16: 0.7216, fails; k = 64: 0.7559, passes. "
        "Selected: k = 64; the smallest k of all that passes all gates is 19."
    )


def test_words_say_where_a_curve_fails_again():
    """A gate that is passed and then failed is told so, as is one that nothing passes."""
    curve = made_up(mse=[1.0, 0.1, 0.9, 0.1], kl=[2.0, 2.0, 2.0, 2.0])
    charts = by_metric(judged(curve, (4,)), curve)
    assert "It first passes its gate at k = 2, and fails it again at k = 3." in charts["output_mse_mean"].alt
    assert "It fails its gate at every k." in charts["kl_divergence_mean"].alt
    assert "no k passes all gates" in charts["kl_divergence_mean"].alt
    assert "It passes its gate at every k." in charts["output_cosine_mean"].alt


def test_a_curve_that_turns_back_has_a_warning_and_others_have_none():
    """Reading more rows made it worse; decode reduction, which always falls, is not warned of."""
    curve = made_up(mse=[1.0, 0.1, 0.9, 0.1], kl=[0.4, 0.3, 0.2, 0.1])
    charts = by_metric(judged(curve, (4,)), curve)
    assert charts["output_mse_mean"].note == "Not monotone: from k = 2 to k = 3 it gets worse by 0.8."
    assert charts["kl_divergence_mean"].note == ""
    assert charts["decode_reduction"].note == ""


def test_a_value_that_is_not_finite_leaves_a_gap_and_is_named():
    """The other ks are drawn; the subtitle says which candidate is not."""
    curve = made_up(mse=[math.inf, 0.2, 0.1, 0.4])
    chart = by_metric(judged(curve, (1, 3)), curve)["output_mse_mean"]
    assert "not finite at k = 1" in chart.figure.layout.title.subtitle.text
    assert math.isnan(trace(chart, "every k").y[0])
    assert list(trace(chart, "passes").x) == [3]
    assert trace(chart, "fails") is None
    assert "Output MSE is not finite." in trace(chart, "every k").customdata[0]
    assert chart.note == "Not monotone: from k = 3 to k = 4 it gets worse by 0.3."


@pytest.mark.parametrize("log", [None, True, False])
@pytest.mark.parametrize(
    "values", [[0.0], [1e300, 1.0], [1e-320, 1e308], [0.0, 1e-300], [math.nan], [math.inf, 0.5], [0.25] * 5]
)
def test_extreme_values_still_give_charts(values, log):
    """One row, one value, none at all, or the ends of what a double holds: every axis is finite, low below high."""
    curve = made_up(mse=values)
    for chart in figures.charts(judged(curve, (1, 2)), curve, log=log):
        low, high = chart.figure.layout.yaxis.range
        assert math.isfinite(low)
        assert math.isfinite(high)
        assert low < high
        assert len(chart.figure.layout.yaxis.ticktext) == len(set(chart.figure.layout.yaxis.ticktext))


@pytest.mark.parametrize("export", ["svg", "png"])
def test_a_picture_is_named_after_its_page_and_metric(receipt, curve, export):
    """The camera button is always there, and nothing else beside it."""
    for chart in figures.charts(receipt, curve, export=export, stem="head_failed_0123"):
        assert chart.config["modeBarButtons"] == [["toImage"]]
        assert chart.config["displayModeBar"] is True
        options = chart.config["toImageButtonOptions"]
        assert (options["format"], options["filename"]) == (export, f"head_failed_0123_{chart.metric}")


def test_the_gates_that_fail_are_named_for_every_k(curve, receipt):
    """As the receipt's own verdicts would name them."""
    hover = Hover(KCurve(receipt, curve))
    for k in (1, 8, 16, 20, 72):
        (candidate,) = judge(curve, replace(receipt.config, candidate_ks=(k,))).candidate_results
        assert hover.failing[k - 1] == words.failing(verdicts(candidate, receipt.config))


@pytest.mark.parametrize("most_rows", [1, 2, 7, 72, 512, 100_000])
@pytest.mark.parametrize("log", [None, True, False])
def test_ticks_of_k_keep_their_distance(most_rows, log):
    """However many candidates there are, labels do not touch; the selected k always has one."""
    selected = min(5, most_rows)
    axis = KAxis.over(most_rows, log)
    ticks = plotly_axis.k_ticks(axis, selected, range(1, min(most_rows, 200) + 1))
    places = [axis.share(float(k)) for k in ticks]
    assert selected in ticks
    assert all(after - before >= 0.07 for before, after in pairwise(places))
    assert all(1 <= k <= most_rows for k in ticks)


@pytest.mark.parametrize("log", [True, False])
def test_a_chart_of_candidates_only_claims_nothing_between_them(curve, log):
    """A line joins what was measured; neither a smallest k nor a crossing is told."""
    config = CapturedReplayConfig((64, 8, 200), **PASSING)
    receipt = judge(curve, config)
    sparse = CapturedMeasurement((64, 8, 200), curve.queries.take(np.array([63, 7, 71])), "made-up", fixture_facts())
    chart = by_metric(receipt, sparse, log=log)["output_cosine_mean"]
    assert list(trace(chart, "every k").x) == [8, 64, 72]
    assert list(trace(chart, "every k").y) == [curve.metrics["output_cosine_mean"][k - 1] for k in (8, 64, 72)]
    view = View(KCurve(receipt, sparse), words.METRIC_BY_NAME["output_cosine_mean"])
    assert view.alt.startswith("Output cosine at the candidate ks; higher is better, gate: at least 0.73. It is 0.6713")
    assert "every k" not in view.alt
    assert "smallest" not in view.alt


@pytest.mark.parametrize(("value", "text"), [(12345.678, "12346"), (0.123456789, "0.123456789"), (1e9, "1e+09")])
def test_a_threshold_is_told_as_it_was_typed(curve, receipt, value, text):
    """In the chart's rule with every digit, at its line in a few, neither as a power of ten below a million."""
    gate = GATES[1]
    chart = by_metric(judge(curve, replace(receipt.config, max_output_mse=value)), curve)[gate.metric]
    assert words.rule(gate, value) == f"at most {words.number(value, 12)}"
    assert f"gate: at most {words.number(value, 12)}" in chart.figure.layout.title.subtitle.text
    assert f"≤ {words.number(value, 4)}" in chart.figure.layout.annotations[0].text
    assert words.number(value, 9 if value < 1.0 else 4) == text
