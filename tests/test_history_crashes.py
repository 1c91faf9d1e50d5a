"""The history under misfortune: killed writers, crowds of them, files that may not grow, files that were cut off."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

from polykv_core.errors import StoreError
from polykv_core.history import open_store

# What every child starts with: the store's path as an argument, receipts with a name in them, a measurement to go with.
PRELUDE = '''
import json, sys
from polykv_core.errors import StoreError
from polykv_core.history import open_store, schema

path = sys.argv[1]
measurement = bytes(range(256)) * 100

def receipt(name):
    """Of some twenty pages of the database, so that a save is many writes."""
    fields = {"schema_version": "poly_kv_model_replay_v1", "selected_candidate_k": 8, "passed": True, "blockers": []}
    return json.dumps({**fields, "padding": "x" * 50_000, "name": name})

def tell(*words):
    print(*words, flush=True)
'''


def child(program, path, *arguments):
    """A process that runs a program on a store, with pipes to its input and from its output."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(program), str(path), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def crowd(size, program, path):
    """What each of several processes prints that start at the same moment, once all of them are ready."""
    waiting = 'tell("ready")\nsys.stdin.readline()\n'
    children = [child(waiting + textwrap.dedent(program), path, number) for number in range(size)]
    for one in children:
        assert one.stdout.readline() == "ready\n"
    for one in children:
        one.stdin.write("go\n")
        one.stdin.flush()
    told = [one.communicate()[0].split() for one in children]
    assert [one.returncode for one in children] == [0] * size
    return told


def names_in(path):
    """The name in each run's receipt, by id, from a store that is sound to its last page."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with open_store(path) as history:
        runs = [history.run(summary.id) for summary in history.runs()]
    assert {run.measurement for run in runs} <= {bytes(range(256)) * 100}
    return {run.summary.id: json.loads(run.receipt_json)["name"] for run in runs}


def test_a_killed_writer_loses_nothing_that_was_reported_saved(tmp_path):
    """Kill -9 in the middle of a thousand saves, several times over, on the same store."""
    path = tmp_path / "history.sqlite"
    program = """
        with open_store(path) as history:
            for number in range(1000):
                name = f"{sys.argv[2]}-{number}"
                tell(history.save(receipt(name), measurement), name)
    """
    reported = {}
    for rounds, enough in enumerate((1, 17, 60, 111, 150), start=1):
        with child(program, path, rounds) as writer:
            lines = list(islice(writer.stdout, enough))
            writer.kill()
            lines += writer.stdout.readlines()
        assert enough <= len(lines) < 1000
        reported |= {int(run): name for run, name in map(str.split, lines)}
        kept = names_in(path)
        assert kept.items() >= reported.items()
        # Each writer was killed once, at most between the commit and the report of it.
        assert len(kept) - len(reported) <= rounds
        assert len(set(kept.values())) == len(kept)
    assert len(reported) >= 1 + 17 + 60 + 111 + 150


def test_a_killed_first_opening_leaves_no_half_of_a_store(tmp_path):
    """Whatever statement of making the store it was killed after, the next opening makes it whole."""
    program = """
        import os, signal
        countdown = iter(range(int(sys.argv[2])))
        class Killed(schema.sqlite3.Connection):
            def execute(self, *statement):
                done = super().execute(*statement)
                if next(countdown, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                return done
        connect = schema.sqlite3.connect
        schema.sqlite3.connect = lambda *path, **settings: connect(*path, **settings, factory=Killed)
        open_store(path).close()
    """
    for statements in (4, 8, 11, 12, 13, 14):
        path = tmp_path / f"killed-{statements}.sqlite"
        with child(program, path, statements) as killed:
            killed.communicate()
        assert killed.returncode == -9
        assert names_in_new(path) == [1]


def names_in_new(path):
    """The ids in a store after one run was saved there."""
    with open_store(path) as history:
        history.save(SMALL, None)
        return [summary.id for summary in history.runs()]


def test_a_crowd_writes_at_once(tmp_path):
    """Eight processes make the store together and save; none fails, every id is another, every text is there."""
    path = tmp_path / "new" / "history.sqlite"
    told = crowd(
        8,
        """
        for turn in range(5):
            with open_store(path) as history:
                for number in range(5):
                    tell(history.save(receipt(f"{sys.argv[2]}-{turn}-{number}"), measurement))
        """,
        path,
    )
    kept = names_in(path)
    for writer, runs in enumerate(told):
        names = [f"{writer}-{turn}-{number}" for turn in range(5) for number in range(5)]
        assert [kept[int(run)] for run in runs] == names
    assert len(kept) == 8 * 25


def test_a_crowd_upgrades_once(tmp_path):
    """Four newer processes open an older store together: one backup, one upgrade, and all of them go on."""
    path = tmp_path / "history.sqlite"
    names_in_new(path)
    told = crowd(
        4,
        """
        schema.MIGRATIONS += ("ALTER TABLE runs ADD COLUMN colour TEXT; CREATE TABLE once (x)",)
        with open_store(path) as history:
            tell(history.save(receipt(sys.argv[2]), measurement))
        """,
        path,
    )
    assert sorted(int(run) for (run,) in told) == [2, 3, 4, 5]
    assert sorted(os.listdir(tmp_path)) == ["history.sqlite", "history.sqlite.v1.backup.sqlite"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


@pytest.mark.parametrize("limit", [100, 50_000, 400_000, 6_000_000])
def test_a_file_that_may_not_grow_refuses_the_save(tmp_path, limit):
    """Whether the store, its log or its making is what has no room; with room again it takes runs again."""
    program = """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        free = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), free[1]))
        saved, refusal, history = {}, None, None
        for number in range(200):
            try:
                history = history or open_store(path)
                saved[history.save(receipt(str(number)), measurement)] = str(number)
            except StoreError as bad:
                refusal = str(bad)
                break
        resource.setrlimit(resource.RLIMIT_FSIZE, free)
        history = history or open_store(path)
        saved[history.save(receipt("after"), measurement)] = "after"
        history.close()
        tell(json.dumps([refusal, saved]))
    """
    path = tmp_path / "history.sqlite"
    with child(program, path, limit) as writer:
        refusal, saved = json.loads(writer.communicate()[0])
    assert refusal == (
        f"{path} cannot be written, for the disk is full or a limit on file sizes is reached; nothing was saved: "
        f"free space on {tmp_path} and save again"
    )
    assert names_in(path) == {int(run): name for run, name in saved.items()}
    assert len(saved) >= limit // 100_000 // 2


SMALL = """{"schema_version": "poly_kv_model_replay_v1", "selected_candidate_k": 8, "passed": true, "blockers": []}"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a store with some runs in it, small and large."""
    path = tmp_path_factory.mktemp("whole") / "history.sqlite"
    with open_store(path) as history:
        for number in range(12):
            history.save(SMALL, bytes(number * 1000), tags=["a", "b"], note="x" * 40 * number)
    return path.read_bytes()


