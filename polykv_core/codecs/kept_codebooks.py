"""Trained codebooks on disk, for those who ask for it: a second run over the same seeds trains none.

A file for each, named by the hash of what it was trained for, so that several processes may share a folder: a codebook
is written beside its place and then moved there, whole. Each file has a checksum. One that is damaged, and a folder
that cannot be used, cost a training and nothing else.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from polykv_core.arrays import frozen
from polykv_core.codecs.codebook import Codebook, train_codebook

# To be raised whenever the same settings and seed train another codebook, or a file is laid out in another way.
_FORMAT = 1
# A file takes a block of 4 KiB; in 256 folders that is 64 MiB.
_MOST_IN_A_FOLDER = 64
_CHECKSUM_BYTES = hashlib.sha256().digest_size

_FOLDER: ContextVar[Path | None] = ContextVar("folder", default=None)


@contextmanager
def codebooks_in(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keep codebooks in this folder meanwhile, in this thread; elsewhere they are kept in memory only."""
    token = _FOLDER.set(Path(folder))
    try:
        yield
    finally:
        _FOLDER.reset(token)


def codebook_of(head_dim: int, block_dim: int, codeword_count: int, seed: int) -> Codebook:
    """The codebook of these settings and a codebook seed: from the folder, or trained and put there."""
    folder = _FOLDER.get()
    if folder is None:
        return train_codebook(head_dim, block_dim, codeword_count, seed)
    key = hashlib.sha256(f"{_FORMAT} {head_dim} {block_dim} {codeword_count} {seed}".encode()).hexdigest()
    path = folder / key[:2] / key
    kept = _read(path, codeword_count, block_dim)
    if kept is not None:
        return kept
    codebook = train_codebook(head_dim, block_dim, codeword_count, seed)
    with suppress(OSError):
        _write(path, codebook)
    return codebook


def _read(path: Path, count: int, block_dim: int) -> Codebook | None:
    """A codebook from its file; None if there is none, or none that is whole."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    checksum, content = data[:_CHECKSUM_BYTES], data[_CHECKSUM_BYTES:]
    layout = _layout(count, block_dim)
    if hashlib.sha256(content).digest() != checksum or len(content) != layout.itemsize:
        return None
    (held,) = np.frombuffer(content, layout)
    initial_mse, training_mse, restart, repaired = held["numbers"].tolist()
    return Codebook(
        initial=frozen(held["initial"].astype(np.float32)),
        codewords=frozen(held["codewords"].astype(np.float32)),
        initial_mse=initial_mse,
        training_mse=training_mse,
        best_restart=int(restart),
        empty_cells_repaired=int(repaired),
    )


def _layout(count: int, block_dim: int) -> np.dtype[np.void]:
    """What stands behind the checksum; without gaps."""
    codewords = ("<f4", (count, block_dim))
    return np.dtype([("initial", *codewords), ("codewords", *codewords), ("numbers", "<f8", 4)])


def _write(path: Path, codebook: Codebook) -> None:
    numbers = (codebook.initial_mse, codebook.training_mse, codebook.best_restart, codebook.empty_cells_repaired)
    content = np.array((codebook.initial, codebook.codewords, numbers), _layout(*codebook.codewords.shape)).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{secrets.token_hex(8)}")
    try:
        fresh.write_bytes(hashlib.sha256(content).digest() + content)
        fresh.replace(path)
    except BaseException:  # an interrupt, too, must leave no litter
        with suppress(OSError):
            fresh.unlink()
        raise
    _make_room(path.parent)


def _make_room(folder: Path) -> None:
    """Let the files go that were written longest ago; another process may have done so in the meantime."""
    files = list(folder.iterdir())
    if len(files) > _MOST_IN_A_FOLDER:
        with suppress(OSError):
            for old in sorted(files, key=lambda file: file.stat().st_mtime_ns)[:-_MOST_IN_A_FOLDER]:
                old.unlink(missing_ok=True)
