"""The sidebar: which fixture, which candidate ks, which gates. Drawn by app.py, read by the pages.

Every widget has a key; those that can live in the URL do, so that a reload or a shared link brings the same screen.
"""

import re
from dataclasses import dataclass

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from pages.ui import words
from pages.ui.samples import SAMPLES, Sample
from polykv_core import DEFAULT_CANDIDATE_KS, GATES, CapturedReplayConfig, ConfigError, Gate

_KS_TEXT = ", ".join(map(str, DEFAULT_CANDIDATE_KS))
_DEFAULTS = CapturedReplayConfig(DEFAULT_CANDIDATE_KS)


@dataclass(frozen=True)
class Choice:
    """What the sidebar says, as it was typed: not checked yet."""

    sample: Sample
    upload: UploadedFile | None
    ks_text: str
    thresholds: dict[str, float]


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
    """Draw the sidebar's controls."""
    st.header("PolyKV replay", anchor=False)
    st.caption("Does an attention head still work when its KV cache is compressed and only the top k rows are read?")
    st.subheader("Fixture", anchor=False)
    _draw_fixture()
    st.subheader("Candidates", anchor=False)
    st.text_input(
        "Candidate ks",
        value=_KS_TEXT,
        key="candidate_ks",
        bind="query-params",
        max_chars=200,
        help="How many rows to read, in the order of preference. The first that passes every gate is selected.",
    )
    st.subheader("Gates", anchor=False)
    for gate in GATES:
        _draw_gate(gate)


def choice() -> Choice:
    """What the sidebar says now."""
    by_name = {sample.file_name: sample for sample in SAMPLES}
    return Choice(
        sample=by_name[st.session_state["sample"]],
        upload=st.session_state["upload"],
        ks_text=st.session_state["candidate_ks"],
        thresholds={gate.threshold: st.session_state[gate.threshold] for gate in GATES},
    )


def parsed_ks(text: str) -> tuple[int, ...]:
    """Candidate ks from text such as "8, 16, 32". Raises ConfigError for what is no number of rows."""
    words = [word for word in re.split(r"[\s,;]+", text) if word]
    for word in words:
        if not (word.isascii() and word.isdecimal()):
            raise ConfigError(f"{word!r} is not a number of rows; write whole numbers with commas, such as {_KS_TEXT}")
    return CapturedReplayConfig(tuple(map(int, words))).candidate_ks


def _draw_fixture() -> None:
    uploaded = st.session_state.get("upload") is not None
    titles = {sample.file_name: sample.title for sample in SAMPLES}
    st.selectbox(
        "Sample",
        list(titles),
        format_func=titles.__getitem__,
        key="sample",
        bind="query-params",
        disabled=uploaded,
        help="Remove the uploaded file to come back to the samples." if uploaded else None,
    )
    st.file_uploader(
        "Or upload a captured fixture",
        type=["json", "gz"],
        key="upload",
        help="One attention head as JSON, plain or gzipped. It stays in this browser session and is not shared.",
    )


def _draw_gate(gate: Gate) -> None:
    knob = _KNOBS.get(gate.threshold, _Knob())
    metric = words.METRIC_BY_NAME[gate.metric]
    unit = f", in {metric.unit}" if metric.unit else ""
    st.number_input(
        f"{gate.label}, {words.at_bound(gate)}",
        min_value=knob.low,
        max_value=knob.high,
        value=float(getattr(_DEFAULTS, gate.threshold)),
        step=knob.step,
        format="%g",  # the format that follows from the step would show 0.001 as 0.00
        key=gate.threshold,
        bind="query-params",
        help=f"{knob.meaning} {metric.direction.capitalize()}{unit}. Equality passes.",
    )
