"""This package's version, and the versions that numbers were made with."""

import platform
from dataclasses import dataclass

import numpy as np

__version__ = "0.1.0"


@dataclass(frozen=True)
class Versions:
    """What measured: a receipt says so, for numbers may move with any of these."""

    polykv: str
    python: str
    numpy: str

    @classmethod
    def here(cls) -> "Versions":
        """Those of this process."""
        return cls(__version__, platform.python_version(), np.__version__)
