"""The model replay: a synthetic case, replayed and judged like a captured head, with the sidebar's ks and gates."""

import streamlit as st

from pages.ui import controls, figures, gallery, gates, jobs, model_case, model_inputs, model_state, style, verdict

choice = controls.choice()
result = st.container()  # the verdict stands above the inputs that it comes from

st.header("The case", anchor=False)
asked = model_inputs.draw()
screen = model_state.screen(asked, choice)

with result:
    jobs.draw(model_state.JOB)
    model_case.draw_notices(screen, waiting=asked is None)
    if screen.shown is None:
        st.title("Model replay", anchor=False)
        st.markdown("Choose a case below, and its verdict appears here.")
if screen.shown is None:
    st.stop()

receipt, curve = screen.shown.receipt, screen.shown.curve
with result:
    verdict.draw_headline(receipt)
    with st.container(key=f"{style.SIDE_BY_SIDE}_model_verdict"):
        reasons, case = st.columns(2, gap="medium")
    with reasons:
        verdict.draw_reasons(receipt, curve)
        model_case.draw_downloads(screen.shown)
    with case:
        model_case.draw_facts(screen.shown)

gates.draw(receipt, curve)

st.header("How each candidate does", anchor=False)
stem = model_case.stem(screen.shown)
gallery.draw(figures.charts(receipt, curve, log=choice.log, log_k=choice.log_k, export=choice.picture, stem=stem))

st.header("All candidates", anchor=False)
verdict.draw_candidates(receipt)
gallery.draw_numbers(receipt, curve)

st.header("Take it away", anchor=False)
model_case.draw_exports(screen.shown)
