"""The history: what is saved comes back, is found, and survives upgrades; what is no store or no run is refused."""

import json
import os
import sqlite3
import tempfile
import threading
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import encoded, fixture_fields

from polykv_core import CapturedReplayConfig, load_fixture, run_captured_model_replay
from polykv_core.errors import StoreError
from polykv_core.history import Run, RunQuery, default_path, exists, open_store, schema, store

DIGEST = "sha256:" + "0a" * 32
OTHER_DIGEST = "sha256:" + "0b" * 32
NEXT_MIGRATION = "ALTER TABLE runs ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey; \"plain\"';"


def receipt_text(model_id="a-model", digest=DIGEST, blockers=(), **other):
    """A receipt's JSON text, as small as a store takes it."""
    fields = {
        "schema_version": "poly_kv_captured_model_replay_v1",
        "model_id": model_id,
        "selected_candidate_k": 8,
        "passed": not blockers,
        "blockers": list(blockers),
        "provenance": {"fixture": {"digest": digest}, "receipt_digest": f"sha256:{'ee' * 32}"},
        **other,
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None})


@pytest.fixture
def path(tmp_path):
    """Where a store may come to be, in a folder that is not there yet."""
    return tmp_path / "data" / "history.sqlite"


@pytest.fixture
def history(path):
    """An empty store."""
    with open_store(path) as opened:
        yield opened


def ids(history, **query):
    """The ids a query finds, in its order."""
    return [summary.id for summary in history.runs(RunQuery(**query))]


def scripted(path, *statements):
    """Run SQL on a file as another program would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def contents(folder):
    """Every file of a folder with its bytes."""
    return {entry.name: entry.read_bytes() for entry in folder.iterdir()}


@contextmanager
def protected(folder):
    """Inside, nothing in a folder may be changed, even for a test that runs as root."""
    root = os.getuid() == 0
    modes = {place: place.stat().st_mode for place in (*folder.iterdir(), folder)}
    for place in modes:
        place.chmod(0o555 if place.is_dir() else 0o444)
    if root:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        if root:
            os.setresuid(0, 0, 0)
        for place, mode in reversed(modes.items()):
            place.chmod(mode)


@pytest.fixture
def public_folder():
    """A folder that another user may get to; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


# Saving and reading


def test_a_run_comes_back_as_it_was_saved(history):
    """Receipt and measurement byte for byte, and everything that was said about them."""
    text = "\r\n " + receipt_text("modèle-😀", blockers=["kl_divergence_mean 0.9 > 0.5"]) + "\n"
    run = history.save(text, b"\0\xff", file_name="a'b.json", tags=[" b ", "a", "b"], note="said\0so\n")
    kept = history.run(run)
    assert kept == Run(kept.summary, text, b"\0\xff")
    assert history.runs() == (kept.summary,)
    summary = kept.summary
    assert (summary.id, summary.kind, summary.schema_version) == (run, "captured", "poly_kv_captured_model_replay_v1")
    assert (summary.model_id, summary.file_name, summary.note) == ("modèle-😀", "a'b.json", "said\0so\n")
    assert (summary.tags, summary.failing_gates) == (("a", "b"), ("max_kl_divergence",))
    assert (summary.fixture_digest, summary.receipt_digest) == (DIGEST, f"sha256:{'ee' * 32}")
    assert (summary.passed, summary.selected_candidate_k) == (False, 8)
    assert (summary.pinned, summary.has_measurement) == (False, True)


def test_a_receipt_of_a_replay_is_taken(history):
    """The columns say what the receipt of a real replay says, on which statistic the gates may look."""
    config = CapturedReplayConfig((1, 2), min_output_cosine=1.0, max_ppl_delta=0.0, statistic="worst")
    receipt = run_captured_model_replay(load_fixture(encoded(fixture_fields())), config)
    summary = history.run(history.save(receipt.to_json(), None)).summary
    assert summary.receipt_digest == receipt.digest
    assert summary.fixture_digest == receipt.provenance["fixture"]["digest"]
    assert (summary.model_id, summary.passed) == (receipt.model_id, receipt.passed)
    assert summary.selected_candidate_k == receipt.selected_candidate_k
    assert {"min_output_cosine", "max_ppl_delta"} <= set(summary.failing_gates)
    assert len(summary.failing_gates) == len(receipt.blockers)


