"""What stands behind a receipt: of which fixture, with what, each query's numbers, and a seal over all of it.

It is one object of the receipt's JSON, which the Rust crate ignores. No clock, path, user or host stands in it, so the
same replay gives the same bytes wherever it is made.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from polykv_core.arrays import Array
from polykv_core.canonical import canonical, sha256_of
from polykv_core.checks import Checks
from polykv_core.config import GateThresholds
from polykv_core.errors import ConfigError, ReceiptError
from polykv_core.fixture import FixtureFacts
from polykv_core.gates import gates_off
from polykv_core.health import REPLAY_CODES, Finding, replay_findings
from polykv_core.measurement import CapturedMeasurement
from polykv_core.metrics import QueryMetrics
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.records import record_of
from polykv_core.statistics import head_statistics
from polykv_core.uncertainty import CONFIDENCE, intervals
from polykv_core.version import Versions

PROVENANCE_SCHEMA = "polykv_provenance_v1"
SEAL = "receipt_digest"

# Beyond any number of rows there can be, larger makes no difference.
_MOST_ROWS = 2**62

# Each query's numbers at one k, under their names in QueryMetrics.
_AT_K = ("cosine", "mse", "kl", "nll_compressed", "top1_same")

_check = Checks(ReceiptError)


def provenance_of(measurement: CapturedMeasurement, config: GateThresholds, selected_k: int) -> dict[str, Any]:
    """The object without its seal; a number that is not finite is null. Statistics are those at the selected k."""
    at = measurement.index_of(selected_k)
    selected = measurement.queries.at(at)
    found = (*measurement.findings, *replay_findings(selected, selected_k))
    spread = intervals(selected, config.statistic)
    record = {
        "schema_version": PROVENANCE_SCHEMA,
        "fixture": asdict(measurement.fixture),
        "made_with": asdict(measurement.made_with),
        "options": measurement.options.to_dict(),
        "gates_off": gates_off(config),
        "findings": [asdict(finding) for finding in found],
        "statistics": head_statistics(selected, 0).to_dict(),
        "intervals": {"confidence": CONFIDENCE, **{name: asdict(interval) for name, interval in spread.items()}},
        "queries": _queries(measurement, config.candidate_ks),
    }
    told: dict[str, Any] = finite(record)
    return told


def sealed(receipt: Mapping[str, Any]) -> dict[str, Any]:
    """A receipt's JSON fields with the seal in its provenance: the sha256 of all the others, written canonically."""
    return {**receipt, "provenance": {**receipt["provenance"], SEAL: seal_of(receipt)}}


def seal_of(receipt: Mapping[str, Any]) -> str:
    """What the seal of a receipt's JSON fields must be."""
    inner = {name: value for name, value in receipt["provenance"].items() if name != SEAL}
    return sha256_of(canonical({**receipt, "provenance": inner}))


def stated_seal(receipt: Mapping[str, Any]) -> Any:
    """The seal that a receipt's JSON fields have; None for a receipt without one."""
    told = receipt.get("provenance")
    return told.get(SEAL) if isinstance(told, dict) else None


def edited(receipt: Mapping[str, Any]) -> bool:
    """Whether a receipt's JSON fields were edited after they were sealed; of one without a seal, nobody knows."""
    stated = stated_seal(receipt)
    return stated is not None and stated != seal_of(receipt)


def options_in(provenance: Mapping[str, Any]) -> ReplayOptions:
    """The options that a receipt was made with; the reference's if it tells of none. Raises ReceiptError."""
    if "options" not in provenance:
        return REFERENCE
    try:
        return ReplayOptions.from_dict(provenance["options"])
    except ConfigError as bad:
        raise ReceiptError(f"the receipt, provenance: {bad}") from None


def measurement_in(provenance: Mapping[str, Any], model_id: str) -> CapturedMeasurement:
    """What a receipt says was measured, at its candidate ks. Raises ReceiptError where it does not say."""
    place = "the receipt, provenance"
    record = _check.record(provenance, place, ("queries",))
    queries = _check.record(record["queries"], f"{place}, queries", ("rows", "nll_exact", "candidates"))
    candidates = _check.items(queries["candidates"], f"{place}, queries, candidates")
    rows = [
        _check.integer(count, f"{place}, queries, rows", low=1, high=_MOST_ROWS)
        for count in _check.items(queries["rows"], f"{place}, queries, rows")
    ]
    parts, ks = [], []
    for index, candidate in enumerate(candidates):
        where = f"{place}, queries, candidates[{index}]"
        candidate = _check.record(candidate, where, ("candidate_k", *_AT_K))
        ks.append(_check.integer(candidate["candidate_k"], f"{where}, candidate_k", low=1))
        parts.append({name: _numbers(candidate[name], f"{where}, {name}", len(rows)) for name in _AT_K})
    if not rows or not ks:
        raise ReceiptError(f"{place}, queries holds no query or no candidate")
    at_k = {name: np.stack([part[name] for part in parts], axis=1) for name in _AT_K}
    measured = QueryMetrics(
        **{name: values for name, values in at_k.items() if name != "top1_same"},
        top1_same=at_k["top1_same"] == 1.0,
        nll_exact=_numbers(queries["nll_exact"], f"{place}, queries, nll_exact", len(rows))[:, None],
        decoded_values=np.minimum.outer(np.array(rows), np.array([min(k, _MOST_ROWS) for k in ks])),
        rows=np.array(rows),
    )
    facts = facts_in(record)
    of_the_fixture = tuple(finding for finding in facts["findings"] if finding.code not in REPLAY_CODES)
    return CapturedMeasurement(tuple(ks), measured, model_id, **{**facts, "findings": of_the_fixture})


def facts_in(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a measurement knows beside its numbers, from JSON fields. Raises ReceiptError."""
    place = "the receipt, provenance"
    _check.record(record, place, ("fixture", "made_with", "findings"))
    findings = enumerate(_check.items(record["findings"], f"{place}, findings"))
    return {
        "fixture": record_of(FixtureFacts, record["fixture"], f"{place}, fixture"),
        "findings": tuple(record_of(Finding, finding, f"{place}, findings[{index}]") for index, finding in findings),
        "options": options_in(record),
        "made_with": record_of(Versions, record["made_with"], f"{place}, made_with"),
    }


def finite(value: Any) -> Any:
    """A JSON value with null for every number that is not finite."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _queries(measurement: CapturedMeasurement, ks: tuple[int, ...]) -> dict[str, Any]:
    """Each query's own numbers, at each candidate k once: what every mean of the receipt is made of."""
    queries = measurement.queries
    at = {k: measurement.index_of(k) for k in ks}
    return {
        "rows": queries.rows.tolist(),
        "nll_exact": queries.nll_exact[:, 0].tolist(),
        "candidates": [
            {"candidate_k": k, **{name: getattr(queries, name)[:, index].tolist() for name in _AT_K}}
            for k, index in at.items()
        ],
    }


def _numbers(values: Any, place: str, count: int) -> Array:
    """A number a query; null is a number that was not finite, true and false are 1 and 0."""
    items = _check.items(values, place)
    if len(items) != count:
        raise ReceiptError(f"{place} has {len(items)} entries; expected one for each of {count} queries")
    return np.array(
        [
            math.nan if item is None else float(item) if isinstance(item, bool) else _check.number(item, place)
            for item in items
        ]
    )
