"""What a run is in the store: what its receipt says, what can be asked, and what is told."""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from polykv_core.checks import Checks, shown
from polykv_core.config import THRESHOLDS
from polykv_core.errors import StoreError
from polykv_core.gates import GATES
from polykv_core.jsontext import parse_json

LARGEST_INTEGER = 2**63 - 1
LONGEST_TAG = 60
LONGEST_NOTE = 2000
_DIGEST = "sha256:"
_KINDS = {"poly_kv_captured_model_replay_": "captured", "poly_kv_model_replay_": "model"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_check = Checks(StoreError)


@dataclass(frozen=True)
class RunQuery:
    """Which runs to list: those that fulfil every condition that is not None.

    `text` is a part, in upper or lower case, of the model id, the file's name, the note or the tags (with commas
    between), or the beginning of a digest, with or without "sha256:". `failing_gate` is a threshold's name. A run saved
    at `since` is in, one saved at `until` is not; both know their time zone. `limit` is how many at most.
    """

    text: str | None = None
    model_id: str | None = None
    passed: bool | None = None
    failing_gate: str | None = None
    tag: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = None


@dataclass(frozen=True)
class RunSummary:
    """What a list says of a run. `kind` is "captured" or "model"; a model replay has no model id, which is then ""."""

    id: int
    saved_at: datetime
    kind: str
    schema_version: str
    model_id: str
    fixture_digest: str | None
    receipt_digest: str | None
    passed: bool
    selected_candidate_k: int
    failing_gates: tuple[str, ...]
    file_name: str
    tags: tuple[str, ...]
    note: str
    pinned: bool
    has_measurement: bool


@dataclass(frozen=True)
class Run:
    """A run with its receipt, byte for byte as it was saved, and its measurement, if it has one."""

    summary: RunSummary
    receipt_json: str
    measurement: bytes | None


# In the order of RunSummary's fields.
SELECT_SUMMARIES = """
    SELECT id, saved_at, kind, schema_version, model_id, fixture_digest, receipt_digest, passed, selected_candidate_k,
        failing_gates, file_name, tags, note, pinned, measurement IS NOT NULL
    FROM runs JOIN contents ON run = id
"""
MATCHING = """
    WHERE (:model_id IS NULL OR model_id = :model_id)
        AND (:passed IS NULL OR passed = :passed)
        AND (:failing_gate IS NULL OR instr(',' || failing_gates || ',', ',' || :failing_gate || ','))
        AND (:tag IS NULL OR instr(',' || tags || ',', ',' || :tag || ','))
        AND (:since IS NULL OR saved_at >= :since)
        AND (:until IS NULL OR saved_at < :until)
        AND (
            :text IS NULL
            OR instr(casefold(model_id), :text)
            OR instr(casefold(file_name), :text)
            OR instr(casefold(note), :text)
            OR instr(casefold(tags), :text)
            OR instr(fixture_digest, :digest) = 1
            OR instr(receipt_digest, :digest) = 1
        )
    ORDER BY id DESC
    LIMIT :limit
"""


def matching(query: RunQuery) -> dict[str, object]:
    """The values that MATCHING takes. Raises StoreError for a condition that no run could ever fulfil."""
    text = _optional_text(query.text, "the text to find")
    if query.failing_gate not in (None, *THRESHOLDS):
        raise StoreError(f"failing_gate is {shown(query.failing_gate)}; expected one of {', '.join(THRESHOLDS)}")
    return {
        "text": None if text is None else text.casefold(),
        "digest": None if text is None else _DIGEST + text.lower().removeprefix(_DIGEST),
        "model_id": _optional_text(query.model_id, "model_id"),
        "passed": query.passed,
        "failing_gate": query.failing_gate,
        "tag": None if query.tag is None else _tag(query.tag),
        "since": _milliseconds(query.since, "since"),
        "until": _milliseconds(query.until, "until"),
        "limit": -1 if query.limit is None else _check.integer(query.limit, "limit", high=LARGEST_INTEGER),
    }


def summary_of(row: tuple[Any, ...]) -> RunSummary:
    """A row of SELECT_SUMMARIES as a summary. Raises sqlite3.Error for values that the store never wrote."""
    told = dict(zip((field.name for field in fields(RunSummary)), row, strict=True))
    try:
        told["saved_at"] = _EPOCH + told["saved_at"] * _MILLISECOND
        told |= {name: bool(told[name]) for name in ("passed", "pinned", "has_measurement")}
        told |= {name: _names(told[name]) for name in ("failing_gates", "tags")}
        return RunSummary(**told)
    except (AttributeError, TypeError, OverflowError):
        raise _never_written(row[0]) from None


def run_of(summary: RunSummary, content: object) -> Run:
    """A row of contents (receipt, measurement) with its summary. Raises sqlite3.Error as summary_of does."""
    match content:
        case (str(receipt), bytes() | None as measurement):
            return Run(summary, receipt, measurement)
    raise _never_written(summary.id)


def facts_of(receipt_json: str) -> dict[str, object]:
    """What the columns of a run take from its receipt. Raises StoreError for what is no receipt of a replay."""
    place = "the receipt"
    receipt = _check.record(parse_json(_check.text(receipt_json, place).encode(), StoreError), place)
    _check.record(receipt, place, ("schema_version", "selected_candidate_k", "passed", "blockers"))
    schema = _check.text(receipt["schema_version"], f"{place}, schema_version")
    kind = next((kind for start, kind in _KINDS.items() if schema.startswith(start)), None)
    if kind is None:
        raise StoreError(f"{place}, schema_version is {shown(schema)}, which is no receipt's; expected a replay's")
    if kind == "captured":
        _check.record(receipt, place, ("model_id",))
    blockers = [_check.text(blocker, f"{place}, blockers") for blocker in _check.items(receipt["blockers"], place)]
    provenance = _record(receipt, "provenance")
    return {
        "kind": kind,
        "schema_version": schema,
        "model_id": _check.text(receipt.get("model_id", ""), f"{place}, model_id"),
        "fixture_digest": _optional_text(_record(provenance, "fixture").get("digest"), f"{place}, fixture's digest"),
        "receipt_digest": _optional_text(provenance.get("receipt_digest"), f"{place}, receipt_digest"),
        "passed": _check.flag(receipt["passed"], f"{place}, passed"),
        # Beyond the rows there can be, larger makes no difference; SQLite counts no further.
        "selected_candidate_k": min(
            _check.integer(receipt["selected_candidate_k"], f"{place}, selected_candidate_k", low=1), LARGEST_INTEGER
        ),
        "failing_gates": ",".join(
            gate.threshold for gate in GATES if any(blocker.startswith(f"{gate.blocker_name} ") for blocker in blockers)
        ),
    }


def checked_tags(tags: Iterable[str]) -> str:
    """Tags as their column has them: stripped, each once, in order. Raises StoreError for one that is none."""
    if isinstance(tags, str):
        raise StoreError(f"tags is {shown(tags)}; expected a list of tags")
    return ",".join(sorted({_tag(tag) for tag in tags}))


def checked_note(note: str) -> str:
    """A note as it is. Raises StoreError for one that is too long, or no text."""
    if len(_check.text(note, "the note")) > LONGEST_NOTE:
        raise StoreError(f"the note is {shown(note)}, of {len(note)} characters; expected at most {LONGEST_NOTE}")
    return note


def _never_written(run: int) -> sqlite3.Error:
    return sqlite3.DatabaseError(f"run {run} holds values that polykv never writes")


def _tag(tag: str) -> str:
    tag = _check.text(tag, "a tag").strip()
    if not tag or "," in tag or len(tag) > LONGEST_TAG:
        raise StoreError(f"a tag is {shown(tag)}; expected 1 to {LONGEST_TAG} characters and no comma")
    return tag


def _names(joined: str) -> tuple[str, ...]:
    return tuple(joined.split(",")) if joined else ()


def _record(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A JSON object inside another; empty where there is none."""
    inner = record.get(name)
    return inner if isinstance(inner, Mapping) else {}


def _optional_text(value: object, place: str) -> str | None:
    return None if value is None else _check.text(value, place)


def _milliseconds(time: datetime | None, place: str) -> int | None:
    """The first whole millisecond that is not before a time."""
    if time is None:
        return None
    if time.utcoffset() is None:
        raise StoreError(f"{place} is {time.isoformat()}, which is many times; expected one with a time zone")
    return -((_EPOCH - time) // _MILLISECOND)
