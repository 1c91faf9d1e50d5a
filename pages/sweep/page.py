"""The sweep: every head of the file on screen, one verdict for the model, a map, and the way to each head."""

import shlex
from functools import partial
from pathlib import PurePath

import streamlit as st

from pages.ui import (
    controls,
    downloads,
    explained,
    findings,
    head_list,
    head_map,
    jobs,
    notices,
    split_curve,
    state,
    sweeping,
)
from pages.ui.head_map import KINDS, METRICS
from pages.ui.state import Shown
from pages.ui.uploads import REPLAY_JOB, SPLITS_JOB, SWEEP_JOB
from polykv_core import candidates_csv, command_line, plain_name, receipts_zip, words
from polykv_core.report import junit_xml
from polykv_core.sweep.maps import maps
from polykv_core.sweep.verdict import SweepVerdict, verdict
from polykv_core.sweep_report import facts, headline_in_two, outcomes, sweep_json
from polykv_core.sweep_report import findings as findings_of

_SPLITS_OF = "splits_of"
_ICONS = {
    True: ":green[:material/check_circle:]",
    False: ":red[:material/cancel:]",
    None: ":orange[:material/warning:]",
}


def draw_verdict(judged: SweepVerdict) -> None:
    """The one verdict, the worst head by name, and what the whole cache saves."""
    told, why = headline_in_two(judged)
    if judged.passed is not None:  # else it begins with a name, which is as it is
        why = f"{why[0].upper()}{why[1:]}"
    st.title(f"{_ICONS[judged.passed]} {told}", anchor=False)
    st.text(f"{why}.")
    st.markdown("\n".join(f"- **{name}**: {text}" for name, text in facts(judged)))
    found = findings_of(judged)
    if found:
        with st.container(border=True):
            findings.draw(found)


def draw_maps(judged: SweepVerdict) -> None:
    """The maps of one number; a click on them chooses a head."""
    found = maps(judged)
    if not found:
        st.info("There is no map: no head says its layer, or they are too far apart.", icon=":material/info:")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = st.selectbox(
            "Map", list(KINDS), format_func=KINDS.__getitem__, key="map_kind", persist_state="session", width=320
        )
        metric = METRICS[0]
        if head_map.needs_metric(kind):
            metric = st.selectbox(
                "Metric",
                METRICS,
                format_func=lambda name: words.METRIC_BY_NAME[name].label,
                key="map_metric",
                persist_state="session",
                width=220,
            )
    st.caption("✓ passes, ✕ fails, ! has no verdict. Click a square to choose its head.")
    for number, one in enumerate(found):
        if len(found) > 1:
            st.text(one.title)
        shown = head_map.draw_map(one, kind, metric, head_list.chosen_name())
        key = f"head_map_{number}"
        st.plotly_chart(
            shown.figure,
            key=key,
            alt=shown.alt,
            on_select=partial(head_list.choose_on_map, key, one),
            selection_mode="points",
            config={"displayModeBar": False},
        )


def ask_splits(whose: str) -> None:
    """From now on show the splits of this head."""
    st.session_state[_SPLITS_OF] = whose


def draw_splits(shown: Shown) -> None:
    """The head on screen, with more or fewer of its rows shared."""
    st.header("More or fewer shared tokens", anchor=False)
    st.text(
        f"{shown.source.name} (the head in the sidebar): what its quality costs in bytes when other numbers of its "
        "rows go to the pool."
    )
    whose = f"{shown.source.digest} {shown.receipt.config} {shown.curve.options}"
    if st.session_state.get(_SPLITS_OF) != whose:
        icon = ":material/stacked_line_chart:"
        st.button("Work it out", key="work_out_splits", icon=icon, on_click=ask_splits, args=(whose,))
        return
    part = sweeping.splits(shown.replayed.load, whose, shown.receipt.config, shown.curve.options)
    jobs.draw(SPLITS_JOB)
    explained.draw_notices(part, sweeping.try_again)
    if part.value is not None:
        split_curve.draw(part.value, "output_cosine_mean")


def draw_downloads(judged: SweepVerdict, file_name: str, shown: Shown) -> None:
    """The verdict as files, and the command that gives the same."""
    st.header("Take it away", anchor=False)
    stem = plain_name(PurePath(file_name).stem)
    receipts = [head.receipt for head in judged.heads if head.receipt is not None]
    files = (
        ("Verdict as JSON", partial(sweep_json, judged), "sweep.json", "application/json"),
        ("Receipts as ZIP", partial(receipts_zip, receipts), "receipts.zip", "application/zip"),
        ("Candidates as CSV", partial(candidates_csv, receipts), "candidates.csv", "text/csv"),
        ("JUnit report", partial(junit_xml, outcomes(judged)), "junit.xml", "text/xml"),
    )
    with st.container(horizontal=True):
        for label, made, ending, mime in files:
            downloads.draw(label, made, f"{stem}_{ending}", f"download_{ending}", mime)
    st.markdown("**The same from the command line**")
    command = shlex.split(command_line(file_name, shown.receipt.config, "receipt.json", shown.curve.options))
    swept = ["sweep" if part == "replay" else part for part in command if not part.startswith("--receipt=")]
    st.code(shlex.join([*swept, "--receipts=receipts"]), language=None, wrap_lines=True)


choice = controls.choice()
screen = state.screen(choice)
jobs.draw(REPLAY_JOB)
notices.draw(screen)
if screen.shown is None:
    st.stop()
if len(sweeping.heads_of(choice)) < 2:
    st.title("One head is on screen", anchor=False)
    st.markdown(
        "A sweep judges every head of a compact file. Choose the sample of 36 heads, or upload a `.safetensors` or "
        "`.npz` file that holds several; `polykv capture` writes one from a model, `polykv convert` from JSON."
    )
    draw_splits(screen.shown)
    st.stop()

config = screen.shown.receipt.config
part = sweeping.results(choice, config, screen.shown.curve.options)
jobs.draw(SWEEP_JOB)
explained.draw_notices(part, sweeping.try_again)
if part.value is not None:
    judged = verdict(part.value, config)
    draw_verdict(judged)
    st.header("The map", anchor=False)
    draw_maps(judged)
    head_list.draw_chosen(judged)
    st.header("Every head, worst first", anchor=False)
    head_list.draw(judged)
    draw_downloads(judged, sweeping.file_name(choice), screen.shown)
if screen.followed:
    draw_splits(screen.shown)
