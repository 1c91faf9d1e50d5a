"""What a replay measured, and how a query's replayed outputs are held against the exact one."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from polykv_core.arrays import Array, Float32, Float64, Int64
from polykv_core.attention import project, softmax
from polykv_core.errors import ConfigError
from polykv_core.fixture import FixtureFacts
from polykv_core.health import Finding
from polykv_core.metrics import METRICS, QueryMetrics, Statistic, argmax_last, cosine, kl_divergence, mse, nll
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.version import Versions

Measured = TypeVar("Measured", bound="Measurement")


@dataclass(frozen=True, eq=False)
class Measurement:
    """What a replay measured at each candidate k, for each query and over all of them."""

    candidate_ks: tuple[int, ...]
    queries: QueryMetrics
    statistic: Statistic = field(default="mean", kw_only=True)

    @cached_property
    def metrics(self) -> dict[str, Float64[Array, " k"]]:
        """Every metric of METRICS by name, over the queries by `statistic`, for each candidate k."""
        return {metric.name: metric.over(self.queries, self.statistic) for metric in METRICS}

    def by(self: Measured, statistic: Statistic) -> Measured:
        """The same measurement with its metrics summed up over the queries in another way."""
        return self if statistic == self.statistic else replace(self, statistic=statistic)

    @property
    def query_count(self) -> int:
        """Queries replayed."""
        return len(self.queries.rows)

    @property
    def full_decode_value_count(self) -> int:
        """Value rows that reading everything would decode."""
        return int(self.queries.rows.sum())

    @cached_property
    def _places(self) -> dict[int, int]:
        most_rows = int(self.queries.rows.max())
        return {min(k, most_rows): index for index, k in enumerate(self.candidate_ks)}

    def index_of(self, k: int) -> int:
        """Where a k stands in candidate_ks; beyond the rows of every query, all such ks are the same.

        Raises ConfigError if it was not measured.
        """
        most_rows = int(self.queries.rows.max())
        if min(k, most_rows) in self._places:
            return self._places[min(k, most_rows)]
        measured = ", ".join(map(str, self.candidate_ks[:8])) + (", ..." if len(self.candidate_ks) > 8 else "")
        raise ConfigError(f"candidate k {k} was not measured; measured were {measured}")


@dataclass(frozen=True, eq=False)
class CapturedMeasurement(Measurement):
    """The measurement of a captured fixture: whose it is, what is odd about that, and what it was made with."""

    model_id: str
    fixture: FixtureFacts
    findings: tuple[Finding, ...] = ()
    options: ReplayOptions = REFERENCE
    made_with: Versions = field(default_factory=Versions.here)

    @property
    def fixture_digest(self) -> str:
        """The sha256 of the fixture's content."""
        return self.fixture.digest


@dataclass(frozen=True, eq=False)
class Exact:
    """What a query's replay is held against."""

    output: Float32[Array, " d"]
    logits: Float32[Array, " v"]
    projection: Float32[Array, "v d"]
    label: int


def compared(
    outputs: Float32[Array, "k d"], decoded_values: Int64[Array, " k"], row_count: int, exact: Exact
) -> QueryMetrics:
    """One query's metrics for each of some outputs, with how many of its rows each has read."""
    logits = project(outputs, exact.projection)
    p, q = softmax(exact.logits[None]), softmax(logits)
    return QueryMetrics(
        cosine=cosine(exact.output, outputs)[None],
        mse=mse(exact.output, outputs)[None],
        kl=kl_divergence(p[0], q)[None],
        nll_exact=nll(p, exact.label)[None],
        nll_compressed=nll(q, exact.label)[None],
        top1_same=(argmax_last(logits) == argmax_last(exact.logits[None]))[None],
        decoded_values=decoded_values[None],
        rows=np.array([row_count]),
    )
