"""Configs: what they refuse, how they are read and written."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import annotations_unchecked

from polykv_core import CapturedReplayConfig, ConfigError, ModelReplayConfig, load_captured_config, parse_ks

THRESHOLDS = ("min_output_cosine", "max_output_mse", "max_kl_divergence", "max_ppl_delta", "min_top1_agreement")
BOTH = pytest.mark.parametrize("config_class", [CapturedReplayConfig, ModelReplayConfig])


def refusal(config_class, **fields):
    """What a config says about fields that it refuses."""
    with pytest.raises(ConfigError) as refused:
        config_class.from_dict({"candidate_ks": [8], **fields})
    return str(refused.value)


@BOTH
def test_the_defaults_are_the_reference_s(config_class):
    """Gates that a config does not speak of."""
    config = config_class.from_dict({"candidate_ks": [8]})
    assert [getattr(config, name) for name in THRESHOLDS] == [0.75, 0.25, 0.5, 1.0, 0.25]


def test_a_captured_config_is_written_in_the_reference_s_order():
    """Candidate ks first, then the gates."""
    assert list(CapturedReplayConfig((8,)).to_dict()) == ["candidate_ks", *THRESHOLDS]


def test_a_model_config_has_the_reference_s_fields():
    """Layer, head, ks, vocabulary and projection seed, then the gates."""
    names = ["layer", "head", "candidate_ks", "vocab_size", "projection_seed", *THRESHOLDS]
    assert list(ModelReplayConfig().to_dict()) == names


@BOTH
@pytest.mark.parametrize("name", THRESHOLDS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, np.float32("nan")])
def test_a_threshold_that_is_not_finite_is_refused(config_class, name, value):
    """NaN would slip through every comparison; the gate is named."""
    message = refusal(config_class, **{name: value})
    assert message.startswith(f"{name} is ")
    assert message.endswith("; expected a finite number")


@BOTH
@pytest.mark.parametrize("name", THRESHOLDS)
@pytest.mark.parametrize("value", [None, "0.5", True, [0.5], {}])
def test_a_threshold_that_is_no_number_is_refused(config_class, name, value):
    """Null, strings, booleans, lists and objects."""
    message = refusal(config_class, **{name: value})
    assert message.startswith(f"{name} is ")
    assert message.endswith("; expected a number")


@BOTH
@pytest.mark.parametrize(
    ("ks", "message"),
    [
        ([8, 0], "candidate_ks entry 1 is 0; expected a whole number from 1 to 2^64 - 1"),
        ([-1], "candidate_ks entry 0 is -1; expected a whole number from 1 to 2^64 - 1"),
        ([8.0], "candidate_ks entry 0 is 8.0; expected a whole number from 1 to 2^64 - 1"),
        ([True], "candidate_ks entry 0 is true; expected a whole number from 1 to 2^64 - 1"),
        (["8"], "candidate_ks entry 0 is '8'; expected a whole number from 1 to 2^64 - 1"),
        ([None], "candidate_ks entry 0 is null; expected a whole number from 1 to 2^64 - 1"),
        ([2**64], "candidate_ks entry 0 is 18446744073709551616; expected a whole number from 1 to 2^64 - 1"),
        (8, "candidate_ks is 8; expected a list"),
        ("8", "candidate_ks is '8'; expected a list"),
        (None, "candidate_ks is null; expected a list"),
        ({"8": 8}, "candidate_ks is a JSON object of 1; expected a list"),
    ],
)
def test_ks_that_mean_nothing_are_refused(config_class, ks, message):
    """Entries are counted from 0 in the message."""
    assert refusal(config_class, candidate_ks=ks) == message


def test_no_ks_are_refused_for_a_captured_replay():
    """Empty or missing."""
    assert (
        refusal(CapturedReplayConfig, candidate_ks=[])
        == "candidate_ks is empty; give at least one number of rows to read"
    )
    with pytest.raises(ConfigError, match=r"^the config has no field 'candidate_ks'"):
        CapturedReplayConfig.from_dict({})


def test_no_ks_are_taken_by_a_model_config():
    """As in the reference; the replay refuses them later."""
    assert ModelReplayConfig.from_dict({"candidate_ks": []}).candidate_ks == ()


@pytest.mark.parametrize("name", ["layer", "head", "projection_seed", "vocab_size"])
@pytest.mark.parametrize("value", [-1, 1.0, True, "1", None])
def test_an_index_that_is_no_whole_number_is_refused(name, value):
    """Layer, head, projection seed and vocabulary size."""
    span = "1 to 4194304" if name == "vocab_size" else "0 to 2^64 - 1"
    assert refusal(ModelReplayConfig, **{name: value}).endswith(f"; expected a whole number from {span}")


def test_a_vocabulary_of_nothing_is_refused():
    """There is no distribution over no tokens."""
    assert refusal(ModelReplayConfig, vocab_size=0) == "vocab_size is 0; expected a whole number from 1 to 4194304"


@BOTH
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("candidate_k", "candidate_ks"),
        ("min_ouput_cosine", "min_output_cosine"),
        ("max_kl_divergance", "max_kl_divergence"),
    ],
)
def test_a_name_typed_wrong_is_pointed_out(config_class, typed, meant):
    """A gate that would silently keep its default is worse than an error."""
    assert refusal(config_class, **{typed: 1}) == f"the config has an unknown field '{typed}'; did you mean '{meant}'?"


@BOTH
def test_an_unknown_field_that_is_like_no_other_is_ignored(config_class):
    """As in the reference."""
    assert config_class.from_dict({"candidate_ks": [8], "comment": "x"}) == config_class.from_dict(
        {"candidate_ks": [8]}
    )


@BOTH
def test_a_config_is_frozen_and_comparable(config_class):
    """Equal fields make equal configs; fields cannot be set."""
    config = config_class(candidate_ks=(8, 16))
    assert config == config_class.from_dict({"candidate_ks": [8, 16]})
    assert hash(config) == hash(config_class(candidate_ks=(8, 16)))
    with pytest.raises(AttributeError):
        config.candidate_ks = (1,)


@BOTH
def test_numpy_numbers_become_plain_ones(config_class):
    """Thresholds and ks from arrays can be written as JSON."""
    with annotations_unchecked():
        config = config_class(
            candidate_ks=[np.int64(8), np.uint8(3)], min_output_cosine=np.float32(0.5), max_output_mse=1
        )
    assert json.loads(json.dumps(config.to_dict()))["candidate_ks"] == [8, 3]
    assert type(config.min_output_cosine) is float
    assert type(config.max_output_mse) is float


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(ks=st.lists(st.integers(1, 2**64 - 1), min_size=1, max_size=5), gates=st.tuples(*[finite] * len(THRESHOLDS)))
def test_any_valid_config_survives_the_round_trip(ks, gates):
    """Written as JSON and read again, a config is equal; ks keep order and repeats."""
    config = CapturedReplayConfig(tuple(ks), *gates)
    again = load_captured_config(json.dumps(config.to_dict()).encode())
    assert again == config
    assert again.candidate_ks == tuple(ks)
    model = ModelReplayConfig(1, 2, tuple(ks), 3, 4, *gates)
    assert ModelReplayConfig.from_dict(json.loads(json.dumps(model.to_dict()))) == model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the file is empty; expected JSON"),
        (b"[8]", "the file is a list of 1; expected a JSON object"),
        (b'{"candidate_ks": [8], "candidate_ks": [9]}', "the file has the key 'candidate_ks' twice; keep one of them"),
        (b'{"candidate_ks": [NaN]}', "candidate_ks[0] is NaN, which is not JSON; every number must be finite"),
        (b'{"candidate_ks": [8], "max_ppl_delta": 1e999}', "max_ppl_delta is inf; expected a finite number"),
        (b'{"candidate_ks" [8]}', "no valid JSON at line 1, column 17: Expecting ':' delimiter"),
    ],
)
def test_a_config_file_that_is_none_is_refused(text, message):
    """The reader's messages, as a ConfigError."""
    with pytest.raises(ConfigError) as refused:
        load_captured_config(text)
    assert str(refused.value) == message


