"""The codecs. To add one: a file beside this one (the contract is in base.py) and a line in CODECS."""

from polykv_core.codecs.base import Codec, Coder, take
from polykv_core.codecs.exact import ExactCodec
from polykv_core.codecs.fib_quant import FibQuant
from polykv_core.codecs.turbo_quant import TurboQuant

POOL_CODEC = FibQuant()
SHELL_CODEC = TurboQuant()
CODECS: tuple[Codec, ...] = (ExactCodec(), POOL_CODEC, SHELL_CODEC)

__all__ = ["CODECS", "POOL_CODEC", "SHELL_CODEC", "Codec", "Coder", "ExactCodec", "FibQuant", "TurboQuant", "take"]
