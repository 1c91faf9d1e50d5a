"""Gates of a replay that are relative to an earlier run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from polykv_core.commands.stores import referred
from polykv_core.compare import check_comparable, check_statistic, relative_config
from polykv_core.config import CapturedReplayConfig
from polykv_core.gates import GATES
from polykv_core.measurement import CapturedMeasurement


@dataclass(frozen=True)
class Baseline:
    """An earlier run as it was named, how many per cent worse each gate may be (by thresholds), and what may differ."""

    name: str
    worse_by: dict[str, float]
    across: tuple[str, ...]
    store: str | None

    def applied(self, config: CapturedReplayConfig, measurement: CapturedMeasurement) -> CapturedReplayConfig:
        """The config with the relative gates for this measurement. Raises CompareError for another fixture's run."""
        digest = measurement.fixture_digest
        held = referred(self.name, self.store, lambda history: history.baseline(digest))
        check_comparable(held.measurement, measurement, self.across)
        check_statistic(held.config.statistic, config.statistic, self.across)
        return relative_config(config, held, self.worse_by)

    @property
    def told(self) -> str:
        """Which gates are relative to which run."""
        gates = (f"{name.replace('_', '-')} {percent:g} %" for name, percent in self.worse_by.items())
        return f"at most {', '.join(gates)} worse than in {self.name}"


def baseline_given(given: dict[str, Any], store: str | None) -> Baseline | None:
    """The baseline among what was given, which is taken out of it; None without one. Raises click.UsageError."""
    name, texts, across = (given.pop(option) for option in ("baseline", "worse_by", "across"))
    worse_by = _per_cents(texts, given)
    if bool(worse_by) != (name is not None):
        raise click.UsageError("--baseline and --worse-by go together; give both or none")
    return None if name is None else Baseline(name, worse_by, across, store)


def _per_cents(texts: Sequence[str], given: dict[str, Any]) -> dict[str, float]:
    """The relative gates by their thresholds' names; none may be given twice, as a number, or off as well."""
    thresholds = {gate.option: gate.threshold for gate in GATES}
    found: dict[str, float] = {}
    for text in texts:
        name, _, percent = text.partition("=")
        try:
            threshold, number = thresholds[name], float(percent.rstrip("% "))
        except (KeyError, ValueError):
            known = ", ".join(thresholds)
            raise click.UsageError(f"--worse-by {text!r}; expected GATE=PERCENT with one of {known}") from None
        if not 0.0 <= number < float("inf"):
            raise click.UsageError(f"--worse-by {text!r}; a per cent is a number of at least 0")
        if threshold in found:
            raise click.UsageError(f"--worse-by {name} is given twice; give it once")
        if given[threshold] is not None or name in given["gate_off"]:
            raise click.UsageError(f"--{name} and --worse-by {name} contradict each other; give one of them")
        found[threshold] = number
    return found
