"""Verification: a receipt that holds is told from one that was edited, resealed, or made of something else."""

import gzip
import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support import (
    captured_cases,
    changed,
    encoded,
    fixture_fields,
    leaves,
    model_cases,
    refused_with,
    without_k_zero,
)

from polykv_core import (
    CapturedReplayConfig,
    CapturedReplayReceipt,
    CodecError,
    ReceiptError,
    ReplayOptions,
    Versions,
    load_fixture,
    load_model_case,
    receipt_fields,
    run_captured_model_replay,
    run_model_case,
    verify,
)
from polykv_core.canonical import canonical
from polykv_core.provenance import SEAL, sealed
from polykv_core.verify import is_model_replay, verification_dict, verify_model

FIXTURE_FIELDS = fixture_fields(rows=9, shared=5, queries=3)
DATA = encoded(FIXTURE_FIELDS)
FIXTURE = load_fixture(DATA)
# No k passes, so there are blockers; the last is selected.
CONFIG = CapturedReplayConfig((2, 12), min_output_cosine=0.99, max_output_mse=1e-4)
FIELDS = json.loads(run_captured_model_replay(FIXTURE, CONFIG).to_json())
SEAL_PATH = ("provenance", SEAL)

odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["\ud800", 10**399, [], {}, [[1, 2], [3, 4]], "exact", "turbo_12bit", "fib_k8_n16", "worst"]),
)


def held(fields, fixture=FIXTURE):
    """A receipt's check, with the receipt as a file has it."""
    return verify(receipt_fields(json.dumps(fields)), fixture)


def codes(findings):
    """Their names for programs."""
    return [finding.code for finding in findings]


def value_at(value, path):
    """What stands at a path."""
    for step in path:
        value = value[step]
    return value


def test_an_untouched_receipt_verifies():
    """Without a note, and whatever the number of its ks."""
    found = held(FIELDS)
    assert found.verified
    assert (found.faults, found.notes, found.differences) == ((), (), ())


@pytest.mark.parametrize("statistic", ["mean", "p95", "worst"])
@pytest.mark.parametrize("options", [{}, {"attention_scale": 0.3, "query_coding": "exact", "shell_codec": "exact"}])
def test_a_receipt_verifies_with_the_options_and_statistic_that_it_tells(options, statistic):
    """They stand in it; nobody has to know them."""
    config = replace(CONFIG, statistic=statistic)
    fields = json.loads(run_captured_model_replay(FIXTURE, config, ReplayOptions(**options)).to_json())
    found = held(fields)
    assert (found.verified, found.notes) == (True, ())


