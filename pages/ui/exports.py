"""What a person takes away: the receipt, tables, the config, and the command line and link that bring the same."""

import json
from functools import partial

import streamlit as st

from pages.ui.notices import draw_fault
from pages.ui.state import Shown
from polykv_core import ReceiptError, candidates_csv, command_line, curve_csv, file_stem

_ICON = ":material/download:"


def stem(shown: Shown) -> str:
    """How files about this verdict are called, without their ending."""
    return file_stem(shown.source.model_id, shown.receipt.passed, shown.source.digest)


def draw_receipt(shown: Shown) -> None:
    """The button that downloads the receipt, byte for byte what the CLI writes."""
    payload = b""
    try:
        payload = shown.receipt.to_json().encode()
    except ReceiptError as bad:
        draw_fault("The receipt cannot be written.", str(bad))
    st.session_state["receipt"] = payload  # tests compare it; a button does not give its bytes away
    st.download_button(
        "Download receipt",
        payload,
        file_name=f"{stem(shown)}.json",
        mime="application/json",
        icon=_ICON,
        key="download_receipt",
        disabled=not payload,
        on_click="ignore",
    )


def draw(shown: Shown, link: str) -> None:
    """Tables and config as files, made when they are asked for; the command and the link to copy."""
    curve, config, name = shown.curve, shown.receipt.config, stem(shown)
    files = (
        ("Candidates as CSV", "candidates.csv", "text/csv", partial(candidates_csv, curve, config)),
        ("Every k as CSV", "every_k.csv", "text/csv", partial(curve_csv, curve)),
        ("Config as JSON", "config.json", "application/json", partial(json.dumps, config.to_dict(), indent=2)),
    )
    with st.container(horizontal=True):
        for label, ending, mime, made in files:
            st.download_button(
                label,
                made,
                file_name=f"{name}_{ending}",
                mime=mime,
                icon=_ICON,
                key=f"download_{ending.partition('.')[0]}",
                on_click="ignore",
            )
    st.markdown("**The same receipt from the command line**")
    st.code(command_line(shown.source.file_name, config, f"{name}.json"), language=None, wrap_lines=True)
    st.caption("Run it where the fixture lies, or put the path before its name.")
    st.markdown("**A link to this view**")
    st.code(link, language=None, wrap_lines=True)
    st.caption(
        "It holds the sample's name, the gates and the ks."
        if "sample=" in link
        else "It holds the fixture's digest, the gates and the ks; whoever opens it is asked for the file."
    )
