"""A fixture replayed over every k: facts and measured numbers, never its rows; and the measurements made last.

Of a fixture the session keeps no more than that: at most one fixture is in memory, for a moment. Measurements are
shared by everybody: they hold none of a fixture's rows, and only its whole digest finds one.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
from cachetools import LRUCache

from pages.ui import links
from pages.ui.jobs import OnQuery
from polykv_core import (
    CapturedMeasurement,
    CapturedReplayFixture,
    Finding,
    ReplayOptions,
    check_replayable,
    every_k,
    measure,
)
from polykv_core.health import ACCEPTED

Load = Callable[[], CapturedReplayFixture]

_MOST_KEPT = 16


@dataclass(frozen=True)
class Source:
    """What is said of a fixture: the names it goes by, and what it holds; `shows` only if it is a sample."""

    name: str
    file_name: str
    shows: str
    model_id: str
    digest: str
    warnings: tuple[str, ...]
    rows: tuple[int, ...]
    shared_tokens: int
    head_dim: int
    vocab: int
    seed: int

    @classmethod
    def of(cls, fixture: CapturedReplayFixture, *, name: str, file_name: str, shows: str) -> "Source":
        """The facts of a fixture."""
        return cls(
            name=name,
            file_name=file_name,
            shows=shows,
            model_id=fixture.model_id,
            digest=fixture.digest,
            warnings=fixture.warnings,
            rows=tuple(query.row_count for query in fixture.queries),
            shared_tokens=fixture.shared_tokens,
            head_dim=fixture.head_dim,
            vocab=len(fixture.output_projection),
            seed=fixture.seed,
        )


@dataclass(frozen=True)
class Replayed:
    """A fixture's facts, what is odd about it, its measurement over every k, and how to load it again."""

    source: Source
    findings: tuple[Finding, ...]
    curve: CapturedMeasurement
    load: Load


class Shelf:
    """The measurements made last, by digest and options, for all sessions and their threads."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._lock = threading.Lock()
        self._kept: LRUCache[tuple[str, ReplayOptions], CapturedMeasurement] = LRUCache(_MOST_KEPT)

    def get(self, digest: str, options: ReplayOptions) -> CapturedMeasurement | None:
        """The measurement of a digest with these options, if it is kept."""
        with self._lock:
            return self._kept.get((digest, options))

    def put(self, measurement: CapturedMeasurement) -> None:
        """Keep a measurement, and let the one go that was not asked for longest."""
        with self._lock:
            self._kept[measurement.fixture_digest, measurement.options] = measurement


def replay(
    load: Load,
    told: Callable[[CapturedReplayFixture], Source],
    options: ReplayOptions,
    kept: Shelf,
    wanted: str,
    on_query: OnQuery,
) -> Replayed:
    """Load a fixture and measure every k, unless the shelf has that; what is not the wanted fixture is refused."""
    fixture = load()
    links.check(fixture.digest, wanted)
    curve = kept.get(fixture.digest, options)
    if curve is None:
        check_replayable(fixture, options)
        curve = measure(fixture, every_k(fixture), on_query, options=options)
        kept.put(curve)
    odd = tuple(finding for finding in curve.findings if finding.code != ACCEPTED)  # the source tells those warnings
    return Replayed(told(fixture), odd, curve, load)


@st.cache_resource(max_entries=1, show_spinner=False)
def shelf() -> Shelf:
    """The one shelf of this server."""
    return Shelf()
