"""Every case of the reference agrees with the Rust crate's receipt, number for number and field for field."""

import json
from functools import cache

import pytest
from support import GOLDEN, Case, captured_cases, disagreements, model_cases, without_k_zero

from polykv_core import (
    CapturedReplayConfig,
    CapturedReplayReceipt,
    CaseError,
    ConfigError,
    ModelReplayConfig,
    ModelReplayReceipt,
    PolyKvError,
    load_captured_config,
    load_fixture,
    load_model_case,
    run_captured_model_replay,
    run_model_case,
)

CAPTURED = captured_cases()
MODEL = model_cases()
WITH_K_ZERO = [case for case in CAPTURED if 0 in case.config["candidate_ks"]]
REPLAYED = [case for case in CAPTURED if any(case.config["candidate_ks"])]
MODEL_REPLAYED = [case for case in MODEL if case.error is None]
MODEL_REFUSED = [case for case in MODEL if case.error is not None]
REFUSED_MODEL_CASES = {
    "head_out_of_range": "head is 2; the pool has 1, counted from 0",
    "label_out_of_range": "candidate_ks is empty; give at least one number of rows to read",
    "layer_out_of_range": "layer is 3; the pool has 1, counted from 0",
    "no_hot_tokens": "the shell has no rows; a replay needs rows in both tiers",
}


def named(cases: list[Case]) -> pytest.MarkDecorator:
    """Parametrise a test over cases, by name."""
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def reference_fields(text: str) -> dict:
    """A receipt's JSON without what this project adds: one object, provenance, after all others."""
    fields = json.loads(text)
    if "provenance" in fields:
        assert list(fields)[-1] == "provenance"
        del fields["provenance"]
    return fields


@cache
def our_receipt(case: Case) -> dict:
    """Our receipt, as JSON that was written and read again."""
    config, _ = without_k_zero(case)
    receipt = run_captured_model_replay(load_fixture(case.input), CapturedReplayConfig.from_dict(config))
    return reference_fields(receipt.to_json())


def test_the_golden_cases_are_all_there():
    """The lists of cases are read from folders; an empty folder must not pass for agreement."""
    assert len([case for case in CAPTURED if GOLDEN in case.folder.parents]) == 20
    assert len([case for case in MODEL_REPLAYED if GOLDEN in case.folder.parents]) == 3
    assert {case.name for case in WITH_K_ZERO} >= {"k_zero_only", "ks_out_of_order_and_repeated"}


@named(REPLAYED)
def test_a_captured_receipt_agrees_with_the_reference(case):
    """Every field, in order, at every level: numbers within tolerance, counts, flags, texts and selected k equal."""
    _, reference = without_k_zero(case)
    assert disagreements(our_receipt(case), reference) == []


@named(WITH_K_ZERO)
def test_k_zero_is_refused(case):
    """The reference replays k = 0 to an empty output; here it is refused, with its place."""
    index = case.config["candidate_ks"].index(0)
    with pytest.raises(ConfigError, match=rf"^candidate_ks entry {index} is 0; expected a whole number from 1 "):
        CapturedReplayConfig.from_dict(case.config)


@named(REPLAYED)
def test_a_captured_config_survives_the_round_trip(case):
    """A config file read and written again has the values and the order that the reference writes in its receipt."""
    config, receipt = without_k_zero(case)
    written = load_captured_config(json.dumps(config).encode()).to_dict()
    assert list(written.items()) == list(receipt["config"].items())
    assert CapturedReplayConfig.from_dict(written).to_dict() == written


@named(REPLAYED)
def test_a_captured_receipt_of_the_reference_is_read(case):
    """The crate's receipt, read and written again, is the same JSON in the same order."""
    _, reference = without_k_zero(case)
    text = json.dumps(reference)
    assert json.dumps(reference_fields(CapturedReplayReceipt.from_json(text).to_json())) == text


@named(MODEL_REPLAYED)
def test_a_model_receipt_agrees_with_the_reference(case):
    """The synthetic replay agrees field by field, several layers and heads included."""
    receipt = run_model_case(load_model_case(case.input))
    assert disagreements(reference_fields(receipt.to_json()), case.receipt) == []


@named(MODEL_REPLAYED)
def test_a_model_receipt_of_the_reference_is_read(case):
    """The crate's model receipt, read and written again, is the same JSON in the same order."""
    text = json.dumps(case.receipt)
    assert json.dumps(reference_fields(ModelReplayReceipt.from_json(text).to_json())) == text


@named(MODEL_REPLAYED)
def test_a_model_config_survives_the_round_trip(case):
    """A model config read from a receipt and written again has the reference's values and order."""
    config = case.receipt["config"]
    assert list(ModelReplayConfig.from_dict(config).to_dict().items()) == list(config.items())


@named(MODEL_REFUSED)
def test_a_model_case_that_the_reference_refuses_is_refused(case):
    """What the crate answers with an error raises here, and the message says what is wrong."""
    with pytest.raises(PolyKvError) as refusal:
        run_model_case(load_model_case(case.input))
    assert str(refusal.value) == REFUSED_MODEL_CASES[case.name.removeprefix("beside-")]


def test_a_model_label_beyond_the_vocabulary_is_refused(tmp_path):
    """With ks to replay, a label that the synthetic vocabulary has not is refused, naming the query."""
    fields = json.loads((GOLDEN / "model" / "label_out_of_range" / "case.json").read_bytes())
    vocab = fields["config"]["vocab_size"]
    fields["config"]["candidate_ks"] = [2]
    fields["queries"][0]["label_token"] = vocab
    path = tmp_path / "case.json"
    path.write_text(json.dumps(fields))
    expected = f"query 0, label_token is {vocab}; expected a whole number from 0 to {vocab - 1}"
    with pytest.raises(CaseError) as refusal:
        run_model_case(load_model_case(path))
    assert str(refusal.value) == expected
