"""Receipts: written whole or not at all, read back equal, refused with their place."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import GOLDEN, changed, encoded, fixture_fields, leaves, read_golden, refused_with, stored

from polykv_core import (
    REFERENCE,
    CapturedReplayConfig,
    CapturedReplayReceipt,
    ExactCodec,
    FibQuant,
    ModelReplayReceipt,
    PolyKvError,
    ReceiptError,
    ReplayOptions,
    TurboQuant,
    judge,
    load_fixture,
    load_model_case,
    measure,
    run_captured_model_replay,
    run_model_case,
)

GOLDEN_RECEIPT = read_golden(GOLDEN / "captured" / "d8_unscaled" / "receipt.json")
MODEL_RECEIPT = read_golden(GOLDEN / "model" / "one_layer_two_heads" / "receipt.json")
RECEIPT = run_captured_model_replay(load_fixture(encoded(fixture_fields())), CapturedReplayConfig((2, 6)))
FIELDS = json.loads(RECEIPT.to_json())
VERDICT = {name: value for name, value in FIELDS.items() if name != "provenance"}


def test_a_receipt_survives_the_round_trip():
    """Read back it is equal, from text, bytes and a file object, and writes the same bytes again."""
    text = RECEIPT.to_json()
    assert CapturedReplayReceipt.from_json(text) == RECEIPT
    assert CapturedReplayReceipt.from_json(text.encode()) == RECEIPT
    assert CapturedReplayReceipt.from_json(text).to_json() == text
    assert CapturedReplayReceipt.from_dict(RECEIPT.to_dict()) == RECEIPT


def test_a_receipt_file_is_read(tmp_path):
    """From a path; a string is the JSON text itself and never taken for a path."""
    path = tmp_path / "receipt.json"
    path.write_text(RECEIPT.to_json(), encoding="utf-8")
    assert CapturedReplayReceipt.from_json(path) == RECEIPT
    with pytest.raises(ReceiptError, match=r"^no valid JSON at line 1, column 1"):
        CapturedReplayReceipt.from_json(str(path))


def test_a_receipt_s_text_ends_with_one_newline_and_keeps_letters():
    """Two-space indent, no escapes for letters, a newline at the end."""
    text = replace(RECEIPT, model_id="Kopf \N{LATIN SMALL LETTER U WITH DIAERESIS}\N{GRINNING FACE}").to_json()
    assert text.endswith("}\n")
    assert not text.endswith("\n\n")
    assert '\n  "model_id": "Kopf \N{LATIN SMALL LETTER U WITH DIAERESIS}\N{GRINNING FACE}",\n' in text
    assert CapturedReplayReceipt.from_json(text).model_id.startswith("Kopf ")


def test_schema_and_claim_boundary_are_the_reference_s():
    """The texts by which the crate knows its receipts."""
    for name in ("schema_version", "claim_boundary"):
        assert FIELDS[name] == GOLDEN_RECEIPT[name]
    assert MODEL_RECEIPT["schema_version"] == "poly_kv_model_replay_receipt_v1"


def test_the_metrics_are_those_of_the_selected_candidate():
    """And count the queries three times over, as the reference does."""
    selected = next(c for c in FIELDS["candidate_results"] if c["candidate_k"] == FIELDS["selected_candidate_k"])
    counts = ("query_count", "exact_attention_outputs", "logit_vectors_compared")
    assert [FIELDS["metrics"][name] for name in counts] == [2, 2, 2]
    for name in set(FIELDS["metrics"]) - set(counts):
        assert FIELDS["metrics"][name] == selected[name]
    assert (FIELDS["passed"], FIELDS["blockers"]) == (selected["passed"], selected["blockers"])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "metric", ["output_cosine_mean", "kl_divergence_mean", "ppl_proxy_exact", "ppl_proxy_delta", "decode_reduction"]
)
def test_a_receipt_with_a_number_that_is_not_finite_is_not_written(metric, value):
    """The error names the place; nothing is written half."""
    results = list(RECEIPT.candidate_results)
    results[1] = replace(results[1], **{metric: value})
    with pytest.raises(ReceiptError) as refused:
        replace(RECEIPT, candidate_results=tuple(results)).to_json()
    assert str(refused.value).startswith(
        f"candidate_results[1], {metric} is {value}; a receipt holds finite numbers only"
    )
    with pytest.raises(ReceiptError, match=f"^metrics, {metric} is {value}; "):
        replace(RECEIPT, metrics=replace(RECEIPT.metrics, **{metric: value})).to_json()


OFF = {
    "min_output_cosine": -1.0,
    "max_output_mse": sys.float_info.max,
    "max_kl_divergence": sys.float_info.max,
    "max_ppl_delta": sys.float_info.max,
    "min_top1_agreement": 0.0,
}


@pytest.mark.parametrize("off", [(), ("max_kl_divergence",), tuple(OFF)])
def test_a_receipt_says_which_gates_were_off(off):
    """In its provenance, by the names of their thresholds; with every gate on the list is empty."""
    config = CapturedReplayConfig((2,), **{name: OFF[name] for name in off})
    fields = json.loads(judge(RECEIPT.measurement, config).to_json())
    assert list(fields) == [*VERDICT, "provenance"]
    assert fields["provenance"]["gates_off"] == list(off)
    assert CapturedReplayReceipt.from_json(json.dumps(fields)).config == config


@pytest.mark.parametrize("off", [(), ("max_kl_divergence",), tuple(OFF)])
def test_a_model_receipt_says_which_gates_were_off(off):
    """In one object behind all others, `provenance`; with every gate on there is none."""
    case = load_model_case(stored(GOLDEN / "model" / "one_layer_two_heads" / "case.json"))
    config = replace(case.config, **{name: OFF[name] for name in off})
    fields = json.loads(run_model_case(replace(case, config=config)).to_json())
    assert list(fields) == [*MODEL_RECEIPT, *(["provenance"] if off else [])]
    assert fields.get("provenance", {}) == ({"gates_off": list(off)} if off else {})
    assert ModelReplayReceipt.from_json(json.dumps(fields)).config == config


def test_unknown_fields_are_ignored():
    """At the top and below, as the crate does: a newer receipt can be read."""
    fields = changed(FIELDS, "provenance", to={"digest": "sha256:0"})
    fields["metrics"]["more"] = 1
    fields["candidate_results"][0]["more"] = [1]
    assert CapturedReplayReceipt.from_json(json.dumps(fields)) == RECEIPT


@pytest.mark.parametrize("missing", VERDICT)
def test_a_missing_field_is_named(missing):
    """Every field of the reference is needed."""
    fields = {name: value for name, value in FIELDS.items() if name != missing}
    with pytest.raises(ReceiptError, match=f"^the receipt has no field '{missing}'; add it$"):
        CapturedReplayReceipt.from_json(json.dumps(fields))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("schema_version",), 1, "the receipt, schema_version is 1; expected a string"),
        (("model_id",), None, "the receipt, model_id is null; expected a string"),
        (("passed",), 0, "the receipt, passed is 0; expected true or false"),
        (("passed",), "true", "the receipt, passed is 'true'; expected true or false"),
        (
            ("selected_candidate_k",),
            2.0,
            "the receipt, selected_candidate_k is 2.0; expected a whole number from 0 to 2^64 - 1",
        ),
        (("selected_candidate_k",), True, "the receipt, selected_candidate_k is true; expected a whole number"),
        (("blockers",), "none", "the receipt, blockers is 'none'; expected a list"),
        (("blockers",), [1], "the receipt, blockers[0] is 1; expected a string"),
        (("candidate_results",), {}, "the receipt, candidate_results is a JSON object of 0; expected a list"),
        (("candidate_results", 1), [], "the receipt, candidate_results[1] is a list of 0; expected a JSON object"),
        (
            ("candidate_results", 1, "output_mse_mean"),
            "0",
            "the receipt, candidate_results[1], output_mse_mean is '0'; expected a number",
        ),
        (
            ("candidate_results", 0, "passed"),
            None,
            "the receipt, candidate_results[0], passed is null; expected true or false",
        ),
        (
            ("candidate_results", 0, "candidate_k"),
            -1,
            "the receipt, candidate_results[0], candidate_k is -1; expected a whole",
        ),
        (("metrics",), None, "the receipt, metrics is null; expected a JSON object"),
        (("metrics", "query_count"), 1.5, "the receipt, metrics, query_count is 1.5; expected a whole number"),
        (
            ("metrics", "output_cosine_mean"),
            True,
            "the receipt, metrics, output_cosine_mean is true; expected a number",
        ),
        (("config",), [], "the receipt, config is a list of 0; expected a JSON object"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(path, value, message):
    """Wherever it stands."""
    with pytest.raises(ReceiptError) as refused:
        CapturedReplayReceipt.from_json(json.dumps(changed(FIELDS, *path, to=value)))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({}, "candidate_ks"),
        ({"candidate_ks": [0]}, "candidate_ks entry 0 is 0; expected a whole number from 1"),
        ({"candidate_ks": [8], "max_output_mse": None}, "max_output_mse is null; expected a number"),
    ],
)
def test_a_receipt_whose_config_is_faulty_is_refused(config, text):
    """The config is checked as any other, and its field is named."""
    with pytest.raises(PolyKvError) as refused:
        CapturedReplayReceipt.from_json(json.dumps(changed(FIELDS, "config", to=config)))
    assert text in str(refused.value)


@pytest.mark.parametrize("literal", ["NaN", "Infinity"])
def test_a_receipt_file_with_nan_is_refused(literal):
    """Python would read it; it is no JSON, and no metric."""
    text = json.dumps(changed(FIELDS, "metrics", "output_cosine_mean", to="PUT")).replace('"PUT"', literal)
    with pytest.raises(ReceiptError, match=f"^metrics.output_cosine_mean is {literal}, which is not JSON"):
        CapturedReplayReceipt.from_json(text)


@pytest.mark.parametrize("receipt_class", [CapturedReplayReceipt, ModelReplayReceipt])
@pytest.mark.parametrize("text", ["", "[]", "null", '"x"', "{", "{}", "[" * 100_000])
def test_what_is_no_receipt_is_refused(receipt_class, text):
    """Other JSON and no JSON are ReceiptErrors."""
    with pytest.raises(ReceiptError):
        receipt_class.from_json(text)


odd_values = st.sampled_from(
    [None, True, 0, -1, 1.5, 2**64, 10**400, 1e999, "", "x", "\ud800", [], {}, [None], {"a": 1}, [[]]]
)


@pytest.mark.parametrize(
    ("receipt_class", "fields"),
    [(CapturedReplayReceipt, FIELDS), (ModelReplayReceipt, MODEL_RECEIPT)],
    ids=["captured", "model"],
)
@given(data=st.data())
def test_any_other_value_anywhere_is_read_or_refused(receipt_class, fields, data):
    """A receipt with one value, list or object replaced reads, or raises PolyKvError, nothing else."""
    path, _ = data.draw(st.sampled_from(list(leaves(fields))))
    path = path[: data.draw(st.integers(1, len(path)))]
    mutated = changed(fields, *path, to=data.draw(odd_values))
    refused = refused_with(PolyKvError, lambda: receipt_class.from_json(json.dumps(mutated)))
    assert refused is None or refused.isprintable()


OPTIONS = {
    "scale": {"attention_scale": 0.25},
    "root": {"attention_scale": "inverse_sqrt_head_dim"},
    "query": {"query_coding": "exact"},
    "pool": {"pool_codec": "exact"},
    "shell": {"shell_codec": "turbo_12bit_p64"},
    "all": {
        "attention_scale": 0.25,
        "query_coding": "exact",
        "pool_codec": "fib_k4_n64",
        "shell_codec": "exact",
    },
}
FIXTURE = load_fixture(encoded(fixture_fields()))
CAPTURED_SCHEMA = "poly_kv_captured_model_replay_v1"
MODEL_SCHEMA = "poly_kv_model_replay_receipt_v1"
OTHER_STATISTICS = pytest.mark.parametrize("statistic", ["worst", "p95"])


@pytest.mark.parametrize(
    ("receipt_class", "fields"),
    [(CapturedReplayReceipt, FIELDS), (ModelReplayReceipt, MODEL_RECEIPT)],
    ids=["captured", "model"],
)
@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_receipt_without_its_selected_candidate_is_refused(receipt_class, fields, left):
    """No candidates at all, or not the one whose numbers it states: it was cut off, or put together."""
    results = fields["candidate_results"][:left]
    listed = ", ".join(str(result["candidate_k"]) for result in results) or "none"
    fields = {**fields, "candidate_results": results, "selected_candidate_k": 99}
    with pytest.raises(ReceiptError) as refused:
        receipt_class.from_json(json.dumps(fields))
    assert str(refused.value) == (
        f"the receipt, selected_candidate_k is 99, and candidate_results has {listed}; "
        "it was cut off or put together from several"
    )


def shape_of(value):
    """The names of a JSON value's fields, in order, all the way down; the first of a list's objects stands for all."""
    if isinstance(value, list) and value:
        return shape_of(value[0])
    return [(name, shape_of(inner)) for name, inner in value.items()] if isinstance(value, dict) else None


@pytest.mark.parametrize("options", [{}, {"options": ReplayOptions()}], ids=["none", "defaults"])
def test_a_receipt_of_the_reference_s_replay_has_its_fields_and_no_others(options):
    """But for provenance, last, names and order are the golden receipt's, without a statistic; so is the schema."""
    folder = GOLDEN / "captured" / "d8_unscaled"
    config = CapturedReplayConfig.from_dict(read_golden(folder / "config.json"))
    receipt = run_captured_model_replay(load_fixture(stored(folder / "fixture.json")), config, **options)
    fields = json.loads(receipt.to_json())
    assert list(fields)[-1] == "provenance"
    assert fields.pop("provenance")["options"] == REFERENCE.to_dict()
    assert shape_of(fields) == shape_of(GOLDEN_RECEIPT)
    assert fields["schema_version"] == GOLDEN_RECEIPT["schema_version"] == CAPTURED_SCHEMA
    assert fields["config"] == GOLDEN_RECEIPT["config"]


