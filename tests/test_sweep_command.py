"""`polykv sweep`: one verdict for many heads, a map, files for people and machines; no head is done twice."""

import csv
import json
import re
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from itertools import islice

import pytest
from command_line import assert_one_error_line, polykv, polykv_process
from junitparser import JUnitXml
from support import encoded, fixture_fields
from sweeping import head, pack

from polykv_core import CapturedReplayReceipt, load_fixture
from polykv_core.commands import sweep as command
from polykv_core.packs import fixture_json, pack_bytes
from polykv_core.report import odd
from polykv_core.sweep.ledger import default_folder
from polykv_core.sweep.run import run

KS = "--candidate-ks=2,6"
OPEN = [
    "--min-output-cosine=-1",
    *(f"--max-{name}=1e9" for name in ("output-mse", "kl-divergence", "ppl-delta")),
    "--min-top1-agreement=0",
]
SHUT = [f"--max-kl-divergence={0.0}", "--min-output-cosine=1"]


def swept(*args):
    """A sweep with one worker."""
    return polykv("sweep", *args, KS, "--workers=1")


@pytest.fixture
def heads(tmp_path):
    """A file of two layers of three heads."""
    return pack(tmp_path)


def test_every_head_passes_and_so_does_the_model(heads):
    """Exit 0; a map with the smallest passing k of each head, the verdict in a sentence, and what the cache saves."""
    result = swept(heads, *OPEN)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "tiny"
    assert lines[1].split() == ["H0", "H1", "H2"]
    assert [line.split() for line in lines[2:4]] == [["L0", "2", "2", "2"], ["L1", "2", "2", "2"]]
    assert "PASSED: all 6 heads pass; tightest: " in result.stdout
    assert "6 of 6 pass (100 %) in 2 layers" in result.stdout
    assert "k = 2 is the smallest at which every head passes" in result.stdout
    assert "of fp16" in result.stdout
    assert "of fp32" in result.stdout


def test_one_head_that_fails_fails_the_model_and_is_named(heads):
    """Exit 1; the worst head with its worst gate, and a dash on the map."""
    result = swept(heads, *SHUT)
    assert result.exit_code == 1
    assert "FAILED: 6 of 6 heads fail; worst: " in result.stdout
    assert "heads.safetensors#L" in result.stdout
    assert "none of the candidates lets every head pass" in result.stdout
    assert result.stdout.splitlines()[2].split() == ["L0", "-", "-", "-"]


def test_a_head_without_a_verdict_leaves_the_model_without_one_and_does_not_stop_the_rest(heads, tmp_path):
    """Exit 2, one line of error for it; the others are judged."""
    (tmp_path / "broken.json").write_text("{")
    result = swept(heads, tmp_path / "broken.json", *OPEN)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: broken.json: ")
    assert result.stderr.count("\n") == 1
    assert "NO VERDICT: 1 of 7 heads has none" in result.stdout
    assert [line.split()[:2] for line in result.stdout.splitlines()[2:4]] == [["L0", "2"], ["L1", "2"]]


def test_each_receipt_is_that_of_the_converted_fixture(heads, tmp_path):
    """All of it but the digest of the file, which is another one, and the seal over that."""
    assert swept(heads, *OPEN, "--receipts", tmp_path / "receipts").exit_code == 0
    receipts = [json.loads(path.read_bytes()) for path in sorted((tmp_path / "receipts").iterdir())]
    assert len(receipts) == 6
    for receipt in receipts:
        index = receipt["model_id"][-1]
        layer = receipt["model_id"].split("layer")[1][0]
        alone = tmp_path / "alone.json"
        alone.write_text(fixture_json(load_fixture(heads, f"L{layer}_H{index}")))
        told = polykv("replay", alone, KS, *OPEN, "--receipt", "-")
        expected = json.loads(told.stdout)
        for record in (receipt, expected):
            CapturedReplayReceipt.from_json(json.dumps(record))
            del record["provenance"]["fixture"]["file_digest"], record["provenance"]["receipt_digest"]
        assert receipt == expected


def test_a_sweep_goes_on_where_an_earlier_one_was(heads):
    """Heads that are done are not done again, at other gates either; --again does them."""
    assert "Done before" not in swept(heads, *OPEN).stdout
    kept = {path: path.stat().st_mtime_ns for path in default_folder().glob("*.head")}
    assert len(kept) == 6
    assert "Done before          6 of 6 heads" in swept(heads, *SHUT).stdout
    assert "Done before" not in swept(heads, *OPEN, "--again").stdout
    assert all(path.stat().st_mtime_ns > before for path, before in kept.items())


def test_layers_and_heads_choose(heads):
    """By numbers and ranges."""
    result = swept(heads, *OPEN, "--layers=1", "--heads=0,2-2")
    assert "PASSED: all 2 heads pass" in result.stdout
    assert result.stdout.splitlines()[1].split() == ["H0", "H2"]


