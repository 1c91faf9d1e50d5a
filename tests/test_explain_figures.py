"""The Explain page's charts and sentences, from explanations of small fixtures."""

import re

import numpy as np
import pytest
from support import encoded, fixture_fields

from pages.ui import ladder, microscope, query_rows
from polykv_core import GATES, explain, load_fixture, what_would_help
from polykv_core.ladder import in_words, loss

FIXTURE = load_fixture(encoded(fixture_fields(head_dim=16, rows=40, shared=24, queries=5)))
EXPLANATION = explain(FIXTURE, 6)


@pytest.mark.parametrize("metric", [gate.metric for gate in GATES])
def test_the_ladder_s_bars_add_up_to_the_whole_loss(metric):
    """A bar for each stage with what it adds, and one for the sum, which is the replay's loss."""
    (bars,) = ladder.waterfall(EXPLANATION.stages, metric).data
    *added, whole = bars.y
    assert list(added) == [stage.added[metric] for stage in EXPLANATION.stages]
    assert whole == pytest.approx(sum(added), abs=1e-12)
    assert list(bars.measure) == ["relative"] * 5 + ["total"]
    assert in_words(EXPLANATION.stages, metric).count(" adds ") == 5


def test_what_only_rounding_leaves_is_no_loss():
    """1e-16 is shown as 0; a loss of a millionth is not."""
    assert loss(-1.2e-14) == "0"
    assert loss(1.5e-6) == "1.5e-06"


def test_changes_are_marked_better_or_worse_by_their_direction():
    """Up where the metric is nearer its best than as replayed; nothing where the same is printed."""
    changes = what_would_help(FIXTURE, EXPLANATION)
    base = changes[0].metrics
    assert not any(mark in cell for cell in ladder._cells(base, base).values() for mark in "▲▼")
    exact = next(change.metrics for change in changes if change.name == "exact pool")
    for gate, cell in zip(GATES, ladder._cells(exact, base).values(), strict=True):
        value, before = (gate.gated(getattr(of, gate.metric)) for of in (exact, base))
        better = value > before if gate.side == "min" else value < before
        if f"{value:.5g}" != f"{before:.5g}":
            assert cell.startswith("▲" if better else "▼")


def test_a_scatter_holds_every_row_of_its_tier():
    """Exact against compressed scores of all queries, with the line on which both are the same."""
    for tier, count in zip(EXPLANATION.scores.tiers, (24 * 5, 16 * 5), strict=True):
        line, points = microscope.scatter(EXPLANATION.rows, tier).data
        assert len(points.x) == len(points.y) == count
        assert np.mean(np.array(points.y) - np.array(points.x)) == pytest.approx(tier.bias, rel=1e-5)
        assert list(line.x) == list(line.y)


def test_many_rows_are_thinned():
    """Some thousand points are enough to see a cloud."""
    _, points = microscope.scatter(EXPLANATION.rows * 100, EXPLANATION.scores.tiers[0]).data
    assert 1000 <= len(points.x) <= 3000


def test_rows_without_weight_are_left_out_of_the_chart():
    """Drawn are those with more than a millionth, exact or compressed."""
    rows = EXPLANATION.rows[0]
    figure = query_rows.weights(rows)
    drawn = np.flatnonzero(np.maximum(rows.exact_weights, rows.coded_weights) > 1e-6)
    exact, coded, dropped = figure.data
    assert list(exact.x) == list(coded.x) == drawn.tolist()
    assert list(dropped.x) == [row for row in drawn if not rows.read[row]]


def test_a_query_s_sentence_names_who_lost_and_who_gained():
    """By row and tier, with both weights; and what the rows that were not read had held."""
    rows = EXPLANATION.rows[1]
    said = query_rows.in_words(rows, 1)
    moved = rows.coded_weights - rows.exact_weights
    lost, gained = re.findall(r"row (\d+) \((pool|shell)\)", said)[-2:]
    assert int(lost[0]) == int(np.argmin(moved))
    assert int(gained[0]) == int(np.argmax(moved))
    assert lost[1] == ("pool" if int(lost[0]) < 24 else "shell")
    held = 100 * rows.exact_weights[~rows.read].sum()
    assert f"The rows dropped held {held:.3g} % of the exact weight" in said


@pytest.mark.parametrize("metric", [gate.metric for gate in GATES])
def test_the_worst_query_stands_first(metric):
    """Worst by the metric that is asked for: the farthest from its best value."""
    order = query_rows.worst_first(EXPLANATION, metric)
    assert sorted(order.tolist()) == list(range(5))
    if metric == "output_cosine_mean":
        assert order.tolist() == np.argsort(EXPLANATION.queries.cosine[:, 0], kind="stable").tolist()
    if metric == "kl_divergence_mean":
        assert order[0] == np.argmax(EXPLANATION.queries.kl[:, 0])
