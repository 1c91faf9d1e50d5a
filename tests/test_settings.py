"""Settings: a config file that carries the replay options, and that the Rust crate reads as well."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import encoded, fixture_fields, refused_with

from polykv_core import (
    REFERENCE,
    STATISTICS,
    CapturedReplayConfig,
    ConfigError,
    ExactCodec,
    FibQuant,
    ReplayOptions,
    TurboQuant,
    load_captured_config,
    load_fixture,
    load_settings,
    run_captured_model_replay,
    settings_json,
)

CONFIG = CapturedReplayConfig((2, 6), max_ppl_delta=3.0)
OPTIONS = ReplayOptions(attention_scale=0.25, pool_codec="exact")
# What the crate's struct has, in its order.
CRATE_FIELDS = [
    *("candidate_ks", "min_output_cosine", "max_output_mse"),
    *("max_kl_divergence", "max_ppl_delta", "min_top1_agreement"),
]


@given(
    ks=st.lists(st.integers(1, 2**64 - 1), min_size=1, max_size=5),
    gates=st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 5),
    statistic=st.sampled_from(STATISTICS),
    scale=st.one_of(st.sampled_from(["reference", "inverse_sqrt_head_dim"]), st.floats(1e-37, 1e38)),
    coding=st.sampled_from(["compressed", "exact"]),
    pool=st.builds(FibQuant, st.sampled_from([4, 8]), st.integers(2, 4096)),
    shell=st.one_of(st.just(ExactCodec()), st.builds(TurboQuant, st.integers(2, 16), st.integers(1, 2**16))),
)
def test_what_is_exported_is_read_again(ks, gates, statistic, scale, coding, pool, shell):
    """Config, statistic and every option, to the last digit."""
    config, options = CapturedReplayConfig(tuple(ks), *gates, statistic), ReplayOptions(scale, coding, pool, shell)
    text = settings_json(config, options)
    assert load_settings(text.encode()) == (config, options)
    assert settings_json(*load_settings(text.encode())) == text


@pytest.mark.parametrize("options", [REFERENCE, OPTIONS], ids=["reference", "options"])
def test_an_exported_config_brings_the_same_receipt(tmp_path, options):
    """To the last byte, read from a file."""
    path = tmp_path / "config.json"
    path.write_text(settings_json(CONFIG, options), encoding="utf-8")
    fixture = load_fixture(encoded(fixture_fields()))
    expected = run_captured_model_replay(fixture, CONFIG, options)
    assert run_captured_model_replay(fixture, *load_settings(path)).to_json() == expected.to_json()


def test_without_options_the_file_is_the_reference_s_config():
    """Its fields in its order, and no others; a statistic is added only where it is not the mean."""
    fields = json.loads(settings_json(CONFIG))
    assert list(fields) == CRATE_FIELDS
    assert fields == CONFIG.to_dict()
    assert settings_json(CONFIG, REFERENCE) == settings_json(CONFIG)
    assert settings_json(CONFIG).endswith("}\n")


def test_with_options_the_reference_s_fields_are_unchanged():
    """First, as they were, so that the crate reads them; the options that differ stand in one object, last."""
    fields = json.loads(settings_json(CONFIG, OPTIONS))
    assert list(fields) == [*CRATE_FIELDS, "options"]
    assert {name: fields[name] for name in CRATE_FIELDS} == CONFIG.to_dict()
    assert fields["options"] == {"attention_scale": 0.25, "pool_codec": "exact"}
    assert load_captured_config(settings_json(CONFIG, OPTIONS).encode()) == CONFIG


@pytest.mark.parametrize("options", [{}, {"query_coding": "compressed"}, None], ids=["empty", "default", "absent"])
def test_what_is_missing_takes_its_default(options):
    """Thresholds as in any config, options as the reference's."""
    fields = {"candidate_ks": [4]} | ({} if options is None else {"options": options})
    assert load_settings(encoded(fields)) == (CapturedReplayConfig((4,)), REFERENCE)


def test_a_gate_that_is_off_stays_off():
    """The largest number there is survives the text."""
    config = CapturedReplayConfig((4,), max_ppl_delta=sys.float_info.max)
    assert load_settings(settings_json(config).encode())[0] == config


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"options": {"zip": 1}}, "the options has an unknown field 'zip'; expected attention_scale, query_coding, "),
        (
            {"options": {"pool_codek": "exact"}},
            "the options has an unknown field 'pool_codek'; did you mean 'pool_codec'?",
        ),
        ({"options": {"pool_codec": "zip"}}, "pool_codec: no codec is called 'zip'"),
        ({"options": {"attention_scale": 0}}, "attention_scale is 0.0; expected a positive number"),
        ({"options": None}, "the options is null; expected a JSON object"),
        ({"options": []}, "the options is a list of 0; expected a JSON object"),
        ({"option": {"pool_codec": "exact"}}, "the config has an unknown field 'option'; did you mean 'options'?"),
        ({"candidate_ks": []}, "candidate_ks is empty; give at least one"),
        ({"max_ppl_detla": 2}, "the config has an unknown field 'max_ppl_detla'; did you mean 'max_ppl_delta'?"),
        ({"statistic": "median"}, "statistic is 'median'; expected one of mean, p95, worst"),
    ],
)
def test_what_would_be_replayed_otherwise_than_asked_for_is_refused(fields, message):
    """An unknown option above all: ignored, nobody would notice."""
    with pytest.raises(ConfigError) as refused:
        load_settings(encoded({"candidate_ks": [2], **fields}))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b'{"options": {}}', b"\xff"])
def test_what_is_no_config_is_refused(text):
    """As a ConfigError."""
    with pytest.raises(ConfigError):
        load_settings(text)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)


@given(
    name=st.sampled_from([*CRATE_FIELDS, "statistic", "options"]),
    value=st.one_of(json_values, st.dictionaries(st.sampled_from(list(REFERENCE.to_dict())), json_values, min_size=1)),
)
def test_any_value_is_read_or_refused(name, value):
    """ConfigError, nothing else."""
    data = encoded({"candidate_ks": [2], name: value})
    refused = refused_with(ConfigError, lambda: load_settings(data))
    assert refused is None or refused.isprintable()
