"""The tables of a report: every cell a text, numbers with as many digits as one reads."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polykv_core import words
from polykv_core.arrays import Array, Int64
from polykv_core.explain import Explanation, Stage
from polykv_core.gates import GATES, CandidateReplayMetrics, GateVerdict, verdicts
from polykv_core.judged import distinct, gates_at_selected
from polykv_core.k_curve import KCurve
from polykv_core.ladder import STAGE_WORDS, loss
from polykv_core.metrics import METRICS, QueryMetrics
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.uncertainty import RESAMPLES, Interval, intervals

_MOST_QUERIES = 50
_DIGITS = 5


@dataclass(frozen=True)
class Table:
    """A table: what it is called, its heads, its rows, and a sentence below it. `texts` are columns not of numbers."""

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    texts: tuple[int, ...] = ()


def gates_table(k_curve: KCurve) -> Table:
    """Every gate at the selected k, with the interval that other queries would put its metric in."""
    receipt = k_curve.receipt
    queries = k_curve.ordered.queries.at(k_curve.ordered.index_of(receipt.selected_candidate_k))
    found = intervals(queries, receipt.config.statistic)
    note = (
        f"95 % interval: where the metric would lie with other queries, by {RESAMPLES} resamples of these "
        f"{len(queries.rows)}. Where it reaches across its gate, the verdict is uncertain."
    )
    return Table(
        f"Gates at k = {receipt.selected_candidate_k}",
        ("Gate", "Value", "Asked for", "Margin", *(["95 % interval"] if found else []), "Verdict"),
        tuple(_gate(v, found.get(v.gate.metric), bool(found)) for v in gates_at_selected(receipt)),
        note if found else "",
        texts=(2, 3, 5 if found else 4),
    )


def candidates_table(receipt: CapturedReplayReceipt) -> Table:
    """Every candidate with every metric that the k moves, in the order listed."""
    metrics = [metric for metric in METRICS if metric.name != "ppl_proxy_exact"]
    heads = map(words.heading, metrics)
    exact = words.number(receipt.metrics.ppl_proxy_exact, _DIGITS)
    return Table(
        "All candidates",
        ("k", "Verdict", *heads, "Value rows decoded"),
        tuple(_candidate(c, receipt, [metric.name for metric in metrics]) for c in distinct(receipt)),
        "↑ higher is better, ↓ lower is better, →0 closer to 0 is better; ✕ before a number: it fails its gate. The "
        f"PPL proxy is a perplexity over the captured tokens only; the exact one is {exact}.",
        texts=(1,),
    )


def queries_table(k_curve: KCurve, explanation: Explanation | None) -> Table:
    """Each query at the selected k, the one with the lowest output cosine first."""
    k = k_curve.receipt.selected_candidate_k
    queries = k_curve.ordered.queries.at(k_curve.ordered.index_of(k))
    alone = [metric for metric in METRICS if metric.per_query]
    order = _worst_first(queries)
    heads = ("Query", *(words.named(metric.name, metric.label) for metric in alone), "Rows")
    columns = [[str(query) for query in order]]
    for metric in alone:
        values = metric.per_query(queries)[:, 0].astype(np.float64) if metric.per_query else np.zeros(0)
        columns.append([words.number(float(values[query]), _DIGITS) for query in order])
    columns.append([str(queries.rows[query]) for query in order])
    if explanation:
        heads = (*heads, "Exact weight read", "Moved to pool")
        columns.append([words.number(explanation.rows[query].mass_read, 4) for query in order])
        columns.append([words.number(explanation.rows[query].mass_to_pool, 4) for query in order])
    count = len(queries.rows)
    some = f" The {len(order)} worst of {count} are shown; the receipt holds them all." if count > len(order) else ""
    note = f"The lowest output cosine first. PPL delta is that of the query alone.{some}"
    return Table(f"Query by query at k = {k}", heads, tuple(zip(*columns, strict=True)), note)


def stages_table(stages: Sequence[Stage]) -> Table:
    """The loss ladder in numbers."""
    metrics = [gate.metric for gate in GATES]
    heads = [words.named(metric, words.METRIC_BY_NAME[metric].label) for metric in metrics]
    rows = []
    for stage in stages:
        name, meaning = STAGE_WORDS[stage.name]
        values = [words.number(getattr(stage.metrics, metric), _DIGITS) for metric in metrics]
        added = [loss(stage.added[metric]) for metric in ("output_cosine_mean", "kl_divergence_mean")]
        rows.append((f"{name}: {meaning}", *values, *added))
    return Table(
        "The loss ladder, stage by stage",
        ("Stage", *heads, "Cosine lost", "KL added (nats)"),
        tuple(rows),
        "Each stage makes one more step as the replay does. Lost and added: beyond the stage before. Cosine and top-1 "
        "are the better the higher, everything else the lower (or the closer to 0).",
    )


def _gate(verdict: GateVerdict, interval: Interval | None, with_interval: bool) -> tuple[str, ...]:
    return (
        words.named(verdict.gate.metric, verdict.gate.label),
        words.told_apart(verdict.value, verdict.threshold, _DIGITS),
        words.asked_for(verdict),
        "" if verdict.off else words.margin(verdict, 4),
        *([words.span(interval)] if with_interval else []),
        words.judged(verdict, interval),
    )


def _candidate(
    candidate: CandidateReplayMetrics, receipt: CapturedReplayReceipt, metrics: Sequence[str]
) -> tuple[str, ...]:
    failing = {verdict.gate.metric for verdict in verdicts(candidate, receipt.config) if not verdict.passed}
    selected = " (selected)" if candidate.candidate_k == receipt.selected_candidate_k else ""
    cells = [f"{'✕ ' * (name in failing)}{words.number(getattr(candidate, name), _DIGITS)}" for name in metrics]
    decoded = f"{candidate.decoded_values_total} of {candidate.full_decode_value_count}"
    return f"{candidate.candidate_k}{selected}", words.marked(candidate.passed), *cells, decoded


def _worst_first(queries: QueryMetrics) -> Int64[Array, " m"]:
    """Queries by their output cosine, the lowest first; what is not finite is lowest."""
    cosine = queries.cosine[:, 0]
    return np.argsort(np.where(np.isfinite(cosine), cosine, -math.inf), kind="stable")[:_MOST_QUERIES]
