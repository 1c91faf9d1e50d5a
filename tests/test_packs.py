"""Compact files: what they keep, what they share, and what they refuse with its place."""

import io
import json
import os
import struct
import threading
import zipfile

import numpy as np
import pytest
from command_line import assert_one_error_line, polykv
from hypothesis import given, settings
from hypothesis import strategies as st
from support import SAMPLES, encoded, fixture_fields, refused_with

from polykv_core import FixtureError, heads_in, load_fixture
from polykv_core.packs import Pack, fixture_json, open_pack, pack_bytes
from polykv_core.packs.containers import npz_bytes, safetensors_bytes

FIXTURE = load_fixture(encoded(fixture_fields()))
SAMPLE = load_fixture(SAMPLES / "smollm2_l15_h2_local.json.gz")
KINDS = pytest.mark.parametrize("kind", ["safetensors", "npz"])
MAKERS = {"safetensors": safetensors_bytes, "npz": npz_bytes}
HEAD = {"name": "h", "model_id": "m", "shared_tokens": 2, "seed": 1}


def written(folder, data, name="pack.bin"):
    """A file with these bytes."""
    path = folder / name
    path.write_bytes(data)
    return path


def arrays(rows=5, queries=3, dim=8, vocab=6):
    """The arrays of a small head by their roles."""
    random = np.random.default_rng(0)
    shapes = {
        "keys": (rows, dim),
        "values": (rows, dim),
        "output_projection": (vocab, dim),
        "query": (queries, dim),
        "exact_attention_output": (queries, dim),
        "exact_logits": (queries, vocab),
    }
    floats = {role: random.normal(size=shape).astype(np.float32) for role, shape in shapes.items()}
    spans = np.array([[0, rows - index] for index in range(queries)])
    return {**floats, "label_token": np.arange(queries), "rows": spans}


def made(kind="safetensors", layout=None, **changes):
    """A compact file of one head, with some arrays changed; None leaves one out."""
    held = {f"h.{role}": array for role, array in (arrays() | changes).items() if array is not None}
    told = {"format": "polykv_compact_fixture_v1", "heads": [HEAD]} | (layout or {})
    return MAKERS[kind](held, json.dumps(told))


@KINDS
@pytest.mark.parametrize("fixture", [FIXTURE, SAMPLE], ids=["small", "sample"])
def test_float32_keeps_every_bit(kind, fixture, tmp_path):
    """From bytes and from a path the content has the digest that the JSON has, and so has the JSON made of it."""
    data = pack_bytes({"h": fixture}, kind)
    for source in (data, written(tmp_path, data)):
        assert load_fixture(source).digest == fixture.digest
    assert load_fixture(fixture_json(load_fixture(data)).encode()).digest == fixture.digest


@KINDS
def test_rows_that_queries_share_are_stored_once(kind):
    """The queries of a captured head read the same rows, each as far as it goes."""
    head = open_pack(made(kind)).fixture()
    again = open_pack(pack_bytes({"h": head}, kind)).fixture()
    assert again.digest == head.digest
    assert all(np.shares_memory(again.queries[0].keys, query.keys) for query in again.queries[1:])


@KINDS
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision_is_read_as_float32(kind, precision):
    """Every number is that of the half precision."""
    half = open_pack(pack_bytes({"h": SAMPLE}, kind, precision)).fixture()
    keys = SAMPLE.queries[0].keys
    assert half.queries[0].keys.dtype == np.float32
    assert np.abs(half.queries[0].keys - keys).max() <= 2**-8 * np.abs(keys).max()
    assert open_pack(pack_bytes({"h": half}, kind, precision)).fixture().digest == half.digest


def test_what_half_precision_cannot_hold_is_refused():
    """A number beyond float16's range is named by its array."""
    head = open_pack(made(keys=np.full((5, 8), 1e6, np.float32))).fixture()
    with pytest.raises(FixtureError, match=r"h\.keys holds a number that float16 cannot"):
        pack_bytes({"h": head}, precision="float16")


