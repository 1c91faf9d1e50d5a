"""The sidebar's gates: a threshold and a switch each, presets, and undo, redo and reset over them and the ks.

What is tuned is the value of widgets; a setting is those values by the widgets' keys, which are also their names in
the URL.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from pages.ui import style, words
from pages.ui.history import History, Setting
from polykv_core import (
    DEFAULT_CANDIDATE_KS,
    GATES,
    PRESETS,
    THRESHOLDS,
    CandidateReplayMetrics,
    CapturedReplayConfig,
    Gate,
    thresholds_from,
)

KS = "candidate_ks"
KS_TEXT = ", ".join(map(str, DEFAULT_CANDIDATE_KS))

_DEFAULTS = CapturedReplayConfig(DEFAULT_CANDIDATE_KS)
_SWITCHES = {gate.threshold: f"{gate.threshold}_on" for gate in GATES}
_RESET: Setting = {
    KS: KS_TEXT,
    **{name: float(getattr(_DEFAULTS, name)) for name in THRESHOLDS},
    **dict.fromkeys(_SWITCHES.values(), True),
}
LONGEST_KS = 200

NAMES = frozenset(_RESET)

_HISTORY = "history"
_SIGNS = {"min": "\N{GREATER-THAN OR EQUAL TO}", "max": "\N{LESS-THAN OR EQUAL TO}"}


@dataclass(frozen=True)
class _Knob:
    """How a threshold is set: what it means, the step of its buttons, and the bounds beyond which it means nothing."""

    meaning: str = ""
    step: float = 0.05
    low: float | None = None
    high: float | None = None


_KNOBS = {
    "min_output_cosine": _Knob("Cosine between the replayed output and the exact one.", 0.05, -1.0, 1.0),
    "max_output_mse": _Knob("Mean squared error of the replayed output; 0 is none.", 0.05, 0.0),
    "max_kl_divergence": _Knob("How far the replayed token probabilities are from the captured ones.", 0.05, 0.0),
    "max_ppl_delta": _Knob("Change of the perplexity proxy, up or down.", 0.5, 0.0),
    "min_top1_agreement": _Knob("Share of queries whose most likely token stays the same.", 0.05, 0.0, 1.0),
}


def draw() -> None:
    """The gates, with undo, redo and reset beside their heading and the presets below it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="gates_heading"):
        st.subheader("Gates", anchor=False)
        steps = st.container(horizontal=True, horizontal_alignment="right", gap="xsmall", key=style.ICONS_ONLY)
    presets = st.container()
    for gate in GATES:
        _draw_gate(gate)
    with presets:
        _draw_presets()
    with steps:
        _draw_steps()


def setting() -> Setting:
    """The ks as typed, the thresholds, and which gates are on."""
    return {name: st.session_state[name] for name in _RESET}


def in_link() -> dict[str, str]:
    """What a link says to bring this setting: every threshold and the ks, and the gates that are off."""
    return {name: _text(value) for name, value in setting().items() if value is not True}


def untouched() -> bool:
    """Whether everything is as it was at first."""
    return setting() == _RESET


def stepped() -> bool:
    """Whether something was tuned in this session."""
    return bool(_history().past or _history().future)


def in_url() -> dict[str, str]:
    """What is not as it was at first, for the URL."""
    return {name: _text(value) for name, value in setting().items() if value != _RESET[name]}


def from_url(texts: Mapping[str, str]) -> Setting:
    """The part of a setting that a URL gives; what its field would not take is left out."""
    taken: Setting = {}
    for name, text in texts.items():
        if name == KS:
            taken[name] = text[:LONGEST_KS]
        elif name in THRESHOLDS:
            number = _number(text)
            if number is not None and _within(number, _KNOBS.get(name, _Knob())) == number:
                taken[name] = number
        elif name in _RESET and text in ("true", "false"):
            taken[name] = text == "true"
    return taken


