"""TurboQuant: rotate, keep each coordinate pair's radius and a coarse angle, and sketch what is left by signs.

The agent shell's codec. Sources: PolarQuant; QJL (the sign of a Gaussian projection estimates an inner product:
E[sign(g.x)(g.y)] = sqrt(2/pi) (x.y)/|x|); TurboQuant, which joins the two.
"""

from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple, no_type_check

import numpy as np
from cachetools import LRUCache, cached

from polykv_core.arrays import (
    U64_MASK,
    Array,
    Float32,
    Int8,
    UInt8,
    UInt16,
    contract,
    frozen,
    multiply_add,
    sum_in_order,
)
from polykv_core.codecs.base import KEPT_BYTES, MAX_HEAD_DIM, SEED_BYTES, RowName, as_bytes, packed_bits
from polykv_core.errors import CodecError
from polykv_core.rotation import HadamardRotation, QrRotation
from polykv_core.streams import standard_normals

_SKETCH_SALT = (0xCAFEBABE00000001 + 0xDEADBEEF12345678) & U64_MASK
_MOST_PROJECTIONS = 2**16
_PI = np.float32(np.pi)


class TurboCodes(NamedTuple):
    """A radius and an angle index for each pair of coordinates, and the signs of the residual's projections."""

    radii: Float32[Array, "t pair"]
    angles: UInt16[Array, "t pair"]
    signs: Int8[Array, "t projection"]


@no_type_check  # takes what comes, and checks it itself
@dataclass(frozen=True)
class TurboQuant:
    """`bits` from 2 to 16 (the polar stage gets one less) and the number of sketch projections. Reference: 8, 32."""

    bits: int = 8
    projections: int = 32

    def __post_init__(self) -> None:
        """Refuse settings that code nothing."""
        whole = type(self.bits) is int and type(self.projections) is int
        if not whole or not 2 <= self.bits <= 16 or not 1 <= self.projections <= _MOST_PROJECTIONS:
            raise CodecError(
                f"turbo_quant with {self.bits} bits and {self.projections} projections; "
                f"expected 2 to 16 bits and 1 to {_MOST_PROJECTIONS} projections"
            )

    @property
    def id(self) -> str:
        """Short name, as the reference writes it."""
        return f"turbo_{self.bits}bit" + ("" if self.projections == 32 else f"_p{self.projections}")

    def check_head_dim(self, head_dim: int) -> None:
        """head_dim must be even."""
        if head_dim % 2 or not 0 < head_dim <= MAX_HEAD_DIM:
            raise CodecError(f"head_dim is {head_dim}; {self.id} needs an even number from 2 to {MAX_HEAD_DIM}")

    def check_rows(self, rows: Float32[Array, "t d"], name: RowName) -> None:
        """Every finite row will do, zeros included."""

    def coder(self, head_dim: int, seed: int) -> "TurboCoder":
        """The coder of a shell seed (cached)."""
        self.check_head_dim(head_dim)
        return cached_coder(self, head_dim, seed)


class TurboCoder:
    """Rotation, angles and sketch directions for one head size and seed."""

    codes_query = False
    # Rotation and sketch are drawn anew from the seed.
    table_bytes = SEED_BYTES

    def __init__(self, codec: TurboQuant, head_dim: int, seed: int) -> None:
        """Draw the rotation and the sketch."""
        self.head_dim = head_dim
        power_of_two = head_dim & (head_dim - 1) == 0
        self.rotation = HadamardRotation(head_dim, seed) if power_of_two else QrRotation(head_dim, seed, np.float32)
        self.angle_bits = codec.bits - 1
        self.levels = 2**self.angle_bits
        # The lower edge of each angle's cell, not its middle: so does the reference.
        step = np.float32(2.0) * _PI / np.float32(self.levels)
        index = np.arange(self.levels, dtype=np.float32)
        angle = multiply_add(index, np.full_like(index, step), np.full_like(index, -_PI))
        self._cos = frozen(np.cos(angle.astype(np.float64)).astype(np.float32))
        self._sin = frozen(np.sin(angle.astype(np.float64)).astype(np.float32))
        normals = standard_normals((seed + _SKETCH_SALT) & U64_MASK, codec.projections * head_dim)
        self._sketch = frozen(normals.astype(np.float32).reshape(codec.projections, head_dim))
        self.nbytes = self.rotation.nbytes + self._sketch.nbytes + 8 * self.levels
        self._sketch_scale = np.float32(np.sqrt(np.pi / 2.0)) / np.float32(codec.projections)

    def encode(self, rows: Float32[Array, "t d"]) -> TurboCodes:
        """Polar codes of the rotated pairs, then the signs of the residual's projections."""
        pairs = self.rotation.forward(rows).reshape(-1, self.head_dim // 2, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        with np.errstate(over="ignore"):
            radii = np.sqrt(multiply_add(a, a, b * b))
        angle = np.arctan2(b.astype(np.float64), a.astype(np.float64)).astype(np.float32)
        # An angle of infinities is no number; it takes the first cell, as the reference's cast to an integer does.
        angle[np.isnan(angle)] = -_PI
        turns = (_PI + angle) / (np.float32(2.0) * _PI) * np.float32(self.levels)
        angles = (np.floor(turns).astype(np.int64) % self.levels).astype(np.uint16)
        with np.errstate(invalid="ignore", over="ignore"):
            residual = rows - self._polar(radii, angles)
            projected = contract(residual, self._sketch.T)
        return TurboCodes(radii, angles, np.where(projected >= 0.0, np.int8(1), np.int8(-1)))

    def decode(self, codes: TurboCodes) -> Float32[Array, "t d"]:
        """The polar part alone; the sketch only serves scores."""
        with np.errstate(invalid="ignore", over="ignore"):
            return self._polar(codes.radii, codes.angles)

    def score(self, codes: TurboCodes, query: Float32[Array, " d"]) -> Float32[Array, " t"]:
        """Inner products with the polar part, plus the sketch scaled as if every residual had length 1.

        That scale is the reference's: QJL would multiply by the residual's length, which is not kept.
        """
        turned = self.rotation.forward(query[None]).reshape(-1, 2)
        with np.errstate(invalid="ignore", over="ignore"):
            along = turned[:, 0] * self._cos[codes.angles] + turned[:, 1] * self._sin[codes.angles]
            polar = sum_in_order(codes.radii * along)
            sketched = sum_in_order(codes.signs * sum_in_order(self._sketch * query))
            return polar + self._sketch_scale * sketched

    def wire(self, codes: TurboCodes) -> UInt8[Array, "t bytes"]:
        """The radii in float32, the packed angles, and a bit for each sign."""
        signs = (codes.signs > 0).astype(np.uint16)
        parts = [as_bytes(codes.radii), packed_bits(codes.angles, self.angle_bits), packed_bits(signs, 1)]
        return np.concatenate(parts, axis=1)

    def _polar(self, radii: Float32[Array, "t pair"], angles: UInt16[Array, "t pair"]) -> Float32[Array, "t d"]:
        pairs = np.stack([radii * self._cos[angles], radii * self._sin[angles]], axis=-1)
        return self.rotation.inverse(pairs.reshape(-1, self.head_dim))


@cached(LRUCache(maxsize=KEPT_BYTES, getsizeof=lambda coder: coder.nbytes), lock=Lock())
def cached_coder(codec: TurboQuant, head_dim: int, seed: int) -> TurboCoder:
    """The one coder of these settings, head size and seed, made when first asked for."""
    return TurboCoder(codec, head_dim, seed)
