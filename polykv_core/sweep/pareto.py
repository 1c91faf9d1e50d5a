"""How much of a head may go to the shared pool: its fidelity against its bytes, for several splits of the same rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polykv_core.checks import Checks
from polykv_core.config import CapturedReplayConfig
from polykv_core.errors import SweepError
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.footprint import Footprint, footprint
from polykv_core.gates import CandidateReplayMetrics
from polykv_core.judged import selected
from polykv_core.measure import OnQuery, keep_going, measure
from polykv_core.metrics import METRICS
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.replay import judge

_POINTS = 8
_BEST = {metric.name: metric.best for metric in METRICS}

_check = Checks(SweepError)


@dataclass(frozen=True, eq=False)
class Split:
    """The head with its first `shared_tokens` rows in the pool and the others in the shell.

    `optimal` says that no other split of the curve is at least as good and as small, and better or smaller.
    """

    shared_tokens: int
    receipt: CapturedReplayReceipt
    footprint: Footprint
    optimal: bool = False

    @property
    def metrics(self) -> CandidateReplayMetrics:
        """What was measured at the selected k."""
        return selected(self.receipt)

    @property
    def passed(self) -> bool:
        """Whether a candidate k passes every gate."""
        return self.receipt.passed

    @property
    def bytes_per_token(self) -> float:
        """Bytes of a token's key and value over both tiers, without the tables."""
        return self.footprint.bytes_per_token

    def loss(self, metric: str) -> float:
        """How far a metric is from its best value."""
        return abs(getattr(self.metrics, metric) - _BEST[metric])


def shared_tokens_curve(
    fixture: CapturedReplayFixture,
    config: CapturedReplayConfig,
    options: ReplayOptions = REFERENCE,
    shared_tokens: Sequence[int] | None = None,
    quality: str = "output_cosine_mean",
    on_split: OnQuery = keep_going,
) -> tuple[Split, ...]:
    """Replay a head at other splits of its rows, ascending; `quality` is the metric that is held against the bytes.

    By default some 8 splits from 1 to all rows but one of the shortest query. `on_split` is told how many are done of
    how many, and may raise to stop the work. Raises SweepError for a split that leaves a tier without rows or a quality
    that is no metric with a best value, and PolyKvError as a replay does.
    """
    if not np.isfinite(_BEST.get(quality, np.inf)):
        known = ", ".join(name for name, best in _BEST.items() if np.isfinite(best))
        raise SweepError(f"quality is {quality!r}; expected one of {known}")
    most = min(query.row_count for query in fixture.queries) - 1
    asked = default_splits(most) if shared_tokens is None else shared_tokens
    splits = []
    counts = sorted({_check.integer(count, "shared_tokens", low=1, high=most) for count in asked})
    for done, count in enumerate(counts):
        on_split(done, len(counts))
        # The file, if there is one, holds another split.
        split = replace(fixture, shared_tokens=count, file_digest=None)
        receipt = judge(measure(split, config.candidate_ks, options=options), config)
        splits.append(Split(count, receipt, footprint(split, options)))
    on_split(len(counts), len(counts))
    return tuple(replace(split, optimal=_optimal(split, splits, quality)) for split in splits)


def default_splits(most: int) -> tuple[int, ...]:
    """Some 8 numbers of rows, evenly from 1 to the most that leave the shell a row."""
    return tuple(np.unique(np.linspace(1, most, _POINTS).round().astype(np.int64)).tolist())


def _optimal(split: Split, others: Sequence[Split], quality: str) -> bool:
    """Whether no other split dominates this one; what is not finite is never optimal."""
    loss, size = split.loss(quality), split.bytes_per_token
    dominated = any(
        other.loss(quality) <= loss
        and other.bytes_per_token <= size
        and (other.loss(quality) < loss or other.bytes_per_token < size)
        for other in others
    )
    return bool(np.isfinite(loss)) and not dominated
