"""Sums run strictly from first to last, so that their digits depend on nothing but the numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polykv_core import arrays
from polykv_core.arrays import as_float32, contract, contract_to_float32, frozen, sum_in_order

dtypes = st.sampled_from([np.float32, np.float64])
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "every second column": lambda array: np.repeat(array, 2, axis=1)[:, ::2],
    "every second row": lambda array: np.repeat(array, 2, axis=0)[::2],
}


def looped(rows, matrix):
    """The product rows @ matrix as a plain loop adds it up: one d after the other, rounding after each step."""
    total = np.zeros((len(rows), matrix.shape[1]), dtype=rows.dtype)
    for d in range(rows.shape[1]):
        total = total + rows[:, d : d + 1] * matrix[d]
    return total


@given(
    m=st.integers(1, 9),
    d=st.integers(1, 70),
    n=st.integers(1, 40),
    dtype=dtypes,
    left=st.sampled_from(sorted(LAYOUTS)),
    right=st.sampled_from(sorted(LAYOUTS)),
    draw=st.integers(0, 99),
)
def test_a_product_adds_in_order(m, d, n, dtype, left, right, draw):
    """The function contract equals the plain loop to the last digit, for every shape and memory layout."""
    random = np.random.default_rng(draw)
    rows = random.standard_normal((m, d)).astype(dtype)
    matrix = random.standard_normal((d, n)).astype(dtype)
    product = contract(LAYOUTS[left](rows), LAYOUTS[right](matrix))
    assert product.dtype == dtype
    np.testing.assert_array_equal(product, looped(rows, matrix))


@given(m=st.integers(0, 5), d=st.integers(0, 40), dtype=dtypes, draw=st.integers(0, 99))
def test_a_sum_adds_in_order(m, d, dtype, draw):
    """sum_in_order equals the plain loop to the last digit; an empty sum is 0."""
    values = np.random.default_rng(draw).standard_normal((m, d)).astype(dtype)
    total = np.zeros(m, dtype=dtype)
    for column in values.T:
        total = total + column
    np.testing.assert_array_equal(sum_in_order(values), total)
    assert sum_in_order(values).dtype == dtype


def test_pairwise_sums_would_differ():
    """The order matters at all: numpy's own sum gives other digits on these numbers."""
    values = np.random.default_rng(0).standard_normal((50, 200)).astype(np.float32)
    assert (np.sum(values, axis=1) != sum_in_order(values)).any()


def test_what_float32_cannot_hold_becomes_infinite_in_silence():
    """Rounding to float32 warns of nothing; callers look for infinities themselves."""
    assert as_float32(np.array([1e39, -1e39, 1.0])).tolist() == [np.inf, -np.inf, 1.0]


def test_a_frozen_array_cannot_be_written():
    """Writing to a frozen array is an error."""
    with pytest.raises(ValueError, match="read-only"):
        frozen(np.zeros(2))[0] = 1.0


@given(m=st.integers(0, 9), d=st.integers(1, 70), n=st.integers(1, 9), draw=st.integers(0, 99))
def test_a_proposed_product_is_rounded_as_the_one_in_order(m, d, n, draw):
    """To the last bit, whatever BLAS makes of it."""
    random = np.random.default_rng(draw)
    rows, matrix = random.normal(size=(m, d)), random.normal(size=(d, n))
    np.testing.assert_array_equal(contract_to_float32(rows, matrix), as_float32(contract(rows, matrix)))


def test_where_rounding_is_in_doubt_the_sum_in_order_decides(monkeypatch):
    """Sums that lie half-way between two float32, as far as any order of adding can tell, are added in order."""
    half_way = 1.0 + 2.0**-24  # between 1 and the next float32
    rows = np.array([[half_way, 1e-17, -1e-17], [1.0, 0.0, 0.0]])
    matrix = np.ones((3, 1))
    summed = []
    monkeypatch.setattr(arrays, "contract", lambda some, by: summed.append(len(some)) or contract(some, by))
    found = contract_to_float32(rows, matrix)
    assert summed == [1]
    np.testing.assert_array_equal(found, as_float32(contract(rows, matrix)))
