"""Where the fidelity of a head goes: the same replay with one thing after the other made exact.

A query's cache is coded once; every stage is another choice of scores, values and rows for the same attention.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from polykv_core.arrays import Array, Bool, Float32, Int64, sum_in_order
from polykv_core.attention import RankedRows, best_first, cache_scores, outputs_at, scaled, softmax
from polykv_core.config import checked_ks
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.gates import GATES, CandidateReplayMetrics, candidate_of
from polykv_core.health import Finding, fixture_findings, replay_findings
from polykv_core.measure import OnQuery, captured_cache, captured_exact, check_replayable, keep_going
from polykv_core.measurement import compared
from polykv_core.metrics import METRICS, QueryMetrics
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.scale import ScaleFit, fit_scale
from polykv_core.scores import QueryRows, ScoreReport, score_report

STAGES = ("projection", "recomputed", "coded_keys", "coded_values", "selected")
ALONE = ("keys", "values", "selection", "joint")
CONTROLS = ("fitted", "random", "recency")

_RANDOM_DRAWS = 8
# Which output each named view is; the draws of random rows come last.
_OUTPUTS = (*STAGES, "values", "selection", "fitted", "recency")
_SAME_AS = {"keys": "coded_keys", "joint": "selected"}
_READ_K = ("selected", "selection", "recency")
_BEST = {metric.name: metric.best for metric in METRICS}


@dataclass(frozen=True)
class Stage:
    """A replay with some of its steps made exact: its metrics, and what it adds to the loss of what it is based on.

    `added` holds, for each gated metric, the loss in that metric beyond the stage before (or, one at a time, beyond the
    recomputed stage). The loss is the distance from the metric's best value; negative means that some was given back.
    """

    name: str
    metrics: CandidateReplayMetrics
    added: Mapping[str, float]

    @property
    def loss(self) -> dict[str, float]:
        """How far each gated metric is from its best value."""
        return {gate.metric: abs(getattr(self.metrics, gate.metric) - _BEST[gate.metric]) for gate in GATES}


@dataclass(frozen=True, eq=False)
class Explanation:
    """A fixture's replay at one candidate k, taken apart.

    `stages` in the order of STAGES: each makes one more step as the replay does; the last is the replay. `alone` in the
    order of ALONE: one step at a time, all else exact. `controls` in the order of CONTROLS: exact attention over all
    rows with the fitted scale; exact attention over random rows (the mean of some draws) and over the last rows, as
    many as the replay reads. `queries` holds each query's metrics at the k, `rows` its rows. `findings`: what is odd
    about the fixture or the replay.
    """

    model_id: str
    fixture_digest: str
    candidate_k: int
    options: ReplayOptions
    head_dim: int
    stages: tuple[Stage, ...]
    alone: tuple[Stage, ...]
    controls: tuple[Stage, ...]
    scale: ScaleFit
    scores: ScoreReport
    queries: QueryMetrics
    rows: tuple[QueryRows, ...]
    findings: tuple[Finding, ...]

    def stage(self, name: str) -> Stage:
        """The stage, single step or control of this name."""
        return next(stage for stage in (*self.stages, *self.alone, *self.controls) if stage.name == name)

    @property
    def used_scale(self) -> float:
        """The scale that the replay used."""
        return float(self.options.scale(self.head_dim))


def explain(
    fixture: CapturedReplayFixture,
    candidate_k: int,
    options: ReplayOptions = REFERENCE,
    on_query: OnQuery = keep_going,
) -> Explanation:
    """Take the replay of a fixture at one candidate k apart; `on_query` is as in measure.

    Raises ConfigError for a k that means nothing and CodecError for rows or a head size the codecs cannot hold.
    """
    (k,) = checked_ks([candidate_k])
    check_replayable(fixture, options)
    fit = fit_scale(fixture)
    parts, rows = [], []
    for index in range(len(fixture.queries)):
        on_query(index, len(fixture.queries))
        metrics, query_rows = _taken_apart(fixture, index, min(k, fixture.queries[index].row_count), options, fit.scale)
        parts.append(metrics)
        rows.append(query_rows)
    on_query(len(fixture.queries), len(fixture.queries))
    queries = QueryMetrics.joined(parts)
    selected = queries.at(_OUTPUTS.index("selected"))
    at = {name: candidate_of(queries, index, k) for index, name in enumerate(_OUTPUTS)}
    at["random"] = _mean([candidate_of(queries, len(_OUTPUTS) + draw, k) for draw in range(_RANDOM_DRAWS)])
    at |= {name: at[same] for name, same in _SAME_AS.items()}
    return Explanation(
        model_id=fixture.model_id,
        fixture_digest=fixture.digest,
        candidate_k=k,
        options=options,
        head_dim=fixture.head_dim,
        stages=_ladder((name, at[name]) for name in STAGES),
        alone=tuple(stage(name, at[name], at["recomputed"]) for name in ALONE),
        controls=tuple(stage(name, at[name], at["recomputed"]) for name in CONTROLS),
        scale=fit,
        scores=score_report(rows),
        queries=selected,
        rows=tuple(rows),
        findings=(
            *fixture_findings(fixture, fit, queries.kl[:, _OUTPUTS.index("projection")]),
            *replay_findings(selected, k),
        ),
    )


def _taken_apart(
    fixture: CapturedReplayFixture, index: int, k: int, options: ReplayOptions, fitted_scale: float
) -> tuple[QueryMetrics, QueryRows]:
    """One query's metrics for each of _OUTPUTS and the random draws, and its rows."""
    query, scale = fixture.queries[index], options.scale(fixture.head_dim)
    pool, shell = captured_cache(fixture, index, options)
    coded_scores = cache_scores(pool, shell, 0, 0, query.query, options)
    coded_values = np.concatenate([tier.values(0, 0) for tier in (pool.tier, shell.tier)])
    with np.errstate(over="ignore", invalid="ignore"):
        exact_scores = sum_in_order(query.keys * query.query)
    every = np.arange(query.row_count)
    best = best_first(coded_scores)[:k]
    draws = np.random.default_rng([fixture.seed, index]).permuted(np.tile(every, (_RANDOM_DRAWS, 1)), axis=1)[:, :k]

    outputs = {
        "projection": query.exact_attention_output,
        "recomputed": _attend(exact_scores, scale, query.values, every),
        "coded_keys": _attend(coded_scores, scale, query.values, every),
        "coded_values": _attend(coded_scores, scale, coded_values, every),
        "selected": _attend(coded_scores, scale, coded_values, best),
        "values": _attend(exact_scores, scale, coded_values, every),
        "selection": _attend(exact_scores, scale, query.values, best),
        "fitted": _attend(exact_scores, np.float32(fitted_scale), query.values, every),
        "recency": _attend(exact_scores, scale, query.values, every[-k:]),
    }
    stacked = [
        *(outputs[name] for name in _OUTPUTS),
        *(_attend(exact_scores, scale, query.values, rows) for rows in draws),
    ]
    counts = np.array([k if name in _READ_K else query.row_count for name in _OUTPUTS] + [k] * _RANDOM_DRAWS)
    metrics = compared(np.stack(stacked), counts, query.row_count, captured_exact(fixture, index))
    read: Bool[Array, " t"] = np.isin(every, best)
    exact, coded = scaled(exact_scores, scale), scaled(coded_scores, scale)
    weights = (softmax(exact[None])[0], softmax(coded[None])[0])
    return metrics, QueryRows(fixture.shared_tokens, exact, coded, weights[0], weights[1], read)


