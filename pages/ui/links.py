"""A link to what is on screen: a sample goes by its name, an upload by its digest, and whoever opens it has the file.

The URL is read once, when a session begins, and from then on only written, by this module alone: Streamlit's own
binding of widgets to it loses some of them when a page changes while something else is written too.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

import streamlit as st

from pages.ui import uploads
from polykv_core import PolyKvError

_PARAMETER = "fixture"
_SHOWN = 80
_IGNORED = "ignored_in_url"
_WANTED = "wanted_fixture"
_SETTINGS = "settings_in_url"
_DIGITS = 16
_DIGEST = re.compile(rf"[0-9a-f]{{{_DIGITS},64}}")


class OtherFixtureError(PolyKvError):
    """A file that is not the one that the link is about."""


def at_start() -> dict[str, str] | None:
    """What the URL says, at the first run of a session; None at every other."""
    if _WANTED in st.session_state:
        return None
    texts = st.query_params.to_dict()
    st.session_state[_WANTED] = texts.get(_PARAMETER, "").strip().lower().removeprefix("sha256:")
    return texts


def wanted() -> str:
    """The digest, or the start of it, that the session's link asks for; empty if it asks for none."""
    digest: str = st.session_state[_WANTED]
    return digest


def is_digest(text: str) -> bool:
    """Whether a text can stand for a fixture: enough hexadecimal digits, and not too many."""
    return _DIGEST.fullmatch(text) is not None


def check(digest: str, asked: str) -> None:
    """Raise OtherFixtureError if a digest is not the one asked for."""
    if asked and not (is_digest(asked) and digest.removeprefix("sha256:").startswith(asked)):
        raise OtherFixtureError(
            f"This file's digest is {short(digest)}, but the link asks for {asked!r}. "
            "Upload the file that the link was made from, or go on without the link."
        )


def ignore(texts: Mapping[str, str]) -> None:
    """Take note of what the URL said in vain."""
    st.session_state[_IGNORED] = "; ".join(f"{name}={text[:_SHOWN]}" for name, text in texts.items())


def ignored() -> str:
    """What the URL said in vain, as data to show; empty if nothing."""
    text: str = st.session_state.get(_IGNORED, "")
    return text


def forget() -> None:
    """Go on without what the link asks for."""
    st.session_state[_WANTED] = st.session_state[_IGNORED] = ""


def show(digest: str) -> None:
    """Take note of whose verdict is on screen: an upload's digest, or nothing for a sample's."""
    st.session_state[_WANTED] = ""
    st.session_state[uploads.SHOWN_DIGEST] = short(digest)
    follow(st.session_state[_SETTINGS])


def follow(settings: Mapping[str, str]) -> None:
    """Keep the URL at these settings, and at the digest on screen or the one that the link waits for."""
    st.session_state[_SETTINGS] = settings
    digest = wanted() or st.session_state.get(uploads.SHOWN_DIGEST, "")
    texts = {**settings, _PARAMETER: digest} if digest else settings
    if st.query_params.to_dict() != texts:
        st.query_params.from_dict(texts)


def link(sample: str, settings: Mapping[str, str]) -> str:
    """The address of what is on screen, with every setting in it."""
    digest = st.session_state.get(uploads.SHOWN_DIGEST, "")
    whose = {_PARAMETER: digest} if digest else {"sample": sample}
    return f"{st.context.url or ''}?{urlencode(whose | dict(settings), quote_via=quote, safe=',')}"


def short(digest: str) -> str:
    """The start of a digest, long enough to be the only one."""
    return digest.removeprefix("sha256:")[:_DIGITS]
