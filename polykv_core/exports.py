"""What a person takes away besides the receipt: tables as CSV, the command line that gives the same receipt, names."""

import csv
import io
import re
import shlex
import zipfile
from collections.abc import Iterable, Mapping, Sequence

from polykv_core.config import THRESHOLDS, CapturedReplayConfig
from polykv_core.gates import GATES, CandidateReplayMetrics, gates_off, measured_candidate
from polykv_core.measurement import CapturedMeasurement, Measurement
from polykv_core.metrics import METRICS
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayReceipt

Receipt = CapturedReplayReceipt | ModelReplayReceipt

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_COUNTS = ("decoded_values_total", "full_decode_value_count")
# Windows keeps these names for devices, whatever their ending.
_DEVICE = re.compile(r"(?i)^(con|prn|aux|nul|com\d|lpt\d)$")
_LONGEST_NAME = 60


def candidates_csv(receipts: Sequence[Receipt]) -> str:
    """Every receipt's candidates in the order listed, a row each, with verdict and blockers, and of what they are.

    All receipts are of one kind; those of a model replay have no model_id, fixture or options.
    """
    head = [*_named(receipts[0]), *_columns(), "passed", "blockers"]
    return _csv(
        head,
        (
            [*_named(receipt).values(), *_numbers(candidate), candidate.passed, "; ".join(candidate.blockers)]
            for receipt in receipts
            for candidate in receipt.candidate_results
        ),
    )


def curve_csv(measurement: Measurement) -> str:
    """Every measured k, a row each: the numbers without a verdict."""
    named = _of(measurement)
    candidates = (measured_candidate(measurement, k) for k in measurement.candidate_ks)
    return _csv([*named, *_columns()], ([*named.values(), *_numbers(candidate)] for candidate in candidates))


def command_line(fixture: str, config: CapturedReplayConfig, receipt: str, replayed: ReplayOptions = REFERENCE) -> str:
    """The shell command that replays a fixture file with this config and these options and writes the same receipt."""
    off = gates_off(config)
    options = _flags({name: repr(getattr(config, name)) for name in THRESHOLDS if name not in off})
    options += [f"--gate-off={gate.option}" for gate in GATES if gate.threshold in off]
    apart = replayed.changed | ({} if config.statistic == "mean" else {"statistic": config.statistic})
    ks = ",".join(map(str, config.candidate_ks))
    return _command("replay", fixture, f"--candidate-ks={ks}", *options, *_flags(apart), f"--receipt={receipt}")


def explain_command_line(fixture: str, candidate_k: int, replayed: ReplayOptions = REFERENCE) -> str:
    """The shell command that takes the replay of a fixture file apart."""
    return _command("explain", fixture, f"--candidate-k={candidate_k}", *_flags(replayed.changed))


def file_stem(model_id: str, passed: bool, digest: str) -> str:
    """A file name without its ending, safe on every system: model id, verdict, and the start of the digest."""
    return f"{plain_name(model_id)}_{'passed' if passed else 'failed'}_{digest.removeprefix('sha256:')[:12]}"


def plain_name(name: str) -> str:
    """A name as a file may have it on every system."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:_LONGEST_NAME].rstrip("-._")
    return plain if plain and not _DEVICE.match(plain.split(".")[0]) else f"fixture-{plain}".rstrip("-")


def receipt_stem(receipt: CapturedReplayReceipt) -> str:
    """A name for files about a receipt, without their ending; another for another fixture or other options."""
    stem = file_stem(receipt.model_id, receipt.passed, receipt.fixture_digest or receipt.digest or "")
    return f"{stem}_with_options" if receipt.departures else stem


def receipts_zip(receipts: Sequence[CapturedReplayReceipt]) -> bytes:
    """A ZIP archive of receipts, in their order; the same bytes for the same receipts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, receipt in enumerate(receipts):
            archive.writestr(zipfile.ZipInfo(f"{number:04}_{receipt_stem(receipt)}.json"), receipt.to_json().encode())
    return file.getvalue()


def _command(name: str, fixture: str, *options: str) -> str:
    path = f"./{fixture}" if fixture.startswith("-") else fixture
    return shlex.join(["polykv", name, path, *options])


def _flags(values: Mapping[str, object]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]


def _named(receipt: Receipt) -> dict[str, str]:
    """What a receipt's numbers are of, and over the queries by which statistic."""
    statistic: dict[str, str] = {"statistic": receipt.config.statistic}
    if isinstance(receipt, ModelReplayReceipt):
        return statistic
    return {
        "model_id": receipt.model_id,
        "fixture_digest": receipt.fixture_digest or "",
        "options": _options(receipt.options),
        **statistic,
    }


def _of(measurement: Measurement) -> dict[str, str]:
    statistic: dict[str, str] = {"statistic": measurement.statistic}
    if not isinstance(measurement, CapturedMeasurement):
        return statistic
    return {
        "model_id": measurement.model_id,
        "fixture_digest": measurement.fixture_digest,
        "options": _options(measurement.options),
        **statistic,
    }


def _options(options: ReplayOptions) -> str:
    """What is not the reference's."""
    return "; ".join(f"{name} {value}" for name, value in options.changed.items())


def _columns() -> list[str]:
    return ["candidate_k", *(metric.name for metric in METRICS), *_COUNTS]


def _numbers(candidate: CandidateReplayMetrics) -> list[int | float]:
    return [getattr(candidate, name) for name in _columns()]


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    """Numbers stay numbers; a text that a spreadsheet would take for a formula gets a quote in front."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value
