"""A receipt beside the measurement of every k: which ks pass, at which gates the others fail, where each stands."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pages.ui import words
from polykv_core import (
    GATES,
    CandidateReplayMetrics,
    CapturedReplayReceipt,
    Measurement,
    ModelReplayReceipt,
    passing,
)

Receipt = CapturedReplayReceipt | ModelReplayReceipt


@dataclass(frozen=True, eq=False)
class Sweep:
    """A receipt beside the measurement of every k, from 1 to the most rows a query has."""

    receipt: Receipt
    curve: Measurement

    @property
    def most_rows(self) -> int:
        """The k that reads everything; larger ones read no more, and stand where it does."""
        return len(self.curve.candidate_ks)

    def row(self, k: int) -> int:
        """Where a k stands on the k axis."""
        return min(k, self.most_rows)

    @cached_property
    def selected(self) -> int:
        """Where the selected k stands."""
        return self.row(self.receipt.selected_candidate_k)

    @cached_property
    def smallest(self) -> int | None:
        """The smallest of all ks that passes every gate."""
        passes = passing(self.curve, self.receipt.config)
        return int(np.argmax(passes)) + 1 if passes.any() else None

    @cached_property
    def candidates(self) -> list[CandidateReplayMetrics]:
        """The candidates by k, each once."""
        by_k = {candidate.candidate_k: candidate for candidate in self.receipt.candidate_results}
        return [by_k[k] for k in sorted(by_k)]

    @cached_property
    def failing(self) -> list[str]:
        """The gates that fail at each k, as a phrase; empty where all pass."""
        rows = np.zeros(self.most_rows, dtype=np.int64)
        for bit, gate in enumerate(GATES):
            gated = gate.gated(self.curve.metrics[gate.metric])
            rows |= ~gate.passes(gated, getattr(self.receipt.config, gate.threshold)) << bit
        phrases = {
            code: words.listed([gate.label for bit, gate in enumerate(GATES) if code >> bit & 1])
            for code in set(rows.tolist())
        }
        return [phrases[code] for code in rows.tolist()]
