"""What a fixture may look like, and what is said about one that does not: place, value, expectation."""

import copy
import gzip
import io
import json
import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import (
    GOLDEN,
    annotations_unchecked,
    changed,
    disagreements,
    encoded,
    fixture_fields,
    read_golden,
    refused_with,
    stored,
)

from polykv_core import (
    CapturedReplayConfig,
    CapturedReplayFixture,
    CapturedReplayQuery,
    FixtureError,
    PolyKvError,
    load_fixture,
    measure,
    run_captured_model_replay,
)

VALID = fixture_fields()
TEXT = encoded(VALID)
SMALL = fixture_fields(rows=2, shared=1, queries=1, vocab=2)
REFUSED = {case["name"]: case for case in read_golden(GOLDEN / "refused_input.json")}
# What is said here about each input that the crate refuses.
MESSAGES = {
    "candidate_ks_empty": "candidate_ks is empty; give at least one number of rows to read",
    "no_queries": "queries is empty; capture at least one query",
    "head_dim_zero": "head_dim is 0; expected a whole number from 1 to 2^64 - 1",
    "projection_empty": "output_projection is empty; expected a row for each entry of the vocabulary",
    "projection_row_short": "output_projection row 2 has 7 numbers; expected head_dim = 8",
    "query_short": "query 1, query has 7 numbers; expected head_dim = 8",
    "exact_output_short": "query 1, exact_attention_output has 7 numbers; expected head_dim = 8",
    "keys_fewer_than_values": "query 0 has 5 keys and 6 values; expected as many, and at least one",
    "no_rows": "query 0 has 0 keys and 0 values; expected as many, and at least one",
    "shared_tokens_zero": "shared_tokens is 0, but query 0 has 6 rows; expected 1 to 5",
    "shared_tokens_all": "shared_tokens is 6, but query 0 has 6 rows; expected 1 to 5",
    "logits_short": "query 0, exact_logits has 4 numbers; expected rows of output_projection = 5",
    "label_out_of_range": "query 0, label_token is 5; expected a whole number from 0 to 4",
    "label_negative": "query 0, label_token is -1; expected a whole number from 0 to 4",
    "label_float": "query 0, label_token is 3.0; expected a whole number from 0 to 4",
    "key_row_short": "query 0, keys row 1 has 7 numbers; expected head_dim = 8",
    "value_row_long": "query 0, values row 5 has 9 numbers; expected head_dim = 8",
    "shared_key_all_zero": "query 0, keys row 1 is all zeros; ",
    "shared_value_all_zero": "query 1, values row 2 is all zeros; ",
    "shared_norm_over_fp16": "query 0, keys row 1 has length 84852.8, which fp16 cannot hold; ",
    "shared_norm_under_fp16": "query 0, keys row 1 has length 2.82843e-09, which fp16 cannot hold; ",
    "key_overflows_f32": "query 0, keys row 0, column 0 is 1e+39; expected a number that is finite in float32",
    "value_null": "query 0, values row 0, column 0 is null; expected a number",
    "missing_field": "query 0 has no field 'exact_logits'; add it",
    "missing_seed": "the fixture has no field 'seed'; add it",
    "seed_negative": "seed is -1; expected a whole number from 0 to 2^64 - 1",
    "duplicate_seed_key": "the file has the key 'seed' twice; keep one of them",
    "key_is_NaN": "queries[0].keys[0][0] is NaN, which is not JSON; every number must be finite",
    "key_is_Infinity": "queries[0].keys[0][0] is Infinity, which is not JSON; every number must be finite",
    "key_is_1e999": "query 0, keys row 0, column 0 is inf; expected a number that is finite in float32",
} | {
    f"head_dim_{dim}": f"head_dim is {dim}; fib_k4_n32 needs a multiple of 4 larger than 4"
    for dim in (1, 2, 4, 6, 7, 10)
}


def refusal(source):
    """What load_fixture says about a source that it refuses."""
    with pytest.raises(FixtureError) as refused:
        load_fixture(source)
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 400
    return message


def replay_refused_input(case):
    """The whole way from a refused_input case to a receipt."""
    text = case.get("fixture_text") or json.dumps(case["fixture"])
    return run_captured_model_replay(load_fixture(text.encode()), CapturedReplayConfig.from_dict(case["config"]))


@pytest.mark.parametrize("name", [name for name, case in REFUSED.items() if "error" in case["result"]])
def test_what_the_crate_refuses_is_refused_by_name(name):
    """Every faulty input of the reference raises, and the message says where, what, and what was expected."""
    with pytest.raises(PolyKvError) as refused:
        replay_refused_input(REFUSED[name])
    assert str(refused.value).startswith(MESSAGES[name])


