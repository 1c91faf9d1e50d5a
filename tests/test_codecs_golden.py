"""Both codecs agree with the reference: rotations, codebooks, codes, wire form, decoded rows and scores."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import GOLDEN, gaussian, read_golden

from polykv_core import FibQuant, TurboQuant
from polykv_core.codecs.codebook import NearestCodeword, squared_distances
from polykv_core.codecs.fib_quant import FibCoder, FibCodes
from polykv_core.codecs.turbo_quant import TurboCoder, TurboCodes

FILES = sorted((GOLDEN / "vectors").glob("codec_*"))


@dataclass(frozen=True)
class Golden:
    """A file of codec vectors, with our coders for its settings."""

    path: Path

    @cached_property
    def record(self) -> dict[str, Any]:
        """The file."""
        return read_golden(self.path)

    @property
    def rows(self) -> np.ndarray:
        """The rows that were encoded."""
        return np.array(self.record["vectors"], dtype=np.float32)

    @property
    def query(self) -> np.ndarray:
        """The query that was scored."""
        return np.array(self.record["query"], dtype=np.float32)

    @cached_property
    def fib(self) -> FibCoder:
        """Our FibQuant coder."""
        codec = FibQuant(self.record["fib_k"], self.record["fib_n"])
        return codec.coder(self.record["dim"], int(self.record["seed"]))

    @cached_property
    def fib_codes(self) -> FibCodes:
        """Our FibQuant codes."""
        return self.fib.encode(self.rows)

    @cached_property
    def turbo(self) -> TurboCoder:
        """Our TurboQuant coder."""
        codec = TurboQuant(self.record["turbo_bits"], self.record["turbo_projections"])
        return codec.coder(self.record["dim"], int(self.record["turbo"]["seed"]))

    @cached_property
    def turbo_codes(self) -> TurboCodes:
        """Our TurboQuant codes."""
        return self.turbo.encode(self.rows)

    @property
    def turbo_tolerance(self) -> float:
        """1e-6; the reference factors a QR rotation in float32, and its rounding is not ours."""
        return 2e-5 if self.record["turbo"]["rotation"] == "stored_qr_reference" else 1e-6


ALL = {path.name.split(".")[0]: Golden(path) for path in FILES}


@pytest.fixture(params=list(ALL))
def golden(request):
    """Each file of codec vectors."""
    return ALL[request.param]


def test_the_golden_vectors_are_all_there():
    """Reference settings at five head sizes, and four other settings; two of the codebooks needed many repairs."""
    assert len(ALL) == 9
    assert sorted(golden.record["fib"]["empty_cells_repaired"] for golden in ALL.values())[-3:] == [4, 49, 72]


def test_fib_rotation_of_the_first_unit_vector(golden):
    """The rotation's first column agrees: normals, their order, the factorisation and its signs."""
    expected = np.array(golden.record["fib"]["rotation_times_e0"])
    np.testing.assert_allclose(golden.fib.rotation.matrix[:, 0], expected, rtol=0, atol=1e-12)


def test_fib_initial_codebook(golden):
    """The codebook before training is equal to the bit in float32."""
    expected = np.array(golden.record["fib"]["initial_codebook"], dtype=np.float32)
    np.testing.assert_array_equal(golden.fib.codebook.initial.ravel(), expected)


def test_fib_trained_codewords(golden):
    """The codebook after training is equal to the bit in float32, through repairs of empty cells too."""
    expected = np.array(golden.record["fib"]["codewords"], dtype=np.float32)
    np.testing.assert_array_equal(golden.fib.codebook.codewords.ravel(), expected)


def test_fib_training_record(golden):
    """Both mean squared errors, the restart that won, and the number of repairs over all restarts agree."""
    book, expected = golden.fib.codebook, golden.record["fib"]
    assert book.initial_mse == pytest.approx(expected["init_mse"], rel=0, abs=1e-12)
    assert book.training_mse == pytest.approx(expected["training_mse"], rel=0, abs=1e-12)
    assert book.best_restart == expected["best_restart"]
    assert book.empty_cells_repaired == expected["empty_cells_repaired"]


def test_fib_codes(golden):
    """Every block's codeword index, and the bits of every stored length."""
    assert golden.fib_codes.indices.tolist() == golden.record["fib"]["indices"]
    assert golden.fib_codes.norms.view(np.uint16).tolist() == golden.record["fib"]["norm_fp16_bits"]


def test_fib_wire_form(golden):
    """The packed indices are the reference's bytes."""
    assert golden.fib.pack(golden.fib_codes).tolist() == golden.record["fib"]["packed_indices"]


def test_fib_decoded_rows(golden):
    """Decoded rows agree."""
    expected = np.array(golden.record["fib"]["decoded"])
    np.testing.assert_allclose(golden.fib.decode(golden.fib_codes), expected, rtol=0, atol=1e-6)


