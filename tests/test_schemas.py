"""The JSON Schemas of docs/: they take what the readers take, say what each field is, and refuse what is none."""

import copy
import json
import sys
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support import (
    BESIDE,
    ROOT,
    SAMPLES,
    captured_cases,
    changed,
    encoded,
    fixture_fields,
    leaves,
    model_cases,
    read_golden,
    refused_with,
    without_k_zero,
)

from polykv_core import (
    GATES,
    THRESHOLDS,
    CandidateReplayMetrics,
    CapturedReplayConfig,
    CapturedReplayReceipt,
    FixtureError,
    ModelReplayMetrics,
    ModelReplayReceipt,
    ReceiptError,
    ReplayOptions,
    load_fixture,
    load_model_case,
    run_captured_model_replay,
    run_model_case,
)

SCHEMAS = {
    name: json.loads((ROOT / "docs" / f"{name}.schema.json").read_text(encoding="utf-8"))
    for name in ("fixture", "receipt")
}
FIXTURE_SCHEMA, RECEIPT_SCHEMA = (Draft202012Validator(SCHEMAS[name]) for name in ("fixture", "receipt"))
FIXTURE_FIELDS = fixture_fields()
FIXTURE = load_fixture(encoded(FIXTURE_FIELDS))
CONFIG = CapturedReplayConfig((2, 6), min_output_cosine=0.99)
FIELDS = json.loads(run_captured_model_replay(FIXTURE, CONFIG).to_json())
VERDICT = {name: value for name, value in FIELDS.items() if name != "provenance"}
MODEL = [case for case in model_cases() if case.error is None]
MODEL_FIELDS = MODEL[0].receipt
CAPTURED = [case for case in captured_cases() if any(case.config["candidate_ks"])]
# Those beside the checkout would take long, and say nothing new of a fixture.
HERE = [case for case in CAPTURED if BESIDE not in case.folder.parents]
WRONG = (None, "x", -0.5, True, [], {})


def faults(schema, value):
    """What a schema has against a value, in short."""
    return [f"{fault.json_path}: {fault.message[:80]}" for fault in schema.iter_errors(value)]


def without(value, path):
    """A deep copy of JSON fields with one of them left out."""
    value = copy.deepcopy(value)
    node = value
    for step in path[:-1]:
        node = node[step]
    del node[path[-1]]
    return value


def objects(schema, place=""):
    """Every part of a schema that describes an object's fields, with its place."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            yield place, schema
        for name, inner in schema.items():
            yield from objects(inner, f"{place}/{name}")


def field_paths(value):
    """The path of every field of every object in a JSON value; of a list's entries, the first stands for all."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (name,)
            yield from ((name, *path) for path in field_paths(inner))
    elif isinstance(value, list) and value:
        yield from ((0, *path) for path in field_paths(value[0]))


def kinds_of_leaves(value):
    """A path to one leaf of each kind: lists' first entries stand for the others."""
    return [(path, leaf) for path, leaf in leaves(value) if not any(type(step) is int and step for step in path)]


def named(paths):
    """Parametrise over paths."""
    paths = list(paths)
    return pytest.mark.parametrize("path", paths, ids=[".".join(map(str, path)) for path in paths])


# The schemas themselves


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one(name):
    """Of draft 2020-12, with a title."""
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMAS[name]["title"]
    Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_field_is_described(name):
    """By itself or where it refers to; required are only fields that there are, and unknown ones stay allowed."""
    definitions = SCHEMAS[name]["$defs"]
    for place, part in objects(SCHEMAS[name]):
        assert part["description"], place
        assert set(part.get("required", [])) <= set(part["properties"]), place
        assert "additionalProperties" not in part, place
        for field, inner in part["properties"].items():
            referred = definitions[inner["$ref"].rpartition("/")[2]] if "$ref" in inner else inner
            assert inner.get("description") or referred["description"], f"{place}/{field}"


def test_every_metric_says_its_direction():
    """In the candidates, the selected one and the intervals."""
    definitions = SCHEMAS["receipt"]["$defs"]
    for gate in GATES:
        for part in ("candidate", "metrics", "intervals"):
            text = definitions[part]["properties"][gate.metric]["description"]
            assert "is better" in text, (part, gate.metric)
        assert "Passes where" in definitions["captured_config"]["properties"][gate.threshold]["description"]
    assert "nats" in definitions["candidate"]["properties"]["kl_divergence_mean"]["description"]


def test_the_schema_s_fields_are_the_receipt_s():
    """Names and order, as the dataclasses have them."""
    definitions = SCHEMAS["receipt"]["$defs"]
    for name, described in (("candidate", CandidateReplayMetrics), ("metrics", ModelReplayMetrics)):
        names = [field.name for field in fields(described)]
        assert definitions[name]["required"] == list(definitions[name]["properties"]) == names
    assert [*definitions["captured_config"]["properties"]] == [*CONFIG.to_dict(), "statistic"]
    assert [*definitions["model_config"]["properties"]] == [*MODEL_FIELDS["config"], "statistic"]
    assert [*SCHEMAS["receipt"]["properties"]] == [*FIELDS]
    assert definitions["provenance"]["properties"]["gates_off"]["items"]["enum"] == list(THRESHOLDS)


