"""The entry points are the arrow of the design: fixture, measure, judge, receipt."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support import GOLDEN, captured_cases, encoded, fixture_fields, gaussian, stored

import polykv_core
from polykv_core import (
    CapturedReplayConfig,
    CaseError,
    ConfigError,
    KvTensorShape,
    ModelReplayConfig,
    ModelReplayQuery,
    ModelReplayReceipt,
    PolyKvError,
    SharedKVPool,
    every_k,
    judge,
    load_fixture,
    load_model_case,
    measure,
    run_captured_model_replay,
    run_model_case,
    run_model_replay,
)

FIXTURE = load_fixture(encoded(fixture_fields()))
CASE = stored(GOLDEN / "model" / "one_layer_two_heads" / "case.json")


def test_a_captured_replay_is_measuring_and_judging():
    """The same receipt either way, and the same again from the same input."""
    config = CapturedReplayConfig((2, 6), min_output_cosine=0.5)
    receipt = run_captured_model_replay(FIXTURE, config)
    assert judge(measure(FIXTURE, (6, 4, 2)), config) == receipt
    assert run_captured_model_replay(FIXTURE, config).to_json() == receipt.to_json()
    assert receipt.config == config


def test_a_moved_threshold_changes_verdicts_and_no_numbers():
    """One measurement, two configs."""
    measurement = measure(FIXTURE, (2, 6))
    lax = judge(measurement, CapturedReplayConfig((2, 6), -1.0, 1e9, 1e9, 1e9, 0.0))
    strict = judge(measurement, CapturedReplayConfig((2, 6), 1.5, 0.0, 0.0, 0.0, 1.5))
    assert (lax.passed, lax.selected_candidate_k) == (True, 2)
    assert (strict.passed, strict.selected_candidate_k) == (False, 6)
    for one, other in zip(lax.candidate_results, strict.candidate_results, strict=True):
        assert (one.output_cosine_mean, one.ppl_proxy_delta) == (other.output_cosine_mean, other.ppl_proxy_delta)


REPLAYED = [case for case in captured_cases() if not case.error and min(case.config["candidate_ks"]) > 0]


@pytest.mark.parametrize("case", REPLAYED, ids=lambda case: case.name)
def test_a_measurement_of_every_k_serves_any_list_of_ks(case):
    """Judged for a case's ks, some beyond the rows among them, it gives the bytes of a replay of those ks alone."""
    fixture = load_fixture(case.input)
    measurement = measure(fixture, every_k(fixture))
    config = CapturedReplayConfig.from_dict(case.config)
    beyond = replace(config, candidate_ks=(*config.candidate_ks, len(every_k(fixture)), 10**6, 2**64 - 1))
    for asked in (config, beyond):
        assert judge(measurement, asked).to_json() == run_captured_model_replay(fixture, asked).to_json()


def test_a_model_case_is_its_pool_shell_and_queries():
    """run_model_case builds what run_model_replay is given by hand."""
    case = load_model_case(CASE)
    pool = SharedKVPool.build(case.shared, case.shape, case.pool_seed)
    shell = pool.materialize_shell("anybody", case.hot, case.shell_seed)
    receipt = run_model_replay(pool, shell, case.queries, case.config)
    assert isinstance(receipt, ModelReplayReceipt)
    assert receipt == run_model_case(case)


def test_a_model_replay_of_ours_from_rows_to_receipt():
    """Rows of two layers in, a receipt out that can be written and read."""
    shape = KvTensorShape(2, 1, 8)
    pool = SharedKVPool.build(gaussian(10, shape.row_width), shape, 1)
    shell = pool.materialize_shell("agent", gaussian(4, shape.row_width, draw=1), 2)
    queries = [ModelReplayQuery(gaussian(1, 8, draw=2)[0], 4)]
    receipt = run_model_replay(pool, shell, queries, ModelReplayConfig(layer=1, candidate_ks=(14,), vocab_size=9))
    assert ModelReplayReceipt.from_json(receipt.to_json()) == receipt
    assert receipt.metrics.decoded_values_total == receipt.metrics.full_decode_value_count == 14


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("shared", 1, 3), None, "shared row 1, column 3 is null; expected a number"),
        (("hot", 0, 2), 1e39, "hot row 0, column 2 is 1e+39; expected a number that is finite in float32"),
        (("hot", 0), [1.0], "hot row 0 has 1 numbers; expected layers x KV heads x 2 x head_dim = "),
        (("pool_seed",), -1, "pool_seed is -1; expected a whole number from 0 to 2^64 - 1"),
        (("shell_seed",), True, "shell_seed is true; expected a whole number from 0 to 2^64 - 1"),
        (("queries", 0, "query"), [1.0], "query 0, query has 1 numbers; expected head_dim = "),
        (("queries", 0, "label_token"), 1.0, "query 0, label_token is 1.0; expected a whole number"),
        (("queries", 0), [], "query 0 is a list of 0; expected a JSON object"),
        (("queries",), {}, "queries is a JSON object of 0; expected a list"),
        (("shape",), None, "shape is null; expected a JSON object"),
        (("shape", "num_layers"), 0, "shape, num_layers is 0; expected a whole number from 1"),
        (("config", "vocab_size"), 0, "vocab_size is 0; expected a whole number from 1"),
        (("config",), [], "config is a list of 0; expected a JSON object"),
    ],
)
def test_a_faulty_case_file_is_refused_with_its_place(path, value, message):
    """Rows, seeds, queries, shape and config are checked as a fixture's parts are."""
    fields = json.loads(CASE.read_bytes())
    *inner, last = path
    node = fields
    for step in inner:
        node = node[step]
    node[last] = value
    with pytest.raises(PolyKvError) as refused:
        load_model_case(encoded(fields))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("missing", ["shape", "shared", "hot", "pool_seed", "shell_seed", "queries", "config"])
def test_a_case_file_with_a_field_missing_is_refused(missing):
    """The field is named."""
    fields = json.loads(CASE.read_bytes())
    del fields[missing]
    with pytest.raises(CaseError, match=f"^the case has no field '{missing}'; add it$"):
        load_model_case(encoded(fields))


def test_a_fixture_given_as_a_case_is_refused():
    """Mixing up the two kinds of files is an error with a name in it."""
    with pytest.raises(CaseError, match=r"^the case has no field 'shape'; add it$"):
        load_model_case(encoded(fixture_fields()))


def test_a_model_config_without_ks_is_refused_when_it_runs():
    """As in the reference."""
    case = load_model_case(CASE)
    pool = SharedKVPool.build(case.shared, case.shape, case.pool_seed)
    shell = pool.materialize_shell("agent", case.hot, case.shell_seed)
    with pytest.raises(ConfigError, match=r"^candidate_ks is empty; "):
        run_model_replay(pool, shell, case.queries, ModelReplayConfig())


def test_every_public_name_is_there():
    """What __all__ promises can be imported, errors have one root, and names stand once."""
    assert len(set(polykv_core.__all__)) == len(polykv_core.__all__)
    for name in polykv_core.__all__:
        assert getattr(polykv_core, name) is not None
    errors = [getattr(polykv_core, name) for name in polykv_core.__all__ if name.endswith("Error")]
    assert all(issubclass(error, PolyKvError) for error in errors)


def test_a_case_s_rows_are_read_only():
    """As a fixture's."""
    case = load_model_case(CASE)
    for array in (case.shared, case.hot, case.queries[0].query):
        assert array.dtype == np.float32
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
