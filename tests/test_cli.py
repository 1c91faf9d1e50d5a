"""The command line: what it prints, where, and how it exits."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from command_line import assert_one_error_line, polykv, polykv_process, written
from support import ROOT, SAMPLES, captured_cases, fixture_fields

from polykv_core import (
    DEFAULT_CANDIDATE_KS,
    GATES,
    CapturedReplayConfig,
    __version__,
    load_fixture,
    load_model_case,
    run_captured_model_replay,
    run_model_case,
)
from polykv_core.commands import replay as command
from polykv_core.commands.shared import file_and_head
from polykv_core.tables import number

D16 = SAMPLES / "synthetic_d16_basic.json"
MODEL_CASE = SAMPLES / "model_case_one_layer_two_heads.json"
REPLAYABLE = [case for case in captured_cases() if min(case.config["candidate_ks"]) > 0]


# Exit codes


def test_a_replay_that_passes_exits_with_0():
    """With a threshold that lets k = 64 pass, the words and the exit code say so."""
    result = polykv("replay", D16, "--max-ppl-delta", 10)
    assert result.exit_code == 0
    assert "PASSED at k = 64\n" in result.stdout


def test_a_replay_that_fails_exits_with_1():
    """With the default gates no k passes, and the words and the exit code say so."""
    result = polykv("replay", D16)
    assert result.exit_code == 1
    assert f"FAILED: no k passes; last listed k = {DEFAULT_CANDIDATE_KS[-1]}\n" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize("case", REPLAYABLE, ids=lambda case: case.name)
def test_the_exit_code_is_the_reference_s_verdict(case):
    """Every case of the reference exits as the reference judged it, and its receipt says the same."""
    result = polykv("replay", case.input, "--config", case.folder / "config.json", "--receipt", "-")
    assert result.exit_code == (0 if case.receipt["passed"] else 1)
    assert json.loads(result.stdout)["selected_candidate_k"] == case.receipt["selected_candidate_k"]


def test_a_model_replay_reports_its_case():
    """A model case is replayed as the library does it; its receipt alone goes to standard output."""
    result = polykv("model-replay", MODEL_CASE, "--receipt", "-")
    assert result.exit_code == 0
    assert result.stdout == run_model_case(load_model_case(MODEL_CASE)).to_json()
    assert "PASSED at k = 8\n" in polykv("model-replay", MODEL_CASE).stdout


OFF = ("min-output-cosine", "max-output-mse", "max-kl-divergence", "max-ppl-delta", "min-top1-agreement")


@pytest.mark.parametrize("off", [OFF[:1] + OFF[3:4], OFF], ids=["two", "all"])
def test_gates_that_are_off_are_said_in_table_and_receipt(tmp_path, off):
    """Their columns and rows say so, the receipt has the value that cannot fail, and names them."""
    receipt = tmp_path / "receipt.json"
    options = [word for name in off for word in ("--gate-off", name)]
    result = polykv("replay", D16, *options, "--receipt", receipt)
    assert result.exit_code == 0
    candidates, gates = result.stdout.split("\nGates at k = ")
    assert len(re.findall(r"\boff\b", candidates)) == len(off)
    assert len(re.findall(r"none +off\n", gates)) == len(off)
    fields = json.loads(receipt.read_text())
    names = [name.replace("-", "_") for name in off]
    assert fields["provenance"]["gates_off"] == names
    values = {gate.threshold: gate.off for gate in GATES}
    assert {name: fields["config"][name] for name in names} == {name: values[name] for name in names}


def test_an_unknown_gate_cannot_be_off():
    """--gate-off without such a gate is refused with the names there are."""
    refused = polykv("replay", D16, "--gate-off", "kl")
    assert_one_error_line(refused)
    assert "'max-kl-divergence'" in refused.stderr


def test_an_interrupt_exits_with_130(monkeypatch):
    """Ctrl-C in the middle of a replay leaves no traceback and the shell's code for it."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "measure", interrupted)
    result = polykv("replay", D16)
    assert result.exit_code == 130
    assert result.output.strip() == ""


