"""The receipt in a file: the file itself, or what a report holds."""

from polykv_core.errors import ReceiptError
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.report import receipts_in_report


def receipt_in(data: bytes, fixture_digest: str | None = None) -> bytes:
    """The bytes of the receipt in a file's bytes; of a report with several, the only one of this fixture.

    Raises ReceiptError for a report with none, or with several where none or several are of the fixture.
    """
    if not data.lstrip().startswith(b"<"):
        return data
    receipts = receipts_in_report(data)
    if len(receipts) == 1:
        return receipts[0]
    meant = [one for one in receipts if CapturedReplayReceipt.from_json(one).fixture_digest == fixture_digest]
    if len(meant) == 1:
        return meant[0]
    which = f"{len(meant) or 'none'} of this fixture" if fixture_digest else "each of another fixture"
    raise ReceiptError(f"the report holds {len(receipts)} receipts, {which}; download the one you mean from it")