@pytest.mark.parametrize("name", [name for name, case in REFUSED.items() if "error" not in case["result"]])
def test_what_the_crate_accepts_is_accepted_with_its_receipt(name):
    """Odd but valid inputs are replayed, and the receipt agrees, but for the provenance that the crate has not."""
    fields = json.loads(replay_refused_input(REFUSED[name]).to_json())
    assert "provenance" in fields
    del fields["provenance"]
    assert disagreements(fields, REFUSED[name]["result"]) == []


def test_every_refused_input_has_its_message():
    """The table above speaks of each refused input, and of no other."""
    assert set(MESSAGES) == {name for name, case in REFUSED.items() if "error" in case["result"]}


def test_a_fixture_holds_what_the_file_says():
    """Scalars as they are, tensors as float32 arrays of the documented shapes."""
    fixture = load_fixture(TEXT)
    assert (fixture.model_id, fixture.head_dim, fixture.shared_tokens, fixture.seed) == ("made-on-the-spot", 8, 4, 7)
    assert fixture.warnings == ()
    np.testing.assert_array_equal(fixture.output_projection, np.array(VALID["output_projection"], np.float32))
    for query, fields in zip(fixture.queries, VALID["queries"], strict=True):
        assert query.row_count == 6
        assert query.label_token == fields["label_token"]
        for name in ("query", "keys", "values", "exact_attention_output", "exact_logits"):
            array = getattr(query, name)
            assert array.dtype == np.float32
            np.testing.assert_array_equal(array, np.array(fields[name], np.float32))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (b"", "the file is empty; expected JSON"),
        (b" \n\t ", "the file is empty; expected JSON"),
        (b"\xef\xbb\xbf", "expected JSON|no valid JSON"),
        (b"[1, 2]", r"^the file is a list of 2; expected a JSON object$"),
        (b'"text"', r"^the file is 'text'; expected a JSON object$"),
        (b"12", r"^the file is 12; expected a JSON object$"),
        (b"null", r"^the file is null; expected a JSON object$"),
        (b"true", r"^the file is true; expected a JSON object$"),
        (b"NaN", r"^the file is NaN, which is not JSON"),
        (b"{}", r"^the fixture has no field 'schema_version'; add it$"),
        (b"{'a': 1}", r"^no valid JSON at line 1, column 2: "),
        (b'{\n"a": 1,,}', r"^no valid JSON at line 2, column 8: "),
        (TEXT + b"}", r"^no valid JSON at line 1, column \d+: Extra data$"),
        (b"\x80abc", r"^byte 0 is not UTF-8; expected JSON text in UTF-8$"),
        (TEXT.replace(b"made", b"m\xe4de"), r"^byte \d+ is not UTF-8"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "UTF-8"),
    ],
)
def test_what_is_no_fixture_is_refused_by_its_look(source, text):
    """Empty files, other JSON, other text and other bytes each get their own words."""
    assert re.search(text, refusal(source))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32", "utf-32-le", "utf-32-be"])
def test_utf_16_and_utf_32_are_called_by_name(encoding):
    """With or without a byte order mark, either byte order."""
    assert refusal(TEXT.decode().encode(encoding)) == "the file looks like UTF-16 or UTF-32; save it as UTF-8"


@pytest.mark.parametrize(
    "bomb", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"queries":' + b"[" * 100_000]
)
def test_deep_nesting_is_refused(bomb):
    """A hundred thousand brackets are an error, not a crash."""
    assert "nested too deeply" in refusal(bomb)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_fault_below_many_levels_is_a_short_message(opening, closing):
    """Up to the depth at which the interpreter gives up, and beyond: a FixtureError, with a place one can read."""
    for depth in (2, 20, 200, *range(870, 1000)):
        message = refusal(b'{"more": ' + opening * depth + b"NaN" + closing * depth + b"}")
        assert re.search(r"NaN, which is not JSON|nested too deeply", message), depth


@pytest.mark.parametrize("depth", [2, 200, 700])
def test_depth_in_an_unknown_field_does_no_harm(depth):
    """What nobody reads may be nested as the parser likes."""
    deep = TEXT[:-1] + b', "more": ' + b"[" * depth + b"]" * depth + b"}"
    assert load_fixture(deep).digest == load_fixture(TEXT).digest


@pytest.mark.parametrize("key", ["two\nlines", "\x1b[31mred", "\ud800", "x" * 10_000, "\u202e"])
def test_a_place_with_an_odd_key_is_one_short_printable_line(key):
    """Keys come from outside: what a message says of them can be printed and does nothing to a terminal."""
    for message in (refusal(encoded({key: float("nan")})), refusal(b'{%s: [{"a": 1, "a": 2}]}' % encoded(key))):
        assert message.isprintable()
        message.encode("utf-8")


