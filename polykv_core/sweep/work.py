"""The work on one head, as it runs in a worker: read, measure, take apart, count. Nothing in it knows a threshold."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import no_type_check

from polykv_core.codecs.kept_codebooks import codebooks_in
from polykv_core.config import checked_ks
from polykv_core.footprint import footprint
from polykv_core.kept import packed
from polykv_core.measure import measure
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.sweep.faults import told
from polykv_core.sweep.folder import codebooks_folder
from polykv_core.sweep.items import SweepItem
from polykv_core.sweep.losses import step_losses
from polykv_core.sweep.result import HeadResult
from polykv_core.sweep.sources import Source


@no_type_check  # takes what comes, and checks it itself
@dataclass(frozen=True)
class SweepRequest:
    """What every head of a sweep is asked: which ks to read, and with which options. Each k counts once.

    Raises ConfigError for ks that mean nothing.
    """

    candidate_ks: tuple[int, ...]
    options: ReplayOptions = REFERENCE

    def __post_init__(self) -> None:
        """Check and normalise the ks."""
        object.__setattr__(self, "candidate_ks", tuple(dict.fromkeys(checked_ks(self.candidate_ks))))


Work = Callable[[SweepItem, SweepRequest, Source], HeadResult]


def work(item: SweepItem, request: SweepRequest, source: Source) -> HeadResult:
    """Do one head. Whatever stands in its way is the result's error: one head never stops the others."""
    started = time.perf_counter()
    try:
        with codebooks_in(codebooks_folder()):
            fixture = source.fixture(item.file, item.head)
            measurement = measure(fixture, request.candidate_ks, options=request.options)
            return HeadResult(
                item,
                packed(measurement, request.candidate_ks),
                step_losses(fixture, measurement),
                footprint(fixture, request.options),
                time.perf_counter() - started,
            )
    except Exception as bad:  # noqa: BLE001 - told as the head's error
        return failed(item, bad, time.perf_counter() - started)


def failed(item: SweepItem, bad: BaseException, seconds: float = 0.0) -> HeadResult:
    """The result of a head that has none, in one line that names the head and what went wrong."""
    return HeadResult(item, seconds=seconds, error=f"{item.name}: {told(bad)}")
