"""The random streams are the reference's, word for word; a longer stream begins with the shorter one."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import GOLDEN, read_golden

from polykv_core import streams

SEEDS = (0, 42, 2**64 - 1)
any_seed = st.integers(0, 2**64 - 1)


@pytest.fixture(params=SEEDS)
def golden(request):
    """What the crate draws from a seed."""
    record = read_golden(GOLDEN / "vectors" / f"streams_seed_{request.param}.json")
    assert int(record["seed"]) == request.param
    return record | {"seed": request.param}


def test_32_bit_words_are_the_reference_s(golden):
    """ChaCha8's words come out in order, to the bit, whatever the seed's size."""
    expected = golden["next_u32"]
    assert streams.chacha8_words(golden["seed"], len(expected)).tolist() == expected


def test_64_bit_words_take_the_low_half_first(golden):
    """Two 32-bit words make a 64-bit one, the first of them low."""
    expected = [int(word) for word in golden["next_u64"]]
    assert streams.uint64_words(golden["seed"], len(expected)).tolist() == expected


def test_booleans_are_the_reference_s(golden):
    """A coin flip is the top bit of a word."""
    expected = golden["gen_bool"]
    assert streams.booleans(golden["seed"], len(expected)).tolist() == expected


def test_normals_are_the_reference_s(golden):
    """2000 normals agree, those of the ziggurat's wedges and tail included."""
    expected = np.array(golden["standard_normal_f64"])
    assert len(expected) == 2000
    np.testing.assert_allclose(streams.standard_normals(golden["seed"], 2000), expected, rtol=0, atol=1e-12)


def test_float32_normals_are_the_float64_ones_rounded(golden):
    """The reference's f32 normals are the f64 ones, cast."""
    expected = np.array(golden["standard_normal_f32"], dtype=np.float32)
    ours = streams.standard_normals(golden["seed"], len(expected)).astype(np.float32)
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("dim", [16, 64])
def test_spherical_beta_samples_are_the_reference_s(golden, dim):
    """Gammas, their rejections and the directions agree over 300 samples on one stream."""
    expected = np.array(golden[f"spherical_beta_d{dim}_k4"])
    assert expected.shape == (300, 4)
    ours = streams.spherical_beta_samples(golden["seed"], 300, dim, 4)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)


@given(seed=any_seed, count=st.integers(0, 400), more=st.integers(0, 400))
def test_a_longer_stream_begins_with_the_shorter_one(seed, count, more):
    """How many draws are asked for changes none of them: words, normals and samples alike."""
    for draw in (streams.chacha8_words, streams.uint64_words, streams.booleans, streams.standard_normals):
        np.testing.assert_array_equal(draw(seed, count), draw(seed, count + more)[:count])
    short, long = (streams.spherical_beta_samples(seed, n, 8, 4) for n in (count, count + more))
    np.testing.assert_array_equal(short, long[:count])


def test_a_stream_that_proves_too_short_is_drawn_again_longer(monkeypatch):
    """How many words a draw takes is not known beforehand; too short a guess changes no draw."""
    expected = streams.standard_normals(7, 500), streams.spherical_beta_samples(7, 300, 16, 4)
    guesses = []
    words = streams.uint64_words

    def fewer(seed, count):
        guesses.append(count)
        return words(seed, count // 8)

    monkeypatch.setattr(streams, "uint64_words", fewer)
    np.testing.assert_array_equal(streams.standard_normals(7, 500), expected[0])
    np.testing.assert_array_equal(streams.spherical_beta_samples(7, 300, 16, 4), expected[1])
    assert len(guesses) > 4


@given(seed=any_seed)
@example(seed=2**63)
def test_words_do_not_repeat_at_a_block_s_end(seed):
    """The block counter advances: no block of 16 words equals another."""
    blocks = streams.chacha8_words(seed, 16 * 40).reshape(40, 16)
    assert len({block.tobytes() for block in blocks}) == 40


def test_normals_have_the_moments_and_tails_of_a_normal():
    """Mean, variance, fourth moment and the share beyond the ziggurat's last layer are a normal's."""
    normals = streams.standard_normals(3, 200_000)
    assert abs(normals.mean()) < 0.01
    assert abs(normals.var() - 1.0) < 0.02
    assert abs((normals**4).mean() - 3.0) < 0.1
    beyond = np.abs(normals) > 3.654152885361008796
    assert 20 <= np.count_nonzero(beyond) <= 90  # expected: 51.6


@pytest.mark.parametrize(("dim", "block"), [(8, 4), (16, 8), (128, 4)])
def test_samples_are_blocks_of_a_uniform_direction(dim, block):
    """A block of a uniform unit vector lies in the unit ball, has mean 0 and mean square length block/dim."""
    samples = streams.spherical_beta_samples(5, 20_000, dim, block)
    square = (samples**2).sum(axis=1)
    assert square.max() < 1.0
    assert np.abs(samples.mean(axis=0)).max() < 0.02
    assert abs(square.mean() - block / dim) < 0.01
