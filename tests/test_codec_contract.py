"""Every codec in CODECS keeps the contract at the top of polykv_core/codecs/base.py."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support import fresh_python, gaussian, refused_with

from polykv_core import CODECS, CodecError, ExactCodec, FibQuant, TurboQuant
from polykv_core.arrays import frozen
from polykv_core.codecs import take

DIMS = (8, 12, 16)
# By id: the most that decoding may err on Gaussian rows of head_dim 16 (RMS error / RMS row), and a score for a
# Gaussian query (RMS of score - inner product, over RMS |query| |row|). Each lies a few per cent above what the codec
# does, so that a worse code fails. A new codec needs a line here.
ERROR_LIMITS = {
    "exact": (0.0, 1e-7),
    "fib_k4_n32": (0.50, 0.17),
    "turbo_8bit": (0.029, 0.082),
}

every_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.id)
seeds = st.sampled_from([0, 7, 2**64 - 1])
dims = st.sampled_from(DIMS)
tokens = st.lists(st.integers(0, 5), max_size=8).map(np.array).map(lambda array: array.astype(np.int64))


@st.composite
def batches(draw, count=6):
    """A head size with rows of it, read-only, of the kind a codec meets: any scale, exact zeros, equal rows."""
    dim = draw(dims)
    entries = st.floats(-8.0, 8.0, width=32, allow_subnormal=False)
    rows = draw(arrays(np.float32, (count, dim), elements=entries, fill=st.nothing()))
    return frozen(rows * np.float32(draw(st.sampled_from([1e-3, 1.0, 1e3]))))


def coder_for(codec, rows, seed):
    """The codec's coder for these rows; draws that the codec may refuse are put aside."""
    assume(refused_with(CodecError, lambda: codec.check_rows(rows, str)) is None)
    return codec.coder(rows.shape[1], seed)


def same(codes, others):
    """Whether two batches of codes are equal to the last bit."""
    return all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(codes, others, strict=True)
    )


def test_ids_tell_codecs_apart():
    """No two codecs have the same id, and other settings make another id."""
    others = [FibQuant(8, 64), FibQuant(4, 64), TurboQuant(4), TurboQuant(8, 64)]
    ids = [codec.id for codec in (*CODECS, *others)]
    assert len(set(ids)) == len(ids)


@every_codec
@given(rows=batches(), seed=seeds)
def test_encoding_is_repeatable(codec, rows, seed):
    """The same rows give the same codes and decoded rows, to the last bit."""
    coder = coder_for(codec, rows, seed)
    codes = coder.encode(rows)
    assert same(codes, coder.encode(rows.copy()))
    assert coder.decode(codes).tobytes() == coder.decode(codes).tobytes()


def test_codes_are_the_same_in_every_process_and_with_any_number_of_threads():
    """A fresh process with one BLAS thread, or two, trains the same codebooks and codes the same bits."""
    program = """
        import hashlib
        import numpy as np
        from polykv_core import CODECS
        digest = hashlib.sha256()
        for codec in CODECS:
            for dim in (8, 12, 64, 80):
                rows = np.random.default_rng(dim).standard_normal((300, dim)).astype(np.float32)
                coder = codec.coder(dim, 11)
                codes = coder.encode(rows)
                for array in (*codes, coder.decode(codes), coder.score(codes, rows[0])):
                    digest.update(array.tobytes())
        print(digest.hexdigest())
    """
    one = fresh_python(program, OPENBLAS_NUM_THREADS="1", PYTHONHASHSEED="1")
    two = fresh_python(program, OPENBLAS_NUM_THREADS="2", PYTHONHASHSEED="2")
    assert len(one.strip()) == 64
    assert one == two


@every_codec
@given(rows=batches(), seed=seeds, chosen=tokens)
def test_a_subset_of_codes_is_the_subset_of_rows(codec, rows, seed, chosen):
    """Taking codes and decoding or scoring them is decoding or scoring all and taking; repeats and none included."""
    coder = coder_for(codec, rows, seed)
    codes = coder.encode(rows)
    query = gaussian(1, rows.shape[1])[0]
    for part in (chosen, slice(2, None), slice(0, 0), slice(1, None, 2)):
        np.testing.assert_array_equal(coder.decode(take(codes, part)), coder.decode(codes)[part])
        np.testing.assert_array_equal(coder.score(take(codes, part), query), coder.score(codes, query)[part])


