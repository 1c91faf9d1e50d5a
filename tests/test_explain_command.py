"""`polykv explain`: where the fidelity goes, as text and as JSON; and what `polykv inspect` says of a real capture."""

import json
import math
import os

import pytest
from command_line import assert_one_error_line, one_line, polykv, written
from support import SAMPLES, changed, encoded, fixture_fields

from polykv_core import (
    DEFAULT_CANDIDATE_KS,
    CapturedReplayConfig,
    ReplayOptions,
    explain,
    explanation_json,
    load_fixture,
    reasons,
    run_captured_model_replay,
    what_would_help,
)
from polykv_core.explain import ALONE, CONTROLS, STAGES
from polykv_core.tables import explanation_text

FIELDS = fixture_fields(rows=20, shared=12, queries=3)
FIXTURE = load_fixture(encoded(FIELDS))
# With this scale no default k passes; without it the first does.
SCALED = ("--attention-scale", "0.01")
KEYS = [
    "schema_version",
    "model_id",
    "fixture_digest",
    "candidate_k",
    "options",
    "reasons",
    "findings",
    "scale",
    "stages",
    "alone",
    "controls",
    "changes",
    "scores",
    "queries",
    "intervals",
    "statistics",
]
HEADLINES = (
    "Where the fidelity goes at k = ",
    "The loss ladder: ",
    "One step at a time, ",
    "Controls: ",
    "What would help: ",
    "What is odd about ",
    "====== Perplexity statistics",
)


@pytest.fixture
def path(tmp_path):
    """The fixture as a file."""
    return written(tmp_path, FIELDS)


def sections(text):
    """The text between one headline and the next, in the order in which they must come; facts first."""
    found = []
    for headline in HEADLINES:
        before, _, text = text.partition(headline)
        found.append(before)
    return [*found, text]


def rows_named(section):
    """The first column of a table below its headline and its head; stages are single words."""
    _, _, *rows = section.strip().splitlines()
    return [row.split()[0] for row in rows]


def library(k, **options):
    """What the library explains, and what it says would help."""
    explanation = explain(FIXTURE, k, ReplayOptions(**options))
    return explanation, what_would_help(FIXTURE, explanation)


# Text


