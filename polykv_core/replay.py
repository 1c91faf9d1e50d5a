"""The two entry points. Each is the product in one line: fixture -> measure -> judge -> receipt."""

from collections.abc import Sequence

from polykv_core.config import CapturedReplayConfig, ModelReplayConfig
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.measure import measure, measure_model
from polykv_core.measurement import CapturedMeasurement
from polykv_core.model_case import ModelReplayCase, ModelReplayQuery
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.pool import SharedKVPool
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayReceipt
from polykv_core.shell import AgentShell


def judge(measurement: CapturedMeasurement, config: CapturedReplayConfig) -> CapturedReplayReceipt:
    """Hold a measurement against gates; cheap, and repeated for every moved threshold.

    Raises ConfigError if a k of the config was not measured.
    """
    return CapturedReplayReceipt.of(measurement, config)


def run_captured_model_replay(
    fixture: CapturedReplayFixture, config: CapturedReplayConfig, options: ReplayOptions = REFERENCE
) -> CapturedReplayReceipt:
    """Replay a captured fixture through the compressed cache and judge it. Raises PolyKvError for bad input."""
    return judge(measure(fixture, config.candidate_ks, options=options), config)


def run_model_replay(
    pool: SharedKVPool, shell: AgentShell, queries: Sequence[ModelReplayQuery], config: ModelReplayConfig
) -> ModelReplayReceipt:
    """Replay queries over a given pool and shell and judge them. Raises PolyKvError for bad input."""
    return ModelReplayReceipt.of(measure_model(pool, shell, queries, config), config)


def run_model_case(case: ModelReplayCase) -> ModelReplayReceipt:
    """Build a case's pool and shell, replay its queries and judge them. Raises PolyKvError for bad input."""
    pool = SharedKVPool.build(case.shared, case.shape, case.pool_seed)
    shell = pool.materialize_shell("model_replay", case.hot, case.shell_seed)
    return run_model_replay(pool, shell, case.queries, case.config)