@every_codec
@given(rows=batches(), others=batches(), seed=seeds, at=st.integers(0, 5))
def test_a_row_s_code_does_not_depend_on_the_other_rows(codec, rows, others, seed, at):
    """In batches of 4 or more (below, FibQuant rounds otherwise) a row has the same code whoever stands beside it."""
    assume(rows.shape == others.shape)
    coder = coder_for(codec, rows, seed)
    coder_for(codec, others, seed)
    mixed = others.copy()
    mixed[at] = rows[at]
    assert same(take(coder.encode(mixed), [at]), take(coder.encode(rows), [at]))
    assert same(coder.encode(rows[:4]), take(coder.encode(rows), slice(0, 4)))


@every_codec
@given(rows=batches(), seed=seeds)
def test_codes_decode_to_float32_rows_and_score_to_float32(codec, rows, seed):
    """Shapes are [t, d] and [t], both float32 and finite; every array of the codes has the token first."""
    coder = coder_for(codec, rows, seed)
    codes = coder.encode(rows)
    decoded, scores = coder.decode(codes), coder.score(codes, rows[0])
    assert [len(array) for array in codes] == [len(rows)] * len(codes)
    assert (decoded.shape, decoded.dtype) == (rows.shape, np.float32)
    assert (scores.shape, scores.dtype) == ((len(rows),), np.float32)
    assert np.isfinite(decoded).all()
    assert np.isfinite(scores).all()


@every_codec
@given(rows=batches(), others=batches(), seed=seeds)
def test_the_wire_form_tells_codes_apart(codec, rows, others, seed):
    """As many bytes for every row, none left out and none too many: equal bytes are equal codes, and the reverse."""
    assume(rows.shape == others.shape)
    coder = coder_for(codec, rows, seed)
    coder_for(codec, others, seed)
    codes, wire = zip(
        *[(coder.encode(batch), coder.wire(coder.encode(batch))) for batch in (rows, others)], strict=True
    )
    assert [part.dtype for part in wire] == [np.uint8, np.uint8]
    assert wire[0].shape == wire[1].shape
    for one in range(len(rows)):
        for other in range(len(rows)):
            alike = same(take(codes[0], [one]), take(codes[1], [other]))
            assert alike == (wire[0][one].tobytes() == wire[1][other].tobytes())
    assert coder.wire(take(codes[0], slice(0, 0))).shape == (0, wire[0].shape[1])


@every_codec
@pytest.mark.parametrize("dim", DIMS)
def test_tables_are_counted_in_whole_bytes(codec, dim):
    """What a cache stores beside its rows does not depend on the seed."""
    sizes = [codec.coder(dim, seed).table_bytes for seed in (0, 7)]
    assert sizes[0] == sizes[1] >= 0
    assert type(sizes[0]) is int


@every_codec
@pytest.mark.parametrize("dim", DIMS)
def test_a_zero_query_scores_zero(codec, dim):
    """No row is preferred by a query of zeros."""
    coder = codec.coder(dim, 3)
    scores = coder.score(coder.encode(gaussian(5, dim)), np.zeros(dim, dtype=np.float32))
    np.testing.assert_array_equal(scores, np.zeros(5, dtype=np.float32))


@every_codec
@pytest.mark.parametrize("dim", DIMS)
def test_no_rows_are_fine(codec, dim):
    """An empty batch encodes, decodes and scores to nothing."""
    coder = codec.coder(dim, 3)
    codec.check_rows(gaussian(0, dim), str)
    codes = coder.encode(gaussian(0, dim))
    assert coder.decode(codes).shape == (0, dim)
    assert coder.score(codes, gaussian(1, dim)[0]).shape == (0,)


@every_codec
def test_decoding_errs_no_more_than_it_should(codec):
    """The RMS error on Gaussian rows stays below the codec's limit, with no outlier far beyond it."""
    rows, (limit, _) = gaussian(2000, 16, draw=3), ERROR_LIMITS[codec.id]
    coder = codec.coder(16, 5)
    errors = np.linalg.norm(coder.decode(coder.encode(rows)) - rows, axis=1) / np.linalg.norm(rows, axis=1)
    assert np.sqrt((errors**2).mean()) <= limit
    assert errors.max() <= 1.7 * limit


@every_codec
def test_scores_err_no_more_than_they_should(codec):
    """The RMS distance of scores from inner products stays below the codec's limit, and has no bias."""
    rows, (_, limit) = gaussian(500, 16, draw=3), ERROR_LIMITS[codec.id]
    coder = codec.coder(16, 5)
    codes = coder.encode(rows)
    queries = gaussian(40, 16, draw=4)
    errors = np.stack([coder.score(codes, query) - rows @ query for query in queries]) / 16
    assert np.sqrt((errors**2).mean()) <= limit
    assert abs(errors.mean()) <= max(0.1 * limit, 1e-8)