def test_defaults_spelled_out_write_the_same_bytes():
    """Nobody sees from a receipt that the reference's own values were asked for by name."""
    options = ReplayOptions("reference", "compressed", "fib_k4_n32", "turbo_8bit")
    config = CapturedReplayConfig((2, 6), statistic="mean")
    assert run_captured_model_replay(FIXTURE, config, options).to_json() == RECEIPT.to_json()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_receipt_says_what_was_not_the_reference_s(options):
    """Another schema, all four options in `provenance`, and all else in its place."""
    receipt = run_captured_model_replay(FIXTURE, CapturedReplayConfig((2, 6)), ReplayOptions(**options))
    fields = json.loads(receipt.to_json())
    assert fields["schema_version"] == f"{CAPTURED_SCHEMA}_with_options"
    assert fields.pop("provenance")["options"] == {**REFERENCE.to_dict(), **options}
    assert shape_of(fields) == shape_of(VERDICT)
    assert fields["config"] == FIELDS["config"]


@OTHER_STATISTICS
def test_a_receipt_says_which_statistic_was_held_against_the_gates(statistic):
    """In its config, last; the schema is another one, and the options stay the reference's."""
    receipt = run_captured_model_replay(FIXTURE, CapturedReplayConfig((2, 6), statistic=statistic))
    fields = json.loads(receipt.to_json())
    assert fields["schema_version"] == f"{CAPTURED_SCHEMA}_with_options"
    assert list(fields["config"].items()) == [*FIELDS["config"].items(), ("statistic", statistic)]
    assert fields["provenance"]["options"] == REFERENCE.to_dict()
    assert CapturedReplayReceipt.from_json(receipt.to_json()) == receipt


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_receipt_with_options_survives_the_round_trip(options):
    """Read back it is equal, its options and statistic included, and writes the same bytes again."""
    config = CapturedReplayConfig((2, 6), max_kl_divergence=OFF["max_kl_divergence"], statistic="worst")
    receipt = run_captured_model_replay(FIXTURE, config, ReplayOptions(**options))
    again = CapturedReplayReceipt.from_json(receipt.to_json())
    assert again == receipt
    assert again.options == ReplayOptions(**options)
    assert again.config.statistic == "worst"
    assert again.to_json() == receipt.to_json()
    told = json.loads(again.to_json())["provenance"]
    assert told["gates_off"] == ["max_kl_divergence"]
    assert told["options"] == {**REFERENCE.to_dict(), **options}


