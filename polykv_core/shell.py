"""The agent shell: the rows one agent has beyond the pool, compressed with TurboQuant."""

from dataclasses import dataclass

from polykv_core.tier import CompressedTier


@dataclass(frozen=True, eq=False)
class AgentShell:
    """One agent's compressed rows; made by SharedKVPool.materialize_shell."""

    agent_id: str
    tier: CompressedTier