@given(at=st.integers(0, len(TEXT) - 1))
@example(at=1)
@example(at=len(TEXT) - 1)
def test_a_file_that_is_cut_off_is_refused(at):
    """At whatever byte a fixture ends too early, the place is named as line and column (or the file is empty)."""
    assert re.search(r"^no valid JSON at line 1, column \d+: |^the file is empty", refusal(TEXT[:at]))


@given(at=st.integers(2, len(gzip.compress(TEXT)) - 1))
def test_a_gzip_file_that_is_cut_off_is_refused(at):
    """At whatever byte it ends, the message speaks of gzip."""
    assert refusal(gzip.compress(TEXT)[:at]).startswith("the gzip file is damaged or cut off: ")


@given(at=st.integers(0, len(gzip.compress(TEXT, mtime=0)) - 1), bit=st.integers(0, 7))
def test_a_damaged_gzip_file_loads_right_or_is_refused(at, bit):
    """A flipped bit anywhere is noticed, or sat in a part of the header that says nothing about the content."""
    data = bytearray(gzip.compress(TEXT, mtime=0))
    data[at] ^= 1 << bit
    try:
        fixture = load_fixture(bytes(data))
    except FixtureError:
        return
    assert fixture.digest == load_fixture(TEXT).digest


@pytest.mark.parametrize("digits", ["9" * 401, "9" * 5000, "-" + "1" * 5000])
@pytest.mark.parametrize(
    ("path", "place"),
    [(("seed",), "seed"), (("queries", 1, "keys", 2, 3), "queries[1].keys[2][3]"), (("more",), "more")],
)
def test_integers_of_thousands_of_digits_are_refused_with_their_place(digits, path, place):
    """Python would refuse to convert them with an error of its own."""
    text = encoded(changed(VALID, *path, to="PUT")).replace(b'"PUT"', digits.encode())
    assert (
        refusal(text) == f"{place} is a number of {len(digits)} digits ({digits[:12]}...); no field takes such a number"
    )


def test_integers_of_hundreds_of_digits_are_refused_with_their_place():
    """Numbers that Python converts but float32 and u64 cannot hold; the message does not repeat all digits."""
    long = 10**300
    message = refusal(encoded(changed(VALID, "seed", to=long)))
    assert message == "seed is an integer of about 301 digits; expected a whole number from 0 to 2^64 - 1"
    message = refusal(encoded(changed(VALID, "queries", 0, "values", 1, 2, to=10**399)))
    assert message == "query 0, values row 1, column 2 is an integer of about 400 digits; expected a finite number"
    message = refusal(encoded(changed(VALID, "queries", 0, "values", 1, 2, to=10**39)))
    assert message.startswith("query 0, values row 1, column 2 is 1e+39; expected a number that is finite in float32")


@pytest.mark.parametrize(
    ("before", "twice", "message"),
    [
        (b'{"schema_version"', b'{"seed": 7, "schema_version"', "the file has the key 'seed' twice; keep one of them"),
        (b'{"query"', b'{"keys": [], "query"', "queries[0] has the key 'keys' twice; keep one of them"),
        (b'{"schema_version"', b'{"x": {"y": [{"z": 1, "z": 1}]}, "schema_version"', "x.y[0] has the key 'z' twice"),
        (b'{"schema_version"', b'{"s\\u0065ed": 7, "schema_version"', "the file has the key 'seed' twice"),
    ],
)
def test_a_key_that_stands_twice_is_refused_with_its_place(before, twice, message):
    """Even where both agree, even below an unknown field, even where one is spelt with an escape."""
    assert refusal(TEXT.replace(before, twice, 1)).startswith(message)


def test_the_last_query_s_doubled_key_is_placed():
    """The place counts queries."""
    head, tail = TEXT.rsplit(b'"label_token"', 1)
    assert refusal(head + b'"label_token": 1, "label_token"' + tail).startswith(
        "queries[1] has the key 'label_token' twice"
    )


@pytest.mark.parametrize("seed", [-1, 2**64, 7.0, True, "7", None, [7], {}])
def test_a_seed_that_is_no_u64_is_refused(seed):
    """Negative, too large, a float, a boolean, a string, null, a list, an object."""
    assert re.search(
        r"^seed is .+; expected a whole number from 0 to 2\^64 - 1$", refusal(encoded(changed(VALID, "seed", to=seed)))
    )


@pytest.mark.parametrize("seed", [0, 2**63, 2**64 - 1])
def test_every_u64_is_a_seed(seed):
    """Up to the last one, past which the queries' seeds wrap around."""
    fixture = load_fixture(encoded(changed(SMALL, "seed", to=seed)))
    assert fixture.seed == seed
    assert measure(fixture, [1]).query_count == 1