@given(
    scale=st.one_of(st.sampled_from(["reference", "inverse_sqrt_head_dim"]), st.floats(1e-37, 1e38)),
    coding=st.sampled_from(["compressed", "exact"]),
    pool=st.builds(FibQuant, st.sampled_from([4, 8]), st.integers(2, 4096)),
    shell=st.one_of(st.just(ExactCodec()), st.builds(TurboQuant, st.integers(2, 16), st.integers(1, 2**16))),
)
def test_any_options_survive_in_a_receipt(scale, coding, pool, shell):
    """Also a scale of many digits, and every setting of a codec."""
    receipt = judge(replace(RECEIPT.measurement, options=ReplayOptions(scale, coding, pool, shell)), RECEIPT.config)
    assert CapturedReplayReceipt.from_json(receipt.to_json()) == receipt


def test_receipts_that_differ_in_their_options_alone_are_not_equal():
    """Else a replay without compression could be taken for one with."""
    assert replace(RECEIPT, options=ReplayOptions(pool_codec="exact")) != RECEIPT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (None, "the options is null; expected a JSON object"),
        ([], "the options is a list of 0; expected a JSON object"),
        ("exact", "the options is 'exact'; expected a JSON object"),
        ({"attention_scale": 0}, "attention_scale is 0.0; expected a positive number"),
        ({"attention_scale": None}, "attention_scale is null; expected a number"),
        ({"attention_scale": "half"}, "attention_scale is 'half'; expected reference, inverse_sqrt_head_dim or"),
        ({"query_coding": "none"}, "query_coding is 'none'; expected one of compressed, exact"),
        ({"pool_codec": "zip"}, "pool_codec: no codec is called 'zip'"),
        ({"shell_codec": "turbo_1bit"}, "shell_codec: turbo_quant with 1 bits"),
        ({"shell_codec": 8}, "shell_codec is 8; expected a codec, or the id of one"),
        ({"atention_scale": 1.0}, "the options has an unknown field 'atention_scale'; did you mean 'attention_scale'?"),
    ],
)
def test_a_receipt_whose_options_are_faulty_is_refused(options, message):
    """As a ReceiptError that names the place; a receipt misread as the reference's would be worse."""
    with pytest.raises(ReceiptError) as refused:
        CapturedReplayReceipt.from_json(json.dumps({**FIELDS, "provenance": {"options": options}}))
    assert str(refused.value).startswith(f"the receipt, provenance: {message}")


