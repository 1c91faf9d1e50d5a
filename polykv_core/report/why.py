"""What a captured verdict rests on, in sentences."""

from collections.abc import Iterator

from polykv_core.gates import verdicts
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.report import words
from polykv_core.report.outcome import gates_at_selected, selected, worst_gate
from polykv_core.report.sweep import Sweep
from polykv_core.tuning import passing


def headline(receipt: CapturedReplayReceipt) -> str:
    """The verdict in a few words."""
    return f"PASSED at k = {receipt.selected_candidate_k}" if receipt.passed else "FAILED at every candidate k"


def reasons_for(sweep: Sweep) -> list[str]:
    """Why it passes or fails, before its blockers."""
    receipt, k = sweep.receipt, sweep.receipt.selected_candidate_k
    if receipt.passed:
        first = f"k = {k} is the first candidate in the list that passes all gates."
        return [" ".join([first, _saving(receipt), *_order(receipt), *_tightest(receipt)]), *_of_all(sweep)]
    last = f"No candidate passes all gates. The receipt selects the last in the list, k = {k}, with its blockers:"
    return [last]


def blockers(receipt: CapturedReplayReceipt) -> list[str]:
    """A sentence for each gate that fails at the selected k."""
    return [words.blocker(verdict) for verdict in gates_at_selected(receipt) if not verdict.passed]


def outlook(sweep: Sweep) -> list[str]:
    """For a failed replay, whether another k would do."""
    receipt = sweep.receipt
    if receipt.passed:
        return []
    by_gate = zip(*(verdicts(candidate, receipt.config) for candidate in receipt.candidate_results), strict=True)
    hopeless = [gate[0].gate.label for gate in by_gate if not any(verdict.passed for verdict in gate)]
    said = "Every gate passes at some candidate, but no candidate passes them all."
    if hopeless:
        fail = "fails" if len(hopeless) == 1 else "fail"
        said = f"At every candidate {words.listed(hopeless)} {fail}: no other k of the list helps there."
    return [said, *_of_all(sweep)]


def apart(receipt: CapturedReplayReceipt) -> Iterator[str]:
    """Which gates are off, and what keeps the verdict from being the reference's."""
    off = [verdict.gate.label for verdict in gates_at_selected(receipt) if verdict.off]
    if off:
        yield f"{words.listed(off)} {'is' if len(off) == 1 else 'are'} off and cannot fail."
    if receipt.departures:
        yield f"Not as the reference replays: {'; '.join(receipt.departures)}."


def _saving(receipt: CapturedReplayReceipt) -> str:
    metrics = selected(receipt)
    if metrics.decoded_values_total == metrics.full_decode_value_count:
        return f"It decodes all {metrics.full_decode_value_count} value rows: nothing is saved."
    fewer = words.with_unit(metrics.decode_reduction, "decode_reduction", digits=4)
    return f"It decodes {metrics.decoded_values_total} of {metrics.full_decode_value_count} value rows, {fewer} fewer."


def _order(receipt: CapturedReplayReceipt) -> Iterator[str]:
    k = receipt.selected_candidate_k
    smaller = [c.candidate_k for c in receipt.candidate_results if c.passed and c.candidate_k < k]
    if smaller:
        yield f"The order decided: {k} is listed before {min(smaller)}, which passes as well."


def _tightest(receipt: CapturedReplayReceipt) -> Iterator[str]:
    verdict = worst_gate(receipt)
    if verdict:
        yield f"The tightest gate is {verdict.gate.label}, with {words.margin(verdict)}{words.share(verdict)}."


def _of_all(sweep: Sweep) -> Iterator[str]:
    """Which of all ks pass, in the list or not; only a curve that leaves none out can say."""
    if not sweep.every_k:
        return
    every, smallest = f"Of all k from 1 to {sweep.most_rows}", sweep.smallest
    if smallest is None:
        yield f"{every}, none passes."
        return
    found = f"{every}, the smallest that passes is k = {smallest}"
    passes = passing(sweep.curve, sweep.receipt.config).tolist()
    failing = [k for k, good in zip(sweep.ks, passes, strict=True) if k > smallest and not good]
    if not failing:
        yield f"{found}; every larger one passes too." if smallest < sweep.most_rows else f"{found}."
        return
    fail = "fails" if len(failing) == 1 else "fail"
    yield (
        f"{found}. Larger is not always better: of the {sweep.most_rows - smallest} larger ones {len(failing)} {fail}, "
        f"the first at k = {failing[0]}."
    )
