"""Judging a sweep: cheap, and knows nothing else. A moved gate judges the same results again and replays nothing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from polykv_core.config import CapturedReplayConfig
from polykv_core.footprint import Footprint
from polykv_core.gates import CandidateReplayMetrics, GateVerdict
from polykv_core.judged import selected, tightest
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.replay import judge
from polykv_core.sweep.cache import CacheBytes, cache_bytes
from polykv_core.sweep.items import SweepItem
from polykv_core.sweep.result import HeadResult


@dataclass(frozen=True, eq=False)
class HeadVerdict:
    """One head held against the gates; without a receipt where there is an error."""

    result: HeadResult
    receipt: CapturedReplayReceipt | None

    @property
    def item(self) -> SweepItem:
        """Which head it is."""
        return self.result.item

    @property
    def name(self) -> str:
        """The head's name for people, which no other of the sweep has."""
        return self.result.item.name

    @property
    def error(self) -> str | None:
        """Why there is no verdict."""
        return self.result.error

    @property
    def passed(self) -> bool:
        """Whether the head has a verdict and passes."""
        return self.receipt is not None and self.receipt.passed

    @property
    def selected_k(self) -> int | None:
        """The first candidate k that passes, else the last."""
        return None if self.receipt is None else self.receipt.selected_candidate_k

    @property
    def passing_ks(self) -> tuple[int, ...]:
        """The candidate ks that pass every gate."""
        candidates = () if self.receipt is None else self.receipt.candidate_results
        return tuple(candidate.candidate_k for candidate in candidates if candidate.passed)

    @property
    def smallest_passing_k(self) -> int | None:
        """The smallest candidate k that passes every gate; None where none does."""
        return min(self.passing_ks, default=None)

    @property
    def metrics(self) -> CandidateReplayMetrics | None:
        """What was measured at the selected k, over the queries as the gates look at it."""
        return None if self.receipt is None else selected(self.receipt)

    @property
    def worst_gate(self) -> GateVerdict | None:
        """The gate with the least to spare at the selected k; None where there is no verdict, or every gate is off."""
        return None if self.receipt is None else tightest(self.receipt)

    @property
    def margin(self) -> float:
        """The worst gate's margin as a share of its threshold, negative where it fails.

        -inf where there is no verdict, inf where every gate is off.
        """
        if self.receipt is None:
            return -math.inf
        gate = self.worst_gate
        return math.inf if gate is None else gate.share

    @property
    def losses(self) -> Mapping[str, Mapping[str, float]]:
        """At the selected k, what exact attention loses in each gated metric, and what each step alone adds (means)."""
        losses = None if self.selected_k is None else self.result.losses_at(self.selected_k)
        return {} if losses is None else {step: losses.loss(step) for step in losses.metrics}

    @property
    def footprint(self) -> Footprint | None:
        """The bytes of the head's cache."""
        return self.result.footprint


@dataclass(frozen=True, eq=False)
class SweepVerdict:
    """The one verdict on many heads. `heads` are in the order of the results."""

    config: CapturedReplayConfig
    heads: tuple[HeadVerdict, ...]

    @property
    def passed(self) -> bool | None:
        """Whether every head passes; None where one has no verdict, or there is none at all."""
        if not self.heads or self.errors:
            return None
        return all(head.passed for head in self.heads)

    @property
    def errors(self) -> tuple[HeadVerdict, ...]:
        """The heads without a verdict."""
        return tuple(head for head in self.heads if head.receipt is None)

    @cached_property
    def ranked(self) -> tuple[HeadVerdict, ...]:
        """The heads, worst first: those without a verdict, those that fail, then by the worst gate's margin."""
        return tuple(
            sorted(self.heads, key=lambda head: (head.receipt is not None, head.passed, head.margin, head.name))
        )

    @property
    def worst(self) -> HeadVerdict | None:
        """The head that the sweep stands or falls by; None where there is no head."""
        return self.ranked[0] if self.heads else None

    @property
    def passing_share(self) -> float:
        """Heads that pass, as a share of all of them."""
        return sum(head.passed for head in self.heads) / len(self.heads) if self.heads else 0.0

    @cached_property
    def one_k(self) -> int | None:
        """The smallest candidate k at which every head passes; None where there is none, or a head has no verdict."""
        if not self.heads:
            return None
        shared = set.intersection(*(set(head.passing_ks) for head in self.heads))
        return min(shared, default=None)

    @cached_property
    def decode_reduction(self) -> float | None:
        """How many times fewer value rows all heads with a verdict read together, each at its own selected k."""
        return _reduction([head.metrics for head in self.heads if head.metrics is not None])

    @cached_property
    def one_k_decode_reduction(self) -> float | None:
        """The same with every head at `one_k`; None where there is none."""
        if self.one_k is None:
            return None
        return _reduction([_at(head.receipt, self.one_k) for head in self.heads if head.receipt is not None])

    @cached_property
    def cache(self) -> CacheBytes | None:
        """The bytes of a token over the swept layers and KV heads; None where no head has a verdict."""
        return cache_bytes({head.item: head.footprint for head in self.heads if head.footprint is not None})


def verdict(results: Sequence[HeadResult], config: CapturedReplayConfig) -> SweepVerdict:
    """Hold every head's measurement against the gates. Raises ConfigError if a k of the config was not measured."""
    return SweepVerdict(config, tuple(_judged(result, config) for result in results))


def _judged(result: HeadResult, config: CapturedReplayConfig) -> HeadVerdict:
    measurement = result.measurement
    return HeadVerdict(result, None if measurement is None else judge(measurement, config))


def _at(receipt: CapturedReplayReceipt, k: int) -> CandidateReplayMetrics:
    return next(candidate for candidate in receipt.candidate_results if candidate.candidate_k == k)


def _reduction(candidates: Sequence[CandidateReplayMetrics]) -> float | None:
    if not candidates:
        return None
    full = sum(candidate.full_decode_value_count for candidate in candidates)
    return full / max(sum(candidate.decoded_values_total for candidate in candidates), 1)
