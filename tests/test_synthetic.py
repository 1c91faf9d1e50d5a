"""Made-up cases: deterministic, within bounds, and whole when written and read again."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support import refused_with

from polykv_core import CaseError, KvTensorShape, ModelReplayConfig, load_model_case, run_model_case
from polykv_core.streams import standard_normals
from polykv_core.synthetic import LIMITS, SCORE_SPREAD, synthetic_case

SHAPE = KvTensorShape(2, 2, 16, num_heads=2, hidden_size=32)
CONFIG = ModelReplayConfig(layer=1, head=1, candidate_ks=(4, 8), vocab_size=11, projection_seed=3)


def made(**changes):
    """A small case, with some of its arguments changed."""
    arguments = {
        "shape": SHAPE,
        "shared_tokens": 12,
        "hot_tokens": 6,
        "query_count": 3,
        "seed": 5,
        "config": CONFIG,
        "pool_seed": 7,
        "shell_seed": 8,
    }
    return synthetic_case(**(arguments | changes))


def test_the_same_arguments_give_the_same_case():
    """To the last bit."""
    assert made().to_json() == made().to_json()


@pytest.mark.parametrize("change", [{"seed": 6}, {"pool_seed": 9}, {"shell_seed": 9}])
def test_every_seed_matters(change):
    """Another seed gives another case and another receipt."""
    assert run_model_case(made(**change)).to_json() != run_model_case(made()).to_json()


def test_a_case_has_what_was_asked_for():
    """Rows, queries and labels of the right shape and kind."""
    case = made()
    assert (case.shared.shape, case.hot.shape) == ((12, 128), (6, 128))
    assert [query.query.shape for query in case.queries] == [(16,)] * 3
    assert all(0 <= query.label_token < 11 for query in case.queries)
    assert (case.pool_seed, case.shell_seed, case.config) == (7, 8, CONFIG)


def test_more_of_something_leaves_the_rest_as_it_was():
    """Each part has a stream of its own, so growing one part changes no other and no earlier row."""
    small, large = made(), made(shared_tokens=20, hot_tokens=9, query_count=5)
    np.testing.assert_array_equal(large.shared[:12], small.shared)
    np.testing.assert_array_equal(large.hot[:6], small.hot)
    for one, other in zip(small.queries, large.queries[:3], strict=True):
        np.testing.assert_array_equal(one.query, other.query)
        assert one.label_token == other.label_token


def test_no_two_parts_share_their_numbers():
    """Pool and shell, neighbouring seeds, and what the codecs draw from the same seed: all are streams of their own."""
    case, following = made(), made(seed=6)
    parts = [case.shared, case.hot, following.shared, following.hot]
    flat = [part.ravel()[:700] for part in parts]
    flat += [standard_normals(seed, 700).astype(np.float32) for seed in (5, 6)]
    for index, one in enumerate(flat):
        for other in flat[index + 1 :]:
            assert np.isin(one, other).mean() < 0.01


def test_rows_are_standard_normals_and_scores_have_the_spread_they_should():
    """Attention is spread over rows instead of falling on one."""
    case = made(shape=KvTensorShape(1, 1, 64), shared_tokens=2000, hot_tokens=2000, query_count=64, config=small())
    assert abs(case.shared.mean()) < 0.01
    assert abs(case.shared.std() - 1.0) < 0.01
    scores = case.shared[:, :64] @ np.array([query.query for query in case.queries]).T
    assert abs(scores.std() - SCORE_SPREAD) < 0.1


def small():
    """A config for a shape of one layer and one head."""
    return ModelReplayConfig(candidate_ks=(4,), vocab_size=8)


def test_a_written_case_reads_back_and_gives_the_same_receipt():
    """Every float32 survives, so the command line can make the receipt that the dashboard shows."""
    case = made()
    again = load_model_case(case.to_json().encode())
    np.testing.assert_array_equal(again.shared, case.shared)
    np.testing.assert_array_equal(again.hot, case.hot)
    assert again.shape == case.shape
    assert again.config == case.config
    assert run_model_case(again).to_json() == run_model_case(case).to_json()
    assert json.loads(case.to_json()).keys() == json.loads(again.to_json()).keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shared_tokens": 0}, "shared tokens is 0; expected a whole number from 1 to 2048"),
        ({"hot_tokens": 2049}, "hot tokens is 2049; expected a whole number from 1 to 2048"),
        ({"query_count": 65}, "queries is 65; expected a whole number from 1 to 64"),
        ({"shape": KvTensorShape(65, 2, 16)}, "layers is 65; expected a whole number from 1 to 64"),
        ({"shape": KvTensorShape(2, 2, 512)}, "head_dim is 512; expected a whole number from 1 to 256"),
        ({"config": replace(CONFIG, layer=2)}, "layer is 2; expected a whole number from 0 to 1"),
        ({"config": replace(CONFIG, head=2)}, "head is 2; expected a whole number from 0 to 1"),
        ({"config": replace(CONFIG, vocab_size=5000)}, "vocab_size is 5000; expected a whole number from 1 to 4096"),
    ],
)
def test_sizes_out_of_bounds_are_refused(change, message):
    """The message says which size, and what is possible."""
    assert refused_with(CaseError, lambda: made(**change)) == message


def test_too_many_numbers_are_refused_before_any_is_drawn():
    """The message says how many there would be, and what to ask for instead."""
    refusal = refused_with(CaseError, lambda: made(shape=KvTensorShape(64, 64, 256), shared_tokens=2048))
    assert "the rows would hold 4,307,550,208 numbers" in refusal
    assert "Ask for fewer tokens, layers or heads" in refusal


def test_too_much_work_is_refused():
    """Rows may be few enough, and queries times vocabulary still too many."""
    config = replace(small(), vocab_size=LIMITS["vocab_size"])
    refusal = refused_with(
        CaseError, lambda: made(shape=KvTensorShape(1, 1, 256), shared_tokens=1000, query_count=64, config=config)
    )
    assert "Ask for fewer queries, tokens, or a smaller vocab_size" in refusal
