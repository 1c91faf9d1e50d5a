"""Long work beside the page: it says how far it is, it can be cancelled, and quick work is never seen at all.

A job lives in the session that started it, in a slot of its own; another job in the same slot ends the one before.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import streamlit as st

from polykv_core import PolyKvError

T = TypeVar("T")
OnQuery = Callable[[int, int], None]
Work = Callable[[OnQuery], T]

# Seconds that a page waits for a job it has just started, so that quick work flashes no progress bar.
PATIENCE: float | None = 0.3
# Seconds between two looks at how far it is; None looks once.
LOOK_EVERY: float | None = 0.3


class Cancelled(PolyKvError):  # noqa: N818 - nothing went wrong
    """The work was stopped because somebody asked for that."""


class Job(Generic[T]):
    """Some work in a thread.

    `key` says what it is about, `name` how to call it on the page, `unit` what it counts.
    """

    def __init__(self, key: str, name: str, work: Work[T], unit: str) -> None:
        """Start the work, which is given an on_query that counts, and that raises once the job is cancelled."""
        self.key, self.name, self.unit = key, name, unit
        self.done, self.total = 0, 0
        self._stop = threading.Event()
        self._result: T | None = None
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether there is something to wait for; a cancelled job is over at once, whatever its thread still does."""
        return self._thread.is_alive() and not self.cancelled

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled before it had a result."""
        return self._stop.is_set() and self._result is None

    def wait(self, seconds: float | None) -> None:
        """Wait for the end, but not longer than that."""
        self._thread.join(seconds)

    def cancel(self) -> None:
        """End the work at its next query."""
        self._stop.set()

    def result(self) -> T | None:
        """What came of it: None as long as it runs. Raises what went wrong, Cancelled if it was cancelled."""
        if self._result is not None:
            return self._result
        if self.cancelled:
            raise Cancelled("The work was cancelled")
        if self._fault is not None:
            raise self._fault.with_traceback(None)  # or every rerun would add to its traceback
        return None

    def _run(self, work: Work[T]) -> None:
        try:
            self._result = work(self._told)
        except PolyKvError as bad:
            # Where it comes from holds what was read: a file's whole text, for one that is no JSON.
            bad.__traceback__ = bad.__context__ = None
            self._fault = bad
        except BaseException as bad:  # noqa: BLE001 - raised again where the result is asked for
            self._fault = bad

    def _told(self, done: int, total: int) -> None:
        if self._stop.is_set():
            raise Cancelled("The work was cancelled")
        self.done, self.total = done, total


def run(slot: str, key: str, name: str, work: Work[T], unit: str = "queries") -> Job[T]:
    """The session's job for this key: the one in the slot if it is that, else a new one in its place."""
    job: Job[T] | None = st.session_state.get(slot)
    if job is None or job.key != key:
        if job is not None:
            job.cancel()
        job = st.session_state[slot] = Job(key, name, work, unit)
        job.wait(PATIENCE)
    return job


def forget(slot: str) -> None:
    """Empty a slot, so that the same work starts anew when it is asked for again."""
    job: Job[object] | None = st.session_state.pop(slot, None)
    if job is not None:
        job.cancel()


def forget_cancelled(slot: str) -> None:
    """Empty a slot if its work was cancelled."""
    job: Job[object] | None = st.session_state.get(slot)
    if job is not None and job.cancelled:
        forget(slot)


def draw(slot: str) -> None:
    """Say how far the job in a slot is, with a button that cancels it; nothing if none is running."""
    job: Job[object] | None = st.session_state.get(slot)
    if job is not None and job.running:
        with st.container(border=True, key=f"{slot}_progress"):
            st.text(f"Replaying {job.name}")  # a file name is data
            st.fragment(_draw_progress, run_every=LOOK_EVERY)(slot)


def _draw_progress(slot: str) -> None:
    job: Job[object] | None = st.session_state.get(slot)
    if job is None or not job.running:
        st.rerun(scope="app")
        return
    bar, button = st.columns([2, 1], vertical_alignment="center")
    done = f"{job.done} of {job.total} {job.unit} done" if job.total else "Reading the file"
    bar.progress(job.done / job.total if job.total else 0.0, text=done)
    button.button("Cancel", key=f"{slot}_cancel", on_click=job.cancel, icon=":material/close:", width="stretch")