@pytest.mark.parametrize("statistic", ["median", None, 1, ["worst"]])
@pytest.mark.parametrize(
    ("receipt_class", "fields"),
    [(CapturedReplayReceipt, FIELDS), (ModelReplayReceipt, MODEL_RECEIPT)],
    ids=["captured", "model"],
)
def test_a_receipt_whose_statistic_is_faulty_is_refused(receipt_class, fields, statistic):
    """The place is its config."""
    with pytest.raises(ReceiptError, match=r"^the receipt, config: statistic is .*; expected one of mean, p95, worst$"):
        receipt_class.from_json(json.dumps({**fields, "config": {**fields["config"], "statistic": statistic}}))


@pytest.mark.parametrize("provenance", [None, [], "by hand", 1, {}, {"tool": "other"}])
def test_a_receipt_that_tells_of_no_options_has_the_reference_s(provenance):
    """Whatever else another program may write under that name."""
    receipt = CapturedReplayReceipt.from_json(json.dumps({**FIELDS, "provenance": provenance}))
    assert receipt == RECEIPT
    assert receipt.options == REFERENCE


@given(data=st.data())
def test_any_other_value_in_a_receipt_s_options_is_read_or_refused(data):
    """With one of them, or all, replaced it reads, or raises PolyKvError, nothing else."""
    fields = {**FIELDS, "provenance": {"options": OPTIONS["all"]}}
    path = ("provenance", "options", data.draw(st.sampled_from(list(OPTIONS["all"]))))
    mutated = changed(fields, *path[: data.draw(st.integers(2, 3))], to=data.draw(odd_values))
    refused = refused_with(PolyKvError, lambda: CapturedReplayReceipt.from_json(json.dumps(mutated)))
    assert refused is None or refused.isprintable()


