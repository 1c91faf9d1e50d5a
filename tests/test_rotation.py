"""Rotations keep lengths and angles, undo themselves, and treat each row alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import gaussian

from polykv_core.rotation import HadamardRotation, QrRotation, orthogonal_factor

seeds = st.integers(0, 2**64 - 1)
ROTATIONS = [
    pytest.param(lambda seed: QrRotation(12, seed), 12, id="qr-f64"),
    pytest.param(lambda seed: QrRotation(10, seed, np.float32), 10, id="qr-f32"),
    pytest.param(lambda seed: HadamardRotation(16, seed), 16, id="hadamard"),
    pytest.param(lambda seed: HadamardRotation(2, seed), 2, id="hadamard-2"),
]


@pytest.mark.parametrize(("make", "dim"), ROTATIONS)
@given(seed=seeds)
def test_inverse_undoes_forward(make, dim, seed):
    """There and back again is the same row, within float32."""
    rotation, rows = make(seed), gaussian(5, dim)
    np.testing.assert_allclose(rotation.inverse(rotation.forward(rows)), rows, rtol=0, atol=5e-6)


@pytest.mark.parametrize(("make", "dim"), ROTATIONS)
@given(seed=seeds)
def test_inner_products_are_kept(make, dim, seed):
    """A rotation changes no inner product between two rows."""
    rotation, rows = make(seed), gaussian(5, dim)
    turned = rotation.forward(rows)
    np.testing.assert_allclose(turned @ turned.T, rows @ rows.T, rtol=0, atol=2e-5)


@pytest.mark.parametrize(("make", "dim"), ROTATIONS)
def test_a_row_is_rotated_as_if_it_were_alone(make, dim):
    """The other rows of a batch change no digit."""
    rotation, rows = make(9), gaussian(33, dim)
    for turn in (rotation.forward, rotation.inverse):
        alone = np.concatenate([turn(rows[index : index + 1]) for index in range(len(rows))])
        np.testing.assert_array_equal(turn(rows), alone)


@pytest.mark.parametrize(("make", "dim"), ROTATIONS)
def test_the_seed_decides(make, dim):
    """The same seed makes the same rotation; another seed another one (dim 2 has few Hadamard rotations)."""
    rows = gaussian(3, dim)
    np.testing.assert_array_equal(make(1).forward(rows), make(1).forward(rows))
    others = [make(seed).forward(rows) for seed in range(2, 12)]
    assert any(not np.array_equal(make(1).forward(rows), other) for other in others)


@given(draw=st.integers(0, 10_000), dim=st.integers(1, 12))
def test_the_factor_is_that_of_a_qr_with_a_positive_diagonal(draw, dim):
    """Q is orthogonal, and Q^T M is upper triangular with no negative diagonal entry."""
    matrix = np.random.default_rng(draw).standard_normal((dim, dim))
    q = orthogonal_factor(matrix)
    r = q.T @ matrix
    np.testing.assert_allclose(q.T @ q, np.eye(dim), atol=1e-12)
    np.testing.assert_allclose(np.tril(r, -1), 0.0, atol=1e-12)
    assert (np.diag(r) >= 0.0).all()


def test_a_qr_rotation_keeps_its_tables_from_being_written():
    """Coders are cached and shared: a rotation's matrix cannot be changed under their hands."""
    with pytest.raises(ValueError, match="read-only"):
        QrRotation(8, 1).matrix[0, 0] = 2.0
