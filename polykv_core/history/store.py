"""The store: saving runs, finding them, and keeping a baseline for each fixture."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from polykv_core.checks import Checks
from polykv_core.errors import StoreError
from polykv_core.history.faults import as_store_errors
from polykv_core.history.runs import (
    LARGEST_INTEGER,
    MATCHING,
    SELECT_SUMMARIES,
    Run,
    RunQuery,
    RunSummary,
    checked_note,
    checked_tags,
    facts_of,
    matching,
    run_of,
    summary_of,
)
from polykv_core.history.schema import connect, located, transaction

# SQLite takes no more than 10^9 bytes in a row; a measurement has some thousands.
_MOST_BYTES = 2**28

_check = Checks(StoreError)


def open_store(path: str | os.PathLike[str] | None = None) -> "Store":
    """The store at a path (None is default_path()), ready to use.

    Folder and file are made where they are missing, and an older file is upgraded after a backup beside it. A store
    that may only be read is opened for that. Raises StoreError for a path or a file that cannot be a store.
    """
    place = located(path)
    return Store(place, connect(place))


class Store:
    """An open store. Every method is one transaction, for several threads and processes at once.

    Every method raises StoreError where the file cannot be read or written, and has then changed nothing.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Use open_store."""
        self.path = path
        self._connection = connection
        self._lock = threading.Lock()
        # SQLite's own comparison knows upper and lower case of ASCII alone.
        connection.create_function("casefold", 1, str.casefold, deterministic=True)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: type[BaseException] | None, bad: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        with self._lock, as_store_errors(self.path):
            self._connection.close()

    def save(
        self,
        receipt_json: str,
        measurement: bytes | None,
        *,
        file_name: str = "",
        tags: Iterable[str] = (),
        note: str = "",
    ) -> int:
        """Keep a run, and give its id once it is safe on disk, from a power cut as well.

        The receipt's text is kept as it is. Raises StoreError for what is no receipt of a replay, and for tags or a
        note that are none.
        """
        columns = {
            **facts_of(receipt_json),
            "file_name": _check.text(file_name, "the file's name"),
            "tags": checked_tags(tags),
            "note": checked_note(note),
        }
        if measurement is not None and len(measurement) > _MOST_BYTES:
            raise StoreError(f"the measurement has {len(measurement)} bytes; expected at most {_MOST_BYTES}")
        with self._writing() as connection:
            saved = connection.execute(
                """
                INSERT INTO runs (
                    saved_at, kind, schema_version, model_id, fixture_digest, receipt_digest, passed,
                    selected_candidate_k, failing_gates, file_name, tags, note
                ) VALUES (
                    :saved_at, :kind, :schema_version, :model_id, :fixture_digest, :receipt_digest, :passed,
                    :selected_candidate_k, :failing_gates, :file_name, :tags, :note
                )
                """,
                {**columns, "saved_at": time.time_ns() // 1_000_000},
            )
            run = saved.lastrowid
            connection.execute("INSERT INTO contents VALUES (?, ?, ?)", (run, receipt_json, measurement))
        return int(run or 0)

    def runs(self, query: RunQuery = RunQuery()) -> tuple[RunSummary, ...]:  # noqa: B008 - it is frozen
        """The runs that a query asks for, newest first. Raises StoreError for a query that means nothing."""
        values = matching(query)
        with self._reading() as connection:
            return tuple(map(summary_of, connection.execute(SELECT_SUMMARIES + MATCHING, values)))

    def run(self, run: int) -> Run:
        """The run with an id. Raises StoreError if there is none."""
        with self._reading() as connection:
            return self._run(connection, run)

    def annotate(self, run: int, *, tags: Iterable[str] | None = None, note: str | None = None) -> None:
        """Give a run other tags or another note; None leaves them. Raises StoreError as save does, or for no run."""
        changed = (None if tags is None else checked_tags(tags), None if note is None else checked_note(note))
        with self._writing() as connection:
            self._summary(connection, run)
            connection.execute(
                "UPDATE runs SET tags = coalesce(?, tags), note = coalesce(?, note) WHERE id = ?", (*changed, run)
            )

    def delete(self, runs: Iterable[int]) -> int:
        """Delete runs for good, and say how many. Raises StoreError, and deletes none, if one of them is not there."""
        gone = sorted(set(runs))
        with self._writing() as connection:
            for run in gone:
                self._summary(connection, run)
                connection.execute("DELETE FROM runs WHERE id = ?", (run,))
        return len(gone)

    def pin(self, run: int) -> None:
        """Make a run its fixture's baseline, instead of any other. Raises StoreError for no run or no fixture."""
        with self._writing() as connection:
            digest = self._summary(connection, run).fixture_digest
            if digest is None:
                raise StoreError(
                    f"run {run} does not say which fixture it is of, so it cannot be the baseline of one; "
                    "pin a run whose receipt has a provenance"
                )
            connection.execute("UPDATE runs SET pinned = 0 WHERE fixture_digest = ? AND pinned", (digest,))
            connection.execute("UPDATE runs SET pinned = 1 WHERE id = ?", (run,))

    def unpin(self, run: int) -> None:
        """Make a run no baseline any more, if it was one. Raises StoreError if there is no such run."""
        with self._writing() as connection:
            self._summary(connection, run)
            connection.execute("UPDATE runs SET pinned = 0 WHERE id = ?", (run,))

    def baseline(self, fixture_digest: str) -> Run | None:
        """The pinned run of a fixture; None where none is pinned."""
        digest = _check.text(fixture_digest, "fixture_digest")
        with self._reading() as connection:
            found = connection.execute("SELECT id FROM runs WHERE fixture_digest = ? AND pinned", (digest,)).fetchone()
            return None if found is None else self._run(connection, found[0])

    def _run(self, connection: sqlite3.Connection, run: int) -> Run:
        summary = self._summary(connection, run)
        content = connection.execute("SELECT receipt, measurement FROM contents WHERE run = ?", (run,))
        return run_of(summary, content.fetchone())

    def _summary(self, connection: sqlite3.Connection, run: int) -> RunSummary:
        row = None
        if 0 < run <= LARGEST_INTEGER:
            row = connection.execute(f"{SELECT_SUMMARIES} WHERE id = ?", (run,)).fetchone()
        if row is None:
            raise StoreError(f"run {run} is not in {self.path}; `polykv history list` shows what is")
        return summary_of(row)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, as_store_errors(self.path), transaction(self._connection, begin):
            yield self._connection
