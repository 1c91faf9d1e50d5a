"""Replay captured attention heads through a two-tier compressed KV cache and judge what is left of them."""

from polykv_core.codecs import CODECS, ExactCodec, FibQuant, TurboQuant
from polykv_core.config import DEFAULT_CANDIDATE_KS, CapturedReplayConfig, ModelReplayConfig, load_captured_config
from polykv_core.errors import (
    CacheError,
    CaseError,
    CodecError,
    ConfigError,
    FixtureError,
    PolyKvError,
    ReceiptError,
)
from polykv_core.fixture import CapturedReplayFixture, CapturedReplayQuery, load_fixture
from polykv_core.gates import GATES, CandidateReplayMetrics, Gate, GateVerdict, verdicts
from polykv_core.measure import CapturedMeasurement, Measurement, check_replayable, measure, measure_model
from polykv_core.metrics import METRICS, Metric
from polykv_core.model_case import ModelReplayCase, ModelReplayQuery, load_model_case
from polykv_core.pool import SharedKVPool
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayMetrics, ModelReplayReceipt
from polykv_core.replay import judge, run_captured_model_replay, run_model_case, run_model_replay
from polykv_core.shell import AgentShell
from polykv_core.tier import KvTensorShape

__version__ = "0.1.0"

__all__ = [
    "CODECS",
    "DEFAULT_CANDIDATE_KS",
    "GATES",
    "METRICS",
    "AgentShell",
    "CacheError",
    "CandidateReplayMetrics",
    "CapturedMeasurement",
    "CapturedReplayConfig",
    "CapturedReplayFixture",
    "CapturedReplayQuery",
    "CapturedReplayReceipt",
    "CaseError",
    "CodecError",
    "ConfigError",
    "ExactCodec",
    "FibQuant",
    "FixtureError",
    "Gate",
    "GateVerdict",
    "KvTensorShape",
    "Measurement",
    "Metric",
    "ModelReplayCase",
    "ModelReplayConfig",
    "ModelReplayMetrics",
    "ModelReplayQuery",
    "ModelReplayReceipt",
    "PolyKvError",
    "ReceiptError",
    "SharedKVPool",
    "TurboQuant",
    "check_replayable",
    "judge",
    "load_captured_config",
    "load_fixture",
    "load_model_case",
    "measure",
    "measure_model",
    "run_captured_model_replay",
    "run_model_case",
    "run_model_replay",
    "verdicts",
]
