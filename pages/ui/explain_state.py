"""What the Explain page shows: the replay on screen taken apart at one k, and what single changes would do to it.

The changes take longer, and are worked out while the rest is read. An explanation of something else is never shown.
"""

from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from pages.ui import jobs, uploads
from pages.ui.jobs import Job, OnQuery
from pages.ui.replayed import Load
from pages.ui.state import Shown
from polykv_core import Change, Explanation, PolyKvError, ReplayOptions, explain, what_would_help

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Part(Generic[T]):
    """A part of the page: `value` is None until it is there, `fault` says why it will not be."""

    value: T | None = None
    fault: str = ""
    cancelled: bool = False


def explanation(shown: Shown, k: int) -> Part[Explanation]:
    """The replay on screen, taken apart beside the page."""
    work = partial(_explain, shown.replayed.load, k, shown.curve.options)
    return part_of(jobs.run(uploads.EXPLAIN_JOB, _key(shown, k), f"{shown.source.name}, to explain it", work))


def changes(shown: Shown, taken_apart: Explanation) -> Part[tuple[Change, ...]]:
    """The replay under single changes, each replayed beside the page."""
    work = partial(_change, shown.replayed.load, taken_apart)
    key = _key(shown, taken_apart.candidate_k)
    return part_of(jobs.run(uploads.CHANGES_JOB, key, "it with one thing changed at a time", work, unit="changes"))


def try_again() -> None:
    """Start what was cancelled anew."""
    for slot in (uploads.EXPLAIN_JOB, uploads.CHANGES_JOB):
        jobs.forget_cancelled(slot)


def part_of(job: Job[T]) -> Part[T]:
    """What a job has come to."""
    try:
        return Part(job.result())
    except jobs.Cancelled:
        return Part(cancelled=True)
    except PolyKvError as bad:
        return Part(fault=str(bad))


def _key(shown: Shown, k: int) -> str:
    return f"{shown.source.digest} {k} {shown.curve.options}"


def _explain(load: Load, k: int, options: ReplayOptions, on_query: OnQuery) -> Explanation:
    return explain(load(), k, options, on_query)


def _change(load: Load, taken_apart: Explanation, on_change: OnQuery) -> tuple[Change, ...]:
    return what_would_help(load(), taken_apart, on_change)
