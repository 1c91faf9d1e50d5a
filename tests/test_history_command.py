"""`polykv history`: runs that were kept are listed, shown, judged again, compared, handed on, labelled and deleted."""

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from command_line import assert_one_error_line, one_line, polykv, polykv_process, process_of, written
from support import GOLDEN, fixture_fields

from polykv_core.history import open_store
from polykv_core.provenance import sealed

FIELDS = fixture_fields(rows=12, shared=6, queries=3)
OTHER = fixture_fields(rows=12, shared=6, queries=3, draw=1) | {"model_id": "other"}
# The fixture passes with these.
WIDE = ("--min-output-cosine", 0.1, "--max-output-mse", 9, "--max-kl-divergence", 9, "--max-ppl-delta", 99)
HOSTILE = "[bold red]x[bold] \x1b[31m\n\r\x07\u202e<b>"
ON_A_RUN = (
    ("show", "1"),
    ("rejudge", "1"),
    ("compare", "1", "1"),
    ("export", "1", "--to", "folder"),
    ("delete", "1", "--yes"),
    ("label", "1", "--note", "x"),
    ("pin", "1"),
)
COMMANDS = (("list",), *ON_A_RUN)


@pytest.fixture
def path(tmp_path):
    """The fixture as a file."""
    return written(tmp_path, FIELDS)


@pytest.fixture(scope="module")
def three_runs(tmp_path_factory):
    """A history's bytes with three runs, and their receipts' by number.

    The fixture's run fails, then passes with other gates; another fixture's fails.
    """
    folder = tmp_path_factory.mktemp("three")
    path, other = written(folder, FIELDS), written(folder, OTHER, "other.json")
    calls = (
        (path, "--tag", "nightly", "--tag", "gpu", "--note", "first of all"),
        (path, *WIDE, "--tag", "nightly"),
        (other, "--candidate-ks", "4"),
    )
    keep = ("--keep", "--store", folder / "history.sqlite", "--receipt", "-")
    receipts = {number: polykv("replay", *call, *keep).stdout_bytes for number, call in enumerate(calls, start=1)}
    return (folder / "history.sqlite").read_bytes(), receipts


@pytest.fixture
def receipts(three_runs, history):
    """The three runs in this test's history; their receipts' bytes by number."""
    data, receipts = three_runs
    history.write_bytes(data)
    return receipts


def listed(*args):
    """The numbers of the runs that are listed."""
    result = polykv("history", "list", *args, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return [run["id"] for run in json.loads(result.stdout)]


def receipt_of(*args):
    """The bytes of the receipt that a command prints."""
    result = polykv(*args, "--receipt", "-")
    assert result.stderr == ""
    return result.stdout_bytes


# Keeping


def test_a_kept_run_is_told_with_its_number_and_place(path, history):
    """One for each fixture that has a verdict."""
    assert f"Kept     as run 1 in {history}\n" in polykv("replay", path, "--keep").stdout
    result = polykv("replay", path, path.with_name("missing.json"), path, "--keep")
    assert result.exit_code == 2
    assert result.stdout.endswith(f"\nKept  as run 2, 3 in {history}\n")


def test_keeping_changes_neither_receipt_nor_exit_code(path):
    """Every k is measured for it, and nobody sees that."""
    kept, not_kept = (polykv("replay", path, "--receipt", "-", *keep) for keep in (("--keep",), ()))
    assert (kept.stdout_bytes, kept.exit_code) == (not_kept.stdout_bytes, not_kept.exit_code)


def test_nothing_is_kept_unasked(path, history):
    """Not even the file is made."""
    polykv("replay", path, "--tag", "nightly")
    assert not history.exists()


def test_the_store_can_be_given(path, tmp_path, history):
    """For keeping and for reading; the other one stays as it is."""
    store = tmp_path / "deep" / "runs.sqlite"
    polykv("replay", path, "--keep", "--store", store)
    assert listed("--store", store) == [1]
    assert not history.exists()


@pytest.mark.parametrize("label", [("--tag", "a,b"), ("--tag", ""), ("--tag", "x" * 61), ("--note", "x" * 2001)])
def test_what_is_no_label_is_refused_before_all_the_work(path, monkeypatch, label):
    """One line that says what one is."""
    monkeypatch.setattr("polykv_core.commands.replay.measure", None)
    result = polykv("replay", path, "--keep", *label)
    assert_one_error_line(result)
    assert "expected " in result.stderr


def test_a_history_that_cannot_be_used_is_told_before_all_the_work(path, history, monkeypatch):
    """Nothing is measured in vain."""
    monkeypatch.setattr("polykv_core.commands.replay.measure", None)
    history.write_bytes(b"nonsense")
    result = polykv("replay", path, "--keep")
    assert_one_error_line(result)
    assert f"{history} is no SQLite database" in result.stderr


def test_two_processes_keep_at_the_same_time(path, history):
    """Both succeed, also in making the file."""
    command = process_of("replay", path, "--keep", "--store", history)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=path.parent) for _ in "12"]
    ends = [(*process.communicate(), process.returncode) for process in both]
    assert [(complaints, code) for _, complaints, code in ends] == [(b"", 1), (b"", 1)]
    assert listed() == [2, 1]


