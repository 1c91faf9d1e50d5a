"""FibQuant's codebook: a Fibonacci/Roberts start, trained by Lloyd-Max on the source a random rotation makes.

Source: FibQuant (radial-angular vector quantisation with a Fibonacci/Roberts codebook); Lloyd-Max. The radii follow the
reference's own coarse quantile search, because a more exact quantile is a different codebook.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import betainc, ndtri

from polykv_core.arrays import U64_MASK, Array, Float, Float32, Float64, Int64, contract, frozen
from polykv_core.rotation import QrRotation
from polykv_core.streams import spherical_beta_samples

_MIN_SAMPLES = 2048
_RESTARTS = 3
_ITERATIONS = 8
_SAMPLE_SALT = 0x465155414E54
_RESTART_SALT = 0x9E3779B9
_SPLIT = 1e-6
# Proposals per chunk of a search: keeps its scratch within a few MiB, in cache.
_CHUNK_ENTRIES = 2**18


@dataclass(frozen=True, eq=False)
class Codebook:
    """A trained codebook and how its training went; the repairs are counted over all restarts."""

    initial: Float32[Array, "n kdim"]
    codewords: Float32[Array, "n kdim"]
    initial_mse: float
    training_mse: float
    best_restart: int
    empty_cells_repaired: int


class NearestCodeword:
    """Finds each point's nearest codeword: squared distance in the points' own dtype, first minimum wins.

    A float32 matrix product only proposes. Wherever a second codeword comes within rounding of the best proposal, the
    distance formula itself decides, so the result does not depend on how BLAS rounds.
    """

    def __init__(self, points: Float[Array, "s kdim"]) -> None:
        """Prepare points [s, k] that are looked up in one or more codebooks."""
        self._points = points
        self._augmented = np.ones((points.shape[1] + 1, len(points)), dtype=np.float32)
        self._augmented[:-1] = points.T
        self._longest = np.sqrt(np.max(np.sum(self._augmented[:-1] ** 2, axis=0), initial=0.0))

    def __call__(self, codewords: Float[Array, "n kdim"]) -> Int64[Array, " s"]:
        """Index of the nearest codeword for each point."""
        words = codewords.astype(np.float32)
        squares = np.sum(words * words, axis=1, keepdims=True)
        table = np.concatenate([np.float32(-2.0) * words, squares], axis=1)
        reach = self._longest + np.sqrt(squares.max())
        doubt = np.float32(32.0 * np.finfo(np.float32).eps) * reach * reach
        # Two small integers a point, exact in float32: how many codewords are close, and the sum of their indices.
        count_and_index = np.stack([np.ones(len(words)), np.arange(len(words))]).astype(np.float32)

        nearest = np.empty(len(self._points), dtype=np.int64)
        chunk = max(1, _CHUNK_ENTRIES // len(words))
        for start in range(0, len(nearest), chunk):
            part = slice(start, start + chunk)
            proposals = table @ self._augmented[:, part]
            close = proposals <= proposals.min(axis=0) + doubt
            count, index = count_and_index @ close.astype(np.float32)
            nearest[part] = index
            doubtful = start + np.flatnonzero(count > 1.0)
            if len(doubtful):
                nearest[doubtful] = np.argmin(squared_distances(self._points[doubtful], codewords), axis=1)
        return nearest


def squared_distances(points: Float[Array, "s kdim"], codewords: Float[Array, "n kdim"]) -> Float[Array, "s n"]:
    """Squared L2 distances, components added in order."""
    difference = points[:, None, :] - codewords
    return np.cumsum(difference * difference, axis=-1)[..., -1]


def train_codebook(head_dim: int, block_dim: int, codeword_count: int, seed: int) -> Codebook:
    """The codebook of a codebook seed: the initial one, or a Lloyd-Max restart that beats it."""
    initial = _initial_codewords(head_dim, block_dim, codeword_count)
    samples = spherical_beta_samples(seed ^ _SAMPLE_SALT, max(_MIN_SAMPLES, codeword_count), head_dim, block_dim)
    search = NearestCodeword(samples)
    initial_mse = _mean_squared_error(samples, search, initial)
    best, best_mse, best_restart, repaired = initial, initial_mse, 0, 0
    for restart in range(_RESTARTS + 1):
        start = initial
        if restart:
            turn = QrRotation(block_dim, (seed + restart * _RESTART_SALT) & U64_MASK).matrix
            start = contract(initial, turn.T)
        trained, repairs = _lloyd_max(samples, search, start)
        mse = _mean_squared_error(samples, search, trained)
        repaired += repairs
        if mse < best_mse:
            best, best_mse, best_restart = trained, mse, restart
    return Codebook(
        initial=frozen(initial.astype(np.float32)),
        codewords=frozen(best.astype(np.float32)),
        initial_mse=initial_mse,
        training_mse=best_mse,
        best_restart=best_restart,
        empty_cells_repaired=repaired,
    )


@lru_cache(maxsize=16)
def _initial_codewords(head_dim: int, block_dim: int, count: int) -> Float64[Array, "n kdim"]:
    """Roberts' low-discrepancy directions times the radii's Beta quantiles."""
    n = np.arange(count)
    steps = _roberts_root(block_dim) ** -np.arange(1.0, block_dim + 1.0)
    fractions = ((n + 0.5)[:, None] * steps) % 1.0
    directions = ndtri(np.clip(fractions, 1e-12, 1.0 - 1e-12))
    directions /= np.sqrt(np.sum(directions**2, axis=1, keepdims=True))
    alpha = block_dim / 2.0
    beta = (block_dim / (block_dim + 2.0)) * ((head_dim - block_dim - 2.0) / 2.0) + 1.0
    radii = np.sqrt(_coarse_beta_quantile(alpha, beta, (n + 0.5) / count))
    return frozen(radii[:, None] * directions)


def _roberts_root(dim: int) -> float:
    """The root above 1 of x^(dim+1) = x + 1: the golden ratio's relative in `dim` dimensions."""
    low, high = 1.0, 2.0
    for _ in range(128):
        middle = (low + high) / 2.0
        if middle ** (dim + 1) < middle + 1.0:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def _coarse_beta_quantile(alpha: float, beta: float, q: Float64[Array, " n"]) -> Float64[Array, " n"]:
    """Beta quantiles as the reference finds them: 16 bisections of [-2, 2], then the middle."""
    low, high = np.full(len(q), -2.0), np.full(len(q), 2.0)
    for _ in range(16):
        middle = (low + high) / 2.0
        reached = betainc(alpha, beta, np.clip(middle, 0.0, 1.0)) >= q
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    return np.clip((low + high) / 2.0, 0.0, 1.0)


