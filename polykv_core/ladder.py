"""The loss ladder in words: what each stage of a replay is, and what it adds to the loss in one metric."""

from collections.abc import Sequence

from polykv_core import words
from polykv_core.explain import Stage

STAGE_WORDS = {
    "projection": ("Captured output", "the captured output through the projection: the floor of any cache"),
    "recomputed": ("Exact attention", "exact keys and values, every row, the replay's scale"),
    "coded_keys": ("Coded keys", "compressed scores, exact values, every row"),
    "coded_values": ("Coded values", "compressed scores and values, every row"),
    "selected": ("Top k", "only the k best rows are read: this is the replay"),
    "keys": ("Coded keys only", "compressed scores, all else exact"),
    "values": ("Coded values only", "compressed values, all else exact"),
    "selection": ("Top k only", "the same k rows, all else exact"),
    "joint": ("All three", "this is the replay"),
    "fitted": ("Fitted scale", "exact attention over every row, at the scale that fits the capture"),
    "random": ("Random rows", "exact attention over k rows drawn at random, mean of 8 draws"),
    "recency": ("Last rows", "exact attention over the last k rows"),
}
_ROUNDING = 1e-7  # logits are float32


def loss(value: float) -> str:
    """A loss in few digits; what only rounding leaves is none."""
    return "0" if abs(value) < _ROUNDING else words.number(value, 3)


def in_words(stages: Sequence[Stage], metric: str) -> str:
    """The ladder in one metric for those who do not see its bars."""
    steps = "; ".join(f"{STAGE_WORDS[stage.name][0]} adds {loss(stage.added[metric])}" for stage in stages)
    label = words.METRIC_BY_NAME[metric].label
    return f"Loss in {label}, lower is better: {steps}. In all {loss(stages[-1].loss[metric])}."
