"""A measurement as bytes, without the fixture: enough to judge it again, at other gates, years later."""

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from polykv_core.arrays import Array, Int64
from polykv_core.errors import ReceiptError
from polykv_core.measurement import CapturedMeasurement
from polykv_core.metrics import QueryMetrics
from polykv_core.provenance import facts_in
from polykv_core.receipt import CapturedReplayReceipt

_HEADER = "header"
# What NumPy, zipfile and zlib raise for bytes that are none; a RuntimeError where a flag says encrypted.
_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    OverflowError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
# Numbers of one array. Beyond, ks are thinned: a curve over thousands of ks needs no more.
_MOST_NUMBERS = 2**16


def packed(measurement: CapturedMeasurement, candidate_ks: Iterable[int]) -> bytes:
    """The measurement's arrays (float64) and facts in a compressed .npz without pickle.

    Of very many numbers, ks are left out evenly over the logarithm of k, but never a candidate, so that it stays below
    a few MiB. Raises ConfigError if a candidate was not measured.
    """
    kept = _worth_keeping(measurement, candidate_ks)
    queries = measurement.queries.take(kept)
    header = {
        "model_id": measurement.model_id,
        "candidate_ks": [measurement.candidate_ks[index] for index in kept.tolist()],
        "fixture": asdict(measurement.fixture),
        "findings": [asdict(finding) for finding in measurement.findings],
        "options": measurement.options.to_dict(),
        "made_with": asdict(measurement.made_with),
    }
    arrays: dict[str, Any] = {field.name: getattr(queries, field.name) for field in fields(queries)}
    arrays["nll_exact"] = arrays["nll_exact"][:, :1]
    file = io.BytesIO()
    arrays[_HEADER] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def unpacked(data: bytes) -> CapturedMeasurement:
    """The measurement again, to the last bit. Raises ReceiptError for bytes that are none."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            header = json.loads(arrays[_HEADER].tobytes())
            columns = {field.name: arrays[field.name] for field in fields(QueryMetrics)}
        ks = tuple(int(k) for k in header["candidate_ks"])
        _check_columns(columns, len(ks))
        if min(ks) < 1 or len(set(ks)) < len(ks) or columns["rows"].min() < 1 or columns["decoded_values"].min() < 0:
            raise ValueError("it holds counts that no replay has")
        return CapturedMeasurement(ks, QueryMetrics(**columns), str(header["model_id"]), **facts_in(header))
    except _DAMAGE as bad:
        reason = " ".join(str(bad).split())
        raise ReceiptError(f"the kept measurement is damaged ({reason}); its receipt is still there") from None


def measured(receipt: CapturedReplayReceipt, kept: bytes | None) -> CapturedMeasurement:
    """What stands behind a kept receipt: all that was kept, else what the receipt tells. Raises ReceiptError."""
    return receipt.measurement if kept is None else unpacked(kept)


def _worth_keeping(measurement: CapturedMeasurement, candidate_ks: Iterable[int]) -> Int64[Array, " m"]:
    count = len(measurement.candidate_ks)
    most = max(2, _MOST_NUMBERS // measurement.query_count)
    if count <= most:
        return np.arange(count)
    spread = np.round(np.geomspace(1, count, most)).astype(np.int64) - 1
    return np.union1d(spread, [measurement.index_of(k) for k in candidate_ks])


def _check_columns(columns: Mapping[str, Any], ks: int) -> None:
    count = columns["rows"].size
    shapes = {"rows": (count,), "nll_exact": (count, 1)}
    dtypes = {"rows": np.int64, "decoded_values": np.int64, "top1_same": np.bool_}
    for name, column in columns.items():
        found = (column.dtype, column.shape)
        expected = (np.dtype(dtypes.get(name, np.float64)), shapes.get(name, (count, ks)))
        if found != expected or not (count and ks):
            raise ValueError(f"{name} holds {found}, expected {expected}")
