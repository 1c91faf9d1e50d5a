"""How many bytes the compressed cache of a head takes, counted from the codes really made of it.

Counted are the bytes of a cache's wire form: what a program would have to store to do the same replay. It says nothing
about the memory of this process, which keeps codes as they are quickest to read.
"""

from dataclasses import dataclass

from polykv_core.arrays import Array, Float32
from polykv_core.codecs import Codec
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.options import REFERENCE, ReplayOptions

_FP32, _FP16 = 4, 2
_KEY_AND_VALUE = 2


@dataclass(frozen=True)
class TierFootprint:
    """One tier of one head: its tokens, the bytes of their keys and values, and of the tables beside them.

    A model has one pool with one seed, so that all its heads share the tables: FibQuant's codebook. What is drawn from
    a seed (rotations, TurboQuant's sketch) costs the seed alone.
    """

    tokens: int
    code_bytes: int
    table_bytes: int

    @property
    def bytes_per_token(self) -> float:
        """Bytes of a token's key and value, without the tables."""
        return self.code_bytes / self.tokens


@dataclass(frozen=True)
class Footprint:
    """The cache of one head, at the rows of its longest query: keys and values of every token, pool and shell."""

    head_dim: int
    pool: TierFootprint
    shell: TierFootprint

    @property
    def tokens(self) -> int:
        """Tokens of both tiers."""
        return self.pool.tokens + self.shell.tokens

    @property
    def code_bytes(self) -> int:
        """Bytes of all keys and values, without the tables."""
        return self.pool.code_bytes + self.shell.code_bytes

    @property
    def table_bytes(self) -> int:
        """Bytes of the tables of both tiers, which all heads of a model share."""
        return self.pool.table_bytes + self.shell.table_bytes

    @property
    def bytes_per_token(self) -> float:
        """Bytes of a token's key and value over both tiers, without the tables."""
        return self.code_bytes / self.tokens

    @property
    def fp32_bytes_per_token(self) -> int:
        """What a token's key and value take uncompressed, in float32."""
        return _KEY_AND_VALUE * self.head_dim * _FP32

    @property
    def fp16_bytes_per_token(self) -> int:
        """What a token's key and value take uncompressed, in float16 or bfloat16."""
        return _KEY_AND_VALUE * self.head_dim * _FP16


def footprint(fixture: CapturedReplayFixture, options: ReplayOptions = REFERENCE) -> Footprint:
    """Code the rows of the fixture's longest query and count.

    The count does not depend on the seed. Raises CodecError for rows or a head size the codecs cannot hold.
    """
    longest = max(fixture.queries, key=lambda query: query.row_count)
    shared = fixture.shared_tokens

    def counted(codec: Codec, tokens: slice) -> TierFootprint:
        return _tier(codec, fixture.seed, longest.keys[tokens], longest.values[tokens])

    return Footprint(
        fixture.head_dim, counted(options.pool_codec, slice(shared)), counted(options.shell_codec, slice(shared, None))
    )


def _tier(codec: Codec, seed: int, keys: Float32[Array, "t d"], values: Float32[Array, "t d"]) -> TierFootprint:
    codec.check_head_dim(keys.shape[1])
    coder = codec.coder(keys.shape[1], seed)
    code_bytes = 0
    for kind, rows in (("key", keys), ("value", values)):
        codec.check_rows(rows, f"{kind} row {{}}".format)
        code_bytes += coder.wire(coder.encode(rows)).nbytes
    return TierFootprint(len(keys), code_bytes, coder.table_bytes)
