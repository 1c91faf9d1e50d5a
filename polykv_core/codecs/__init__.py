"""The codecs. To add one: a file beside this one (the contract is in base.py) and a line each in CODECS and _IDS."""

import re

from polykv_core.codecs.base import Codec, Coder, take
from polykv_core.codecs.exact import ExactCodec
from polykv_core.codecs.fib_quant import FibQuant
from polykv_core.codecs.turbo_quant import TurboQuant
from polykv_core.errors import CodecError

POOL_CODEC = FibQuant()
SHELL_CODEC = TurboQuant()
CODECS: tuple[Codec, ...] = (ExactCodec(), POOL_CODEC, SHELL_CODEC)

# How the settings of a codec are read out of its id, in the order of its fields.
_IDS: tuple[tuple[str, type[Codec]], ...] = (
    (r"exact", ExactCodec),
    (r"fib_k(\d{1,4})_n(\d{1,5})", FibQuant),
    (r"turbo_(\d{1,3})bit(?:_p(\d{1,6}))?", TurboQuant),
)


def codec_of(codec_id: str) -> Codec:
    """The codec with an id such as "fib_k4_n32" or "turbo_8bit". Raises CodecError for an id or settings of none."""
    for pattern, codec in _IDS:
        found = re.fullmatch(pattern, codec_id, re.ASCII)
        if found:
            return codec(*(int(setting) for setting in found.groups() if setting is not None))
    known = ", ".join(codec.id for codec in CODECS)
    raise CodecError(f"no codec is called {codec_id[:40]!r}; expected an id such as {known}")


__all__ = [
    "CODECS",
    "POOL_CODEC",
    "SHELL_CODEC",
    "Codec",
    "Coder",
    "ExactCodec",
    "FibQuant",
    "TurboQuant",
    "codec_of",
    "take",
]
