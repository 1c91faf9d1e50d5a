"""What stands above the verdict when something is not as usual: refusals, links that wait for a file, first visits."""

import streamlit as st

from pages.ui import links, state, tuning
from pages.ui.state import Refusal, Screen


def draw(screen: Screen) -> None:
    """Say what was not used and why, what is on screen instead, and what can be done."""
    for refusal in screen.refusals:
        _draw_refusal(refusal)
    if links.ignored() and not tuning.stepped():
        draw_fault(
            "Part of the link could not be used.", f"{links.ignored()}\nThe first sample or a default stands there."
        )
    if screen.wanted:
        _draw_waiting(screen)
    if screen.cancelled:
        with st.container(border=True):
            st.warning("The replay was cancelled.", icon=":material/cancel:")
            st.text(f"It was the replay of {screen.cancelled}.")
            st.button("Replay it", key="try_again", on_click=state.try_again, icon=":material/replay:")
    if screen.shown and (screen.refusals or screen.cancelled):
        st.text(f"Below is the last good result, for {screen.shown.source.name}.")


def draw_welcome() -> None:
    """Three sentences for somebody who has just arrived."""
    st.info(
        "This is a sample: one attention head, replayed with its cache compressed and only the top k rows read. "
        "Move a gate on the left and see which k passes. Then upload a fixture of your own.",
        icon=":material/waving_hand:",
    )


def draw_fault(what: str, reason: str) -> None:
    """Say that something did not work; the reason is shown verbatim."""
    with st.container(border=True):
        st.error(what, icon=":material/report:")
        st.text(reason)


def _draw_refusal(refusal: Refusal) -> None:
    draw_fault(f"{refusal.what} could not be used.", refusal.reason)


def _draw_waiting(screen: Screen) -> None:
    """Ask for the file that a link is about, and offer the ways out."""
    st.title(":material/link: This link needs a file", anchor=False)
    if links.is_digest(screen.wanted):
        st.text(
            f"It leads to an uploaded fixture whose digest starts with {screen.wanted}. The file itself is in no link: "
            "upload it on the left, and the verdict with the link's gates and ks appears."
        )
    else:
        st.text(
            f"It names a fixture by {screen.wanted[:80]!r}, which is no digest: that has at least 16 hexadecimal "
            "digits. Ask for the link again, or go on without it."
        )
    with st.container(horizontal=True):
        if screen.refusals:
            st.button("Replay the uploaded file instead", key="use_upload", on_click=state.go_on_with_upload)
        st.button("Use a sample instead", key="use_sample", on_click=state.go_on_with_sample)