@pytest.mark.parametrize("value", [True, False, None, "0.5", [0.5], {}, ""])
@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("queries", 1, "query", 3), "query 1, query, column 3"),
        (("queries", 0, "keys", 2, 7), "query 0, keys row 2, column 7"),
        (("queries", 1, "values", 5, 0), "query 1, values row 5, column 0"),
        (("queries", 0, "exact_attention_output", 1), "query 0, exact_attention_output, column 1"),
        (("queries", 0, "exact_logits", 4), "query 0, exact_logits, column 4"),
        (("output_projection", 4, 6), "output_projection row 4, column 6"),
    ],
)
def test_what_stands_in_a_tensor_and_is_no_number_is_refused_with_its_place(path, place, value):
    """Booleans, null, strings, lists and objects are no numbers, wherever they stand."""
    message = refusal(encoded(changed(VALID, *path, to=value)))
    assert message.startswith(f"{place} is ")
    assert message.endswith("; expected a number")


@pytest.mark.parametrize("value", [True, None, "abc", 3, {}, {"0": 1}])
@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("queries",), "queries"),
        (("output_projection",), "output_projection"),
        (("output_projection", 1), "output_projection row 1"),
        (("queries", 1, "keys"), "query 1, keys"),
        (("queries", 1, "keys", 5), "query 1, keys row 5"),
        (("queries", 0, "query"), "query 0, query"),
        (("queries", 0, "exact_logits"), "query 0, exact_logits"),
    ],
)
def test_what_is_no_list_is_refused_with_its_place(path, place, value):
    """A tensor, or one of its rows, that is something else."""
    message = refusal(encoded(changed(VALID, *path, to=value)))
    assert message.startswith(f"{place} is ")
    assert message.endswith("; expected a list")


@pytest.mark.parametrize("value", [True, 1.0, "1", None, [], 2**70])
def test_a_label_that_is_no_token_is_refused(value):
    """Booleans and floats are no token ids."""
    message = refusal(encoded(changed(VALID, "queries", 1, "label_token", to=value)))
    assert message.startswith("query 1, label_token is ")
    assert message.endswith("; expected a whole number from 0 to 4")


@pytest.mark.parametrize("field", ["head_dim", "shared_tokens"])
@pytest.mark.parametrize("value", [True, 8.0, "8", None, -1, [], 2**64])
def test_a_size_that_is_no_whole_number_is_refused(field, value):
    """head_dim and shared_tokens are counts."""
    assert refusal(encoded(changed(VALID, field, to=value))).startswith(f"{field} is ")


@pytest.mark.parametrize("field", ["model_id", "schema_version"])
@pytest.mark.parametrize("value", [None, 1, True, [], {}])
def test_a_name_that_is_no_string_is_refused(field, value):
    """Names are strings."""
    message = refusal(encoded(changed(VALID, field, to=value)))
    assert message.startswith(f"{field} is ")
    assert message.endswith("; expected a string")


@pytest.mark.parametrize("field", ["model_id", "schema_version"])
@pytest.mark.parametrize("name", ["\ud83d", "a\udfff", "\ude00\ud83d"])
def test_half_a_surrogate_pair_is_refused(field, name):
    """Such a name could be written to no receipt; the message itself is printable."""
    message = refusal(encoded(changed(VALID, field, to=name)))
    assert message.startswith(f"{field} is ")
    message.encode("utf-8")


def test_a_whole_surrogate_pair_is_a_character():
    """JSON escapes of an emoji are fine, and so is the emoji itself."""
    fields = changed(VALID, "model_id", to="head \U0001f600")
    assert load_fixture(encoded(fields)).model_id == "head \U0001f600"
    assert load_fixture(json.dumps(fields, ensure_ascii=False).encode()).model_id == "head \U0001f600"


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("seed",), "seed"),
        (("queries", 1, "exact_logits", 0), "queries[1].exact_logits[0]"),
        (("output_projection", 3, 2), "output_projection[3][2]"),
        (("unknown",), "unknown"),
    ],
)
def test_literals_that_python_reads_but_json_has_not_are_refused(literal, path, place):
    """NaN and the infinities are named with their place, even in a field nobody reads."""
    text = encoded(changed(VALID, *path, to="PUT")).replace(b'"PUT"', literal.encode())
    assert refusal(text) == f"{place} is {literal}, which is not JSON; every number must be finite"