# Listing


@pytest.mark.usefixtures("receipts")
def test_runs_are_listed_newest_first():
    """With verdict, k, model, file, failing gates, tags and note; a pinned one has a star that is explained."""
    assert polykv("history", "pin", 2).exit_code == 0
    head, *rows, _, legend = polykv("history", "list").stdout.splitlines()
    assert head.split() == ["Run", "Saved", "(UTC)", "Verdict", "k", "Model", "Fixture", "Fails", "Tags", "Note"]
    assert [row[:4].strip() for row in rows] == ["3", "2 *", "1"]
    assert "Output cosine, Output MSE, KL divergence, |PPL delta|  gpu, nightly  first of all" in rows[2]
    assert " pass " in rows[1]
    assert " other.json " in rows[0]
    assert legend == "* pinned: the baseline of its fixture"


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ((), [3, 2, 1]),
        (("made-ON",), [2, 1]),
        (("other.json",), [3]),
        (("first of",), [1]),
        (("gpu",), [1]),
        (("no such thing",), []),
        (("%",), []),
        (("--model", "other"), [3]),
        (("--model", "othe"), []),
        (("--passed",), [2]),
        (("--failed",), [3, 1]),
        (("--gate", "max-ppl-delta"), [1]),
        (("--gate", "max-output-mse"), [3, 1]),
        (("--tag", "nightly"), [2, 1]),
        (("--tag", "night"), []),
        (("--tag", "nightly", "--failed"), [1]),
        (("--since", "2001-01-01"), [3, 2, 1]),
        (("--since", "9000-01-01T12:00+02:00"), []),
        (("--until", "2001-01-01"), []),
        (("--until", "9000-01-01T12:00"), [3, 2, 1]),
        (("--limit", "2"), [3, 2]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.usefixtures("receipts")
def test_runs_are_found(filters, found):
    """By text, model, verdict, failing gate, tag and time, each alone and together."""
    assert listed(*filters) == found
    assert (polykv("history", "list", *filters).stdout == "No run fits.\n") == (not found)


@pytest.mark.usefixtures("receipts")
def test_runs_are_found_by_a_digest_s_beginning():
    """Of the fixture or of the receipt, with or without the algorithm."""
    one = json.loads(polykv("history", "list", "--json").stdout)[0]
    for digest in (one["fixture_digest"], one["receipt_digest"]):
        assert listed(digest[:19]) == listed(digest[7:19]) == [3]


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        (("--since", "yesterday"), "'yesterday' is no time; expected such as 2026-12-31"),
        (("--until", "2026-13-01"), "'2026-13-01' is no time"),
        (("--until", ""), "'' is no time"),
        (("--gate", "kl"), "'max-kl-divergence'"),
        (("--tag", "a,b"), "a tag is 'a,b'"),
        (("--limit", "0"), "0 is not in the range"),
        (("one", "two"), "two"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.usefixtures("receipts")
def test_a_filter_that_means_nothing_is_refused(filters, told):
    """One line that says what was given."""
    result = polykv("history", "list", *filters)
    assert_one_error_line(result)
    assert told in result.stderr


@pytest.mark.usefixtures("receipts")
def test_the_list_as_json_has_its_fields():
    """Of every run, in one order; the time says its zone."""
    run = json.loads(polykv("history", "list", "--json").stdout)[2]
    assert run.pop("saved_at").endswith("+00:00")
    digests = [run.pop("fixture_digest"), run.pop("receipt_digest")]
    assert all(digest.startswith("sha256:") for digest in digests)
    assert run == {
        "id": 1,
        "kind": "captured",
        "schema_version": "poly_kv_captured_model_replay_v1",
        "model_id": "made-on-the-spot",
        "passed": False,
        "selected_candidate_k": 64,
        "failing_gates": ["min_output_cosine", "max_output_mse", "max_kl_divergence", "max_ppl_delta"],
        "file_name": "fixture.json",
        "tags": ["gpu", "nightly"],
        "note": "first of all",
        "pinned": False,
        "has_measurement": True,
    }


# Showing and handing on


@pytest.mark.parametrize(("run", "code"), [(1, 1), (2, 0), (3, 1)])
def test_a_run_is_shown_with_the_replay_s_exit_code(receipts, tmp_path, run, code):
    """And the verdict's table; its receipt is byte for byte the one that was kept."""
    shown = polykv("history", "show", run, "--receipt", tmp_path / "receipt.json")
    assert (shown.exit_code, shown.stderr) == (code, "")
    assert shown.stdout.startswith(f"Run      {run}\nSaved    ")
    assert ("PASSED at k = 8\n" if code == 0 else "FAILED: no k passes; ") in shown.stdout
    assert (tmp_path / "receipt.json").read_bytes() == receipts[run]
    printed = polykv("history", "show", run, "--receipt", "-")
    assert (printed.exit_code, printed.stdout_bytes) == (code, receipts[run])


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="there is no such device")
def test_a_receipt_shown_on_dev_stdout_stands_there_alone(receipts, history):
    """The device of standard output means the same as `-`."""
    shown = polykv_process("history", "show", 1, "--store", history, "--receipt", "/dev/stdout")
    assert shown.stdout == receipts[1]


@pytest.mark.parametrize("command", ["show", "rejudge"])
@pytest.mark.usefixtures("receipts")
def test_a_receipt_does_not_overwrite_the_history(history, command):
    """That would cost every run."""
    before = history.read_bytes()
    result = polykv("history", command, 1, "--receipt", history)
    assert_one_error_line(result)
    assert f"would overwrite the input {history}" in result.stderr
    assert history.read_bytes() == before


def test_exported_receipts_are_the_exact_bytes(receipts, tmp_path):
    """A file each, in a folder that is made; their names are printed."""
    folder = tmp_path / "deep" / "er"
    result = polykv("history", "export", 1, 3, "--to", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    names = result.stdout.splitlines()
    assert sorted(names) == sorted(str(place) for place in folder.iterdir())
    assert [os.path.basename(name).partition("_")[0] for name in names] == ["run-1", "run-3"]
    assert [Path(name).read_bytes() for name in names] == [receipts[1], receipts[3]]


@pytest.mark.usefixtures("receipts")
def test_an_export_of_an_unknown_run_writes_nothing(path, tmp_path):
    """Nor one into what is no folder."""
    assert_one_error_line(polykv("history", "export", 1, 9, "--to", tmp_path / "folder"))
    assert not (tmp_path / "folder").exists()
    result = polykv("history", "export", 1, "--to", path)
    assert_one_error_line(result)
    assert f"cannot make the folder {path}: " in result.stderr


# Judging again


@pytest.mark.parametrize(
    "gates",
    [
        (),
        WIDE,
        ("--candidate-ks", "1,12,5"),
        ("--candidate-ks", "1000000"),
        ("--statistic", "worst", "--gate-off", "max-ppl-delta"),
        ("--gate-off", "max-output-mse", "--max-kl-divergence", 0.655),
    ],
    ids=lambda gates: " ".join(map(str, gates)) or "none",
)
@pytest.mark.parametrize(
    "options", [(), ("--pool-codec", "exact", "--attention-scale", "0.5")], ids=["plain", "options"]
)
def test_judging_again_is_replaying_anew(path, gates, options):
    """At any gates and any k, beyond the rows as well: byte for byte, and without the fixture."""
    anew = polykv("replay", path, *options, *gates, "--receipt", "-")
    polykv("replay", path, *options, "--keep")
    path.unlink()
    again = polykv("history", "rejudge", 1, *gates, "--receipt", "-")
    assert again.stdout_bytes == anew.stdout_bytes
    assert (again.exit_code, again.stderr) == (anew.exit_code, "")


def test_judging_again_leaves_the_run_as_it_is(receipts, tmp_path):
    """The new verdict is shown and written; the history has the old one, and no other."""
    result = polykv("history", "rejudge", 1, *WIDE, "--receipt", tmp_path / "new.json")
    assert result.exit_code == 0
    assert "PASSED at k = 8\n" in result.stdout
    assert json.loads((tmp_path / "new.json").read_bytes())["passed"] is True
    assert receipt_of("history", "show", 1) == receipts[1]
    assert listed() == [3, 2, 1]


@pytest.mark.usefixtures("receipts")
def test_gates_that_are_none_are_refused(path):
    """As a replay refuses them."""
    contradiction = ("--max-ppl-delta", 1, "--gate-off", "max-ppl-delta")
    for gates in (contradiction, ("--candidate-ks", "0"), ("--max-ppl-delta", "nan"), ("--statistic", "median")):
        again, anew = polykv("history", "rejudge", 1, *gates), polykv("replay", path, *gates)
        assert_one_error_line(again)
        assert again.stderr.partition(" (see ")[0] == anew.stderr.partition(" (see ")[0]


def test_a_run_without_a_measurement_is_judged_at_the_ks_of_its_receipt(receipts, history):
    """Another k was not measured, and the line says which were."""
    with open_store(history) as store:
        run = store.save(receipts[3].decode(), None)
    again = receipt_of("history", "rejudge", run, *WIDE)
    assert again == receipt_of("history", "rejudge", 3, *WIDE)
    result = polykv("history", "rejudge", run, "--candidate-ks", "5")
    assert_one_error_line(result)
    assert "5" in result.stderr


# Comparing


@pytest.mark.usefixtures("receipts")
def test_a_comparison_says_what_became_of_verdict_and_gates(tmp_path):
    """Exit 1 if the verdict regressed, 0 if it was fixed or stayed; by number or as a file."""
    fixed, regressed = polykv("history", "compare", 1, 2), polykv("history", "compare", 2, 1)
    assert (fixed.exit_code, regressed.exit_code, polykv("history", "compare", 1, 1).exit_code) == (0, 1, 0)
    assert fixed.stdout.startswith("run 1 FAILED at k = 64, run 2 passed at k = 8: fixed\n")
    assert regressed.stdout.startswith("run 2 passed at k = 8, run 1 FAILED at k = 64: REGRESSED\n")
    assert "64 -> 8" in fixed.stdout
    polykv("history", "show", 1, "--receipt", tmp_path / "one.json")
    as_file = polykv("history", "compare", 2, tmp_path / "one.json")
    assert as_file.exit_code == 1
    assert as_file.stdout.startswith("run 2 passed at k = 8, one.json FAILED at k = 64: REGRESSED\n")


@pytest.mark.usefixtures("receipts")
def test_several_runs_are_each_compared_with_the_first():
    """One that regressed is enough for exit 1."""
    result = polykv("history", "compare", 2, 2, 1)
    assert result.exit_code == 1
    headlines = [line for line in result.stdout.splitlines() if line.startswith("run 2 ")]
    assert [line.rpartition(": ")[2] for line in headlines] == ["the same verdict", "REGRESSED"]


@pytest.mark.parametrize(("only", "rows"), [("all", 25), ("differs", 20), ("regressed", 20), ("fixed", 0), ("same", 5)])
@pytest.mark.usefixtures("receipts")
def test_the_rows_that_were_asked_for_are_shown(only, rows):
    """Five gates at the selected ks and at each of the four in common, or those among them that moved so."""
    table = polykv("history", "compare", 2, 1, "--only", only).stdout.splitlines()[2:]
    if rows:
        assert (len(table) - 1, table[0].split()[:2]) == (rows, ["k", "Gate"])
    else:
        assert table == ["Nothing differs, of what was asked for."]


def test_other_options_are_compared_only_on_purpose(path):
    """Exit 2 with the field and the way out; with --across they are."""
    polykv("replay", path, "--keep")
    polykv("replay", path, "--pool-codec", "exact", "--keep")
    refused = polykv("history", "compare", 1, 2)
    assert_one_error_line(refused)
    assert "the runs are not comparable: pool_codec is fib_k4_n32 in one and exact in the other" in refused.stderr
    assert polykv("history", "compare", 1, 2, "--across", "pool_codec").exit_code == 0


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ((1,), "give at least two runs"),
        ((), "RUN"),
        ((1, 3), "the fixture's digest is sha256:"),
        ((1, 9), "run 9 is not in "),
        ((1, "missing.json"), "cannot read missing.json: "),
        ((1, GOLDEN / "captured" / "d8_unscaled" / "receipt.json"), "queries"),
    ],
)
@pytest.mark.usefixtures("receipts")
def test_what_cannot_be_compared_is_told(runs, told):
    """One run, none, another fixture's, one that is not there, a receipt without the queries' numbers."""
    result = polykv("history", "compare", *runs)
    assert_one_error_line(result)
    assert told in result.stderr