@KINDS
def test_one_of_many_heads_is_chosen_by_its_name(kind, tmp_path):
    """Without a choice, and for a name that is not there, the names are told."""
    path = written(tmp_path, pack_bytes({"a.0": FIXTURE, "b": SAMPLE}, kind))
    assert [head.name for head in heads_in(path)] == ["a.0", "b"]
    assert load_fixture(path, "b").digest == SAMPLE.digest
    with pytest.raises(FixtureError, match=r"holds 2 heads; choose one of a\.0, b"):
        load_fixture(path)
    with pytest.raises(FixtureError, match=r"no head 'c'; it has a\.0, b"):
        load_fixture(path, "c")


def test_heads_may_share_arrays():
    """Of grouped queries the keys and values stand once in the file."""
    two = [HEAD, HEAD | {"name": "g", "arrays": {role: f"h.{role}" for role in arrays()}}]
    pack = open_pack(made(layout={"heads": two}))
    assert pack.fixture("g").digest == pack.fixture("h").digest


@KINDS
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"keys": None}, "the file has no array 'h.keys'"),
        ({"keys": np.zeros((5, 8))}, "head h, keys holds float64; expected float32, float16 or bfloat16"),
        ({"values": np.zeros((4, 8), np.float32)}, r"head h, values has shape \(4, 8\); expected t = 5 as keys has"),
        ({"query": np.zeros((3, 8, 1), np.float32)}, r"head h, query has shape \(3, 8, 1\); expected \[q, d\]"),
        ({"label_token": np.zeros(3, np.float32)}, "head h, label_token holds float32; expected whole numbers"),
        ({"label_token": np.array([0, 1, 6])}, "query 2, label_token is 6; expected a whole number from 0 to 5"),
        ({"rows": np.array([[0, 5], [1, 5], [0, 3]])}, "query 1 has 5 rows from row 1 on; there are 5"),
        ({"rows": np.array([[0, 5], [-1, 2], [0, 3]])}, "query 1 has 2 rows from row -1 on"),
        ({"rows": np.array([[0, 5], [2**62, 2**62], [0, 3]])}, "query 1 has"),
        ({"rows": np.array([[0, 5], [0, 2], [0, 3]])}, "shared_tokens is 2, but query 1 has 2 rows"),
        ({"keys": np.full((5, 8), np.nan, np.float32)}, "query 0, keys row 0, column 0 is nan"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_their_place(kind, changes, told):
    """Missing ones, other types, other shapes, spans beyond the rows, numbers that are none."""
    with pytest.raises(FixtureError, match=told):
        open_pack(made(kind, **changes)).fixture()


@KINDS
@pytest.mark.parametrize(
    ("layout", "told"),
    [
        ({"format": "other"}, "the layout's format is 'other'"),
        ({"heads": []}, "names no head"),
        ({"heads": {}}, "the layout, heads is a JSON object of 0; expected a list"),
        ({"heads": [HEAD, HEAD]}, "two heads of one name"),
        ({"heads": [HEAD | {"seed": -1}]}, r"heads\[0\], seed is -1"),
        ({"heads": [{"name": "h"}]}, "no field 'model_id'"),
        ({"heads": [HEAD | {"arrays": {"keys": 7}}]}, r"heads\[0\], arrays, keys is 7; expected a string"),
    ],
)
def test_a_layout_that_makes_no_sense_is_refused(kind, layout, told):
    """By the field that is wrong."""
    with pytest.raises(FixtureError, match=told):
        open_pack(made(kind, layout)).fixture()


def header(entries, data=b""):
    """A .safetensors file with this header."""
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        header({}),
        header({"a": ENTRY}, b"\0" * 7),
        header({"a": ENTRY, "b": ENTRY}, b"\0" * 8),
        header({"a": ENTRY | {"dtype": "F31"}}, b"\0" * 8),
        header({"a": ENTRY | {"shape": [2**62]}}, b"\0" * 8),
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 10**9) + b'{"a": 1}',
        header({"../../etc/passwd": ENTRY}, b"\0" * 8),
        header({"a/b": ENTRY}, b"\0" * 8),
        made()[:-1],
        made()[:100],
        made("npz")[:-30],
        made("npz")[:50],
    ],
)
def test_a_damaged_or_hostile_file_is_refused(data, tmp_path):
    """Cut off, overlapping, of unknown types, with huge headers, with paths for names: by one line."""
    for source in (data, written(tmp_path, data)):
        text = refused_with(FixtureError, lambda source=source: load_fixture(source))
        assert text
        assert text.isprintable()


