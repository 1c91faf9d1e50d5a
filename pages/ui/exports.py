"""What a person takes away besides the receipt: tables, the config, and the command line and link for the same."""

from functools import partial

import streamlit as st

from pages.ui import downloads
from pages.ui.state import Shown
from polykv_core import command_line, explain, receipt_stem, settings_json
from polykv_core.report import ReportPart, html_report


def stem(shown: Shown) -> str:
    """How files about this verdict are called, without their ending."""
    return receipt_stem(shown.receipt)


def _report(shown: Shown) -> str:
    """The report, explained at the selected k: that is replayed for it once more."""
    receipt, options = shown.receipt, shown.curve.options
    explanation = explain(shown.replayed.load(), receipt.selected_candidate_k, options)
    command = command_line(shown.source.file_name, receipt.config, f"{stem(shown)}.json", options)
    return html_report([ReportPart(shown.source.file_name, receipt, shown.replayed.curve, explanation, command)])


def draw(shown: Shown, link: str) -> None:
    """Tables and config as files, made when they are asked for; the command and the link to copy."""
    config, name = shown.receipt.config, stem(shown)
    with st.container(horizontal=True):
        downloads.draw("Report as HTML", partial(_report, shown), f"{name}.html", "download_report", "text/html")
        downloads.draw_tables(shown.curve, shown.receipt, name)
        downloads.draw(
            "Config as JSON",
            partial(settings_json, config, shown.curve.options),
            f"{name}_config.json",
            "download_config",
        )
    st.markdown("**The same receipt from the command line**")
    command = command_line(shown.source.file_name, config, f"{name}.json", shown.curve.options)
    st.code(command, language=None, wrap_lines=True)
    st.caption("Run it where the fixture lies, or put the path before its name.")
    st.markdown("**A link to this view**")
    st.code(link, language=None, wrap_lines=True)
    st.caption(
        "It holds the sample's name, the gates and the ks."
        if "sample=" in link
        else "It holds the fixture's digest, the gates and the ks; whoever opens it is asked for the file."
    )
