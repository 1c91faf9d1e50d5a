"""What a receipt says of its candidates: which is selected, and how every gate stands there."""

from polykv_core.gates import CandidateReplayMetrics, GateVerdict, verdicts
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayReceipt

Receipt = CapturedReplayReceipt | ModelReplayReceipt


def selected(receipt: Receipt) -> CandidateReplayMetrics:
    """The candidate that a receipt selects."""
    return next(c for c in receipt.candidate_results if c.candidate_k == receipt.selected_candidate_k)


def gates_at_selected(receipt: Receipt) -> tuple[GateVerdict, ...]:
    """Each gate's verdict on the selected candidate."""
    return verdicts(selected(receipt), receipt.config)


def blockers(receipt: Receipt) -> list[GateVerdict]:
    """The gates that fail at the selected k."""
    return [verdict for verdict in gates_at_selected(receipt) if not verdict.passed]


def off(receipt: Receipt) -> list[str]:
    """The labels of the gates that are switched off."""
    return [verdict.gate.label for verdict in gates_at_selected(receipt) if verdict.off]


def tightest(receipt: Receipt) -> GateVerdict | None:
    """The gate with the least to spare at the selected k, by what it asks for; None where every gate is off.

    One that is off still fails what is not finite, and then has its say.
    """
    with_a_say = [verdict for verdict in gates_at_selected(receipt) if not (verdict.off and verdict.passed)]
    return min(with_a_say, key=lambda verdict: verdict.share, default=None)


def distinct(receipt: Receipt) -> list[CandidateReplayMetrics]:
    """The candidates in the order listed, each k once."""
    by_k: dict[int, CandidateReplayMetrics] = {}
    for candidate in receipt.candidate_results:
        by_k.setdefault(candidate.candidate_k, candidate)
    return list(by_k.values())