@OTHER_STATISTICS
def test_a_model_receipt_says_which_statistic_was_held_against_the_gates(statistic):
    """As a captured one: another schema, the statistic last in its config, and the round trip keeps both."""
    case = load_model_case(stored(GOLDEN / "model" / "one_layer_two_heads" / "case.json"))
    plain = run_model_case(case)
    receipt = run_model_case(replace(case, config=replace(case.config, statistic=statistic)))
    fields = json.loads(receipt.to_json())
    assert plain.schema_version == MODEL_SCHEMA
    assert fields["schema_version"] == f"{MODEL_SCHEMA}_with_options"
    assert list(fields["config"].items()) == [*plain.config.to_dict().items(), ("statistic", statistic)]
    assert shape_of({**fields, "config": plain.config.to_dict()}) == shape_of(json.loads(plain.to_json()))
    for strict, mean in zip(receipt.candidate_results, plain.candidate_results, strict=True):
        assert strict.output_cosine_mean < mean.output_cosine_mean
        assert strict.ppl_proxy_compressed == mean.ppl_proxy_compressed
    assert ModelReplayReceipt.from_json(receipt.to_json()) == receipt


def test_a_model_receipt_by_the_mean_has_the_reference_s_fields_and_no_others():
    """Names and order are the golden receipt's."""
    case = load_model_case(stored(GOLDEN / "model" / "one_layer_two_heads" / "case.json"))
    assert shape_of(json.loads(run_model_case(case).to_json())) == shape_of(MODEL_RECEIPT)


