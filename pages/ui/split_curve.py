"""One head at several splits of its rows between pool and shell: what quality costs in bytes."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from polykv_core import words
from polykv_core.sweep.pareto import Split

_PASS, _FAIL, _LINE = "#009E73", "#D55E00", "#0072B2"


def draw(curve: Sequence[Split], metric: str) -> None:
    """The chart and the table behind it."""
    figure, alt = chart(curve, metric)
    st.plotly_chart(figure, key="splits_chart", alt=alt)
    with st.expander("The numbers behind the chart", icon=":material/table:"):
        st.table([_row(split) for split in curve], border="horizontal", hide_index=True, alt="Every split")


def chart(curve: Sequence[Split], metric: str) -> tuple[go.Figure, str]:
    """Bytes of a token against a metric; the line joins the splits that no other one beats in both."""
    best = sorted((split for split in curve if split.optimal), key=lambda split: split.bytes_per_token)
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "unbeaten: no other split has as few bytes and as good a cosine",
            "x": [split.bytes_per_token for split in best],
            "y": [getattr(split.metrics, metric) for split in best],
            "line": {"color": _LINE, "width": 2},
            "marker": {"symbol": "circle-open", "size": 20, "line": {"width": 2.5}},
            "hoverinfo": "skip",
        }
    ]
    for passes, symbol, colour in ((True, "circle", _PASS), (False, "x", _FAIL)):
        some = [split for split in curve if split.passed == passes]
        if some:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers+text",
                    "name": words.verb(passes),
                    "x": [split.bytes_per_token for split in some],
                    "y": [getattr(split.metrics, metric) for split in some],
                    "text": [str(split.shared_tokens) for split in some],
                    "textposition": "top center",
                    "cliponaxis": False,
                    "marker": {"symbol": symbol, "color": colour, "size": 10},
                    "customdata": [_told(split, metric) for split in some],
                    "hovertemplate": "%{customdata}<extra></extra>",
                }
            )
    found = words.METRIC_BY_NAME[metric]
    title = words.named(metric, found.label)
    layout: dict[str, Any] = {
        "title": {
            "text": f"{title} against bytes",
            "subtitle": {"text": f"{found.direction}; above each point its shared tokens"},
        },
        "height": 380,
        "margin": {"l": 64, "r": 24, "t": 70, "b": 90},
        "dragmode": False,
        "legend": {"orientation": "h", "yanchor": "bottom", "yref": "container", "y": 0.0, "x": 0.0},
        "xaxis": {"title": {"text": "bytes per token, keys and values; lower is better"}, "fixedrange": True},
        "yaxis": {"fixedrange": True, "rangemode": "normal"},
    }
    told = "; ".join(
        f"{split.shared_tokens} shared: {words.number(split.bytes_per_token, 4)} bytes, "
        f"{words.with_unit(getattr(split.metrics, metric), metric, 4)}, {words.verb(split.passed)}"
        for split in curve
    )
    figure = go.Figure(data=traces, layout=layout)
    uncompressed = curve[0].footprint.fp16_bytes_per_token
    figure.add_vline(
        uncompressed,
        line={"dash": "dash", "width": 1, "color": "#888888"},
        annotation={"text": "fp16"},
        annotation_position="bottom right",
    )
    alt = f"{title} against bytes per token, {found.direction}; fp16 takes {uncompressed}. {told}."
    return figure, alt


def _told(split: Split, metric: str) -> str:
    value = words.with_unit(getattr(split.metrics, metric), metric, 5)
    return (
        f"<b>{split.shared_tokens} shared tokens</b> {words.verb(split.passed)} at k = "
        f"{split.receipt.selected_candidate_k}<br>{words.METRIC_BY_NAME[metric].label}: {value}<br>"
        f"{words.number(split.bytes_per_token, 4)} bytes per token, "
        f"{split.footprint.fp16_bytes_per_token} in fp16"
    )


def _row(split: Split) -> dict[str, str]:
    metrics = split.metrics
    cells = {
        "Shared tokens": str(split.shared_tokens),
        "Bytes per token": words.number(split.bytes_per_token, 4),
        "Of fp16": f"{words.number(100 * split.bytes_per_token / split.footprint.fp16_bytes_per_token, 3)} %",
        "Verdict": words.marked(split.passed),
        "k": str(split.receipt.selected_candidate_k),
        "Cosine ↑": words.number(metrics.output_cosine_mean),
        "MSE ↓": words.number(metrics.output_mse_mean),
        "KL (nats) ↓": words.number(metrics.kl_divergence_mean),
        "Unbeaten": "yes" if split.optimal else "",
    }
    return {heading: words.unbroken(text) for heading, text in cells.items()}