# Labels, pins, deleting


@pytest.mark.usefixtures("receipts")
def test_a_run_gets_another_label():
    """Tags or note, each without the other; empty ones take them away."""
    for args, tags, note in (
        (("--note", "another"), ["gpu", "nightly"], "another"),
        (("--tag", "b", "--tag", "a"), ["a", "b"], "another"),
        (("--tag", ""), [], "another"),
        (("--note", ""), [], ""),
    ):
        result = polykv("history", "label", 1, *args)
        assert (result.exit_code, result.stderr) == (0, "")
        run = json.loads(polykv("history", "list", "--json").stdout)[2]
        assert (run["tags"], run["note"]) == (tags, note)
        assert note in result.stdout
    refused = polykv("history", "label", 1, "--tag", "a,b")
    assert_one_error_line(refused)
    assert "a tag is 'a,b'" in refused.stderr


@pytest.mark.usefixtures("receipts")
def test_a_fixture_has_one_pin():
    """It moves from run to run, and goes away."""

    def pinned():
        return [run["id"] for run in json.loads(polykv("history", "list", "--json").stdout) if run["pinned"]]

    told = []
    for args, expected in (((1,), [1]), ((3,), [3, 1]), ((2,), [3, 2]), ((2, "--off"), [3])):
        result = polykv("history", "pin", *args)
        assert result.exit_code == 0
        assert pinned() == expected
        told.append(result.stdout)
    assert told[0] == "run 1 is the baseline of its fixture\n"
    assert told[3] == "run 2 is no longer the baseline of its fixture\n"


