"""The axes of charts: linear or logarithmic, with room, and with ticks that tell apart."""

import math

import pytest

from polykv_core.axis import Axis, KAxis


@pytest.mark.parametrize(
    ("values", "log"),
    [
        ([0.1, 0.5], False),
        ([0.001, 0.5], True),
        ([0.0, 0.5], False),
        ([0.0, 0.001, 0.5], True),
        ([-1.0, 0.001, 900.0], False),
        ([math.nan], False),
    ],
)
def test_values_far_apart_get_a_logarithmic_axis(values, log):
    """By itself only where none is negative; either way every finite value has a place on the axis."""
    axis = Axis.around(values, best=0.0)
    assert axis.log == log
    assert all(axis.low < axis.place(value) < axis.high for value in values if math.isfinite(value))


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-3.0, 7.0), (0.97123401, 0.97123409), (1e-9, 1e9), (0.3, 0.8), (5.0, 40.0)]
)
@pytest.mark.parametrize("log", [True, False])
def test_ticks_are_few_and_tell_apart(low, high, log):
    """From two to ten round values inside the axis, no two with the same text."""
    axis = Axis.around([low, high], best=high, log=log)
    ticks, texts = zip(*axis.ticks, strict=True)
    assert 2 <= len(ticks) <= 10
    assert len(set(texts)) == len(ticks)
    assert all(axis.low <= axis.place(tick) <= axis.high for tick in ticks)


def test_few_rows_get_a_linear_k_axis_and_many_a_logarithmic_one():
    """Where nobody asks for either."""
    assert not KAxis.over(8).log
    assert KAxis.over(512).log


@pytest.mark.parametrize("log", [True, False])
def test_every_value_has_a_share_of_its_axis(log):
    """What the axis is made around lies on it, a zero at least on its floor; other values may be beyond an end."""
    axis = Axis.around([0.0, 0.001, 0.5], best=0.0, log=log)
    shares = [axis.share(value) for value in (0.0, 0.001, 0.5)]
    assert 0.0 < shares[0] < shares[1] < shares[2] < 1.0
    assert [axis.beyond(value) for value in (0.0, 0.5, 1e9)] == [0, 0, 1]
    assert axis.beyond(-1e9) == (0 if log else -1), "below a logarithmic axis is its floor"


@pytest.mark.parametrize("most_rows", [1, 2, 72, 5000])
@pytest.mark.parametrize("log", [None, True, False])
def test_both_ends_of_the_k_axis_have_some_room(most_rows, log):
    """The same at either end; a single row stands in the middle."""
    axis = KAxis.over(most_rows, log)
    first, last = axis.share(1.0), axis.share(float(most_rows))
    assert first == pytest.approx(1.0 - last)
    assert 0.0 < first <= last < 1.0
