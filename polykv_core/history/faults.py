"""What SQLite and the system say when something fails, as a sentence for a person."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polykv_core.errors import StoreError

BUSY_SECONDS = 30.0
BACKUP = ".backup"

_OTHER = "or give another with --store"
# The system's errors have one name each; SQLite's begin with the group and go on with the details.
_FULL = (
    *("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_TRUNCATE", "SQLITE_IOERR_SHMSIZE"),
    *("ENOSPC", "EDQUOT", "EFBIG"),
)
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
_READ_ONLY = ("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_CANTOPEN", "EACCES", "EPERM", "EROFS")
_IN_THE_WAY = ("EEXIST", "ENOTDIR", "EISDIR")
_UNREADABLE = ("SQLITE_IOERR_READ", "SQLITE_IOERR_SHORT_READ")


@contextmanager
def as_store_errors(path: Path) -> Iterator[None]:
    """Errors of SQLite and of the system that rise inside come out as StoreErrors about the store at a path."""
    try:
        yield
    except (sqlite3.Error, OSError) as bad:
        raise StoreError(_sentence(bad, path)) from None
    except UnicodeDecodeError:  # SQLite's own message quotes a damaged name
        raise StoreError(_sentence(sqlite3.DatabaseError("damaged names"), path)) from None


def _sentence(bad: sqlite3.Error | OSError, path: Path) -> str:
    name = errno.errorcode.get(bad.errno or 0, "") if isinstance(bad, OSError) else _name(bad)
    if name.startswith(_FULL):
        return (
            f"{path} cannot be written, for the disk is full or a limit on file sizes is reached; nothing was saved: "
            f"free space on {path.parent} and save again"
        )
    if name.startswith(_BUSY):
        return (
            f"another program has kept {path} locked for more than {BUSY_SECONDS:g} s; nothing was changed: "
            "let it finish, or end it, and try again"
        )
    if name.startswith(_READ_ONLY):
        return (
            f"{path} may not be opened or written, and nothing was saved; make the file and its folder writable, "
            f"{_OTHER}"
        )
    if name.startswith(_IN_THE_WAY):
        return f"{path} lies below what is no folder; move that aside, {_OTHER}"
    # What is no database, or a malformed one, is of this very class; everything else SQLite says is of one below it.
    if type(bad) is sqlite3.DatabaseError or name.startswith(_UNREADABLE):
        return f"{path} is no SQLite database, or a damaged one ({bad}); move it aside{_backups(path)}, {_OTHER}"
    reason = bad.strerror if isinstance(bad, OSError) else str(bad)
    return f"{path} cannot be used: {reason}; try again, move it aside{_backups(path)}, {_OTHER}"


def _name(bad: sqlite3.Error) -> str:
    """SQLite's name for an error, such as SQLITE_IOERR_WRITE; empty for one that Python raised."""
    return getattr(bad, "sqlite_errorname", "")


def _backups(path: Path) -> str:
    """Where the latest backup lies, if there is one."""
    try:
        made = [entry for entry in os.scandir(path.parent) if entry.name.startswith(path.name) and BACKUP in entry.name]
        latest = max(made, key=lambda entry: entry.stat().st_mtime, default=None)
    except OSError:
        latest = None
    return f" (a backup lies in {latest.path})" if latest else ""
