"""The receipt in a file: the file itself, or what a report holds."""

from polykv_core.errors import ReceiptError
from polykv_core.report import receipts_in_report


def receipt_in(data: bytes) -> bytes:
    """The bytes of the one receipt in a file's bytes. Raises ReceiptError for a report with none or several."""
    if not data.lstrip().startswith(b"<"):
        return data
    receipts = receipts_in_report(data)
    if len(receipts) > 1:
        raise ReceiptError(f"the report holds {len(receipts)} receipts; download the one you mean from it")
    return receipts[0]
