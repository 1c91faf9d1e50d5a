"""What became of the fixtures of one call: whether all pass, and the one gate that says most about it, by name."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polykv_core import words
from polykv_core.gates import GateVerdict
from polykv_core.health import Finding
from polykv_core.judged import tightest
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.terminal import inert


@dataclass(frozen=True)
class Outcome:
    """What became of one fixture: its receipt, or why there is none.

    `name` is as the user called it: data. `relative` says which gates are relative to which run, if any are.
    """

    name: str
    receipt: CapturedReplayReceipt | None
    error: str = ""
    relative: str = ""


@dataclass(frozen=True)
class Worst:
    """The gate that a call stands or falls by, and whose it is; no gate where there is no verdict."""

    outcome: Outcome
    verdict: GateVerdict | None


def worst(outcomes: Sequence[Outcome]) -> Worst | None:
    """The worst gate of the worst fixture, at its selected k: one gate's margin, never a score made of several.

    A fixture without a verdict is worse than any gate. None where there is no fixture, or every gate is off.
    """
    found, share = None, math.inf
    for outcome in outcomes:
        if outcome.receipt is None:
            return Worst(outcome, None)
        verdict = tightest(outcome.receipt)
        if verdict and (found is None or verdict.share < share):
            found, share = Worst(outcome, verdict), verdict.share
    return found


def passed(outcomes: Sequence[Outcome]) -> bool | None:
    """Whether every fixture passes; None where one has no verdict, or there is none at all."""
    receipts = [outcome.receipt for outcome in outcomes if outcome.receipt is not None]
    if not outcomes or len(receipts) < len(outcomes):
        return None
    return all(receipt.passed for receipt in receipts)


def sentence(outcomes: Sequence[Outcome], quoted: Callable[[str], str] = inert, what: str = "fixture") -> str:
    """The whole of it in one sentence. `quoted` writes names and errors such that they do nothing where it is read.

    `what` is what an outcome is of, in the singular.
    """
    verdict, why = in_two(outcomes, quoted, what)
    return f"{verdict}{', ' if passed(outcomes) is None and why else '; ' if why else ''}{why}."


def in_two(outcomes: Sequence[Outcome], quoted: Callable[[str], str] = inert, what: str = "fixture") -> tuple[str, str]:
    """The two halves of that sentence: the verdict, and what it hangs on."""
    verdict, found = passed(outcomes), worst(outcomes)
    if verdict is None:
        return _no_verdict(outcomes, quoted, what)
    tally = _tally([outcome.receipt for outcome in outcomes if outcome.receipt is not None], verdict, what)
    if not found:
        return tally, "every gate is off"
    return tally, f"{'tightest' if verdict else 'worst'}: {_told(found, quoted)}"


def told(receipt: CapturedReplayReceipt, *names: str) -> Any:
    """What a receipt's provenance tells under these names, one inside the other; None where it does not tell."""
    found: Any = receipt.provenance
    for name in names:
        found = found.get(name) if hasattr(found, "get") else None
    return found


def odd(receipt: CapturedReplayReceipt) -> list[Finding]:
    """What a receipt says is odd about its fixture or replay."""
    listed = told(receipt, "findings")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return [
        Finding(str(entry.get("code", "")), entry["text"]) for entry in entries if isinstance(entry.get("text"), str)
    ]


def _tally(receipts: Sequence[CapturedReplayReceipt], verdict: bool, what: str) -> str:
    total, failing = len(receipts), sum(not receipt.passed for receipt in receipts)
    if total == 1:
        return f"PASSED at k = {receipts[0].selected_candidate_k}" if verdict else "FAILED: no candidate k passes"
    if verdict:
        return f"PASSED: all {total} {what}s pass"
    return f"FAILED: {failing} of {total} {what}s {'fails' if failing == 1 else 'fail'}"


def _no_verdict(outcomes: Sequence[Outcome], quoted: Callable[[str], str], what: str) -> tuple[str, str]:
    missing = [outcome for outcome in outcomes if outcome.receipt is None]
    if not missing:
        return f"NO VERDICT: there is no {what}", ""
    failing = sum(outcome.receipt is not None and not outcome.receipt.passed for outcome in outcomes)
    others = f"; {failing} {'fails' if failing == 1 else 'fail'}" if failing else ""
    name, error = missing[0].name, missing[0].error
    # An error that names its file is enough.
    which = quoted(error) if name in error else f"{quoted(name)}{f' ({quoted(error)})' if error else ''}"
    if len(missing) == 1:
        return f"NO VERDICT: 1 of {len(outcomes)} {what}s has none", f"{which}{others}"
    return f"NO VERDICT: {len(missing)} of {len(outcomes)} {what}s have none", f"the first {which}{others}"


def _told(found: Worst, quoted: Callable[[str], str]) -> str:
    """The worst gate: whose, where, what it is, and what is asked for."""
    verdict, receipt = found.verdict, found.outcome.receipt
    if verdict is None or receipt is None:
        return quoted(found.outcome.name)
    gate = verdict.gate
    value = words.told_apart(verdict.value, verdict.threshold)
    unit = words.after(gate.metric) if math.isfinite(verdict.value) else ""
    asked_for = "" if verdict.off else f" where {words.asked_for(verdict)} is asked for"
    return (
        f"{gate.label}{words.over_queries(verdict.statistic)} of {quoted(found.outcome.name)} at "
        f"k = {receipt.selected_candidate_k}, {value}{unit}{asked_for}"
    )
