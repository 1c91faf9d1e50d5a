"""Every head of the file on screen, replayed beside the page; gates then judge what was measured, again and again."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from pages.ui import jobs, uploads
from pages.ui.controls import Choice
from pages.ui.explain_state import Part, part_of
from pages.ui.jobs import Cancelled, OnQuery
from pages.ui.replayed import Load
from pages.ui.uploads import Upload
from polykv_core import CapturedReplayConfig, PolyKvError, ReplayOptions
from polykv_core.sweep.items import sweep_items
from polykv_core.sweep.ledger import Ledger
from polykv_core.sweep.pareto import Split, shared_tokens_curve
from polykv_core.sweep.result import HeadResult
from polykv_core.sweep.run import run
from polykv_core.sweep.work import SweepRequest

Place = Callable[[], AbstractContextManager[Path]]


def heads_of(choice: Choice) -> tuple[str, ...]:
    """The names of the heads of the file on screen."""
    return choice.upload.heads if choice.upload is not None else choice.sample.heads


def file_name(choice: Choice) -> str:
    """What the file on screen is called."""
    return choice.upload.name if choice.upload is not None else choice.sample.file_name


def results(choice: Choice, config: CapturedReplayConfig, options: ReplayOptions) -> Part[tuple[HeadResult, ...]]:
    """Every head at the ks of a config, whatever its gates are."""
    upload, request = choice.upload, SweepRequest(config.candidate_ks, options)
    place: Place = partial(_on_disk, upload) if upload is not None else lambda: nullcontext(choice.sample.path)
    whose = f"upload {upload.number}" if upload is not None else f"sample {choice.sample.file_name}"
    key = f"{whose} {request}"
    name = f"every head of {file_name(choice)}"
    return part_of(jobs.run(uploads.SWEEP_JOB, key, name, partial(_swept, place, request), unit="heads"))


def splits(load: Load, whose: str, config: CapturedReplayConfig, options: ReplayOptions) -> Part[tuple[Split, ...]]:
    """One head with more or fewer of its rows in the pool."""
    key = f"{whose} {config} {options}"
    work = partial(_split, load, config, options)
    return part_of(jobs.run(uploads.SPLITS_JOB, key, "it with other numbers of shared tokens", work, unit="splits"))


def try_again() -> None:
    """Start what was cancelled anew."""
    for slot in (uploads.SWEEP_JOB, uploads.SPLITS_JOB):
        jobs.forget_cancelled(slot)


def _swept(place: Place, request: SweepRequest, on_head: OnQuery) -> tuple[HeadResult, ...]:
    """The results in the order of the file; what an earlier sweep of this user has done is not done again."""
    done: dict[object, HeadResult] = {}
    with place() as path:
        items = sweep_items([path])

        def stopped() -> bool:
            try:
                on_head(len(done), len(items))
            except Cancelled:
                return True
            return False

        with closing(run(items, request, ledger=_ledger(), should_stop=stopped)) as found:
            for result in found:
                done[result.item] = result
        on_head(len(done), len(items))  # raises if it was cancelled
    return tuple(done[item] for item in items)


def _ledger() -> Ledger | None:
    """Where finished heads are kept; on a machine that has no room for them, they are not."""
    try:
        return Ledger()
    except PolyKvError:
        return None


@contextmanager
def _on_disk(upload: Upload) -> Iterator[Path]:
    """An upload as a file that other processes can read, for as long as they do."""
    with tempfile.TemporaryDirectory(prefix="polykv-") as folder:
        path = Path(folder) / (Path(upload.name).name or "upload")
        path.write_bytes(upload.read())
        yield path


def _split(load: Load, config: CapturedReplayConfig, options: ReplayOptions, on_split: OnQuery) -> tuple[Split, ...]:
    return shared_tokens_curve(load(), config, options, on_split=on_split)
