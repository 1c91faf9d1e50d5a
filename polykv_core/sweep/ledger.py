"""The ledger of finished heads: a sweep that was stopped or killed goes on where it was, and a head is done once.

A file a head, named after all that its numbers depend on: the fixture's file, the head, the ks, the options, the
versions. No gate is among that, for the results know none.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from polykv_core.canonical import canonical, sha256_of
from polykv_core.errors import SweepError
from polykv_core.files import write_whole
from polykv_core.sweep.folder import default_folder
from polykv_core.sweep.items import SweepItem
from polykv_core.sweep.result import HeadResult
from polykv_core.sweep.work import SweepRequest
from polykv_core.version import Versions

# To be raised when a result's bytes mean something else than before.
FORMAT = 2
_SUFFIX = ".head"
_MOST_BYTES = 2**31
# What a killed writer left behind is litter once no writer can still be at it.
_LITTER_SECONDS = 24 * 3600.0


def ledger_key(file_digest: str, head: str | None, request: SweepRequest) -> str:
    """The name of all that a head's numbers depend on."""
    told = {
        "format": FORMAT,
        "versions": asdict(Versions.here()),
        "file": file_digest,
        "head": head,
        "candidate_ks": list(request.candidate_ks),
        "options": request.options.to_dict(),
    }
    return sha256_of(canonical(told)).removeprefix("sha256:")


class Ledger:
    """Finished heads in a folder, for several sweeps at once. Errors are not kept: what failed is tried again."""

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, anew: bool = False) -> None:
        """Use a folder (None is default_folder()), made if it is missing. Raises SweepError.

        With `anew` no head is taken as finished; those that are done take the place of what was kept.
        """
        self._anew = anew
        self.folder = default_folder() if folder is None else Path(folder)
        with self._told():
            self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str, item: SweepItem) -> HeadResult | None:
        """The finished result of an item; None if there is none, or it is damaged."""
        path = self._path(key)
        if self._anew:
            return None
        try:
            result = replace(HeadResult.from_bytes(path.read_bytes(), item), kept=True)
        except (OSError, SweepError):
            return None
        with suppress(OSError):
            os.utime(path)  # what is used is not pruned first
        return result

    def put(self, key: str, result: HeadResult) -> None:
        """Keep a finished head, whole or not at all. Raises SweepError if it cannot be written."""
        if result.error is None:
            with self._told():
                write_whole(self._path(key), result.to_bytes())

    def prune(self, most_bytes: int = _MOST_BYTES) -> None:
        """Delete the heads that were not used for longest until the rest takes no more than so many bytes."""
        left = 0
        for changed, path, size in sorted(self._files(), reverse=True):
            left += size
            litter = path.suffix != _SUFFIX and changed < time.time() - _LITTER_SECONDS
            if litter or (path.suffix == _SUFFIX and left > most_bytes):
                with suppress(OSError):
                    path.unlink()

    def _files(self) -> Iterator[tuple[float, Path, int]]:
        """The ledger's own files, each with its last use and size; another sweep may delete some meanwhile."""
        for pattern in (f"*{_SUFFIX}", ".polykv-*.tmp"):
            for path in self.folder.glob(pattern):
                with suppress(OSError):
                    found = path.stat()
                    yield found.st_mtime, path, found.st_size

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A refusal of the system as an error of this package."""
        try:
            yield
        except OSError as bad:
            raise SweepError(
                f"cannot keep finished heads in {self.folder}: {bad.strerror or bad}; "
                "free some space, or name another folder in POLYKV_SWEEPS"
            ) from None
