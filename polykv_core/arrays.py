"""Array types, and sums whose digits do not depend on how many threads BLAS has.

Axis names in shapes, everywhere: q query, t token, d dim, v vocab, b block, n codeword, k candidate k.
"""

import numpy as np
from jaxtyping import Bool, Float, Float16, Float32, Float64, Int8, Int64, UInt8, UInt16, UInt32, UInt64

__all__ = [
    "U64_MASK",
    "Array",
    "Bool",
    "Float",
    "Float16",
    "Float32",
    "Float64",
    "Int8",
    "Int64",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "as_float32",
    "contract",
    "contract_to_float32",
    "frozen",
    "multiply_add",
    "sum_in_order",
]

Array = np.ndarray
U64_MASK = 2**64 - 1


def as_float32(values: Float[Array, "*shape"]) -> Float32[Array, "*shape"]:
    """Round to float32; what is too large becomes infinite without a warning (callers check or fail on it)."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32)


def frozen(array: Array) -> Array:
    """The array, made read-only: records that are shared and cached must not change under anybody's hands."""
    array.setflags(write=False)
    return array


def contract(rows: Float[Array, "m d"], matrix: Float[Array, "d n"]) -> Float[Array, "m n"]:
    """Rows @ matrix, each entry summed strictly from the first d to the last, in the arguments' own dtype.

    Not BLAS: BLAS splits its work by the number of threads, and the last digits with it. einsum runs the last axis in
    its inner loop and adds one d after the other, as a plain loop in the reference does; a single column would leave it
    no such inner loop.
    """
    if matrix.shape[1] == 1:
        return sum_in_order(rows * matrix[:, 0])[:, None]
    return np.einsum("md,dn->mn", rows, np.ascontiguousarray(matrix))


def contract_to_float32(rows: Float64[Array, "m d"], matrix: Float64[Array, "d n"]) -> Float32[Array, "m n"]:
    """What `contract` gives, rounded to float32, to the last bit, for rows and columns of any order of summing.

    A matrix product of BLAS only proposes. In float64 the order of a sum moves it by less than its length times
    epsilon; a row where so little could round another way, about one in a thousand, is summed in order.
    """
    proposed = rows @ matrix
    reach = 4.0 * len(matrix) * np.finfo(np.float64).eps * _lengths(rows)[:, None] * _lengths(matrix.T)
    rounded = as_float32(proposed + reach)
    doubtful = np.flatnonzero((as_float32(proposed - reach) != rounded).any(axis=1))
    rounded[doubtful] = as_float32(contract(rows[doubtful], matrix))
    return rounded


def multiply_add(a: Float32[Array, "*shape"], b: Array, c: Array) -> Float32[Array, "*shape"]:
    """The fused a * b + c of the reference: rounded to float32 once, at the end."""
    return as_float32(a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64))


def _lengths(rows: Float64[Array, "m d"]) -> Float64[Array, " m"]:
    return np.sqrt(np.einsum("md,md->m", rows, rows))


def sum_in_order(values: Float[Array, "*shape m"]) -> Float[Array, "*shape"]:
    """Sum over the last axis in the values' own dtype, from first to last, as a plain loop does.

    np.sum adds in pairs, which rounds differently; cumsum is sequential by definition.
    """
    if values.shape[-1] == 0:
        return np.zeros(values.shape[:-1], dtype=values.dtype)
    return np.cumsum(values, axis=-1)[..., -1]