def test_each_query_is_told_before_it_is_replayed():
    """As in measure: whoever waits sees how far it is, and may stop it."""
    told = []
    verify(FIELDS, FIXTURE, lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


# Edits. What a replay gives is named by its place, sealed anew or not.

QUERIES = ("provenance", "queries", "candidates", 1)
EDITS = {
    "metric": (("candidate_results", 0, "kl_divergence_mean"), 1e-3, "candidate_results[0], kl_divergence_mean"),
    "selected metric": (("metrics", "output_cosine_mean"), 0.995, "metrics, output_cosine_mean"),
    "count": (("metrics", "decoded_values_total"), 26, "metrics, decoded_values_total"),
    "verdict": (("passed",), True, "passed"),
    "candidate's verdict": (("candidate_results", 1, "passed"), True, "candidate_results[1], passed"),
    "blocker": (("blockers", 0), "output_cosine_mean 0.9899 < 0.9900", "blockers[0]"),
    "blockers": (("candidate_results", 0, "blockers"), [], "candidate_results[0], blockers"),
    "claim": (("claim_boundary",), "the model keeps its perplexity", "claim_boundary"),
    "schema": (("schema_version",), "poly_kv_captured_model_replay_v1_with_options", "schema_version"),
    "finding's code": (("provenance", "findings", 0, "code"), "all_well", "provenance, findings[0], code"),
    "finding's text": (("provenance", "findings", 0, "text"), "All is well.", "provenance, findings[0], text"),
    "findings": (("provenance", "findings"), [], "provenance, findings"),
    "statistic": (
        ("provenance", "statistics", "kl_divergence", "mean", "value"),
        1e-3,
        "provenance, statistics, kl_divergence, mean, value",
    ),
    "withheld": (
        ("provenance", "statistics", "ppl_exact", "error"),
        0.01,
        "provenance, statistics, ppl_exact, error",
    ),
    "interval": (
        ("provenance", "intervals", "output_mse_mean", "high"),
        1e-3,
        "provenance, intervals, output_mse_mean, high",
    ),
    "query": ((*QUERIES, "cosine", 2), 0.5, "provenance, queries, candidates[1], cosine[2]"),
    "query's token": ((*QUERIES, "top1_same", 1), 1, "provenance, queries, candidates[1], top1_same[1]"),
    "query's loss": (("provenance", "queries", "nll_exact", 0), None, "provenance, queries, nll_exact[0]"),
    "rows": (("provenance", "queries", "rows", 0), 10, "provenance, queries, rows[0]"),
    "gates off": (("provenance", "gates_off"), ["max_ppl_delta"], "provenance, gates_off"),
    "seed": (("provenance", "fixture", "seed"), 8, "provenance, fixture, seed"),
    "enormous": ((*QUERIES, "kl", 0), 10**399, "provenance, queries, candidates[1], kl[0]"),
}
edits = pytest.mark.parametrize(("path", "value", "place"), EDITS.values(), ids=EDITS)


@edits
def test_an_edit_is_named_by_its_place(path, value, place):
    """The seal says that something was edited, the replay what."""
    found = held(changed(FIELDS, *path, to=value))
    assert codes(found.faults) == ["edited"]
    assert "The receipt was edited after it was sealed: its seal is sha256:" in found.faults[0].text
    assert f"{place} is " in found.faults[0].text
    assert [difference.place for difference in found.differences] == [place]


@edits
def test_an_edit_that_was_sealed_anew_is_named_by_its_place(path, value, place):
    """A seal can be made by anybody; the numbers cannot."""
    found = held(sealed(changed(FIELDS, *path, to=value)))
    assert codes(found.faults) == ["numbers_moved"]
    assert found.faults[0].text.startswith(f"The numbers moved: one field differs: {place} is ")
    assert "it was edited and sealed anew, or made by changed code" in found.faults[0].text
    assert [difference.place for difference in found.differences] == [place]


def test_a_difference_says_what_is_stated_and_what_is_found():
    """And how far two numbers are apart; flags and texts are not apart by anything."""
    number, flag = (
        held(sealed(changed(FIELDS, *path, to=value))).differences[0]
        for path, value in ((("metrics", "query_count"), 4), (("passed",), True))
    )
    assert (number.stated, number.found, number.off_by) == (4, 3, 1.0)
    assert number.text == "metrics, query_count is 4; replayed it is 3, off by 1"
    assert (flag.stated, flag.found, flag.off_by) == (True, False, None)
    assert flag.text == "passed is true; replayed it is false"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("config", "max_ppl_delta"), 1.0001),
        (("provenance", "made_with", "polykv"), "0.0.1"),
        (("provenance", "fixture", "file_digest"), None),
        ((*SEAL_PATH,), "sha256:0"),
        (("note",), "checked by hand"),
        (("candidate_results", 0, "note"), [1]),
        (("provenance", "intervals", "note"), {}),
    ],
)
def test_an_edit_of_what_no_replay_gives_is_seen_by_the_seal(path, value):
    """A threshold that flips nothing, a version, an added field anywhere, the seal itself."""
    found = held(changed(FIELDS, *path, to=value))
    assert codes(found.faults) == ["edited"]
    assert "Every number is as replayed: what was edited is none that a replay gives" in found.faults[0].text
    assert found.differences == ()


@pytest.mark.parametrize("reseal", [False, True])
def test_a_threshold_moved_after_the_verdict_is_named_by_what_it_would_have_changed(reseal):
    """Sealed anew or not: at that threshold the blockers are others."""
    fields = changed(FIELDS, "config", "min_output_cosine", to=0.0)
    found = held(sealed(fields) if reseal else fields)
    assert codes(found.faults) == ["numbers_moved" if reseal else "edited"]
    assert [difference.place for difference in found.differences] == [
        "candidate_results[0], blockers",
        "candidate_results[1], blockers",
        "blockers",
    ]


