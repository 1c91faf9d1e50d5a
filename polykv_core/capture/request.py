"""What a capture is asked for, and where in the text its queries stand."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from polykv_core.arrays import Array, Int64
from polykv_core.checks import Checks
from polykv_core.errors import CaptureError

Logits = Literal["local", "model"]
LOGITS: tuple[Logits, ...] = get_args(Logits)

_check = Checks(CaptureError)


@dataclass(frozen=True)
class CaptureRequest:
    """Which layers and heads (None is all of them), how many queries, and what their logits are.

    A query attends to all tokens up to its own; the first `shared_tokens` of them are the pool. `local` logits are the
    head's projection times its exact output, `model` logits are the whole model's. `vocab` is how many tokens the
    projection goes to. Every head has the same seed, as a cache has one pool. Raises CaptureError.
    """

    layers: frozenset[int] | None = None
    heads: frozenset[int] | None = None
    queries: int = 16
    shared_tokens: int = 192
    vocab: int = 256
    logits: Logits = "local"
    seed: int = 0
    most_tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no capture."""
        for name in ("queries", "shared_tokens", "vocab"):
            _check.integer(getattr(self, name), name, low=1)
        _check.integer(self.seed, "seed")
        if self.most_tokens is not None:
            _check.integer(self.most_tokens, "most_tokens", low=1)
        if self.logits not in LOGITS:
            raise CaptureError(f"logits is {self.logits!r}; expected {' or '.join(LOGITS)}")

    def positions(self, tokens: int) -> Int64[Array, " q"]:
        """Where the queries stand in a text of so many tokens.

        Evenly, from the first token behind the pool to the last one that is followed by another. Raises CaptureError
        for a text that is too short.
        """
        needed = self.shared_tokens + self.queries + 1
        if tokens < needed:
            raise CaptureError(
                f"the text has {tokens} tokens; {self.queries} queries behind {self.shared_tokens} shared tokens take "
                f"at least {needed}. Give a longer text, or fewer queries or shared tokens"
            )
        return np.linspace(self.shared_tokens, tokens - 2, self.queries).round().astype(np.int64)
