"""What leaves a replay besides the receipt: for CI services, for a pull request, and for a colleague."""

from polykv_core.report.html import html_report, receipts_in_report
from polykv_core.report.junit import junit_xml
from polykv_core.report.markdown import markdown_summary
from polykv_core.report.outcome import Outcome, Worst, in_two, odd, passed, sentence, worst
from polykv_core.report.page import ReportPart

__all__ = [
    "Outcome",
    "ReportPart",
    "Worst",
    "html_report",
    "in_two",
    "junit_xml",
    "markdown_summary",
    "odd",
    "passed",
    "receipts_in_report",
    "sentence",
    "worst",
]
