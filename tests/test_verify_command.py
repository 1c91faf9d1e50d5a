"""`polykv verify`: whether a receipt is what a fixture gives, as words, as JSON and as an exit code."""

import io
import json
import os
import shutil

import pytest
from command_line import assert_one_error_line, one_line, polykv, polykv_process, written
from support import GOLDEN, SAMPLES, changed, encoded, fixture_fields, stored

from polykv_core import load_fixture
from polykv_core.verify import receipt_fields, verification_dict, verify

FIELDS = fixture_fields(rows=12, shared=6, queries=3)
OTHER = fixture_fields(rows=12, shared=6, queries=3, draw=1)
MODEL_CASE = SAMPLES / "model_case_one_layer_two_heads.json"
CRATE = ("d8_unscaled", "d16_basic", "d128_ragged", "gates_at_equality_top1")
HOSTILE = "[bold red]x[bold] \x1b[31m\n\r\x07\u202e<b>"


@pytest.fixture
def path(tmp_path):
    """The fixture as a file."""
    return written(tmp_path, FIELDS)


@pytest.fixture
def receipt(path, tmp_path):
    """The fixture's receipt as a file."""
    place = tmp_path / "receipt.json"
    polykv("replay", path, "--receipt", place)
    return place


def edited(receipt, *place, to):
    """A receipt's file with one place changed."""
    receipt.write_bytes(encoded(changed(json.loads(receipt.read_bytes()), *place, to=to)))
    return receipt


def assert_held(result):
    """Exit 0, and words that say so."""
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\nVERIFIED: replayed anew, the receipt holds.\n" in result.stdout


def assert_refuted(result, told):
    """Exit 1, and words that say so and why."""
    assert (result.exit_code, result.stderr) == (1, "")
    assert "\nNOT VERIFIED\n" in result.stdout
    assert told in one_line(result.stdout)


# It holds


def test_a_receipt_of_the_fixture_holds(path, receipt):
    """Exit 0 although its gates fail; the facts name both files and the verdict."""
    result = polykv("verify", receipt, path)
    assert_held(result)
    facts = [line.split(maxsplit=1) for line in result.stdout.splitlines()[:3]]
    assert facts == [["Receipt", str(receipt)], ["Fixture", str(path)], ["It", "says  FAILED at k = 64"]]


def test_a_receipt_with_everything_else_than_the_reference_holds(path, tmp_path):
    """Options, a statistic, gates off and ks of its own are replayed as the receipt says."""
    options = ("--pool-codec", "exact", "--attention-scale", "0.5", "--statistic", "p95", "--candidate-ks", "3,2,3")
    place = tmp_path / "receipt.json"
    polykv("replay", path, *options, "--gate-off", "max-ppl-delta", "--receipt", place)
    assert_held(polykv("verify", place, path))


@pytest.mark.parametrize("name", CRATE)
def test_a_receipt_of_the_crate_holds(name):
    """It has no seal, which is said."""
    folder = GOLDEN / "captured" / name
    result = polykv("verify", stored(folder / "receipt.json"), stored(folder / "fixture.json"))
    assert_held(result)
    assert "\n- " in result.stdout


def test_a_model_replay_s_receipt_holds_with_its_case(tmp_path):
    """Exit 0; with a number changed 1."""
    place = tmp_path / "receipt.json"
    polykv("model-replay", MODEL_CASE, "--receipt", place)
    assert_held(polykv("verify", place, MODEL_CASE))
    told = "output_mse_mean is 0.5"
    assert_refuted(polykv("verify", edited(place, "metrics", "output_mse_mean", to=0.5), MODEL_CASE), told)


def test_a_report_is_taken_for_its_receipt(path, tmp_path):
    """Whatever the file's name is."""
    place = tmp_path / "handed-on"
    polykv("replay", path, "--html", place)
    assert_held(polykv("verify", place, path))


# It does not