@pytest.mark.parametrize("reseal", [False, True])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("attention_scale", 0.5),
        ("query_coding", "exact"),
        ("pool_codec", "fib_k4_n64"),
        ("shell_codec", "exact"),
    ],
)
def test_another_option_is_named_by_what_it_would_have_changed(option, value, reseal):
    """Each brings another schema and other numbers."""
    fields = changed(FIELDS, "provenance", "options", option, to=value)
    found = held(sealed(fields) if reseal else fields)
    assert codes(found.faults) == ["numbers_moved" if reseal else "edited"]
    places = [difference.place for difference in found.differences]
    assert places[0] == "schema_version"
    assert "candidate_results[1], output_cosine_mean" in places
    assert f"{len(places)} fields differ, the first: schema_version is " in found.faults[0].text


def test_an_edited_receipt_s_numbers_that_moved_are_counted():
    """The first in the receipt's order is told, the others are listed."""
    fields = changed(changed(FIELDS, "passed", to=True), "metrics", "output_mse_mean", to=0.0)
    found = held(fields)
    assert [difference.place for difference in found.differences] == ["metrics, output_mse_mean", "passed"]
    assert (
        "Of what a replay gives, 2 fields differ, the first: metrics, output_mse_mean is 0.0;" in found.faults[0].text
    )


# Another fixture

OTHER_LABEL = (FIXTURE_FIELDS["queries"][0]["label_token"] + 1) % 5


def test_a_flipped_byte_of_the_fixture_s_numbers_is_another_fixture():
    """One digit of one key: the digests differ, and nothing is replayed."""
    text = DATA.decode()
    at = next(match.end() - 1 for match in re.finditer(r"-?\d\.\d{5}", text[text.index('"keys"') :])) + text.index(
        '"keys"'
    )
    flipped = f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"
    fixture, told = load_fixture(flipped.encode()), []
    found = verify(FIELDS, fixture, lambda done, _: told.append(done))
    assert codes(found.faults) == ["another_fixture"]
    assert found.faults[0].text == (
        "The receipt is of another fixture: its tensors, labels or schema differ. "
        f"Its digest is {fixture.digest}, the receipt's {FIXTURE.digest}."
    )
    assert told == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (changed(FIXTURE_FIELDS, "seed", to=8), "seed is 8, in the receipt 7"),
        (changed(FIXTURE_FIELDS, "shared_tokens", to=4), "shared_tokens is 4, in the receipt 5"),
        (changed(FIXTURE_FIELDS, "model_id", to="other"), "model_id is 'other', in the receipt 'made-on-the-spot'"),
        (
            fixture_fields(head_dim=16, vocab=6),
            "head_dim is 16, in the receipt 8; shared_tokens is 4, in the receipt 5",
        ),
        (changed(FIXTURE_FIELDS, "queries", 0, "label_token", to=OTHER_LABEL), "its tensors, labels or schema differ"),
        (changed(FIXTURE_FIELDS, "queries", to=FIXTURE_FIELDS["queries"][:2]), "its tensors, labels or schema differ"),
    ],
)
def test_another_fixture_is_said_to_be_one(fields, told):
    """With what shows it: another seed, model, or size."""
    found = held(FIELDS, load_fixture(encoded(fields)))
    assert codes(found.faults) == ["another_fixture"]
    assert found.faults[0].text.startswith(f"The receipt is of another fixture: {told}")


def test_a_receipt_that_was_made_to_look_like_another_fixture_s_is_caught():
    """The digest of the other one written in, and sealed anew: the numbers are not its."""
    other = load_fixture(encoded(changed(FIXTURE_FIELDS, "seed", to=8)))
    fields = changed(
        changed(FIELDS, "provenance", "fixture", "digest", to=other.digest), "provenance", "fixture", "seed", to=8
    )
    assert codes(held(fields, other).faults) == ["edited"]
    found = held(sealed(fields), other)
    assert codes(found.faults) == ["numbers_moved"]
    assert found.differences[0].place.startswith("candidate_results[0], ")


