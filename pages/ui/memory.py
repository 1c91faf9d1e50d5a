"""Memory that large files took goes back to the system; the C library alone would keep it, some more for each file.

Only glibc has these two switches; elsewhere nothing happens.
"""

import ctypes
import gc
from contextlib import suppress

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h
# Files, their texts and lists of their numbers are larger than that; what a replay computes with mostly is not.
_LARGE_BLOCK = 4 * 2**20

_ABSENT = (OSError, AttributeError, TypeError)


def give_back_large_blocks() -> None:
    """From now on, return each large block to the system at once; said once a process, and cheap to say again."""
    with suppress(*_ABSENT):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BLOCK)


def give_back() -> None:
    """Return what is free now."""
    gc.collect()
    with suppress(*_ABSENT):
        ctypes.CDLL(None).malloc_trim(0)
