"""The sidebar's gates: a threshold and a switch each, presets, and undo, redo and reset over them and the ks."""

import streamlit as st

from pages.ui import settings, style
from pages.ui.history import History
from polykv_core import GATES, PRESETS, STATISTICS, THRESHOLDS, Gate, words

_HISTORY = "history"
_PRESETS_MEAN = {"Seed defaults": "What the reference, the Rust crate poly-kv, asks for."}
_SIGNS = {"min": "\N{GREATER-THAN OR EQUAL TO}", "max": "\N{LESS-THAN OR EQUAL TO}"}


def draw() -> None:
    """The gates, with undo, redo and reset beside their heading and the presets below it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="gates_heading"):
        st.subheader("Gates", anchor=False)
        steps = st.container(horizontal=True, horizontal_alignment="right", gap="xsmall", key=style.ICONS_ONLY)
    presets = st.container()
    for gate in GATES:
        _draw_gate(gate)
    st.selectbox(
        "Held against the gates",
        STATISTICS,
        format_func=words.STATISTICS.__getitem__,
        key=settings.STATISTIC,
        persist_state="session",
        help="How a metric is summed up over the queries. The reference takes the mean; a receipt says if it was not.",
    )
    with presets:
        _draw_presets()
    with steps:
        _draw_steps()


def stepped() -> bool:
    """Whether something was tuned in this session."""
    return bool(_history().past or _history().future)


def _draw_gate(gate: Gate) -> None:
    knob = settings.knob(gate.threshold)
    metric = words.METRIC_BY_NAME[gate.metric]
    unit = f", in {metric.unit}" if metric.unit else ""
    switch, number = st.columns([5, 4], gap="xsmall", vertical_alignment="center")
    on = switch.checkbox(
        f"{gate.label} {_SIGNS[gate.side]}",
        value=True,
        key=settings.SWITCHES[gate.threshold],
        persist_state="session",
        help=f"{knob.meaning} {metric.direction.capitalize()}{unit}. Equality passes.{_range(gate)} "
        "Unticked, the gate is off.",
    )
    number.number_input(
        f"{gate.label}, {words.at_bound(gate)}",
        min_value=knob.low,
        max_value=knob.high,
        value=float(getattr(settings.DEFAULTS, gate.threshold)),
        step=knob.step,
        format="%g",  # the format that follows from the step would show 0.001 as 0.00
        key=gate.threshold,
        persist_state="session",
        disabled=not on,
        label_visibility="collapsed",
    )


def _range(gate: Gate) -> str:
    knob = settings.knob(gate.threshold)
    if knob.low is None:
        return ""
    return f" From {knob.low:g} to {knob.high:g}." if knob.high is not None else f" From {knob.low:g} upwards."


def _draw_presets() -> None:
    on = all(st.session_state[switch] for switch in settings.SWITCHES.values())
    now = {name: st.session_state[name] for name in THRESHOLDS}
    # Buttons, not a choice among them: a choice that follows the gates would be sent back late by the browser, and be
    # taken for a press of what was marked before, which undoes what is typed meanwhile.
    with st.container(horizontal=True, gap="xsmall"):
        for name, preset in PRESETS.items():
            st.button(
                name,
                key=f"preset_{name}",
                on_click=settings.apply_thresholds,
                args=(preset,),
                icon=":material/check:" if on and preset == now else None,
                help=_PRESETS_MEAN.get(name),
                width="stretch",
            )


def _draw_steps() -> None:
    history = _history()
    history.follow(settings.now())
    for name, icon, possible, step in (
        ("Undo", "undo", bool(history.past), _undo),
        ("Redo", "redo", bool(history.future), _redo),
        ("Reset", "restart_alt", not settings.untouched(), _reset),
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
        st.session_state[_HISTORY] = History(settings.now())
    history: History = st.session_state[_HISTORY]
    return history


def _undo() -> None:
    settings.apply(_history().undo())


def _redo() -> None:
    settings.apply(_history().redo())


def _reset() -> None:
    settings.apply(settings.RESET)