def test_an_edited_receipt_of_another_fixture_is_both():
    """What is seen first is told first."""
    fields = changed(FIELDS, "passed", to=True)
    found = held(fields, load_fixture(encoded(changed(FIXTURE_FIELDS, "seed", to=8))))
    assert codes(found.faults) == ["edited", "another_fixture"]


@pytest.mark.parametrize(("seed", "expected"), [(8, "numbers_moved"), (7, None)], ids=["another seed", "the same"])
def test_a_receipt_that_does_not_say_its_fixture_is_held_by_the_numbers(seed, expected):
    """As the crate's: another seed gives other numbers."""
    fields = {name: value for name, value in FIELDS.items() if name != "provenance"}
    found = held(fields, load_fixture(encoded(changed(FIXTURE_FIELDS, "seed", to=seed))))
    assert codes(found.faults) == ([expected] if expected else [])
    assert codes(found.notes) == ["no_seal"]


# Notes


@pytest.mark.parametrize("name", ["polykv", "python", "numpy"])
def test_another_version_with_the_same_numbers_is_a_note(name):
    """The receipt holds; what it was made with is said."""
    found = held(sealed(changed(FIELDS, "provenance", "made_with", name, to="0.0.9")))
    assert found.verified
    assert [(note.code, note.text) for note in found.notes] == [
        (
            "another_version",
            f"The receipt was made with other versions: {name} 0.0.9, here {vars(Versions.here())[name]}.",
        )
    ]


def test_moved_numbers_of_another_version_are_laid_to_it():
    """The likeliest cause is told, once."""
    fields = changed(FIELDS, "provenance", "made_with", "numpy", to="1.0")
    found = held(sealed(changed(fields, "metrics", "kl_divergence_mean", to=0.2)))
    assert codes(found.faults) == ["numbers_moved"]
    assert "The receipt was made with other versions (numpy 1.0, here " in found.faults[0].text
    assert found.notes == ()


@pytest.mark.parametrize(
    "data", [gzip.compress(DATA), json.dumps(FIXTURE_FIELDS, indent=1).encode()], ids=["gz", "indent"]
)
def test_another_file_of_the_same_content_is_a_note(data):
    """Zipped, or written anew."""
    found = held(FIELDS, load_fixture(data))
    assert found.verified
    assert codes(found.notes) == ["another_file"]


@pytest.mark.parametrize("sign", [-1, 1])
def test_last_digits_are_a_note(sign):
    """Another processor may round otherwise: within tolerance the receipt holds, and the most distant is named."""
    fields = changed(
        FIELDS,
        "candidate_results",
        0,
        "output_mse_mean",
        to=FIELDS["candidate_results"][0]["output_mse_mean"] + sign * 1e-8,
    )
    fields = changed(fields, "metrics", "kl_divergence_mean", to=FIELDS["metrics"]["kl_divergence_mean"] + sign * 4e-6)
    found = held(sealed(fields))
    assert (found.verified, found.differences) == (True, ())
    assert codes(found.notes) == ["last_digits"]
    assert re.match(
        r"Last digits of 2 fields differ, within tolerance; most: metrics, kl_divergence_mean is .*, off by 4e-06\.$",
        found.notes[0].text,
    )


@pytest.mark.parametrize(
    ("path", "off", "within"),
    [
        (("metrics", "output_cosine_mean"), 0.9e-6, True),
        (("metrics", "output_cosine_mean"), 1.1e-6, False),
        (("metrics", "output_mse_mean"), 1.1e-6, False),
        (("metrics", "kl_divergence_mean"), 4.9e-6, True),
        (("metrics", "kl_divergence_mean"), 5.1e-6, False),
        (("metrics", "top1_agreement"), 1e-5, False),
        ((*QUERIES, "cosine", 1), 0.9e-6, True),
        ((*QUERIES, "cosine", 1), 1.1e-6, False),
        (("provenance", "statistics", "ppl_log_ratio", "value"), 0.9e-4, True),
        (("provenance", "statistics", "ppl_log_ratio", "value"), 1.1e-4, False),
        (("provenance", "intervals", "kl_divergence_mean", "low"), 1.1e-4, False),
    ],
)
def test_how_far_apart_counts_as_the_same(path, off, within):
    """The agreement of docs/numbers.md; what is derived from the numbers has a little more room."""
    assert held(sealed(changed(FIELDS, *path, to=value_at(FIELDS, path) + off))).verified == within


