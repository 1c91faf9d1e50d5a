"""The loss ladder: what each step of the replay costs, as a chart of one metric and as tables of all."""

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from pages.ui import style
from polykv_core import GATES, CandidateReplayMetrics, Change, Explanation, Stage, words
from polykv_core.ladder import STAGE_WORDS, in_words, loss

_METRICS = tuple(gate.metric for gate in GATES)
_LOST, _GIVEN_BACK, _TOTAL = "#D55E00", "#009E73", "#0072B2"


def draw(explanation: Explanation) -> str:
    """The ladder, the steps one at a time, and the controls; says in which metric the loss is shown."""
    st.header("The loss ladder", anchor=False)
    st.caption(
        "Each stage makes one more step as the replay does. What it adds is its price; a negative one gives some back."
    )
    metric = st.segmented_control(
        "Loss in",
        _METRICS,
        default=_METRICS[0],
        format_func=lambda name: words.METRIC_BY_NAME[name].label,
        key="ladder_metric",
    )
    shown: str = metric or _METRICS[0]
    figure = waterfall(explanation.stages, shown)
    st.plotly_chart(figure, key="ladder_chart", alt=in_words(explanation.stages, shown))
    stages, alone, controls = st.tabs(["Stage by stage", "One step at a time", "Controls"])
    with stages:
        _draw_table(explanation.stages, "Added: beyond the stage before.", "The loss ladder")
    with alone:
        _draw_table(explanation.alone, "Added: beyond exact attention with the replay's scale.", "One step at a time")
    with controls:
        _draw_table(explanation.controls, "Added: beyond exact attention with the replay's scale.", "Controls")
        st.caption(
            "The fitted scale must come out at each metric's best value, or the fixture contradicts itself; of KL, PPL "
            "and top-1 at those of 'Captured output', the floor. Rows chosen by compressed score ('Top k only') should "
            "beat random rows and the last rows."
        )
    return shown


def draw_changes(changes: Sequence[Change]) -> None:
    """The replay under each single change."""
    st.caption("The same replay at the same k with one thing changed. ▲ better and ▼ worse than as replayed.")
    replayed, *others = changes
    best = max(others, key=lambda change: change.metrics.output_cosine_mean, default=replayed)
    if best.metrics.output_cosine_mean > replayed.metrics.output_cosine_mean:
        st.markdown(
            f"**{best.name[0].upper()}{best.name[1:]}** brings the output nearest: cosine "
            f"{words.number(replayed.metrics.output_cosine_mean, 4)} becomes "
            f"**{words.number(best.metrics.output_cosine_mean, 4)}**."
        )
    else:
        st.markdown("None of these changes brings the output nearer to the exact one.")
    with st.container(key=f"{style.FIRST_CELL_ABOVE}_changes"):
        st.table(
            [{"Change": change.name, **_cells(change.metrics, replayed.metrics)} for change in changes],
            border="horizontal",
            hide_index=True,
            alt="Metrics under each single change",
        )


def waterfall(stages: Sequence[Stage], metric: str) -> go.Figure:
    """The loss in one metric, built up stage by stage, with the whole of it last."""
    names = [STAGE_WORDS[stage.name][0] for stage in stages]
    added = [stage.added[metric] for stage in stages]
    bars = {
        "type": "waterfall",
        "x": [name.replace(" ", "<br>", 1) for name in (*names, "Whole loss")],
        "y": [*added, stages[-1].loss[metric]],
        "measure": ["relative"] * len(stages) + ["total"],
        "text": [loss(value) for value in (*added, stages[-1].loss[metric])],
        "textposition": "outside",
        "cliponaxis": False,
        "increasing": {"marker": {"color": _LOST}},
        "decreasing": {"marker": {"color": _GIVEN_BACK}},
        "totals": {"marker": {"color": _TOTAL}},
        "connector": {"line": {"color": "#888888", "width": 1}},
        "customdata": [
            *(STAGE_WORDS[stage.name][1] for stage in stages),
            "how far the replay is from the metric's best",
        ],
        "hovertemplate": "%{x}: %{customdata}.<br>Adds %{text} to the loss.<extra></extra>",
    }
    label = words.named(metric, words.METRIC_BY_NAME[metric].label)
    layout = {
        "title": {"text": f"Loss in {label}", "subtitle": {"text": "distance from its best value, lower is better"}},
        "height": 330,
        "margin": {"l": 64, "r": 24, "t": 70, "b": 60},
        "showlegend": False,
        "dragmode": False,
        "xaxis": {"fixedrange": True},
        "yaxis": {"fixedrange": True, "zeroline": True},
    }
    return go.Figure(data=[bars], layout=layout)


def _draw_table(stages: Sequence[Stage], added: str, alt: str) -> None:
    with st.container(key=f"{style.FIRST_CELL_ABOVE}_4_{stages[-1].name}"):
        st.table([_row(stage) for stage in stages], border="horizontal", hide_index=True, alt=alt)
    st.caption(f"{added} Cosine is higher, everything else lower (or closer to 0) the better.")


def _row(stage: Stage) -> dict[str, str]:
    name, meaning = STAGE_WORDS[stage.name]
    values = {
        words.named(metric, words.METRIC_BY_NAME[metric].label): words.number(getattr(stage.metrics, metric), 5)
        for metric in _METRICS
    }
    cosine, kl = (stage.added[metric] for metric in ("output_cosine_mean", "kl_divergence_mean"))
    added = {"Cosine lost": loss(cosine), "KL added": loss(kl)}
    return {"Stage": f"**{name}**: {meaning}"} | {head: words.unbroken(text) for head, text in (values | added).items()}


def _cells(candidate: CandidateReplayMetrics, base: CandidateReplayMetrics) -> dict[str, str]:
    cells = {}
    for gate in GATES:
        value, before = (gate.gated(getattr(of, gate.metric)) for of in (candidate, base))
        better = value > before if gate.side == "min" else value < before
        said, said_before = words.number(value, 5), words.number(before, 5)
        mark = "" if said == said_before else "▲ " if better else "▼ "
        cells[words.named(gate.metric, gate.label)] = words.unbroken(f"{mark}{said}")
    return cells
