"""The scale of attention that fits a captured output best: softmax(scale * keys . query) times the values.

Estimated in float64 over all queries at once; exact keys and values, so no codec is involved.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polykv_core.arrays import Array, Float64
from polykv_core.fixture import CapturedReplayFixture, CapturedReplayQuery

# A capture in float16 is off by about 1e-3 of the output's length.
FITS = 1e-2
# Two scales this close in error are the same for a capture; the one with a name is meant then.
_AS_GOOD, _ROUNDING = 1.05, 1e-6
SAME_SCALE = 1e-3
_LOWEST, _HIGHEST = 1e-3, 1e3  # times 1 / sqrt(head_dim)
_COARSE, _FINE, _ZOOMS = 73, 17, 5


@dataclass(frozen=True, eq=False)
class ScaleFit:
    """The scale that brings exact attention nearest to the captured outputs, and how near that is for each query.

    `alike`: those of 1 and 1 / sqrt(head_dim) that give the outputs too; both do where scores hardly differ.
    `errors`: the distance of the fitted output from the captured one, as a share of the latter's length. `directions`:
    the same after each fitted output was stretched by its factor in `factors` to fit best, at the scale
    `direction_scale` that suits this; below 1, something outside these rows takes some of the weight.
    """

    scale: float
    named: str
    alike: tuple[float, ...]
    errors: Float64[Array, " q"]
    direction_scale: float
    directions: Float64[Array, " q"]
    factors: Float64[Array, " q"]

    @property
    def fits(self) -> bool:
        """Whether exact attention gives every captured output."""
        return bool((self.errors <= FITS).all())

    @property
    def points(self) -> bool:
        """Whether exact attention at least points where every captured output does."""
        return bool((self.directions <= FITS).all())

    @property
    def known(self) -> bool:
        """Whether most captured outputs are exact attention at this scale, but maybe for their length."""
        return self.middle_error <= FITS or self.points

    def is_scale(self, scale: float) -> bool:
        """Whether this is the fitted scale, as well as one can tell."""
        return any(math.isclose(scale, fitting, rel_tol=SAME_SCALE) for fitting in (self.scale, *self.alike))

    @property
    def middle_error(self) -> float:
        """Median of the errors: what is left of a query that fits, if most do."""
        return float(np.median(self.errors))

    @property
    def error(self) -> float:
        """Mean of the errors over the queries."""
        return float(self.errors.mean())


def fit_scale(fixture: CapturedReplayFixture) -> ScaleFit:
    """Estimate the scale that a fixture was captured with."""
    unit = 1.0 / math.sqrt(fixture.head_dim)
    named = {"1": 1.0, f"1/sqrt({fixture.head_dim})": unit}
    coarse = unit * np.geomspace(_LOWEST, _HIGHEST, _COARSE)
    problems = [_Problem(query) for query in fixture.queries]
    # An output of no length has no direction, and says nothing of a scale.
    telling = [problem for problem in problems if problem.length > 0.0] or problems
    scale, name, alike = _best_named(telling, coarse, named, directions=False)
    errors = _fits(problems, scale)[0]
    direction_scale = scale
    if not (errors <= FITS).all():
        # Only where attention alone does not fit is it worth asking whether it would, were it stretched.
        stretched = _best_named(telling, coarse, named, directions=True)
        direction_scale = stretched[0]
        if (_fits(problems, direction_scale)[1] <= FITS).all():
            scale, name, alike = stretched
    errors = _fits(problems, scale)[0]
    _, directions, factors = _fits(problems, direction_scale)
    return ScaleFit(scale, name, alike, errors, direction_scale, directions, factors)


def _best_named(
    problems: "Sequence[_Problem]", scales: Float64[Array, " s"], named: Mapping[str, float], *, directions: bool
) -> tuple[float, str, tuple[float, ...]]:
    """The best scale and, where one with a name is as good, that one and its name; and which of those fit at all."""
    scale, name = _best_scale(problems, scales, directions=directions), ""
    best = _mean_errors(problems, np.array([scale, *named.values()]), directions=directions)
    for candidate, (text, value) in enumerate(named.items(), start=1):
        if best[candidate] <= _AS_GOOD * best[0] + _ROUNDING:
            name, scale = text, value
    return scale, name, tuple(value for value, error in zip(named.values(), best[1:], strict=True) if error <= FITS)


class _Problem:
    """One query's scores, values and captured output, in float64."""

    def __init__(self, query: CapturedReplayQuery) -> None:
        self.scores = query.keys.astype(np.float64) @ query.query.astype(np.float64)
        self.scores -= self.scores.max()
        self.values = query.values  # widened where they are used: all queries at once would be a second fixture
        self.output = query.exact_attention_output.astype(np.float64)
        self.length = float(np.linalg.norm(self.output))

    def fit(self, scales: Float64[Array, " s"]) -> Float64[Array, "3 s"]:
        """For each scale: the error, the error of the direction alone, and the factor that this one takes."""
        weights = np.exp(scales[:, None] * self.scores)
        outputs = (weights / weights.sum(axis=1, keepdims=True)) @ self.values
        length = self.length or 1.0
        squares = np.maximum((outputs**2).sum(axis=1), np.finfo(np.float64).tiny)
        factors = outputs @ self.output / squares
        error = np.linalg.norm(outputs - self.output, axis=1) / length
        direction = np.linalg.norm(factors[:, None] * outputs - self.output, axis=1) / length
        return np.stack([error, direction, factors])


def _fits(problems: Sequence[_Problem], scale: float) -> Float64[Array, "3 q"]:
    return np.concatenate([problem.fit(np.array([scale])) for problem in problems], axis=1)


def _mean_errors(
    problems: Sequence[_Problem], scales: Float64[Array, " s"], *, directions: bool
) -> Float64[Array, " s"]:
    # Bounded by 1, and not squared: a query that fits nothing, however far it is off, must not move the others' scale.
    errors = np.array([problem.fit(scales)[int(directions)] for problem in problems])
    return (errors / (1.0 + errors)).mean(axis=0)


def _best_scale(problems: Sequence[_Problem], scales: Float64[Array, " s"], *, directions: bool) -> float:
    """The best of ever finer grids, each around the best of the one before."""
    for _ in range(_ZOOMS):
        best = int(np.argmin(_mean_errors(problems, scales, directions=directions)))
        low, high = scales[max(best - 1, 0)], scales[min(best + 1, len(scales) - 1)]
        found = float(scales[best])
        scales = np.geomspace(low, high, _FINE)
    return found