def test_an_array_longer_than_any_memory_is_refused(tmp_path):
    """Its header says so, and nothing is set aside for it."""
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": (10**30, 8)})
    path = written(tmp_path, made("npz"))
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(tmp_path / "long.npz", "w") as long:
        for name in whole.namelist():
            long.writestr(name, member.getvalue() if name == "h.keys.npy" else whole.read(name))
    with pytest.raises(FixtureError, match=r"the array 'h\.keys' cannot be read"):
        load_fixture(tmp_path / "long.npz")


def test_object_arrays_are_never_unpickled(tmp_path):
    """An .npz may hold pickled objects, which run code when they are read."""

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    trap = np.array([Trap()], dtype=object)
    with pytest.raises(FixtureError, match="cannot be read"):
        open_pack(made("npz", keys=trap)).fixture()
    assert not (tmp_path / "sprung").exists()


@KINDS
@settings(max_examples=150)
@given(data=st.data())
def test_any_damage_is_refused_or_read(kind, data):
    """Bytes flipped, cut or put in: a fixture or a FixtureError, nothing else."""
    whole = bytearray(made(kind))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))
    refused_with(FixtureError, lambda: load_fixture(bytes(whole[:cut])))


def test_convert_goes_both_ways(tmp_path):
    """JSON into a pack of two, that into the other kind, a head of it into JSON: each with the same digest."""
    sample, small = SAMPLES / "synthetic_d16_basic.json", tmp_path / "small.json"
    small.write_text(fixture_json(FIXTURE))
    first, second, back = tmp_path / "pack.safetensors", tmp_path / "pack.npz", tmp_path / "back.json.gz"
    assert polykv("convert", sample, small, first).exit_code == 0
    assert polykv("convert", first, second).exit_code == 0
    assert polykv("convert", f"{second}#small", back).exit_code == 0
    assert load_fixture(back).digest == FIXTURE.digest
    assert [head.name for head in heads_in(second)] == ["synthetic_d16_basic", "small"]
    assert isinstance(open_pack(second), Pack)


def test_a_head_is_replayed_by_its_name(tmp_path):
    """FILE#HEAD replays as the JSON does; FILE alone says how to choose."""
    path = written(tmp_path, pack_bytes({"a": FIXTURE, "b": SAMPLE}), "pack.safetensors")
    alone = tmp_path / "small.json"
    alone.write_text(fixture_json(FIXTURE))
    ours, theirs = (json.loads(polykv("replay", name, "--receipt", "-").stdout) for name in (f"{path}#a", alone))
    for receipt in (ours, theirs):
        del receipt["provenance"]["fixture"]["file_digest"], receipt["provenance"]["receipt_digest"]
    assert ours == theirs
    result = polykv("replay", path)
    assert_one_error_line(result)
    assert f"the file holds 2 heads; choose one, such as {path}#a" in result.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("{pack}", "out.json"), "would hold one head and 2 are given"),
        (("{pack}#a", "out.txt"), "must end in .safetensors, .npz, .json or .json.gz"),
        (("{pack}#c", "out.json"), "the file has no head 'c'"),
        (("{pack}", "{pack}#a", "out.npz"), "two heads are called a"),
        (("{pack}", "{pack}"), "would overwrite the input"),
        (("missing.json", "out.npz"), "cannot read"),
    ],
)
def test_what_cannot_be_converted_is_refused(args, told, tmp_path, monkeypatch):
    """Before anything is written, by one line."""
    monkeypatch.chdir(tmp_path)
    pack = written(tmp_path, pack_bytes({"a": FIXTURE, "b": SAMPLE}), "pack.safetensors")
    result = polykv("convert", *(arg.format(pack=pack) for arg in args))
    assert_one_error_line(result)
    assert told in result.stderr
    assert sorted(os.listdir(tmp_path)) == ["pack.safetensors"]


