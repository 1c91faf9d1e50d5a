"""What a person takes away besides the receipt: tables, the config, and the command line and link for the same."""

import json
from functools import partial

import streamlit as st

from pages.ui import downloads
from pages.ui.state import Shown
from polykv_core import command_line, file_stem


def stem(shown: Shown) -> str:
    """How files about this verdict are called, without their ending."""
    stem = file_stem(shown.source.model_id, shown.receipt.passed, shown.source.digest)
    return f"{stem}_with_options" if shown.receipt.departures else stem


def draw(shown: Shown, link: str) -> None:
    """Tables and config as files, made when they are asked for; the command and the link to copy."""
    config, name = shown.receipt.config, stem(shown)
    with st.container(horizontal=True):
        downloads.draw_tables(shown.curve, config, name)
        downloads.draw(
            "Config as JSON", partial(json.dumps, config.to_dict(), indent=2), f"{name}_config.json", "download_config"
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
