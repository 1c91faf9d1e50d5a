"""Serve the dashboard until standard input closes: so it ends with the process that started it, however that ended."""

import os
import sys
import threading

from streamlit.web.cli import main


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = ["streamlit", "run", *sys.argv[1:]]
    main()
