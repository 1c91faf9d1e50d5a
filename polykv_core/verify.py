"""Whether a receipt is what a fixture gives: its seal, its fixture, and every number replayed anew."""

import io
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from polykv_core.canonical import as_read
from polykv_core.checks import Checks, shown
from polykv_core.differences import Difference, differences, unknown_fields
from polykv_core.errors import ReceiptError
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.health import Finding
from polykv_core.jsontext import Source, read_json
from polykv_core.measure import OnQuery, keep_going, measure
from polykv_core.model_case import ModelReplayCase
from polykv_core.provenance import SEAL, edited, facts_in, finite, seal_of, stated_seal
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayReceipt
from polykv_core.replay import judge, run_model_case
from polykv_core.version import Versions

_OTHER_KINDS = {"output_projection": "a captured fixture", "shape": "a model-replay case", "candidate_ks": "a config"}
_MOST_LISTED = 5
_PLAIN = re.compile(r"[A-Za-z0-9.:+-]{1,80}")

_check = Checks(ReceiptError)


@dataclass(frozen=True)
class Verification:
    """What a receipt's check found: `faults`, the first the most telling, none for a receipt that holds; and `notes`.

    Codes of faults: edited, another_fixture, numbers_moved. Of notes: no_seal, another_version, another_file,
    last_digits, unknown_fields. `differences` are the fields beyond tolerance, in the receipt's order.
    """

    faults: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    differences: tuple[Difference, ...]

    @property
    def verified(self) -> bool:
        """Whether the receipt holds."""
        return not self.faults


def receipt_fields(source: Source) -> Mapping[str, Any]:
    """A receipt file's JSON fields, whatever they say; a string is the JSON text itself. Raises ReceiptError."""
    text = io.StringIO(source) if isinstance(source, str) else source
    fields = _check.record(as_read(read_json(text, ReceiptError)), "the receipt")
    for mark, kind in _OTHER_KINDS.items():
        if mark in fields and "candidate_results" not in fields:
            raise ReceiptError(f"the file is {kind}, not a receipt; are the two files in the right order?")
    return _check.record(fields, "the receipt", ("candidate_results",))


def is_model_replay(fields: Mapping[str, Any]) -> bool:
    """Whether these are the fields of a model replay's receipt."""
    return "model_id" not in fields


def verify(fields: Mapping[str, Any], fixture: CapturedReplayFixture, on_query: OnQuery = keep_going) -> Verification:
    """Hold a receipt's JSON fields against a fixture; `on_query` is as in measure.

    A receipt without provenance, as the Rust crate writes it, is held by its numbers. Raises ReceiptError for what is
    no receipt, and CodecError if the fixture cannot be replayed with the receipt's options.
    """
    fields = as_read(fields)
    stated = CapturedReplayReceipt.from_dict(fields)
    told = stated.provenance
    if SEAL in told:
        facts_in(told)  # a receipt that was sealed says this in full
    changed = _edited(fields)
    another = _another_fixture(stated, fixture)
    if another:
        return Verification((*changed, another), _unsealed(told), ())
    found = judge(measure(fixture, stated.config.candidate_ks, on_query, options=stated.options), stated.config)
    compared = _held_against(fields, found, changed, told)
    version = () if compared.differences else _another_version(told)  # else it may be why
    notes = (*_unsealed(told), *version, *_another_file(told, fixture), *compared.notes)
    return replace(compared, notes=notes)


def verify_model(fields: Mapping[str, Any], case: ModelReplayCase) -> Verification:
    """Hold a model replay's receipt against its case, by its numbers. Raises ReceiptError for what is no receipt."""
    fields = as_read(fields)
    ModelReplayReceipt.from_dict(fields)  # refuses what is no receipt
    told = fields.get("provenance")
    told = told if isinstance(told, dict) else {}
    compared = _held_against(fields, run_model_case(case), _edited(fields), told)
    return replace(compared, notes=(*_unsealed(told), *compared.notes))


def verification_dict(found: Verification) -> dict[str, Any]:
    """What a check found, for JSON; a number that is not finite is null."""
    told: dict[str, Any] = {
        "verified": found.verified,
        "faults": [asdict(finding) for finding in found.faults],
        "notes": [asdict(finding) for finding in found.notes],
        "differences": [
            {"place": one.place, "stated": one.stated, "found": one.found, "off_by": one.off_by}
            for one in found.differences
        ],
    }
    return {name: finite(value) for name, value in told.items()}


def _edited(fields: Mapping[str, Any]) -> tuple[Finding, ...]:
    if not edited(fields):
        return ()
    seals = f"its seal is {_verbatim(stated_seal(fields))}, its content's digest {seal_of(fields)}"
    return (Finding("edited", f"The receipt was edited after it was sealed: {seals}."),)


