"""The charts of a receipt in a grid, what they mean, and the table of numbers behind them."""

import streamlit as st

from pages.ui import style
from pages.ui.figures import Chart
from polykv_core import METRICS, Measurement, passing, words
from polykv_core.judged import Receipt
from polykv_core.view import legend

_CHARTS_A_ROW = 2


def draw(charts: list[Chart]) -> None:
    """The charts, two a row where there is room, and under each of them its warning if it has one."""
    st.caption(legend(every_k=True))
    with st.container(key=f"{style.SIDE_BY_SIDE}_charts"):
        # A row of columns for each row of charts, so that stacked charts keep their order.
        for start in range(0, len(charts), _CHARTS_A_ROW):
            for column, chart in zip(st.columns(_CHARTS_A_ROW), charts[start:], strict=False):
                with column:
                    _draw_chart(chart)


def draw_numbers(receipt: Receipt, curve: Measurement) -> None:
    """Every metric and the verdict at every k, as a table that is sorted and searched in the browser."""
    with st.expander("The numbers behind the charts: every k", icon=":material/table:"):
        numbers = {metric.name: curve.metrics[metric.name] for metric in METRICS}
        verdicts = [words.marked(bool(passed)) for passed in passing(curve, receipt.config)]
        table = {"k": list(curve.candidate_ks), "Verdict": verdicts, **numbers}
        columns = {
            metric.name: st.column_config.NumberColumn(words.named(metric.name, metric.label), format="%.6g")
            for metric in METRICS
        }
        st.dataframe(table, hide_index=True, column_config=columns, alt="Every metric at every k")


def _draw_chart(chart: Chart) -> None:
    st.plotly_chart(chart.figure, key=f"chart_{chart.metric}", alt=chart.alt, config=chart.config)
    if chart.note:
        st.caption(f":material/warning: {chart.note}")