def test_the_parts_come_in_one_order(path):
    """Reasons, ladder, single steps, controls, changes, findings, statistics: each headline once."""
    result = polykv("explain", path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [result.stdout.count(headline) for headline in HEADLINES] == [1] * len(HEADLINES)
    assert all(section.strip() for section in sections(result.stdout))


def test_the_facts_say_which_fixture_it_is(path):
    """File, model, and how many rows each tier has."""
    facts = sections(polykv("explain", path).stdout)[0]
    assert [line.split(maxsplit=1)[0] for line in facts.splitlines() if line] == ["Fixture", "Model", "Queries"]
    for text in (str(path), "made-on-the-spot", "3, each with 12 rows in the pool and 8 in the shell"):
        assert text in facts


def test_every_reason_is_printed_and_numbered(path):
    """All that the library gives, in its order; here there are some."""
    explanation, _ = library(4)
    expected = [f"{number}. {reason}" for number, reason in enumerate(reasons(explanation), start=1)]
    told = one_line(sections(polykv("explain", path, "--candidate-k", 4).stdout)[1])
    assert len(expected) >= 2
    assert told == f"4 {' '.join(expected)}"


def test_the_ladder_has_every_stage_in_order(path):
    """All five, each with its cosine, and the last is the replay's own."""
    _, _, ladder, *_ = sections(polykv("explain", path, "--candidate-k", 4).stdout)
    assert rows_named(ladder) == list(STAGES)
    assert STAGES == ("projection", "recomputed", "coded_keys", "coded_values", "selected")
    replayed = run_captured_model_replay(FIXTURE, CapturedReplayConfig((4,))).metrics
    last = ladder.strip().splitlines()[-1].split()
    for shown, name in zip(last[1:4], ("output_cosine_mean", "output_mse_mean", "kl_divergence_mean"), strict=True):
        assert float(shown) == pytest.approx(getattr(replayed, name), rel=1e-4)


def test_single_steps_and_controls_are_named(path):
    """Keys, values, selection, both; the fitted scale, random rows, the last rows."""
    _, _, _, alone, controls, *_ = sections(polykv("explain", path).stdout)
    assert rows_named(alone) == list(ALONE)
    assert rows_named(controls) == list(CONTROLS)


def test_every_change_is_printed(path):
    """Those of the library in its order, the replay as it was first."""
    _, changes = library(4)
    told = sections(polykv("explain", path, "--candidate-k", 4).stdout)[5].strip().splitlines()[2:]
    assert [line.split("  ")[0] for line in told] == [change.name for change in changes]
    assert changes[0].name == "as replayed"
    assert "exact query" in [change.name for change in changes]


def test_every_finding_is_printed(path):
    """Those of the library; here, that three queries are few."""
    explanation, _ = library(8)
    told = one_line(sections(polykv("explain", path).stdout)[6])
    assert explanation.findings
    assert told.endswith(" ".join(f"- {finding.text}" for finding in explanation.findings))


def test_nothing_odd_is_said_as_such():
    """Where there is no finding: a capture of twelve queries through a cache that loses nothing."""
    fixture = load_fixture(encoded(fixture_fields(rows=20, shared=12, queries=12, draw=1)))
    explanation = explain(fixture, 20, ReplayOptions(pool_codec="exact", shell_codec="exact"))
    assert explanation.findings == ()
    assert sections(explanation_text(explanation, ()))[6].strip().splitlines()[1:] == ["- Nothing."]


def test_the_statistics_come_last(path):
    """All three blocks, and that errors are withheld of so few queries."""
    text = polykv("explain", path).stdout
    for title in ("Perplexity statistics", "KL divergence statistics", "Token probability statistics"):
        assert f"====== {title}" in text
    assert text.splitlines()[-1].startswith("standard errors are withheld: 3 queries are too few")


def test_an_explanation_is_no_verdict(path):
    """It exits with 0 where the replay fails its gates, and prints neither PASSED nor FAILED."""
    assert polykv("replay", path, *SCALED).exit_code == 1
    result = polykv("explain", path, *SCALED)
    assert result.exit_code == 0
    assert "PASSED" not in result.stdout
    assert "FAIL" not in result.stdout


def test_text_keeps_to_a_terminal_s_width(tmp_path, monkeypatch):
    """Prose is wrapped below 80 columns, and no line ends in blanks."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path, FIELDS)
    text = polykv("explain", "fixture.json").stdout
    _, reasons_told, *_, odd, statistics = sections(text)
    for prose in (reasons_told, odd, statistics):
        assert max(map(len, prose.splitlines())) < 80
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_text_from_a_fixture_is_inert(tmp_path):
    """Markup stays as typed; escapes, line breaks and bidi controls are shown, not sent."""
    fields = FIELDS | {"model_id": "[bold]m[/bold] \x1b[31m\r\n\u202eend"}
    result = polykv("explain", written(tmp_path, fields))
    assert r"[bold]m[/bold] \x1b[31m\r\n\u202eend" in result.stdout
    assert not {"\x1b", "\r", "\u202e"} & set(result.output)


# The k


@pytest.mark.parametrize(
    ("args", "options", "k"),
    [((), {}, 8), (SCALED, {"attention_scale": 0.01}, DEFAULT_CANDIDATE_KS[-1])],
    ids=["reference", "scaled"],
)
def test_without_a_k_it_is_the_selected_one_of_the_default_ks(path, args, options, k):
    """Of a replay with the same options by the default gates; where none passes, the last."""
    replayed = run_captured_model_replay(FIXTURE, CapturedReplayConfig(DEFAULT_CANDIDATE_KS), ReplayOptions(**options))
    assert replayed.selected_candidate_k == k
    assert f"Where the fidelity goes at k = {k}\n" in polykv("explain", path, *args).stdout


@pytest.mark.parametrize("k", [1, 4, 20, 999])
def test_a_k_may_be_asked_for(path, k):
    """Any from 1 up; beyond the rows it is kept as asked, and a finding says that every row is read."""
    record = json.loads(polykv("explain", path, "--candidate-k", k, "--json", "-").stdout)
    assert record["candidate_k"] == k
    assert {stage["metrics"]["candidate_k"] for stage in record["stages"]} == {k}
    assert ("k_beyond_rows" in [finding["code"] for finding in record["findings"]]) == (k > 20)


@pytest.mark.parametrize("k", [0, -1, "x", "1.5", "", 2**64, "9" * 5000])
def test_a_k_that_means_nothing_is_one_line(path, k):
    """Exit 2; nothing is explained."""
    assert_one_error_line(polykv("explain", path, "--candidate-k", k))


# JSON


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((), {}),
        (("--attention-scale", "inverse_sqrt_head_dim"), {"attention_scale": "inverse_sqrt_head_dim"}),
        (
            ("--query-coding", "exact", "--pool-codec", "fib_k4_n64", "--shell-codec", "exact"),
            {"query_coding": "exact", "pool_codec": "fib_k4_n64", "shell_codec": "exact"},
        ),
    ],
    ids=["reference", "scaled", "codecs"],
)
def test_the_json_is_the_library_s(tmp_path, path, args, options):
    """The same bytes on standard output, which has nothing else, and in a file, beside which the text is printed."""
    expected = explanation_json(*library(4, **options)).encode()
    place = tmp_path / "explanation.json"
    shared = ("explain", path, "--candidate-k", 4, *args)
    to_output, to_file = polykv(*shared, "--json", "-"), polykv(*shared, "--json", place)
    assert to_output.stdout_bytes == place.read_bytes() == expected
    assert (to_output.exit_code, to_output.stderr, to_file.exit_code) == (0, "", 0)
    assert HEADLINES[1] in to_file.stdout


def test_the_json_has_its_fields():
    """In one order, with every stage and every query; the numbers of the last stage are the replay's."""
    record = json.loads(explanation_json(*library(4)))
    assert list(record) == KEYS
    assert record["schema_version"] == "polykv_explanation_v1"
    assert (record["model_id"], record["fixture_digest"]) == (FIXTURE.model_id, FIXTURE.digest)
    for group, names in (("stages", STAGES), ("alone", ALONE), ("controls", CONTROLS)):
        assert [stage["name"] for stage in record[group]] == list(names)
        assert {tuple(stage) for stage in record[group]} == {("name", "metrics", "added")}
    assert [query["query"] for query in record["queries"]] == [0, 1, 2]
    assert {tuple(change) for change in record["changes"]} == {("name", "options", "metrics")}
    replayed = run_captured_model_replay(FIXTURE, CapturedReplayConfig((4,))).to_dict()["candidate_results"][0]
    verdict = {"passed", "blockers"}
    assert record["stages"][-1]["metrics"] == {name: replayed[name] for name in replayed if name not in verdict}


@pytest.mark.parametrize("args", [(), ("--attention-scale", "0.5", "--pool-codec", "exact")], ids=["none", "some"])
def test_the_json_says_which_options_were_replayed(path, args):
    """What differs from the reference, and the scale that was used."""
    record = json.loads(polykv("explain", path, *args, "--json", "-").stdout)
    assert record["options"] == ({"attention_scale": 0.5, "pool_codec": "exact"} if args else {})
    assert record["scale"]["used"] == (0.5 if args else 1.0)
    assert record["changes"][0]["options"] == record["options"]


def test_a_number_that_is_not_finite_is_null(tmp_path):
    """A shell value that overflows when decoded leaves no NaN in the JSON, and NaN in the text."""
    fields = changed(FIELDS, "queries", 1, "values", 19, to=[1e25] * 8)
    path = written(tmp_path, fields)
    result = polykv("explain", path, "--candidate-k", 20, "--json", "-")

    def refuse(literal):
        raise AssertionError(literal)

    record = json.loads(result.stdout, parse_constant=refuse)
    assert record["stages"][-1]["metrics"]["output_cosine_mean"] is None
    assert math.isfinite(record["stages"][0]["metrics"]["output_cosine_mean"])
    assert "NaN" in polykv("explain", path, "--candidate-k", 20).stdout


def test_the_json_keeps_letters(tmp_path):
    """As UTF-8, with a newline at the end, and without touching what was meant for a terminal."""
    fields = FIELDS | {"model_id": "Kopf \N{LATIN SMALL LETTER U WITH DIAERESIS}"}
    data = polykv("explain", written(tmp_path, fields), "--json", "-").stdout_bytes
    assert data.endswith(b"}\n")
    assert '"model_id": "Kopf \N{LATIN SMALL LETTER U WITH DIAERESIS}"'.encode() in data


def test_the_input_is_not_overwritten(tmp_path, path):
    """JSON over the fixture itself, by whatever name, is refused before anything is done."""
    before = path.read_bytes()
    (tmp_path / "link").symlink_to(path)
    for place in (path, tmp_path / "link"):
        result = polykv("explain", path, "--json", place)
        assert_one_error_line(result)
        assert f"--json {place} would overwrite the input {path}" in result.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("place", ["missing/explanation.json", "", "."])
def test_json_that_cannot_be_written_is_one_line(path, monkeypatch, place):
    """Missing folder, no name, a folder: exit 2, no text, nothing made."""
    monkeypatch.chdir(path.parent)
    assert_one_error_line(polykv("explain", path, "--json", place))
    assert os.listdir(path.parent) == [path.name]


# Bad input


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (changed(FIELDS, "queries", 1, "keys", 2, 3, to=1e39), "query 1, keys row 2, column 3 is 1e+39"),
        (changed(FIELDS, "queries", 2, "values", 3, to=[0.0] * 8), "query 2, values row 3 is all zeros"),
        (fixture_fields(head_dim=6), "head_dim is 6; fib_k4_n32 needs a multiple of 4"),
    ],
    ids=["number", "zero row", "head"],
)
def test_a_faulty_fixture_is_one_line(tmp_path, fields, told):
    """Exit 2, and a line with file and place; JSON is not begun."""
    path = written(tmp_path, fields)
    for args in ((), ("--candidate-k", 2), ("--json", "-"), ("--json", tmp_path / "explanation.json")):
        result = polykv("explain", path, *args)
        assert_one_error_line(result)
        assert result.stderr.startswith(f"error: {path}: {told}")
    assert not (tmp_path / "explanation.json").exists()


