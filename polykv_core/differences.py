"""Two JSON records of numbers held against each other, field by field, and how far apart counts as the same."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from polykv_core.checks import shown
from polykv_core.provenance import SEAL

# As far as two processors or the Rust crate may lie apart, times the number's size; see docs/numbers.md.
_TOLERANCE = {"output_cosine_mean": 1e-6, "output_mse_mean": 1e-6, "cosine": 1e-6, "mse": 1e-6}
_OTHER_TOLERANCE, _DERIVED_TOLERANCE = 5e-6, 1e-4
_DERIVED = ("provenance, statistics", "provenance, intervals")
# Texts that tell rounded numbers.
_SENTENCES = ("blockers", "candidate_results", "provenance, findings")
_TOLD_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?", re.ASCII)
_TOLD_TOLERANCE = 2e-3
# Not what a replay gives: each is looked at by itself.
_APART = {"made_with", "file_digest", SEAL}


@dataclass(frozen=True)
class Difference:
    """A field that a receipt states otherwise than the replay finds; `within` tolerance it is the same number."""

    place: str
    stated: Any
    found: Any
    within: bool = False

    @property
    def off_by(self) -> float | None:
        """How far two numbers are apart; None where not both are numbers."""
        if _is_number(self.stated) and _is_number(self.found):
            return _distance(self.stated, self.found)
        return None

    @property
    def text(self) -> str:
        """The difference in words."""
        off = "" if self.off_by is None else f", off by {self.off_by:.3g}"
        return f"{self.place} is {shown(self.stated)}; replayed it is {shown(self.found)}{off}"


def differences(stated: Any, found: Any, place: str, perplexity: float = 1.0) -> Iterator[Difference]:
    """Every field of the replay that the receipt states otherwise, in the replay's order.

    `perplexity` is the size of the perplexities that a difference of them is made of, as replayed.
    """
    if isinstance(found, dict) and isinstance(stated, Mapping):
        perplexity = _perplexity(found, place) or perplexity
        for name, inner in found.items():
            # The Rust crate tells nothing of where its receipts come from; what is sealed tells all of it.
            less = not place or (place == "provenance" and SEAL not in stated)
            if name in _APART or (less and name not in stated):
                continue
            yield from differences(stated.get(name), inner, f"{place}, {name}" if place else name, perplexity)
    elif isinstance(found, list) and isinstance(stated, list) and len(found) == len(stated):
        for index, (one, other) in enumerate(zip(stated, found, strict=True)):
            yield from differences(one, other, f"{place}[{index}]", perplexity)
    elif type(stated) is not type(found) and not (_is_number(stated) and _is_number(found)):
        yield Difference(place, stated, found)
    elif stated != found:
        yield Difference(place, stated, found, _within(stated, found, place, perplexity))


def unknown_fields(stated: Any, found: Any, place: str) -> Iterator[str]:
    """The places of what a receipt states and no replay gives."""
    if isinstance(found, dict) and isinstance(stated, Mapping):
        for name, inner in stated.items():
            where = f"{place}, {name}" if place else name
            if name not in found:
                yield where
            else:
                yield from unknown_fields(inner, found[name], where)
    elif isinstance(found, list) and isinstance(stated, list):
        for index, (one, other) in enumerate(zip(stated, found, strict=False)):
            yield from unknown_fields(one, other, f"{place}[{index}]")


def _perplexity(found: Mapping[str, Any], place: str) -> float:
    """The larger of the two perplexities that a record holds; 0 where it holds none."""
    if place == "":
        return _perplexity(found["metrics"], "metrics")  # the selected candidate's, which statistics are about
    return max(float(found.get(name, 0.0)) for name in ("ppl_proxy_exact", "ppl_proxy_compressed"))


def _within(stated: Any, found: Any, place: str, perplexity: float) -> bool:
    if isinstance(found, str):
        return place.startswith(_SENTENCES) and _reads_alike(stated, found)
    if not isinstance(found, float):
        return False  # a count, or a flag
    name = re.sub(r"\[\d+\]$", "", place).rpartition(", ")[2]
    tolerance = _DERIVED_TOLERANCE if place.startswith(_DERIVED) else _TOLERANCE.get(name, _OTHER_TOLERANCE)
    # A ratio of perplexities does not grow with them.
    size = max(1.0, abs(found), perplexity if "ppl" in place and "ratio" not in place else 0.0)
    return _distance(stated, found) <= tolerance * size


def _reads_alike(stated: str, found: str) -> bool:
    """Whether two texts differ only in the last digits of the numbers in them."""
    if _TOLD_NUMBER.sub("#", stated) != _TOLD_NUMBER.sub("#", found):
        return False
    pairs = zip(_TOLD_NUMBER.findall(stated), _TOLD_NUMBER.findall(found), strict=True)
    return all(math.isclose(float(one), float(other), rel_tol=_TOLD_TOLERANCE, abs_tol=1.01e-4) for one, other in pairs)


def _distance(stated: int | float, found: int | float) -> float:
    """How far two numbers are apart; JSON has whole numbers that no float holds."""
    try:
        return float(abs(stated - found))
    except OverflowError:
        return math.inf


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
