"""Scores under the microscope: each tier's compressed scores against the exact ones."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from pages.ui import style
from polykv_core import Explanation, QueryRows, ScoreReport, TierScores, words

_MOST_POINTS = 1500
_COLOURS = {"pool": "#0072B2", "shell": "#E69F00"}
_SYMBOLS = {"pool": "circle", "shell": "diamond"}


def draw(explanation: Explanation) -> None:
    """A scatter for each tier, and what the errors come to."""
    report = explanation.scores
    st.header("Scores under the microscope", anchor=False)
    st.caption("Each point is a row of a query. On the dashed line the compressed score is the exact one.")
    with st.container(key=f"{style.SIDE_BY_SIDE}_microscope"):
        for column, tier in zip(st.columns(2), report.tiers, strict=True):
            with column:
                st.plotly_chart(scatter(explanation.rows, tier), key=f"scores_{tier.tier}", alt=_alt(tier))
    st.table([_tier_row(tier) for tier in report.tiers], border="horizontal", hide_index=True, alt="Scores by tier")
    st.caption(
        "Bias: mean of compressed - exact. Spread: standard deviation of that. A bias common to both tiers changes no "
        "weight; one tier's does. Rank correlation 1 keeps the order of rows."
    )
    st.markdown("\n".join(f"- {line}" for line in in_words(report)))


def scatter(queries: Sequence[QueryRows], tier: TierScores) -> go.Figure:
    """Compressed against exact scores of a tier, over all queries, thinned to what can be told apart."""
    exact = np.concatenate([rows.exact_scores[rows.of(tier.tier)] for rows in queries]).astype(np.float64)
    coded = np.concatenate([rows.coded_scores[rows.of(tier.tier)] for rows in queries]).astype(np.float64)
    finite = np.isfinite(exact) & np.isfinite(coded)
    exact, coded = exact[finite], coded[finite]
    step = max(1, len(exact) // _MOST_POINTS)
    ends = [float(min(exact.min(), coded.min())), float(max(exact.max(), coded.max()))] if len(exact) else [0.0, 1.0]
    points = {
        "type": "scatter",
        "mode": "markers",
        "x": exact[::step].tolist(),
        "y": coded[::step].tolist(),
        "marker": {"symbol": _SYMBOLS[tier.tier], "color": _COLOURS[tier.tier], "size": 5, "opacity": 0.6},
        "hovertemplate": "A row scores %{x:.4g}; compressed, %{y:.4g}.<extra></extra>",
    }
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": ends,
        "y": ends,
        "line": {"color": "#888888", "width": 1.5, "dash": "dash"},
        "hoverinfo": "skip",
    }
    layout = {
        "title": {
            "text": f"{tier.tier.capitalize()} scores",
            "subtitle": {"text": f"bias {words.number(tier.bias, 3)}, spread {words.number(tier.spread, 3)}"},
        },
        "height": 330,
        "margin": {"l": 64, "r": 24, "t": 70, "b": 50},
        "showlegend": False,
        "dragmode": False,
        "xaxis": {"title": {"text": "exact score", "standoff": 8}, "fixedrange": True, "zeroline": False},
        "yaxis": {"title": {"text": "compressed score"}, "fixedrange": True, "zeroline": False},
    }
    return go.Figure(data=[line, points], layout=layout)


def in_words(report: ScoreReport) -> list[str]:
    """What the errors of the scores do to selection and weight."""
    to, source = ("pool", "shell") if report.mass_to_pool >= 0 else ("shell", "pool")
    return [
        f"Against the shell's, the pool's scores are {'raised' if report.tier_bias >= 0 else 'lowered'} by "
        f"**{words.number(abs(report.tier_bias), 3)}**; the exact scores' standard deviation is "
        f"{words.number(report.deviation, 3)}.",
        f"**{_percent(report.misplaced)}** of the weight lands on other rows than it should; on balance "
        f"{_percent(abs(report.mass_to_pool))} moves from {source} to {to}.",
        f"**{_percent(report.overlap)}** of the rows read are the ones exact scores would read; the rows read hold "
        f"**{_percent(report.mass_read)}** of the exact weight.",
    ]


def _tier_row(tier: TierScores) -> dict[str, str]:
    correlation = "none" if tier.rank_correlation is None else words.number(tier.rank_correlation, 3)
    return {
        "Tier": tier.tier,
        "Bias": words.number(tier.bias, 4),
        "Spread": words.number(tier.spread, 4),
        "Deviation of exact scores": words.number(tier.deviation, 4),
        "Rank correlation ↑": correlation,
    }


def _alt(tier: TierScores) -> str:
    row = "; ".join(f"{name}: {value}" for name, value in _tier_row(tier).items())
    return f"Compressed against exact scores. {row}."


def _percent(share: float) -> str:
    return f"{words.number(100 * share, 3)} %"