def test_a_config_file_that_is_not_there_is_refused(tmp_path):
    """A path that cannot be read is a ConfigError."""
    with pytest.raises(ConfigError, match=r"^cannot read "):
        load_captured_config(tmp_path / "missing.json")


@pytest.mark.parametrize("text", ["8,16,32", "8, 16, 32", " 8 16\t32\n", "8;16;32", ",8,,16,32,", "008,16,32"])
def test_ks_are_read_from_text(text):
    """Commas, semicolons and blanks stand between numbers."""
    assert parse_ks(text) == (8, 16, 32)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "candidate_ks is empty; give at least one number of rows to read"),
        (" , ", "candidate_ks is empty; give at least one number of rows to read"),
        ("8, x", "candidate_ks has 'x'; expected whole numbers with commas, such as 8, 16, 32"),
        ("8, -1", "candidate_ks has '-1'; expected whole numbers with commas, such as 8, 16, 32"),
        ("1.5", "candidate_ks has '1.5'; expected whole numbers with commas, such as 8, 16, 32"),
        ("\u0663", "candidate_ks has '\u0663'; expected whole numbers with commas, such as 8, 16, 32"),
        ("8\u00b2", "candidate_ks has '8\u00b2'; expected whole numbers with commas, such as 8, 16, 32"),
        ("8, 0", "candidate_ks entry 1 is 0; expected a whole number from 1 to 2^64 - 1"),
        ("9" * 20, f"candidate_ks entry 0 is {'9' * 20}; expected a whole number from 1 to 2^64 - 1"),
        ("9" * 5000, "candidate_ks entry 0 is 18446744073709551616; expected a whole number from 1 to 2^64 - 1"),
    ],
)
def test_text_that_holds_no_ks_is_refused(text, message):
    """By the word that is no number, or by the number that is no k; thousands of digits included."""
    with pytest.raises(ConfigError) as refused:
        parse_ks(text)
    assert str(refused.value) == message


