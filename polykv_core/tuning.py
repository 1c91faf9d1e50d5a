"""Moving gates over a kept measurement: presets, the smallest move that flips a k, and which of all ks pass."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

import numpy as np

from polykv_core.arrays import Array, Bool, Float64, Int64
from polykv_core.config import DEFAULT_CANDIDATE_KS, THRESHOLDS, CapturedReplayConfig, GateThresholds
from polykv_core.gates import GATES, CandidateReplayMetrics, Gate, verdicts
from polykv_core.measurement import Measurement
from polykv_core.metrics import Metric

_DEFAULTS = CapturedReplayConfig(DEFAULT_CANDIDATE_KS)
PRESETS: Mapping[str, Mapping[str, float]] = {
    "Seed defaults": {name: getattr(_DEFAULTS, name) for name in THRESHOLDS},
    "Lenient": dict(zip(THRESHOLDS, (0.1, 4.0, 4.0, 10.0, 0.25), strict=True)),
    "Strict": dict(zip(THRESHOLDS, (0.99, 0.01, 0.02, 0.1, 0.95), strict=True)),
}
# Digits of a suggested threshold: enough to stay close to the value, few enough to read and to type.
_SUGGESTED_DIGITS = 4
# A curve that turns back by less than this share of its scale only rounds.
_REVERSAL_NOISE = 1e-6


@dataclass(frozen=True)
class Flip:
    """The smallest move of one gate that changes what becomes of a candidate.

    A candidate that fails now passes with the gate at `threshold`; one that passes now fails with the gate any tighter
    than `threshold`. `passes` says which of the two it is.
    """

    candidate_k: int
    threshold: float
    passes: bool


@dataclass(frozen=True)
class Reversal:
    """Where a curve turns back most: reading more rows, from one k to a larger one, made the metric worse."""

    from_k: int
    to_k: int
    amount: float


def nearest_flip(candidates: Sequence[CandidateReplayMetrics], config: GateThresholds, gate: Gate) -> Flip | None:
    """The nearest flip of one gate with the others held; None where the others fail every candidate anyway."""
    nearest, distance = None, math.inf
    for candidate in candidates:
        judged = {verdict.gate: verdict for verdict in verdicts(candidate, config)}
        own = judged.pop(gate)
        if all(other.passed for other in judged.values()) and math.isfinite(own.value) and abs(own.margin) < distance:
            threshold = own.value if own.passed else just_passing(own.value, gate)
            nearest, distance = Flip(candidate.candidate_k, threshold, not own.passed), abs(own.margin)
    return nearest


def just_passing(value: float, gate: Gate) -> float:
    """The tightest threshold of few digits that a value still passes."""
    if value == 0.0 or not math.isfinite(value):
        return value
    towards = ROUND_FLOOR if gate.side == "min" else ROUND_CEILING
    rounded = float(Context(prec=_SUGGESTED_DIGITS, rounding=towards).create_decimal_from_float(value))
    return rounded if math.isfinite(rounded) else value


def thresholds_from(candidate: CandidateReplayMetrics) -> dict[str, float]:
    """Gates that a candidate just passes: each at its own value, rounded to few digits on the passing side."""
    return {gate.threshold: just_passing(gate.gated(getattr(candidate, gate.metric)), gate) for gate in GATES}


def passing(measurement: Measurement, config: GateThresholds) -> Bool[Array, " k"]:
    """Whether each measured k passes every gate."""
    verdict = np.ones(len(measurement.candidate_ks), dtype=bool)
    measured = measurement.by(config.statistic)
    for gate in GATES:
        verdict &= gate.passes(gate.gated(measured.metrics[gate.metric]), getattr(config, gate.threshold))
    return verdict


def smallest_passing_k(measurement: Measurement, config: GateThresholds) -> int | None:
    """The smallest measured k that passes every gate; None where none does."""
    passed = [k for k, passes in zip(measurement.candidate_ks, passing(measurement, config), strict=True) if passes]
    return min(passed, default=None)


def largest_reversal(measurement: Measurement, metric: Metric) -> Reversal | None:
    """Where reading more rows made a metric most worse than it had been; None where it never does.

    The measurement's ks must be ascending; those whose value is not finite are passed over.
    """
    values = measurement.metrics[metric.name]
    finite = np.flatnonzero(np.isfinite(values))
    if not len(finite):
        return None
    values = values[finite]
    worse = {"higher is better": -values, "lower is better": values, "closer to 0 is better": np.abs(values)}
    badness = worse[metric.direction]
    best_so_far = np.minimum.accumulate(badness)
    lost = badness - best_so_far
    at = int(np.argmax(lost))
    if not lost[at] > _REVERSAL_NOISE * max(1.0, float(np.abs(values).max())):
        return None
    start = int(np.flatnonzero(badness[: at + 1] == best_so_far[at])[-1])
    from_k, to_k = (measurement.candidate_ks[finite[index]] for index in (start, at))
    return Reversal(from_k, to_k, float(lost[at]))


def thinned(
    values: Float64[Array, " k"], thresholds: Iterable[float], kept: Iterable[int], limit: int = 300
) -> Int64[Array, " m"]:
    """Indices of a curve worth drawing: evenly over the logarithm of k, about `limit` of them.

    Always among them are the ends, the indices in `kept`, and both sides of every crossing of a threshold.
    """
    count = len(values)
    if count <= limit:
        return np.arange(count)
    sides = [np.flatnonzero(np.diff(values >= threshold)) for threshold in thresholds]
    crossings = np.concatenate([np.zeros(0, dtype=np.int64), *sides])
    spread = np.unique(np.round(np.geomspace(1, count, limit)).astype(np.int64)) - 1
    return np.unique(np.concatenate([spread, crossings, crossings + 1, np.fromiter(kept, dtype=np.int64)]))