@pytest.mark.parametrize("answer", ["n\n", "\n", ""], ids=["no", "return", "end"])
@pytest.mark.usefixtures("receipts")
def test_deleting_asks_and_takes_no_for_an_answer(answer):
    """So is silence, and the end of input: nothing is deleted, and the exit code is that of an interrupt."""
    result = polykv("history", "delete", 1, 3, 1, answer=answer)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.startswith("Delete 2 of the runs in ")
    assert listed() == [3, 2, 1]


@pytest.mark.parametrize(("args", "answer"), [((), "y\n"), (("--yes",), None)])
@pytest.mark.usefixtures("receipts")
def test_deleting_deletes(args, answer):
    """After a yes, or without asking; the number is never used again."""
    result = polykv("history", "delete", 1, 3, *args, answer=answer)
    assert (result.exit_code, result.stdout) == (0, "2 deleted\n")
    assert listed() == [2]


@pytest.mark.usefixtures("receipts")
def test_deleting_is_all_or_nothing():
    """One run that is not there, and all stay."""
    result = polykv("history", "delete", 1, 9, "--yes")
    assert_one_error_line(result)
    assert "run 9 is not in " in result.stderr
    assert listed() == [3, 2, 1]


# What is not there, or not as it should be


@pytest.mark.parametrize("command", ON_A_RUN, ids=lambda command: command[0])
@pytest.mark.usefixtures("receipts")
def test_an_unknown_run_is_told_with_the_way_to_the_known_ones(command):
    """Exit 2 and one line; also for a number that no computer holds."""
    for number in ("9", "9" * 30):
        result = polykv("history", *[number if word == "1" else word for word in command])
        assert_one_error_line(result)
        assert f"run {number} is not in " in result.stderr
        assert "`polykv history list` shows what is" in result.stderr