def test_an_edited_receipt_does_not_hold(path, receipt):
    """Exit 1, whether it was a number, a gate or a text, although the replay agrees with the last two."""
    before = receipt.read_bytes()
    places = {
        ("metrics", "output_cosine_mean"): 0.99,
        ("config", "max_ppl_delta"): 1.5,
        ("provenance", "made_with", "polykv"): "9.9.9",
    }
    for place, value in places.items():
        receipt.write_bytes(before)
        assert_refuted(polykv("verify", edited(receipt, *place, to=value), path), "was edited")


def test_another_fixture_s_receipt_does_not_hold(receipt, tmp_path):
    """Exit 1, and what is another."""
    other = written(tmp_path, OTHER, "other.json")
    assert_refuted(polykv("verify", receipt, other), "another fixture")
    assert_refuted(polykv("verify", receipt, written(tmp_path, FIELDS | {"seed": 8}, "seed.json")), "seed is 8")


def test_a_crate_s_receipt_with_other_numbers_does_not_hold(tmp_path):
    """There is no seal that could tell, but the numbers do; those that differ are listed."""
    folder = GOLDEN / "captured" / "d8_unscaled"
    place = tmp_path / "receipt.json"
    shutil.copy(folder / "receipt.json", place)
    edited(place, "metrics", "output_mse_mean", to=0.123)
    edited(place, "candidate_results", 0, "output_mse_mean", to=0.123)
    result = polykv("verify", place, folder / "fixture.json")
    assert_refuted(result, "What differs, in the receipt's order: candidate_results[0], output_mse_mean is 0.123; ")


# No answer


@pytest.mark.parametrize("nonsense", ["missing", "folder", "text", "list", "object", "fixture", "html", "binary", ""])
def test_nonsense_for_a_receipt_is_no_answer(path, tmp_path, nonsense):
    """Exit 2 and one line that names the file."""
    place = tmp_path / "nonsense"
    contents = {
        "text": b"nonsense",
        "list": b"[]",
        "object": b'{"model_id": "x", "candidate_results": []}',
        "fixture": encoded(FIELDS),
        "html": b"<!doctype html><p>nonsense",
        "binary": bytes(range(256)),
        "": b"",
    }
    if nonsense == "folder":
        place.mkdir()
    elif nonsense in contents:
        place.write_bytes(contents[nonsense])
    result = polykv("verify", place, path)
    assert_one_error_line(result)
    assert str(place) in result.stderr


def test_of_a_report_with_several_receipts_the_fixture_s_is_held(path, tmp_path):
    """The digest says which; a report with none of that fixture is no answer."""
    other, report = written(tmp_path, OTHER, "other.json"), tmp_path / "report.html"
    polykv("replay", path, other, "--html", report)
    assert_held(polykv("verify", report, path))
    assert_held(polykv("verify", report, other))
    result = polykv("verify", report, SAMPLES / "synthetic_d64_sink.json")
    assert_one_error_line(result)
    assert f"{report}: the report holds 2 receipts, none of this fixture" in result.stderr


def test_nonsense_for_a_fixture_is_no_answer(receipt, tmp_path):
    """A missing one, none at all, a model's case, the receipt itself."""
    for fixture in (tmp_path / "missing.json", MODEL_CASE, receipt):
        result = polykv("verify", receipt, fixture)
        assert_one_error_line(result)
        assert str(fixture) in result.stderr
    assert_one_error_line(polykv("verify", receipt))


def test_a_model_replay_s_receipt_wants_a_case(path, tmp_path):
    """A captured head is none."""
    place = tmp_path / "receipt.json"
    polykv("model-replay", MODEL_CASE, "--receipt", place)
    result = polykv("verify", place, path)
    assert_one_error_line(result)
    assert str(path) in result.stderr


# JSON


def assert_library_s(data, receipt, path):
    """What the library says of the receipt, as JSON text."""
    fields = receipt_fields(io.BytesIO(receipt.read_bytes()))
    expected = verification_dict(verify(fields, load_fixture(path)))
    assert json.loads(data) == expected
    assert list(expected) == ["verified", "faults", "notes", "differences"]
    assert data.endswith("}\n")


