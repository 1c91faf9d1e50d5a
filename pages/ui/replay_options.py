"""The sidebar's replay options: scale, query coding and codecs. They are measured anew, unlike a moved gate."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import streamlit as st

from polykv_core import PolyKvError, ReplayOptions

_LONGEST = 40
# The reference's value first; scales and codecs may be typed as well.
_CHOICES: dict[str, tuple[str, ...]] = {
    "attention_scale": ("reference", "inverse_sqrt_head_dim"),
    "query_coding": ("compressed", "exact"),
    "pool_codec": ("fib_k4_n32", "fib_k4_n64", "fib_k4_n256", "fib_k8_n256", "exact"),
    "shell_codec": ("turbo_8bit", "turbo_4bit", "turbo_12bit", "turbo_8bit_p128", "exact"),
}
_LABELS = {
    "attention_scale": ("Attention scale", "What every score is multiplied by; a number may be typed."),
    "query_coding": ("Query coding", "The reference codes the query as well before it scores the pool."),
    "pool_codec": ("Pool codec", "fib_k4_n64: blocks of 4, 64 codewords. Another may be typed."),
    "shell_codec": ("Shell codec", "turbo_12bit: 12 bits; _p128 sketches 128 projections. Another may be typed."),
}
_SAID = {"reference": "1 (reference)", "inverse_sqrt_head_dim": "1/√d, as most models"}

NAMES = frozenset(_CHOICES)


def seeds() -> dict[str, str]:
    """What the widgets say at first: the reference."""
    return {name: choices[0] for name, choices in _CHOICES.items()}


def draw() -> None:
    """The options, folded away: most replays are the reference's."""
    with st.expander("Replay options"):
        for name, choices in _CHOICES.items():
            label, meaning = _LABELS[name]
            now = st.session_state[name]
            st.selectbox(
                label,
                choices if now in choices else (*choices, now),
                format_func=lambda choice: _SAID.get(choice, choice),
                key=name,
                persist_state="session",
                accept_new_options=name != "query_coding",
                help=meaning,
            )


def chosen() -> dict[str, str]:
    """What was chosen or typed: not checked yet."""
    return {name: st.session_state[name] or choices[0] for name, choices in _CHOICES.items()}


def parsed(texts: Mapping[str, str]) -> ReplayOptions:
    """The options that texts stand for. Raises ConfigError."""
    fields: dict[str, Any] = dict(texts)
    with suppress(ValueError):  # a name
        fields["attention_scale"] = float(texts["attention_scale"])
    return ReplayOptions(**fields)


def in_url() -> dict[str, str]:
    """What is not the reference's, for the URL and for links."""
    return {name: text for name, text in chosen().items() if text != _CHOICES[name][0]}


def from_url(texts: Mapping[str, str]) -> dict[str, str]:
    """The options that a URL gives, as far as they mean something."""
    taken = {}
    for name in NAMES & texts.keys():
        text = texts[name][:_LONGEST]
        try:
            parsed(seeds() | {name: text})
        except PolyKvError:
            continue
        taken[name] = text
    return taken