def _lloyd_max(
    samples: Float64[Array, "s kdim"], search: NearestCodeword, codewords: Float64[Array, "n kdim"]
) -> tuple[Float64[Array, "n kdim"], int]:
    """Eight rounds of assigning and averaging; also how many empty cells had to be repaired on the way."""
    repairs = 0
    columns = np.ascontiguousarray(samples.T)
    for _ in range(_ITERATIONS):
        cells = search(codewords)
        counts = np.bincount(cells, minlength=len(codewords))
        sums = np.stack([np.bincount(cells, column, len(codewords)) for column in columns], axis=1)
        updated = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], codewords)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            _repair(samples, codewords, updated, cells, counts, empty)
            repairs += len(empty)
        codewords = updated
    return codewords, repairs


def _repair(
    samples: Float64[Array, "s kdim"],
    codewords: Float64[Array, "n kdim"],
    updated: Float64[Array, "n kdim"],
    cells: Int64[Array, " s"],
    counts: Int64[Array, " n"],
    empty: Int64[Array, " e"],
) -> None:
    """Give each empty cell half of the cell that errs most: both a hair beside its centroid (in place)."""
    distances = np.sum((samples - codewords[cells]) ** 2, axis=1)
    distortion = np.bincount(cells, distances, len(codewords))
    for cell in empty.tolist():
        splittable = np.where(counts > 1, distortion, -np.inf)
        donor = len(splittable) - 1 - int(np.argmax(splittable[::-1]))
        if counts[donor] <= 1:
            continue
        members = np.flatnonzero(cells == donor)
        # Farthest from the codeword before this update, as the distortions are; the split starts at the new centroid.
        farthest = samples[members[np.argmax(distances[members])]] - updated[donor]
        length = np.sqrt(np.sum(farthest**2))
        direction = farthest / length if length > 0.0 else np.eye(len(farthest))[0]
        centroid = updated[donor].copy()
        updated[donor] = centroid - _SPLIT * direction
        updated[cell] = centroid + _SPLIT * direction
        counts[donor] -= 1
        counts[cell] = 1
        distortion[donor] = distortion[cell] = 0.0


def _mean_squared_error(
    samples: Float64[Array, "s kdim"], search: NearestCodeword, codewords: Float64[Array, "n kdim"]
) -> float:
    return float(np.mean(np.sum((samples - codewords[search(codewords)]) ** 2, axis=1)))
