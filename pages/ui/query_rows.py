"""Each query by itself, the worst first, and the rows of one of them: who had the weight, and who lost it."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from pages.ui import style
from polykv_core import METRICS, Explanation, QueryRows, words

_MOST_LISTED, _LEAST = 8, 1e-6
_EXACT, _CODED, _DROPPED = "#0072B2", "#E69F00", "#CC79A7"


def draw(explanation: Explanation, metric: str) -> None:
    """The table of queries, the worst in a metric first, and the rows of the one that is chosen."""
    st.header("Query by query", anchor=False)
    label = words.METRIC_BY_NAME[metric].label
    st.caption(
        f"The worst {label} first, as chosen above. Choose a query by its row to see its rows below. Exact weight is "
        "that of exact keys at the replay's scale."
    )
    order = worst_first(explanation, metric)
    table = _table(explanation, order)
    chosen = st.dataframe(
        table,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=f"queries_{explanation.fixture_digest[:20]}_{explanation.candidate_k}_{metric}",
        column_config={name: st.column_config.NumberColumn(name, format="%.5g") for name in table if name != "Query"},
        alt="Every query's metrics, the worst first",
    )
    picked = chosen.selection.rows if chosen else []
    query = int(order[picked[0] if picked else 0])
    st.subheader(f"The rows of query {query}", anchor=False)
    rows = explanation.rows[query]
    st.plotly_chart(weights(rows), key="query_weights", alt=in_words(rows, query))
    st.caption(f"{int((~_seen(rows)).sum())} rows with a weight of at most 1e-6 are not drawn.")
    st.markdown(f"{in_words(rows, query)} The rows with the most weight, exact or compressed:")
    with st.container(key=f"{style.FIRST_CELL_ABOVE}_rows"):
        st.table(_heaviest(rows), border="horizontal", hide_index=True, alt=f"Rows of query {query} by weight")


def worst_first(explanation: Explanation, metric: str) -> np.ndarray:
    """The queries by their loss in a metric, where it says something of each; what is not finite is worst."""
    found = words.METRIC_BY_NAME[metric]
    if found.per_query is None:
        return np.arange(len(explanation.rows))
    loss = np.abs(found.per_query(explanation.queries)[:, 0].astype(np.float64) - found.best)
    return np.argsort(-np.where(np.isfinite(loss), loss, np.inf), kind="stable")


def weights(rows: QueryRows) -> go.Figure:
    """Exact and compressed weight by position, with the rows that were not read and the end of the pool."""
    # On a logarithmic axis; a weight too small for it stands at its foot, a row with no more than that is left out.
    exact, coded = (np.maximum(w, _LEAST) for w in (rows.exact_weights, rows.coded_weights))
    seen = _seen(rows)
    drawn, dropped = np.flatnonzero(seen), np.flatnonzero(seen & ~rows.read)
    traces = [
        _markers(drawn, exact[drawn], "exact weight", "circle-open", _EXACT),
        _markers(drawn, coded[drawn], "compressed weight", "diamond", _CODED),
        _markers(dropped, exact[dropped], "exact, not read", "x-thin-open", _DROPPED),
    ]
    layout = {
        "title": {"text": "Weight by position", "subtitle": {"text": "share of the attention, log scale"}},
        "height": 380,
        "margin": {"l": 64, "r": 24, "t": 70, "b": 90},
        "legend": {"orientation": "h", "y": -0.25, "yanchor": "top", "x": 0, "xanchor": "left"},
        "dragmode": False,
        "xaxis": {"title": {"text": "row, in order of capture", "standoff": 8}, "fixedrange": True, "zeroline": False},
        "yaxis": {
            "type": "log",
            "range": [-6.2, 0.2],
            "fixedrange": True,
            "tickvals": [10.0**power for power in range(-6, 1)],
            "ticktext": ["≤ 1e-6", "1e-5", "1e-4", "0.001", "0.01", "0.1", "1"],
        },
        "shapes": [
            {
                "type": "line",
                "x0": rows.shared_tokens - 0.5,
                "x1": rows.shared_tokens - 0.5,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"color": "#888888", "width": 1.5, "dash": "dot"},
            }
        ],
        "annotations": [
            {
                "x": rows.shared_tokens - 0.5,
                "yref": "paper",
                "y": 1.0,
                "text": "pool ends",
                "showarrow": False,
                "xanchor": "center",
                "yanchor": "bottom",
            }
        ],
    }
    return go.Figure(data=traces, layout=layout)


def in_words(rows: QueryRows, query: int) -> str:
    """What was read of a query and what was dropped, in a sentence or two."""
    count, total = int(rows.read.sum()), len(rows.read)
    moved = rows.coded_weights - rows.exact_weights
    lost, gained = int(np.argmin(moved)), int(np.argmax(moved))
    shift = (
        f"Compression takes most from row {lost} ({_tier(rows, lost)}), whose weight goes from "
        f"{_percent(rows.exact_weights[lost])} to {_percent(rows.coded_weights[lost])}, and gives most to row {gained} "
        f"({_tier(rows, gained)}): {_percent(rows.exact_weights[gained])} to {_percent(rows.coded_weights[gained])}."
    )
    if count == total:
        return f"Of query {query} all {total} rows were read. {shift}"
    dropped = np.where(rows.read, 0.0, rows.exact_weights)
    heaviest = int(np.argmax(np.where(rows.read, -1.0, rows.exact_weights)))
    of_heaviest = f"row {heaviest} ({_tier(rows, heaviest)}) {_percent(dropped[heaviest])}"
    return (
        f"Of query {query}'s {total} rows {count} were read. The rows dropped held {_percent(dropped.sum())} of the "
        f"exact weight, the heaviest of them {of_heaviest}. {shift}"
    )


def _seen(rows: QueryRows) -> np.ndarray:
    """Which rows have a weight that can be seen, exact or compressed."""
    return np.maximum(rows.exact_weights, rows.coded_weights) > _LEAST


def _table(explanation: Explanation, order: np.ndarray) -> dict[str, list[float]]:
    queries = explanation.queries
    columns: dict[str, list[float]] = {"Query": order.tolist()}
    for metric in METRICS:
        if metric.per_query is not None:
            values = metric.per_query(queries)[:, 0].astype(np.float64)
            columns[words.named(metric.name, metric.label)] = values[order].tolist()
    columns["Rows"] = queries.rows[order].tolist()
    columns["Exact weight read"] = [explanation.rows[query].mass_read for query in order]
    columns["Moved to pool"] = [explanation.rows[query].mass_to_pool for query in order]
    return columns


def _heaviest(rows: QueryRows) -> list[dict[str, str]]:
    weight = np.maximum(rows.exact_weights, rows.coded_weights)
    best = np.argsort(-weight, kind="stable")[:_MOST_LISTED]
    best = best[(weight[best] > _LEAST) | (best == best[0])]
    return [
        {
            "Row": f"{row} ({_tier(rows, row)})",
            "Exact weight": words.number(float(rows.exact_weights[row]), 4),
            "Compressed weight": words.number(float(rows.coded_weights[row]), 4),
            "Exact score": words.number(float(rows.exact_scores[row]), 5),
            "Compressed score": words.number(float(rows.coded_scores[row]), 5),
            "Read": words.unbroken("✓ read" if rows.read[row] else "✕ dropped"),
        }
        for row in best.tolist()
    ]


def _tier(rows: QueryRows, row: int) -> str:
    return "pool" if row < rows.shared_tokens else "shell"


def _percent(share: float) -> str:
    """A share in per cent; one too small to matter as such."""
    return f"{words.number(100 * float(share), 3)} %" if share >= _LEAST else "next to nothing"


def _markers(x: np.ndarray, y: np.ndarray, name: str, symbol: str, colour: str) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x.tolist(),
        "y": y.tolist(),
        "marker": {"symbol": symbol, "color": colour, "size": 7, "line": {"width": 1.5, "color": colour}},
        "hovertemplate": f"Row %{{x}}: {name} %{{y:.4g}}.<extra></extra>",
    }
