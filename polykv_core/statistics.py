"""What `perplexity --kl-divergence` of llama.cpp prints, with its standard errors, over one captured head's queries."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from polykv_core.arrays import Array, Float64, sum_in_order
from polykv_core.metrics import QueryMetrics

# One head's projected output stands in for a model's, so none of this is a model's perplexity.
STATISTICS_TITLE = "captured-head proxy"
PERCENTS = (99.9, 99.0, 95.0, 90.0, 50.0, 10.0, 5.0, 1.0, 0.1)

# The spread of fewer says too little about the error of their mean.
ENOUGH_QUERIES = 10


@dataclass(frozen=True)
class Estimate:
    """A value over the queries and its standard error; None where the error is withheld."""

    value: float
    error: float | None

    def carried(self, value: float, slope: float) -> "Estimate":
        """A function of this estimate, given its value and its slope here: the error grows by the slope."""
        return Estimate(value, None if self.error is None else slope * self.error)


@dataclass(frozen=True)
class Distribution:
    """How one number is spread over the queries; `percentiles` holds (percent, value) for each of PERCENTS."""

    mean: Estimate
    maximum: float
    percentiles: tuple[tuple[float, float], ...]
    minimum: float

    def to_dict(self) -> dict[str, Any]:
        """The fields for JSON; percentiles as an object, from "99.9" down to "0.1"."""
        return {**asdict(self), "percentiles": {f"{percent:g}": value for percent, value in self.percentiles}}


@dataclass(frozen=True)
class HeadStatistics:
    """One candidate k's statistics: perplexities and KL divergence (nats) of the replayed head against the exact one.

    A perplexity is that of the labels. `correlation` is between the two losses of a query, None where either loss is
    the same for every query. `probability_change` is the label's probability after less before, and
    `probability_change_rms` its root mean square; these and `top1_agreement` are shares of 1. `errors_withheld` says
    why there are no standard errors, and is empty where there are.
    """

    query_count: int
    ppl_compressed: Estimate
    ppl_exact: Estimate
    correlation: float | None
    ppl_log_ratio: Estimate
    ppl_ratio: Estimate
    ppl_difference: Estimate
    kl_divergence: Distribution
    probability_change: Distribution
    probability_change_rms: Estimate
    top1_agreement: Estimate
    errors_withheld: str

    def to_dict(self) -> dict[str, Any]:
        """The title and the fields for JSON, numbers as they are, which may be not finite where a measured one is."""
        distributions = {name: getattr(self, name).to_dict() for name in ("kl_divergence", "probability_change")}
        return {"title": STATISTICS_TITLE, **asdict(self), **distributions}

    def lines(self) -> list[str]:
        """The block as llama.cpp prints it: six significant digits, or three decimals of a percentage."""
        withheld = ["", self.errors_withheld] if self.errors_withheld else []
        return [
            f"====== Perplexity statistics ({STATISTICS_TITLE}) ======",
            *_aligned(self._perplexity_rows()),
            "",
            "====== KL divergence statistics ======",
            *_aligned(_distribution_rows("KLD", self.kl_divergence)),
            "",
            "====== Token probability statistics ======",
            *_aligned(self._probability_rows()),
            *withheld,
        ]

    def _perplexity_rows(self) -> list["_Row"]:
        return [
            _Row.of("Mean PPL(Q)", self.ppl_compressed),
            _Row.of("Mean PPL(base)", self.ppl_exact),
            _Row("Cor(ln(PPL(Q)), ln(PPL(base)))", self.correlation, percentage=True),
            _Row.of("Mean ln(PPL(Q)/PPL(base))", self.ppl_log_ratio),
            _Row.of("Mean PPL(Q)/PPL(base)", self.ppl_ratio),
            _Row.of("Mean PPL(Q)-PPL(base)", self.ppl_difference),
        ]

    def _probability_rows(self) -> list["_Row"]:
        return [
            *_distribution_rows("Δp", self.probability_change, percentage=True),
            _Row.of("RMS Δp", self.probability_change_rms, percentage=True),
            _Row.of("Same top p", self.top1_agreement, percentage=True),
        ]


@np.errstate(invalid="ignore")
def head_statistics(queries: QueryMetrics, at: int) -> HeadStatistics:
    """The statistics at one candidate k; `at` is where it stands among the ks of the queries. One query is enough.

    Standard errors are those of a mean over independent queries, carried through exp, root and difference to first
    order. Numbers that are not finite give statistics that are not, without a warning.
    """
    compressed, exact = queries.nll_compressed[:, at], queries.nll_exact[:, 0]
    ppl_compressed, ppl_exact = _exponential(_mean_estimate(compressed)), _exponential(_mean_estimate(exact))
    log_ratio = _mean_estimate(compressed - exact)
    change = np.exp(-compressed) - np.exp(-exact)
    return HeadStatistics(
        query_count=len(exact),
        ppl_compressed=ppl_compressed,
        ppl_exact=ppl_exact,
        correlation=_correlation(compressed, exact),
        ppl_log_ratio=log_ratio,
        ppl_ratio=_exponential(log_ratio),
        ppl_difference=_difference(compressed, ppl_compressed.value, exact, ppl_exact.value),
        kl_divergence=_distribution(queries.kl[:, at]),
        probability_change=_distribution(change),
        probability_change_rms=_root(_mean_estimate(change * change)),
        top1_agreement=_mean_estimate(queries.top1_same[:, at].astype(np.float64)),
        errors_withheld=_withheld(len(exact)),
    )


def _withheld(count: int) -> str:
    if count >= ENOUGH_QUERIES:
        return ""
    queries = "1 query is" if count == 1 else f"{count} queries are"
    return f"standard errors are withheld: {queries} too few ({ENOUGH_QUERIES} are needed)"


def _mean(values: Float64[Array, " q"]) -> float:
    """As a receipt's means are added, so that the digits are the same."""
    return float(sum_in_order(values) / len(values))