@pytest.mark.parametrize("data", [encoded(fixture_fields()), pack_bytes({"h": FIXTURE})], ids=["json", "pack"])
def test_a_fixture_comes_through_a_pipe(data, tmp_path):
    """What can be read only once is: a FIFO, as a shell makes one for <(command)."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for read in (lambda: load_fixture(pipe).digest, lambda: polykv("inspect", pipe).stdout):
        writer = threading.Thread(target=pipe.write_bytes, args=(data,))
        writer.start()
        assert FIXTURE.digest in read()
        writer.join()


def test_an_output_over_the_pack_of_a_head_is_refused(tmp_path):
    """FILE#HEAD is read from FILE."""
    path = written(tmp_path, pack_bytes({"a": FIXTURE, "b": SAMPLE}), "pack.safetensors")
    before = path.read_bytes()
    for command in (("replay", f"{path}#a", "--receipt", path), ("explain", f"{path}#a", "--json", path)):
        result = polykv(*command)
        assert_one_error_line(result)
        assert "would overwrite the input" in result.stderr
    assert path.read_bytes() == before


@KINDS
@pytest.mark.parametrize("name", ["", "a b", "../x", "layer 1, head 2", "h\u00e9ad", "#"])
def test_a_head_of_any_name_is_written_such_that_it_is_read_again(kind, name):
    """Its arrays then are called otherwise."""
    data = pack_bytes({name: FIXTURE, "h": SAMPLE}, kind)
    assert [head.name for head in heads_in(data)] == [name, "h"]
    assert load_fixture(data, name).digest == FIXTURE.digest


def test_no_name_makes_a_head_overwrite_another():
    """Not even the one that a head is stored under whose own name cannot be an array's."""
    heads = {"we ird": FIXTURE, "head_0_of_3": SAMPLE, "head_0_of_3_": FIXTURE}
    pack = open_pack(pack_bytes(heads))
    assert {name: pack.fixture(name).digest for name in heads} == {name: held.digest for name, held in heads.items()}


@pytest.mark.parametrize("start", [b'{"meta":{"a":1},', b'        {"a":1,'])
def test_json_is_not_taken_for_an_array_file(start):
    """Wherever its braces stand."""
    assert load_fixture(start + encoded(fixture_fields()).lstrip()[1:]).digest == FIXTURE.digest


def test_heads_that_share_rows_store_them_once():
    """The layout says where an array that two heads have in common stands."""
    other = load_fixture(encoded(fixture_fields() | {"model_id": "other"}))
    one, two = open_pack(pack_bytes({"a": FIXTURE, "b": other})).heads
    assert two.arrays["keys"] == one.arrays["keys"] == "a.keys"
    assert load_fixture(pack_bytes({"a": FIXTURE, "b": other}), "b").digest == other.digest


def test_converting_keeps_what_a_file_says_of_its_heads(tmp_path):
    """Layer, KV head, scale, whatever it is."""
    told = {"a": {"layer": 3, "kv_head": 1, "scale": 0.125}}
    source = written(tmp_path, pack_bytes({"a": FIXTURE}, about=told), "in.safetensors")
    assert polykv("convert", source, tmp_path / "out.npz").exit_code == 0
    (head,) = heads_in(tmp_path / "out.npz")
    assert dict(head.about) == told["a"]


def test_a_file_whose_name_is_nothing_but_an_ending_gives_a_head_a_name(tmp_path):
    """Converted, it can be read."""
    source = written(tmp_path, encoded(fixture_fields()), ".json")
    assert polykv("convert", source, tmp_path / "out.npz").exit_code == 0
    assert load_fixture(tmp_path / "out.npz").digest == FIXTURE.digest


@pytest.mark.parametrize("as_path", [True, False])
def test_a_model_is_told_from_a_capture(tmp_path, as_path):
    """With what makes a capture of it."""
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(64))
    with pytest.raises(FixtureError, match="is a model in GGUF, not a captured fixture; polykv capture makes one"):
        load_fixture(model if as_path else model.read_bytes())
    with pytest.raises(FixtureError, match="polykv capture makes one"):
        heads_in(model if as_path else model.read_bytes())
