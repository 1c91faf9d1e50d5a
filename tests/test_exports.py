"""Exports: tables that a spreadsheet reads without harm, a command line that a shell reads right, safe file names."""

import csv
import io
import json
import re
import shlex
import sys
import zipfile
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support import encoded, fixture_fields

from polykv_core import (
    METRICS,
    THRESHOLDS,
    CapturedReplayConfig,
    Measurement,
    ModelReplayConfig,
    ModelReplayReceipt,
    ReplayOptions,
    candidates_csv,
    cli,
    command_line,
    curve_csv,
    explain_command_line,
    file_stem,
    judge,
    load_fixture,
    measure,
    receipt_stem,
    receipts_zip,
    run_captured_model_replay,
)
from polykv_core.gates import GATES

FIXTURE = load_fixture(encoded(fixture_fields()))
MEASUREMENT = measure(FIXTURE, range(1, 7))
CONFIG = CapturedReplayConfig((6, 2, 99), min_output_cosine=0.9)


def table(text):
    """A CSV's rows as dicts."""
    return list(csv.DictReader(io.StringIO(text)))


def test_the_candidates_table_is_the_receipt_s():
    """A row for each candidate in the order listed, every metric to the last digit, with verdict and blockers."""
    receipt = judge(MEASUREMENT, CONFIG)
    rows, results = table(candidates_csv([receipt])), receipt.candidate_results
    assert [row["candidate_k"] for row in rows] == ["6", "2", "99"]
    for row, result in zip(rows, results, strict=True):
        assert {metric.name: float(row[metric.name]) for metric in METRICS} == {
            metric.name: getattr(result, metric.name) for metric in METRICS
        }
        assert row["passed"] == str(result.passed)
        assert row["blockers"] == "; ".join(result.blockers)
        assert int(row["decoded_values_total"]) == result.decoded_values_total


def test_the_curve_table_has_every_measured_k():
    """A row for each k, without a verdict."""
    rows = table(curve_csv(MEASUREMENT))
    assert [int(row["candidate_k"]) for row in rows] == list(range(1, 7))
    assert [float(row["output_mse_mean"]) for row in rows] == MEASUREMENT.metrics["output_mse_mean"].tolist()
    assert "passed" not in rows[0]


def test_the_command_that_explains_names_file_k_and_options():
    """A file name that begins with a dash is no option, and what is the reference's is left out."""
    options = ReplayOptions(attention_scale=0.25, shell_codec="exact")
    command = explain_command_line("-my head.json", 8, options)
    assert shlex.split(command) == [
        *("polykv", "explain", "./-my head.json", "--candidate-k=8"),
        *("--attention-scale=0.25", "--shell-codec=exact"),
    ]
    assert explain_command_line("a.json", 8) == "polykv explain a.json --candidate-k=8"


def test_tables_say_of_which_fixture_they_are_and_how_it_was_replayed():
    """Model, the digest of the fixture's content, the options that are not the reference's, and the statistic."""
    options = ReplayOptions(attention_scale=0.25, shell_codec="exact")
    apart = replace(MEASUREMENT, options=options).by("worst")
    told = ["model_id", "fixture_digest", "options", "statistic"]
    for text in (curve_csv(apart), candidates_csv([judge(apart, replace(CONFIG, statistic="worst"))])):
        rows = table(text)
        assert list(rows[0])[: len(told)] == told
        assert {tuple(row[name] for name in told) for row in rows} == {
            ("made-on-the-spot", FIXTURE.digest, "attention_scale 0.25; shell_codec exact", "worst")
        }
    for text in (curve_csv(MEASUREMENT), candidates_csv([judge(MEASUREMENT, CONFIG)])):
        assert {(row["options"], row["statistic"]) for row in table(text)} == {("", "mean")}


