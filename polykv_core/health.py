"""What is odd about a fixture or a replay of it though it is accepted: said, and never silently repaired."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from polykv_core.arrays import Array, Bool, Float64
from polykv_core.attention import project, softmax
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.metrics import PROBABILITY_FLOOR, QueryMetrics, argmax_last, kl_divergence, nll
from polykv_core.options import ReplayOptions
from polykv_core.scale import FITS, ScaleFit, fit_scale
from polykv_core.statistics import ENOUGH_QUERIES

_LOCAL_LOGITS = 1e-3  # nats
_LONG_ROW = 10.0  # times the median length
_ROUNDING = 1e-6
ACCEPTED, OTHER_SCALE = "accepted", "other_scale"
DOMINANT_QUERY, AT_FLOOR, BEYOND_ROWS = "dominant_query", "metric_at_floor", "k_beyond_rows"
# What is odd about a replay at one k, and not about its fixture.
REPLAY_CODES = (DOMINANT_QUERY, AT_FLOOR, BEYOND_ROWS)
_NAMED_QUERIES = 6
# Weak: what was found does not keep a fixture in memory.
_FOUND: "WeakKeyDictionary[CapturedReplayFixture, tuple[tuple[Finding, ...], ScaleFit]]" = WeakKeyDictionary()


@dataclass(frozen=True)
class Finding:
    """Something to know before believing a verdict: a short name, stable for programs, and a sentence or two."""

    code: str
    text: str


def check_fixture(fixture: CapturedReplayFixture, options: ReplayOptions | None = None) -> tuple[Finding, ...]:
    """What is odd about a fixture, the most serious first; looked for once, however often it is asked.

    With the options of a replay, also whether that is of another attention than the captured one.
    """
    if fixture not in _FOUND:
        fit = fit_scale(fixture)
        _FOUND[fixture] = fixture_findings(fixture, fit, projection_floor(fixture)), fit
    found, fit = _FOUND[fixture]
    return found if options is None else (*_other_scale(fit, options, fixture.head_dim), *found)


def projection_floor(fixture: CapturedReplayFixture) -> Float64[Array, " q"]:
    """KL divergence (nats) of the captured outputs' own logits from the captured logits.

    No cache, however exact, gets below it but by chance.
    """
    kls = []
    with np.errstate(invalid="ignore", over="ignore"):
        for query in fixture.queries:
            p = softmax(query.exact_logits[None])[0]
            q = softmax(project(query.exact_attention_output[None], fixture.output_projection))
            kls.append(kl_divergence(p, q)[0])
    return np.array(kls)


def fixture_findings(fixture: CapturedReplayFixture, fit: ScaleFit, floor: Float64[Array, " q"]) -> tuple[Finding, ...]:
    """As check_fixture, where the fitted scale and the projection's floor are known already."""
    return (
        *_no_output(fixture),
        *_attention(fit),
        *_logits(floor),
        *_long_rows(fixture),
        *_labels(fixture),
        *_few_queries(len(fixture.queries)),
    )


def replay_findings(queries: QueryMetrics, k: int) -> tuple[Finding, ...]:
    """What is odd about a replay at one k; `queries` holds that k alone."""
    return (*_dominant_query(queries), *_at_floor(queries), *_beyond_rows(queries, k))


def _no_output(fixture: CapturedReplayFixture) -> Iterator[Finding]:
    empty = np.array([not query.exact_attention_output.any() for query in fixture.queries])
    if empty.any():
        yield Finding(
            "no_output",
            f"The captured output of {_queries(empty)} is all zeros: its cosine is 0 whatever is replayed. Check that "
            "it was captured.",
        )


def _attention(fit: ScaleFit) -> Iterator[Finding]:
    """Whether each captured output is a softmax of its keys times its values."""
    wrong = ~(fit.errors <= FITS)
    if not wrong.any():
        return
    which = _queries(wrong)
    taken = 1.0 - fit.factors[wrong]
    if (fit.directions <= FITS).all() and ((taken > 0.0) & (taken < 1.0)).all():
        yield Finding(
            "extra_sink",
            f"The captured output of {which} is plain attention times a factor below 1: something outside these rows, "
            f"such as an attention sink, takes {taken.min():.3g} to {taken.max():.3g} of the weight. A replay does not "
            "know it: capture the sink as a row, or a head without one.",
        )
        return
    yield Finding(
        "no_softmax",
        f"The captured output of {which} is no plain softmax of these keys times these values at any scale (nearest at "
        f"{fit.scale:.4g}, off by {fit.errors[wrong].max():.3g} of its length). Causes to look for: keys or values of "
        "another head or other rows, a sliding window, a soft-cap, an attention sink.",
    )


def _other_scale(fit: ScaleFit, options: ReplayOptions, head_dim: int) -> Iterator[Finding]:
    """Whether a replay multiplies the scores by another number than the model did."""
    used = float(options.scale(head_dim))
    if not fit.known or fit.is_scale(used):
        return
    yield Finding(
        OTHER_SCALE,
        f"The captured output fits an attention scale of {fit.scale:.4g}, but this replay uses {used:.4g}: the verdict "
        f"is on another attention than the model's. Replay with the attention scale "
        f"{options.setting_of(fit.scale, head_dim, digits=4)}.",
    )


