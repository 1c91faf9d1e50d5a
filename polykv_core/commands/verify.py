"""`polykv verify`: whether a receipt is what a fixture gives."""

import io
import json
from collections.abc import Mapping
from typing import Any

import click

from polykv_core.commands.shared import Facts, fixture_at, is_shown, keep, lines, loaded, naming, write
from polykv_core.model_case import load_model_case
from polykv_core.program import FAILED, PASSED, show
from polykv_core.receipt_file import receipts_in, the_receipt
from polykv_core.terminal import wrapped
from polykv_core.verify import Verification, is_model_replay, receipt_fields, verification_dict, verify, verify_model

_MOST_SHOWN = 12


@click.command("verify")
@click.argument("receipt")
@click.argument("fixture")
@click.option("--json", "path", metavar="PATH", help="Write what was found (JSON) there; - is standard output.")
def verify_command(receipt: str, fixture: str, path: str | None) -> int:
    """Replay FIXTURE anew and hold RECEIPT against it.

    RECEIPT is a receipt, of this program or of the Rust crate poly-kv, or a report that holds one. FIXTURE is the
    captured head, or for a model replay's receipt its case. Exit status: 0 it holds, 1 it does not, 2 no answer.
    """
    keep("--json", path, receipt, fixture)
    fields, found = _verified(receipt, fixture)
    if path is not None:
        data = (json.dumps(verification_dict(found), indent=2, ensure_ascii=False) + "\n").encode()
        if is_shown(path):
            show(data)
            return PASSED if found.verified else FAILED
        write(path, data)
    facts: Facts = [("Receipt", receipt), ("Fixture", fixture)]
    facts += [("It says", f"{'PASSED' if fields['passed'] else 'FAILED'} at k = {fields['selected_candidate_k']}")]
    show(f"{lines(facts)}\n{verification_text(found)}")
    return PASSED if found.verified else FAILED


def verification_text(found: Verification) -> str:
    """What a check found, in lines."""
    parts = ["VERIFIED: replayed anew, the receipt holds." if found.verified else "NOT VERIFIED"]
    parts += [wrapped("- ", finding.text) for finding in (*found.faults, *found.notes)]
    if len(found.differences) > 1:
        parts.append("\nWhat differs, in the receipt's order:")
        parts += [f"  {difference.text}" for difference in found.differences[:_MOST_SHOWN]]
        more = len(found.differences) - _MOST_SHOWN
        parts += [f"  and {more} more"] if more > 0 else []
    return "\n".join([*parts, ""])


def _verified(receipt: str, fixture: str) -> tuple[Mapping[str, Any], Verification]:
    """What the receipt says, and what its check found."""
    receipts = loaded(receipt, receipts_in)
    fields = None
    with naming(receipt):
        if len(receipts) == 1:
            fields = receipt_fields(io.BytesIO(receipts[0]))
    if fields is not None and is_model_replay(fields):
        case = loaded(fixture, load_model_case)
        with naming(receipt):
            return fields, verify_model(fields, case)
    captured = fixture_at(fixture)
    with naming(receipt):
        fields = fields or receipt_fields(io.BytesIO(the_receipt(receipts, captured.digest)))
        return fields, verify(fields, captured)