def test_a_receipt_without_provenance_or_model_is_taken(history):
    """A model replay has no model id, and the crate's receipts have no provenance."""
    text = receipt_text(None, schema_version="poly_kv_model_replay_receipt_v1_with_options", provenance=None)
    summary = history.run(history.save(text, None)).summary
    assert (summary.kind, summary.model_id) == ("model", "")
    assert (summary.fixture_digest, summary.receipt_digest, summary.has_measurement) == (None, None, False)


def test_what_was_saved_is_there_when_the_store_is_opened_again(path):
    """In another connection, as another process would find it."""
    with open_store(path) as first:
        run = first.save(receipt_text(), b"measured")
    with open_store(str(path)) as again:
        assert again.run(run).measurement == b"measured"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no valid JSON"),
        ("[]", "expected a JSON object"),
        (receipt_text(schema_version=None), "no field 'schema_version'"),
        (receipt_text(schema_version="poly_kv_captured_replay_fixture_v1"), "which is no receipt's"),
        (receipt_text(model_id=None), "no field 'model_id'"),
        (receipt_text(model_id="\ud800"), "surrogate"),
        (receipt_text() + "\ud800", "surrogate"),
        (receipt_text(passed="yes"), "expected true or false"),
        (receipt_text(selected_candidate_k=0), "expected a whole number"),
        (receipt_text(blockers=[1]), "expected a string"),
        (receipt_text(digest=7), "expected a string"),
    ],
)
def test_what_is_no_receipt_is_not_saved(history, text, said):
    """The message names the place, and the store stays empty."""
    with pytest.raises(StoreError, match=said):
        history.save(text, None)
    assert history.runs() == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"tags": [" "]}, "a tag is ''; expected 1 to 60 characters"),
        ({"tags": ["fine", "a,b"]}, "a tag is 'a,b'; expected .* no comma"),
        ({"tags": ["x" * 61]}, "a tag is 'xxx.*expected 1 to 60"),
        ({"tags": "abc"}, "tags is 'abc'; expected a list"),
        ({"tags": ["\udfff"]}, "surrogate"),
        ({"note": "n" * 2001}, "of 2001 characters; expected at most 2000"),
    ],
)
def test_tags_and_notes_beyond_their_limits_are_refused(history, words, said):
    """When saving and when annotating; the message names value and limit, and nothing changes."""
    with pytest.raises(StoreError, match=said):
        history.save(receipt_text(), None, **words)
    assert history.runs() == ()
    run = history.save(receipt_text(), None, tags=["x" * 60], note="n" * 2000)
    before = history.run(run)
    with pytest.raises(StoreError, match=said):
        history.annotate(run, **words)
    assert history.run(run) == before


# Finding


def test_runs_come_newest_first_up_to_the_limit(history):
    """The last one saved is the first one listed."""
    saved = [history.save(receipt_text(), None) for _ in range(4)]
    assert ids(history) == saved[::-1]
    assert ids(history, limit=2) == saved[:1:-1]
    assert ids(history, limit=0) == []


def test_runs_are_found_by_what_they_are(history):
    """Each filter alone, and all of them together."""
    good = history.save(receipt_text("good"), None, tags=["night", "ab"])
    bad = history.save(receipt_text("bad", blockers=["abs(ppl_proxy_delta) 2.0 > 1.0"]), None, tags=["nightly"])
    assert ids(history, model_id="good") == [good]
    assert ids(history, passed=True) == [good]
    assert ids(history, passed=False) == [bad]
    assert ids(history, failing_gate="max_ppl_delta") == [bad]
    assert ids(history, failing_gate="max_output_mse") == []
    assert ids(history, tag=" night ") == [good]
    assert ids(history, tag="nightly", model_id="bad", passed=False, text="BAD") == [bad]
    assert ids(history, tag="nightly", passed=True) == []


