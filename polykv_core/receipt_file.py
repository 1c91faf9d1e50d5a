"""The receipts in a file: the file itself is one, or it is a report that holds some."""

from collections.abc import Sequence

from polykv_core.errors import ReceiptError
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.report import receipts_in_report


def receipts_in(data: bytes) -> tuple[bytes, ...]:
    """The bytes of each receipt in a file's bytes. Raises ReceiptError for a report with none."""
    return receipts_in_report(data) if data.lstrip().startswith(b"<") else (data,)


def the_receipt(receipts: Sequence[bytes], fixture_digest: str | None = None) -> bytes:
    """The only receipt, or the only one of this fixture. Raises ReceiptError where it is not clear which is meant."""
    if len(receipts) == 1:
        return receipts[0]
    meant = [one for one in receipts if CapturedReplayReceipt.from_json(one).fixture_digest == fixture_digest]
    if len(meant) == 1:
        return meant[0]
    which = f"{len(meant) or 'none'} of this fixture" if fixture_digest else "each of another fixture"
    raise ReceiptError(f"the report holds {len(receipts)} receipts, {which}; download the one you mean from it")
