"""The gates: which metric is held against which threshold, in which direction, and what a failure is called."""

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from polykv_core.arrays import Array
from polykv_core.config import GateThresholds
from polykv_core.measure import Measurement

Number = TypeVar("Number", float, Array)

_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class CandidateReplayMetrics:
    """A candidate k: what was measured there, whether every gate passes, and the blockers where not."""

    candidate_k: int
    output_cosine_mean: float
    output_mse_mean: float
    kl_divergence_mean: float
    top1_agreement: float
    ppl_proxy_exact: float
    ppl_proxy_compressed: float
    ppl_proxy_delta: float
    decoded_values_total: int
    full_decode_value_count: int
    decode_reduction: float
    passed: bool = False
    blockers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gate:
    """A metric of a candidate held against a threshold of the config. Equality passes; what is not finite fails.

    A gate is switched off by the threshold that no finite value fails, `off`.
    """

    metric: str
    threshold: str
    side: Literal["min", "max"]
    label: str
    blocker_name: str
    off: float
    absolute: bool = False

    def gated(self, metric: Number) -> Number:
        """What of a metric's value (or values) the gate looks at."""
        return abs(metric) if self.absolute else metric

    def passes(self, gated: Number, threshold: float) -> Any:
        """Whether a gated value (or each of an array) passes a threshold."""
        inside = gated >= threshold if self.side == "min" else gated <= threshold
        return np.isfinite(gated) & inside

    def check(self, candidate: CandidateReplayMetrics, config: GateThresholds) -> "GateVerdict":
        """This gate's verdict on a candidate."""
        return GateVerdict(self, self.gated(getattr(candidate, self.metric)), getattr(config, self.threshold))


@dataclass(frozen=True)
class GateVerdict:
    """One gate's verdict on one candidate."""

    gate: Gate
    value: float
    threshold: float

    @property
    def margin(self) -> float:
        """How far the value is on the passing side of the threshold; negative where the gate fails."""
        return self.value - self.threshold if self.gate.side == "min" else self.threshold - self.value

    @property
    def passed(self) -> bool:
        """Whether the gate passes."""
        return bool(self.gate.passes(self.value, self.threshold))

    @property
    def off(self) -> bool:
        """Whether the gate is switched off."""
        return self.threshold == self.gate.off

    @property
    def blocker(self) -> str:
        """The text of a failure, as the reference words it."""
        sign = "<" if self.gate.side == "min" else ">"
        return f"{self.gate.blocker_name} {_four_decimals(self.value)} {sign} {_four_decimals(self.threshold)}"


GATES = (
    Gate("output_cosine_mean", "min_output_cosine", "min", "Output cosine", "output_cosine_mean", off=-1.0),
    Gate("output_mse_mean", "max_output_mse", "max", "Output MSE", "output_mse_mean", off=_LARGEST),
    Gate("kl_divergence_mean", "max_kl_divergence", "max", "KL divergence", "kl_divergence_mean", off=_LARGEST),
    Gate("ppl_proxy_delta", "max_ppl_delta", "max", "|PPL delta|", "abs(ppl_proxy_delta)", off=_LARGEST, absolute=True),
    Gate("top1_agreement", "min_top1_agreement", "min", "Top-1 agreement", "top1_agreement", off=0.0),
)


def verdicts(candidate: CandidateReplayMetrics, config: GateThresholds) -> tuple[GateVerdict, ...]:
    """Every gate's verdict on a candidate, in the reference's order."""
    return tuple(gate.check(candidate, config) for gate in GATES)


def gates_off(config: GateThresholds) -> list[str]:
    """The thresholds, by name, that are at the value no finite metric fails: those gates are switched off."""
    return [gate.threshold for gate in GATES if getattr(config, gate.threshold) == gate.off]


def _four_decimals(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else {math.inf: "inf", -math.inf: "-inf"}.get(value, "NaN")


def judge_candidates(measurement: Measurement, config: GateThresholds) -> tuple[CandidateReplayMetrics, ...]:
    """The measured candidates in the config's order, each with its verdict. Raises ConfigError for unmeasured ks."""
    return tuple(_judged(measured_candidate(measurement, k), config) for k in config.candidate_ks)


def measured_candidate(measurement: Measurement, k: int) -> CandidateReplayMetrics:
    """What was measured at a k, not judged yet."""
    at = measurement.index_of(k)
    metrics: dict[str, Any] = {name: float(values[at]) for name, values in measurement.metrics.items()}
    return CandidateReplayMetrics(
        candidate_k=k,
        decoded_values_total=int(measurement.queries.decoded_values[:, at].sum()),
        full_decode_value_count=measurement.full_decode_value_count,
        **metrics,
    )


def first_passing(candidates: tuple[CandidateReplayMetrics, ...]) -> CandidateReplayMetrics:
    """The selected candidate: the first that passes in the order listed, else the last."""
    return next((candidate for candidate in candidates if candidate.passed), candidates[-1])


def _judged(candidate: CandidateReplayMetrics, config: GateThresholds) -> CandidateReplayMetrics:
    blockers = tuple(verdict.blocker for verdict in verdicts(candidate, config) if not verdict.passed)
    return replace(candidate, passed=not blockers, blockers=blockers)
