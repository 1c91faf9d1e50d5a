"""`polykv replay --baseline`: gates relative to a run that was kept, or to a receipt."""

import json
from dataclasses import replace

import pytest
from command_line import assert_one_error_line, polykv, written
from support import GOLDEN, fixture_fields

from polykv_core import GATES, CapturedReplayConfig, load_fixture, run_captured_model_replay
from polykv_core.commands import replay as command

FIELDS = fixture_fields(rows=12, shared=6, queries=3)
OTHER = fixture_fields(rows=12, shared=6, queries=3, draw=1) | {"model_id": "other"}
NAMES = [gate.threshold.replace("_", "-") for gate in GATES]
KL = ("--worse-by", "max-kl-divergence=10")
OFF = [word for name in NAMES if name != "max-kl-divergence" for word in ("--gate-off", name)]


@pytest.fixture
def path(tmp_path):
    """The fixture as a file."""
    return written(tmp_path, FIELDS)


@pytest.fixture
def baseline(path, tmp_path):
    """A run of the fixture at k = 8 and 10, kept as run 1, pinned, and as a receipt and a report."""
    outputs = ("--receipt", tmp_path / "base.json", "--html", tmp_path / "base.html")
    assert polykv("replay", path, "--candidate-ks", "8,10", *outputs, "--keep").exit_code == 1
    assert polykv("history", "pin", 1).exit_code == 0
    return json.loads((tmp_path / "base.json").read_text())


def receipt_of(*args):
    """The receipt that a replay prints."""
    result = polykv("replay", *args, "--receipt", "-")
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_the_gate_lies_where_it_should(path, baseline):
    """So many per cent worse than the baseline at its selected k, on the gate's failing side; others stay."""
    relative = ("--worse-by", "max-kl-divergence=10", "--worse-by", "min-output-cosine=20%")
    config = receipt_of(path, "--baseline", 1, *relative, "--max-output-mse", 3)["config"]
    held = baseline["metrics"]
    assert config["max_kl_divergence"] == pytest.approx(held["kl_divergence_mean"] * 1.1, rel=1e-12)
    assert config["min_output_cosine"] == pytest.approx(held["output_cosine_mean"] * 0.8, rel=1e-12)
    assert (config["max_output_mse"], config["max_ppl_delta"]) == (3.0, 1.0)


@pytest.mark.parametrize("name", ["1", "pinned", "base.json", "base.html", "./base.json"])
def test_a_baseline_has_several_names(path, baseline, tmp_path, monkeypatch, name):
    """Its number, pinned, the file of its receipt, or of its report: each gives the same receipt."""
    monkeypatch.chdir(tmp_path)
    found = receipt_of(path, "--baseline", name, *KL)
    held = baseline["metrics"]["kl_divergence_mean"]
    assert found["config"]["max_kl_divergence"] == pytest.approx(held * 1.1, rel=1e-12)
    assert found == receipt_of(path, "--baseline", tmp_path / "base.json", *KL)


def test_as_good_as_the_baseline_passes(path, baseline):
    """Equality passes: 0 per cent worse in every gate, against the run itself, at its k."""
    relative = [word for name in NAMES for word in ("--worse-by", f"{name}=0")]
    result = polykv("replay", path, "--candidate-ks", baseline["selected_candidate_k"], "--baseline", 1, *relative)
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(("percent", "code"), [(0, 1), (1000, 0)])
@pytest.mark.usefixtures("baseline")
def test_worse_than_the_baseline_fails_beyond_its_per_cents(path, percent, code):
    """Another pool codec, which is worse here."""
    options = ("--pool-codec", "fib_k4_n2", "--across", "pool_codec", *OFF)
    result = polykv("replay", path, *options, "--baseline", 1, "--worse-by", f"max-kl-divergence={percent}")
    assert (result.exit_code, result.stderr) == (code, "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected GATE=PERCENT with one of min-output-cosine, "),
        ("10", "expected GATE=PERCENT"),
        ("max-kl-divergence", "expected GATE=PERCENT"),
        ("max-kl-divergence=", "expected GATE=PERCENT"),
        ("max-kl-divergence=ten", "expected GATE=PERCENT"),
        ("=10", "expected GATE=PERCENT"),
        ("kl=10", "expected GATE=PERCENT"),
        ("max_kl_divergence=10", "expected GATE=PERCENT"),
        ("max-kl-divergence=-1", "a per cent is a number of at least 0"),
        ("max-kl-divergence=nan", "a per cent is a number of at least 0"),
        ("max-kl-divergence=inf", "a per cent is a number of at least 0"),
        ("max-kl-divergence=1e999", "a per cent is a number of at least 0"),
    ],
)
def test_what_is_no_relative_gate_is_refused(path, monkeypatch, text, told):
    """Before anything is measured; the line says what was given and what was expected."""
    monkeypatch.setattr(command, "measure", None)
    result = polykv("replay", path, "--baseline", 1, "--worse-by", text)
    assert_one_error_line(result)
    assert f"--worse-by {text!r}; {told}" in result.stderr