def test_a_ratio_of_large_perplexities_has_no_more_room_than_another():
    """A PPL delta may be off in proportion to the PPLs; their ratio may not."""
    fields = changed(FIXTURE_FIELDS, "queries", 0, "exact_logits", to=[60.0, 0.0, 0.0, 0.0, 0.0])
    fixture = load_fixture(encoded(changed(fields, "queries", 0, "label_token", to=1)))
    receipt = json.loads(run_captured_model_replay(fixture, CONFIG).to_json())
    size = receipt["metrics"]["ppl_proxy_exact"]
    assert size > 1e3
    for path, off, within in (
        (("metrics", "ppl_proxy_delta"), 4e-6 * size, True),
        (("provenance", "statistics", "ppl_log_ratio", "value"), 1e-3, False),
    ):
        assert held(sealed(changed(receipt, *path, to=value_at(receipt, path) + off)), fixture).verified == within


@pytest.mark.parametrize("part", ["queries", "statistics", "findings", "options", "gates_off"])
def test_a_part_of_the_provenance_that_was_taken_out_is_missed(part):
    """Also after a new seal: what this program always writes is a difference where it is not there."""
    fields = json.loads(json.dumps(FIELDS))
    del fields["provenance"][part]
    if part == "findings":
        with pytest.raises(ReceiptError, match="the receipt, provenance has no field 'findings'"):
            verify(sealed(fields), FIXTURE)
        return
    found = verify(sealed(fields), FIXTURE)
    assert [finding.code for finding in found.faults] == ["numbers_moved"]
    assert found.differences[0].place == f"provenance, {part}"


def test_a_perplexity_far_off_at_one_k_gives_another_k_no_room():
    """The tolerance of a perplexity is that of its own candidate, as replayed."""
    fields = json.loads(json.dumps(FIELDS))
    fields["candidate_results"][0]["ppl_proxy_compressed"] = 1e12
    fields["candidate_results"][1]["ppl_proxy_compressed"] += 1.0
    found = verify(sealed(fields), FIXTURE)
    assert [one.place for one in found.differences] == [
        "candidate_results[0], ppl_proxy_compressed",
        "candidate_results[1], ppl_proxy_compressed",
    ]


@pytest.mark.parametrize(("path", "more"), [(("fixture", "seed"), 0.25), (("fixture", "vocab"), 0.0003)])
def test_a_count_has_no_tolerance(path, more):
    """A whole number that was written with a fraction, however small, is another one, or no receipt."""
    fields = json.loads(json.dumps(FIELDS))
    fields["provenance"][path[0]][path[1]] += more
    assert refused_with(ReceiptError, lambda: verify(sealed(fields), FIXTURE)) is not None
    fields = json.loads(json.dumps(FIELDS))
    fields["provenance"]["queries"]["rows"][0] += more
    assert not verify(sealed(fields), FIXTURE).verified


def test_fields_that_no_replay_gives_are_told():
    """They verify nothing: a note names them, wherever they stand."""
    fields = json.loads(json.dumps(FIELDS)) | {"audited_by": "somebody"}
    fields["candidate_results"][0]["speedup"] = 99
    found = verify(sealed(fields), FIXTURE)
    assert found.verified
    (note,) = [finding for finding in found.notes if finding.code == "unknown_fields"]
    assert "candidate_results[0], speedup, audited_by" in note.text


@pytest.mark.parametrize("nothing", [None, "absent"])
def test_a_seal_that_was_taken_out_is_a_note(nothing):
    """Whether the field is gone or null: the receipt is held by its numbers alone, and that is said."""
    fields = changed(FIELDS, *SEAL_PATH, to=None)
    if nothing == "absent":
        del fields["provenance"][SEAL]
    found = held(fields)
    assert found.verified
    assert codes(found.notes) == ["no_seal"]
    assert codes(held(changed(fields, "passed", to=True)).faults) == ["numbers_moved"]


