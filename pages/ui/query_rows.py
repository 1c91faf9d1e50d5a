"""Each query by itself, the worst first, and the rows of one of them: who had the weight, and who lost it."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from pages.ui import style, words
from polykv_core import METRICS, Explanation, QueryRows

_MOST_LISTED = 8
_EXACT, _CODED, _DROPPED = "#0072B2", "#E69F00", "#D55E00"


def draw(explanation: Explanation) -> None:
    """The table of queries, and the rows of the one that is chosen."""
    st.header("Query by query", anchor=False)
    st.caption("The worst output cosine first. Choose a query by its row to see its rows below.")
    order = np.argsort(np.where(np.isfinite(cosines(explanation)), cosines(explanation), -np.inf), kind="stable")
    table = _table(explanation, order)
    chosen = st.dataframe(
        table,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=f"queries_{explanation.fixture_digest[:20]}_{explanation.candidate_k}",
        column_config={name: st.column_config.NumberColumn(name, format="%.5g") for name in table if name != "Query"},
        alt="Every query's metrics, the worst first",
    )
    picked = chosen.selection.rows if chosen else []
    query = int(order[picked[0] if picked else 0])
    st.subheader(f"The rows of query {query}", anchor=False)
    rows = explanation.rows[query]
    st.plotly_chart(weights(rows), key="query_weights", alt=in_words(rows, query))
    st.markdown(f"{in_words(rows, query)} Where the exact weight lies, the largest share first:")
    with st.container(key=f"{style.FIRST_CELL_ABOVE}_rows"):
        st.table(_heaviest(rows), border="horizontal", hide_index=True, alt=f"Rows of query {query} by exact weight")


def cosines(explanation: Explanation) -> np.ndarray:
    """Each query's output cosine."""
    return explanation.queries.cosine[:, 0]


def weights(rows: QueryRows) -> go.Figure:
    """Exact and compressed weight by position, with the rows that were not read and the end of the pool."""
    positions = np.arange(len(rows.read))
    # On a logarithmic axis; weights too small to see at all stand at its foot.
    exact, coded = (np.maximum(w, 1e-6) for w in (rows.exact_weights, rows.coded_weights))
    dropped = positions[~rows.read]
    traces = [
        _markers(positions, exact, "exact weight", "circle-open", _EXACT),
        _markers(positions, coded, "compressed weight", "diamond", _CODED),
        _markers(dropped, exact[dropped], "exact, not read", "x-thin-open", _DROPPED),
    ]
    layout = {
        "title": {"text": "Weight by position", "subtitle": {"text": "share of the attention, log scale from 1e-6"}},
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
                "y": 0.98,
                "text": "pool ends",
                "showarrow": False,
                "xanchor": "right",
                "yanchor": "top",
                "xshift": -4,
            }
        ],
    }
    return go.Figure(data=traces, layout=layout)


def in_words(rows: QueryRows, query: int) -> str:
    """What was read of a query and what was dropped, in a sentence or two."""
    count, total = int(rows.read.sum()), len(rows.read)
    held, lost = words.number(100 * rows.mass_read, 4), words.number(100 * (1 - rows.mass_read), 3)
    if count == total:
        return f"Of query {query} all {total} rows were read."
    heaviest = int(np.argmax(np.where(rows.read, -1.0, rows.exact_weights)))
    weight = words.number(100 * float(rows.exact_weights[heaviest]), 3)
    return (
        f"Of query {query}'s {total} rows {count} were read; they hold {held} % of the exact weight. The rows dropped "
        f"held {lost} %, the heaviest of them row {heaviest} ({_tier(rows, heaviest)}) with {weight} %."
    )


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
    best = np.argsort(-rows.exact_weights, kind="stable")[:_MOST_LISTED]
    return [
        {
            "Row": f"{row} ({_tier(rows, row)})",
            "Exact weight": words.number(float(rows.exact_weights[row]), 4),
            "Compressed weight": words.number(float(rows.coded_weights[row]), 4),
            "Exact score": words.number(float(rows.exact_scores[row]), 5),
            "Compressed score": words.number(float(rows.coded_scores[row]), 5),
            "Read": "✓ read" if rows.read[row] else "✕ dropped",
        }
        for row in best.tolist()
    ]


def _tier(rows: QueryRows, row: int) -> str:
    return "pool" if row < rows.shared_tokens else "shell"


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
