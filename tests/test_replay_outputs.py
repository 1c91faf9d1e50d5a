"""`polykv replay`: what it writes, several fixtures in one call, and what a config file holds."""

import csv
import io
import os
import sys
from pathlib import Path

import pytest
from command_line import assert_one_error_line, polykv, polykv_process, written
from junitparser import Error, Failure, JUnitXml
from support import encoded, fixture_fields

from polykv_core import (
    DEFAULT_CANDIDATE_KS,
    CapturedReplayConfig,
    ReplayOptions,
    candidates_csv,
    load_fixture,
    run_captured_model_replay,
)
from polykv_core.commands import replay as command
from polykv_core.history import open_store
from polykv_core.report import Outcome, junit_xml, markdown_summary, receipts_in_report
from polykv_core.settings import settings_json

FIELDS = fixture_fields(rows=12, shared=6, queries=3)
OTHER = fixture_fields(rows=12, shared=6, queries=3, draw=1) | {"model_id": "other"}
FIXTURE = load_fixture(encoded(FIELDS))
# Both fixtures pass with these.
WIDE = ("--min-output-cosine", 0.1, "--max-output-mse", 9, "--max-kl-divergence", 9, "--max-ppl-delta", 99)
CALLED = {"receipt": "Receipt", "junit": "JUnit", "markdown": "Markdown", "html": "HTML", "csv": "CSV"}
OUTPUTS = tuple(CALLED)
HOSTILE = "[bold red]x[bold] \x1b[31m\n\r\x07\u202e<b>.json"


@pytest.fixture
def path(tmp_path):
    """The fixture as a file."""
    return written(tmp_path, FIELDS)


@pytest.fixture
def other(tmp_path):
    """Another fixture as a file."""
    return written(tmp_path, OTHER, "other.json")


@pytest.fixture
def no_work(monkeypatch):
    """Nothing may be measured."""

    def refuse(*_, **__):
        raise AssertionError("measured")

    monkeypatch.setattr(command, "measure", refuse)


def replayed(config=None, options=None, fields=FIELDS):
    """The library's receipt."""
    fixture = load_fixture(encoded(fields))
    return run_captured_model_replay(
        fixture, config or CapturedReplayConfig(DEFAULT_CANDIDATE_KS), options or ReplayOptions()
    )


# Each output, and all of them


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_file_and_standard_output_get_the_same_bytes(path, tmp_path, name):
    """With a file the table names it; on standard output it stands alone. The exit code is the verdict's."""
    place = tmp_path / "output"
    to_file, to_output = polykv("replay", path, f"--{name}", place), polykv("replay", path, f"--{name}", "-")
    assert (to_file.exit_code, to_output.exit_code) == (1, 1)
    assert place.read_bytes() == to_output.stdout_bytes
    facts = to_file.stdout.partition("\n\nFAILED: no k passes; ")[0].splitlines()
    assert [line.split() for line in facts][3:] == [[CALLED[name], str(place)]]
    assert (to_file.stderr, to_output.stderr) == ("", "")
    assert sorted(os.listdir(tmp_path)) == ["fixture.json", "output"]


def test_an_output_is_what_the_library_writes(path):
    """Receipt, JUnit report, summary and table."""
    receipt = replayed()
    outcomes = [Outcome(str(path), receipt)]
    expected = {
        "receipt": receipt.to_json(),
        "junit": junit_xml(outcomes),
        "markdown": markdown_summary(outcomes),
        "csv": candidates_csv([receipt]),
    }
    assert {name: polykv("replay", path, f"--{name}", "-").stdout_bytes for name in expected} == {
        name: text.encode() for name, text in expected.items()
    }


def test_all_outputs_at_once_are_what_each_is_alone(path, tmp_path):
    """The same bytes, each named in the table, and the receipt in a folder as well, which is made."""
    places = {name: tmp_path / f"out.{name}" for name in OUTPUTS}
    options = [word for name, place in places.items() for word in (f"--{name}", place)]
    result = polykv("replay", path, *options, "--receipts", tmp_path / "deep" / "er")
    assert result.exit_code == 1
    for name, place in places.items():
        assert place.read_bytes() == polykv("replay", path, f"--{name}", "-").stdout_bytes
        assert str(place) in result.stdout
    (receipt,) = (tmp_path / "deep" / "er").iterdir()
    assert receipt.name == f"made-on-the-spot_failed_{FIXTURE.digest[7:19]}.json"
    assert receipt.read_bytes() == places["receipt"].read_bytes()
    assert f"Receipts  {tmp_path / 'deep' / 'er'}\n" in result.stdout