@pytest.mark.parametrize(
    "text", ["MODÈLE", "Case.JSON", "remember", "b,c", "0A0a", DIGEST, DIGEST.upper(), "sha256:0a", "eeee", ""]
)
def test_text_is_found_in_every_place(history, text):
    """Upper or lower case; of a digest it is the beginning, with its algorithm or without."""
    found = history.save(receipt_text("un modèle"), None, file_name="case.json", note="To Remember", tags=["b", "c"])
    history.save(receipt_text("other", OTHER_DIGEST, provenance=None), None, file_name="ff0a0a")
    assert found in ids(history, text=text)
    assert len(ids(history, text=text)) == (2 if text in ("", "0A0a") else 1)


@pytest.mark.parametrize("text", ["a256", "sha", "a0a", "none"])
def test_the_middle_of_a_digest_is_not_found(history, text):
    """Nor the name of its algorithm, which every run has."""
    history.save(receipt_text("m"), None)
    assert ids(history, text=text) == []


WORDS = st.text(st.sampled_from("aA%_*?[]^'\"\\;-éÉßİ\0 ") | st.characters(exclude_categories=["Cs"]), max_size=6)


@given(text=WORDS, names=st.lists(WORDS, max_size=5))
def test_text_to_find_is_taken_literally(text, names):
    """Wildcards, quotes and every other character mean themselves."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/h") as history:
        saved = {history.save(receipt_text("m", provenance=None), None, file_name=name): name for name in names}
        expected = [run for run, name in saved.items() if text.casefold() in name.casefold() or text in ("m", "M", "")]
        assert ids(history, text=text) == expected[::-1]


def test_runs_are_found_by_when_they_were_saved(history, monkeypatch):
    """From a moment on, and before another, whatever time zone they are told in."""
    start = datetime(2024, 2, 29, 23, 59, 59, 123_000, tzinfo=UTC)
    for step in range(3):
        now = start + timedelta(hours=step)
        monkeypatch.setattr(store.time, "time_ns", lambda now=now: int(now.timestamp() * 1000) * 1_000_000 + 999_999)
        history.save(receipt_text(), None)
    assert [summary.saved_at - start for summary in history.runs()] == [timedelta(hours=step) for step in (2, 1, 0)]
    assert history.runs()[-1].saved_at.tzinfo is UTC
    second = (start + timedelta(hours=1)).astimezone()
    assert ids(history, since=second) == [3, 2]
    assert ids(history, until=second) == [1]
    assert ids(history, since=second, until=second + timedelta(microseconds=1)) == [2]
    assert ids(history, since=second + timedelta(microseconds=1)) == [3]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"since": datetime(2024, 1, 1)}, "time zone"),
        ({"failing_gate": "max_mse"}, "expected one of min_output_cosine"),
        ({"tag": "a,b"}, "no comma"),
        ({"limit": -1}, "limit is -1"),
        ({"text": "\ud800"}, "surrogate"),
        ({"model_id": "\ud800"}, "surrogate"),
    ],
)
def test_a_query_that_means_nothing_is_refused(history, query, said):
    """With the value, and what was expected."""
    with pytest.raises(StoreError, match=said):
        history.runs(RunQuery(**query))


# Changing


@pytest.mark.parametrize("run", [12, 0, -1, 2**70])
@pytest.mark.parametrize(
    "act",
    [
        lambda history, run: history.run(run),
        lambda history, run: history.annotate(run, note="x"),
        lambda history, run: history.pin(run),
        lambda history, run: history.unpin(run),
        lambda history, run: history.delete([run]),
    ],
    ids=["run", "annotate", "pin", "unpin", "delete"],
)
def test_an_unknown_run_is_refused(history, act, run):
    """The message says which, where, and how to see what there is."""
    with pytest.raises(StoreError) as refusal:
        act(history, run)
    assert str(refusal.value) == f"run {run} is not in {history.path}; `polykv history list` shows what is"


def test_annotating_changes_what_it_is_given(history):
    """Tags or note; what is not given stays, and an empty one removes."""
    run = history.save(receipt_text(), b"m", tags=["old"], note="old")
    history.annotate(run, tags=["new", "newer"])
    assert (history.run(run).summary.tags, history.run(run).summary.note) == (("new", "newer"), "old")
    history.annotate(run, note="")
    assert (history.run(run).summary.tags, history.run(run).summary.note) == (("new", "newer"), "")
    history.annotate(run, tags=[])
    assert history.run(run).summary.tags == ()
    assert history.run(run).measurement == b"m"


def test_deleting_is_all_or_nothing(history):
    """One unknown id, and none is deleted; else each once, with what it held."""
    runs = [history.save(receipt_text(), b"m") for _ in range(3)]
    with pytest.raises(StoreError, match="run 99 is not in"):
        history.delete([*runs, 99])
    assert ids(history) == runs[::-1]
    assert history.delete([runs[0], runs[0], runs[2]]) == 2
    assert history.delete([]) == 0
    assert ids(history) == [runs[1]]
    with closing(sqlite3.connect(history.path)) as connection:
        assert connection.execute("SELECT run FROM contents").fetchall() == [(runs[1],)]


def test_an_id_is_never_used_again(path):
    """Not even when the newest run is deleted and the store was closed."""
    with open_store(path) as history:
        gone = history.save(receipt_text(), None)
        history.delete([gone])
    with open_store(path) as history:
        assert history.save(receipt_text(), None) > gone


def test_a_fixture_has_one_baseline_at_most(history):
    """Pinning another run of the fixture moves the pin; other fixtures keep theirs."""
    first, second = (history.save(receipt_text(), None) for _ in range(2))
    other = history.save(receipt_text(digest=OTHER_DIGEST), None)
    assert history.baseline(DIGEST) is None
    for run in (first, other, second, second):
        history.pin(run)
    assert [(summary.id, summary.pinned) for summary in history.runs()] == [
        (other, True),
        (second, True),
        (first, False),
    ]
    assert history.baseline(DIGEST) == history.run(second)
    history.unpin(first)
    assert history.baseline(DIGEST) == history.run(second)
    history.unpin(second)
    assert history.baseline(DIGEST) is None
    history.delete([other])
    assert history.baseline(OTHER_DIGEST) is None


def test_a_run_of_an_unknown_fixture_is_no_baseline(history):
    """Its receipt does not say of what."""
    run = history.save(receipt_text(provenance=None), None)
    with pytest.raises(StoreError, match=f"run {run} does not say which fixture"):
        history.pin(run)


def test_threads_share_a_store(history):
    """Saves of several threads all arrive, each with its own id."""
    saved = []
    threads = [
        threading.Thread(target=lambda: saved.extend(history.save(receipt_text(), None) for _ in range(10)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(saved) == sorted(ids(history)) == list(range(1, 41))


# Opening


def test_the_path_is_told_by_the_environment_or_the_system(monkeypatch, tmp_path):
    """POLYKV_STORE comes first, unless it is empty."""
    monkeypatch.setenv("POLYKV_STORE", str(tmp_path / "mine"))
    assert default_path() == tmp_path / "mine"
    assert not exists()
    open_store().close()
    assert exists()
    monkeypatch.setenv("POLYKV_STORE", "")
    assert default_path() == platformdirs.user_data_path("polykv") / "history.sqlite"


def test_an_opened_store_is_durable_and_leaves_one_file(path):
    """Every commit reaches the disk, readers go on while one writes, and closing tidies up; twice does no harm."""
    history = open_store(path)
    assert history._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert history._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    history.save(receipt_text(), None)
    history.close()
    history.close()
    assert os.listdir(path.parent) == ["history.sqlite"]


@pytest.mark.parametrize("name", [":memory:", "a b?mode=memory#%41.sqlite", "file:x", "naïve\udcff"])
def test_any_name_is_a_file_name(tmp_path, monkeypatch, name):
    """Names that SQLite gives a meaning to are names of files here."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with open_store(name) as history:
            history.save(receipt_text(), None)
    with open_store(name) as history:
        assert len(history.runs()) == 2
    assert os.listdir(tmp_path) == [name]


