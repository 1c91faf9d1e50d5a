"""Ranking over both tiers, and outputs for every k read off one ranking."""

from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import gaussian

from polykv_core import ExactCodec, KvTensorShape, SharedKVPool, attention
from polykv_core.attention import RankedRows, exact_output, project, rank, softmax

SPECIAL = np.array([0x7FC00000, 0x7F800000, 0x3F800000, 0, 0x80000000, 0xBF800000, 0xFF800000, 0xFFC00000], np.uint32)
SPECIAL = SPECIAL.view(np.float32)  # NaN, inf, 1, +0, -0, -1, -inf, -NaN: the total order, largest first


class Rows(NamedTuple):
    """Codes that are rows."""

    rows: np.ndarray


class GivenScores:
    """A codec whose scores are given: SPECIAL at the index in a key's first column. Counts the rows it decodes."""

    id = "given"
    codes_query = False
    table_bytes = 0

    def __init__(self):
        """With nothing decoded yet."""
        self.decoded = []

    def check_head_dim(self, head_dim):
        """Any."""

    def check_rows(self, rows, name):
        """Any."""

    def coder(self, _head_dim, _seed):
        """Itself."""
        return self

    def encode(self, rows):
        """The rows."""
        return Rows(rows)

    def decode(self, codes):
        """The rows, noted."""
        self.decoded.append(len(codes.rows))
        return codes.rows

    def wire(self, codes):
        """Not asked for."""

    def score(self, codes, _query):
        """The special float that a key asks for."""
        return SPECIAL[codes.rows[:, 0].astype(int)]


def ranked_by(pool_scores, shell_scores, limit=99):
    """A ranking of rows whose keys are [index into SPECIAL] and whose values are [row number]; and both codecs."""
    shape, codecs = KvTensorShape(1, 1, 1), (GivenScores(), GivenScores())
    count = len(pool_scores)
    rows = np.array([[score, row] for row, score in enumerate([*pool_scores, *shell_scores])], np.float32)
    pool = SharedKVPool.build(rows[:count], shape, 0, codec=codecs[0])
    shell = pool.materialize_shell("agent", rows[count:], 0, codec=codecs[1])
    return rank(pool, shell, 0, 0, np.ones(1, np.float32), limit), codecs


scores_of_a_tier = st.lists(st.integers(0, len(SPECIAL) - 1), min_size=1, max_size=12)


@given(pool=scores_of_a_tier, shell=scores_of_a_tier, limit=st.integers(1, 30))
def test_rows_are_ranked_in_the_total_order_of_floats(pool, shell, limit):
    """NaN, inf, 1, +0, -0, -1, -inf, -NaN; a tie goes to the pool, then to the lower token."""
    ranked, _ = ranked_by(pool, shell, limit)
    order = sorted(range(len(pool) + len(shell)), key=[*pool, *shell].__getitem__)[:limit]
    assert ranked.rows.tolist() == order
    assert ranked.scores.tobytes() == SPECIAL[[[*pool, *shell][row] for row in order]].tobytes()
    assert ranked.values[:, 0].tolist() == order
    assert ranked.row_count == len(pool) + len(shell)


def test_a_tie_goes_to_the_pool_before_the_shell():
    """Equal scores everywhere: the pool's tokens in order, then the shell's."""
    ranked, _ = ranked_by([2, 2, 2], [2, 2, 2])
    assert ranked.rows.tolist() == [0, 1, 2, 3, 4, 5]


def test_plus_zero_ranks_above_minus_zero():
    """The zeros are told apart, even where the pool would win a tie."""
    ranked, _ = ranked_by([4, 4], [3, 4])
    assert ranked.rows.tolist() == [2, 0, 1, 3]


@given(pool=scores_of_a_tier, shell=scores_of_a_tier, limit=st.integers(1, 30))
def test_only_the_selected_rows_values_are_decoded(pool, shell, limit):
    """As many rows are decoded as are read, each by its own tier."""
    ranked, codecs = ranked_by(pool, shell, limit)
    in_pool = int((ranked.rows < len(pool)).sum())
    assert [sum(codec.decoded) for codec in codecs] == [in_pool, len(ranked.rows) - in_pool]
    assert len(ranked.rows) == min(limit, len(pool) + len(shell))


BOTH_WAYS = pytest.mark.parametrize("in_order", [1024, 2, 1], ids=["added in order", "both", "off running sums"])


def outputs_of(ranked, ks, in_order):
    """The outputs, with so many rows added as the reference adds them, and more of them read off running sums."""
    with patch.object(attention, "IN_ORDER_ROWS", in_order):
        return attention.outputs_at(ranked, ks)


def ranked_rows(scores, values):
    """A ranking as rank makes it."""
    return RankedRows(np.arange(len(scores)), np.array(scores, np.float32), np.array(values, np.float32), len(scores))


@st.composite
def rankings(draw):
    """Rankings of 1 to 12 rows of 3 dims, scores falling."""
    count = draw(st.integers(1, 12))
    scores = sorted(draw(st.lists(st.floats(-30, 30, width=32), min_size=count, max_size=count)), reverse=True)
    return ranked_rows(scores, gaussian(count, 3, draw=draw(st.integers(0, 99))))


@BOTH_WAYS
@given(ranked=rankings())
def test_outputs_are_softmax_attention_over_the_k_best(in_order, ranked):
    """Every k's output agrees with a loop over its rows; a k beyond the rows reads them all."""
    ks = np.arange(1, len(ranked.scores) + 3)
    outputs = outputs_of(ranked, ks, in_order)
    assert (outputs.shape, outputs.dtype) == ((len(ks), 3), np.float32)
    for k, output in zip(ks.tolist(), outputs, strict=True):
        np.testing.assert_allclose(
            output, oracle.attention(ranked.scores.tolist(), ranked.values.tolist(), k), rtol=0, atol=2e-6
        )


