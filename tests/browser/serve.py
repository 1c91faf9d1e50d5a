"""Serve the dashboard until standard input closes: so it ends with the process that started it, however that ended.

The replay of a fixture whose model id is HELD_UP never ends by itself, so that a test can look at it and cancel it.
"""

import os
import sys
import threading
import time

from streamlit.web.cli import main

from pages.ui import replayed

HELD_UP = "held up"


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def _measure_or_hold(measure):
    def measured(fixture, ks, on_query, *, options):
        def told(done, total):
            on_query(done, total)
            while fixture.model_id == HELD_UP and done == 1:
                time.sleep(0.05)
                on_query(done, total)  # raises once the job is cancelled

        return measure(fixture, ks, told, options=options)

    return measured


if __name__ == "__main__":
    replayed.measure = _measure_or_hold(replayed.measure)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = ["streamlit", "run", *sys.argv[1:]]
    main()