@every_codec
def test_rows_and_tables_are_left_as_they_were(codec):
    """Encoding, decoding and scoring write to nothing they were given (read-only arrays would raise)."""
    rows, query = frozen(gaussian(6, 16)), frozen(gaussian(1, 16, draw=1)[0])
    coder = codec.coder(16, 1)
    codes = type(coder.encode(rows))(*(frozen(array) for array in coder.encode(rows)))
    before = coder.decode(codes).tobytes(), coder.score(codes, query).tobytes()
    assert (coder.decode(codes).tobytes(), coder.score(codes, query).tobytes()) == before


@every_codec
@given(dim=st.integers(1, 40))
def test_a_head_size_is_either_refused_or_served(codec, dim):
    """What check_head_dim lets pass encodes and decodes; what it refuses, coder() refuses with the same words."""
    refusal = refused_with(CodecError, lambda: codec.check_head_dim(dim))
    if refusal is None:
        coder = codec.coder(dim, 0)
        assert coder.decode(coder.encode(gaussian(2, dim))).shape == (2, dim)
    else:
        assert refusal.startswith(f"head_dim is {dim}; {codec.id} ")
        assert refused_with(CodecError, lambda: codec.coder(dim, 0)) == refusal


@given(rows=batches())
def test_the_exact_codec_loses_nothing(rows):
    """Decoded rows are the rows, scores the inner products summed in order."""
    coder = ExactCodec().coder(rows.shape[1], 0)
    codes = coder.encode(rows)
    total = np.zeros(len(rows), dtype=np.float32)
    for column in rows.T:
        total = total + column * column[0]
    np.testing.assert_array_equal(coder.decode(codes), rows)
    np.testing.assert_array_equal(coder.score(codes, rows[0]), total)


@given(rows=batches(), seed=seeds)
def test_a_fib_score_is_the_inner_product_of_decoded_query_and_decoded_key(rows, seed):
    """Both sides are quantised, and only the query's length is not: that is all that the table look-up computes."""
    coder = coder_for(FibQuant(), rows, seed)
    codes = coder.encode(rows)
    length = np.linalg.norm(rows[0].astype(np.float64))
    blocks = coder.codebook.codewords[coder.query_indices(rows[0])].reshape(1, -1)
    decoded_query = coder.rotation.inverse(blocks)[0] * length
    decoded = coder.decode(codes)
    scale = length * np.linalg.norm(rows, axis=1).max()
    np.testing.assert_allclose(coder.score(codes, rows[0]), decoded @ decoded_query, rtol=0, atol=2e-6 * scale)


@pytest.mark.parametrize("dim", [12, 16])
def test_a_turbo_score_adds_the_residual_s_direction(dim):
    """With many projections the sketch comes to the residual's unit vector times the query, as in the reference."""
    coder, rows, query = TurboQuant(6, 20_000).coder(dim, 9), gaussian(20, dim), gaussian(1, dim, draw=1)[0]
    codes = coder.encode(rows)
    decoded = coder.decode(codes)
    residual = rows - decoded
    expected = decoded @ query + residual @ query / np.linalg.norm(residual, axis=1)
    np.testing.assert_allclose(coder.score(codes, query), expected, rtol=0, atol=0.03 * np.linalg.norm(query))
    assert np.abs(expected - decoded @ query).max() > 0.3


def test_more_bits_and_codewords_err_less():
    """The settings do what they say."""
    rows = gaussian(400, 16)

    def error(codec):
        coder = codec.coder(16, 2)
        return np.sqrt(((coder.decode(coder.encode(rows)) - rows) ** 2).mean())

    turbo = [error(TurboQuant(bits)) for bits in (2, 4, 8, 12, 16)]
    fib = [error(FibQuant(4, words)) for words in (2, 8, 32, 256)]
    assert all(np.diff(turbo) < 0.0)
    assert all(np.diff(fib) < 0.0)
    assert turbo[-1] < 1e-3


