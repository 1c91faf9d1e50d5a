"""What a replay is asked: which ks to read, and the gates they must pass."""

import re
from dataclasses import MISSING, dataclass, fields
from typing import Any, Protocol, TypeVar, no_type_check, runtime_checkable

from polykv_core.arrays import U64_MASK, Array
from polykv_core.checks import Checks, shown
from polykv_core.errors import ConfigError
from polykv_core.jsontext import Source, read_json
from polykv_core.metrics import STATISTICS, Statistic

DEFAULT_CANDIDATE_KS = (8, 16, 32, 64)
_MOST_DIGITS = 20
# Each is judged and written by itself; a curve over every k needs no list of candidates.
_MOST_CANDIDATES = 10_000
# Many times the largest vocabulary of any model; the projection is made in memory.
_MOST_VOCABULARY = 2**22

_check = Checks(ConfigError)

Config = TypeVar("Config", bound="_Config")


@runtime_checkable
class GateThresholds(Protocol):
    """The ks, and the gates that both configs carry. Equality passes."""

    @property
    def candidate_ks(self) -> tuple[int, ...]:
        """Numbers of rows to read, in the order of preference."""

    @property
    def statistic(self) -> Statistic:
        """How metrics are summed up over the queries before they are held against the gates."""

    @property
    def min_output_cosine(self) -> float:
        """Lowest mean cosine between exact and replayed output."""

    @property
    def max_output_mse(self) -> float:
        """Highest mean squared error of the output."""

    @property
    def max_kl_divergence(self) -> float:
        """Highest mean KL(exact || replayed), in nats."""

    @property
    def max_ppl_delta(self) -> float:
        """Highest absolute change of the perplexity proxy."""

    @property
    def min_top1_agreement(self) -> float:
        """Lowest share of queries whose top token stays."""


THRESHOLDS = ("min_output_cosine", "max_output_mse", "max_kl_divergence", "max_ppl_delta", "min_top1_agreement")


class _Config:
    """What both configs share: to and from JSON fields."""

    @classmethod
    def from_dict(cls: type[Config], data: object) -> Config:
        """A config from JSON fields; what is missing takes its default. Raises ConfigError."""
        known = fields(cls)  # type: ignore[arg-type]
        record = _check.record(data, "the config", [field.name for field in known if field.default is MISSING])
        names = [field.name for field in known]
        _check.no_near_miss(record, names, "the config")
        return cls(**{name: record[name] for name in names if name in record})

    def to_dict(self) -> dict[str, Any]:
        """The JSON fields, in the reference's order; the statistic, which that does not know, if it is not the mean."""
        record = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        if record["statistic"] == "mean":
            del record["statistic"]
        return record


@no_type_check  # takes what comes, and checks it itself
@dataclass(frozen=True)
class CapturedReplayConfig(_Config):
    """Candidate ks and gates for a captured replay; the gates' defaults are the reference's.

    Raises ConfigError for no ks, a k below 1, or a threshold that is not finite.
    """

    candidate_ks: tuple[int, ...]
    min_output_cosine: float = 0.75
    max_output_mse: float = 0.25
    max_kl_divergence: float = 0.50
    max_ppl_delta: float = 1.0
    min_top1_agreement: float = 0.25
    statistic: Statistic = "mean"

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        ks = checked_ks(self.candidate_ks)
        if len(ks) > _MOST_CANDIDATES:
            raise ConfigError(f"candidate_ks has {len(ks)} entries; at most {_MOST_CANDIDATES} are judged at once")
        _set(self, candidate_ks=ks, **_checked_gates(self))


@no_type_check  # takes what comes, and checks it itself
@dataclass(frozen=True)
class ModelReplayConfig(_Config):
    """Layer, head, synthetic projection, candidate ks and gates for a model replay; defaults are the reference's.

    Raises ConfigError for what CapturedReplayConfig refuses, a vocab_size below 1, or an index below 0. No ks are
    accepted here, as in the reference, and refused when the replay runs.
    """

    layer: int = 0
    head: int = 0
    candidate_ks: tuple[int, ...] = ()
    vocab_size: int = 64
    projection_seed: int = 0
    min_output_cosine: float = 0.75
    max_output_mse: float = 0.25
    max_kl_divergence: float = 0.50
    max_ppl_delta: float = 1.0
    min_top1_agreement: float = 0.25
    statistic: Statistic = "mean"

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        indices = {name: _check.integer(getattr(self, name), name) for name in ("layer", "head", "projection_seed")}
        vocab_size = _check.integer(self.vocab_size, "vocab_size", low=1, high=_MOST_VOCABULARY)
        none = isinstance(self.candidate_ks, list | tuple) and not self.candidate_ks
        ks = () if none else checked_ks(self.candidate_ks)
        _set(self, candidate_ks=ks, vocab_size=vocab_size, **indices, **_checked_gates(self))


def load_captured_config(source: Source) -> CapturedReplayConfig:
    """Read a CapturedReplayConfig from JSON in a path, bytes or a file object. Raises ConfigError."""
    return CapturedReplayConfig.from_dict(_check.record(read_json(source, ConfigError), "the file"))


def parse_ks(text: str) -> tuple[int, ...]:
    """Candidate ks from text such as "8, 16, 32" (commas, semicolons or blanks between). Raises ConfigError."""
    words = [word for word in re.split(r"[\s,;]+", text) if word]
    for word in words:
        if not (word.isascii() and word.isdecimal()):
            raise ConfigError(f"candidate_ks has {shown(word)}; expected whole numbers with commas, such as 8, 16, 32")
    # Counted, not converted: a number of thousands of digits would not convert.
    return checked_ks([int(word) if len(word) <= _MOST_DIGITS else U64_MASK + 1 for word in words])


def checked_ks(ks: object) -> tuple[int, ...]:
    """The candidate ks, if there are any and each is at least 1; larger than the rows means all rows."""
    if isinstance(ks, range) or (isinstance(ks, Array) and ks.ndim == 1):
        ks = list(ks)
    items = _check.items(ks, "candidate_ks")
    if not items:
        raise ConfigError("candidate_ks is empty; give at least one number of rows to read")
    return tuple(_check.integer(k, f"candidate_ks entry {index}", low=1) for index, k in enumerate(items))


def _checked_gates(config: GateThresholds) -> dict[str, Any]:
    if not isinstance(config.statistic, str) or config.statistic not in STATISTICS:
        raise ConfigError(f"statistic is {shown(config.statistic)}; expected one of {', '.join(STATISTICS)}")
    return {name: _check.number(getattr(config, name), name) for name in THRESHOLDS}


def _set(config: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(config, name, value)