# The crate's receipts

CAPTURED = [case for case in captured_cases() if any(case.config["candidate_ks"])]
MODEL = [case for case in model_cases() if case.error is None]


@pytest.mark.parametrize("case", CAPTURED, ids=[case.name for case in CAPTURED])
def test_a_receipt_of_the_crate_verifies_by_its_numbers(case):
    """With a note that it has no seal; with one number moved it does not, and that number is named."""
    _, fields = without_k_zero(case)
    fixture = load_fixture(case.input)
    found = held(fields, fixture)
    assert found.verified
    assert set(codes(found.notes)) - {"last_digits"} == {"no_seal"}
    moved = fields["metrics"]["kl_divergence_mean"] + 1e-4 * max(1.0, fields["metrics"]["kl_divergence_mean"])
    found = held(changed(fields, "metrics", "kl_divergence_mean", to=moved), fixture)
    assert codes(found.faults) == ["numbers_moved"]
    assert [difference.place for difference in found.differences] == ["metrics, kl_divergence_mean"]


@pytest.mark.parametrize("case", MODEL, ids=[case.name for case in MODEL])
def test_a_model_receipt_of_the_crate_verifies_by_its_numbers(case):
    """As a captured one."""
    found = verify_model(receipt_fields(json.dumps(case.receipt)), load_model_case(case.input))
    assert found.verified
    assert set(codes(found.notes)) - {"last_digits"} == {"no_seal"}
    moved = changed(case.receipt, "candidate_results", 0, "output_cosine_mean", to=0.123)
    found = verify_model(receipt_fields(json.dumps(moved)), load_model_case(case.input))
    assert codes(found.faults) == ["numbers_moved"]
    assert [difference.place for difference in found.differences] == ["candidate_results[0], output_cosine_mean"]


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("config", "projection_seed"), 99, "config, projection_seed"),
        (("config", "max_output_mse"), 9.0, "config, max_output_mse"),
        (("passed",), None, None),
        (("selected_candidate_k",), 77, None),
    ],
)
def test_a_model_receipt_that_is_not_the_case_s_is_named_or_refused(path, value, place):
    """Its config is the case's; what is no receipt is a ReceiptError."""
    case = load_model_case(MODEL[0].input)
    fields = changed(json.loads(run_model_case(case).to_json()), *path, to=value)
    if place is None:
        with pytest.raises(ReceiptError):
            verify_model(fields, case)
    else:
        assert [difference.place for difference in verify_model(fields, case).differences] == [place]


def test_the_kind_of_a_receipt_is_seen_from_its_fields():
    """A model replay's has no model_id."""
    assert is_model_replay(MODEL[0].receipt)
    assert not is_model_replay(FIELDS)


# Anything at all

LEAVES = [path for path, _ in leaves(FIELDS)]


@given(path=st.sampled_from(LEAVES), value=odd_values)
@example(path=SEAL_PATH, value=None)
@example(path=("provenance", "made_with", "numpy"), value=[[1, 2], [3, 4]])
@example(path=("provenance", "fixture", "digest"), value=[[1, 2], [3, 4]])
def test_no_other_value_anywhere_verifies_silently(path, value):
    """Edited, or refused as no receipt or as options that no replay has; only without a seal there is but a note."""
    assume(canonical_or_none(value) != canonical(value_at(FIELDS, path)))
    fields = changed(FIELDS, *path, to=value)
    checked = []
    refused = refused_with((ReceiptError, CodecError), lambda: checked.append(held(fields)))
    if refused is not None:
        assert refused.isprintable()
    elif path == SEAL_PATH and value is None:
        assert codes(checked[0].notes) == ["no_seal"]
    else:
        assert checked[0].faults[0].code == "edited"
        json.dumps(verification_dict(checked[0]), allow_nan=False)


def canonical_or_none(value):
    """None for text that cannot be written."""
    try:
        return canonical(value)
    except UnicodeEncodeError:
        return None


