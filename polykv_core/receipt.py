"""Receipts: the verdict as JSON, field for field as the Rust crate poly-kv writes and reads it."""

import io
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, TypeVar

from polykv_core.canonical import as_read
from polykv_core.checks import Checks
from polykv_core.config import CapturedReplayConfig, GateThresholds, ModelReplayConfig
from polykv_core.errors import ReceiptError
from polykv_core.gates import CandidateReplayMetrics, first_passing, gates_off, judge_candidates
from polykv_core.jsontext import Source, read_json
from polykv_core.measurement import CapturedMeasurement, Measurement
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.provenance import SEAL, measurement_in, options_in, provenance_of, sealed
from polykv_core.records import names_of, record_of

CAPTURED_MODEL_REPLAY_RECEIPT_SCHEMA = "poly_kv_captured_model_replay_v1"
MODEL_REPLAY_RECEIPT_SCHEMA = "poly_kv_model_replay_receipt_v1"
CAPTURED_CLAIM_BOUNDARY = (
    "captured tensor replay against fixture Q/K/V/logits; not pretrained LLM PPL, not production KV-cache "
    "preservation, and not provider/framework KV-cache byte-reduction evidence"
)
MODEL_CLAIM_BOUNDARY = (
    "deterministic model-shaped replay over synthetic projection; not real model PPL, not production KV-cache "
    "preservation, and not provider/framework KV-cache byte-reduction evidence"
)

_check = Checks(ReceiptError)

Receipt = TypeVar("Receipt", bound="_Receipt")


@dataclass(frozen=True)
class ModelReplayMetrics:
    """The selected candidate's metrics, with the counts of what was compared."""

    query_count: int
    exact_attention_outputs: int
    logit_vectors_compared: int
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

    @classmethod
    def of(cls, candidate: CandidateReplayMetrics, query_count: int) -> "ModelReplayMetrics":
        """The metrics of a candidate over so many queries."""
        counts = dict.fromkeys(("query_count", "exact_attention_outputs", "logit_vectors_compared"), query_count)
        measured = {field.name: getattr(candidate, field.name) for field in fields(cls) if field.name not in counts}
        return cls(**counts, **measured)


class _Receipt:
    """What both receipts share: to and from JSON."""

    config: Any
    options: ReplayOptions

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What stands behind the verdict, as JSON fields; empty where nothing is known of that."""
        off = gates_off(self.config)
        return {"gates_off": off} if off else {}

    @property
    def departures(self) -> list[str]:
        """What keeps this from being the reference's replay, as phrases; empty where nothing does."""
        return _departures(self.config, self.options)

    def to_dict(self) -> dict[str, Any]:
        """The JSON fields, in the reference's order; what is beyond the reference stands in `provenance`, last."""
        verdict = {name: _as_json(getattr(self, name)) for name in names_of(type(self))}
        return {**verdict, "provenance": dict(self.provenance)} if self.provenance else verdict

    def to_json(self) -> str:
        """The receipt as a file's whole text. Raises ReceiptError if a number in it is not finite."""
        record = self.to_dict()
        for place, value in _numbers(record, ""):
            if not math.isfinite(value):
                raise ReceiptError(
                    f"{place} is {value}; a receipt holds finite numbers only, so this one is not written. "
                    "Look for extreme values in the fixture"
                )
        return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_dict(cls: type[Receipt], data: object) -> Receipt:
        """A receipt from JSON fields; unknown ones are ignored, as the crate does. Raises ReceiptError."""
        record = as_read(data)
        receipt: Receipt = record_of(cls, record, "the receipt")
        _check_candidates(receipt)
        if not isinstance(receipt, CapturedReplayReceipt):
            return receipt
        told = record.get("provenance")
        told = told if isinstance(told, dict) else {}
        return replace(receipt, options=options_in(told), evidence=told)

    @classmethod
    def from_json(cls: type[Receipt], source: Source) -> Receipt:
        """A receipt from JSON text as bytes, a path or a file object; a string is the JSON text itself."""
        return cls.from_dict(read_json(io.StringIO(source) if isinstance(source, str) else source, ReceiptError))


