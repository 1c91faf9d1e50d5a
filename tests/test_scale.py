"""The fitted scale: planted ones are found, one odd query moves none, and how near it comes is what plain sums say."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polykv_core import CapturedReplayFixture, fit_scale
from polykv_core.scale import FITS

SHARES = (0.9, 0.7, 0.4)
ARRAYS = ("query", "keys", "values", "exact_attention_output")


def attention(query, keys, values, scale):
    """Softmax attention in float64."""
    scores = scale * (keys.astype(np.float64) @ query.astype(np.float64))
    weights = np.exp(scores - scores.max())
    return weights / weights.sum() @ values.astype(np.float64)


def capture(scale, *, dim=8, queries=4, draw=0, factors=None, swapped=()):
    """Gaussian rows with the output of attention at a scale, times a factor per query; some have the next one's."""
    random = np.random.default_rng(draw)
    arrays = [
        (random.standard_normal(dim), random.standard_normal((20, dim)), random.standard_normal((20, dim)))
        for _ in range(queries)
    ]
    arrays = [tuple(array.astype(np.float32) for array in drawn) for drawn in arrays]
    outputs = [attention(*drawn, scale) for drawn in arrays]
    factors = factors or [1.0] * queries
    taken = [(index + 1) % queries if index in swapped else index for index in range(queries)]
    return fixture_of(
        dim,
        [(*drawn, outputs[source] * factor) for drawn, source, factor in zip(arrays, taken, factors, strict=True)],
    )


def fixture_of(dim, queries):
    """A fixture of (query, keys, values, output), with logits that do not matter here."""
    return CapturedReplayFixture.from_dict(
        {
            "schema_version": "poly_kv_captured_replay_fixture_v1",
            "model_id": "made-on-the-spot",
            "head_dim": dim,
            "shared_tokens": 1,
            "seed": 0,
            "output_projection": np.ones((2, dim), np.float32),
            "queries": [
                {
                    **{name: np.asarray(array, np.float32) for name, array in zip(ARRAYS, query, strict=True)},
                    "exact_logits": [0.0, 0.0],
                    "label_token": 0,
                }
                for query in queries
            ],
        }
    )


def with_query(fixture, index, place, change):
    """The fixture with one array of one query changed."""
    queries = [[np.array(getattr(query, name)) for name in ARRAYS] for query in fixture.queries]
    queries[index][place] = change(queries[index][place])
    return fixture_of(fixture.head_dim, queries)


def missed(fixture, scale):
    """How far attention at a scale is from each captured output, as a share of the latter's length."""
    captured = [query.exact_attention_output.astype(np.float64) for query in fixture.queries]
    outputs = [attention(query.query, query.keys, query.values, scale) for query in fixture.queries]
    return [math.dist(o, c) / math.hypot(*c) for o, c in zip(outputs, captured, strict=True)]


@pytest.mark.parametrize("draw", range(4))
@pytest.mark.parametrize("dim", [16, 64])
@pytest.mark.parametrize("planted", ["1", "1/sqrt(d)", "0.3"])
def test_a_planted_scale_is_found(planted, dim, draw):
    """1 and 1/sqrt(d) by their names and to the last digit, another without a name; the output is met."""
    scale = {"1": 1.0, "1/sqrt(d)": 1.0 / math.sqrt(dim), "0.3": 0.3}[planted]
    fit = fit_scale(capture(scale, dim=dim, draw=draw))
    assert fit.named == {"1": "1", "1/sqrt(d)": f"1/sqrt({dim})", "0.3": ""}[planted]
    assert fit.scale == (pytest.approx(0.3, rel=1e-4) if planted == "0.3" else scale)
    assert fit.error < 1e-5
    assert fit.fits


@given(steps=st.floats(-1.5, 1.5), draw=st.integers(0, 99), dim=st.sampled_from([4, 8, 32]))
def test_any_scale_is_found(steps, draw, dim):
    """From a thirtieth to thirty times 1/sqrt(d), to four digits; a name is given only to what is that close to it."""
    scale = 10.0**steps / math.sqrt(dim)
    fit = fit_scale(capture(scale, dim=dim, queries=3, draw=draw))
    assert fit.scale == pytest.approx(scale, rel=1e-4)
    assert fit.error < 1e-4
    assert fit.fits


def test_a_scale_next_to_a_named_one_is_not_taken_for_it():
    """One per cent off 1/sqrt(d) is another scale."""
    fit = fit_scale(capture(1.01 / 4.0, dim=16))
    assert fit.named == ""
    assert fit.scale == pytest.approx(1.01 / 4.0, rel=1e-4)


