"""Random rotations that spread a row's energy evenly over its coordinates before it is quantised."""

import numpy as np

from polykv_core.arrays import (
    U64_MASK,
    Array,
    Float,
    Float32,
    Float64,
    as_float32,
    contract,
    contract_to_float32,
    frozen,
)
from polykv_core.streams import booleans, standard_normals

_HADAMARD_SALT = 0xA11CE55ED5A5EED5


def orthogonal_factor(matrix: Float[Array, "d d"]) -> Float64[Array, "d d"]:
    """Q of the QR factorisation whose R has no negative diagonal entry, by Householder reflections.

    Not LAPACK's: that one's last digits depend on the number of BLAS threads. The loop runs once a column and only when
    a rotation is made, not when it is used.
    """
    dim = len(matrix)
    # Reflecting [A | I] turns it into [R | Q^T].
    both = np.concatenate([matrix.astype(np.float64), np.eye(dim)], axis=1)
    for column in range(dim):
        rest = both[column:, column:]
        v = rest[:, 0].copy()
        length = np.sqrt(np.add.reduce(v * v))
        # Away from the column, for accuracy; the row is turned so that R's diagonal entry is positive.
        sign = np.copysign(1.0, v[0])
        v[0] += sign * length
        v *= np.sqrt(1.0 / (length * np.abs(v[0])))
        rest -= v[:, None] * np.einsum("i,ij->j", v, rest)
        rest[0] *= -sign
    return both[:, dim:].T


class QrRotation:
    """Rotation by the orthogonal factor of a Gaussian matrix, filled column by column from a seed's normals."""

    def __init__(self, dim: int, seed: int, dtype: type[np.floating] = np.float64) -> None:
        """Build the rotation. `dtype` is what normals and matrix are rounded to for rotating forward."""
        normals = standard_normals(seed, dim * dim).astype(dtype)
        matrix = orthogonal_factor(normals.reshape(dim, dim).T).astype(dtype)
        self._forward = frozen(np.ascontiguousarray(matrix.T))
        self._inverse = frozen(np.ascontiguousarray(matrix, dtype=np.float32))

    @property
    def nbytes(self) -> int:
        """Memory of the tables."""
        return self._forward.nbytes + self._inverse.nbytes

    @property
    def matrix(self) -> Float[Array, "d d"]:
        """Q."""
        return self._forward.T

    def forward(self, rows: Float[Array, "t d"]) -> Float32[Array, "t d"]:
        """Each row x as Q x, rounded to float32."""
        if rows.dtype == np.float64:
            return contract_to_float32(rows, self._forward)
        return as_float32(contract(rows, self._forward))

    def inverse(self, rows: Float32[Array, "t d"]) -> Float32[Array, "t d"]:
        """Each row y as y^T Q, all in float32."""
        return contract(rows, self._inverse)


class HadamardRotation:
    """Random signs, then the fast Walsh-Hadamard transform; the dimension is a power of two. All in float32."""

    def __init__(self, dim: int, seed: int) -> None:
        """Draw the signs."""
        positive = booleans((seed + _HADAMARD_SALT) & U64_MASK, dim)
        self._signs = frozen(np.where(positive, np.float32(1.0), np.float32(-1.0)))
        self._scale = np.float32(1.0) / np.sqrt(np.float32(dim))
        self.nbytes = self._signs.nbytes

    def forward(self, rows: Float32[Array, "t d"]) -> Float32[Array, "t d"]:
        """Signs, butterflies, scale."""
        return _butterflies(rows.astype(np.float32) * self._signs) * self._scale

    def inverse(self, rows: Float32[Array, "t d"]) -> Float32[Array, "t d"]:
        """Butterflies, scale, signs."""
        return _butterflies(rows) * self._scale * self._signs


@np.errstate(over="ignore", invalid="ignore")
def _butterflies(rows: Float32[Array, "t d"]) -> Float32[Array, "t d"]:
    count, dim = rows.shape
    step = 1
    while step < dim:
        pairs = rows.reshape(count, dim // (2 * step), 2, step)
        low, high = pairs[:, :, 0], pairs[:, :, 1]
        turned = np.empty_like(pairs)
        np.add(low, high, out=turned[:, :, 0])
        np.subtract(low, high, out=turned[:, :, 1])
        rows = turned.reshape(count, dim)
        step *= 2
    return rows
