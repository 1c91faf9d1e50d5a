"""The SQLite file of a store: where it lies, whose it is, and how it comes to the newest version."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from secrets import token_hex

import platformdirs

from polykv_core.checks import shown
from polykv_core.errors import StoreError
from polykv_core.history.faults import BACKUP, BUSY_SECONDS, as_store_errors

APPLICATION_ID = 0x706B7631  # "pkv1", in the file's header

# Each script brings a file from the version that is its index to the next. A script that was released is never changed.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again, so that a link to a deleted run stays dead
        saved_at INTEGER NOT NULL,  -- milliseconds since 1970, UTC
        kind TEXT NOT NULL,
        schema_version TEXT NOT NULL,
        model_id TEXT NOT NULL,
        fixture_digest TEXT,
        receipt_digest TEXT,
        passed INTEGER NOT NULL,
        selected_candidate_k INTEGER NOT NULL,
        failing_gates TEXT NOT NULL,  -- commas between, as in tags
        file_name TEXT NOT NULL,
        tags TEXT NOT NULL,
        note TEXT NOT NULL,
        pinned INTEGER NOT NULL DEFAULT 0
    );
    CREATE UNIQUE INDEX one_pin_a_fixture ON runs (fixture_digest) WHERE pinned;
    -- Apart from the runs: a list reads none of it, and a new note rewrites none of it.
    CREATE TABLE contents (
        run INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
        receipt TEXT NOT NULL,
        measurement BLOB
    );
    """,
)


def default_path() -> Path:
    """Where the history lies unless told otherwise: what POLYKV_STORE says, else the user's folder for data."""
    told = os.environ.get("POLYKV_STORE")
    return Path(told) if told else platformdirs.user_data_path("polykv") / "history.sqlite"


def located(path: str | os.PathLike[str] | None) -> Path:
    """The absolute path of a store, links followed; None is the default. Raises StoreError for what is no path."""
    text = os.fspath(default_path() if path is None else path)
    if "\0" in text:
        raise StoreError(f"{shown(text)} holds a NUL byte and is no path; give another with --store")
    return Path(os.path.realpath(text))  # SQLite, too, keeps its journals beside the file that a link leads to


def exists(path: str | os.PathLike[str] | None = None) -> bool:
    """Whether anything lies at a store's path (None is the default); opening would make a store where nothing does."""
    return os.path.exists(located(path))


def connect(path: Path) -> sqlite3.Connection:
    """A connection to the store at a located path, made or upgraded where that is needed.

    The caller begins and ends transactions. Raises StoreError, and has then changed nothing that was there.
    """
    with as_store_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _look_without_touching(path)
        connection = _opened(path)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            _upgrade(connection, path)
            # Not before: an upgrade may replace a table that others refer to.
            connection.execute("PRAGMA foreign_keys = ON")
            # WAL lets readers read on while one writes. Where it cannot be had now, everything is as safe without.
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Everything inside happens, or nothing of it. A writer locks at once: waiting in the middle could be for ever."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite may have rolled back by itself, and the first error is the one to tell
            connection.execute("ROLLBACK")
        raise


def _look_without_touching(path: Path) -> None:
    """Raise StoreError for a file that is plainly not ours to open.

    Opening in earnest may write: SQLite finishes what a killed program left. An immutable connection reads the file
    alone, past locks and journals. What it cannot read may be whole with its journal, so errors are left to the
    connection in earnest. (Plain reading will not do: closing the file would drop this process's locks on it.)
    """
    if not path.is_file():
        raise StoreError(f"{path} is a folder or a device, and a history is a file; give another with --store")
    if path.stat().st_size == 1:
        raise sqlite3.DatabaseError("file is not a database")  # SQLite takes one byte for an empty file, and writes
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as peek:
        _version(peek, path)


def _opened(path: Path) -> sqlite3.Connection:
    database, uri = str(path), False
    if path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        # Reading takes a journal's folder to be writable, unless nobody is writing.
        log = path.with_name(f"{path.name}-wal")
        busy = log.exists() and log.stat().st_size > 0
        database, uri = f"{path.as_uri()}?{'mode=ro' if busy else 'immutable=1'}", True
    return sqlite3.connect(database, uri=uri, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """How many migrations a file has seen. Raises StoreError if it is another program's, or a newer polykv's."""
    ((application,), (version,)) = (
        connection.execute(question).fetchone() for question in ("PRAGMA application_id", "PRAGMA user_version")
    )
    if application != APPLICATION_ID and (application or version or _has_tables(connection)):
        raise StoreError(f"{path} is the database of another program; it was left as it is. Give another with --store")
    if not 0 <= version <= len(MIGRATIONS):
        raise StoreError(
            f"{path} has version {version}, from a newer polykv, and this one knows versions up to {len(MIGRATIONS)}; "
            "update polykv"
        )
    return int(version)


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is not None


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection, path) == len(MIGRATIONS):
        return
    with transaction(connection):
        version = _version(connection, path)  # another process may have been quicker
        if version == len(MIGRATIONS):
            return
        backup = _backed_up(path, version) if version else None
        try:
            for script in MIGRATIONS[version:]:
                for statement in _statements(script):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        except BaseException:
            if backup:
                backup.unlink()  # it is a copy of what lies there unchanged
            raise


def _statements(script: str) -> Iterator[str]:
    """A script's statements, one by one: Python's executescript would commit the transaction that is under way."""
    statement = ""
    for part in script.rstrip().removesuffix(";").split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _backed_up(path: Path, version: int) -> Path:
    """Copy a store beside itself, whole or not at all, under a name that is free; called with the store locked."""
    fresh = path.with_name(f".polykv-{token_hex(8)}.tmp")
    try:
        with closing(sqlite3.connect(path)) as store, closing(sqlite3.connect(fresh)) as copy:
            store.backup(copy)
        shutil.copymode(path, fresh)
        numbers = chain([""], (f"-{number}" for number in count(2)))
        places = (path.with_name(f"{path.name}.v{version}{BACKUP}{number}.sqlite") for number in numbers)
        kept = next(place for place in places if not place.exists())
        fresh.replace(kept)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    return kept