@pytest.mark.parametrize("fault", [RuntimeError("a\nb"), MemoryError(), OSError(5, "Input/output error")], ids=repr)
def test_a_fault_of_the_program_is_one_line_too(monkeypatch, fault):
    """Not even an exception nobody thought of shows a traceback."""

    def fail(*_, **__):
        raise fault

    monkeypatch.setattr(command, "measure", fail)
    assert_one_error_line(polykv("replay", D16))


# Bad input and usage


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--nonsense",),
        ("rep",),
        ("replay",),
        ("replay", D16, "--nonsense"),
        ("replay", D16, "--candidate-ks", "8,x"),
        ("replay", D16, "--candidate-ks", ""),
        ("replay", D16, "--candidate-ks", "9" * 5000),
        ("replay", D16, "--candidate-ks", "0"),
        ("replay", D16, "--min-output-cosine", "high"),
        ("replay", D16, "--min-output-cosine", "nan"),
        ("replay", D16, "--max-output-mse", "inf"),
        ("replay", D16, "--config", "missing.json"),
        ("replay", D16, "--config", D16),
        ("replay", "missing.json"),
        ("replay", "a\0b"),
        ("replay", SAMPLES),
        ("replay", SAMPLES / "README.md"),
        ("replay", MODEL_CASE),
        ("replay", "new\nline \x1b[31m.json"),
        ("replay", "missing.json", "neither.json", "--receipt", "-"),
        ("model-replay", D16),
        ("model-replay", MODEL_CASE, "twice"),
        ("model-replay", "missing.json"),
        ("inspect", "missing.json"),
    ],
    ids=lambda args: " ".join(str(arg)[-20:] for arg in args).encode("unicode_escape").decode() or "nothing",
)
def test_bad_input_and_usage_are_one_line(args):
    """Whatever is wrong with the call or a file: exit 2 and one line that begins with `error: `."""
    assert_one_error_line(polykv(*args))


def test_a_fault_in_a_file_names_file_and_place(tmp_path):
    """The line says which file, and where in it."""
    fields = fixture_fields()
    fields["queries"][1]["keys"][2][3] = 1e39
    path = written(tmp_path, fields)
    result = polykv("replay", path)
    assert_one_error_line(result)
    assert f"{path}: query 1, keys row 2, column 3" in result.stderr


def test_rows_the_codecs_cannot_hold_name_the_file(tmp_path):
    """A fault found only when the rows are to be encoded is told like any other."""
    fields = fixture_fields()
    fields["queries"][0]["keys"][0] = [0.0] * 8
    path = written(tmp_path, fields)
    result = polykv("replay", path)
    assert_one_error_line(result)
    assert f"{path}: query 0, keys row 0" in result.stderr


# Configs


def test_without_a_config_the_defaults_hold():
    """Default ks and the dataclass's thresholds."""
    receipt = json.loads(polykv("replay", D16, "--receipt", "-").stdout)
    assert receipt["config"] == CapturedReplayConfig(DEFAULT_CANDIDATE_KS).to_dict()


def test_options_override_the_config(tmp_path):
    """What an option gives is taken from it, the rest from the file, and what the file lacks from the defaults."""
    config = written(tmp_path, {"candidate_ks": [4, 2], "max_ppl_delta": 7.0, "max_output_mse": 3.0}, "config.json")
    args = ("--config", config, "--max-output-mse", 2, "--min-top1-agreement", 0.5, "--receipt", "-")
    receipt = json.loads(polykv("replay", D16, *args).stdout)
    expected = CapturedReplayConfig((4, 2), max_ppl_delta=7.0, max_output_mse=2.0, min_top1_agreement=0.5)
    assert receipt["config"] == expected.to_dict()


def test_a_config_without_ks_is_told_so(tmp_path):
    """A config must say its ks; the line names the file and the field."""
    config = written(tmp_path, {"max_ppl_delta": 7.0}, "config.json")
    result = polykv("replay", D16, "--config", config)
    assert_one_error_line(result)
    assert f"{config}: the config has no field 'candidate_ks'" in result.stderr