def test_the_candidates_of_several_receipts_stand_in_one_table():
    """One head line, and the receipts' rows one after the other, each told apart by what it is of."""
    other = replace(CONFIG, candidate_ks=(3,))
    receipts = [judge(MEASUREMENT, CONFIG), judge(replace(MEASUREMENT, model_id="other"), other)]
    both = table(candidates_csv(receipts))
    assert both == [row for receipt in receipts for row in table(candidates_csv([receipt]))]
    assert [(row["model_id"], row["candidate_k"]) for row in both] == [
        *(("made-on-the-spot", k) for k in ("6", "2", "99")),
        ("other", "3"),
    ]


def test_a_receipt_without_provenance_has_a_row_without_a_digest():
    """As the Rust crate writes it: nobody knows of which fixture it is."""
    receipt = replace(judge(MEASUREMENT, CONFIG), evidence={})
    assert {row["fixture_digest"] for row in table(candidates_csv([receipt]))} == {""}


def test_tables_of_a_model_replay_have_no_model_id():
    """Nor fixture and options; the rest is as for a captured head."""
    measurement = Measurement(MEASUREMENT.candidate_ks, MEASUREMENT.queries)
    judged = ModelReplayReceipt.of(measurement, ModelReplayConfig(**CONFIG.to_dict()))
    for ours, theirs in (
        (curve_csv(measurement), curve_csv(MEASUREMENT)),
        (candidates_csv([judged]), candidates_csv([judge(MEASUREMENT, CONFIG)])),
    ):
        assert table(ours) == [
            {name: cell for name, cell in row.items() if name not in ("model_id", "fixture_digest", "options")}
            for row in table(theirs)
        ]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_name_that_looks_like_a_formula_is_quoted(start):
    """A spreadsheet would run it; negative numbers stay numbers."""
    named = replace(MEASUREMENT, model_id=f"{start}HYPERLINK(1)")
    for text in (curve_csv(named), candidates_csv([judge(named, CONFIG)])):
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        assert {row["model_id"] for row in rows} == {f"'{start}HYPERLINK(1)"}
        assert all(float(row["ppl_proxy_delta"]) == float(row["ppl_proxy_delta"].lstrip("'")) for row in rows)


def test_a_name_with_commas_quotes_and_newlines_stays_one_cell():
    """As CSV has it."""
    name = 'a,"b"\nc'
    assert {row["model_id"] for row in table(curve_csv(replace(MEASUREMENT, model_id=name)))} == {name}


@given(
    fixture=st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1),
    gates=st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 5),
)
def test_the_command_line_says_the_same_config(fixture, gates):
    """Read by a shell it gives the path as one word, and every threshold to the last digit."""
    config = CapturedReplayConfig((6, 2), *gates)
    words = shlex.split(command_line(fixture, config, "out dir/receipt.json"))
    assert words[:2] == ["polykv", "replay"]
    assert words[2] in (fixture, f"./{fixture}")
    assert not words[2].startswith("-")
    off = [word for word in words if word.startswith("--gate-off=")]
    options = dict(word.removeprefix("--").split("=", 1) for word in words[3:] if word not in off)
    assert options.pop("receipt") == "out dir/receipt.json"
    assert options.pop("candidate-ks") == "6,2"
    told = {name.replace("-", "_"): float(value) for name, value in options.items()}
    told |= {gate.threshold: gate.off for gate in GATES if f"--gate-off={gate.option}" in off}
    assert told == dict(zip(THRESHOLDS, gates, strict=True))


LARGEST = sys.float_info.max
# Out of order, repeated and beyond the rows; awkward digits; every gate off.
CONFIGS = [
    CapturedReplayConfig((4, 2, 4, 2**64 - 1)),
    CapturedReplayConfig((2, 6), 0.1 + 0.2, 1e-300, 5e-324, 123456.789e10, 1 / 3),
    CapturedReplayConfig((3,), -1.0, LARGEST, LARGEST, LARGEST, 0.0),
]


