"""The files of a sweep: each is hashed once in a process, though its heads are read one by one, maybe elsewhere."""

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from polykv_core.errors import FixtureError
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.loading import load_fixture
from polykv_core.packs import Pack, is_pack, open_pack

# What tells a file from any other at its path, and from itself before it was written or moved again.
_Stamp = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Source:
    """A file's content as it was when the sweep began."""

    digest: str

    @classmethod
    def at(cls, path: str) -> "Source":
        """The file at a path. Raises OSError."""
        return cls(_digest(path, _stamp(path)))

    def fixture(self, path: str, head: str | None) -> CapturedReplayFixture:
        """A head of this file. Raises FixtureError as load_fixture does, and if the file is another one by now."""
        changed = FixtureError("the file was changed while the sweep ran; start the sweep again")
        stamp = _stamp(path)
        if _digest(path, stamp) != self.digest:
            raise changed
        try:
            fixture = self._loaded(path, head, stamp)
        except FixtureError as bad:
            raise (bad if _stamp(path) == stamp else changed) from None
        # Another file may have lain there only for the moment in which it was read.
        if _stamp(path) != stamp:
            raise changed
        return fixture

    def _loaded(self, path: str, head: str | None, stamp: _Stamp) -> CapturedReplayFixture:
        """A head of what is there now. Loading it from a compact file's path would hash all of the file again."""
        with Path(path).open("rb") as file:
            packed = is_pack(file.read(16))
        return _pack(path, stamp).fixture(head, self.digest) if packed else load_fixture(path, head)


def _stamp(path: str) -> _Stamp:
    now = os.stat(path)
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


@lru_cache(maxsize=64)
def _digest(path: str, _: _Stamp) -> str:
    """The file's hash, taken once for each stamp that it has."""
    with Path(path).open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


@lru_cache(maxsize=4)
def _pack(path: str, _: _Stamp) -> Pack:
    """A compact file, its layout read once for all of its heads that are done in this process."""
    return open_pack(path)
