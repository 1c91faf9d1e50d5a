"""Which head is on screen, where a file holds several."""

import os
from collections.abc import Sequence

import streamlit as st

from polykv_core.launch import HEAD_VARIABLE

HEAD = "head"


def draw(names: Sequence[str]) -> None:
    """A list to choose from, if there is a choice; what was chosen of another file stays if this one has it too."""
    if len(names) < 2:
        return
    if st.session_state.get(HEAD) not in names:
        st.session_state[HEAD] = _first(names)
    st.selectbox(
        "Head",
        names,
        key=HEAD,
        persist_state="session",
        help=f"The file holds {len(names)} attention heads. The Sweep page judges all of them.",
    )


def chosen(names: Sequence[str]) -> str | None:
    """The head that is meant; None for a file that is one head."""
    if len(names) < 2:
        return None
    name: str | None = st.session_state.get(HEAD)
    return name if name in names else _first(names)


def in_url(names: Sequence[str], *, waiting: bool) -> dict[str, str]:
    """The head, as the URL has it: nothing for the first one. A link that waits for its file keeps the one it names."""
    head = st.session_state.get(HEAD) if waiting else chosen(names)
    return {HEAD: head} if head and (waiting or head != _first(names)) else {}


def _first(names: Sequence[str]) -> str:
    """The one that the dashboard was started with, else the file's first."""
    given = os.environ.get(HEAD_VARIABLE, "")
    return given if given in names else names[0]