@pytest.mark.parametrize("other", [("--max-kl-divergence", 1), ("--gate-off", "max-kl-divergence")])
def test_a_gate_is_not_both_relative_and_something_else(path, other):
    """At a threshold, or off."""
    result = polykv("replay", path, "--baseline", 1, *KL, *other)
    assert_one_error_line(result)
    assert "--max-kl-divergence and --worse-by max-kl-divergence contradict each other" in result.stderr


@pytest.mark.parametrize("half", [KL, ("--baseline", "1")])
def test_baseline_and_relative_gates_go_together(path, half):
    """One without the other does nothing, which nobody wants."""
    result = polykv("replay", path, *half)
    assert_one_error_line(result)
    assert "--baseline and --worse-by go together" in result.stderr


@pytest.mark.usefixtures("baseline")
def test_another_fixture_s_baseline_is_refused(tmp_path):
    """The line names the fixture and what differs; nothing is written."""
    other = written(tmp_path, OTHER, "other.json")
    result = polykv("replay", other, "--baseline", 1, *KL, "--receipt", tmp_path / "receipt.json")
    assert_one_error_line(result)
    assert f"error: {other}: the runs are not comparable: the fixture's digest is sha256:" in result.stderr
    assert not (tmp_path / "receipt.json").exists()


@pytest.mark.usefixtures("baseline")
def test_among_several_fixtures_only_the_other_one_s_baseline_is_refused(path, tmp_path):
    """It is no verdict, and the fixture of the baseline is judged all the same."""
    other = written(tmp_path, OTHER, "other.json")
    result = polykv("replay", other, path, "--baseline", 1, *KL)
    assert result.exit_code == 2
    assert [line.split()[1] for line in result.stdout.splitlines()[1:3]] == ["none", "FAIL"]


def test_pinned_means_each_fixture_s_own_baseline(path, baseline, tmp_path):
    """Each is held against the run of its own that is pinned."""
    other = written(tmp_path, OTHER, "other.json")
    polykv("replay", other, "--keep")
    polykv("history", "pin", 2)
    polykv("replay", other, path, "--baseline", "pinned", *KL, "--receipts", tmp_path / "receipts")
    found = [json.loads(place.read_text()) for place in (tmp_path / "receipts").iterdir()]
    gates = {one["model_id"]: one["config"]["max_kl_divergence"] for one in found}
    held = json.loads(polykv("history", "show", 2, "--receipt", "-").stdout)["metrics"]["kl_divergence_mean"]
    assert gates["other"] == pytest.approx(held * 1.1, rel=1e-12)
    assert gates["made-on-the-spot"] == pytest.approx(baseline["metrics"]["kl_divergence_mean"] * 1.1, rel=1e-12)


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("attention_scale", ("--attention-scale", "0.5")),
        ("query_coding", ("--query-coding", "exact")),
        ("pool_codec", ("--pool-codec", "exact")),
        ("shell_codec", ("--shell-codec", "exact")),
        ("statistic", ("--statistic", "worst")),
    ],
)
@pytest.mark.usefixtures("baseline")
def test_other_options_are_compared_only_on_purpose(path, field, option):
    """Refused with the field's name and the way out; with --across they are."""
    refused = polykv("replay", path, *option, "--baseline", 1, *KL)
    assert_one_error_line(refused)
    assert f"the runs are not comparable: {field} is " in refused.stderr
    assert f"across {field}" in refused.stderr
    allowed = polykv("replay", path, *option, "--baseline", 1, *KL, "--across", field)
    assert allowed.exit_code in (0, 1)
    assert allowed.stderr == ""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("2", "run 2 is not in "),
        ("missing.json", "cannot read missing.json: "),
        (GOLDEN / "captured" / "d8_unscaled" / "receipt.json", "has no field 'queries'"),
    ],
)
@pytest.mark.usefixtures("baseline")
def test_a_baseline_that_is_none_is_no_verdict(path, name, told):
    """No such run, no such file, a receipt that does not say what it was measured of."""
    result = polykv("replay", path, "--baseline", name, *KL)
    assert_one_error_line(result)
    assert told in result.stderr