@pytest.mark.parametrize("literal", ["1e39", "-3.5e38", "3.4028236e38", "1e999"])
@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("queries", 1, "query", 3), "query 1, query, column 3"),
        (("queries", 0, "keys", 2, 7), "query 0, keys row 2, column 7"),
        (("queries", 0, "exact_logits", 4), "query 0, exact_logits, column 4"),
        (("output_projection", 4, 6), "output_projection row 4, column 6"),
    ],
)
def test_numbers_beyond_float32_are_refused_with_their_place(literal, path, place):
    """What would round to infinity is refused wherever it stands."""
    text = encoded(changed(VALID, *path, to="PUT")).replace(b'"PUT"', literal.encode())
    message = refusal(text)
    assert message.startswith(f"{place} is ")
    assert message.endswith("; expected a number that is finite in float32")


@pytest.mark.parametrize("literal", ["3.4028234e38", "1e-50", "-0.0", "1", "5e-324"])
def test_numbers_that_float32_can_round_are_taken(literal):
    """The largest float32, what vanishes in float32, integers."""
    text = encoded(changed(VALID, "queries", 1, "query", 3, to="PUT")).replace(b'"PUT"', literal.encode())
    assert load_fixture(text).queries[1].query[3] == np.float32(literal)


def test_a_byte_order_mark_of_utf_8_is_fine():
    """Some editors write one."""
    assert load_fixture(b"\xef\xbb\xbf" + TEXT).digest == load_fixture(TEXT).digest


def test_unknown_fields_are_ignored():
    """As in the reference, at the top and in a query, whatever they hold."""
    fields = changed(VALID, "comment", to={"seed": [1, "x", None]})
    fields["queries"][0]["word"] = "Paris"
    assert load_fixture(encoded(fields)).digest == load_fixture(TEXT).digest


def test_an_unknown_schema_is_read_with_a_warning_that_travels():
    """The fixture warns, and so does what is measured from it."""
    fixture = load_fixture(encoded(changed(SMALL, "schema_version", to="my_own_v7")))
    expected = "schema_version is 'my_own_v7', not 'poly_kv_captured_replay_fixture_v1'; read as if it were"
    assert fixture.warnings == (expected,)
    accepted = [finding.text for finding in measure(fixture, [1]).findings if finding.code == "accepted"]
    assert accepted == [expected]
    assert "accepted" not in {finding.code for finding in measure(load_fixture(encoded(SMALL)), [1]).findings}


@pytest.mark.parametrize("missing", [*VALID, *VALID["queries"][0]])
def test_a_missing_field_is_named(missing):
    """Every field of the fixture and of a query is needed."""
    fields = copy.deepcopy(VALID)
    place, holder = ("query 1", fields["queries"][1]) if missing in fields["queries"][1] else ("the fixture", fields)
    del holder[missing]
    assert refusal(encoded(fields)) == f"{place} has no field '{missing}'; add it"


def test_queries_may_differ_in_rows():
    """Each query brings its own number of rows, as long as both tiers get some."""
    fields = changed(VALID, "queries", 1, to=fixture_fields(rows=9)["queries"][1])
    assert [query.row_count for query in load_fixture(encoded(fields)).queries] == [6, 9]
    fields = changed(VALID, "queries", 1, to=fixture_fields(rows=4)["queries"][1])
    assert refusal(encoded(fields)) == (
        "shared_tokens is 4, but query 1 has 4 rows; expected 1 to 3, so that the pool and the shell both get rows"
    )


@pytest.mark.parametrize("wrap", [lambda path: path, str])
@pytest.mark.parametrize("zipped", [False, True])
def test_paths_bytes_and_file_objects_are_read(tmp_path, wrap, zipped):
    """A path (gzip told by content, not by name), bytes, and open files give the same fixture."""
    data = gzip.compress(TEXT) if zipped else TEXT
    path = tmp_path / "fixture.dat"
    path.write_bytes(data)
    expected = load_fixture(TEXT).digest
    with path.open("rb") as file:
        sources = [wrap(path), data, bytearray(data), memoryview(data), io.BytesIO(data), file]
        assert {load_fixture(source).digest for source in sources} == {expected}


def test_a_text_file_object_is_read(tmp_path):
    """A file opened as text, and text in memory."""
    path = tmp_path / "fixture.json"
    path.write_bytes(TEXT)
    with path.open(encoding="utf-8") as file:
        assert load_fixture(file).digest == load_fixture(TEXT).digest
    assert load_fixture(io.StringIO(TEXT.decode())).digest == load_fixture(TEXT).digest


def test_a_text_file_object_in_another_encoding_is_refused(tmp_path):
    """What cannot be decoded while reading is a FixtureError as well."""
    path = tmp_path / "fixture.json"
    path.write_bytes(TEXT.replace(b"made", b"m\xe4de"))
    with path.open(encoding="utf-8") as file:
        assert refusal(file).startswith("cannot read ")


def test_a_text_file_object_with_a_lone_surrogate_is_refused():
    """Text that is no text cannot be encoded."""
    assert refusal(io.StringIO('{"model_id": "\ud800"}')).startswith("cannot read ")