@pytest.fixture(params=["mine.json", "-x.json", "a b'c\"$(d);&e.json", "\u6f22 \u00fc.json"])
def fixture_name(request, tmp_path, monkeypatch):
    """A fixture in the working folder, under a name that a shell may stumble over."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / request.param).write_bytes(encoded(fixture_fields()))
    return request.param


@pytest.mark.parametrize("config", CONFIGS, ids=["ks", "digits", "off"])
def test_the_command_line_writes_the_receipt_byte_for_byte(fixture_name, config, tmp_path):
    """Split as a shell splits it and run, it gives the receipt that the library gives."""
    words = shlex.split(command_line(fixture_name, config, "receipt.json"))
    receipt = run_captured_model_replay(load_fixture(tmp_path / fixture_name), config)
    assert CliRunner().invoke(cli.main, words[1:]).exit_code == (0 if receipt.passed else 1)
    assert (tmp_path / "receipt.json").read_bytes() == receipt.to_json().encode()


@pytest.mark.parametrize("config", CONFIGS, ids=["ks", "digits", "off"])
def test_an_exported_config_gives_the_same_receipt(config, tmp_path):
    """Written as JSON and handed to the command line by --config."""
    fixture, written = tmp_path / "fixture.json", tmp_path / "config.json"
    fixture.write_bytes(encoded(fixture_fields()))
    written.write_text(json.dumps(config.to_dict(), indent=2), encoding="utf-8")
    options = ["--config", str(written), "--receipt", "-"]
    printed = CliRunner().invoke(cli.main, ["replay", str(fixture), *options]).stdout_bytes
    assert printed == run_captured_model_replay(load_fixture(fixture), config).to_json().encode()


@given(model_id=st.text(max_size=200), passed=st.booleans())
def test_a_file_name_is_safe_everywhere(model_id, passed):
    """Letters, digits, dots, dashes; no leading dot or dash; short; verdict and digest in it."""
    stem = file_stem(model_id, passed, "sha256:0123456789abcdef")
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", stem)
    assert stem.endswith(f"_{'passed' if passed else 'failed'}_0123456789ab")
    assert len(stem) <= 100


@pytest.mark.parametrize("device", ["con", "NUL", "com1", "LPT9", "aux.json", "prn.a.b"])
def test_a_device_s_name_is_no_file_name(device):
    """Windows opens the device, whatever the ending."""
    assert file_stem(device, True, "sha256:0").startswith(f"fixture-{device}_")


@pytest.mark.parametrize("nothing", ["", "...", "---", "\N{SNOWMAN}", "/"])
def test_a_name_of_which_nothing_is_left_is_replaced(nothing):
    """There is always a name."""
    assert file_stem(nothing, False, "sha256:0") == "fixture_failed_0"


@pytest.mark.parametrize("passed", [True, False])
def test_a_receipt_s_files_are_named_by_its_fixture(passed):
    """Model, verdict and the fixture's digest; of another receipt of that fixture with options, said in the name."""
    config = CapturedReplayConfig((6,), **({} if passed else {"min_output_cosine": 2.0}))
    receipt = judge(MEASUREMENT, config)
    stem = f"made-on-the-spot_{'passed' if passed else 'failed'}_{FIXTURE.digest[7:19]}"
    assert receipt.passed == passed
    assert receipt_stem(receipt) == stem
    apart = judge(replace(MEASUREMENT, options=ReplayOptions(query_coding="exact")), config)
    assert receipt_stem(apart) == f"{stem}_with_options"


def test_an_archive_holds_every_receipt_byte_for_byte():
    """In their order; two of one name are both there, and the same receipts make the same archive."""
    receipts = [judge(MEASUREMENT, CONFIG), judge(MEASUREMENT, CONFIG), judge(MEASUREMENT, CapturedReplayConfig((2,)))]
    data = receipts_zip(receipts)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        assert names == sorted(set(names))
        assert [archive.read(name) for name in names] == [receipt.to_json().encode() for receipt in receipts]
    assert receipts_zip(receipts) == data
