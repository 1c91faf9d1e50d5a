"""Pool and shell: which rows they take, how rows are laid out, and what is refused by name."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import annotations_unchecked, gaussian

from polykv_core import (
    CODECS,
    CacheError,
    CodecError,
    ExactCodec,
    FibQuant,
    KvTensorShape,
    SharedKVPool,
    TurboQuant,
)

SHAPE = KvTensorShape(num_layers=2, num_kv_heads=3, head_dim=8)


@given(layers=st.integers(1, 3), heads=st.integers(1, 3), dim=st.integers(1, 5), tokens=st.integers(1, 4))
def test_a_row_is_laid_out_layer_by_layer_head_by_head_key_then_value(layers, heads, dim, tokens):
    """Every number of a row comes back as the key or value of its layer and head."""
    shape = KvTensorShape(layers, heads, dim)
    rows = gaussian(tokens, shape.row_width)
    tier = SharedKVPool.build(rows, shape, 0, codec=ExactCodec()).tier
    for layer in range(layers):
        for head in range(heads):
            at = (layer * heads + head) * 2 * dim
            np.testing.assert_array_equal(tier.keys(layer, head), rows[:, at : at + dim])
            np.testing.assert_array_equal(tier.values(layer, head), rows[:, at + dim : at + 2 * dim])
            np.testing.assert_allclose(
                tier.scores(layer, head, np.ones(dim, np.float32)), rows[:, at : at + dim].sum(axis=1), atol=1e-5
            )


def test_a_head_is_coded_in_one_batch_with_the_other_heads():
    """All tokens times heads of a layer are one batch, which matters to FibQuant below 4 rows: 2 tokens are 6 rows."""
    rows = gaussian(2, SHAPE.row_width)
    tier = SharedKVPool.build(rows, SHAPE, 5).tier
    keys = rows.reshape(2, 2, 3, 2, 8)[:, 1, :, 0].reshape(6, 8)
    decoded = tier.coder.decode(tier.coder.encode(keys)).reshape(2, 3, 8)
    for head in range(3):
        np.testing.assert_array_equal(tier.keys(1, head), decoded[:, head])


def test_pool_and_shell_have_their_own_seeds_and_codecs():
    """The pool is FibQuant of its seed, the shell TurboQuant of its own."""
    rows = gaussian(4, SHAPE.row_width)
    pool = SharedKVPool.build(rows, SHAPE, 5)
    shell = pool.materialize_shell("agent", rows, 6)
    assert shell.agent_id == "agent"
    assert pool.tier.coder is pool.tier.coder
    assert "FibCoder" in repr(pool.tier.coder)
    assert "TurboCoder" in repr(shell.tier.coder)
    assert not np.array_equal(pool.tier.keys(0, 0), SharedKVPool.build(rows, SHAPE, 6).tier.keys(0, 0))
    assert not np.array_equal(shell.tier.keys(0, 0), pool.materialize_shell("agent", rows, 7).tier.keys(0, 0))


def test_values_of_some_tokens_are_those_of_all():
    """A selection of tokens decodes to the same rows, in the order asked for."""
    tier = SharedKVPool.build(gaussian(6, SHAPE.row_width), SHAPE, 5).tier
    chosen = np.array([4, 0, 4])
    np.testing.assert_array_equal(tier.values(1, 2, chosen), tier.values(1, 2)[chosen])


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [
        (2, 0, "layer is 2; the pool has 2, counted from 0"),
        (-1, 0, "layer is -1; the pool has 2, counted from 0"),
        (0, 3, "head is 3; the pool has 3, counted from 0"),
        (0, -1, "head is -1; the pool has 3, counted from 0"),
    ],
)
def test_a_layer_or_head_that_is_not_there_is_refused(layer, head, message):
    """Indices beyond the shape, and negative ones, are named."""
    tier = SharedKVPool.build(gaussian(2, SHAPE.row_width), SHAPE, 5).tier
    for read in (tier.keys, tier.values, lambda *at: tier.scores(*at, np.ones(8, np.float32))):
        with pytest.raises(CacheError, match=f"^{re.escape(message)}$"):
            read(layer, head)


def test_a_zero_row_of_the_pool_is_named():
    """FibQuant cannot hold a zero key; the message says token, layer, head and part."""
    rows = gaussian(3, SHAPE.row_width)
    rows.reshape(3, 2, 3, 2, 8)[2, 1, 0, 1] = 0.0
    with pytest.raises(CodecError, match=r"^pool row 2, layer 1, head 0, value is all zeros; "):
        SharedKVPool.build(rows, SHAPE, 5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_named(value):
    """Tier, row and column stand in the message."""
    pool = SharedKVPool.build(gaussian(3, SHAPE.row_width), SHAPE, 5)
    rows = gaussian(3, SHAPE.row_width)
    rows[1, 17] = value
    with pytest.raises(CacheError, match=rf"^pool rows row 1, column 17 is {value}; expected a number that is finite"):
        SharedKVPool.build(rows, SHAPE, 5)
    with pytest.raises(CacheError, match=rf"^shell rows row 1, column 17 is {value}; expected a number that is finite"):
        pool.materialize_shell("agent", rows, 5)


def test_rows_of_another_width_are_refused():
    """The message says how many numbers a row needs, and why."""
    with pytest.raises(CacheError, match=r"row 0 has 95 numbers; expected layers x KV heads x 2 x head_dim = 96$"):
        SharedKVPool.build(gaussian(2, 95), SHAPE, 5)


@pytest.mark.parametrize("seed", [-1, 2**64, True, 1.0, "1"])
def test_a_seed_that_is_no_u64_is_refused(seed):
    """Seeds go from 0 to 2^64 - 1."""
    with (
        annotations_unchecked(),
        pytest.raises(CacheError, match=r"^pool seed is .*expected a whole number from 0 to 2\^64 - 1$"),
    ):
        SharedKVPool.build(gaussian(2, SHAPE.row_width), SHAPE, seed)


@pytest.mark.parametrize("head_dim", [4, 6, 7, 1028])
def test_a_head_size_the_codec_cannot_hold_is_refused(head_dim):
    """FibQuant's refusal comes before any row is read."""
    shape = KvTensorShape(1, 1, head_dim)
    with pytest.raises(
        CodecError, match=f"^head_dim is {head_dim}; fib_k4_n32 needs a multiple of 4 larger than 4 and at most 1024$"
    ):
        SharedKVPool.build(gaussian(2, shape.row_width), shape, 5)


