"""A receipt beside a curve over k: which ks were measured, which of them pass, where each stands."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from polykv_core.arrays import Array, Bool
from polykv_core.gates import CandidateReplayMetrics
from polykv_core.judged import Receipt, distinct
from polykv_core.measurement import Measurement
from polykv_core.tuning import passing


@dataclass(frozen=True, eq=False)
class KCurve:
    """A receipt beside the measurement of every k, from 1 to the most rows a query has, or of the candidates only."""

    receipt: Receipt
    measured: Measurement

    @cached_property
    def ordered(self) -> Measurement:
        """What was measured, each k once, ascending, over the queries as the gates look at it."""
        rows, first = np.unique([self.row(k) for k in self.measured.candidate_ks], return_index=True)
        ks, taken = tuple(rows.tolist()), self.measured
        if ks != taken.candidate_ks:
            taken = replace(taken, candidate_ks=ks, queries=taken.queries.take(first))
        return taken.by(self.receipt.config.statistic)

    @cached_property
    def most_rows(self) -> int:
        """The k that reads everything; larger ones read no more, and stand where it does."""
        return int(self.measured.queries.rows.max())

    @property
    def ks(self) -> tuple[int, ...]:
        """The ks of the curve."""
        return self.ordered.candidate_ks

    @property
    def every_k(self) -> bool:
        """Whether the curve leaves no k out."""
        return len(self.ks) == self.most_rows

    def row(self, k: int) -> int:
        """Where a k stands on the k axis."""
        return min(k, self.most_rows)

    @property
    def selected(self) -> int:
        """Where the selected k stands."""
        return self.row(self.receipt.selected_candidate_k)

    @cached_property
    def passes(self) -> Bool[Array, " k"]:
        """Whether each k of the curve passes every gate."""
        return passing(self.ordered, self.receipt.config)

    @cached_property
    def smallest(self) -> int | None:
        """The smallest k of the curve that passes every gate."""
        return self.ks[int(np.argmax(self.passes))] if self.passes.any() else None

    @cached_property
    def candidates(self) -> list[CandidateReplayMetrics]:
        """The candidates by k, each once."""
        return sorted(distinct(self.receipt), key=lambda candidate: candidate.candidate_k)