def test_every_gate_and_the_ks_have_an_option():
    """Each threshold of the config can be given on the command line and arrives in the receipt."""
    options = {gate.threshold: 0.5 + index for index, gate in enumerate(GATES)}
    args = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", value)]
    receipt = json.loads(polykv("replay", D16, "--candidate-ks", "3, 5", *args, "--receipt", "-").stdout)
    assert receipt["config"] == {"candidate_ks": [3, 5], **options}


# Receipts


def test_standard_output_and_a_file_get_the_same_bytes(tmp_path):
    """Both are exactly what the library writes."""
    path = tmp_path / "receipt.json"
    to_file = polykv("replay", D16, "--receipt", path)
    to_output = polykv("replay", D16, "--receipt", "-")
    expected = run_captured_model_replay(load_fixture(D16), CapturedReplayConfig(DEFAULT_CANDIDATE_KS))
    assert path.read_bytes() == to_output.stdout_bytes == expected.to_json().encode("utf-8")
    assert f"Receipt  {path}\n" in to_file.stdout


@pytest.mark.parametrize("place", ["missing/receipt.json", "", "."])
def test_a_receipt_that_cannot_be_written_is_no_verdict(tmp_path, monkeypatch, place):
    """Missing folder, no name, a folder: exit 2, one line, no table, nothing made."""
    monkeypatch.chdir(tmp_path)
    assert_one_error_line(polykv("replay", D16, "--receipt", place))
    assert os.listdir(tmp_path) == []


def test_a_failed_write_keeps_the_receipt_that_was_there(tmp_path, monkeypatch):
    """A full disk costs neither the old receipt nor leaves half a new one."""

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "receipt.json"
    path.write_text("old")
    result = polykv("replay", D16, "--receipt", path)
    assert_one_error_line(result)
    assert "No space left on device" in result.stderr
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["receipt.json"]


def test_the_input_is_not_overwritten(tmp_path):
    """A receipt path that is the fixture itself, by whatever name, is refused."""
    path = written(tmp_path, fixture_fields())
    before = path.read_bytes()
    (tmp_path / "link").symlink_to(path)
    assert_one_error_line(polykv("replay", path, "--receipt", tmp_path / "link"))
    assert path.read_bytes() == before


def overflowing(tmp_path):
    """A fixture whose replayed output is not finite: a shell value that overflows when decoded."""
    fields = fixture_fields()
    for query in fields["queries"]:
        query["values"][-1] = [1e25] * 8
    return written(tmp_path, fields)


def test_a_receipt_with_a_number_that_is_not_finite_is_not_written(tmp_path):
    """Exit 2 and one line that names the number; no file comes to be."""
    path = tmp_path / "receipt.json"
    result = polykv("replay", overflowing(tmp_path), "--receipt", path)
    assert_one_error_line(result)
    assert "output_cosine_mean is nan" in result.stderr
    assert not path.exists()


def test_a_number_that_is_not_finite_fails_its_gate(tmp_path):
    """Where no receipt is to be written that is a verdict: exit 1, and the table shows it."""
    result = polykv("replay", overflowing(tmp_path))
    assert result.exit_code == 1
    assert "!NaN" in result.stdout


def test_a_receipt_that_cannot_be_written_does_not_stop_the_others(tmp_path):
    """The fixture has no verdict then; the others of the same call are judged and written."""
    path = overflowing(tmp_path)
    result = polykv("replay", path, D16, "--receipts", tmp_path / "receipts")
    assert len(list((tmp_path / "receipts").iterdir())) == 1
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {path}: ")
    assert "output_cosine_mean is nan" in result.stderr
    assert [line.split()[1] for line in result.stdout.splitlines()[1:3]] == ["none", "FAIL"]


# What the terminal sees


def test_the_table_marks_what_fails_and_says_units_and_directions():
    """Failing values carry a mark, each column its threshold with direction, KL its unit; no colour is needed."""
    lines = polykv("replay", D16).stdout.splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line.strip()[:1].isdigit()}
    assert rows["8"] == ["8", "!0.67132", "0.16446", "0.091172", "!5.6569", "0.25000", "9.0000x", "FAIL"]
    assert rows["64"][1] == "0.75590"
    assert "(nats)" in lines[8]
    assert " ".join(lines[9].split()) == "k >= 0.75 <= 0.25 <= 0.5 <= 1 >= 0.25 reduction Verdict"


