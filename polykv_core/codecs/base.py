"""The contract of a codec.

A *codec* is a small frozen dataclass of settings. It knows which head sizes and rows it can hold, and makes a *coder*
for one head size and one seed. Coders hold the tables (rotation, codebook, sketch); making one may be dear, so they are
cached and shared, and nothing in them changes.

A coder
- encodes rows [t, d] to *codes*: a NamedTuple of arrays whose first axis is the token. What a row becomes does not
  depend on the other rows (FibQuant's one exception, batches below 4, is the reference's and stated there);
- decodes codes to rows [t, d] float32. A subset of codes decodes to the same subset of rows;
- scores codes against a query: an estimate of the inner product of the query with every encoded row, [t] float32;
- says whether it codes the query as well for that (`codes_query`); then decoded rows times the query is another score;
- packs codes to their wire form (`wire`): for each row the bytes that a cache would store, as many for every row, and
  codes that differ have bytes that differ. What is shared by all rows is counted apart (`table_bytes`): bytes that a
  cache must store beside the rows, where they cannot be made again from the seed.

The same settings, head size, seed and rows give the same codes to the last bit, on every machine and with any number of
threads. To add a codec: one file beside this one, and one line in CODECS. Every codec in that list is held to this
contract by tests/test_codec_contract.py.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from polykv_core.arrays import Array, Float32, UInt8, UInt16

Codes = Any  # a NamedTuple of arrays, the token as first axis; its type is the coder's own business
RowName = Callable[[int], str]

# A coder holds tables of head_dim^2 numbers, and making them takes head_dim^3 steps. No model's heads come near this.
MAX_HEAD_DIM = 1024
# Coders that each codec keeps for replaying the same seeds again; a FibQuant coder of head_dim 64 takes 0.05 MB.
KEPT_BYTES = 2**23
# A table that is made again from the seed costs the seed, a u64.
SEED_BYTES = 8


@runtime_checkable
class Coder(Protocol):
    """A codec bound to one head size and one seed."""

    @property
    def codes_query(self) -> bool:
        """Whether score quantises the query too."""

    def encode(self, rows: Float32[Array, "t d"]) -> Codes:
        """Rows to codes. The rows passed the codec's check_rows."""

    def decode(self, codes: Codes) -> Float32[Array, "t d"]:
        """Codes back to rows."""

    def score(self, codes: Codes, query: Float32[Array, " d"]) -> Float32[Array, " t"]:
        """Estimated inner product of the query with each encoded row."""

    def wire(self, codes: Codes) -> UInt8[Array, "t bytes"]:
        """What a cache would store of each row."""

    @property
    def table_bytes(self) -> int:
        """Bytes that a cache would store once, beside the rows."""


@runtime_checkable
class Codec(Protocol):
    """Settings of a compression scheme."""

    @property
    def id(self) -> str:
        """Short name, settings included."""

    def check_head_dim(self, head_dim: int) -> None:
        """Raise CodecError if rows of this size cannot be encoded."""

    def check_rows(self, rows: Float32[Array, "t d"], name: RowName) -> None:
        """Raise CodecError, with the name of the row, if one of these finite rows cannot be encoded."""

    def coder(self, head_dim: int, seed: int) -> Coder:
        """The coder for rows of this size and a u64 seed."""


def take(codes: Codes, tokens: Any) -> Codes:
    """The codes of some tokens (indices or a slice)."""
    return type(codes)(*(array[tokens] for array in codes))


def packed_bits(indices: UInt16[Array, "t n"], bits: int) -> UInt8[Array, "t bytes"]:
    """Indices of so many bits each, one after the other, lowest bit first; a row ends on a whole byte, with zeros."""
    single = indices[..., None] >> np.arange(bits, dtype=np.uint16) & np.uint16(1)
    return np.packbits(
        single.astype(np.uint8).reshape(len(indices), indices.shape[1] * bits), axis=-1, bitorder="little"
    )


def as_bytes(numbers: Array) -> UInt8[Array, "t bytes"]:
    """Each row's numbers as little-endian bytes."""
    rows = np.ascontiguousarray(numbers.reshape(len(numbers), math.prod(numbers.shape[1:])))
    return rows.astype(rows.dtype.newbyteorder("<"), copy=False).view(np.uint8)