def thresholds() -> dict[str, float]:
    """What each gate asks for: its number, or the value that nothing fails where it is switched off."""
    return {
        gate.threshold: st.session_state[gate.threshold] if st.session_state[_SWITCHES[gate.threshold]] else gate.off
        for gate in GATES
    }


def apply_result(candidate: CandidateReplayMetrics) -> None:
    """Set the gates to those that a candidate just passes, and switch them all on."""
    _apply_thresholds(thresholds_from(candidate))


def can_apply(candidate: CandidateReplayMetrics) -> bool:
    """Whether there are gates that a candidate passes: not where a number of it is not finite."""
    return all(math.isfinite(value) for value in thresholds_from(candidate).values())


def _draw_gate(gate: Gate) -> None:
    knob = _KNOBS.get(gate.threshold, _Knob())
    metric = words.METRIC_BY_NAME[gate.metric]
    unit = f", in {metric.unit}" if metric.unit else ""
    switch, number = st.columns([5, 4], gap="xsmall", vertical_alignment="center")
    on = switch.checkbox(
        f"{gate.label} {_SIGNS[gate.side]}",
        value=True,
        key=_SWITCHES[gate.threshold],
        help=f"{knob.meaning} {metric.direction.capitalize()}{unit}. Equality passes. Unticked, the gate is off.",
    )
    number.number_input(
        f"{gate.label}, {words.at_bound(gate)}",
        min_value=knob.low,
        max_value=knob.high,
        value=float(getattr(_DEFAULTS, gate.threshold)),
        step=knob.step,
        format="%g",  # the format that follows from the step would show 0.001 as 0.00
        key=gate.threshold,
        disabled=not on,
        label_visibility="collapsed",
    )


def _draw_presets() -> None:
    on = all(st.session_state[switch] for switch in _SWITCHES.values())
    now = {name: st.session_state[name] for name in THRESHOLDS}
    # Buttons, not a choice among them: a choice that follows the gates would be sent back late by the browser, and be
    # taken for a press of what was marked before, which undoes what is typed meanwhile.
    with st.container(horizontal=True, gap="xsmall"):
        for name, preset in PRESETS.items():
            st.button(
                name,
                key=f"preset_{name}",
                on_click=_apply_thresholds,
                args=(preset,),
                icon=":material/check:" if on and preset == now else None,
                width="stretch",
            )


def _draw_steps() -> None:
    history = _history()
    history.follow(setting())
    for name, icon, possible, step in (
        ("Undo", "undo", bool(history.past), _undo),
        ("Redo", "redo", bool(history.future), _redo),
        ("Reset", "restart_alt", not untouched(), _reset),
    ):
        st.button(
            name,
            icon=f":material/{icon}:",
            key=name.lower(),
            on_click=step,
            disabled=not possible,
            help=f"{name} gates and candidate ks",
            type="tertiary",
        )


def _history() -> History:
    if _HISTORY not in st.session_state:
        st.session_state[_HISTORY] = History(setting())
    history: History = st.session_state[_HISTORY]
    return history


def _undo() -> None:
    _apply(_history().undo())


def _redo() -> None:
    _apply(_history().redo())


def _reset() -> None:
    _apply(_RESET)


def _apply_thresholds(values: Mapping[str, float]) -> None:
    bounded = {name: _within(value, _KNOBS.get(name, _Knob())) for name, value in values.items()}
    _apply(bounded | dict.fromkeys(_SWITCHES.values(), True))


def _within(value: float, knob: _Knob) -> float:
    """A number that its field takes: rounding may have put a metric a hair outside what it can be."""
    low = -math.inf if knob.low is None else knob.low
    high = math.inf if knob.high is None else knob.high
    return float(min(max(value, low), high))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _apply(values: Mapping[str, object]) -> None:
    """Put values into the widgets; only a callback may, before they are drawn."""
    for name, value in values.items():
        st.session_state[name] = value