@pytest.mark.parametrize("command", ["show", "rejudge", "delete", "label", "pin"])
@pytest.mark.parametrize("number", ["0", "-1", "x", ""])
@pytest.mark.usefixtures("receipts")
def test_what_is_no_number_is_refused(command, number):
    """As every wrong argument is."""
    assert_one_error_line(polykv("history", command, "--", number))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_no_history_yet_is_told_with_the_way_to_begin_one(history, command):
    """Exit 2 and one line; looking makes none."""
    result = polykv("history", *command)
    assert_one_error_line(result)
    assert f"there is no history at {history}; `polykv replay FIXTURE --keep` begins one" in result.stderr
    assert not history.exists()


@pytest.mark.parametrize("command", [*COMMANDS, ("keep",)], ids=lambda command: command[0])
@pytest.mark.parametrize("kind", ["nonsense", "folder", "another program's", "newer"])
def test_a_file_that_is_no_history_is_told_with_the_way_out(path, history, command, kind):
    """Exit 2 and one line that says what to do; the file stays as it is."""
    told = "with --store"
    if kind == "nonsense":
        history.write_bytes(b"nonsense" * 100)
        told = "move it aside"
    elif kind == "folder":
        history.mkdir()
    elif kind == "another program's":
        with closing(sqlite3.connect(history)) as connection:
            connection.execute("CREATE TABLE cakes (name TEXT)")
    else:
        open_store(history).close()
        with closing(sqlite3.connect(history)) as connection:
            connection.execute("PRAGMA user_version = 99")
        told = "update polykv"
    before = history.read_bytes() if history.is_file() else None
    result = polykv("replay", path, "--keep") if command == ("keep",) else polykv("history", *command)
    assert_one_error_line(result)
    assert told in result.stderr
    assert before is None or history.read_bytes() == before


