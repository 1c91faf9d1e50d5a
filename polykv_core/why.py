"""What a verdict rests on, in sentences. Where a k is named, `at` writes it, for pages that set it off."""

from collections.abc import Callable

from polykv_core import judged, words
from polykv_core.gates import verdicts
from polykv_core.judged import Receipt
from polykv_core.k_curve import KCurve

At = Callable[[int], str]


def plainly(k: int) -> str:
    """A k in text."""
    return f"k = {k}"


def headline(receipt: Receipt) -> str:
    """The verdict in a few words."""
    return f"PASSED at k = {receipt.selected_candidate_k}" if receipt.passed else "FAILED at every candidate k"


def reason(receipt: Receipt, at: At = plainly) -> str:
    """Why it passes, or what the blockers that follow are of."""
    k = at(receipt.selected_candidate_k)
    if not receipt.passed:
        return f"No candidate passes all gates. The receipt selects the last in the list, {k}, with its blockers:"
    first = f"{k} is the first candidate in the list that passes all gates."
    return " ".join(filter(None, [first, _saving(receipt), _order(receipt), _tightest(receipt)]))


def blockers(receipt: Receipt) -> list[str]:
    """A sentence for each gate that fails at the selected k."""
    return [words.blocker(verdict) for verdict in judged.blockers(receipt)]


def outlook(receipt: Receipt) -> str:
    """For a failed replay, whether another k of the list would do for some of the gates."""
    by_gate = zip(*(verdicts(candidate, receipt.config) for candidate in receipt.candidate_results), strict=True)
    hopeless = [gate[0].gate.label for gate in by_gate if not any(verdict.passed for verdict in gate)]
    if not hopeless:
        return "Every gate passes at some candidate, but no candidate passes them all."
    fail = "fails" if len(hopeless) == 1 else "fail"
    return f"At every candidate {words.listed(hopeless)} {fail}: no other k of the list helps there."


def of_all(k_curve: KCurve, at: At = plainly) -> list[str]:
    """Which of all ks pass, in the list or not, and a warning if larger ones fail.

    Only a curve that leaves none out can say; of another there are no sentences.
    """
    if not k_curve.every_k:
        return []
    every, smallest = f"Of all k from 1 to {k_curve.most_rows}", k_curve.smallest
    if smallest is None:
        return [f"{every}, none passes."]
    found = f"{every}, the smallest that passes is {at(smallest)}"
    failing = [k for k, passes in zip(k_curve.ks, k_curve.passes.tolist(), strict=True) if k > smallest and not passes]
    if not failing:
        return [f"{found}; every larger one passes too." if smallest < k_curve.most_rows else f"{found}."]
    fail = "fails" if len(failing) == 1 else "fail"
    of_larger = f"of the {k_curve.most_rows - smallest} larger ones {len(failing)} {fail}"
    return [f"{found}.", f"Larger is not always better: {of_larger}, the first at {plainly(failing[0])}."]


def off(receipt: Receipt) -> str:
    """Which gates are off, as a clause; empty if none is."""
    labels = judged.off(receipt)
    return f"{words.listed(labels)} {'is' if len(labels) == 1 else 'are'} off and cannot fail" if labels else ""


def _saving(receipt: Receipt) -> str:
    metrics = receipt.metrics
    if metrics.decoded_values_total == metrics.full_decode_value_count:
        return f"It decodes all {metrics.full_decode_value_count} value rows: nothing is saved."
    fewer = words.with_unit(metrics.decode_reduction, "decode_reduction", digits=4)
    return f"It decodes {metrics.decoded_values_total} of {metrics.full_decode_value_count} value rows, {fewer} fewer."


def _order(receipt: Receipt) -> str:
    """Where a smaller k passes as well but stands later in the list, a sentence that says so."""
    k = receipt.selected_candidate_k
    smaller = [c.candidate_k for c in receipt.candidate_results if c.passed and c.candidate_k < k]
    return f"The order decided: {k} is listed before {min(smaller)}, which passes as well." if smaller else ""


def _tightest(receipt: Receipt) -> str:
    """The gate with the least to spare; empty if all are off."""
    verdict = judged.tightest(receipt)
    if not verdict:
        return ""
    return f"The tightest gate is {verdict.gate.label}, with {words.margin(verdict)}{words.share(verdict)}."
