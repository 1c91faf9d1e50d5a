"""The sidebar: which fixture, which candidate ks, which gates, how charts look. Drawn by app.py, read by the pages.

The URL says whatever is not as it was at first, so that a reload or a shared link brings the same screen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pages.ui import heads, links, model_inputs, replay_options, settings, tuning, uploads
from pages.ui.figures import Export
from pages.ui.samples import SAMPLES, Sample
from pages.ui.uploads import Upload

_SAMPLE, _AXES, _K_AXIS, _PICTURE = "sample", "value_axes", "k_axis", "picture"
_LOG = {"Auto": None, "Linear": False, "Log": True}
_PICTURES: dict[str, Export] = {"SVG": "svg", "PNG": "png"}


@dataclass(frozen=True)
class Choice:
    """What the sidebar says, as it was typed: not checked yet.

    `head` is None for a file that is one head, `log` and `log_k` where charts decide.
    """

    sample: Sample
    upload: Upload | None
    head: str | None
    ks_text: str
    gates: dict[str, Any]
    options: dict[str, str]
    log: bool | None
    log_k: bool | None
    picture: Export


def draw(*, with_fixture: bool) -> None:
    """Draw the sidebar's controls as the URL has them at first, and keep the URL true from then on.

    A page that is about no fixture does without the controls for it; what was chosen stays chosen. All of them persist:
    of others the browser takes the default, and sends it back, where a session's first run is cut short.
    """
    _seed()
    fixture = st.container()  # always there, so that what stands below is the same on each page
    if with_fixture:
        with fixture:
            st.subheader("Fixture", anchor=False)
            _draw_fixture()
    st.subheader("Candidates", anchor=False)
    st.text_input(
        "Candidate ks",
        value=settings.KS_TEXT,
        key=settings.KS,
        persist_state="session",
        max_chars=settings.LONGEST_KS,
        help="How many rows to read, in the order of preference. The first that passes every gate is selected.",
    )
    tuning.draw()
    options = st.container()
    if with_fixture:
        with options:
            replay_options.draw()
    with st.expander("Charts"):
        st.segmented_control("Value axes", list(_LOG), default="Auto", key=_AXES, persist_state="session")
        st.segmented_control("k axis", list(_LOG), default="Auto", key=_K_AXIS, persist_state="session")
        st.segmented_control(
            "Download charts as",
            list(_PICTURES),
            default="SVG",
            key=_PICTURE,
            persist_state="session",
            help="The camera above a chart saves it: SVG stays sharp at any size, PNG goes everywhere.",
        )
    links.follow(_in_url())


def choice() -> Choice:
    """What the sidebar says now."""
    return Choice(
        sample=_sample(),
        upload=uploads.held(),
        head=heads.chosen(_heads()),
        ks_text=st.session_state[settings.KS],
        gates=settings.gates(),
        options=replay_options.chosen(),
        log=_LOG.get(st.session_state[_AXES]),
        log_k=_LOG.get(st.session_state[_K_AXIS]),
        picture=_PICTURES.get(st.session_state[_PICTURE], "svg"),
    )


def link(ks: Sequence[int]) -> str:
    """The address that brings what is on screen, at the ks that are in force."""
    in_force = {settings.KS: ", ".join(map(str, ks))} | heads.in_url(_heads(), waiting=_waiting())
    return links.link(_sample().file_name, settings.in_link() | in_force | replay_options.in_url())


def untouched() -> bool:
    """Whether somebody has just arrived: the first sample is there, and everything is as it was at first."""
    arrived = _sample() is SAMPLES[0] and _sample().shipped and uploads.held() is None
    return arrived and settings.untouched() and not replay_options.in_url()


def _seed() -> None:
    """At the first run of a session, take what the URL says; what makes no sense there is left out."""
    texts = links.at_start()
    if texts is None:
        return
    named = {sample.title: sample.file_name for sample in SAMPLES} | {s.file_name: s.file_name for s in SAMPLES}
    axes, pictures = {name: name for name in _LOG}, {name: name for name in _PICTURES}
    options = {_SAMPLE: named, _AXES: axes, _K_AXIS: axes, _PICTURE: pictures}
    chosen = {key: names[texts[key]] for key, names in options.items() if texts.get(key) in names}
    taken = chosen | settings.from_url(texts) | replay_options.from_url(texts) | model_inputs.from_url(texts)
    for key, value in ({_SAMPLE: SAMPLES[0].file_name} | replay_options.seeds() | taken).items():
        st.session_state[key] = value
    known = {*options, *settings.NAMES, *replay_options.NAMES}
    links.ignore({key: text for key, text in texts.items() if key in known - taken.keys()})
    if heads.HEAD in texts:  # whether the file has it is seen when there is a file
        st.session_state[heads.HEAD] = texts[heads.HEAD]


def _in_url() -> dict[str, str]:
    """What is not as it was at first, as the URL has it."""
    first = {_SAMPLE: SAMPLES[0].file_name, _AXES: "Auto", _K_AXIS: "Auto", _PICTURE: "SVG"}
    now = {key: st.session_state[key] for key in first}
    return (
        {key: value for key, value in now.items() if value and value != first[key]}
        | heads.in_url(_heads(), waiting=_waiting())
        | settings.in_url()
        | replay_options.in_url()
        | model_inputs.in_url()
    )


def _heads() -> tuple[str, ...]:
    """The heads of the file that is on screen; none while a link waits for its file."""
    upload = uploads.held()
    if _waiting():
        return ()
    return upload.heads if upload is not None else _sample().heads


def _waiting() -> bool:
    """Whether a link waits for its file."""
    return bool(links.wanted()) and uploads.held() is None


def _sample() -> Sample:
    return next(sample for sample in SAMPLES if sample.file_name == st.session_state[_SAMPLE])


def _draw_fixture() -> None:
    uploaded = uploads.held() is not None
    titles = {sample.file_name: sample.title for sample in SAMPLES}
    st.selectbox(
        "Sample",
        list(titles),
        format_func=titles.__getitem__,
        key=_SAMPLE,
        persist_state="session",
        on_change=links.forget,
        disabled=uploaded,
        help="Clear the uploaded file to come back to the samples." if uploaded else None,
    )
    heads.draw(_heads())
    uploads.draw()
