"""Buttons that hand out files."""

from collections.abc import Callable
from functools import partial

import streamlit as st

from pages.ui.notices import draw_fault
from polykv_core import Measurement, ReceiptError, candidates_csv, curve_csv
from polykv_core.judged import Receipt


def draw(
    label: str, content: bytes | Callable[[], str | bytes], file_name: str, key: str, mime: str = "application/json"
) -> None:
    """A button for a file; content that is a function is made when it is asked for. No content, nothing to press."""
    st.download_button(
        label,
        content,
        file_name=file_name,
        mime=mime,
        icon=":material/download:",
        key=key,
        disabled=not content,
        on_click="ignore",
    )


def draw_receipt(receipt: Receipt, file_name: str, key: str) -> None:
    """The button that downloads a receipt, byte for byte what the CLI writes; its bytes stand in the session as well.

    Tests compare those: a button does not give its bytes away.
    """
    payload = b""
    try:
        payload = receipt.to_json().encode()
    except ReceiptError as bad:
        draw_fault("The receipt cannot be written.", str(bad))
    st.session_state[key] = payload
    draw("Download receipt", payload, file_name, f"download_{key}")


def draw_tables(curve: Measurement, receipt: Receipt, stem: str) -> None:
    """The buttons that download all candidates and all ks as tables."""
    for label, name, made in (
        ("Candidates as CSV", "candidates", partial(candidates_csv, [receipt])),
        ("Every k as CSV", "every_k", partial(curve_csv, curve)),
    ):
        draw(label, made, f"{stem}_{name}.csv", f"download_{name}", "text/csv")
