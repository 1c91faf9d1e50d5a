"""A kept measurement: the same to the last bit, judged again without the fixture, and damaged bytes are seen."""

import io
import json
import pickle
import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import encoded, fixture_fields, refused_with

from polykv_core import (
    CapturedMeasurement,
    CapturedReplayConfig,
    ConfigError,
    ReceiptError,
    ReplayOptions,
    every_k,
    judge,
    load_fixture,
    measure,
    run_captured_model_replay,
)
from polykv_core import kept as kept_module
from polykv_core.kept import packed, unpacked

FIXTURE = load_fixture(encoded(fixture_fields(rows=12, shared=7, queries=3) | {"model_id": "Kopf \u00fc \U0001f600"}))
CONFIG = CapturedReplayConfig((3, 8, 99))
MEASUREMENT = measure(FIXTURE, every_k(FIXTURE))
KEPT = packed(MEASUREMENT, CONFIG.candidate_ks)


def same(one, other):
    """Whether two measurements are the same to the last bit."""
    facts = ("candidate_ks", "model_id", "fixture", "findings", "options", "made_with")
    return all(getattr(one, name) == getattr(other, name) for name in facts) and all(
        getattr(one.queries, field.name).dtype == getattr(other.queries, field.name).dtype
        and getattr(one.queries, field.name).tobytes() == getattr(other.queries, field.name).tobytes()
        for field in fields(one.queries)
    )


@pytest.mark.parametrize(
    "options", [{}, {"attention_scale": 0.1 + 0.2, "query_coding": "exact", "pool_codec": "fib_k4_n64"}]
)
def test_a_measurement_comes_back_to_the_last_bit(options):
    """Every number of every query at every k, and what is known of the fixture."""
    measurement = measure(FIXTURE, every_k(FIXTURE), options=ReplayOptions(**options))
    again = unpacked(packed(measurement, CONFIG.candidate_ks))
    assert isinstance(again, CapturedMeasurement)
    assert same(again, measurement)


def test_numbers_that_are_not_finite_come_back_too():
    """They fail their gates then as they did before."""
    kl = MEASUREMENT.queries.kl.copy()
    kl[0, :3] = [np.nan, np.inf, -0.0]
    odd = replace(MEASUREMENT, queries=replace(MEASUREMENT.queries, kl=kl))
    assert same(unpacked(packed(odd, (3,))), odd)


@pytest.mark.parametrize("statistic", ["mean", "p95", "worst"])
def test_judged_again_it_gives_the_same_receipt(statistic):
    """To the last byte, its provenance included."""
    config = replace(CONFIG, statistic=statistic)
    assert judge(unpacked(KEPT), config).to_json() == run_captured_model_replay(FIXTURE, config).to_json()


@given(
    ks=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    gates=st.tuples(*[st.floats(-2.0, 2.0)] * 5),
    statistic=st.sampled_from(["mean", "p95", "worst"]),
)
@settings(max_examples=20)
def test_judged_at_other_gates_it_gives_what_a_new_replay_gives(ks, gates, statistic):
    """Other thresholds, ks and statistic: nobody needs the fixture again."""
    config = CapturedReplayConfig(tuple(ks), *gates, statistic)
    assert judge(unpacked(KEPT), config).to_json() == run_captured_model_replay(FIXTURE, config).to_json()


def test_the_same_measurement_makes_the_same_numbers_in_few_bytes():
    """Packed again, what was unpacked is the same; and it is small."""
    assert same(unpacked(packed(unpacked(KEPT), CONFIG.candidate_ks)), MEASUREMENT)
    assert len(KEPT) < 8000


@pytest.mark.parametrize("most", [3, 10, 24])
def test_of_very_many_ks_some_are_left_out_but_no_candidate(monkeypatch, most):
    """Evenly over the logarithm of k, the smallest and the largest stay; a receipt of the candidates is the same."""
    monkeypatch.setattr(kept_module, "_MOST_NUMBERS", most)
    config = replace(CONFIG, candidate_ks=(11, 6, 99))
    again = unpacked(packed(MEASUREMENT, config.candidate_ks))
    assert len(again.candidate_ks) < len(MEASUREMENT.candidate_ks)
    assert {1, 6, 11, 12} <= set(again.candidate_ks)
    assert list(again.candidate_ks) == sorted(set(again.candidate_ks))
    assert judge(again, config).to_json() == judge(MEASUREMENT, config).to_json()
    left_out = next(k for k in MEASUREMENT.candidate_ks if k not in again.candidate_ks)
    with pytest.raises(ConfigError, match=f"^candidate k {left_out} was not measured; "):
        judge(again, replace(config, candidate_ks=(left_out,)))


def test_a_candidate_that_was_not_measured_is_refused(monkeypatch):
    """It cannot be kept."""
    monkeypatch.setattr(kept_module, "_MOST_NUMBERS", 3)
    with pytest.raises(ConfigError, match=r"^candidate k 4 was not measured"):
        packed(measure(FIXTURE, (1, 2, 3, 12)), (4,))