@dataclass(frozen=True)
class CapturedReplayReceipt(_Receipt):
    """The verdict on a captured fixture.

    `evidence` is what was judged, or the provenance as a file has it. Receipts are equal where their verdicts are.
    """

    schema_version: str
    model_id: str
    claim_boundary: str
    config: CapturedReplayConfig
    selected_candidate_k: int
    candidate_results: tuple[CandidateReplayMetrics, ...]
    metrics: ModelReplayMetrics
    passed: bool
    blockers: tuple[str, ...]
    options: ReplayOptions = REFERENCE
    evidence: CapturedMeasurement | Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def provenance(self) -> Mapping[str, Any]:
        """What stands behind the verdict, as JSON fields with the seal; empty for a receipt that has none.

        Made only when it is asked for: a moved threshold is to be judged at once.
        """
        if not isinstance(self.evidence, CapturedMeasurement):
            return self.evidence
        verdict = {name: _as_json(getattr(self, name)) for name in names_of(type(self))}
        told = provenance_of(self.evidence, self.config, self.selected_candidate_k)
        made: Mapping[str, Any] = sealed({**verdict, "provenance": told})["provenance"]
        return made

    @property
    def digest(self) -> str | None:
        """The seal, which no other receipt has; None for a receipt without one."""
        seal = self.provenance.get(SEAL)
        return seal if isinstance(seal, str) else None

    @property
    def fixture_digest(self) -> str | None:
        """The digest of the fixture's content; None for a receipt that does not say."""
        if isinstance(self.evidence, CapturedMeasurement):
            return self.evidence.fixture_digest
        told = self.evidence.get("fixture")
        digest = told.get("digest") if isinstance(told, dict) else None
        return digest if isinstance(digest, str) else None

    @property
    def measurement(self) -> CapturedMeasurement:
        """What was measured, at least at the candidate ks. Raises ReceiptError if the receipt does not say."""
        if isinstance(self.evidence, CapturedMeasurement):
            return self.evidence
        return measurement_in(self.evidence, self.model_id)

    @classmethod
    def of(cls, measurement: CapturedMeasurement, config: CapturedReplayConfig) -> "CapturedReplayReceipt":
        """Judge a measurement. Raises ConfigError if a k of the config was not measured."""
        candidates = judge_candidates(measurement, config)
        selected = first_passing(candidates)
        return cls(
            schema_version=_schema(CAPTURED_MODEL_REPLAY_RECEIPT_SCHEMA, config, measurement.options),
            model_id=measurement.model_id,
            claim_boundary=CAPTURED_CLAIM_BOUNDARY,
            config=config,
            selected_candidate_k=selected.candidate_k,
            candidate_results=candidates,
            metrics=ModelReplayMetrics.of(selected, measurement.query_count),
            passed=selected.passed,
            blockers=selected.blockers,
            options=measurement.options,
            evidence=measurement,
        )


@dataclass(frozen=True)
class ModelReplayReceipt(_Receipt):
    """The verdict on a synthetic model replay."""

    schema_version: str
    claim_boundary: str
    config: ModelReplayConfig
    selected_candidate_k: int
    candidate_results: tuple[CandidateReplayMetrics, ...]
    metrics: ModelReplayMetrics
    passed: bool
    blockers: tuple[str, ...]
    options = REFERENCE

    @classmethod
    def of(cls, measurement: Measurement, config: ModelReplayConfig) -> "ModelReplayReceipt":
        """Judge a measurement. Raises ConfigError if a k of the config was not measured."""
        candidates = judge_candidates(measurement, config)
        selected = first_passing(candidates)
        return cls(
            schema_version=_schema(MODEL_REPLAY_RECEIPT_SCHEMA, config, REFERENCE),
            claim_boundary=MODEL_CLAIM_BOUNDARY,
            config=config,
            selected_candidate_k=selected.candidate_k,
            candidate_results=candidates,
            metrics=ModelReplayMetrics.of(selected, measurement.query_count),
            passed=selected.passed,
            blockers=selected.blockers,
        )


def _schema(reference: str, config: GateThresholds, options: ReplayOptions) -> str:
    """Another name where something was not as the reference does it, so that nobody takes the receipt for its own."""
    return f"{reference}_with_options" if _departures(config, options) else reference


def _departures(config: GateThresholds, options: ReplayOptions) -> list[str]:
    statistic = (
        [] if config.statistic == "mean" else [f"gates hold the {config.statistic} over the queries, not the mean"]
    )
    return [*(f"{name} {value}" for name, value in options.changed.items()), *statistic]


def _as_json(value: Any) -> Any:
    if isinstance(value, CapturedReplayConfig | ModelReplayConfig):
        return value.to_dict()
    if isinstance(value, CandidateReplayMetrics | ModelReplayMetrics):
        return asdict(value)
    return [_as_json(entry) for entry in value] if isinstance(value, tuple) else value


def _check_candidates(receipt: Any) -> None:
    """Raise ReceiptError unless the selected candidate is among those there are."""
    ks = [candidate.candidate_k for candidate in receipt.candidate_results]
    if receipt.selected_candidate_k not in ks:
        listed = ", ".join(map(str, ks)) or "none"
        raise ReceiptError(
            f"the receipt, selected_candidate_k is {receipt.selected_candidate_k}, and candidate_results has {listed}; "
            "it was cut off or put together from several"
        )


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """Every float below a value, with its place."""
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(inner, f"{place}, {name}" if place else name)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _numbers(inner, f"{place}[{index}]")
