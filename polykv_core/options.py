"""What may differ from the reference in a replay: the scale of the scores, the coding of the query, and the codecs."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, no_type_check

import numpy as np

from polykv_core.checks import Checks, shown
from polykv_core.codecs import POOL_CODEC, SHELL_CODEC, Codec, codec_of
from polykv_core.errors import CodecError, ConfigError

AttentionScale = Literal["reference", "inverse_sqrt_head_dim"] | float
QueryCoding = Literal["compressed", "exact"]

_NAMED_SCALES = ("reference", "inverse_sqrt_head_dim")
_ROUNDING = 1e-6
_QUERY_CODINGS = ("compressed", "exact")

_check = Checks(ConfigError)


@no_type_check  # takes what comes, and checks it itself
@dataclass(frozen=True)
class ReplayOptions:
    """Options of a replay; the defaults are the reference's, and only they give the reference's receipt.

    `attention_scale` multiplies every score: the reference's is 1, most models' 1 / sqrt(head_dim).
    `query_coding`: the reference quantises the query as well before it scores the pool; "exact" does not.
    A codec is given as such, or by its id ("exact", "fib_k4_n64", "turbo_12bit_p64").
    Raises ConfigError for what none of these can be.
    """

    attention_scale: AttentionScale = "reference"
    query_coding: QueryCoding = "compressed"
    pool_codec: Codec = POOL_CODEC
    shell_codec: Codec = SHELL_CODEC

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        object.__setattr__(self, "attention_scale", _checked_scale(self.attention_scale))
        if not isinstance(self.query_coding, str) or self.query_coding not in _QUERY_CODINGS:
            raise ConfigError(
                f"query_coding is {shown(self.query_coding)}; expected one of {', '.join(_QUERY_CODINGS)}"
            )
        for name in ("pool_codec", "shell_codec"):
            object.__setattr__(self, name, _checked_codec(getattr(self, name), name))

    def scale(self, head_dim: int) -> np.float32:
        """What scores are multiplied by."""
        if self.attention_scale == "reference":
            return np.float32(1.0)
        if self.attention_scale == "inverse_sqrt_head_dim":
            return np.float32(1.0 / math.sqrt(head_dim))
        return np.float32(self.attention_scale)

    @staticmethod
    def setting_of(scale: float, head_dim: int, digits: int = 9) -> str:
        """The attention_scale that is this number: its name, or so many digits of it."""
        natural = math.isclose(scale, 1.0 / math.sqrt(head_dim), rel_tol=_ROUNDING)
        return "inverse_sqrt_head_dim" if natural else f"{scale:.{digits}g}"

    @property
    def changed(self) -> dict[str, Any]:
        """What differs from the reference, as JSON fields; empty for the reference's replay."""
        reference = REFERENCE.to_dict()
        return {name: value for name, value in self.to_dict().items() if value != reference[name]}

    def to_dict(self) -> dict[str, Any]:
        """All of the JSON fields, codecs by their ids."""
        return {
            "attention_scale": self.attention_scale,
            "query_coding": self.query_coding,
            "pool_codec": self.pool_codec.id,
            "shell_codec": self.shell_codec.id,
        }

    @classmethod
    def from_dict(cls, data: object) -> "ReplayOptions":
        """Options from JSON fields; what is missing is the reference's. Raises ConfigError."""
        record = _check.record(data, "the options")
        names = [field.name for field in fields(cls)]
        _check.no_near_miss(record, names, "the options")
        return cls(**{name: record[name] for name in names if name in record})


def _checked_scale(scale: object) -> str | float:
    if isinstance(scale, str):
        if scale in _NAMED_SCALES:
            return scale
        raise ConfigError(
            f"attention_scale is {shown(scale)}; expected {', '.join(_NAMED_SCALES)} or a positive number"
        )
    number = _check.number(scale, "attention_scale")
    with np.errstate(over="ignore", under="ignore"):
        held = np.float32(number)
    if not (np.isfinite(held) and held > 0.0):
        raise ConfigError(f"attention_scale is {number!r}; expected a positive number that float32 can hold")
    return "reference" if held == 1.0 else number


def _checked_codec(codec: object, name: str) -> Codec:
    if not isinstance(codec, str):
        if isinstance(codec, type) or not isinstance(codec, Codec):
            raise ConfigError(f"{name} is {shown(codec)}; expected a codec, or the id of one")
        return codec
    try:
        return codec_of(codec)
    except CodecError as bad:
        raise ConfigError(f"{name}: {bad}") from None


REFERENCE = ReplayOptions()
