"""FibQuant: rotate, cut into blocks, keep each block's nearest codeword and the row's length in fp16.

The shared pool's codec. Source: FibQuant, radial-angular vector quantisation with a Fibonacci/Roberts codebook.
"""

from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple, no_type_check

import numpy as np
from cachetools import LRUCache, cached

from polykv_core.arrays import U64_MASK, Array, Float16, Float32, Float64, UInt8, UInt16, frozen, sum_in_order
from polykv_core.codecs.base import KEPT_BYTES, MAX_HEAD_DIM, SEED_BYTES, RowName, as_bytes, packed_bits
from polykv_core.codecs.codebook import Codebook, NearestCodeword
from polykv_core.codecs.kept_codebooks import codebook_of
from polykv_core.errors import CodecError
from polykv_core.rotation import QrRotation

# Lengths between these fit into fp16, however they are rounded.
_SHORT, _LONG = 1e-4, 6e4
_CODEBOOK_SALT = 0x9E3779B97F4A7C15


class FibCodes(NamedTuple):
    """A codeword index for each block, and the row's length."""

    indices: UInt16[Array, "t b"]
    norms: Float16[Array, " t"]


@no_type_check  # takes what comes, and checks it itself
@dataclass(frozen=True)
class FibQuant:
    """Blocks of `block_dim` coordinates, `codeword_count` codewords (2 to 4096). The reference: 4 and 32."""

    block_dim: int = 4
    codeword_count: int = 32

    def __post_init__(self) -> None:
        """Refuse settings that make no codebook."""
        whole = type(self.block_dim) is int and type(self.codeword_count) is int
        if not whole or self.block_dim not in (4, 8) or not 2 <= self.codeword_count <= 4096:
            raise CodecError(
                f"fib_quant with block_dim {self.block_dim} and {self.codeword_count} codewords; "
                "expected block_dim 4 or 8 and 2 to 4096 codewords"
            )

    @property
    def id(self) -> str:
        """Short name, as the reference writes it."""
        return f"fib_k{self.block_dim}_n{self.codeword_count}"

    @property
    def index_bits(self) -> int:
        """Bits of one codeword index."""
        return (self.codeword_count - 1).bit_length()

    def check_head_dim(self, head_dim: int) -> None:
        """head_dim must be a multiple of block_dim and larger."""
        if head_dim % self.block_dim or not self.block_dim < head_dim <= MAX_HEAD_DIM:
            raise CodecError(
                f"head_dim is {head_dim}; {self.id} needs a multiple of {self.block_dim} larger than {self.block_dim} "
                f"and at most {MAX_HEAD_DIM}"
            )

    def check_rows(self, rows: Float32[Array, "t d"], name: RowName) -> None:
        """A row's length must be a finite, positive fp16."""
        if _clearly_fit(rows):
            return
        lengths = _lengths(rows)
        stored = _stored(lengths)
        wrong = np.flatnonzero(~(np.isfinite(stored) & (stored > 0)))
        if len(wrong):
            row = int(wrong[0])
            fault = "is all zeros" if lengths[row] == 0 else f"has length {lengths[row]:.6g}, which fp16 cannot hold"
            raise CodecError(f"{name(row)} {fault}; {self.id} needs rows of a length from 2.98e-08 to 65519")

    def coder(self, head_dim: int, seed: int) -> "FibCoder":
        """The coder of a pool seed (cached)."""
        self.check_head_dim(head_dim)
        return cached_coder(self, head_dim, seed)