def test_standard_output_beside_files_has_no_table(path, tmp_path):
    """The files are written, and the one output is all that is printed."""
    result = polykv("replay", path, "--csv", tmp_path / "table.csv", "--junit", "-")
    assert result.stdout == polykv("replay", path, "--junit", "-").stdout
    assert (tmp_path / "table.csv").read_bytes() == polykv("replay", path, "--csv", "-").stdout_bytes


# What is refused


@pytest.mark.usefixtures("no_work")
def test_standard_output_takes_one_output_only(path):
    """Two would run into each other."""
    result = polykv("replay", path, "--receipt", "-", "--csv", "-")
    assert_one_error_line(result)
    assert "two outputs go to the same place" in result.stderr


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="there is no such device")
def test_standard_output_takes_one_output_only_by_whatever_name(path):
    """Its device is the same place."""
    result = polykv_process("replay", path, "--receipt", "-", "--csv", "/dev/stdout")
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"two outputs go to the same place" in result.stderr


@pytest.mark.parametrize("again", ["out", "./out", "folder/../out", "link"])
@pytest.mark.usefixtures("no_work")
def test_an_output_is_not_written_over_another(path, tmp_path, monkeypatch, again):
    """By whatever name; nothing is measured or written before."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("out")
    result = polykv("replay", path, "--junit", "out", "--markdown", again)
    assert_one_error_line(result)
    assert "two outputs go to the same place" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("over", ["fixture", "config", "baseline", "store"])
@pytest.mark.usefixtures("no_work")
def test_an_output_is_not_written_over_an_input(path, tmp_path, name, over):
    """Fixture, config, baseline or history, by whatever name; nothing is measured or written before."""
    inputs = {
        "fixture": path,
        "config": written(tmp_path, CapturedReplayConfig((4,)).to_dict(), "config.json"),
        "baseline": written(tmp_path, {}, "baseline.json"),
        "store": tmp_path / "history.sqlite",
    }
    open_store(inputs["store"]).close()
    link = tmp_path / "link"
    link.symlink_to(inputs[over])
    before = {place: place.read_bytes() for place in inputs.values()}
    options = [word for option in ("config", "baseline", "store") for word in (f"--{option}", inputs[option])]
    result = polykv("replay", path, *options, "--worse-by", "max-output-mse=1", f"--{name}", link)
    assert_one_error_line(result)
    assert f"--{name} {link} would overwrite the input {inputs[over]}" in result.stderr
    assert {place: place.read_bytes() for place in inputs.values()} == before


def test_a_baseline_in_the_folder_of_receipts_is_not_overwritten(path, tmp_path):
    """A receipt that would take its name is refused: the next run would be held against this one."""
    polykv("replay", path, "--receipts", tmp_path / "receipts")
    (baseline,) = (tmp_path / "receipts").iterdir()
    before = baseline.read_bytes()
    gates = ("--baseline", baseline, "--worse-by", "max-kl-divergence=10")
    result = polykv("replay", path, *gates, "--receipts", tmp_path / "receipts")
    assert_one_error_line(result)
    assert f"would overwrite the input {baseline}" in result.stderr
    assert baseline.read_bytes() == before


@pytest.mark.usefixtures("no_work")
def test_one_receipt_is_not_for_several_fixtures(path, other, tmp_path):
    """Also not on standard output; the line names the option that is."""
    for place in (tmp_path / "receipt.json", "-"):
        result = polykv("replay", path, other, "--receipt", place)
        assert_one_error_line(result)
        assert "--receipts DIR" in result.stderr


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("place", ["missing/output", "", "."])
def test_an_output_that_cannot_be_written_is_no_verdict(path, tmp_path, monkeypatch, history, name, place):
    """A folder that is not there, no name, a folder: one line, no table, nothing made and nothing kept."""
    monkeypatch.chdir(tmp_path)
    result = polykv("replay", path, f"--{name}", place, "--keep", *WIDE)
    assert_one_error_line(result)
    assert "cannot write" in result.stderr
    assert os.listdir(tmp_path) == [path.name]
    assert not history.exists()


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_full_disk_is_no_verdict_and_leaves_nothing_half(path, tmp_path, monkeypatch, name):
    """What was there stays as it was, and nothing lies beside it."""

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    place = tmp_path / "output"
    place.write_text("old")
    result = polykv("replay", path, f"--{name}", place, *WIDE)
    assert_one_error_line(result)
    assert f"cannot write {place}: No space left on device" in result.stderr
    assert place.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["fixture.json", "output"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_device_that_is_full_is_no_verdict(path, name):
    """One line that says so."""
    result = polykv("replay", path, f"--{name}", "/dev/full", *WIDE)
    assert_one_error_line(result)
    assert "No space left on device" in result.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no such device")
def test_standard_output_that_is_full_is_no_verdict(path):
    """Of the table as well as of an output."""
    for output in ((), ("--junit", "-")):
        with Path("/dev/full").open("wb") as full:
            result = polykv_process("replay", path, *output, *WIDE, capture_output=False, stdout=full, stderr=-1)
        assert result.returncode == 2
        assert result.stderr == b"error: cannot write to standard output: No space left on device\n"


def test_a_folder_of_receipts_that_cannot_be_made_is_no_verdict(path, tmp_path):
    """A file is in its place, or above it."""
    for folder in (path, path / "deeper"):
        result = polykv("replay", path, "--receipts", folder)
        assert_one_error_line(result)
        assert f"cannot make the folder {folder}: " in result.stderr
    assert os.listdir(tmp_path) == [path.name]


# Several fixtures


def test_several_fixtures_pass_if_each_passes(path, other):
    """Exit 0 and words that say so; each has its row."""
    result = polykv("replay", path, other, *WIDE)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split()[:3] for line in result.stdout.splitlines()[1:3]]
    assert rows == [[str(path), "pass", "8"], [str(other), "pass", "8"]]
    assert result.stdout.splitlines()[-1].startswith("PASSED: all 2 fixtures pass; tightest: ")


@pytest.mark.parametrize("turned", [False, True])
def test_the_worst_gate_of_the_worst_fixture_is_named_last(path, other, turned):
    """In whatever order they are given: at 1.99 the PPL misses by twice its threshold, which nothing else does."""
    result = polykv("replay", *((other, path) if turned else (path, other)))
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.splitlines()[-1] == (
        f"FAILED: 2 of 2 fixtures fail; worst: |PPL delta| of {path} at k = 64, 1.992 where at most 1 is asked for."
    )


def test_one_that_fails_fails_the_call(path, other):
    """Exit 1, also where it is not the last one; it is the one that is named."""
    result = polykv("replay", path, other, *WIDE, "--max-ppl-delta", 1.5)
    assert result.exit_code == 1
    assert f"FAILED: 1 of 2 fixtures fails; worst: |PPL delta| of {path} " in result.stdout


def test_a_bad_fixture_stops_no_other(path, other, tmp_path):
    """It is told in a line on standard error, has a row without a verdict, and makes the exit code 2."""
    missing, broken = tmp_path / "missing.json", written(tmp_path, {}, "broken.json")
    result = polykv("replay", missing, path, broken, other, *WIDE, "--receipts", tmp_path / "receipts")
    assert result.exit_code == 2
    told = result.stderr.splitlines()
    assert told[0] == f"error: cannot read {missing}: No such file or directory"
    assert told[1].startswith(f"error: {broken}: ")
    assert len(told) == 2
    verdicts = [line.split()[1] for line in result.stdout.splitlines()[1:5]]
    assert verdicts == ["none", "pass", "none", "pass"]
    assert f"NO VERDICT: 2 of 4 fixtures have none, the first cannot read {missing}: " in result.stdout
    assert len(os.listdir(tmp_path / "receipts")) == 2


def test_only_bad_fixtures_are_told_and_no_table_follows(tmp_path):
    """A line each, and nothing on standard output."""
    result = polykv("replay", tmp_path / "one.json", tmp_path / "two.json", "--csv", "-")
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["error", "error"]


def test_each_receipt_in_the_folder_is_the_one_a_call_of_its_own_writes(path, other, tmp_path):
    """Byte for byte, under names of their own."""
    polykv("replay", path, other, "--receipts", tmp_path / "receipts")
    found = {place.read_bytes() for place in (tmp_path / "receipts").iterdir()}
    assert found == {polykv("replay", one, "--receipt", "-").stdout_bytes for one in (path, other)}


def test_the_csv_has_every_fixture_s_candidates(path, other):
    """In the order given, each with the fixture's model."""
    result = polykv("replay", other, path, "--candidate-ks", "4,2,4", "--csv", "-")
    rows = list(csv.DictReader(io.StringIO(result.stdout, newline="")))
    assert [(row["model_id"], row["candidate_k"]) for row in rows] == [
        (model, k) for model in ("other", "made-on-the-spot") for k in ("4", "2", "4")
    ]
    assert result.exit_code == 1


