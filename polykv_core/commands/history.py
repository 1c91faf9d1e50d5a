"""`polykv history`: the runs that were kept, to be found, judged again, compared, handed on and let go."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from polykv_core.commands.options import gate_options_of_run, gates_given
from polykv_core.commands.replay import report_one
from polykv_core.commands.shared import is_shown, keep, lines, make_folder, write
from polykv_core.commands.stores import existing_store, receipt_of, referred, store_option
from polykv_core.compare import ACROSS, Comparison, Moved, compare
from polykv_core.exports import receipt_stem
from polykv_core.gates import GATES
from polykv_core.history import RunQuery, RunSummary
from polykv_core.kept import measured
from polykv_core.program import FAILED, PASSED, show
from polykv_core.replay import judge
from polykv_core.terminal import inert

_WHICH = ("all", "differs", "regressed", "fixed", "same")


@click.group(no_args_is_help=False)
def history() -> None:
    """Find, judge again, compare and hand on runs that were kept with polykv replay --keep or on the page."""


@history.command("list")
@click.argument("text", required=False)
@click.option("--model", metavar="ID", help="Only this model id.")
@click.option("--passed/--failed", default=None, help="Only runs that passed, or only those that failed.")
@click.option("--gate", type=click.Choice([gate.option for gate in GATES]), help="Only runs that fail this gate.")
@click.option("--tag", metavar="TAG", help="Only runs with this tag.")
@click.option("--since", metavar="DATE", callback=lambda *given: _time(given[2]), help="From this time on (ISO 8601).")
@click.option("--until", metavar="DATE", callback=lambda *given: _time(given[2]), help="Before this time (ISO 8601).")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="The newest N of them."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@store_option
def list_runs(
    text: str | None, model: str | None, gate: str | None, as_json: bool, store: str | None, **asked: Any
) -> int:
    """List runs, the newest first.

    TEXT is a part of the model id, the file's name, the note or the tags, or the start of a digest.
    """
    failing = next((one.threshold for one in GATES if gate == one.option), None)
    with existing_store(store) as kept:
        runs = kept.runs(RunQuery(text=text, model_id=model, failing_gate=failing, **asked))
    if as_json:
        show(json.dumps([_summary(run) for run in runs], indent=2, ensure_ascii=False).encode() + b"\n")
        return PASSED

    from polykv_core.run_tables import runs_text  # rich is slow to import, and only tables need it

    show(runs_text(runs) if runs else "No run fits.\n")
    return PASSED


@history.command("show")
@click.argument("run", type=click.IntRange(1))
@click.option("--receipt", metavar="PATH", help="Write its receipt there, as it was; - is standard output.")
@store_option
def show_run(run: int, receipt: str | None, store: str | None) -> int:
    """Show RUN with its verdict. Exit status as of the replay."""
    with existing_store(store) as kept:
        keep("--receipt", receipt, str(kept.path))
        found = kept.run(run)
    if receipt is not None and is_shown(receipt):
        show(found.receipt_json.encode())
        return PASSED if found.summary.passed else FAILED
    if receipt is not None:
        write(receipt, found.receipt_json.encode())
    return report_one(receipt_of(found), None, _facts(found.summary))


@history.command()
@click.argument("run", type=click.IntRange(1))
@gate_options_of_run
@click.option("--receipt", metavar="PATH", help="Write the new receipt there; - is standard output.")
@store_option
def rejudge(run: int, receipt: str | None, store: str | None, **given: Any) -> int:
    """Judge RUN again at other gates or ks, without its fixture.

    What was measured then is held against them; the run in the history stays as it is.
    """
    changed = gates_given(given)
    with existing_store(store) as kept:
        keep("--receipt", receipt, str(kept.path))
        found = kept.run(run)
    before = receipt_of(found)
    config = replace(before.config, **changed)
    was = "passed" if found.summary.passed else "FAILED"
    again = ("Judged again", f"it was kept as {was} at k = {found.summary.selected_candidate_k}")
    return report_one(judge(measured(before, found.measurement), config), receipt, [*_facts(found.summary), again])


@history.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--across", multiple=True, type=click.Choice(ACROSS), help="What differs on purpose.")
@click.option("--only", type=click.Choice(_WHICH), default="all", show_default=True, help="Which rows to show.")
@store_option
def compare_runs(runs: tuple[str, ...], across: tuple[str, ...], only: str, store: str | None) -> int:
    """Compare runs, by their numbers or as receipt files, each with the first: paired, query by query.

    Exit status: 0 no verdict regressed, 1 one did, 2 they are not comparable.
    """
    if len(runs) < 2:
        raise click.UsageError("give at least two runs to compare")
    names = [f"run {name}" if name.isdecimal() else Path(name).name for name in runs]
    receipts = [referred(name, store) for name in runs]
    comparisons = [compare(receipts[0], receipt, across) for receipt in receipts[1:]]

    from polykv_core.run_tables import comparison_text  # rich is slow to import, and only tables need it

    show(
        "\n".join(
            comparison_text((names[0], name), comparison, chosen(comparison, only))
            for name, comparison in zip(names[1:], comparisons, strict=True)
        )
    )
    return FAILED if any(comparison.change == "regressed" for comparison in comparisons) else PASSED


@history.command()
@click.argument("runs", nargs=-1, required=True, type=click.IntRange(1))
@click.option("--to", "folder", metavar="DIR", required=True, help="The folder to write to.")
@store_option
def export(runs: tuple[int, ...], folder: str, store: str | None) -> int:
    """Write the receipts of RUNS into a folder, byte for byte as they were."""
    with existing_store(store) as kept:
        found = [kept.run(run) for run in runs]
    make_folder(folder)
    for run in found:
        path = os.path.join(folder, f"run-{run.summary.id}_{receipt_stem(receipt_of(run))}.json")
        write(path, run.receipt_json.encode())
        show(f"{inert(path)}\n")
    return PASSED


@history.command()
@click.argument("runs", nargs=-1, required=True, type=click.IntRange(1))
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
def delete(runs: tuple[int, ...], yes: bool, store: str | None) -> int:
    """Delete RUNS from the history; all of them or, if one is not there, none."""
    with existing_store(store) as kept:
        if not yes:
            click.confirm(f"Delete {len(set(runs))} of the runs in {inert(str(kept.path))}?", abort=True, err=True)
        show(f"{kept.delete(runs)} deleted\n")
    return PASSED


@history.command()
@click.argument("run", type=click.IntRange(1))
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    help="Its tags from now on, once for each; an empty one takes all away.",
)
@click.option("--note", metavar="TEXT", help="Its note from now on; an empty one takes it away.")
@store_option
def label(run: int, tags: tuple[str, ...], note: str | None, store: str | None) -> int:
    """Give RUN other tags or another note."""
    with existing_store(store) as kept:
        kept.annotate(run, tags=[tag for tag in tags if tag] if tags else None, note=note)
        show(lines(_facts(kept.run(run).summary)))
    return PASSED


@history.command()
@click.argument("run", type=click.IntRange(1))
@click.option("--off", is_flag=True, help="Take the pin away.")
@store_option
def pin(run: int, off: bool, store: str | None) -> int:
    """Pin RUN as the baseline of its fixture: what polykv replay --baseline pinned is relative to."""
    with existing_store(store) as kept:
        if off:
            kept.unpin(run)
        else:
            kept.pin(run)
    show(f"run {run} is {'no longer ' if off else ''}the baseline of its fixture\n")
    return PASSED


def chosen(comparison: Comparison, only: str) -> Sequence[Moved]:
    """The rows of a comparison that were asked for: at the selected ks first, then at each k in common."""
    rows = (*comparison.selected, *comparison.at_ks)
    if only == "differs":
        return [row for row in rows if row.differs]
    return rows if only == "all" else [row for row in rows if row.change == only]


def _facts(run: RunSummary) -> list[tuple[str, str]]:
    facts = [
        ("Run", f"{run.id}{', pinned' if run.pinned else ''}"),
        ("Saved", f"{run.saved_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("Fixture", run.file_name),
        ("Model", run.model_id),
        ("Digest", run.fixture_digest or ""),
        ("Tags", ", ".join(run.tags)),
        ("Note", run.note),
    ]
    return [(name, value) for name, value in facts if value]


def _summary(run: RunSummary) -> dict[str, Any]:
    return {**asdict(run), "saved_at": run.saved_at.isoformat()}


def _time(text: str | None) -> datetime | None:
    """A time; without a zone it is UTC, as it is listed."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is no time; expected such as 2026-12-31 or 2026-12-31T18:00") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