@given(ks=st.lists(st.integers(1, 2**64 - 1), min_size=1, max_size=9))
def test_ks_written_with_commas_are_read_again(ks):
    """In order, repeats kept."""
    assert parse_ks(", ".join(map(str, ks))) == tuple(ks)


@BOTH
def test_the_statistic_is_the_mean_and_then_not_written(config_class):
    """The reference knows no other, and its configs have no such field; asked for by name it is left out as well."""
    for config in (config_class(candidate_ks=(8,)), config_class(candidate_ks=(8,), statistic="mean")):
        assert config.statistic == "mean"
        assert "statistic" not in config.to_dict()
    assert config_class.from_dict({"candidate_ks": [8], "statistic": "mean"}) == config_class(candidate_ks=(8,))


@BOTH
@pytest.mark.parametrize("statistic", ["worst", "p95"])
def test_another_statistic_is_written_last_and_read_again(config_class, statistic):
    """Behind the reference's fields, which stay as they are."""
    config = config_class(candidate_ks=(8,), statistic=statistic)
    plain = config_class(candidate_ks=(8,))
    assert list(config.to_dict().items()) == [*plain.to_dict().items(), ("statistic", statistic)]
    assert config_class.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert config != plain


@BOTH
@pytest.mark.parametrize(
    ("statistic", "shown"),
    [
        ("median", "'median'"),
        ("", "''"),
        ("Mean", "'Mean'"),
        ("p99", "'p99'"),
        ("worst ", "'worst '"),
        (None, "null"),
        (95, "95"),
        (True, "true"),
        (["mean"], "a list of 1"),
        ({}, "a JSON object of 0"),
    ],
)
def test_a_statistic_of_another_name_is_refused(config_class, statistic, shown):
    """The message has the value, and the names there are."""
    assert refusal(config_class, statistic=statistic) == f"statistic is {shown}; expected one of mean, p95, worst"
    with pytest.raises(ConfigError, match=r"^statistic is "):
        config_class(candidate_ks=(8,), statistic=statistic)


@BOTH
@pytest.mark.parametrize("typed", ["statistics", "statistik", "statisic"])
def test_a_statistic_typed_wrong_is_pointed_out(config_class, typed):
    """The mean instead of the worst query would pass what should not."""
    assert (
        refusal(config_class, **{typed: "worst"})
        == f"the config has an unknown field '{typed}'; did you mean 'statistic'?"
    )


def test_a_config_file_may_name_a_statistic():
    """As any other field."""
    text = b'{"candidate_ks": [8], "statistic": "worst"}'
    assert load_captured_config(text) == CapturedReplayConfig((8,), statistic="worst")


def test_too_many_candidates_are_refused():
    """Each is judged and written by itself; a million of them would take all memory."""
    assert len(CapturedReplayConfig(tuple(range(1, 10_001))).candidate_ks) == 10_000
    with pytest.raises(ConfigError, match="candidate_ks has 10001 entries; at most 10000"):
        CapturedReplayConfig(tuple(range(1, 10_002)))