# JUnit


def counted(text):
    """How many failures and errors there are, counted in the cases and as the report says itself."""
    report = JUnitXml.fromstring(text.encode())
    results = [result for suite in report for case in suite for result in case.result]
    found = tuple(sum(isinstance(result, kind) for result in results) for kind in (Failure, Error))
    assert found == (report.failures, report.errors)
    return found


@pytest.mark.parametrize("gates", [(), WIDE, (*WIDE, "--max-ppl-delta", 1.5), ("--max-output-mse", 0.29)])
def test_junit_has_failures_exactly_if_the_exit_code_is_1(path, other, gates):
    """For one fixture, and for several."""
    for fixtures in ((path,), (other,), (path, other)):
        result = polykv("replay", *fixtures, *gates, "--junit", "-")
        failures, errors = counted(result.stdout)
        assert errors == 0
        assert result.exit_code == int(failures > 0)


def test_junit_has_an_error_for_a_fixture_without_a_verdict(path, other, tmp_path):
    """And exit code 2; the others are judged and written all the same."""
    missing, place = tmp_path / "missing.json", tmp_path / "junit.xml"
    result = polykv("replay", path, missing, other, *WIDE, "--junit", place, "--csv", tmp_path / "table.csv")
    assert result.exit_code == 2
    assert counted(place.read_text("utf-8")) == (0, 1)
    suites = {suite.name: suite for suite in JUnitXml.fromfile(str(place))}
    assert list(suites) == [str(path), str(missing), str(other)]
    assert [suite.errors for suite in suites.values()] == [0, 1, 0]
    (case,) = suites[str(missing)]
    assert case.result[0].message == f"cannot read {missing}: No such file or directory"
    assert len(list(suites[str(other)])) == 20
    assert (tmp_path / "table.csv").read_text().count("\n") == 9