def _logits(floor: Float64[Array, " q"]) -> Iterator[Finding]:
    if not floor.mean() <= _LOCAL_LOGITS:
        yield Finding(
            "logits_not_local",
            f"The projection of the captured output is {floor.mean():.4g} nats from the captured logits, on average. "
            "They hold more than this head, as a whole model's logits do, so the gates on KL, PPL and top-1 say little "
            "about the cache. Capture as logits the projection of the exact output.",
        )


def _long_rows(fixture: CapturedReplayFixture) -> Iterator[Finding]:
    worst, place = _LONG_ROW, ""
    for index, query in enumerate(fixture.queries):
        for kind, rows in (("keys", query.keys), ("values", query.values)):
            lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
            middle = float(np.median(lengths))
            if middle > 0.0 and lengths.max() > worst * middle:
                worst, place = float(lengths.max() / middle), f"query {index}, {kind} row {int(lengths.argmax())}"
    if place:
        yield Finding(
            "long_row",
            f"{place[0].upper()}{place[1:]} is {worst:.3g} times as long as that query's median row. One such row can "
            "rule the softmax, and its coding error is as many times larger. Check that it was captured right.",
        )


def _labels(fixture: CapturedReplayFixture) -> Iterator[Finding]:
    logits = [query.exact_logits[None] for query in fixture.queries]
    labels = [query.label_token for query in fixture.queries]
    losses = [float(nll(softmax(row), label)[0]) for row, label in zip(logits, labels, strict=True)]
    perplexity, vocabulary = math.exp(sum(losses) / len(losses)), len(fixture.output_projection)
    if perplexity > vocabulary * (1.0 + _ROUNDING):
        yield Finding(
            "perplexity_above_vocabulary",
            f"The exact perplexity of the labels is {perplexity:.4g}, above the {vocabulary} tokens there are: "
            "guessing would do better. The gate on the PPL delta says little here.",
        )
    if not any(int(argmax_last(row)[0]) == label for row, label in zip(logits, labels, strict=True)):
        yield Finding(
            "labels_never_top",
            "No query's label is the most likely token of the exact logits. That is usual where the logits are one "
            "head's own; where they are a model's, check that labels and logits belong together.",
        )


def _few_queries(count: int) -> Iterator[Finding]:
    if count < ENOUGH_QUERIES:
        queries = "1 query" if count == 1 else f"{count} queries"
        yield Finding(
            "few_queries",
            f"With {queries} top-1 agreement moves in steps of {1.0 / count:.3g}, and a mean says little about the "
            f"next query. Capture at least {ENOUGH_QUERIES}.",
        )


def _dominant_query(queries: QueryMetrics) -> Iterator[Finding]:
    count = len(queries.rows)
    losses = (("MSE", queries.mse), ("KL divergence", queries.kl), ("lost cosine", 1.0 - queries.cosine))
    found = []
    for name, values in losses:
        values = np.maximum(values[:, 0], 0.0)
        total = float(values.sum())
        if math.isfinite(total) and total > 1e-6 * count:
            found.append((float(values.max()) / total, int(values.argmax()), name))
    if found and max(found)[0] > max(0.5, min(0.9, 3.0 / count)) and count > 1:
        share, index, name = max(found)
        yield Finding(
            DOMINANT_QUERY,
            f"Query {index} alone makes {100 * share:.3g} % of the mean {name}. Look at that query, and at the worst "
            "query instead of the mean.",
        )


def _at_floor(queries: QueryMetrics) -> Iterator[Finding]:
    limit = -math.log(PROBABILITY_FLOOR) * (1 - 1e-9)
    for name, values in (("exact", queries.nll_exact[:, 0]), ("replayed", queries.nll_compressed[:, 0])):
        if (values >= limit).any():
            yield Finding(
                AT_FLOOR,
                f"The label's {name} probability is at its floor of 1e-12 in {_queries(values >= limit)}, where "
                "perplexity stops at 1e12: how far below it would be is not seen.",
            )


def _beyond_rows(queries: QueryMetrics, k: int) -> Iterator[Finding]:
    short = queries.rows < k
    if short.any():
        yield Finding(
            BEYOND_ROWS,
            f"k = {k} is larger than the rows of {_queries(short)}: there every row is read, and nothing is selected.",
        )


def _queries(which: Bool[Array, " q"]) -> str:
    """Queries by number, all of them as such."""
    numbers = [str(number) for number in np.flatnonzero(which)]
    if len(numbers) == len(which):
        return "every query" if len(which) > 1 else "query 0"
    return f"{'query' if len(numbers) == 1 else 'queries'} {_listed(numbers)}"


def _listed(items: Sequence[str]) -> str:
    if len(items) > _NAMED_QUERIES:
        return f"{', '.join(items[:_NAMED_QUERIES])} and {len(items) - _NAMED_QUERIES} more"
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]
