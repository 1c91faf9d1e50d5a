"""The replay page: the verdict first, the charts in a grid below it, then every candidate and what to take away."""

import streamlit as st

from pages.ui import (
    controls,
    downloads,
    exports,
    figures,
    findings,
    gallery,
    gates,
    jobs,
    kept_runs,
    notices,
    state,
    style,
    uploads,
    verdict,
)

choice = controls.choice()
screen = state.screen(choice)
jobs.draw(uploads.REPLAY_JOB)
notices.draw(screen)
if screen.shown is not None:
    source, curve, receipt = screen.shown.source, screen.shown.curve, screen.shown.receipt
    verdict.draw_headline(receipt)
    if controls.untouched():
        notices.draw_welcome()
    with st.container(key=f"{style.SIDE_BY_SIDE}_verdict"):
        reasons, fixture = st.columns([5, 4], gap="medium")
    with reasons:
        verdict.draw_reasons(receipt, curve)
        with st.container(horizontal=True, vertical_alignment="center"):
            downloads.draw_receipt(receipt, f"{exports.stem(screen.shown)}.json", "receipt")
            kept_runs.draw_keep(screen.shown)
            st.page_link("pages/explain/page.py", label="Why? Take it apart", icon=":material/troubleshoot:")
        findings.draw(screen.shown.findings)
    with fixture:
        verdict.draw_fixture(source, receipt.config.candidate_ks)
    gates.draw(receipt, curve)

    st.header("How each candidate does", anchor=False)
    charts = figures.charts(
        receipt, curve, log=choice.log, log_k=choice.log_k, export=choice.picture, stem=exports.stem(screen.shown)
    )
    gallery.draw(charts)

    st.header("All candidates", anchor=False)
    verdict.draw_candidates(receipt)
    gallery.draw_numbers(receipt, curve)

    st.header("Take it away", anchor=False)
    exports.draw(screen.shown, controls.link(receipt.config.candidate_ks))
