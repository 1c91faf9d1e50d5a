"""The tuned setting: the ks as typed, the gates with their switches, and the statistic they hold.

A setting is the values of the sidebar's widgets by their keys, which are also their names in the URL.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pages.ui.history import Setting
from polykv_core import (
    DEFAULT_CANDIDATE_KS,
    GATES,
    STATISTICS,
    THRESHOLDS,
    CandidateReplayMetrics,
    CapturedReplayConfig,
    thresholds_from,
)

KS, STATISTIC = "candidate_ks", "statistic"
KS_TEXT = ", ".join(map(str, DEFAULT_CANDIDATE_KS))
LONGEST_KS = 200

DEFAULTS = CapturedReplayConfig(DEFAULT_CANDIDATE_KS)
SWITCHES = {gate.threshold: f"{gate.threshold}_on" for gate in GATES}
RESET: Setting = {
    KS: KS_TEXT,
    **{name: float(getattr(DEFAULTS, name)) for name in THRESHOLDS},
    **dict.fromkeys(SWITCHES.values(), True),
    STATISTIC: DEFAULTS.statistic,
}
NAMES = frozenset(RESET)


@dataclass(frozen=True)
class Knob:
    """How a threshold is set: what it means, the step of its buttons, and the bounds beyond which it means nothing."""

    meaning: str = ""
    step: float = 0.05
    low: float | None = None
    high: float | None = None

    def within(self, value: float) -> float:
        """A number that its field takes: rounding may have put a metric a hair outside what it can be."""
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        return float(min(max(value, low), high))


_KNOBS = {
    "min_output_cosine": Knob("Cosine between the replayed output and the exact one.", 0.05, -1.0, 1.0),
    "max_output_mse": Knob("Mean squared error of the replayed output; 0 is none.", 0.05, 0.0),
    "max_kl_divergence": Knob("How far the replayed token probabilities are from the captured ones.", 0.05, 0.0),
    "max_ppl_delta": Knob("Change of the perplexity proxy, up or down.", 0.5, 0.0),
    "min_top1_agreement": Knob("Share of queries whose most likely token stays the same.", 0.05, 0.0, 1.0),
}


def knob(threshold: str) -> Knob:
    """How a threshold is set."""
    return _KNOBS.get(threshold, Knob())


def now() -> Setting:
    """What the widgets say."""
    return {name: st.session_state[name] for name in RESET}


def apply(values: Mapping[str, object]) -> None:
    """Put values into the widgets; only a callback may, before they are drawn."""
    for name, value in values.items():
        st.session_state[name] = value


def apply_thresholds(values: Mapping[str, float]) -> None:
    """Set thresholds, and switch every gate on."""
    apply({name: knob(name).within(value) for name, value in values.items()} | dict.fromkeys(SWITCHES.values(), True))


def apply_result(candidate: CandidateReplayMetrics) -> None:
    """Set the gates to those that a candidate just passes, and switch them all on."""
    apply_thresholds(thresholds_from(candidate))


def can_apply(candidate: CandidateReplayMetrics) -> bool:
    """Whether there are gates that a candidate passes: not where a number of it is not finite."""
    return all(math.isfinite(value) for value in thresholds_from(candidate).values())


def gates() -> dict[str, Any]:
    """The config's fields but the ks: each gate's number, or the value that nothing fails where it is off."""
    thresholds = {
        gate.threshold: st.session_state[gate.threshold] if st.session_state[SWITCHES[gate.threshold]] else gate.off
        for gate in GATES
    }
    return thresholds | {STATISTIC: st.session_state[STATISTIC]}


def untouched() -> bool:
    """Whether everything is as it was at first."""
    return now() == RESET


def in_link() -> dict[str, str]:
    """What a link says to bring this setting: every threshold and the ks, and what else is not as it was at first."""
    kept = {KS, *THRESHOLDS}
    return {name: _text(value) for name, value in now().items() if name in kept or value != RESET[name]}


def in_url() -> dict[str, str]:
    """What is not as it was at first, for the URL."""
    return {name: _text(value) for name, value in now().items() if value != RESET[name]}


def from_url(texts: Mapping[str, str]) -> Setting:
    """The part of a setting that a URL gives; what its field would not take is left out."""
    taken: Setting = {}
    for name, text in texts.items():
        if name == KS:
            taken[name] = text[:LONGEST_KS]
        elif name in THRESHOLDS:
            number = _number(text)
            if number is not None and knob(name).within(number) == number:
                taken[name] = number
        elif name == STATISTIC and text in STATISTICS:
            taken[name] = text
        elif name in SWITCHES.values() and text in ("true", "false"):
            taken[name] = text == "true"
    return taken


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
