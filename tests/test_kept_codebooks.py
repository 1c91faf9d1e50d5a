"""Codebooks on disk: the same to the bit, trained once, and no harm done by whatever happens to the files."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from polykv_core.codecs import kept_codebooks
from polykv_core.codecs.codebook import train_codebook
from polykv_core.codecs.kept_codebooks import codebook_of, codebooks_in

ASKED = (16, 4, 32, 7)
TRAINED = train_codebook(*ASKED)


@pytest.fixture
def folder(tmp_path):
    """A folder that codebooks are kept in."""
    with codebooks_in(tmp_path / "codebooks"):
        yield tmp_path / "codebooks"


@pytest.fixture
def trainings(monkeypatch):
    """What was trained."""
    asked = []

    def train(*what):
        asked.append(what)
        return train_codebook(*what)

    monkeypatch.setattr(kept_codebooks, "train_codebook", train)
    return asked


def files(folder):
    """Every file there."""
    return [path for path in folder.rglob("*") if path.is_file()]


def same(one, other):
    """Whether two codebooks are the same in everything."""
    arrays = all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in ("initial", "codewords"))
    numbers = ("initial_mse", "training_mse", "best_restart", "empty_cells_repaired")
    return arrays and all(getattr(one, name) == getattr(other, name) for name in numbers)


def test_a_codebook_is_trained_once_and_comes_back_to_the_bit(folder, trainings):
    """Its arrays are read-only, as those of a trained one are."""
    for _ in range(3):
        codebook = codebook_of(*ASKED)
        assert same(codebook, TRAINED)
        assert not codebook.codewords.flags.writeable
        assert codebook.codewords.dtype == np.float32
    assert trainings == [ASKED]
    assert len(files(folder)) == 1


@pytest.mark.parametrize("other", [(20, 4, 32, 7), (16, 8, 32, 7), (16, 4, 16, 7), (16, 4, 32, 8)])
def test_another_head_size_setting_or_seed_is_another_codebook(folder, trainings, other):
    """Each is trained and kept by itself."""
    codebook_of(*ASKED)
    assert same(codebook_of(*other), train_codebook(*other))
    assert trainings == [ASKED, other]
    assert len(files(folder)) == 2


def test_nothing_is_written_by_those_who_did_not_ask(tmp_path, trainings, monkeypatch):
    """Without a folder each call trains."""
    monkeypatch.chdir(tmp_path)
    codebook_of(*ASKED)
    codebook_of(*ASKED)
    assert trainings == [ASKED, ASKED]
    assert files(tmp_path) == []


@pytest.mark.parametrize("damage", [b"", b"x", hashlib.sha256().digest(), slice(0, -1), slice(0, 100), "flipped"])
def test_a_damaged_file_is_trained_anew_and_replaced(folder, trainings, damage):
    """Cut off, emptied, with a right checksum of nothing, or with a bit that flipped."""
    codebook_of(*ASKED)
    (path,) = files(folder)
    whole = path.read_bytes()
    flipped = bytes([*whole[:50], whole[50] ^ 1, *whole[51:]])
    path.write_bytes(flipped if damage == "flipped" else damage if isinstance(damage, bytes) else whole[damage])
    assert same(codebook_of(*ASKED), TRAINED)
    assert len(trainings) == 2
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_used_costs_a_training(tmp_path, trainings):
    """A file stands where the folder should be."""
    (tmp_path / "codebooks").write_text("in the way")
    with codebooks_in(tmp_path / "codebooks"):
        assert same(codebook_of(*ASKED), TRAINED)
    assert trainings == [ASKED]


def test_the_oldest_ones_make_room(folder, monkeypatch):
    """No folder grows without bound."""
    monkeypatch.setattr(kept_codebooks, "_MOST_IN_A_FOLDER", 1)
    for seed in range(600):
        kept_codebooks._write(folder / "00" / f"{seed:04}", TRAINED)
    (left,) = files(folder)
    assert left.name == "0599"


def test_several_processes_may_share_a_folder(folder):
    """Each gets the same codebooks, whoever trained them, and leaves whole files only."""
    program = f"""
from polykv_core.codecs.kept_codebooks import codebook_of, codebooks_in
with codebooks_in({str(folder)!r}):
    print([codebook_of(16, 4, 32, seed).codewords.tobytes().hex() for seed in range(12)])
"""
    runs = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(3)]
    printed = {run.communicate()[0] for run in runs}
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert len(printed) == 1
    assert len(files(folder)) == 12
    assert same(codebook_of(*ASKED), TRAINED)