def test_a_file_may_name_one_of_its_heads(heads):
    """FILE#HEAD is that head alone."""
    assert "PASSED: all 2 heads pass" in swept(f"{heads}#L0_H1", f"{heads}#L1_H1", *OPEN).stdout


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--layers=7"], "no head is in layer 7; there are layers 0, 1 and heads 0, 1, 2"),
        (["--layers=1-0"], "--layers has '1-0'; expected numbers and ranges such as 0,3-5"),
        (["--heads=x"], "--heads has 'x'; expected numbers and ranges"),
        (["--scheduler=tcp://127.0.0.1:1", "--workers=2"], "give one of them"),
        (["--shared-tokens=auto"], "6 are given; name one as FILE#HEAD"),
    ],
)
def test_what_cannot_be_swept_is_refused_in_one_line(heads, args, reason):
    """Exit 2 with what is wrong."""
    result = polykv("sweep", heads, *args)
    assert_one_error_line(result)
    assert reason in result.stderr


def test_a_head_that_the_file_does_not_have_is_refused(heads):
    """It is named."""
    result = swept(f"{heads}#L9_H9")
    assert_one_error_line(result)
    assert "has no head L9_H9" in result.stderr


def test_reports_hold_every_head(heads, tmp_path):
    """JUnit, Markdown and CSV as `polykv replay` writes them; JSON with the verdict and each head."""
    paths = {name: tmp_path / f"out.{name}" for name in ("junit", "markdown", "csv", "json")}
    result = swept(heads, *OPEN, *(part for name, path in paths.items() for part in (f"--{name}", path)))
    assert result.exit_code == 0
    assert len(list(JUnitXml.fromfile(str(paths["junit"])))) == 6
    assert "PASSED" in paths["markdown"].read_text(encoding="utf-8")
    with paths["csv"].open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 12
    told = json.loads(paths["json"].read_bytes())
    assert (told["schema_version"], told["passed"], told["one_k"]) == ("polykv_sweep_v1", True, 2)
    assert {(one["layer"], one["head"]) for one in told["heads"]} == {(la, he) for la in (0, 1) for he in (0, 1, 2)}
    assert told["cache"]["ratio_to_fp32"] == pytest.approx(2 * told["cache"]["ratio_to_fp16"])
    worst = min(told["heads"], key=lambda one: one["worst_gate"]["share"])
    assert told["worst_head"] == worst["name"]


def test_json_on_standard_output_stands_alone(heads):
    """No table beside it."""
    assert json.loads(swept(heads, *OPEN, "--json", "-").stdout)["heads_total"] == 6


def test_an_output_never_overwrites_the_input(heads):
    """The file stays as it was."""
    before = heads.read_bytes()
    for name in ("json", "junit"):
        assert_one_error_line(swept(heads, f"--{name}", heads))
    assert heads.read_bytes() == before


def test_one_head_at_other_splits(heads, tmp_path):
    """A row for each split, the unbeaten ones marked; more shared tokens take fewer bytes."""
    result = swept(f"{heads}#L0_H1", *OPEN, "--shared-tokens=1,3,5", "--json", tmp_path / "splits.json")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines() if line.split()[:1] in (["1"], ["3"], ["5"])]
    assert [row[0] for row in rows] == ["1", "3", "5"]
    splits = json.loads((tmp_path / "splits.json").read_bytes())["splits"]
    sizes = [split["bytes_per_token"] for split in splits]
    assert sizes == sorted(sizes, reverse=True)
    assert splits[-1]["pareto_optimal"]


def test_a_split_that_leaves_a_tier_empty_is_refused(heads):
    """With what is possible."""
    result = swept(f"{heads}#L0_H1", "--shared-tokens=99")
    assert_one_error_line(result)
    assert "shared_tokens" in result.stderr


def test_fixtures_in_json_are_swept_too(tmp_path):
    """Each is a head, its place in the model told by its model_id."""
    for index in range(2):
        (tmp_path / f"{index}.json").write_text(fixture_json(head(3, index)))
    result = swept(tmp_path / "0.json", tmp_path / "1.json", *OPEN)
    assert result.stdout.splitlines()[2].split() == ["L3", "2", "2"]


def test_without_the_extra_a_scheduler_is_refused_with_what_to_install(heads):
    """In one line."""
    program = "import sys; sys.modules['distributed'] = None; from polykv_core.cli import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", program, "sweep", str(heads), "--scheduler=tcp://127.0.0.1:1"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert run.returncode == 2
    assert run.stderr == "error: --scheduler needs distributed; install it with: pip install 'polykv[cluster]'\n"


def test_the_program_as_a_process_sweeps_with_several_workers(heads):
    """Started as a user starts it, workers included; nothing on standard error."""
    run = polykv_process("sweep", heads, KS, *OPEN, "--workers=2")
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"PASSED: all 6 heads pass" in run.stdout


@pytest.mark.skipif(not find_spec("distributed"), reason="needs the cluster extra: pip install 'polykv[cluster]'")
@pytest.mark.parametrize("address", ["nonsense", "", "http://a:1", "tcp://a", "tcp://a:b"])
def test_a_scheduler_s_address_that_is_none_is_refused_at_once(heads, address):
    """With what one looks like."""
    result = polykv("sweep", heads, f"--scheduler={address}")
    assert_one_error_line(result)
    assert "expected one such as tcp://10.0.0.7:8786" in result.stderr