def test_an_empty_file_becomes_a_store(path):
    """As a temporary file that was made for it."""
    path.parent.mkdir()
    path.touch()
    with open_store(path) as history:
        assert history.save(receipt_text(), None) == 1


@pytest.mark.parametrize("place", ["", "file/history.sqlite", "file/deeper/history.sqlite", "nul\0byte", "/dev/null"])
def test_what_is_no_place_for_a_store_is_refused(tmp_path, place):
    """A folder, a device, a path below a file, or no path at all; nothing is made."""
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(StoreError, match=r"give another with --store$"):
        open_store(f"{tmp_path}/{place}" if not place.startswith("/") else place)
    assert contents(tmp_path) == {"file": b"x"}


@pytest.mark.parametrize("data", [b"x", b"SQLite format 3\0", b'{"a": 1}\n' * 1000])
def test_a_file_that_is_no_database_is_left_as_it_is(path, data):
    """Short or long."""
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"is no SQLite database, or a damaged one .* or give another with --store"):
        open_store(path)
    assert contents(path.parent) == {"history.sqlite": data}


@pytest.mark.parametrize("setting", ["application_id = 7", "user_version = 1", "journal_mode = WAL"])
def test_the_database_of_another_program_is_left_as_it_is(path, setting):
    """Whatever it says of itself, and with changes in its log that nobody has carried over yet."""
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (id)")
        connection.execute(f"PRAGMA {setting}")
        connection.execute("INSERT INTO runs VALUES (1)")
        connection.commit()
        before = contents(path.parent)
        with pytest.raises(StoreError, match="is the database of another program; it was left as it is"):
            open_store(path)
        assert contents(path.parent) == before


