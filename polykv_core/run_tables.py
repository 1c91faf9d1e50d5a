"""Runs as tables for a terminal: several fixtures of one call, the history, and two runs held against each other."""

from collections.abc import Sequence

from rich.text import Text

from polykv_core import words
from polykv_core.compare import Comparison, Moved
from polykv_core.gates import GateVerdict
from polykv_core.history import RunSummary
from polykv_core.judged import tightest
from polykv_core.report import Outcome
from polykv_core.tables import number, plain_table, prose, rendered, word
from polykv_core.terminal import inert

_LONGEST = 40


def outcomes_text(outcomes: Sequence[Outcome]) -> str:
    """A row for each fixture of a call, with its worst gate."""
    table = plain_table()
    for head in ("Fixture", "Verdict", "k", "Worst gate", "Value", "Asked for"):
        table.add_column(head, justify="right" if head in ("k", "Value") else "left")
    for outcome in outcomes:
        name, receipt = Text(inert(outcome.name)), outcome.receipt
        if receipt is None:
            table.add_row(name, Text("none", style="bold red"), "", "", "", "")
            continue
        gate = tightest(receipt)
        told = ("every gate is off", "", "") if gate is None else (gate.gate.label, number(gate.value), _rule(gate))
        table.add_row(name, word(receipt.passed), str(receipt.selected_candidate_k), *told)
    return rendered(table)


def runs_text(runs: Sequence[RunSummary]) -> str:
    """The history, a row a run."""
    table = plain_table()
    for head in ("Run", "Saved (UTC)", "Verdict", "k", "Model", "Fixture", "Fails", "Tags", "Note"):
        table.add_column(head, justify="right" if head in ("Run", "k") else "left")
    for run in runs:
        table.add_row(
            f"{run.id}{' *' if run.pinned else ''}",
            f"{run.saved_at:%Y-%m-%d %H:%M}",
            word(run.passed),
            str(run.selected_candidate_k),
            _short(run.model_id or "(model replay)"),
            _short(run.file_name),
            ", ".join(words.GATE_LABELS[name] for name in run.failing_gates),
            inert(", ".join(run.tags)),
            _short(run.note),
        )
    legend = [Text("\n* pinned: the baseline of its fixture", style="dim")] if any(run.pinned for run in runs) else []
    return rendered(table, *legend)


def comparison_text(names: tuple[str, str], comparison: Comparison, moved: Sequence[Moved]) -> str:
    """Two runs: what became of the verdict, and a row for each gate at each k among those asked for."""
    before, after = comparison.before, comparison.after
    names = (inert(names[0]), inert(names[1]))
    versions = (before.measurement.made_with, after.measurement.made_with)
    apart = [
        f"{name} {getattr(versions[0], name)} and {getattr(versions[1], name)}"
        for name in ("polykv", "python", "numpy")
        if getattr(versions[0], name) != getattr(versions[1], name)
    ]
    table = plain_table()
    for head in ("k", "Gate", names[0], names[1], "Difference", "95 % interval", "", "Gate then, now"):
        table.add_column(head, justify="left" if head in ("Gate", "", "Gate then, now") else "right")
    for one in moved:
        table.add_row(*_moved_row(one))
    return rendered(
        Text(
            f"{names[0]} {_verdict(before.passed)} at k = {before.selected_candidate_k}, "
            f"{names[1]} {_verdict(after.passed)} at k = {after.selected_candidate_k}: {_CHANGES[comparison.change]}",
            style="bold",
        ),
        *([prose("", f"Made with other versions: {inert(', '.join(apart))}.")] if apart else []),
        Text(),
        table if moved else Text("Nothing differs, of what was asked for."),
    )


_CHANGES = {"regressed": "REGRESSED", "fixed": "fixed", "same": "the same verdict"}


def _moved_row(one: Moved) -> list[Text]:
    k = str(one.k_after) if one.k_before == one.k_after else f"{one.k_before} -> {one.k_after}"
    interval = "" if one.interval is None else f"{number(one.interval.low, 3)} to {number(one.interval.high, 3)}"
    side = {None: "", True: "better", False: "worse"}[one.better]
    gates = f"{'pass' if one.before.passed else 'FAIL'} -> {'pass' if one.after.passed else 'FAIL'}"
    styles = {"regressed": "bold red", "fixed": "green", "same": ""}
    return [
        Text(k),
        Text(one.after.gate.label),
        Text(number(one.before.value)),
        Text(number(one.after.value)),
        Text(number(one.difference, 4, sign="+") if one.difference else "0"),
        Text(interval),
        Text(f"{side}{', clearly' if side and one.clear else ''}"),
        Text(f"{gates}{'' if one.change == 'same' else f' ({one.change})'}", style=styles[one.change]),
    ]


def _rule(verdict: GateVerdict) -> str:
    return f"{'at least' if verdict.gate.side == 'min' else 'at most'} {verdict.threshold:.6g}"


def _verdict(passed: bool) -> str:
    return "passed" if passed else "FAILED"


def _short(text: str) -> str:
    return words.cut(inert(text), _LONGEST)