def test_two_outputs_never_go_to_the_same_place(heads, tmp_path):
    """A file, or standard output."""
    for place in (tmp_path / "out", "-"):
        result = swept(heads, "--json", place, "--junit", place)
        assert_one_error_line(result)
        assert "two outputs go to the same place" in result.stderr


@pytest.mark.parametrize("option", ["--junit=x", "--markdown=x", "--csv=x", "--receipts=x"])
def test_the_splits_of_a_head_are_written_as_json_alone(heads, option):
    """Other outputs are refused, not forgotten."""
    result = swept(f"{heads}#L0_H1", "--shared-tokens=auto", option)
    assert_one_error_line(result)
    assert "--json alone" in result.stderr


@pytest.mark.parametrize("text", ["0x", "3-1", "", "1,,2"])
def test_splits_that_are_no_numbers_are_refused_by_their_own_name(heads, text):
    """With what is expected."""
    result = swept(f"{heads}#L0_H1", f"--shared-tokens={text}")
    assert_one_error_line(result)
    assert "--shared-tokens has" in result.stderr


def test_standard_input_from_a_file_is_swept(heads):
    """The workers have another one, and read the file itself."""
    with heads.open("rb") as file:
        run = polykv_process("sweep", "/dev/stdin", KS, *OPEN, "--workers=1", stdin=file)
    assert run.returncode == 0
    assert b"PASSED: all 6 heads pass" in run.stdout


def test_what_keeps_a_verdict_from_being_the_reference_s_is_told(heads):
    """Options, gates that are off, and the scale that was captured: on the terminal and as JSON."""
    apart = [*OPEN[:-1], "--gate-off=min-top1-agreement", "--attention-scale=0.25"]
    told = " ".join(swept(heads, *apart).stdout.split())
    assert "Gates Output cosine and Top-1 agreement are off and cannot fail" in told
    assert "Not as the reference replays attention_scale 0.25" in told
    assert "6 of 6 heads, such as: The captured output fits an attention scale of 1, but this replay uses 0.25" in told
    whole = json.loads(swept(heads, *apart, "--json=-").stdout)
    assert whole["gates_off"] == ["min_output_cosine", "min_top1_agreement"]
    assert whole["options"]["attention_scale"] == 0.25
    assert whole["findings"][0]["code"] == "other_scale"
    plain = swept(heads, "--max-ppl-delta=3").stdout
    assert "Not as the reference replays" not in plain
    assert "off and cannot fail" not in plain


def test_a_head_with_two_findings_of_a_kind_counts_once(tmp_path):
    """Here the label's probability is at its floor in the exact and in the replayed logits."""
    fields = fixture_fields()
    for query in fields["queries"]:
        query["exact_logits"] = [0.0, 0.0, 0.0, 0.0, -200.0]
        query["label_token"] = 4
    fields["output_projection"][4] = [-500.0 * value for value in fields["queries"][0]["exact_attention_output"]]
    fields["queries"] = fields["queries"][:1]
    (tmp_path / "floor.json").write_bytes(encoded(fields))
    receipt = CapturedReplayReceipt.from_json(
        polykv("replay", tmp_path / "floor.json", KS, "--receipt=-").stdout.encode()
    )
    codes = [finding.code for finding in odd(receipt)]
    assert codes.count("metric_at_floor") == 2
    found = json.loads(swept(tmp_path / "floor.json", "--json=-").stdout)["findings"]
    assert [one["text"].split(":")[0] for one in found if one["code"] == "metric_at_floor"] == ["1 of 1 heads"]


def test_heads_that_each_pass_at_a_k_of_their_own_are_told_from_heads_that_fail(tmp_path):
    """One gains by more rows and the other loses, so that no k suits both."""
    heads = tmp_path / "heads.npz"
    heads.write_bytes(pack_bytes({"L0_H3": head(0, 3), "L0_H7": head(0, 7)}, "npz"))
    result = swept(heads, "--min-output-cosine=0.825", *OPEN[1:])
    assert "PASSED: all 2 heads pass" in result.stdout
    assert "none of the candidates lets every head pass: each passes at a k of its own" in result.stdout


def test_a_cache_that_is_not_coded_is_as_large_as_it_was(heads):
    """It is no times smaller."""
    told = swept(heads, *OPEN, "--pool-codec=exact", "--shell-codec=exact").stdout
    assert re.search(r"2\D{1,3}larger than the (\d+) of fp16, as large as the (\d+) of fp32", told)


def test_an_interrupted_sweep_says_how_far_it_was(heads, monkeypatch):
    """And goes on from there."""

    def interrupted(items, request, **others):
        with closing(run(items, request, **others)) as found:
            yield from islice(found, 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", interrupted)
    result = swept(heads, *OPEN)
    assert result.exit_code == 130
    assert result.stderr.strip() == "stopped: 2 of 6 heads are done; without --again a sweep goes on from there"
    monkeypatch.undo()
    assert re.search(r"Done before +[2-6] of 6 heads", swept(heads, *OPEN).stdout)