def test_a_history_is_told_what_to_do():
    """Without a command one line says so; the help names them."""
    result = polykv("history")
    assert_one_error_line(result)
    assert "history --help" in result.stderr
    helped = polykv("history", "--help").stdout
    assert [command[0] for command in COMMANDS if f"\n  {command[0]} " not in helped] == []


# Text that comes from elsewhere


@pytest.mark.skipif(os.name == "nt", reason="such names cannot be there")
def test_hostile_text_does_nothing_to_the_terminal(tmp_path):
    """Of files, models, tags, notes and folders: markup stays as typed, and what would act is shown, not sent."""
    path = written(tmp_path, FIELDS | {"model_id": HOSTILE}, HOSTILE)
    receipt, store = tmp_path / f"{HOSTILE}.json", tmp_path / f"{HOSTILE}.sqlite"
    at = ("--store", store)
    polykv("replay", path, "--keep", "--tag", HOSTILE, "--note", HOSTILE, "--receipt", receipt, *at)
    shown = r"[bold red]x[bold] \x1b[31m\n\r\x07\u202e<b>"
    for command in (
        ("list",),
        ("show", 1, "--receipt", tmp_path / f"{HOSTILE}.again"),
        ("rejudge", 1, *WIDE),
        ("compare", 1, receipt),
        ("compare", 1, f"missing{HOSTILE}"),
        ("export", 1, "--to", tmp_path / f"{HOSTILE}.folder"),
        ("label", 1, "--note", HOSTILE),
        ("list", "--since", HOSTILE),
        ("show", 9),
        ("delete", 1),
    ):
        result = polykv("history", *command, *at, answer="n\n")
        assert shown in result.output, command
        assert not {"\x1b", "\r", "\x07", "\u202e"} & set(result.output), command


@pytest.mark.usefixtures("receipts")
def test_text_to_find_is_no_pattern_and_no_sql():
    """It means itself."""
    for text in ("' OR 1=1 --", "*", "_", "made%spot", '"'):
        assert listed(text) == []


def test_versions_that_differ_are_named(path, tmp_path):
    """A run of another polykv may differ for that alone; what its receipt says of it is shown, not sent."""
    place = tmp_path / "receipt.json"
    polykv("replay", path, "--keep", "--receipt", place)
    fields = json.loads(place.read_bytes())
    fields["provenance"]["made_with"]["polykv"] = f"9 {HOSTILE}"
    result = polykv("history", "compare", 1, written(tmp_path, sealed(fields), "receipt.json"))
    assert result.exit_code == 0
    assert "Made with other versions: polykv " in one_line(result.stdout)
    assert not {"\x1b", "\r", "\x07", "\u202e"} & set(result.output)