def test_a_receipt_s_metrics_are_those_of_its_statistic():
    """Each gated one is the worst query's; counts and perplexities are as ever."""
    config = CapturedReplayConfig((2,), statistic="worst")
    queries = measure(FIXTURE, (2,)).queries
    found = run_captured_model_replay(FIXTURE, config).metrics
    plain = run_captured_model_replay(FIXTURE, CapturedReplayConfig((2,))).metrics
    assert found.output_cosine_mean == queries.cosine.min()
    assert found.output_mse_mean == queries.mse.max()
    assert found.kl_divergence_mean == queries.kl.max()
    assert found.ppl_proxy_delta == abs(np.exp(queries.nll_compressed) - np.exp(queries.nll_exact)).max()
    for name in ("query_count", "ppl_proxy_exact", "ppl_proxy_compressed", "decoded_values_total", "decode_reduction"):
        assert getattr(found, name) == getattr(plain, name)


@pytest.mark.parametrize(
    ("foreign", "fault"),
    [
        ("[[1.5, 2], [3, 4]]", None),
        ("[[1, 2], [3, 1e999]]", "provenance, foreign[1][1] is inf; a receipt holds finite numbers only"),
        ('"\\ud800"', "the receipt holds half of a surrogate pair, which is no text"),
        ("[" * 300 + "]" * 300, "the receipt is nested too deeply to be one"),
    ],
    ids=["rows", "infinite", "surrogate", "deep"],
)
def test_what_another_program_added_is_written_again_or_refused(foreign, fault):
    """Anything may stand in a receipt's provenance; what could not be written again is a ReceiptError."""
    text = json.dumps({**VERDICT, "provenance": {"foreign": "PUT"}}).replace('"PUT"', foreign)

    def again():
        return CapturedReplayReceipt.from_json(text).to_json()

    if fault is None:
        assert json.loads(again())["provenance"] == {"foreign": json.loads(foreign)}
    else:
        assert refused_with(ReceiptError, again).startswith(fault)