@pytest.mark.parametrize("name", ["missing.json", ".", "no/such/folder.json", "a\0b"])
def test_what_cannot_be_opened_is_refused(tmp_path, name):
    """A missing file, a folder, a name that is none."""
    assert refusal(str(tmp_path / name)).startswith("cannot read ")


def test_a_closed_file_is_refused():
    """Reading from it fails with words of ours."""
    file = io.BytesIO(TEXT)
    file.close()
    assert refusal(file).startswith("cannot read ")


# Values a JSON node may be replaced by: other types, edges of the number types, shapes that nearly fit.
replacements = st.one_of(
    st.sampled_from([None, True, False, 0, 1, -1, 2, 8, 9, 2**53, 2**64 - 1, 2**64, 10**400]),
    st.sampled_from([0.0, -0.0, 1.5, 1e-46, 1e-30, 1e30, 3e38, 3.5e38, 1e308, -1e308, float("nan"), float("inf")]),
    st.sampled_from(["", "seed", "8", "\ud800", "\0", [], {}, [[]], [None], {"query": []}, ["1"] * 8]),
    st.sampled_from([[0.0] * 8, [1e5] * 8, [3e38] * 8, [[1.0] * 8], [[0.0] * 8] * 2]),
    st.floats(width=64),
    st.integers(),
    st.text(max_size=3),
    st.recursive(
        st.none() | st.booleans() | st.integers(-2, 9), lambda inner: st.lists(inner, max_size=3), max_leaves=4
    ),
)


