"""What is known of a head once it is done, and its form as bytes: no threshold is in it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from polykv_core.errors import PolyKvError, SweepError
from polykv_core.footprint import Footprint, TierFootprint
from polykv_core.gates import CandidateReplayMetrics
from polykv_core.kept import unpacked
from polykv_core.measurement import CapturedMeasurement
from polykv_core.sweep.items import SweepItem
from polykv_core.sweep.losses import StepLosses

_DIGEST_BYTES = 32


@dataclass(frozen=True, eq=False)
class HeadResult:
    """One head, replayed at every candidate k: its measurement, the losses of each step alone, and its bytes.

    Where `error` says why there is none of that, the rest is empty. `seconds` is how long the work took when it was
    done; `kept` says that it was done in an earlier sweep.
    """

    item: SweepItem
    packed_measurement: bytes = b""
    losses: tuple[StepLosses, ...] = ()
    footprint: Footprint | None = None
    seconds: float = 0.0
    error: str | None = None
    kept: bool = False

    @cached_property
    def measurement(self) -> CapturedMeasurement | None:
        """What was measured; None where there is an error. Raises ReceiptError for bytes that are none."""
        return None if self.error is not None else unpacked(self.packed_measurement)

    @property
    def fixture_digest(self) -> str | None:
        """The digest of the fixture's content."""
        return None if self.measurement is None else self.measurement.fixture_digest

    def losses_at(self, k: int) -> StepLosses | None:
        """The losses at a measured k; beyond all rows, all ks are the same."""
        if self.measurement is None:
            return None
        return self.losses[self.measurement.index_of(k)]

    def to_bytes(self) -> bytes:
        """All but the item: a digest of what follows, a line of JSON, the measurement."""
        header = {
            "seconds": self.seconds,
            "footprint": None if self.footprint is None else asdict(self.footprint),
            "losses": [asdict(losses) for losses in self.losses],
            "error": self.error,
        }
        content = json.dumps(header).encode() + b"\n" + self.packed_measurement
        return hashlib.sha256(content).digest() + content

    @classmethod
    def from_bytes(cls, data: bytes, item: SweepItem) -> "HeadResult":
        """The result of an item again. Raises SweepError for bytes that are none."""
        digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            raise SweepError(f"the kept result of {item.name} is damaged; it is to be done again")
        header, _, measurement = content.partition(b"\n")
        try:
            read = cls(item, measurement, **_read(json.loads(header)))
            ks = None if read.measurement is None else read.measurement.candidate_ks
        except (PolyKvError, ValueError, TypeError, LookupError, AttributeError) as bad:
            raise SweepError(f"the kept result of {item.name} cannot be read ({bad}); it is to be done again") from None
        if ks is not None and ks != tuple(losses.candidate_k for losses in read.losses):
            raise SweepError(f"the kept result of {item.name} has losses of other ks than it measured")
        return read


def _read(header: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a result from those of its JSON."""
    tiers = header["footprint"]
    return {
        "seconds": float(header["seconds"]),
        "error": header["error"],
        "footprint": tiers
        and Footprint(tiers["head_dim"], TierFootprint(**tiers["pool"]), TierFootprint(**tiers["shell"])),
        "losses": tuple(
            StepLosses(losses["candidate_k"], {step: _candidate(found) for step, found in losses["metrics"].items()})
            for losses in header["losses"]
        ),
    }


def _candidate(fields: Mapping[str, Any]) -> CandidateReplayMetrics:
    return CandidateReplayMetrics(**{**fields, "blockers": tuple(fields["blockers"])})