class FibCoder:
    """Rotation and codebook for one head size and seed."""

    codes_query = True

    def __init__(self, codec: FibQuant, head_dim: int, seed: int) -> None:
        """Draw the rotation and train the codebook."""
        self.head_dim = head_dim
        self.block_dim = codec.block_dim
        self.index_bits = codec.index_bits
        self.rotation = QrRotation(head_dim, seed)
        self.codebook: Codebook = codebook_of(
            head_dim, codec.block_dim, codec.codeword_count, (seed + _CODEBOOK_SALT) & U64_MASK
        )
        self.nbytes = self.rotation.nbytes + 4 * codec.codeword_count * (codec.codeword_count + 2 * codec.block_dim)
        words = self.codebook.codewords
        self._gram = frozen(sum_in_order(words[:, None, :] * words))

    def encode(self, rows: Float32[Array, "t d"]) -> FibCodes:
        """Codes of rows. In a batch of 4 or more the unit vectors are rounded to float32, as the reference does."""
        lengths = _lengths(rows)
        units = rows / lengths[:, None]
        if len(rows) >= 4:
            units = units.astype(np.float32).astype(np.float64)
        return FibCodes(self._quantise(units), _stored(lengths))

    def decode(self, codes: FibCodes) -> Float32[Array, "t d"]:
        """Codewords, rotated back, times the stored length."""
        blocks = self.codebook.codewords[codes.indices]
        rows = self.rotation.inverse(blocks.reshape(-1, self.head_dim))
        return rows * codes.norms.astype(np.float32)[:, None]

    def score(self, codes: FibCodes, query: Float32[Array, " d"]) -> Float32[Array, " t"]:
        """The query is quantised as well; inner products of codewords are looked up and added in float32."""
        length = _lengths(query[None])
        if length[0] == 0.0:
            return np.zeros(len(codes.norms), dtype=np.float32)
        indices = self.query_indices(query)
        inner = sum_in_order(self._gram[indices, codes.indices])
        with np.errstate(over="ignore"):
            return inner * length.astype(np.float32) * codes.norms.astype(np.float32)

    def query_indices(self, query: Float32[Array, " d"]) -> UInt16[Array, " b"]:
        """Codeword indices of a query that is not zero; its unit vector is never rounded to float32."""
        return self._quantise(query[None] / _lengths(query[None])[:, None])[0]

    def pack(self, codes: FibCodes) -> UInt8[Array, "t bytes"]:
        """The wire form of the indices: index_bits bits each, little-endian bit order."""
        return packed_bits(codes.indices, self.index_bits)

    def wire(self, codes: FibCodes) -> UInt8[Array, "t bytes"]:
        """The packed indices and the length in fp16."""
        return np.concatenate([self.pack(codes), as_bytes(codes.norms)], axis=1)

    @property
    def table_bytes(self) -> int:
        """The codebook in float32, and the seed of the rotation."""
        return 4 * self.codebook.codewords.size + SEED_BYTES

    def _quantise(self, units: Float64[Array, "t d"]) -> UInt16[Array, "t b"]:
        blocks = self.rotation.forward(units).reshape(-1, self.block_dim)
        nearest = NearestCodeword(blocks)(self.codebook.codewords)
        return nearest.astype(np.uint16).reshape(-1, self.head_dim // self.block_dim)


@cached(LRUCache(maxsize=KEPT_BYTES, getsizeof=lambda coder: coder.nbytes), lock=Lock())
def cached_coder(codec: FibQuant, head_dim: int, seed: int) -> FibCoder:
    """The one coder of these settings, head size and seed, made when first asked for."""
    return FibCoder(codec, head_dim, seed)


def _lengths(rows: Float32[Array, "t d"]) -> Float64[Array, " t"]:
    wide = rows.astype(np.float64)
    return np.sqrt(np.cumsum(wide * wide, axis=1)[:, -1])


def _clearly_fit(rows: Float32[Array, "t d"]) -> bool:
    """Whether the length of each row is far from all that fp16 cannot hold; told by a quick sum, in no order."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("td,td->t", rows, rows)
    return bool(((squares > _SHORT**2) & (squares < _LONG**2)).all())


def _stored(lengths: Float64[Array, " t"]) -> Float16[Array, " t"]:
    with np.errstate(over="ignore", under="ignore"):
        return lengths.astype(np.float32).astype(np.float16)
