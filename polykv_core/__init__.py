"""Replay captured attention heads through a two-tier compressed KV cache and judge what is left of them."""

from polykv_core.advice import Change, reasons, what_would_help
from polykv_core.codecs import CODECS, ExactCodec, FibQuant, TurboQuant
from polykv_core.compare import ACROSS, Comparison, Moved, compare, relative_config
from polykv_core.config import (
    DEFAULT_CANDIDATE_KS,
    THRESHOLDS,
    CapturedReplayConfig,
    GateThresholds,
    ModelReplayConfig,
    load_captured_config,
    parse_ks,
)
from polykv_core.errors import (
    CacheError,
    CaseError,
    CodecError,
    CompareError,
    ConfigError,
    FixtureError,
    PolyKvError,
    ReceiptError,
    StoreError,
)
from polykv_core.explain import Explanation, Stage, explain
from polykv_core.explained import explanation_dict, explanation_json
from polykv_core.exports import (
    candidates_csv,
    command_line,
    curve_csv,
    explain_command_line,
    file_stem,
    plain_name,
    receipt_stem,
    receipts_zip,
)
from polykv_core.fixture import CapturedReplayFixture, CapturedReplayQuery, FixtureFacts
from polykv_core.gates import GATES, CandidateReplayMetrics, Gate, GateVerdict, gates_off, verdicts
from polykv_core.health import Finding, check_fixture, replay_findings
from polykv_core.loading import heads_in, load_fixture
from polykv_core.measure import check_replayable, every_k, measure, measure_model
from polykv_core.measurement import CapturedMeasurement, Measurement
from polykv_core.metrics import METRICS, STATISTICS, Metric, QueryMetrics, Statistic
from polykv_core.model_case import ModelReplayCase, ModelReplayQuery, load_model_case
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.pool import SharedKVPool
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayMetrics, ModelReplayReceipt
from polykv_core.replay import judge, run_captured_model_replay, run_model_case, run_model_replay
from polykv_core.scale import ScaleFit, fit_scale
from polykv_core.scores import QueryRows, ScoreReport, Tier, TierScores
from polykv_core.settings import load_settings, settings_json
from polykv_core.shell import AgentShell
from polykv_core.statistics import HeadStatistics, head_statistics
from polykv_core.tier import KvTensorShape
from polykv_core.tuning import (
    PRESETS,
    Flip,
    Reversal,
    just_passing,
    largest_reversal,
    nearest_flip,
    passing,
    smallest_passing_k,
    thinned,
    thresholds_from,
)
from polykv_core.uncertainty import RESAMPLES, Interval, intervals
from polykv_core.verify import Verification, receipt_fields, verify
from polykv_core.version import Versions, __version__

__all__ = [
    "ACROSS",
    "CODECS",
    "DEFAULT_CANDIDATE_KS",
    "GATES",
    "METRICS",
    "PRESETS",
    "REFERENCE",
    "RESAMPLES",
    "STATISTICS",
    "THRESHOLDS",
    "AgentShell",
    "CacheError",
    "CandidateReplayMetrics",
    "CapturedMeasurement",
    "CapturedReplayConfig",
    "CapturedReplayFixture",
    "CapturedReplayQuery",
    "CapturedReplayReceipt",
    "CaseError",
    "Change",
    "CodecError",
    "CompareError",
    "Comparison",
    "ConfigError",
    "ExactCodec",
    "Explanation",
    "FibQuant",
    "Finding",
    "FixtureError",
    "FixtureFacts",
    "Flip",
    "Gate",
    "GateThresholds",
    "GateVerdict",
    "HeadStatistics",
    "Interval",
    "KvTensorShape",
    "Measurement",
    "Metric",
    "ModelReplayCase",
    "ModelReplayConfig",
    "ModelReplayMetrics",
    "ModelReplayQuery",
    "ModelReplayReceipt",
    "Moved",
    "PolyKvError",
    "QueryMetrics",
    "QueryRows",
    "ReceiptError",
    "ReplayOptions",
    "Reversal",
    "ScaleFit",
    "ScoreReport",
    "SharedKVPool",
    "Stage",
    "Statistic",
    "StoreError",
    "Tier",
    "TierScores",
    "TurboQuant",
    "Verification",
    "Versions",
    "__version__",
    "candidates_csv",
    "check_fixture",
    "check_replayable",
    "command_line",
    "compare",
    "curve_csv",
    "every_k",
    "explain",
    "explain_command_line",
    "explanation_dict",
    "explanation_json",
    "file_stem",
    "fit_scale",
    "gates_off",
    "head_statistics",
    "heads_in",
    "intervals",
    "judge",
    "just_passing",
    "largest_reversal",
    "load_captured_config",
    "load_fixture",
    "load_model_case",
    "load_settings",
    "measure",
    "measure_model",
    "nearest_flip",
    "parse_ks",
    "passing",
    "plain_name",
    "reasons",
    "receipt_fields",
    "receipt_stem",
    "receipts_zip",
    "relative_config",
    "replay_findings",
    "run_captured_model_replay",
    "run_model_case",
    "run_model_replay",
    "settings_json",
    "smallest_passing_k",
    "thinned",
    "thresholds_from",
    "verdicts",
    "verify",
    "what_would_help",
]