def test_values_that_were_never_written_are_told_as_damage(history):
    """Somebody changed the file by hand."""
    run = history.save(receipt_text(), None)
    scripted(history.path, "UPDATE contents SET receipt = x'00'")
    with pytest.raises(StoreError, match=r"run 1 holds values that polykv never writes.*--store"):
        history.run(run)
    scripted(history.path, "UPDATE runs SET saved_at = 'soon'")
    with pytest.raises(StoreError, match=r"run 1 holds values that polykv never writes.*--store"):
        history.runs()


# Failing


def test_a_full_disk_saves_nothing_and_says_so(history):
    """What was saved before is there, and saving works again when there is room."""
    run = history.save(receipt_text(), b"before")
    history._connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StoreError, match=f"nothing was saved: free space on {history.path.parent} and save again"):
        history.save(receipt_text(), bytes(1_000_000))
    assert ids(history) == [run]
    history._connection.execute("PRAGMA max_page_count = 2000")
    assert history.save(receipt_text(), bytes(1_000_000)) == run + 1


def test_a_measurement_beyond_the_limit_is_refused(history, monkeypatch):
    """Before SQLite is asked."""
    monkeypatch.setattr(store, "_MOST_BYTES", 3)
    with pytest.raises(StoreError, match="has 4 bytes; expected at most 3"):
        history.save(receipt_text(), b"1234")


def test_a_store_that_stays_locked_is_told(path, monkeypatch):
    """After the wait, for another program holds it; reading goes on meanwhile."""
    monkeypatch.setattr(schema, "BUSY_SECONDS", 0.01)
    with open_store(path) as history, closing(sqlite3.connect(path, isolation_level=None)) as other:
        run = history.save(receipt_text(), None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            StoreError, match=r"another program has kept .* locked .*nothing was changed: let it finish"
        ):
            history.save(receipt_text(), None)
        assert ids(history) == [run]
        other.execute("COMMIT")
        assert history.save(receipt_text(), None) == run + 1


def test_a_store_that_may_only_be_read_is_read(public_folder):
    """Listing works; saving says what to do."""
    path = public_folder / "history.sqlite"
    with open_store(path) as history:
        run = history.save(receipt_text(), None)
    before = contents(public_folder)
    with protected(public_folder), open_store(path) as history:
        assert ids(history) == [run]
        with pytest.raises(
            StoreError, match="nothing was saved; make the file and its folder writable, or give another"
        ):
            history.save(receipt_text(), None)
    assert contents(public_folder) == before


def test_a_store_that_is_being_written_by_somebody_else_is_read(public_folder):
    """A reader without the right to write sees what the other has committed."""
    path = public_folder / "history.sqlite"
    with open_store(path) as history:
        run = history.save(receipt_text(), None)
        with protected(public_folder), open_store(path) as reader:
            assert ids(reader) == [run]