NUMBERS = [
    path
    for path, value in leaves(FIELDS)
    if type(value) in (int, float) and path[0] != "config" and "candidate_k" not in path
]


@given(path=st.sampled_from(NUMBERS), off=st.floats(0.01, 1e6), sign=st.sampled_from([-1, 1]))
def test_no_number_of_a_replay_can_be_moved_and_sealed_anew(path, off, sign):
    """Each of them is held against the replay: named by its place, or refused as none that can stand there."""
    old = value_at(FIELDS, path)
    value = old + sign * (max(1, round(off)) if type(old) is int else off)
    checked = []
    refused = refused_with(ReceiptError, lambda: checked.append(held(sealed(changed(FIELDS, *path, to=value)))))
    if refused is None:
        assert codes(checked[0].faults) == ["numbers_moved"]
        assert len(checked[0].differences) == 1
        assert math.isclose(checked[0].differences[0].off_by, abs(value - old), rel_tol=1e-6)


json_values = st.recursive(
    odd_values,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from([*FIELDS, *FIELDS["provenance"]]), st.text()), inner, max_size=4),
    ),
    max_leaves=10,
)


@given(value=json_values)
def test_what_is_no_receipt_is_refused(value):
    """Whatever JSON it is, as a ReceiptError."""
    assert refused_with(ReceiptError, lambda: held(value)) is not None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "NaN", '{"candidate_results": []}', "[" * 10_000])
def test_what_is_no_json_object_is_refused(text):
    """And what cannot be a receipt's object."""
    assert refused_with(ReceiptError, lambda: verify(receipt_fields(text), FIXTURE)) is not None


@given(value=json_values)
def test_any_provenance_is_held_or_refused(value):
    """Other programs may write theirs: with it a receipt has a fault, a note, or is a ReceiptError."""
    checked = []
    refused = refused_with(ReceiptError, lambda: checked.append(held({**FIELDS, "provenance": value})))
    assert refused is not None or checked[0].faults or checked[0].notes


@pytest.mark.parametrize("depth", [60, 300, 900])
def test_what_is_nested_deeply_is_held_or_refused(depth):
    """And never more than Python can follow."""
    deep = json.loads("[" * depth + "]" * depth)
    refused = refused_with(ReceiptError, lambda: held({**FIELDS, "more": deep}))
    assert (refused is None) == (depth < 64)


# For programs


def test_a_check_is_json():
    """Codes and texts, and each difference with what is stated and found; a number that is not finite is null."""
    text = json.dumps(changed(FIELDS, "provenance", "queries", "nll_exact", 1, to="PUT")).replace('"PUT"', "1e999")
    told = verification_dict(verify(receipt_fields(text), FIXTURE))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert list(told) == ["verified", "faults", "notes", "differences"]
    assert (told["verified"], told["faults"][0]["code"], told["notes"]) == (False, "edited", [])
    assert told["differences"] == [
        {
            "place": "provenance, queries, nll_exact[1]",
            "stated": None,
            "found": FIELDS["provenance"]["queries"]["nll_exact"][1],
            "off_by": None,
        }
    ]


def test_a_receipt_in_memory_is_held_as_its_file_is():
    """By its fields."""
    receipt = CapturedReplayReceipt.from_dict(FIELDS)
    assert verify(receipt.to_dict(), FIXTURE) == held(FIELDS)


def test_a_model_replay_s_receipt_with_a_false_seal_was_edited():
    """It is sealed by nobody here, but a seal that does not fit is a lie; other provenance is told as unchecked."""
    case = next(case for case in model_cases() if not case.error)
    model_case = load_model_case(case.input)
    fields = json.loads(run_model_case(model_case).to_json())
    lies = {"statistics": {"lies": 1}, SEAL: f"sha256:{'f' * 64}"}
    assert [fault.code for fault in verify_model(fields | {"provenance": lies}, model_case).faults] == ["edited"]
    found = verify_model(fields | {"provenance": {"statistics": {"lies": 1}}}, model_case)
    assert "unknown_fields" in [note.code for note in found.notes]