@pytest.mark.usefixtures("baseline")
def test_a_fixture_without_a_pinned_run_is_told_how_to_pin_one(path):
    """The pin was taken away."""
    polykv("history", "pin", 1, "--off")
    result = polykv("replay", path, "--baseline", "pinned", *KL)
    assert_one_error_line(result)
    assert "polykv history pin RUN" in result.stderr


def test_a_baseline_without_a_history_is_told_how_to_begin_one(path, history):
    """And none is made."""
    for name in ("1", "pinned"):
        result = polykv("replay", path, "--baseline", name, *KL)
        assert_one_error_line(result)
        assert f"there is no history at {history}; `polykv replay FIXTURE --keep` begins one" in result.stderr
    assert not history.exists()


def test_an_edited_receipt_is_no_baseline(path, baseline, tmp_path):
    """Its numbers mean nothing: refused before they become a gate, also where two runs are compared."""
    honest = written(tmp_path, baseline, "honest.json")
    metrics = baseline["metrics"] | {"kl_divergence_mean": 9.0}
    edited = written(tmp_path, baseline | {"metrics": metrics}, "edited.json")
    result = polykv("replay", path, "--baseline", edited, "--worse-by", "max-kl-divergence=10")
    assert_one_error_line(result)
    assert "the receipt was edited after it was sealed" in result.stderr
    assert_one_error_line(polykv("history", "compare", honest, edited))


def test_a_relative_gate_that_lets_everything_pass_is_refused(path, tmp_path):
    """Some per cent below an agreement of 0 is 0, which switches the gate off: that was not asked for."""
    result = polykv("replay", path, "--baseline", no_agreement(path, tmp_path), "--worse-by", "min-top1-agreement=10")
    assert_one_error_line(result)
    assert "Top-1 agreement 10 % worse than the baseline's 0 lets everything pass" in result.stderr


def no_agreement(path, tmp_path):
    """A receipt of the fixture whose selected candidate never agrees."""
    receipt = run_captured_model_replay(load_fixture(path), CapturedReplayConfig((2,)))
    metrics = replace(receipt.metrics, top1_agreement=0.0)
    fields = json.loads(replace(receipt, metrics=metrics).to_json())
    return written(tmp_path, fields, "none.json")


def test_a_gate_is_relative_once(path):
    """Two per cents for one gate contradict each other."""
    twice = ("--worse-by", "max-kl-divergence=10", "--worse-by", "max-kl-divergence=1000")
    result = polykv("replay", path, "--baseline", 1, *twice)
    assert_one_error_line(result)
    assert "max-kl-divergence is given twice" in result.stderr


def test_what_gates_are_relative_to_is_told(path, baseline, tmp_path):
    """Above the table and in the summary, for a threshold of many digits explains nothing."""
    summary, held = tmp_path / "summary.md", written(tmp_path, baseline, "baseline.json")
    command = ("--baseline", held, "--worse-by", "max-kl-divergence=10", "--markdown", summary)
    result = polykv("replay", path, *command)
    told = f"at most max-kl-divergence 10 % worse than in {held}"
    assert told in result.stdout
    assert "Relative gates: at most" in summary.read_text()
