"""Where sweeps keep what they may need again: finished heads, and trained codebooks."""

import os
from pathlib import Path

import platformdirs


def default_folder() -> Path:
    """Where the environment variable POLYKV_SWEEPS says, else in this user's cache."""
    return Path(os.environ.get("POLYKV_SWEEPS") or Path(platformdirs.user_cache_dir("polykv")) / "sweeps")


def codebooks_folder() -> Path:
    """The codebooks' folder in it; a worker on another machine has one of its own there."""
    return default_folder() / "codebooks"
