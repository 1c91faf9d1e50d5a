"""What the model page says about a case: what it holds, what went wrong with one, and what there is to take away."""

import shlex

import streamlit as st

from pages.ui import downloads, model_state
from pages.ui.model_state import Screen, Shown
from pages.ui.notices import draw_fault
from polykv_core import file_stem


def draw_notices(screen: Screen, *, waiting: bool) -> None:
    """Say what was not used and why, what is waited for, and what is on screen instead."""
    if screen.shown and waiting:
        st.info("Upload a case below, and its verdict appears here.", icon=":material/upload:")
    for refusal in screen.refusals:
        draw_fault(f"{refusal.what} could not be used.", refusal.reason)
    if screen.cancelled:
        with st.container(border=True):
            st.warning("The replay was cancelled.", icon=":material/cancel:")
            st.button("Replay it", key="try_model_again", on_click=model_state.try_again, icon=":material/replay:")
    if screen.shown and (screen.refusals or screen.cancelled or waiting):
        st.text(f"Below is the last good result, for {screen.shown.replayed.name}.")


def draw_facts(shown: Shown) -> None:
    """What the case holds, and what is synthetic about it."""
    case = shown.case
    shape, config = case.shape, case.config
    with st.container(border=True, gap="xsmall"):
        st.markdown("**Case**")
        st.text(shown.replayed.name)
        st.caption(
            f"Layer {config.layer} of {shape.num_layers} and KV head {config.head} of {shape.num_kv_heads}, counted "
            f"from 0, with {shape.head_dim} dimensions. {len(case.queries)} queries over {len(case.shared)} rows in "
            f"the pool and {len(case.hot)} in the shell. Seeds: pool {case.pool_seed}, shell {case.shell_seed}, "
            f"projection {config.projection_seed} to {config.vocab_size} tokens."
        )
        st.caption(
            "Exact here means attention over the whole decoded cache: what is judged is the reading of few rows, not "
            "the coding of the rows. The projection is synthetic, so PPL and KL are of no real model."
        )


def stem(shown: Shown) -> str:
    """How files about this verdict are called, without their ending."""
    return file_stem("model-replay", shown.receipt.passed, shown.replayed.digest)


def draw_downloads(shown: Shown) -> None:
    """The receipt, and the case with these ks and gates, from which the command line makes that receipt."""
    with st.container(horizontal=True):
        downloads.draw_receipt(shown.receipt, f"{stem(shown)}.json", "model_receipt")
        downloads.draw("Download case", shown.case.to_json, _case_name(shown), "download_case")


def draw_exports(shown: Shown) -> None:
    """Tables to take away, and the command that makes the same receipt of the downloaded case."""
    with st.container(horizontal=True):
        downloads.draw_tables(shown.curve, shown.receipt, stem(shown))
    st.markdown("**The same receipt from the command line**")
    command = ["polykv", "model-replay", _case_name(shown), f"--receipt={stem(shown)}.json"]
    st.code(shlex.join(command), language=None, wrap_lines=True)
    st.caption("Download the case first. It holds the ks and gates that are set now.")


def _case_name(shown: Shown) -> str:
    return f"{stem(shown)}_case.json"
