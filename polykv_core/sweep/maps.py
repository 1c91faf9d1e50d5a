"""Maps of a sweep: a number of every head over layers and heads, for each model."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from polykv_core.arrays import Array, Float64, frozen
from polykv_core.gates import GATES
from polykv_core.sweep.losses import STEPS
from polykv_core.sweep.verdict import HeadVerdict, SweepVerdict

_MOST_PLACES = 2**16


@dataclass(frozen=True, eq=False)
class HeadMap:
    """Numbers of one model's heads: `grids[name][layer, head]`, NaN where there is no head or no number.

    `margin` is the worst gate's margin as a share of its threshold, `smallest_passing_k` speaks for itself, a gated
    metric's name is that metric at the selected k, and `loss_name(step, metric)` what a step costs. `heads`
    holds the verdict at each place that has one.
    """

    title: str
    layers: tuple[int, ...]
    head_indices: tuple[int, ...]
    grids: Mapping[str, Float64[Array, "layer head"]]
    heads: Mapping[tuple[int, int], HeadVerdict]


def loss_name(step: str, metric: str) -> str:
    """The name of the grid of what one of STEPS (recomputed, keys, values, ...) costs in a gated metric."""
    return f"loss_{step}_{metric}"


def maps(verdict: SweepVerdict) -> tuple[HeadMap, ...]:
    """A map for each model, of the heads whose layer and head are known; other heads are in none.

    Where two files hold the same head of a model, each file has a map of its own. A map of more places than any model
    has heads is left out.
    """
    models: dict[str, list[HeadVerdict]] = defaultdict(list)
    for head in verdict.heads:
        if head.item.layer is not None and head.item.head_index is not None:
            models[head.item.model].append(head)
    parts = (part for model, heads in models.items() for part in _parts(model, heads))
    return tuple(_map(title, heads) for title, heads in parts if math.prod(map(len, _axes(heads))) <= _MOST_PLACES)


def _parts(model: str, heads: list[HeadVerdict]) -> list[tuple[str, list[HeadVerdict]]]:
    """A model's heads, by file if it takes that to give each place one head."""
    if len({_place(head) for head in heads}) == len(heads):
        return [(model, heads)]
    files: dict[str, list[HeadVerdict]] = defaultdict(list)
    for head in heads:
        files[head.item.file].append(head)
    return [(f"{model} ({part[0].name.partition('#')[0]})", part) for part in files.values()]


def _map(title: str, heads: list[HeadVerdict]) -> HeadMap:
    # Of several captures of one head in one file, the worst stands at its place.
    at = {_place(head): head for head in sorted(heads, key=lambda head: -head.margin)}
    layers, indices = _axes(heads)

    rows, columns = np.searchsorted(layers, [layer for layer, _ in at]), np.searchsorted(indices, [he for _, he in at])

    def grid(number: Callable[[HeadVerdict], float]) -> Float64[Array, "layer head"]:
        found = np.full((len(layers), len(indices)), math.nan)
        found[rows, columns] = [number(head) for head in at.values()]
        return frozen(found)

    grids = {name: grid(number) for name, number in _numbers().items()}
    return HeadMap(title, layers, indices, grids, at)


def _numbers() -> dict[str, Callable[[HeadVerdict], float]]:
    """How each grid's number comes from a head's verdict."""

    def metric(name: str) -> Callable[[HeadVerdict], float]:
        return lambda head: getattr(head.metrics, name, math.nan)

    def loss(step: str, name: str) -> Callable[[HeadVerdict], float]:
        return lambda head: head.losses[step][name] if head.losses else math.nan

    return {
        "margin": lambda head: head.margin if head.receipt is not None else math.nan,
        "smallest_passing_k": lambda head: float(head.smallest_passing_k or math.nan),
        **{gate.metric: metric(gate.metric) for gate in GATES},
        **{loss_name(step, gate.metric): loss(step, gate.metric) for step in STEPS for gate in GATES},
    }


def _axes(heads: list[HeadVerdict]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers and the heads of their map."""
    layers, indices = zip(*map(_place, heads), strict=True)
    return tuple(sorted(set(layers))), tuple(sorted(set(indices)))


def _place(head: HeadVerdict) -> tuple[int, int]:
    return head.item.layer or 0, head.item.head_index or 0