def test_junit_of_bad_fixtures_alone_is_written(tmp_path):
    """A CI service shows why."""
    result = polykv("replay", tmp_path / "missing.json", "--junit", "-")
    assert result.exit_code == 2
    assert counted(result.stdout) == (0, 1)


# HTML


def test_the_report_holds_the_receipt_byte_for_byte(path, tmp_path):
    """The one that --receipt writes, and `polykv verify` takes the report for it."""
    report = tmp_path / "report.html"
    polykv("replay", path, "--html", report, "--receipt", tmp_path / "receipt.json")
    assert receipts_in_report(report.read_bytes()) == ((tmp_path / "receipt.json").read_bytes(),)
    held = polykv("verify", report, path)
    assert (held.exit_code, held.stderr) == (0, "")
    assert "VERIFIED" in held.stdout


def test_a_report_of_several_fixtures_holds_each_receipt(path, other, tmp_path):
    """Those that have one, in the order given."""
    result = polykv("replay", other, tmp_path / "missing.json", path, "--html", "-")
    expected = tuple(polykv("replay", one, "--receipt", "-").stdout_bytes for one in (other, path))
    assert receipts_in_report(result.stdout) == expected
    assert result.exit_code == 2


# Configs


SETTINGS = (
    CapturedReplayConfig(
        (5, 3),
        max_ppl_delta=7.0,
        max_kl_divergence=sys.float_info.max,
        min_output_cosine=-1.0,
        statistic="worst",
    ),
    ReplayOptions("inverse_sqrt_head_dim", "exact", "fib_k4_n64", "turbo_12bit"),
)


def test_an_exported_config_brings_the_identical_receipt(path, tmp_path):
    """With options, gates off and another statistic; so do the same things as single options."""
    config = tmp_path / "config.json"
    config.write_text(settings_json(*SETTINGS))
    expected = replayed(*SETTINGS).to_json().encode()
    single = (
        *("--candidate-ks", "5,3", "--max-ppl-delta", 7, "--statistic", "worst"),
        *("--gate-off", "max-kl-divergence", "--gate-off", "min-output-cosine"),
        *("--attention-scale", "inverse_sqrt_head_dim", "--query-coding", "exact"),
        *("--pool-codec", "fib_k4_n64", "--shell-codec", "turbo_12bit"),
    )
    for options in (("--config", config), single):
        result = polykv("replay", path, *options, "--receipt", "-")
        assert (result.stdout_bytes, result.stderr) == (expected, "")


