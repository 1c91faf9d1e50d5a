"""The history page: the runs that were kept; one of them judged anew, or several held against each other."""

import shlex
from dataclasses import replace

import streamlit as st

from pages.ui import comparison, controls, downloads, kept_runs, notices, settings, style, verdict
from pages.ui.kept_runs import Opened
from polykv_core import (
    CapturedReplayConfig,
    CapturedReplayReceipt,
    PolyKvError,
    command_line,
    gates_off,
    judge,
    judged,
    parse_ks,
    receipt_stem,
    relative_config,
    words,
)
from polykv_core.history import RunQuery, RunSummary

_LABELS = words.GATE_LABELS
_LONGEST = 60
_PERCENT, _RELATIVE = "relative_percent", "relative_gates"
_FAULT = "relative_fault"


def draw_filters(every: tuple[RunSummary, ...]) -> RunQuery:
    """The filters, in one row where there is room."""
    models = sorted({run.model_id for run in every if run.model_id})
    tags = sorted({tag for run in every for tag in run.tags})
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input("Search", key="history_text", placeholder="model, file, note, tag, digest", width=260)
        verdict_ = st.selectbox("Verdict", ["Any", "Passed", "Failed"], key="history_verdict", width=120)
        gate = st.selectbox(
            "Fails gate", _LABELS, index=None, format_func=_LABELS.__getitem__, key="history_gate", width=180
        )
        model = st.selectbox("Model", models, index=None, key="history_model", width=220)
        tag = st.selectbox("Tag", tags, index=None, key="history_tag", width=160)
        days = st.date_input("Days (UTC)", value=[], key="history_days", width=230)
    return kept_runs.query(text, verdict_, gate, model, tag, days)


def draw_list(runs: tuple[RunSummary, ...]) -> None:
    """A row a run, newest first."""
    rows = [
        {
            "Run": f"{run.id}{' (pinned)' if run.pinned else ''}",
            "Saved (UTC)": words.unbroken(f"{run.saved_at:%Y-%m-%d %H:%M}"),
            "Verdict": words.unbroken(words.marked(run.passed)),
            "k": str(run.selected_candidate_k),
            "Replay": "with options" if run.schema_version.endswith("_with_options") else "reference",
            "Fails": words.listed([_LABELS[name] for name in run.failing_gates]),
            "Tags": words.cut(", ".join(run.tags), _LONGEST),
            "Note": words.cut(run.note, _LONGEST),
            "Fixture": words.cut(run.file_name, _LONGEST),
            "Model": words.cut(run.model_id or "a model replay", _LONGEST),
        }
        for run in runs
    ]
    height = min(38 + 35 * len(rows), 420)
    st.dataframe(rows, hide_index=True, height=height, key="history_list", alt="The runs that were kept")


def in_brief(run: RunSummary) -> str:
    """A run to choose."""
    told = [words.verb(run.passed), *run.tags, run.file_name or run.model_id, f"{run.saved_at:%m-%d %H:%M}"]
    return f"{run.id}: {', '.join(told)}"[:80]


def draw_run(run: Opened) -> None:
    """One run: as it was, and at the gates on the left."""
    st.header(f"Run {run.summary.id}", anchor=False)
    if run.damage:
        notices.draw_fault("Of what was measured, only the candidates in the receipt are left.", run.damage)
    with st.container(key=f"{style.SIDE_BY_SIDE}_run"):
        then, now = st.columns(2, gap="medium")
    with then.container(border=True, height="stretch"):
        st.markdown("**As it was kept**")
        st.markdown(words.marked(run.receipt.passed) + f" at k = {run.receipt.selected_candidate_k}")
        draw_blockers(run.receipt)
        facts = {
            "Fixture": run.summary.file_name,
            "Model": run.receipt.model_id,
            "Digest": run.receipt.fixture_digest,
            "Note": run.summary.note,
        }
        st.text("\n".join(f"{name}: {fact}" for name, fact in facts.items() if fact))
        st.caption(f"Its gates: {gates_told(run.receipt)}.")
        verdict.draw_apart(run.receipt)
        downloads.draw_receipt(run.receipt, f"run-{run.summary.id}_{receipt_stem(run.receipt)}.json", "kept_receipt")
    with now.container(border=True, height="stretch"):
        st.markdown("**At the gates on the left**")
        draw_judged_anew(run)
    st.markdown("**Every candidate, as it was kept**")
    verdict.draw_candidates(run.receipt)
    with st.expander("Gates relative to this run", icon=":material/percent:"):
        draw_relative(run)
    with st.expander("Tags, note, baseline, deletion", icon=":material/label:"):
        kept_runs.draw_label(run.summary)


def draw_blockers(receipt: CapturedReplayReceipt) -> None:
    """Why a verdict fails, in sentences."""
    failed = judged.blockers(receipt)
    if failed:
        st.markdown("\n".join(f"- {words.blocker(one)}" for one in failed))


