"""The codecs. To add one: a file beside this one (the contract is in base.py) and a line in CODECS."""

from polykv_core.codecs.base import Codec, Coder, take
from polykv_core.codecs.exact import ExactCodec
from polykv_core.codecs.fib_quant import FibQuant
from polykv_core.codecs.turbo_quant import TurboQuant

CODECS: tuple[Codec, ...] = (ExactCodec(), FibQuant(), TurboQuant())

__all__ = ["CODECS", "Codec", "Coder", "ExactCodec", "FibQuant", "TurboQuant", "take"]