@BOTH_WAYS
@given(ranked=rankings(), k=st.integers(1, 14), others=st.lists(st.integers(1, 14), max_size=5))
def test_an_output_does_not_depend_on_the_other_ks(in_order, ranked, k, others):
    """Asked alone or among others, and from a ranking that ends at k, an output is the same to the last digit."""
    alone = outputs_of(ranked, np.array([k]), in_order)[0]
    np.testing.assert_array_equal(outputs_of(ranked, np.array([*others, k]), in_order)[-1], alone)
    short = RankedRows(ranked.rows[:k], ranked.scores[:k], ranked.values[:k], ranked.row_count)
    np.testing.assert_array_equal(outputs_of(short, np.array([k]), in_order)[0], alone)


def test_scores_are_not_divided_by_the_root_of_the_head_size():
    """Two rows with scores 1 apart are weighed e : 1, whatever the head size."""
    outputs = attention.outputs_at(ranked_rows([1.0, 0.0], [[1.0] * 16, [0.0] * 16]), np.array([2]))
    np.testing.assert_allclose(outputs, np.e / (np.e + 1), atol=1e-7)


@BOTH_WAYS
@pytest.mark.parametrize("first", [np.nan, np.inf])
def test_where_weights_are_undefined_rows_weigh_alike(in_order, first):
    """With a best score of NaN or infinity the softmax has no sum; the k rows are averaged, as in the reference."""
    outputs = outputs_of(ranked_rows([first, 1.0, 0.0], [[3.0], [6.0], [0.0]]), np.array([1, 2, 3]), in_order)
    np.testing.assert_allclose(outputs[:, 0], [3.0, 4.5, 3.0], rtol=1e-6)


@BOTH_WAYS
def test_an_undefined_score_further_down_spoils_only_what_reads_it(in_order):
    """A row of score -NaN makes the weights alike from its k on, and leaves the smaller ks as they are."""
    outputs = outputs_of(ranked_rows([0.0, 0.0, SPECIAL[-1]], [[2.0], [4.0], [9.0]]), np.array([1, 2, 3]), in_order)
    np.testing.assert_allclose(outputs[:, 0], [2.0, 3.0, 5.0], rtol=1e-6)


@BOTH_WAYS
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_value_beyond_float32_leaves_no_output_from_its_k_on(in_order, value):
    """Smaller ks do not read it, and have their outputs."""
    outputs = outputs_of(
        ranked_rows([3.0, 2.0, 1.0], [[1.0, 5.0], [2.0, 5.0], [value, 5.0]]), np.array([1, 2, 3, 4]), in_order
    )
    assert np.isfinite(outputs[:2]).all()
    assert np.isnan(outputs[2:]).all()


@given(rows=st.integers(1, 9), draw=st.integers(0, 99))
def test_exact_output_is_unscaled_softmax_attention(rows, draw):
    """The exact output agrees with a loop over all rows."""
    keys, values, query = gaussian(rows, 4, draw), gaussian(rows, 4, draw + 100), gaussian(1, 4, draw + 200)[0]
    scores = [sum(a * b for a, b in zip(key, query.tolist(), strict=True)) for key in keys.tolist()]
    expected = oracle.attention(scores, values.tolist(), rows)
    np.testing.assert_allclose(exact_output(keys, values, query), expected, rtol=0, atol=1e-6)


@given(rows=st.integers(1, 6), vocab=st.integers(1, 9), draw=st.integers(0, 99))
def test_logits_are_the_projection_of_the_output(rows, vocab, draw):
    """One row of logits for each output, the same whichever outputs stand beside it."""
    outputs, projection = gaussian(rows, 4, draw), gaussian(vocab, 4, draw + 100)
    logits = project(outputs, projection)
    np.testing.assert_allclose(logits, outputs @ projection.T, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(logits[:1], project(outputs[:1], projection))


@given(logits=st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=8), shift=st.integers(-8, 8))
def test_softmax_is_a_distribution_that_a_shift_leaves_alone(logits, shift):
    """Probabilities are positive or 0, sum to 1, keep the order, and change not when all logits move."""
    p = softmax(np.array([logits], np.float32))[0]
    assert p.dtype == np.float64
    np.testing.assert_allclose(p, oracle.softmax(logits), rtol=1e-5, atol=1e-9)
    moved = softmax(np.array([logits], np.float32) + np.float32(shift))[0]
    np.testing.assert_allclose(moved, p, rtol=0, atol=1e-5)


def test_softmax_of_undefined_logits_is_uniform():
    """Where the sum is not finite, every entry gets the same probability, as in the reference."""
    logits = np.array([[np.nan, 0.0, 1.0, 2.0], [np.inf, np.inf, 0.0, 0.0]], np.float32)
    np.testing.assert_array_equal(softmax(logits), np.full((2, 4), 0.25))


def test_exact_codecs_rank_by_inner_product():
    """With nothing compressed the ranking is that of the keys' inner products with the query."""
    shape, rows, query = KvTensorShape(1, 1, 8), gaussian(20, 16), gaussian(1, 8, draw=1)[0]
    pool = SharedKVPool.build(rows[:12], shape, 0, codec=ExactCodec())
    shell = pool.materialize_shell("agent", rows[12:], 0, codec=ExactCodec())
    ranked = rank(pool, shell, 0, 0, query, 20)
    assert ranked.rows.tolist() == oracle.ranking((rows[:, :8].astype(float) @ query).tolist())
    np.testing.assert_array_equal(ranked.values, rows[ranked.rows, 8:])