@given(scale=st.sampled_from([1.0, 0.3, 0.1]), draw=st.integers(0, 99), odd=st.booleans())
def test_the_errors_are_what_plain_attention_misses(scale, draw, odd):
    """For each query, at the scale found, whether it fits or not."""
    fixture = capture(scale, draw=draw, swapped=(1,) if odd else ())
    fit = fit_scale(fixture)
    assert fit.errors.tolist() == pytest.approx(missed(fixture, fit.scale), rel=1e-9, abs=1e-12)
    assert fit.error == pytest.approx(sum(fit.errors) / len(fit.errors))


@given(draw=st.integers(0, 99))
def test_no_scale_on_a_grid_comes_nearer(draw):
    """Of outputs with noise, which no scale gives: the mean bounded error is the least, up to 5 % for a name."""
    random = np.random.default_rng(draw)
    queries = [[getattr(query, name) for name in ARRAYS] for query in capture(0.3, draw=draw).queries]
    noisy = fixture_of(
        8, [(*rows, output + 0.2 * random.standard_normal(8) * np.std(output)) for *rows, output in queries]
    )

    def bounded(errors):
        return np.mean([error / (1.0 + error) for error in errors])

    least = min(bounded(missed(noisy, scale)) for scale in np.geomspace(1e-2, 30.0, 200))
    fit = fit_scale(noisy)
    assert not fit.fits
    assert bounded(fit.errors) <= 1.05 * least + 1e-6


@pytest.mark.parametrize("odd", range(4))
def test_a_query_with_another_s_output_moves_nothing(odd):
    """The scale of the others is found as if it were not there, and it alone does not fit."""
    fit = fit_scale(capture(0.3, swapped=(odd,)))
    assert fit.scale == pytest.approx(0.3, rel=1e-4)
    assert np.flatnonzero(fit.errors > FITS).tolist() == [odd]
    assert np.flatnonzero(fit.directions > FITS).tolist() == [odd]
    assert not fit.fits
    assert fit.middle_error < 1e-4


def test_a_shortened_output_is_found_by_its_direction():
    """As an extra logit without a value shortens it: the scale, and what factor each query's output was taken times."""
    fit = fit_scale(capture(0.3, factors=[*SHARES, 0.7]))
    assert not fit.fits
    assert fit.direction_scale == pytest.approx(0.3, rel=1e-4)
    assert fit.directions.max() < 1e-4
    assert fit.factors.tolist() == pytest.approx([*SHARES, 0.7], rel=1e-4)


def test_an_output_as_it_is_has_factor_1():
    """Where attention fits, stretching it changes nothing: one scale for both."""
    fit = fit_scale(capture(0.3))
    assert fit.direction_scale == fit.scale
    assert fit.factors.tolist() == pytest.approx([1.0] * 4, abs=1e-4)
    assert (fit.directions <= fit.errors + 1e-12).all()


def test_where_every_scale_fits_the_models_own_is_named():
    """A query of zeros weighs all rows alike at any scale."""
    random = np.random.default_rng(0)
    keys, values = random.standard_normal((2, 6, 8)).astype(np.float32)
    fit = fit_scale(fixture_of(8, [(np.zeros(8), keys, values, values.mean(axis=0))]))
    assert (fit.named, fit.scale) == ("1/sqrt(8)", 1.0 / math.sqrt(8))
    assert fit.fits


@pytest.mark.parametrize("value", [3e38, -3e38, 1e-38, 0.0])
@pytest.mark.parametrize("place", range(4), ids=ARRAYS)
def test_extreme_numbers_give_finite_ones_and_no_warning(place, value):
    """As large, or as small, as float32 holds, in any of a query's arrays."""
    fit = fit_scale(with_query(capture(0.3), 2, place, lambda array: np.full_like(array, value)))
    assert 1e-3 / math.sqrt(8) <= fit.scale <= 1e2 / math.sqrt(8)
    for numbers in (fit.errors, fit.directions, fit.factors):
        assert np.isfinite(numbers).all()


@pytest.mark.parametrize(("array", "factor"), [("values", 1e3), ("exact_attention_output", 0.0)])
def test_a_query_that_misses_by_many_lengths_moves_nothing(array, factor):
    """Its values a thousand times too long, or its output lost: the others keep their scale, and it alone is off."""
    fit = fit_scale(with_query(capture(0.3), 2, ARRAYS.index(array), lambda rows: rows * factor))
    assert fit.scale == pytest.approx(0.3, rel=1e-4)
    assert np.flatnonzero(fit.errors > FITS).tolist() == [2]
