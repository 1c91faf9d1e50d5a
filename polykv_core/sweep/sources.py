"""The files of a sweep: each is hashed once, though its heads are read one by one, maybe on other machines."""

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from polykv_core.errors import FixtureError
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.loading import load_fixture
from polykv_core.packs import Pack, is_pack, open_pack


@dataclass(frozen=True)
class Source:
    """A file as it was when it was hashed."""

    digest: str
    size: int
    changed_ns: int

    @classmethod
    def at(cls, path: str) -> "Source":
        """The file at a path. Raises OSError."""
        before = os.stat(path)
        return cls(_digest(path), before.st_size, before.st_mtime_ns)

    def fixture(self, path: str, head: str | None) -> CapturedReplayFixture:
        """A head of this file. Raises FixtureError as load_fixture does, and if the file is another one by now."""
        try:
            fixture = self._loaded(path, head)
        except FixtureError as bad:
            raise (bad if self._still_at(path) else _changed()) from None
        if fixture.file_digest != self.digest or not self._still_at(path):
            raise _changed()
        return fixture

    def _loaded(self, path: str, head: str | None) -> CapturedReplayFixture:
        """A head of what is there now. Loading it from a compact file's path would hash all of the file again."""
        with Path(path).open("rb") as file:
            packed = is_pack(file.read(16))
        return _pack(path, self.digest, _seen(path)).fixture(head, self.digest) if packed else load_fixture(path, head)

    def _still_at(self, path: str) -> bool:
        """Whether the file is the same; a copy on another machine has another time of change, and the same content."""
        now = os.stat(path)
        return (now.st_size, now.st_mtime_ns) == (self.size, self.changed_ns) or _digest(path) == self.digest


@lru_cache(maxsize=4)
def _pack(path: str, digest: str, seen: tuple[int, ...]) -> Pack:
    """A compact file, opened and hashed once for all of its heads that are done in this process.

    What was opened is held against the digest: another file may lie at the path for a moment, and what is kept here
    would give that one's heads for ever.
    """
    pack = open_pack(path)
    if _digest(path) != digest or _seen(path) != seen:
        raise _changed()
    return pack


def _seen(path: str) -> tuple[int, ...]:
    """What tells a file from another one at the same path, and from what it was."""
    now = os.stat(path)
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def _changed() -> FixtureError:
    return FixtureError("the file was changed while the sweep ran; start the sweep again")


def _digest(path: str) -> str:
    with Path(path).open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