def gates_told(receipt: CapturedReplayReceipt) -> str:
    """The gates that a run was held against, in words."""
    told = [
        f"{one.gate.label} {'off' if one.off else words.rule(one.gate, one.threshold)}"
        for one in judged.gates_at_selected(receipt)
    ]
    return f"{words.listed(told)}; {words.STATISTICS[receipt.config.statistic]}"


def draw_judged_anew(run: Opened) -> None:
    """What was measured then, held against the gates and ks of now: nothing is replayed."""
    choice = controls.choice()
    try:
        config = CapturedReplayConfig.from_dict({"candidate_ks": parse_ks(choice.ks_text), **choice.gates})
        receipt = judge(run.measurement, config)
    except PolyKvError as bad:
        notices.draw_fault("It cannot be judged at these.", str(bad))
        return
    st.markdown(words.marked(receipt.passed) + f" at k = {receipt.selected_candidate_k}")
    draw_blockers(receipt)
    off = gates_off(config)
    if off:
        st.caption(f"Off: {words.listed([_LABELS[name] for name in off])}.")
    downloads.draw_receipt(receipt, f"{receipt_stem(receipt)}_rejudged.json", "rejudged_receipt")


def draw_relative(run: Opened) -> None:
    """Set the gates on the left to so many per cent worse than this run was."""
    st.caption("Each gate is set so that nothing may be more than this much worse than at the selected k of this run.")
    st.number_input("At most worse by (%)", 0.0, 1000.0, 10.0, 1.0, key=_PERCENT, width=200)
    names = st.multiselect("Gates", _LABELS, default=list(_LABELS), format_func=_LABELS.__getitem__, key=_RELATIVE)
    st.button(
        "Set these gates",
        key="relative_set",
        icon=":material/tune:",
        disabled=not names,
        on_click=set_relative,
        args=(run.receipt,),
    )
    fault = st.session_state.pop(_FAULT, "")
    if fault:
        notices.draw_fault("These gates cannot be set.", fault)
    if names:
        st.markdown("**The same from the command line**")
        st.code(relative_command(run), language=None, wrap_lines=True)


def set_relative(baseline: CapturedReplayReceipt) -> None:
    """Put the relative gates into the sidebar, with the statistic that they are of."""
    names = st.session_state[_RELATIVE]
    try:
        moved = relative_config(settings.DEFAULTS, baseline, dict.fromkeys(names, st.session_state[_PERCENT]))
    except PolyKvError as bad:
        st.session_state[_FAULT] = str(bad)
        return
    settings.apply({settings.STATISTIC: baseline.config.statistic})
    settings.apply_thresholds({name: getattr(moved, name) for name in names})


def relative_command(run: Opened) -> str:
    """The command that replays a fixture as the run was, with the relative gates; the others as on the left."""
    percent, names = st.session_state[_PERCENT], st.session_state[_RELATIVE]
    others = {name: st.session_state[name] for name in _LABELS if name not in names}
    config = replace(run.receipt.config, **others)
    flags = {name: f"--{name.replace('_', '-')}=" for name in names}
    parts = shlex.split(command_line("FIXTURE", config, "receipt.json", run.receipt.options))
    kept = [part for part in parts if not part.startswith(tuple(flags.values()))]
    gates = [f"--worse-by={flag[2:]}{percent!r}" for flag in flags.values()]
    return shlex.join([*kept, f"--baseline={run.summary.id}", *gates])


def draw_chosen(numbers: list[int]) -> None:
    """One run in full, or several compared."""
    try:
        runs = kept_runs.opened(numbers)
    except PolyKvError as bad:
        notices.draw_fault("The run cannot be opened.", str(bad))
        return
    if len(runs) == 1:
        draw_run(runs[0])
    else:
        st.header("Compared with the first", anchor=False)
        comparison.draw(runs)


st.title("History", anchor=False)
kept_runs.draw_outcome("list")
try:
    every = kept_runs.listed(RunQuery())
    if every:
        found = kept_runs.listed(draw_filters(every))
        if found:
            draw_list(found)
            if len(found) == kept_runs.MOST_LISTED:
                st.caption(f"The newest {len(found)} of those that fit.")
        else:
            st.info("No run fits these filters.", icon=":material/filter_alt_off:")
        kinds = {run.id: run for run in found if run.kind == "captured"}
        numbers = st.multiselect(
            "Open a run, or several to compare with the first",
            list(kinds),
            format_func=lambda number: in_brief(kinds[number]),
            key="history_runs",
            placeholder="Run numbers",
        )
        if numbers:
            draw_chosen(numbers)
    else:
        st.info(
            "Nothing is kept yet. Keep a verdict on the Replay page, or by polykv replay FIXTURE --keep.",
            icon=":material/inventory_2:",
        )
except PolyKvError as bad:
    notices.draw_fault("The history cannot be read.", str(bad))
st.caption("The history is a file on the machine that serves this page:")
st.code(kept_runs.where(), language=None, wrap_lines=True)
