"""No compression: rows are kept as they are. What the other codecs are compared with."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polykv_core.arrays import Array, Float32, UInt8, sum_in_order
from polykv_core.codecs.base import RowName, as_bytes


class ExactCodes(NamedTuple):
    """The rows themselves."""

    rows: Float32[Array, "t d"]


@dataclass(frozen=True)
class ExactCodec:
    """Keeps float32 rows; any head size, any row, any seed."""

    @property
    def id(self) -> str:
        """Short name."""
        return "exact"

    def check_head_dim(self, head_dim: int) -> None:
        """Every head size will do."""

    def check_rows(self, rows: Float32[Array, "t d"], name: RowName) -> None:
        """Every finite row will do."""

    def coder(self, head_dim: int, seed: int) -> "ExactCoder":  # noqa: ARG002 (the contract's arguments)
        """The coder; the seed does not matter."""
        return ExactCoder()


class ExactCoder:
    """Copies in, copies out, plain inner products."""

    codes_query = False
    table_bytes = 0

    def encode(self, rows: Float32[Array, "t d"]) -> ExactCodes:
        """The rows, copied."""
        return ExactCodes(rows.astype(np.float32))

    def decode(self, codes: ExactCodes) -> Float32[Array, "t d"]:
        """The rows."""
        return codes.rows

    def score(self, codes: ExactCodes, query: Float32[Array, " d"]) -> Float32[Array, " t"]:
        """Inner products in float32, summed in index order as the reference does."""
        with np.errstate(over="ignore", invalid="ignore"):
            return sum_in_order(codes.rows * query)

    def wire(self, codes: ExactCodes) -> UInt8[Array, "t bytes"]:
        """The float32 numbers."""
        return as_bytes(codes.rows)