def test_the_gate_table_gives_margins_on_the_passing_side():
    """A passing gate has a positive margin, a failing one a negative one, each with its verdict in words."""
    lines = polykv("replay", D16).stdout.splitlines()
    gates = lines[lines.index("Gates at k = 64") + 1 :]
    assert gates[1].split() == ["Output", "cosine", "0.7558980", "at", "least", "0.75", "+0.0058980", "pass"]
    assert gates[4].split() == ["|PPL", "delta|", "4.749606", "at", "most", "1.0", "-3.7496", "FAIL"]


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.json*")), ids=lambda path: path.name)
def test_every_sample_reads_at_80_columns(sample, monkeypatch):
    """No line of any sample's report is longer than 80 characters, and none ends in blanks."""
    monkeypatch.chdir(ROOT)
    command = "model-replay" if sample.name.startswith("model_case") else "replay"
    lines = polykv(command, sample.relative_to(ROOT)).stdout.splitlines()
    assert len(lines) > 15
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1.0000"),
        (0.000123456, "0.00012346"),
        (0.0000123456, "1.2346e-05"),
        (-219.3710494, "-219.37"),
        (12345.678, "12346"),
        (1e20, "1.0000e+20"),
        (float("nan"), "NaN"),
        (float("-inf"), "-inf"),
    ],
)
def test_numbers_keep_five_digits(value, text):
    """Five significant digits whatever the size, scientific below 1e-4."""
    assert number(value) == text


@pytest.mark.parametrize("command", ["replay", "inspect"])
def test_text_from_a_fixture_is_inert(tmp_path, command):
    """Markup stays as typed; escapes, line breaks and bidi controls are shown, not sent."""
    fields = fixture_fields() | {
        "model_id": "[bold]m[/bold] :smile: \x1b[31m\r\n\u202e\u2028end",
        "schema_version": "\x1b]0;x\x07",
    }
    result = polykv(command, written(tmp_path, fields))
    assert "Model" in result.stdout
    assert r"[bold]m[/bold] :smile: \x1b[31m\r\n\u202e\u2028end" in result.stdout
    assert not {"\x1b", "\r", "\u202e", "\u2028", "\x07"} & set(result.output)


def test_warnings_go_to_standard_error(tmp_path):
    """An odd but accepted fixture is told of, without touching the receipt on standard output."""
    path = written(tmp_path, fixture_fields() | {"schema_version": "other"})
    result = polykv("replay", path, "--receipt", "-")
    assert result.stderr.startswith(f"warning: {path}: schema_version is 'other'")
    assert json.loads(result.stdout)["model_id"] == "made-on-the-spot"


def test_inspect_says_what_a_fixture_holds():
    """Model, shapes, ragged rows, seed and digest of a captured head, its scale, and what is odd about it."""
    path = SAMPLES / "smollm2_l15_h2_local.json.gz"
    result = polykv("inspect", path)
    assert result.exit_code == 0
    assert result.stderr == ""
    for text in (
        "SmolLM2-135M-Instruct-Q4_1:layer15:head2",
        "head_dim    64\n",
        "256 rows of output_projection",
        "4, each with 48 rows in the pool and 9 to 24 (ragged) in the shell",
        "1544",
        load_fixture(path).digest,
        "0.125 = 1/sqrt(64) fits the captured output best",
        "- With 4 queries top-1 agreement moves in steps of 0.25",
    ):
        assert text in result.stdout


def test_inspect_warns_of_a_fixture_that_cannot_be_replayed(tmp_path):
    """It is shown all the same; the warning says why a replay would be refused."""
    result = polykv("inspect", written(tmp_path, fixture_fields(head_dim=6)))
    assert result.exit_code == 0
    assert "warning: cannot be replayed: head_dim is 6" in result.stderr
    assert "head_dim" in result.stdout


# As a process


def test_the_process_prints_what_the_function_prints():
    """`python -m polykv_core.cli` is the same program, piped, whatever the width of the terminal is said to be."""
    process = polykv_process("replay", D16, env={"COLUMNS": "40"})
    assert (process.returncode, process.stderr) == (1, b"")
    assert process.stdout == polykv("replay", D16).stdout_bytes


