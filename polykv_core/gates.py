"""The gates: which metric is held against which threshold, in which direction, and what a failure is called."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from polykv_core.arrays import Array, Float64
from polykv_core.config import GateThresholds
from polykv_core.measurement import Measurement
from polykv_core.metrics import METRICS, QueryMetrics, Statistic

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

    @property
    def option(self) -> str:
        """How the gate is called on the command line."""
        return self.threshold.replace("_", "-")

    def gated(self, metric: Number) -> Number:
        """What of a metric's value (or values) the gate looks at."""
        return abs(metric) if self.absolute else metric

    def passes(self, gated: Number, threshold: float) -> Any:
        """Whether a gated value (or each of an array) passes a threshold."""
        inside = gated >= threshold if self.side == "min" else gated <= threshold
        return np.isfinite(gated) & inside

    def check(self, candidate: CandidateReplayMetrics, config: GateThresholds) -> "GateVerdict":
        """This gate's verdict on a candidate."""
        value, threshold = self.gated(getattr(candidate, self.metric)), getattr(config, self.threshold)
        return GateVerdict(self, value, threshold, config.statistic)


@dataclass(frozen=True)
class GateVerdict:
    """One gate's verdict on one candidate."""

    gate: Gate
    value: float
    threshold: float
    statistic: Statistic = "mean"

    @property
    def margin(self) -> float:
        """How far the value is on the passing side of the threshold; negative where the gate fails."""
        return self.value - self.threshold if self.gate.side == "min" else self.threshold - self.value

    @property
    def share(self) -> float:
        """The margin as a share of the threshold (at threshold 0, the margin itself), so that gates can be compared."""
        return self.margin / (abs(self.threshold) or 1.0) if math.isfinite(self.value) else -math.inf

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
        over = "" if self.statistic == "mean" else f" ({self.statistic} over queries)"
        return f"{self.gate.blocker_name}{over} {_four_decimals(self.value)} {sign} {_four_decimals(self.threshold)}"


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
    measured = measurement.by(config.statistic)
    return tuple(_judged(measured_candidate(measured, k), config) for k in config.candidate_ks)


def measured_candidate(measurement: Measurement, k: int) -> CandidateReplayMetrics:
    """What was measured at a k, not judged yet."""
    return _candidate(measurement.queries, measurement.metrics, measurement.index_of(k), k)


def candidate_of(queries: QueryMetrics, at: int, k: int) -> CandidateReplayMetrics:
    """What was measured at one index of the queries' arrays, not judged yet."""
    queries = queries.at(at)
    return _candidate(queries, {metric.name: metric.over(queries) for metric in METRICS}, 0, k)


def _candidate(
    queries: QueryMetrics, metrics: Mapping[str, Float64[Array, " k"]], at: int, k: int
) -> CandidateReplayMetrics:
    measured: dict[str, Any] = {name: float(values[at]) for name, values in metrics.items()}
    return CandidateReplayMetrics(
        candidate_k=k,
        decoded_values_total=int(queries.decoded_values[:, at].sum()),
        full_decode_value_count=int(queries.rows.sum()),
        **measured,
    )


def first_passing(candidates: tuple[CandidateReplayMetrics, ...]) -> CandidateReplayMetrics:
    """The selected candidate: the first that passes in the order listed, else the last."""
    return next((candidate for candidate in candidates if candidate.passed), candidates[-1])


def _judged(candidate: CandidateReplayMetrics, config: GateThresholds) -> CandidateReplayMetrics:
    blockers = tuple(verdict.blocker for verdict in verdicts(candidate, config) if not verdict.passed)
    return replace(candidate, passed=not blockers, blockers=blockers)