@pytest.mark.parametrize("field", ["num_layers", "num_kv_heads", "head_dim"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2", None])
def test_a_shape_of_no_size_is_refused(field, value):
    """Layers, heads and head size are whole numbers from 1."""
    sizes = {"num_layers": 1, "num_kv_heads": 1, "head_dim": 8} | {field: value}
    with pytest.raises(CacheError, match=rf"^shape, {field} is .*; expected a whole number from 1 to"):
        KvTensorShape.from_dict(sizes)


@pytest.mark.parametrize("field", ["num_layers", "num_kv_heads", "head_dim"])
def test_a_shape_with_a_field_missing_is_refused(field):
    """The missing field is named."""
    sizes = {"num_layers": 1, "num_kv_heads": 1, "head_dim": 8}
    del sizes[field]
    with pytest.raises(CacheError, match=f"^shape has no field '{field}'; add it$"):
        KvTensorShape.from_dict(sizes)


def test_callers_arrays_are_not_kept():
    """Writing to the rows afterwards changes nothing in the pool."""
    rows = gaussian(4, SHAPE.row_width)
    tier = SharedKVPool.build(rows, SHAPE, 5, codec=ExactCodec()).tier
    before = tier.keys(0, 0).copy()
    rows[:] = 9.0
    np.testing.assert_array_equal(tier.keys(0, 0), before)


def test_a_tier_without_rows_is_refused_whatever_its_shape_claims():
    """The refusal comes before anything is done for each of a thousand billion layers."""
    with pytest.raises(CacheError, match=r"^the pool has no rows; a replay needs rows in both tiers$"):
        SharedKVPool.build(np.zeros((0, 16), np.float32), KvTensorShape(10**12, 1, 8), 5)


def one_head(codec, tokens=7):
    """A tier of one layer and head of size 8."""
    return SharedKVPool.build(gaussian(tokens, 16), KvTensorShape(1, 1, 8), 5, codec=codec).tier


@pytest.mark.parametrize("codec", [FibQuant(), FibQuant(4, 64)], ids=lambda codec: codec.id)
def test_an_exact_query_is_held_against_decoded_keys(codec):
    """Where the codec codes the query: the sum, in order and in float32, of each decoded key times the query."""
    tier, query = one_head(codec), gaussian(1, 8, draw=1)[0]
    total = np.zeros(7, dtype=np.float32)
    for column, entry in zip(tier.keys(0, 0).T, query, strict=True):
        total = total + column * entry
    found = tier.scores(0, 0, query, exact_query=True)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, total)
    assert not np.array_equal(found, tier.scores(0, 0, query))


@pytest.mark.parametrize("codec", [TurboQuant(), TurboQuant(4, 8), ExactCodec()], ids=lambda codec: codec.id)
def test_an_exact_query_is_what_other_codecs_take_anyway(codec):
    """Their score is the same, to the last bit."""
    tier, query = one_head(codec), gaussian(1, 8, draw=1)[0]
    assert tier.scores(0, 0, query, exact_query=True).tobytes() == tier.scores(0, 0, query).tobytes()


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.id)
def test_a_query_is_compressed_unless_it_is_said_not_to_be(codec):
    """The default is the coder's own score, as the reference's."""
    tier, query = one_head(codec), gaussian(1, 8, draw=1)[0]
    own = tier.coder.score(tier.coder.encode(gaussian(7, 16)[:, :8]), query)
    assert tier.scores(0, 0, query).tobytes() == tier.scores(0, 0, query, exact_query=False).tobytes() == own.tobytes()


def test_an_exact_query_of_extreme_size_scores_without_a_warning():
    """What is beyond float32 is infinite, as in every other score."""
    found = one_head(FibQuant()).scores(0, 0, np.full(8, 3e38, np.float32), exact_query=True)
    assert not np.isfinite(found).all()


def test_a_layer_or_head_that_is_not_there_is_refused_with_an_exact_query_too():
    """By the same words."""
    with pytest.raises(CacheError, match=r"^head is 1; the pool has 1, counted from 0$"):
        one_head(FibQuant()).scores(0, 1, np.ones(8, np.float32), exact_query=True)