def test_a_reader_who_went_away_ends_the_program_quietly():
    """A closed pipe makes no error text, and an exit code that is no verdict."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as stdout:
        process = polykv_process("replay", D16, capture_output=False, stdout=stdout, stderr=subprocess.PIPE)
    assert (process.returncode, process.stderr) == (141, b"")


@pytest.mark.parametrize("receipt", [(), ("--receipt", "-")], ids=["table", "receipt"])
def test_an_output_that_cannot_be_written_is_no_verdict(receipt):
    """Exit 2 and one line, not a verdict nobody saw (and nothing more when the interpreter shuts down)."""
    with Path(os.devnull).open("rb") as unwritable:
        process = polykv_process(
            "replay", D16, *receipt, capture_output=False, stdout=unwritable, stderr=subprocess.PIPE
        )
    assert process.returncode == 2
    assert process.stderr.startswith(b"error: cannot write to standard output: ")
    assert process.stderr.count(b"\n") == 1


def test_a_receipt_to_dev_stdout_stands_there_alone(tmp_path):
    """The device of standard output means the same as `-`, also where that is a file."""
    expected = polykv("replay", D16, "--receipt", "-").stdout_bytes
    assert polykv_process("replay", D16, "--receipt", "/dev/stdout").stdout == expected
    with (tmp_path / "out").open("wb") as out:
        polykv_process("replay", D16, "--receipt", "/dev/stdout", capture_output=False, stdout=out)
    assert (tmp_path / "out").read_bytes() == expected


def test_an_encoding_that_lacks_a_letter_gets_an_escape(tmp_path):
    """A terminal that knows only ASCII sees the letter's number, and no traceback."""
    path = written(tmp_path, fixture_fields() | {"model_id": "modèle"})
    process = polykv_process("replay", path, env={"PYTHONIOENCODING": "ascii"})
    assert b"mod\\xe8le" in process.stdout
    assert process.stderr == b""


def test_starting_the_program_imports_nothing_heavy():
    """Dashboard, plotting, tables and scipy.stats stay out until they are needed."""
    heavy = ("streamlit", "plotly", "pandas", "scipy.stats", "rich")
    code = f"import sys, polykv_core.cli; print([name for name in {heavy} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    assert process.stdout == b"[]\n"


def test_version_and_help():
    """Both exit with 0; the help names the commands."""
    version, helped = polykv("--version"), polykv("--help")
    assert (version.exit_code, helped.exit_code) == (0, 0)
    assert __version__ in version.stdout
    assert all(
        name in helped.stdout
        for name in ("replay", "model-replay", "explain", "inspect", "verify", "history", "dashboard")
    )


def test_an_interrupt_while_the_program_starts_ends_it_quietly():
    """Ctrl-C while numpy is still being imported: exit 130 and not a word."""
    program = """
        import sys
        from importlib.abc import MetaPathFinder

        class Interrupt(MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name == "polykv_core.cli":
                    raise KeyboardInterrupt

        sys.meta_path.insert(0, Interrupt())
        import polykv
        polykv.main()
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_a_help_text_whose_reader_went_away_is_no_failed_gate():
    """As for every other output the exit status is 141."""
    with subprocess.Popen(
        [sys.executable, "-m", "polykv", "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        process.stdout.close()
        assert process.wait() == 141


@pytest.mark.parametrize(
    ("path", "file", "head"),
    [
        ("a.npz", "a.npz", None),
        ("a.npz#L0_H0", "a.npz", "L0_H0"),
        ("a.npz#L0#H0", "a.npz", "L0#H0"),
        ("b#c.npz", "b#c.npz", None),
        ("b#c.npz#L0#H0", "b#c.npz", "L0#H0"),
        ("none.npz#L0_H0", "none.npz", "L0_H0"),
        ("none.npz", "none.npz", None),
    ],
)
def test_file_and_head_are_parted_at_the_file_that_is_there(tmp_path, monkeypatch, path, file, head):
    """Either name may have a # itself."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.npz", "b#c.npz"):
        (tmp_path / name).touch()
    assert file_and_head(path) == (file, head)