def nodes(value, path=()):
    """The path of every node of a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in inner:
        yield from nodes(child, (*path, step))


NODES = [path for path in nodes(SMALL) if path]
# Paths are drawn by depth, or nearly all of them would be numbers in tensors.
some_node = st.sampled_from(sorted({len(path) for path in NODES})).flatmap(
    lambda depth: st.sampled_from([path for path in NODES if len(path) == depth])
)


def loads_and_measures_or_refuses(fields):
    """Load and measure; anything but success or a PolyKvError escapes."""
    found = []
    refused = refused_with(PolyKvError, lambda: found.append(measure(load_fixture(encoded(fields)), [1, 2])))
    if refused is not None:
        assert refused.isprintable()
        assert len(refused) < 400
        return None
    assert len(found[0].metrics["output_cosine_mean"]) == 2
    return found[0]


@settings(max_examples=250)
@given(path=some_node, value=replacements)
def test_any_other_value_anywhere_is_replayed_or_refused(path, value):
    """Whatever stands in the place of one node, load and measure work, or raise PolyKvError with a printable text."""
    loads_and_measures_or_refuses(changed(SMALL, *path, to=value))


@settings(max_examples=150)
@given(data=st.data())
def test_any_few_changes_are_replayed_or_refused(data):
    """Nodes replaced, removed and doubled, several at a time."""
    fields = copy.deepcopy(SMALL)
    for _ in range(data.draw(st.integers(1, 4))):
        *inner, last = data.draw(some_node)
        node = fields
        try:
            for step in inner:
                node = node[step]
            match data.draw(st.sampled_from(["replace", "remove", "double"])):
                case "replace":
                    node[last] = data.draw(replacements)
                case "remove":
                    del node[last]
                case "double":
                    node.append(node[last])
        except (KeyError, IndexError, TypeError, AttributeError):
            continue
    loads_and_measures_or_refuses(fields)


@settings(max_examples=120)
@given(data=st.data())
def test_extreme_numbers_are_replayed_in_silence_or_refused(data):
    """Any finite float32 in any tensor: no crash, and no warning (an error in these tests)."""
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    hot = st.sampled_from([3e38, -3e38, 1e38, 1e20, 1e-38, 1e-45, 0.0, -0.0]) | number
    fields = copy.deepcopy(SMALL)
    query = fields["queries"][0]
    for target in data.draw(
        st.lists(st.sampled_from(["query", "key", "value", "logits", "output", "projection"]), min_size=1, max_size=3)
    ):
        match target:
            case "query":
                query["query"] = data.draw(st.lists(hot, min_size=8, max_size=8))
            case "key":
                query["keys"][1] = data.draw(st.lists(hot, min_size=8, max_size=8))
            case "value":
                query["values"][1] = data.draw(st.lists(hot, min_size=8, max_size=8))
            case "logits":
                query["exact_logits"] = data.draw(st.lists(hot, min_size=2, max_size=2))
            case "output":
                query["exact_attention_output"] = data.draw(st.lists(hot, min_size=8, max_size=8))
            case "projection":
                fields["output_projection"][0] = data.draw(st.lists(hot, min_size=8, max_size=8))
    measurement = loads_and_measures_or_refuses(fields)
    if measurement is not None:
        assert (np.abs(np.nan_to_num(measurement.metrics["output_cosine_mean"])) <= 1.0 + 1e-9).all()


def as_arrays(fields):
    """The fields with tensors as arrays."""
    fields = copy.deepcopy(fields)
    fields["output_projection"] = np.array(fields["output_projection"], np.float32)
    for query in fields["queries"]:
        for name, value in query.items():
            if isinstance(value, list):
                query[name] = np.array(value, np.float32)
    return fields


def constructed(fields):
    """The fixture, made by the constructors."""
    with annotations_unchecked():
        queries = tuple(CapturedReplayQuery(**query) for query in fields["queries"])
        return CapturedReplayFixture(**{**fields, "queries": queries})


def test_a_fixture_may_be_made_of_arrays():
    """Constructed and from_dict alike: the same fixture as from JSON, with numpy integers as scalars too."""
    fields = as_arrays(VALID)
    fields["seed"], fields["head_dim"] = np.uint64(7), np.int64(8)
    assert constructed(fields).digest == load_fixture(TEXT).digest
    assert CapturedReplayFixture.from_dict(fields).digest == load_fixture(TEXT).digest
    assert type(constructed(fields).seed) is int


def test_a_fixture_may_be_made_of_float64_and_float16_arrays():
    """Other float types are rounded to float32."""
    fields = as_arrays(VALID)
    fields["queries"][0]["keys"] = fields["queries"][0]["keys"].astype(np.float64)
    assert constructed(fields).digest == load_fixture(TEXT).digest
    fields["queries"][0]["keys"] = fields["queries"][0]["keys"].astype(np.float16)
    assert constructed(fields).queries[0].keys.dtype == np.float32


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        (
            "keys",
            np.full((6, 8), np.nan, np.float32),
            "query 1, keys row 0, column 0 is nan; expected a number that is",
        ),
        (
            "query",
            np.full(8, np.inf, np.float32),
            "query 1, query, column 0 is inf; expected a number that is finite in float32",
        ),
        ("keys", np.full((6, 8), 1e39), "query 1, keys row 0, column 0 is 1e+39; expected a number that is finite"),
        ("keys", np.full((6, 8), "1.0"), "query 1, keys row 0, column 0 is '1.0'; expected a number"),
        ("keys", np.full((6, 8), b"1"), "query 1, keys row 0, column 0 is b'1'; expected a number"),
        ("keys", np.full((6, 8), True), "query 1, keys row 0, column 0 is true; expected a number"),
        ("keys", np.full((6, 8), 1j), "query 1, keys row 0, column 0 is 1j; expected a number"),
        ("keys", np.full((6, 8), None), "query 1, keys row 0, column 0 is null; expected a number"),
        ("keys", np.zeros((6, 8), "datetime64[s]"), "query 1, keys row 0, column 0 is "),
        ("keys", np.ones((6, 7), np.float32), "query 1, keys row 0 has 7 numbers; expected head_dim = 8"),
        ("keys", np.ones((0, 8), np.float32), "query 1 has 0 keys and 6 values; expected as many"),
        ("keys", np.ones((6, 8, 1), np.float32), "query 1, keys row 0, column 0 is a list of 1; expected a number"),
        ("keys", np.ones(48, np.float32), "query 1, keys row 0 is "),
        ("keys", np.ones((), np.float32), "query 1, keys is "),
        ("values", np.ones((7, 8), np.float32), "query 1 has 6 keys and 7 values; expected as many, and at least one"),
        ("query", np.ones((1, 8), np.float32), "query 1, query has 1 numbers; expected head_dim = 8"),
        ("query", np.ones((), np.float32), "query 1, query is "),
        ("query", np.ones(9, np.float32), "query 1, query has 9 numbers; expected head_dim = 8"),
        (
            "exact_logits",
            np.ones(4, np.float32),
            "query 1, exact_logits has 4 numbers; expected rows of output_projection",
        ),
        ("label_token", np.float32(1.0), "query 1, label_token is "),
        ("label_token", np.bool_(1), "query 1, label_token is "),
    ],
)
def test_arrays_are_checked_as_lists_are(name, array, message):
    """Wrong values, types and shapes of arrays are refused with their place, by either way to make a fixture."""
    fields = as_arrays(VALID)
    fields["queries"][1][name] = array
    for make in (constructed, CapturedReplayFixture.from_dict):
        with pytest.raises(FixtureError) as refused:
            make(fields)
        assert str(refused.value).startswith(message)


def test_integer_arrays_are_numbers():
    """A whole-number array is taken as the numbers it holds."""
    fields = as_arrays(VALID)
    fields["queries"][0]["keys"] = np.arange(48).reshape(6, 8)
    np.testing.assert_array_equal(constructed(fields).queries[0].keys, np.arange(48).reshape(6, 8))


def test_arrays_of_a_fixture_are_read_only_copies():
    """Nobody can change a fixture afterwards: not through the arrays it was made of, not through its own."""
    fields = as_arrays(VALID)
    fixture = constructed(fields)
    digest = load_fixture(TEXT).digest
    given_arrays = [
        fields["output_projection"],
        *(a for q in fields["queries"] for a in q.values() if isinstance(a, np.ndarray)),
    ]
    held = [fixture.output_projection]
    for query in fixture.queries:
        held += [query.query, query.keys, query.values, query.exact_attention_output, query.exact_logits]
    for array in held:
        assert not any(np.shares_memory(array, other) for other in given_arrays)
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
    for array in given_arrays:
        array[...] = 0.0
    assert fixture.digest == digest


def test_a_fixture_and_its_queries_are_frozen():
    """Fields cannot be set."""
    fixture = load_fixture(TEXT)
    with pytest.raises(AttributeError):
        fixture.seed = 1
    with pytest.raises(AttributeError):
        fixture.queries[0].label_token = 1


def test_the_digest_is_of_the_content():
    """JSON however it is laid out, gzip, arrays and number spellings of the same fixture have one digest."""
    reordered = {name: VALID[name] for name in reversed(VALID)}
    exact = copy.deepcopy(VALID)
    exact["queries"][0]["query"][0] = float(np.float32(exact["queries"][0]["query"][0])) * (1 + 1e-12)
    fixtures = [
        load_fixture(TEXT),
        load_fixture(json.dumps(VALID, indent=3).encode()),
        load_fixture(encoded(reordered)),
        load_fixture(encoded(exact)),
        load_fixture(gzip.compress(TEXT)),
        constructed(as_arrays(VALID)),
    ]
    assert len({fixture.digest for fixture in fixtures}) == 1
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", fixtures[0].digest)


@given(path=st.sampled_from([path for path in nodes(VALID) if len(path) >= 3 and path[-1] != "label_token"]))
def test_the_digest_changes_with_any_number(path):
    """One number of one tensor, moved by one float32."""
    node = VALID
    for step in path:
        node = node[step]
    while isinstance(node, list):
        path, node = (*path, 0), node[0]
    moved = float(np.nextafter(np.float32(node), np.float32(np.inf)))
    assert load_fixture(encoded(changed(VALID, *path, to=moved))).digest != load_fixture(TEXT).digest


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("seed",), 8),
        (("model_id",), "another"),
        (("shared_tokens",), 3),
        (("schema_version",), "another"),
        (("queries", 0, "label_token"), 0),
        (("queries", 0, "label_token"), 1),
        (("queries", 0, "label_token"), 2),
    ],
)
def test_the_digest_changes_with_any_scalar(path, value):
    """Seed, names, split and labels are content."""
    fields = changed(VALID, *path, to=value)
    same = fields == VALID
    assert (load_fixture(encoded(fields)).digest == load_fixture(TEXT).digest) == same


def test_the_digest_changes_with_the_order_of_queries_and_rows():
    """What is moved is not the same fixture."""
    digests = {load_fixture(TEXT).digest}
    digests.add(load_fixture(encoded(changed(VALID, "queries", to=VALID["queries"][::-1]))).digest)
    rows = VALID["queries"][0]["keys"]
    digests.add(load_fixture(encoded(changed(VALID, "queries", 0, "keys", to=rows[::-1]))).digest)
    one = changed(VALID, "queries", 0, "keys", to=VALID["queries"][0]["values"])
    digests.add(load_fixture(encoded(changed(one, "queries", 0, "values", to=rows))).digest)
    assert len(digests) == 4


def test_a_file_that_ends_in_the_middle_is_said_to_be_cut_off():
    """Where the parser runs into the end of the text, the message says what probably happened."""
    assert refusal(TEXT[: TEXT.index(b"]")]).endswith("; the file seems to be cut off, copy it again")
    assert refusal(b'{"model_id": "m').endswith("; the file seems to be cut off, copy it again")
    assert "cut off" not in refusal(TEXT.replace(b"]", b"}", 1))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model/one_layer_two_heads/case.json", "a model-replay case (polykv model-replay takes it)"),
        ("captured/d16_basic/receipt.json", "a receipt"),
        ("captured/d16_basic/config.json", "a config (polykv replay FIXTURE --config takes it)"),
    ],
)
def test_another_kind_of_file_is_called_by_its_name(name, kind):
    """Nobody is told to add a fixture's fields to a file that was meant for something else."""
    assert refusal(stored(GOLDEN / name)) == f"the file is {kind}, not a captured fixture"
