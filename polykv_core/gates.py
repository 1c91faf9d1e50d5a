"""The gates: which metric is held against which threshold, in which direction, and what a failure is called."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from polykv_core.config import GateThresholds
from polykv_core.measure import Measurement


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
    """A metric of a candidate held against a threshold of the config. Equality passes; what is not finite fails."""

    metric: str
    threshold: str
    side: Literal["min", "max"]
    label: str
    blocker_name: str
    absolute: bool = False

    def check(self, candidate: CandidateReplayMetrics, config: GateThresholds) -> "GateVerdict":
        """This gate's verdict on a candidate."""
        value = float(getattr(candidate, self.metric))
        threshold = float(getattr(config, self.threshold))
        return GateVerdict(self, abs(value) if self.absolute else value, threshold)


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
        return math.isfinite(self.value) and self.margin >= 0.0

    @property
    def blocker(self) -> str:
        """The text of a failure, as the reference words it."""
        sign = "<" if self.gate.side == "min" else ">"
        return f"{self.gate.blocker_name} {_four_decimals(self.value)} {sign} {_four_decimals(self.threshold)}"


GATES = (
    Gate("output_cosine_mean", "min_output_cosine", "min", "Output cosine", "output_cosine_mean"),
    Gate("output_mse_mean", "max_output_mse", "max", "Output MSE", "output_mse_mean"),
    Gate("kl_divergence_mean", "max_kl_divergence", "max", "KL divergence", "kl_divergence_mean"),
    Gate("ppl_proxy_delta", "max_ppl_delta", "max", "|PPL delta|", "abs(ppl_proxy_delta)", absolute=True),
    Gate("top1_agreement", "min_top1_agreement", "min", "Top-1 agreement", "top1_agreement"),
)


def verdicts(candidate: CandidateReplayMetrics, config: GateThresholds) -> tuple[GateVerdict, ...]:
    """Every gate's verdict on a candidate, in the reference's order."""
    return tuple(gate.check(candidate, config) for gate in GATES)


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