@pytest.mark.parametrize("args", [(), ("missing.json",), (SAMPLES,), (SAMPLES / "README.md",), ("a\0b",)])
def test_what_is_no_fixture_is_one_line(args):
    """None given, none there, a folder, another file, a name that cannot be."""
    assert_one_error_line(polykv("explain", *args))


def test_warnings_go_to_standard_error(tmp_path):
    """An odd but accepted fixture is told of, without touching the JSON on standard output."""
    path = written(tmp_path, FIELDS | {"schema_version": "other"})
    result = polykv("explain", path, "--json", "-")
    assert result.stderr.startswith(f"warning: {path}: schema_version is 'other'")
    assert list(json.loads(result.stdout)) == KEYS


def test_a_head_that_only_other_codecs_hold_is_explained_with_those(tmp_path):
    """What the reference's codecs refuse is no fault then; changes back to them are left out."""
    path = written(tmp_path, fixture_fields(head_dim=6))
    result = polykv("explain", path, "--pool-codec", "exact", "--json", "-")
    assert result.exit_code == 0
    names = [change["name"] for change in json.loads(result.stdout)["changes"]]
    assert "exact shell" in names
    assert "pool with 256 codewords" not in names


# A real capture


def test_inspect_names_the_floor_of_a_model_s_logits():
    """Logits of the whole model are 3.294 nats from what the head's output projects to; no cache mends that."""
    result = polykv("inspect", SAMPLES / "smollm2_l0_h0_model.json.gz")
    assert (result.exit_code, result.stderr) == (0, "")
    told = one_line(result.stdout)
    assert "The projection of the captured output is 3.294 nats from the captured logits" in told
    assert "Capture as logits the projection of the exact output." in told


def test_inspect_says_nothing_of_a_floor_where_there_is_none(path):
    """A capture whose logits are its output's projection."""
    result = polykv("inspect", path)
    assert result.exit_code == 0
    assert "nats" not in result.stdout