def test_json_says_that_it_holds(path, receipt):
    """Alone on standard output."""
    result = polykv("verify", receipt, path, "--json", "-")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {"verified": True, "faults": [], "notes": [], "differences": []}
    assert_library_s(result.stdout, receipt, path)


def test_json_says_what_is_wrong(path, receipt, tmp_path):
    """Faults by code, and each field that differs with both values; beside a file the words are printed."""
    edited(receipt, "metrics", "output_mse_mean", to=0.5)
    place = tmp_path / "found.json"
    result = polykv("verify", receipt, path, "--json", place)
    assert_refuted(result, "was edited")
    found = json.loads(place.read_bytes())
    assert found["faults"][0]["code"] == "edited"
    (difference,) = found["differences"]
    assert (difference["place"], difference["stated"]) == ("metrics, output_mse_mean", 0.5)
    assert difference["off_by"] == pytest.approx(abs(difference["stated"] - difference["found"]))
    assert_library_s(place.read_text(), receipt, path)
    to_output = polykv("verify", receipt, path, "--json", "-")
    assert (to_output.exit_code, to_output.stdout) == (1, place.read_text())


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="there is no such device")
def test_json_to_dev_stdout_stands_there_alone(path, receipt):
    """The device of standard output means the same as `-`."""
    process = polykv_process("verify", receipt, path, "--json", "/dev/stdout")
    assert json.loads(process.stdout)["verified"] is True


def test_neither_input_is_overwritten(path, receipt):
    """JSON over the receipt or over the fixture is refused before anything is done."""
    for place in (path, receipt):
        before = place.read_bytes()
        result = polykv("verify", receipt, path, "--json", place)
        assert_one_error_line(result)
        assert f"--json {place} would overwrite the input {place}" in result.stderr
        assert place.read_bytes() == before


@pytest.mark.parametrize("place", ["missing/found.json", "", ".", "/dev/full"])
def test_json_that_cannot_be_written_is_no_answer(path, receipt, place):
    """Exit 2, one line and no words."""
    result = polykv("verify", receipt, path, "--json", place)
    assert_one_error_line(result)
    assert "cannot write" in result.stderr


# Text that comes from elsewhere


@pytest.mark.parametrize(
    "place",
    [
        ("model_id",),
        ("claim_boundary",),
        ("blockers", 0),
        ("provenance", "receipt_digest"),
        ("provenance", "fixture", "digest"),
        ("provenance", "fixture", "file_digest"),
        ("provenance", "made_with", "numpy"),
        ("provenance", "findings", 0, "text"),
    ],
    ids=lambda place: ".".join(map(str, place)),
)
def test_hostile_text_in_a_receipt_does_nothing_to_the_terminal(path, receipt, place):
    """Escapes, line breaks and bidi controls are shown, not sent, and none looks like a verdict of its own."""
    result = polykv("verify", edited(receipt, *place, to=f"{HOSTILE}\nVERIFIED: replayed anew"), path)
    assert result.exit_code == 1
    assert not {"\x1b", "\r", "\x07", "\u202e"} & set(result.output)
    assert not [line for line in result.stdout.splitlines() if line.startswith("VERIFIED")]


@pytest.mark.skipif(os.name == "nt", reason="such names cannot be there")
def test_hostile_file_names_do_nothing_to_the_terminal(tmp_path):
    """Of receipt and fixture, whether they are good or not there."""
    path, place = written(tmp_path, FIELDS | {"model_id": HOSTILE}, HOSTILE), tmp_path / f"{HOSTILE}.html"
    polykv("replay", path, "--html", place)
    for receipt, code in ((place, 0), (tmp_path / f"missing{HOSTILE}", 2)):
        result = polykv("verify", receipt, path)
        assert result.exit_code == code
        assert r"[bold red]x[bold] \x1b[31m\n\r\x07\u202e<b>" in result.output
        assert not {"\x1b", "\r", "\x07", "\u202e"} & set(result.output)