@pytest.mark.parametrize("name", ["history.sqlite", "deeper/history.sqlite"])
def test_a_folder_that_may_not_be_written_is_told(public_folder, name):
    """Where there is no store yet."""
    with protected(public_folder), pytest.raises(StoreError, match="make the file and its folder writable"):
        open_store(public_folder / name)


def test_a_closed_store_is_told(history):
    """In the one kind of error that the store raises."""
    history.close()
    with pytest.raises(StoreError, match="closed"):
        history.runs()


# Upgrading


def columns(path):
    """The columns of the runs in a file."""
    with closing(sqlite3.connect(path)) as connection:
        return [name for _, name, *_ in connection.execute("PRAGMA table_info(runs)")]


@pytest.fixture
def old(path):
    """The path of a store with a run, of the version that polykv has."""
    with open_store(path) as history:
        history.save(receipt_text(), b"measured", tags=["kept"])
    return path


@pytest.fixture
def outdated(old, monkeypatch):
    """The same path, but polykv has gone on by one version."""
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT_MIGRATION))
    return old


def test_an_older_store_is_upgraded_after_a_backup(outdated):
    """Everything is still there, and beside it the file as it was before."""
    before = outdated.read_bytes()
    with open_store(outdated) as history:
        assert history.run(1).measurement == b"measured"
        assert history.save(receipt_text(), None) == 2
    assert columns(outdated)[-1] == "colour"
    assert sorted(os.listdir(outdated.parent)) == ["history.sqlite", "history.sqlite.v1.backup.sqlite"]
    backup = outdated.with_name("history.sqlite.v1.backup.sqlite")
    assert "colour" not in columns(backup)
    with closing(sqlite3.connect(backup)) as kept, closing(sqlite3.connect(":memory:")) as was:
        was.deserialize(before.replace(b"\x02\x02", b"\x01\x01", 1))  # what lies in memory has no log
        assert list(kept.iterdump()) == list(was.iterdump())


def test_a_backup_never_takes_the_place_of_another(outdated):
    """It gets a number instead."""
    earlier = {f"history.sqlite.v1.backup{number}.sqlite": b"mine" for number in ("", "-2")}
    for name, data in earlier.items():
        outdated.with_name(name).write_bytes(data)
    open_store(outdated).close()
    after = contents(outdated.parent)
    assert {name: after[name] for name in earlier} == earlier
    assert sorted(after) == ["history.sqlite", *sorted([*earlier, "history.sqlite.v1.backup-3.sqlite"])]


def test_an_upgraded_store_is_upgraded_once(outdated):
    """Opening it again makes no other backup."""
    for _ in range(2):
        open_store(outdated).close()
    assert len(os.listdir(outdated.parent)) == 2


def test_a_newer_store_is_left_as_it_is(outdated, monkeypatch):
    """The message names both versions."""
    open_store(outdated).close()
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
    before = contents(outdated.parent)
    with pytest.raises(StoreError, match=r"has version 2, from a newer polykv, and this one knows .* 1; update polykv"):
        open_store(outdated)
    assert contents(outdated.parent) == before


@pytest.mark.parametrize("fault", ["CREATE TABLE runs (id)", "no SQL", "INSERT INTO runs (id) VALUES (9)"])
def test_a_failing_migration_leaves_everything_as_it_was(old, monkeypatch, fault):
    """The steps before it as well, and no backup lies about."""
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT_MIGRATION, fault))
    before = contents(old.parent)
    with pytest.raises(StoreError, match="cannot be used"):
        open_store(old)
    assert contents(old.parent) == before


def test_a_failing_backup_stops_the_upgrade(outdated, monkeypatch):
    """Nothing is upgraded without one, and no half of one stays."""

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(schema.shutil, "copymode", fail)
    before = contents(outdated.parent)
    with pytest.raises(StoreError, match="free space on"):
        open_store(outdated)
    assert contents(outdated.parent) == before


def test_an_older_store_that_may_only_be_read_is_told(public_folder, monkeypatch):
    """It cannot be upgraded there."""
    path = public_folder / "history.sqlite"
    open_store(path).close()
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT_MIGRATION))
    with protected(public_folder), pytest.raises(StoreError, match="make the file and its folder writable"):
        open_store(path)