@pytest.mark.parametrize(
    ("given", "config", "options"),
    [
        (("--pool-codec", "exact"), {}, {"pool_codec": "exact"}),
        (("--attention-scale", "reference"), {}, {"attention_scale": "reference"}),
        (("--attention-scale", "0.5"), {}, {"attention_scale": 0.5}),
        (("--query-coding", "compressed"), {}, {"query_coding": "compressed"}),
        (("--statistic", "mean"), {"statistic": "mean"}, {}),
        (("--max-kl-divergence", "3"), {"max_kl_divergence": 3.0}, {}),
        (("--gate-off", "max-ppl-delta"), {"max_ppl_delta": sys.float_info.max}, {}),
        (("--candidate-ks", "2"), {"candidate_ks": (2,)}, {}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_a_single_option_overrides_the_config_s(path, tmp_path, given, config, options):
    """That one, and nothing beside it; what the config switches off can be switched on."""
    place = tmp_path / "config.json"
    place.write_text(settings_json(*SETTINGS))
    settings = [vars(one) | changes for one, changes in zip(SETTINGS, (config, options), strict=True)]
    expected = replayed(CapturedReplayConfig(**settings[0]), ReplayOptions(**settings[1]))
    assert polykv("replay", path, "--config", place, *given, "--receipt", "-").stdout == expected.to_json()


@pytest.mark.usefixtures("no_work")
def test_an_unknown_option_in_a_config_is_refused(path, tmp_path):
    """Ignored, it would be replayed otherwise than somebody asked for."""
    config = written(tmp_path, {"candidate_ks": [4], "options": {"colour": "exact"}}, "config.json")
    result = polykv("replay", path, "--config", config)
    assert_one_error_line(result)
    assert f"{config}: " in result.stderr
    assert "colour" in result.stderr


@pytest.mark.usefixtures("no_work")
def test_a_gate_is_not_both_off_and_at_a_threshold(path):
    """That is two things at once."""
    result = polykv("replay", path, "--max-kl-divergence", 3, "--gate-off", "max-kl-divergence")
    assert_one_error_line(result)
    assert "--max-kl-divergence and --gate-off max-kl-divergence contradict each other" in result.stderr


# Text that comes from elsewhere


@pytest.mark.skipif(os.name == "nt", reason="such names cannot be there")
@pytest.mark.parametrize("several", [False, True])
def test_hostile_names_do_nothing_to_the_terminal(tmp_path, several):
    """Of files and of models: markup stays as typed; escapes, line breaks and bidi controls are shown, not sent."""
    hostile = written(tmp_path, FIELDS | {"model_id": HOSTILE}, HOSTILE)
    more = (tmp_path / f"missing {HOSTILE}",) if several else ()
    result = polykv("replay", hostile, *more, "--keep", "--tag", HOSTILE, "--csv", tmp_path / f"{HOSTILE}.csv")
    assert result.exit_code == (2 if several else 1)
    assert r"[bold red]x[bold] \x1b[31m\n\r\x07\u202e<b>.json" in result.stdout
    assert not {"\x1b", "\r", "\x07", "\u202e"} & set(result.output)
    assert result.stderr.count("\n") == len(more)


@pytest.mark.skipif(sys.platform != "linux", reason="such names cannot be there")
def test_a_name_that_is_no_text_is_replayed_written_and_kept(tmp_path, history):
    """File names are bytes; what cannot be shown of them is escaped."""
    path = os.path.join(tmp_path, os.fsdecode(b"\xff.json"))
    Path(path).write_bytes(encoded(FIELDS))
    outputs = [word for name in OUTPUTS for word in (f"--{name}", tmp_path / name)]
    result = polykv_process("replay", path, *outputs, "--keep")
    assert (result.returncode, result.stderr) == (1, b"")
    with open_store(history) as kept:
        assert kept.run(1).summary.file_name == r"\udcff.json"


def test_the_report_says_that_there_is_no_verdict(path, tmp_path):
    """A fixture that cannot be read stands first in it, and nothing says PASSED for the call; so it is without any."""
    broken, report = tmp_path / "broken.json", tmp_path / "report.html"
    broken.write_bytes(b"{")
    for fixtures in ((path, broken), (broken,)):
        assert polykv("replay", *fixtures, *WIDE, "--html", report).exit_code == 2
        text = report.read_text()
        assert "<title>NO VERDICT: polykv report</title>" in text
        assert f"{broken}: NO VERDICT, " in text


def test_two_files_of_one_head_have_a_receipt_each(path, tmp_path):
    """Their content is the same and so is the name; the second gets a number."""
    again = tmp_path / "again.json"
    again.write_bytes(path.read_bytes() + b"\n")
    polykv("replay", path, again, "--receipts", tmp_path / "receipts")
    names = sorted(os.listdir(tmp_path / "receipts"))
    assert len(names) == 2
    assert names[1] == names[0].replace(".json", "_2.json")
