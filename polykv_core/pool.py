"""The shared pool: rows that many agents read, compressed once with FibQuant."""

from dataclasses import dataclass

from polykv_core.arrays import Array, Float32
from polykv_core.codecs import POOL_CODEC, SHELL_CODEC, Codec
from polykv_core.shell import AgentShell
from polykv_core.tier import CompressedTier, KvTensorShape


@dataclass(frozen=True, eq=False)
class SharedKVPool:
    """The compressed pool and the shape that its shells share."""

    shape: KvTensorShape
    tier: CompressedTier

    @classmethod
    def build(
        cls, rows: Float32[Array, "t width"], shape: KvTensorShape, seed: int, codec: Codec = POOL_CODEC
    ) -> "SharedKVPool":
        """Compress rows [t, layers * heads * 2 * d], all finite, with a u64 seed.

        Raises CacheError for rows that do not fit the shape, CodecError for rows the codec cannot hold.
        """
        return cls(shape, CompressedTier("pool", rows, shape, seed, codec))

    def materialize_shell(
        self, agent_id: str, rows: Float32[Array, "t width"], seed: int, codec: Codec = SHELL_CODEC
    ) -> AgentShell:
        """Compress an agent's own rows, of the pool's shape, into its shell. Raises as build does."""
        return AgentShell(agent_id, CompressedTier("shell", rows, self.shape, seed, codec))
