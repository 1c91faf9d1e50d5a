"""The frame of an explanation: which k, the reasons in sentences, the statistics, and the file to take away."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import streamlit as st

from pages.ui import downloads, exports, verdict
from pages.ui.explain_state import Part, try_again
from pages.ui.notices import draw_fault
from pages.ui.state import Shown
from polykv_core import Change, Explanation, explain_command_line, explanation_json, head_statistics, reasons, words
from polykv_core.judged import Receipt


def draw_heading(shown: Shown) -> int:
    """Whose explanation it is and at which k, which can be another candidate's or all rows."""
    receipt = shown.receipt
    st.title("Why it passes" if receipt.passed else "Why it fails", anchor=False)
    most = max(shown.source.rows)
    ks = sorted({min(k, most) for k in receipt.config.candidate_ks} | {most})
    selected = min(receipt.selected_candidate_k, most)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(f"{shown.source.name}, {words.verb(receipt.passed)}")
        k: int = st.selectbox(
            "Explained at k",
            ks,
            index=ks.index(selected),
            format_func=lambda k: f"k = {k}{' (selected)' * (k == selected)}{' (every row)' * (k == most)}",
            key=f"explained_k_{selected}_{len(ks)}_{most}",
            width=240,
        )
    return k


def draw_notices(part: Part[Any], again: Callable[[], None] = try_again) -> None:
    """Why a part of the page is not there, if it is not and is not on its way either; `again` starts it anew."""
    if part.fault:
        draw_fault("This could not be worked out.", part.fault)
    if part.cancelled:
        with st.container(border=True):
            st.warning("This was cancelled.", icon=":material/cancel:")
            st.button("Work it out", key="explain_again", on_click=again, icon=":material/replay:")


def draw_reasons(explanation: Explanation, receipt: Receipt) -> None:
    """Where the fidelity goes, what costs most first; and what is not as the reference or as the gates have it."""
    verdict.draw_apart(receipt)
    first, *others = reasons(explanation)
    with st.container(border=True):
        st.markdown(f"**{first}**")
        if others:
            st.markdown("\n".join(f"- {reason}" for reason in others))
        st.caption("What these suggest is tried out below, under What would help: not everything helps every head.")
    if receipt.config.statistic != "mean":
        st.caption(
            f":material/info: The gates hold this: {words.STATISTICS[receipt.config.statistic]}. Ladder, changes and "
            "scores are means; each query by itself stands further below."
        )


def draw_statistics(explanation: Explanation) -> None:
    """The block that llama.cpp prints, over this head's queries."""
    st.header("The statistics people read", anchor=False)
    st.caption("As llama.cpp's --kl-divergence prints them, but of one captured head: a proxy, no model's perplexity.")
    st.code("\n".join(head_statistics(explanation.queries, 0).lines()), language=None, wrap_lines=True)


def draw_download(explanation: Explanation, changes: Sequence[Change], shown: Shown) -> None:
    """Everything on the page as JSON, and the command that gives the same."""
    st.header("Take it away", anchor=False)
    downloads.draw(
        "Explanation as JSON",
        partial(explanation_json, explanation, changes),
        f"{exports.stem(shown)}_explained_k{explanation.candidate_k}.json",
        "download_explanation",
    )
    st.markdown("**The same from the command line**")
    command = explain_command_line(shown.source.file_name, explanation.candidate_k, explanation.options)
    st.code(command, language=None, wrap_lines=True)