def used(data, folder):
    """What using a store of these bytes says: "used", or the refusal; every other exception is a failure."""
    path = Path(folder) / "history.sqlite"
    path.write_bytes(data)
    try:
        with open_store(path) as history:
            for summary in history.runs():
                history.run(summary.id)
    except StoreError as refusal:
        return str(refusal)
    return "used"


def everything_in(folder):
    """Each file's bytes."""
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


EDGES = (1, 15, 16, 99, 100, 101, 511, 512, 513, 4095, 4096, 4097, 8192, 16384, -4097, -4096, -4095, -1)


@pytest.mark.parametrize("length", EDGES)
def test_a_store_that_was_cut_off_is_refused_untouched(tmp_path, whole, length):
    """At the edges of header, sectors and pages; the message says what to do."""
    cut = whole[:length]
    assert "is no SQLite database, or a damaged one" in (said := used(cut, tmp_path))
    assert said.endswith("move it aside, or give another with --store")
    assert everything_in(tmp_path) == {"history.sqlite": cut}


@given(data=st.data())
def test_a_store_that_was_cut_off_anywhere_is_refused_untouched(tmp_path_factory, whole, data):
    """At any other length as well."""
    cut = whole[: data.draw(st.integers(1, len(whole) - 1))]
    folder = tmp_path_factory.mktemp("cut")
    assert "--store" in used(cut, folder)
    assert everything_in(folder) == {"history.sqlite": cut}
    shutil.rmtree(folder)


@given(data=st.data())
def test_a_store_with_changed_bytes_is_read_or_refused(tmp_path_factory, whole, data):
    """Never another exception than StoreError, whatever the bytes say now."""
    start = data.draw(st.integers(0, len(whole) - 1) | st.integers(0, 200) | st.integers(4096, 4400))
    noise = data.draw(st.binary(min_size=1, max_size=64))
    folder = tmp_path_factory.mktemp("changed")
    used((whole[:start] + noise + whole[start + len(noise) :])[: len(whole)], folder)
    shutil.rmtree(folder)


def test_the_message_of_a_damaged_store_names_its_latest_backup(tmp_path, whole):
    """For that is what can be used instead."""
    for age, name in enumerate(["history.sqlite.v2.backup.sqlite", "history.sqlite.v1.backup-2.sqlite"]):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    said = used(whole[:5000], tmp_path)
    assert f"move it aside (a backup lies in {tmp_path}/history.sqlite.v2.backup.sqlite), or give another" in said
