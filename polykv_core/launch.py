"""Starts the dashboard: `streamlit run`, in this process, on the app that belongs to this package."""

import ctypes
import os
import runpy
import socket
import sys
from contextlib import suppress
from pathlib import Path

from polykv_core.errors import PolyKvError

# The dashboard reads here which fixture to show first: the path of a file.
FIXTURE_VARIABLE = "POLYKV_FIXTURE"
# And here which of its heads, if it holds several.
HEAD_VARIABLE = "POLYKV_HEAD"
_ARENA_MAX = -8  # M_ARENA_MAX of glibc's malloc.h


def dashboard_folder() -> Path:
    """Where app.py, pages/, .streamlit/ and sample_fixtures/ lie: in an installed package, else in the checkout."""
    installed = Path(__file__).with_name("_dashboard")
    return installed if installed.is_dir() else Path(__file__).parents[1]


def check_port(port: int) -> None:
    """Raise PolyKvError if nothing can listen on a port of this machine."""
    try:
        socket.create_server(("localhost", port)).close()
    except OSError as bad:
        why = os.strerror(bad.errno) if bad.errno else str(bad)
        raise PolyKvError(f"cannot listen on port {port}: {why}; give another one with --port") from None


def serve(fixture: str | None = None, port: int | None = None, head: str | None = None) -> None:
    """Serve the dashboard until it is interrupted, on the first free port from 8501 on if none is given.

    In this process, so that a signal or a terminal that closes ends the server itself, on every system.
    """
    if fixture is not None:
        os.environ[FIXTURE_VARIABLE] = str(Path(fixture).absolute())
        os.environ[HEAD_VARIABLE] = head or ""
    options = ["--server.fileWatcherType=none"]
    if port is not None:
        options.append(f"--server.port={port}")
    _share_one_arena()
    # By name: an import of streamlit would cost every other command a second.
    sys.argv = ["streamlit", "run", str(dashboard_folder() / "app.py"), *options]
    runpy.run_module("streamlit", run_name="__main__", alter_sys=True)


def _share_one_arena() -> None:
    """Let all threads share one heap: each replay has a thread of its own, and each heap would keep holes of its own.

    Only glibc has this switch; elsewhere nothing happens.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
