"""Two runs of one fixture held against each other: query by query, gate by gate; and gates relative to a baseline."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from polykv_core.checks import shown
from polykv_core.config import CapturedReplayConfig
from polykv_core.errors import CompareError, ConfigError, ReceiptError
from polykv_core.gates import GATES, CandidateReplayMetrics, GateVerdict, verdicts
from polykv_core.measurement import CapturedMeasurement
from polykv_core.metrics import Statistic
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.uncertainty import Interval, paired_interval

Change = Literal["regressed", "fixed", "same"]

# What may differ where somebody says that just this is to be compared.
ACROSS = ("attention_scale", "query_coding", "pool_codec", "shell_codec", "statistic")


@dataclass(frozen=True)
class Moved:
    """One gate in two runs, at a k of each.

    `interval` is the 95 % interval of the difference, paired by query; None where there is none to give.
    """

    k_before: int
    k_after: int
    before: GateVerdict
    after: GateVerdict
    interval: Interval | None

    @property
    def difference(self) -> float:
        """The value after less the one before, as the gate looks at them."""
        return self.after.value - self.before.value

    @property
    def differs(self) -> bool:
        """Whether the value or what became of the gate is another one."""
        return self.difference != 0.0 or self.change != "same"

    @property
    def better(self) -> bool | None:
        """Whether the value moved to the better side; None if it stayed."""
        if self.difference == 0.0:
            return None
        return (self.difference > 0.0) == (self.after.gate.side == "min")

    @property
    def clear(self) -> bool:
        """Whether the interval leaves no doubt about the side: it does not hold 0."""
        return self.interval is not None and not self.interval.low <= 0.0 <= self.interval.high

    @property
    def change(self) -> Change:
        """What became of the gate: regressed if it passed before and fails now, fixed the other way round."""
        return _change(self.before.passed, self.after.passed)


@dataclass(frozen=True)
class Comparison:
    """A run against another one that came before: at the selected k of each, and at each other k that both list."""

    before: CapturedReplayReceipt
    after: CapturedReplayReceipt
    selected: tuple[Moved, ...]
    at_ks: tuple[Moved, ...]

    @property
    def change(self) -> Change:
        """What became of the verdict."""
        return _change(self.before.passed, self.after.passed)


def compare(before: CapturedReplayReceipt, after: CapturedReplayReceipt, across: Collection[str] = ()) -> Comparison:
    """Compare two runs of the same fixture; `across` names fields of ACROSS that differ on purpose.

    Raises CompareError naming the field that differs where the runs are not comparable, and ReceiptError for a receipt
    that does not hold each query's numbers.
    """
    measured = (before.measurement, after.measurement)
    check_comparable(*measured, across)
    check_statistic(before.config.statistic, after.config.statistic, across)
    selected = (before.selected_candidate_k, after.selected_candidate_k)
    shared = [k for k in dict.fromkeys(before.config.candidate_ks) if k in after.config.candidate_ks]
    ks = [k for k in shared if selected != (k, k)]
    return Comparison(
        before,
        after,
        tuple(_moved(before, after, measured, *selected)),
        tuple(moved for k in ks for moved in _moved(before, after, measured, k, k)),
    )


def check_comparable(before: CapturedMeasurement, after: CapturedMeasurement, across: Collection[str] = ()) -> None:
    """Raise CompareError, naming the field, unless two measurements are of the same fixture with the same options."""
    told = [
        {"digest": m.fixture.digest, "rows": m.queries.rows.tolist(), **m.options.to_dict()} for m in (before, after)
    ]
    names = {"digest": "the fixture's digest", "rows": "the rows of its queries"}
    for name, value in told[0].items():
        if value != told[1][name] and not (name in ACROSS and name in across):
            raise CompareError(_refusal(names.get(name, name), value, told[1][name], name in ACROSS))


def check_statistic(before: Statistic, after: Statistic, across: Collection[str] = ()) -> None:
    """Raise CompareError if gates are held over the queries in two ways."""
    if before != after and "statistic" not in across:
        raise CompareError(_refusal("statistic", before, after, True))


def relative_config(
    config: CapturedReplayConfig, baseline: CapturedReplayReceipt, worse_by: Mapping[str, float]
) -> CapturedReplayConfig:
    """A config whose gates allow no more than so many per cent worse than a baseline was at its selected k.

    `worse_by` has per cents by the names of thresholds; the other gates stay as they are. Raises CompareError where
    such a gate would be none.
    """
    moved = {}
    for gate in GATES:
        if gate.threshold in worse_by:
            held = gate.gated(getattr(baseline.metrics, gate.metric))
            room = abs(held) * worse_by[gate.threshold] / 100.0
            moved[gate.threshold] = held - room if gate.side == "min" else held + room
            if moved[gate.threshold] == gate.off:
                raise CompareError(
                    f"a gate on {gate.label} {worse_by[gate.threshold]:g} % worse than the baseline's {held:g} lets "
                    "everything pass; give that gate a number"
                )
    return replace(config, **moved)


def _moved(
    before: CapturedReplayReceipt,
    after: CapturedReplayReceipt,
    measured: tuple[CapturedMeasurement, CapturedMeasurement],
    k_before: int,
    k_after: int,
) -> Iterator[Moved]:
    """Every gate at a k of each run."""
    try:
        queries = [m.queries.at(m.index_of(k)) for m, k in zip(measured, (k_before, k_after), strict=True)]
    except ConfigError as bad:
        raise ReceiptError(f"a receipt does not hold each query's numbers: {bad}") from None
    statistic = after.config.statistic
    same = before.config.statistic == statistic
    judged = (verdicts(_candidate(before, k_before), before.config), verdicts(_candidate(after, k_after), after.config))
    for one, other in zip(*judged, strict=True):
        interval = paired_interval(queries[0], queries[1], one.gate, statistic) if same else None
        yield Moved(k_before, k_after, one, other, interval)


def _candidate(receipt: CapturedReplayReceipt, k: int) -> CandidateReplayMetrics:
    for candidate in receipt.candidate_results:
        if candidate.candidate_k == k:
            return candidate
    raise ReceiptError(f"a receipt lists the candidate k {k} and has no result for it; it was cut off")


def _change(before: bool, after: bool) -> Change:
    if before == after:
        return "same"
    return "fixed" if after else "regressed"


def _refusal(name: str, before: object, after: object, may_differ: bool) -> str:
    way_out = (
        f"; to compare just that, name it as what differs on purpose (--across {name})"
        if may_differ
        else "; only runs of the same fixture and queries can be compared"
    )
    return f"the runs are not comparable: {name} is {_told(before)} in one and {_told(after)} in the other{way_out}"


def _told(value: object) -> str:
    return value if isinstance(value, str) else shown(value)