def _attend(
    scores: Float32[Array, " t"], scale: np.float32, values: Float32[Array, "t d"], rows: Int64[Array, " m"]
) -> Float32[Array, " d"]:
    """Attention over some of the rows, ranked before they are scaled, as a replay does."""
    order = rows[best_first(scores[rows])]
    ranked = RankedRows(order, scaled(scores[order], scale), values[order], len(scores))
    return outputs_at(ranked, np.array([len(order)]))[0]


def _ladder(named: Iterable[tuple[str, CandidateReplayMetrics]]) -> tuple[Stage, ...]:
    stages: list[Stage] = []
    for name, metrics in named:
        stages.append(stage(name, metrics, stages[-1].metrics if stages else None))
    return tuple(stages)


def stage(name: str, metrics: CandidateReplayMetrics, base: CandidateReplayMetrics | None) -> Stage:
    """A stage, and what it adds to the loss of the one that it is based on."""
    loss = Stage(name, metrics, {}).loss
    before = Stage(name, base, {}).loss if base else dict.fromkeys(loss, 0.0)
    return Stage(name, metrics, {metric: loss[metric] - before[metric] for metric in loss})


def _mean(candidates: list[CandidateReplayMetrics]) -> CandidateReplayMetrics:
    """The mean of every metric; counts are the same in all."""
    means: dict[str, Any] = {
        field.name: float(np.mean([getattr(candidate, field.name) for candidate in candidates]))
        for field in fields(CandidateReplayMetrics)
        if isinstance(getattr(candidates[0], field.name), float)
    }
    first = candidates[0]
    return CandidateReplayMetrics(
        candidate_k=first.candidate_k,
        decoded_values_total=first.decoded_values_total,
        full_decode_value_count=first.full_decode_value_count,
        **means,
    )
