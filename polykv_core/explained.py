"""An explanation as JSON: what a program reads, with every number that the page and the terminal show."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from polykv_core.advice import Change, reasons
from polykv_core.explain import Explanation, Stage
from polykv_core.gates import CandidateReplayMetrics
from polykv_core.metrics import METRICS
from polykv_core.provenance import finite
from polykv_core.statistics import head_statistics
from polykv_core.uncertainty import CONFIDENCE, intervals

EXPLANATION_SCHEMA = "polykv_explanation_v1"


def explanation_dict(explanation: Explanation, changes: Sequence[Change] = ()) -> dict[str, Any]:
    """The fields for JSON; a number that is not finite is null."""
    fit = explanation.scale
    record = {
        "schema_version": EXPLANATION_SCHEMA,
        "model_id": explanation.model_id,
        "fixture_digest": explanation.fixture_digest,
        "candidate_k": explanation.candidate_k,
        "options": explanation.options.changed,
        "reasons": list(reasons(explanation)),
        "findings": [asdict(finding) for finding in explanation.findings],
        "scale": {
            "used": explanation.used_scale,
            "fitted": fit.scale,
            "named": fit.named,
            "errors": fit.errors.tolist(),
        },
        "stages": [_stage(stage) for stage in explanation.stages],
        "alone": [_stage(stage) for stage in explanation.alone],
        "controls": [_stage(stage) for stage in explanation.controls],
        "changes": [
            {"name": change.name, "options": change.options.changed, "metrics": _metrics(change.metrics)}
            for change in changes
        ],
        "scores": asdict(explanation.scores),
        "queries": _queries(explanation),
        "intervals": {
            "confidence": CONFIDENCE,
            **{name: [interval.low, interval.high] for name, interval in intervals(explanation.queries).items()},
        },
        "statistics": head_statistics(explanation.queries, 0).to_dict(),
    }
    told: dict[str, Any] = finite(record)
    return told


def explanation_json(explanation: Explanation, changes: Sequence[Change] = ()) -> str:
    """The JSON as a file's whole text."""
    return json.dumps(explanation_dict(explanation, changes), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _stage(stage: Stage) -> dict[str, Any]:
    return {"name": stage.name, "metrics": _metrics(stage.metrics), "added": dict(stage.added)}


def _metrics(candidate: CandidateReplayMetrics) -> dict[str, Any]:
    """What was measured: no verdict was asked for."""
    return {name: value for name, value in asdict(candidate).items() if name not in ("passed", "blockers")}


def _queries(explanation: Explanation) -> list[dict[str, Any]]:
    """Each query's own metrics, where a metric says something of one query, and its share of weight read."""
    alone = {metric.name: metric.per_query(explanation.queries) for metric in METRICS if metric.per_query}
    return [
        {
            "query": index,
            **{name: float(values[index, 0]) for name, values in alone.items()},
            "rows": len(rows.read),
            "mass_read": rows.mass_read,
            "mass_to_pool": rows.mass_to_pool,
        }
        for index, rows in enumerate(explanation.rows)
    ]