def test_fib_query_indices(golden):
    """The query is quantised to the same codewords."""
    assert golden.fib.query_indices(golden.query).tolist() == golden.record["fib"]["query_indices"]


def test_fib_scores(golden):
    """Scores agree."""
    expected = np.array(golden.record["fib"]["scores"])
    np.testing.assert_allclose(golden.fib.score(golden.fib_codes, golden.query), expected, rtol=0, atol=1e-6)


def test_turbo_radii(golden):
    """The radius of every pair agrees."""
    expected = np.array(golden.record["turbo"]["radii"])
    np.testing.assert_allclose(golden.turbo_codes.radii, expected, rtol=0, atol=golden.turbo_tolerance)


def test_turbo_angle_indices_and_signs(golden):
    """Angle indices and the sketch's signs are equal."""
    assert golden.turbo_codes.angles.tolist() == golden.record["turbo"]["angle_indices"]
    assert golden.turbo_codes.signs.tolist() == golden.record["turbo"]["signs"]


def test_turbo_decoded_rows(golden):
    """Decoded rows, the polar part alone, agree."""
    expected = np.array(golden.record["turbo"]["decoded"])
    decoded = golden.turbo.decode(golden.turbo_codes)
    np.testing.assert_allclose(decoded, expected, rtol=0, atol=golden.turbo_tolerance)


def test_turbo_scores(golden):
    """Scores, the sketch included, agree."""
    expected = np.array(golden.record["turbo"]["scores"])
    scores = golden.turbo.score(golden.turbo_codes, golden.query)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=golden.turbo_tolerance)


def rows_at_a_cell_s_edge(coder, count):
    """Rows whose codes hang on the last digits: steps of one float32 around the place where a codeword changes."""
    low, high = gaussian(count, 8, draw=1), gaussian(count, 8, draw=2)
    low[:, 1:] = high[:, 1:]
    before = coder.encode(low).indices
    for _ in range(60):
        middle = (low + high) / 2
        stays = (coder.encode(middle).indices == before).all(axis=1, keepdims=True)
        low, high = np.where(stays, middle, low), np.where(stays, high, middle)
    steps = np.repeat(low, 41, axis=0)
    steps[:, 0] = (low[:, :1].view(np.int32) + np.arange(-20, 21, dtype=np.int32)).view(np.float32).ravel()
    return steps


def test_a_batch_of_four_rounds_unit_vectors_to_float32():
    """From 4 rows on unit vectors are rounded to float32, below they are not; at a cell's edge that decides."""
    coder = FibQuant().coder(8, 5)
    rows = rows_at_a_cell_s_edge(coder, 40)
    wide = rows.astype(np.float64)
    units = wide / np.sqrt((wide * wide).sum(axis=1, keepdims=True))

    def nearest(unit_rows):
        blocks = coder.rotation.forward(unit_rows).reshape(-1, 4)
        return squared_distances(blocks, coder.codebook.codewords).argmin(axis=1).reshape(-1, 2)

    rounded, unrounded = nearest(units.astype(np.float32).astype(np.float64)), nearest(units)
    telling = np.flatnonzero((rounded != unrounded).any(axis=1))
    assert len(telling) >= 10
    np.testing.assert_array_equal(coder.encode(rows).indices, rounded)
    for row in telling:
        few = rows[row : row + 3]
        np.testing.assert_array_equal(coder.encode(few).indices, unrounded[row : row + len(few)])
        four = np.resize(rows[row], (4, 8))
        np.testing.assert_array_equal(coder.encode(four).indices, np.resize(rounded[row], (4, 2)))
    # A query is never rounded, however many keys there are.
    assert [coder.query_indices(rows[row]).tolist() for row in telling] == unrounded[telling].tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("count", "dim", "words"), [(3000, 4, 32), (500, 8, 256), (1, 4, 2), (0, 4, 8)])
def test_the_nearest_codeword_is_the_distance_formula_s(dtype, count, dim, words):
    """The quick search gives what the formula gives, in the points' own precision."""
    random = np.random.default_rng(words)
    points = random.standard_normal((count, dim)).astype(dtype)
    codewords = random.standard_normal((words, dim)).astype(dtype)
    expected = squared_distances(points, codewords).argmin(axis=1)
    np.testing.assert_array_equal(NearestCodeword(points)(codewords), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_of_equally_near_codewords_wins(dtype):
    """Doubled codewords, and points that sit between two, go to the lower index; hairs' breadths decide as computed."""
    random = np.random.default_rng(4)
    codewords = np.repeat(random.standard_normal((16, 4)), 2, axis=0).astype(dtype)
    codewords[1::4] += np.finfo(dtype).eps
    middles = (codewords[:, None] + codewords[None]).reshape(-1, 4) / 2
    points = np.concatenate([codewords, middles]).astype(dtype)
    expected = squared_distances(points, codewords).argmin(axis=1)
    assert (expected % 4 != 3).all()
    np.testing.assert_array_equal(NearestCodeword(points)(codewords), expected)