# Damaged bytes


def looked_at(data):
    """The measurement in some bytes, which may not be one; nothing but a ReceiptError says so."""
    found = []
    refused = refused_with(ReceiptError, lambda: found.append(unpacked(data)))
    assert refused is None or refused.isprintable()
    return found[0] if found else None


@given(length=st.integers(0, len(KEPT) - 1))
def test_bytes_that_were_cut_off_are_refused(length):
    """Wherever; and it is said that the receipt is still there."""
    with pytest.raises(ReceiptError, match=r"^the kept measurement is damaged \(.*\); its receipt is still there$"):
        unpacked(KEPT[:length])


@given(at=st.integers(0, len(KEPT) - 1), bits=st.integers(1, 255))
def test_a_flipped_byte_is_seen_or_changes_nothing(at, bits):
    """The numbers are under a checksum; a time stamp in the archive is nobody's."""
    data = bytearray(KEPT)
    data[at] ^= bits
    found = looked_at(bytes(data))
    assert found is None or same(found, MEASUREMENT)


def test_no_flipped_byte_raises_anything_else():
    """Each byte in turn: what zipfile, zlib and NumPy raise becomes a ReceiptError."""
    for at in range(len(KEPT)):
        looked_at(KEPT[:at] + bytes([KEPT[at] ^ 0x55]) + KEPT[at + 1 :])


@given(data=st.binary(max_size=200))
@pytest.mark.parametrize("start", [b"", KEPT[:100], b"\x93NUMPY\x01\x00"], ids=["none", "kept", "array"])
def test_any_bytes_are_refused(start, data):
    """Random ones, and those that begin well."""
    assert looked_at(start + data) is None


def test_no_pickle_is_read(tmp_path):
    """Unpacking runs nobody's code, whether it is the file or an array in it."""
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (type(ran).touch, (ran,))

    file = io.BytesIO()
    np.savez(file, header=np.array([Evil()], dtype=object), allow_pickle=True)
    for data in (pickle.dumps(Evil()), file.getvalue()):
        with pytest.raises(ReceiptError):
            unpacked(data)
    assert not ran.exists()


def with_header(change):
    """The kept bytes with another header, checksums and all."""
    with np.load(io.BytesIO(KEPT)) as kept:
        arrays = dict(kept)
    header = json.loads(arrays["header"].tobytes())
    change(header)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


HEADER = ("model_id", "candidate_ks", "fixture", "findings", "options", "made_with")


@pytest.mark.parametrize("name", [name for name in HEADER if name != "options"])
def test_a_header_that_lacks_something_is_refused(name):
    """Nothing is made up."""
    assert same(unpacked(with_header(lambda header: header.update({}))), MEASUREMENT)
    assert looked_at(with_header(lambda header: header.pop(name))) is None


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=4,
)


@given(name=st.sampled_from(HEADER), value=json_values)
def test_any_other_header_is_read_or_refused(name, value):
    """With valid checksums, as another program would write it."""
    looked_at(with_header(lambda header: header.update({name: value})))


@pytest.mark.parametrize("name", [field.name for field in fields(MEASUREMENT.queries)])
@pytest.mark.parametrize("array", [np.zeros(2), np.zeros((3, 12, 2)), np.array("text"), np.zeros((3, 99))])
def test_an_array_of_another_shape_is_refused(name, array):
    """Each has one number for each query, and those over k for each k."""
    with np.load(io.BytesIO(KEPT)) as kept:
        arrays = {**kept, name: array}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    assert looked_at(file.getvalue()) is None


def test_it_is_an_archive_of_numpy():
    """Whoever wants the numbers needs nothing of this project."""
    assert zipfile.is_zipfile(io.BytesIO(KEPT))
    with np.load(io.BytesIO(KEPT), allow_pickle=False) as arrays:
        assert set(arrays) == {"header", *(field.name for field in fields(MEASUREMENT.queries))}
        np.testing.assert_array_equal(arrays["cosine"], MEASUREMENT.queries.cosine)


@pytest.mark.parametrize("ks", [[1, 1, 3], [0, 2, 3], [float("inf"), 2, 3]])
def test_ks_that_no_replay_has_are_refused(ks):
    """Twice the same, none at all, and infinitely many."""
    with np.load(io.BytesIO(packed(MEASUREMENT.by("mean"), MEASUREMENT.candidate_ks[:1]))) as arrays:
        held = dict(arrays)
    header = json.loads(held["header"].tobytes())
    header["candidate_ks"] = [*ks, *header["candidate_ks"]][: len(header["candidate_ks"])]
    held["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez_compressed(file, **held)
    with pytest.raises(ReceiptError, match="the kept measurement is damaged"):
        unpacked(file.getvalue())