def _deviations(values: Float64[Array, " q"]) -> Float64[Array, " q"]:
    """Differences from the mean; exactly 0 where all values are the same, which a rounded mean alone would not give."""
    moved = values - values[0]
    return moved - _mean(moved)


def _standard_error(values: Float64[Array, " q"]) -> float | None:
    """Of the mean: sqrt((mean of squares - square of mean) / (n - 1)); None for too few."""
    if len(values) < ENOUGH_QUERIES:
        return None
    # From deviations: the two means would cancel to rounding noise where the values are close to each other.
    return math.sqrt(_mean(_deviations(values) ** 2) / (len(values) - 1))


def _mean_estimate(values: Float64[Array, " q"]) -> Estimate:
    return Estimate(_mean(values), _standard_error(values))


def _exponential(estimate: Estimate) -> Estimate:
    value = float(np.exp(estimate.value))
    return estimate.carried(value, slope=value)


def _root(estimate: Estimate) -> Estimate:
    value = math.sqrt(estimate.value)
    return estimate.carried(value, slope=0.5 / value if value else 0.0)


def _difference(
    compressed: Float64[Array, " q"], ppl_compressed: float, exact: Float64[Array, " q"], ppl_exact: float
) -> Estimate:
    """Of the perplexities. The losses, each by its slope, are subtracted first: so their covariance is counted."""
    return Estimate(ppl_compressed - ppl_exact, _standard_error(ppl_compressed * compressed - ppl_exact * exact))


def _correlation(a: Float64[Array, " q"], b: Float64[Array, " q"]) -> float | None:
    """Pearson's; None where a or b is the same for every query."""
    a, b = _deviations(a), _deviations(b)
    spread = math.sqrt(_mean(a * a)) * math.sqrt(_mean(b * b))
    # Rounding may leave the last digit outside.
    return float(np.clip(_mean(a * b) / spread, -1.0, 1.0)) if spread else None


def _distribution(values: Float64[Array, " q"]) -> Distribution:
    percentiles = np.percentile(values, PERCENTS).tolist()
    return Distribution(
        mean=_mean_estimate(values),
        maximum=float(values.max()),
        percentiles=tuple(zip(PERCENTS, percentiles, strict=True)),
        minimum=float(values.min()),
    )


@dataclass(frozen=True)
class _Row:
    """One line of the text block."""

    label: str
    value: float | None
    error: float | None = None
    percentage: bool = False

    @classmethod
    def of(cls, label: str, estimate: Estimate, percentage: bool = False) -> "_Row":
        return cls(label, estimate.value, estimate.error, percentage)

    def shown(self, number: float | None) -> str:
        """A number of this line, in its unit."""
        if number is None:
            return "undefined"
        # z: what rounds to 0 has no sign. #: zeros at the end are digits too.
        return f"{100.0 * number:z.3f}" if self.percentage else f"{number:#.6g}".rstrip(".")


def _distribution_rows(name: str, distribution: Distribution, percentage: bool = False) -> list[_Row]:
    """Labels padded as in llama.cpp, whose output other programs read by them."""
    middle = [
        _Row(f"Median  {name}" if percent == 50.0 else f"{percent:4.1f}%   {name}", value, percentage=percentage)
        for percent, value in distribution.percentiles
    ]
    return [
        _Row.of(f"Mean    {name}", distribution.mean, percentage),
        _Row(f"Maximum {name}", distribution.maximum, percentage=percentage),
        *middle,
        _Row(f"Minimum {name}", distribution.minimum, percentage=percentage),
    ]


def _aligned(rows: Sequence[_Row]) -> list[str]:
    """The rows as text, with colons, values and errors in columns."""
    values = [row.shown(row.value) for row in rows]
    errors = ["" if row.error is None else row.shown(row.error) for row in rows]
    label_width, value_width, error_width = (
        max(map(len, texts)) for texts in ([row.label for row in rows], values, errors)
    )
    return [
        f"{row.label:{label_width}}: {value:>{value_width}}"
        + (f" ± {error:>{error_width}}" if error else "")
        + (" %" if row.percentage and row.value is not None else "")
        for row, value, error in zip(rows, values, errors, strict=True)
    ]
