"""The replay page: the verdict first, the charts in a grid below it, and every candidate under them."""

import streamlit as st

from pages.ui import controls, figures, state, style, verdict

_CHARTS_A_ROW = 2

style.draw()
screen = state.screen(controls.choice())
verdict.draw_refusals(screen)
if screen.shown is None:
    st.stop()

source, receipt = screen.shown.source, screen.shown.receipt
verdict.draw_headline(receipt)
with st.container(key=f"{style.SIDE_BY_SIDE}_verdict"):
    reasons, fixture = st.columns(2, gap="medium")
with reasons:
    verdict.draw_reasons(receipt)
    verdict.draw_receipt(receipt, source.fixture.digest)
with fixture:
    verdict.draw_fixture(source, receipt.config)
verdict.draw_gates(receipt)

st.header("How each candidate does", anchor=False)
st.caption(figures.LEGEND)
charts = figures.charts(receipt)
with st.container(key=f"{style.SIDE_BY_SIDE}_charts"):
    # A row of columns for each row of charts, so that stacked charts keep their order.
    for start in range(0, len(charts), _CHARTS_A_ROW):
        for column, chart in zip(st.columns(_CHARTS_A_ROW), charts[start:], strict=False):
            export = {"format": "svg", "filename": chart.metric}
            column.plotly_chart(
                chart.figure,
                key=f"chart_{chart.metric}",
                alt=chart.alt,
                config={"displaylogo": False, "toImageButtonOptions": export},
            )

st.header("All candidates", anchor=False)
verdict.draw_candidates(receipt)