def test_nothing_in_a_receipt_is_undescribed():
    """With unknown fields forbidden our receipts are still taken: the schema knows each of them."""
    strict = copy.deepcopy(SCHEMAS["receipt"])
    for _, part in objects(strict):
        part["additionalProperties"] = False
    schema = Draft202012Validator(strict)
    for receipt in (FIELDS, VERDICT, MODEL_FIELDS):
        assert faults(schema, receipt) == []
    assert faults(schema, {**FIELDS, "more": 1}) != []
    assert faults(schema, changed(FIELDS, "provenance", "statistics", "more", to=1)) != []


# What they take


@pytest.mark.parametrize("case", HERE, ids=[case.name for case in HERE])
def test_a_fixture_is_taken(case):
    """Every golden one and the real heads of the samples."""
    assert faults(FIXTURE_SCHEMA, read_golden(case.input)) == []


@pytest.mark.parametrize("name", ["synthetic_d16_basic.json", "synthetic_d64_sink.json"])
def test_a_sample_is_taken(name):
    """As it ships."""
    assert faults(FIXTURE_SCHEMA, read_golden(SAMPLES / name)) == []


@pytest.mark.parametrize("case", CAPTURED, ids=[case.name for case in CAPTURED])
def test_a_captured_receipt_is_taken(case):
    """The crate's, and ours of the same case where it is here, with provenance and without."""
    config, receipt = without_k_zero(case)
    assert faults(RECEIPT_SCHEMA, receipt) == []
    if case in HERE:
        ours = run_captured_model_replay(load_fixture(case.input), CapturedReplayConfig.from_dict(config))
        assert faults(RECEIPT_SCHEMA, json.loads(ours.to_json())) == []


@pytest.mark.parametrize("case", MODEL, ids=[case.name for case in MODEL])
def test_a_model_receipt_is_taken(case):
    """The crate's and ours."""
    assert faults(RECEIPT_SCHEMA, case.receipt) == []
    assert faults(RECEIPT_SCHEMA, json.loads(run_model_case(load_model_case(case.input)).to_json())) == []


ALL_OFF = dict(zip(THRESHOLDS, (-1.0, *[sys.float_info.max] * 3, 0.0), strict=True))


@pytest.mark.parametrize("gates", [{}, ALL_OFF], ids=["on", "off"])
@pytest.mark.parametrize("statistic", ["mean", "p95", "worst"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"attention_scale": "inverse_sqrt_head_dim", "query_coding": "exact"},
        {"attention_scale": 0.3, "pool_codec": "fib_k4_n64", "shell_codec": "turbo_12bit_p64"},
        {"pool_codec": "exact", "shell_codec": "exact"},
    ],
)
@pytest.mark.parametrize("queries", [1, 12])
def test_each_kind_of_receipt_is_taken(options, statistic, gates, queries):
    """Whatever was replayed and how: few queries have neither intervals nor standard errors, many have both."""
    fixture = load_fixture(encoded(fixture_fields(queries=queries)))
    config = CapturedReplayConfig((1, 2, 2**64 - 1), statistic=statistic, **gates)
    receipt = run_captured_model_replay(fixture, config, ReplayOptions(**options))
    assert faults(RECEIPT_SCHEMA, json.loads(receipt.to_json())) == []


def test_unknown_fields_are_taken():
    """As the readers do: a capture script's notes, and what a newer receipt may hold."""
    assert faults(FIXTURE_SCHEMA, {**changed(FIXTURE_FIELDS, "queries", 0, "prompt", to="x"), "notes": [1]}) == []
    assert faults(RECEIPT_SCHEMA, {**changed(FIELDS, "provenance", "more", to=1), "more": {}}) == []


# What they refuse


@named(field_paths(FIXTURE_FIELDS))
def test_a_fixture_without_a_field_is_refused(path):
    """By schema and reader alike."""
    fixture = without(FIXTURE_FIELDS, path)
    assert len(faults(FIXTURE_SCHEMA, fixture)) == 1
    assert refused_with(FixtureError, lambda: load_fixture(encoded(fixture))) is not None


@named(path for path, _ in kinds_of_leaves(FIXTURE_FIELDS))
def test_a_fixture_with_a_wrong_type_is_refused(path):
    """At the leaf and at each list or object above it, by schema and reader alike."""
    for length in range(1, len(path) + 1):
        at = path[:length]
        kept = FIXTURE_FIELDS
        for step in at:
            kept = kept[step]
        for wrong in WRONG:
            fine = isinstance(kept, str) and isinstance(wrong, str)
            fine |= isinstance(kept, float) and type(wrong) is float
            if not fine:
                fixture = changed(FIXTURE_FIELDS, *at, to=wrong)
                assert faults(FIXTURE_SCHEMA, fixture), (at, wrong)
                assert refused_with(FixtureError, lambda data=fixture: load_fixture(encoded(data))), (at, wrong)


odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not number.is_integer()),
    st.text(max_size=3),
    st.sampled_from(
        [0, -1, 2**64 - 1, 2**64, 10**399, 3.4028235e38, 3.4028235677973366e38, [], {}, [1.0], [[1.0] * 8]]
    ),
)


@given(data=st.data())
def test_what_the_fixture_s_schema_refuses_the_reader_refuses(data):
    """With any value, list or object replaced by another: the schema is nowhere narrower than the reader."""
    path, _ = data.draw(st.sampled_from(list(leaves(FIXTURE_FIELDS))))
    path = path[: data.draw(st.integers(1, len(path)))]
    fixture = changed(FIXTURE_FIELDS, *path, to=data.draw(odd_values))
    if faults(FIXTURE_SCHEMA, fixture):
        assert refused_with(FixtureError, lambda: load_fixture(encoded(fixture))) is not None


RECEIPTS = {"captured": (CapturedReplayReceipt, VERDICT), "model": (ModelReplayReceipt, MODEL_FIELDS)}
receipts = pytest.mark.parametrize(("receipt_class", "fields"), RECEIPTS.values(), ids=RECEIPTS)


@receipts
def test_a_receipt_without_a_field_is_refused(receipt_class, fields):
    """By schema and reader alike; a config must be complete, as the crate asks, though our reader has defaults."""
    for path in field_paths(fields):
        receipt = without(fields, path)
        assert faults(RECEIPT_SCHEMA, receipt), path
        if path[0] != "config" or path == ("config",):
            assert refused_with(ReceiptError, lambda data=receipt: receipt_class.from_dict(data)), path


@receipts
def test_a_receipt_with_a_wrong_type_is_refused(receipt_class, fields):
    """Every leaf, by schema and reader alike."""
    for path, kept in kinds_of_leaves(fields):
        for wrong in WRONG:
            fine = type(wrong) is type(kept) or (type(kept) is float and type(wrong) is float)
            if not fine:
                receipt = changed(fields, *path, to=wrong)
                assert faults(RECEIPT_SCHEMA, receipt), (path, wrong)
                assert refused_with(ReceiptError, lambda data=receipt: receipt_class.from_dict(data)), (path, wrong)


@receipts
@pytest.mark.parametrize("wrong", [-1, 2**64, 1.5])
def test_what_no_count_can_be_is_refused(receipt_class, fields, wrong):
    """Below 0, beyond 64 bits, and no whole number, by schema and reader alike."""
    for path, kept in kinds_of_leaves(fields):
        if type(kept) is int:
            receipt = changed(fields, *path, to=wrong)
            assert faults(RECEIPT_SCHEMA, receipt), path
            assert refused_with(ReceiptError, lambda data=receipt: receipt_class.from_dict(data)), path


@receipts
def test_a_receipt_without_candidates_is_refused(receipt_class, fields):
    """By schema and reader alike."""
    receipt = {**fields, "candidate_results": []}
    assert faults(RECEIPT_SCHEMA, receipt)
    assert refused_with(ReceiptError, lambda: receipt_class.from_dict(receipt))


@named(path for path in field_paths(FIELDS["provenance"]) if path[:1] != ("intervals",) or len(path) != 2)
def test_a_provenance_without_a_field_is_refused(path):
    """All of it belongs to its schema_version; only which intervals there are depends on the numbers."""
    receipt = without(FIELDS, ("provenance", *path))
    assert bool(faults(RECEIPT_SCHEMA, receipt)) == (path != ("schema_version",))


@named(path for path, _ in kinds_of_leaves(FIELDS["provenance"]) if path != ("schema_version",))
def test_a_provenance_with_a_wrong_type_is_refused(path):
    """Every leaf of it; a number may be null, where it was not finite."""
    for wrong in ({}, [], "\n"):
        if path[-1] not in ("text", "title", "errors_withheld", "code", "polykv", "python", "numpy") or wrong != "\n":
            assert faults(RECEIPT_SCHEMA, changed(FIELDS, "provenance", *path, to=wrong)), (path, wrong)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("options", "attention_scale"), 0),
        (("options", "attention_scale"), "half"),
        (("options", "query_coding"), "none"),
        (("options", "pool_codec"), "zip"),
        (("fixture", "digest"), "sha256:0"),
        (("fixture", "seed"), -1),
        (("receipt_digest",), None),
        (("gates_off",), ["max_output_mse", "max_output_mse"]),
        (("gates_off",), ["output_mse"]),
        (("queries", "rows", 0), 0),
        (("queries", "candidates"), []),
    ],
)
def test_a_provenance_that_says_nothing_is_refused(path, value):
    """Options that no replay has, digests that are none."""
    assert len(faults(RECEIPT_SCHEMA, changed(FIELDS, "provenance", *path, to=value))) == 1


@pytest.mark.parametrize("gates_off", [[], ["max_ppl_delta"]])
def test_a_model_receipt_s_provenance_tells_of_gates_alone(gates_off):
    """It has no schema_version, and nothing else is asked of it."""
    assert faults(RECEIPT_SCHEMA, {**MODEL_FIELDS, "provenance": {"gates_off": gates_off}}) == []