@given(words=st.integers(2, 300), draw=st.integers(0, 99))
def test_the_wire_form_holds_every_index(words, draw):
    """Packed indices, read back bit by bit, are the indices: index_bits each, lowest bit first, zeros at the end."""
    indices = np.random.default_rng(draw).integers(0, words, (3, 5)).astype(np.uint16)
    coder = FibQuant(4, 32).coder(20, 0)
    codec = FibQuant(4, words)
    assert 2 ** (codec.index_bits - 1) < words <= 2**codec.index_bits
    coder = object.__new__(type(coder))
    coder.index_bits = codec.index_bits
    packed = coder.pack(_fib_codes(indices))
    for row, wire in zip(indices.tolist(), packed, strict=True):
        number = int.from_bytes(wire.tobytes(), "little")
        assert number == sum(index << codec.index_bits * at for at, index in enumerate(row))
        assert len(wire) == -(-codec.index_bits * len(row) // 8)


@given(bits=st.integers(2, 16), projections=st.integers(1, 70), draw=st.integers(0, 99))
def test_the_wire_form_of_the_shell_holds_radii_angles_and_signs(bits, projections, draw):
    """Read back: the radii as float32, bits - 1 for each angle, a bit for each sign, each part from a whole byte on."""
    coder = TurboQuant(bits, projections).coder(12, 3)
    codes = coder.encode(gaussian(4, 12, draw=draw))
    wire = coder.wire(codes)
    ends = np.cumsum([24, -(-6 * (bits - 1) // 8), -(-projections // 8)])
    assert wire.shape == (4, ends[-1])
    radii, angles, signs = (np.ascontiguousarray(part) for part in np.split(wire, ends[:-1], axis=1))
    np.testing.assert_array_equal(radii.view("<f4"), codes.radii)
    for row, part in zip(codes.angles.tolist(), angles, strict=True):
        number = int.from_bytes(part.tobytes(), "little")
        assert number == sum(angle << (bits - 1) * at for at, angle in enumerate(row))
    unpacked = np.unpackbits(signs, axis=1, count=projections, bitorder="little")
    np.testing.assert_array_equal(unpacked * 2 - 1.0, codes.signs)


def _fib_codes(indices):
    codes = FibQuant().coder(20, 0).encode(gaussian(len(indices), 20))
    return codes._replace(indices=indices)


@pytest.mark.parametrize("settings", [(5, 32), (0, 32), (4, 1), (4, 4097), (-4, 32), (4.0, 32), (4, 32.5)])
def test_fib_settings_that_make_no_codebook_are_refused(settings):
    """Block size and number of codewords are checked when the codec is made."""
    with pytest.raises(CodecError, match=r"expected block_dim 4 or 8 and 2 to 4096 codewords$"):
        FibQuant(*settings)


@pytest.mark.parametrize("settings", [(1, 32), (17, 32), (8, 0), (8, -1), (8, 65537), (8.0, 32), (8, 32.5)])
def test_turbo_settings_that_code_nothing_are_refused(settings):
    """Bits and projections are checked when the codec is made."""
    with pytest.raises(CodecError, match=r"expected 2 to 16 bits and 1 to 65536 projections$"):
        TurboQuant(*settings)


@pytest.mark.parametrize(
    ("length", "text"), [(65519.0, None), (65521.0, "65521"), (2.99e-8, None), (2.97e-8, "2.97e-08")]
)
def test_fib_takes_the_lengths_that_fp16_holds(length, text):
    """At the edges of fp16 a row is stored as a finite positive length, or refused by name."""
    rows = gaussian(3, 8)
    rows[1] = 0.0
    rows[1, 2] = length
    if text is None:
        FibQuant().check_rows(rows, str)
        stored = FibQuant().coder(8, 0).encode(rows).norms[1]
        assert np.isfinite(stored)
        assert stored > 0
    else:
        with pytest.raises(CodecError, match=rf"^row 1 has length {text}, which fp16 cannot hold; fib_k4_n32 needs"):
            FibQuant().check_rows(rows, "row {}".format)


def test_turbo_takes_a_row_of_zeros():
    """A zero row decodes to zeros."""
    coder = TurboQuant().coder(16, 0)
    np.testing.assert_array_equal(coder.decode(coder.encode(np.zeros((2, 16), dtype=np.float32))), np.zeros((2, 16)))


@pytest.mark.parametrize("codec", [*CODECS, FibQuant(8, 64), TurboQuant(4, 8)], ids=lambda codec: codec.id)
def test_a_codec_says_whether_it_codes_the_query(codec):
    """Where it does not, the scores of a sum of queries are the sum of their scores; where it does, nothing like it."""
    coder = codec.coder(16, 5)
    codes = coder.encode(gaussian(50, 16, draw=3))
    off = []
    for first, second in zip(gaussian(20, 16, draw=4), gaussian(20, 16, draw=5), strict=True):
        together = coder.score(codes, first + second)
        off.append(np.abs(coder.score(codes, first) + coder.score(codes, second) - together).max())
    assert isinstance(coder.codes_query, bool)
    assert np.median(off) > 0.1 if coder.codes_query else np.max(off) < 1e-4