def _another_fixture(stated: CapturedReplayReceipt, fixture: CapturedReplayFixture) -> Finding | None:
    facts, told = vars(fixture.facts), stated.provenance.get("fixture")
    told = told if isinstance(told, dict) else {}
    # The digest is of the model id as well.
    if told["digest"] == fixture.digest if "digest" in told else stated.model_id == fixture.model_id:
        return None
    apart = [
        f"{name} is {shown(facts[name])}, in the receipt {shown(told[name])}"
        for name in ("head_dim", "shared_tokens", "seed", "vocab")
        if name in told and told[name] != facts[name]
    ]
    if stated.model_id != fixture.model_id:
        apart.insert(0, f"model_id is {shown(fixture.model_id)}, in the receipt {shown(stated.model_id)}")
    digests = f" Its digest is {fixture.digest}, the receipt's {_verbatim(told['digest'])}." if "digest" in told else ""
    what = "; ".join(apart) or "its tensors, labels or schema differ"
    return Finding("another_fixture", f"The receipt is of another fixture: {what}.{digests}")


def _faults(
    changed: tuple[Finding, ...], beyond: tuple[Difference, ...], told: Mapping[str, Any]
) -> tuple[Finding, ...]:
    """What is wrong, given what differs."""
    if not beyond:
        if not changed:
            return ()
        untouched = (
            f"{changed[0].text} Every number is as replayed: what was edited is none that a replay gives, such as "
            "a threshold, versions, the file's digest or an added field."
        )
        return (Finding("edited", untouched),)
    count = "one field differs" if len(beyond) == 1 else f"{len(beyond)} fields differ, the first"
    first = f"{count}: {beyond[0].text}."
    if changed:
        return (Finding("edited", f"{changed[0].text} Of what a replay gives, {first}"),)
    return (Finding("numbers_moved", f"The numbers moved: {first}{_why(told)}"),)


def _why(told: Mapping[str, Any]) -> str:
    """What may be behind moved numbers, as far as the receipt says; with a blank before it."""
    if told.get(SEAL) is None:
        return ""
    changed = _versions_apart(told)
    if changed:
        return f" The receipt was made with other versions ({changed})."
    return " The same versions made it: it was edited and sealed anew, or made by changed code."


def _unsealed(told: Mapping[str, Any]) -> tuple[Finding, ...]:
    if told.get(SEAL) is not None:
        return ()
    return (
        Finding("no_seal", "The receipt has no seal, as those of the Rust crate: it is held by its numbers alone."),
    )


def _another_version(told: Mapping[str, Any]) -> tuple[Finding, ...]:
    changed = _versions_apart(told)
    return (Finding("another_version", f"The receipt was made with other versions: {changed}."),) if changed else ()


def _versions_apart(told: Mapping[str, Any]) -> str:
    stated = told.get("made_with")
    if not isinstance(stated, dict):
        return ""
    here = vars(Versions.here())
    return ", ".join(
        f"{name} {_verbatim(stated.get(name))}, here {now}" for name, now in here.items() if stated.get(name) != now
    )


def _another_file(told: Mapping[str, Any], fixture: CapturedReplayFixture) -> tuple[Finding, ...]:
    stated = told.get("fixture", {}).get("file_digest") if isinstance(told.get("fixture"), dict) else None
    if stated is None or fixture.file_digest is None or stated == fixture.file_digest:
        return ()
    return (
        Finding("another_file", "The fixture's file is another one, with the same content (zipped or written anew)."),
    )


def _last_digits(differences: tuple[Difference, ...]) -> tuple[Finding, ...]:
    near = [difference for difference in differences if difference.within]
    if not near:
        return ()
    largest = max(near, key=lambda difference: difference.off_by or 0.0)
    return (
        Finding("last_digits", f"Last digits of {len(near)} fields differ, within tolerance; most: {largest.text}."),
    )


def _held_against(
    fields: Mapping[str, Any],
    found: CapturedReplayReceipt | ModelReplayReceipt,
    changed: tuple[Finding, ...],
    told: Mapping[str, Any],
) -> Verification:
    """Every field of a receipt held against the replay."""
    replayed = json.loads(found.to_json())  # through text and back, so that both sides are what a file holds
    apart = tuple(differences(fields, replayed, ""))
    beyond = tuple(difference for difference in apart if not difference.within)
    notes = (*_last_digits(apart), *_unknown(list(unknown_fields(fields, replayed, ""))))
    return Verification(_faults(changed, beyond, told), notes, beyond)


def _unknown(places: list[str]) -> tuple[Finding, ...]:
    """What a receipt says beside what a replay gives: nothing can be said of that."""
    if not places:
        return ()
    listed = ", ".join(shown(place).strip("'\"") for place in places[:_MOST_LISTED])
    more = f" and {len(places) - _MOST_LISTED} more" if len(places) > _MOST_LISTED else ""
    return (Finding("unknown_fields", f"Nothing is known of these fields, and they were not checked: {listed}{more}."),)


def _verbatim(value: Any) -> str:
    """A digest or a version as it is, anything else as data."""
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else shown(value)
