"""Provenance: what a receipt says beyond its verdict is the same wherever it is made, whole, and sealed."""

import gzip
import json
import math
import re
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import (
    BESIDE,
    GOLDEN,
    captured_cases,
    changed,
    encoded,
    fixture_fields,
    fresh_python,
    leaves,
    model_cases,
    refused_with,
    without_k_zero,
)

from polykv_core import (
    CapturedReplayConfig,
    CapturedReplayReceipt,
    ReceiptError,
    ReplayOptions,
    Versions,
    every_k,
    judge,
    load_fixture,
    load_model_case,
    measure,
    receipt_fields,
    run_captured_model_replay,
    run_model_case,
)
from polykv_core.canonical import canonical, sha256_of
from polykv_core.provenance import SEAL, seal_of, sealed

FIXTURE_FIELDS = fixture_fields(rows=9, shared=5, queries=3)
FIXTURE = load_fixture(encoded(FIXTURE_FIELDS))
CONFIG = CapturedReplayConfig((2, 5, 9), max_kl_divergence=0.1)
RECEIPT = run_captured_model_replay(FIXTURE, CONFIG)
FIELDS = json.loads(RECEIPT.to_json())
TOLD = FIELDS["provenance"]
SEAL_PATH = ("provenance", SEAL)
LEAVES = [path for path, _ in leaves(FIELDS) if path != SEAL_PATH]
# Lists and objects, the receipt itself included: where something may be added.
HOLDERS = sorted({path[:length] for path in LEAVES for length in range(len(path))}, key=str)

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)


def value_at(value, path):
    """What stands at a path."""
    for step in path:
        value = value[step]
    return value


# What stands in it


def test_it_says_of_which_fixture_with_what_and_how():
    """The fixture's facts, the versions, all four options, and which gates are off; nothing is left out."""
    assert list(TOLD) == [
        *("schema_version", "fixture", "made_with", "options", "gates_off"),
        *("findings", "statistics", "intervals", "queries", SEAL),
    ]
    assert TOLD["schema_version"] == "polykv_provenance_v1"
    assert TOLD["fixture"] == {
        "digest": FIXTURE.digest,
        "file_digest": sha256_of(encoded(FIXTURE_FIELDS)),
        "head_dim": 8,
        "shared_tokens": 5,
        "seed": 7,
        "vocab": 5,
    }
    assert TOLD["made_with"] == vars(Versions.here())
    assert TOLD["options"] == ReplayOptions().to_dict()
    assert TOLD["gates_off"] == []


def test_it_holds_the_statistics_and_intervals_of_the_selected_k():
    """The same that explain and the dashboard show there, with the share of resamples that an interval holds."""
    assert FIELDS["selected_candidate_k"] != CONFIG.candidate_ks[0]
    assert TOLD["statistics"]["ppl_compressed"]["value"] == FIELDS["metrics"]["ppl_proxy_compressed"]
    assert TOLD["statistics"]["query_count"] == 3
    assert TOLD["intervals"]["confidence"] == 0.95
    for name, interval in TOLD["intervals"].items():
        if name != "confidence":
            assert interval["low"] <= abs(FIELDS["metrics"][name]) <= interval["high"]


def test_it_holds_what_is_odd_about_the_fixture_and_about_the_replay():
    """Warnings at reading first, then the fixture's findings, then those of the selected k."""
    fixture = load_fixture(encoded(changed(FIXTURE_FIELDS, "schema_version", to="v2")))
    told = run_captured_model_replay(fixture, CapturedReplayConfig((99,))).provenance
    codes = [finding["code"] for finding in told["findings"]]
    assert codes[0] == "accepted"
    assert told["findings"][0]["text"] == fixture.warnings[0]
    assert codes.index("few_queries") < codes.index("k_beyond_rows")


@pytest.mark.parametrize("statistic", ["mean", "worst"])
def test_each_query_s_numbers_make_the_candidates(statistic):
    """Averaged, or the worst of them, they are the candidates' numbers: whoever has the receipt can do the sum."""
    receipt = run_captured_model_replay(FIXTURE, replace(CONFIG, statistic=statistic))
    fields = json.loads(receipt.to_json())
    queries = fields["provenance"]["queries"]
    assert queries["rows"] == [9, 9, 9]
    assert [one["candidate_k"] for one in queries["candidates"]] == [2, 5, 9]
    for result, one in zip(fields["candidate_results"], queries["candidates"], strict=True):

        def over(values, worst):
            return worst(values) if statistic == "worst" else sum(values) / 3

        assert result["output_cosine_mean"] == pytest.approx(over(one["cosine"], min), rel=1e-12)
        assert result["output_mse_mean"] == pytest.approx(over(one["mse"], max), rel=1e-12)
        assert result["kl_divergence_mean"] == pytest.approx(over(one["kl"], max), rel=1e-12)
        assert result["top1_agreement"] == float(over(one["top1_same"], min))
        assert result["ppl_proxy_exact"] == pytest.approx(math.exp(sum(queries["nll_exact"]) / 3), rel=1e-12)
        assert result["ppl_proxy_compressed"] == pytest.approx(math.exp(sum(one["nll_compressed"]) / 3), rel=1e-12)
        assert result["decoded_values_total"] == sum(min(rows, one["candidate_k"]) for rows in queries["rows"])


def test_a_k_that_is_listed_twice_is_told_once():
    """Its numbers are the same; so a long list of equal ks does not make a long receipt."""
    told = run_captured_model_replay(FIXTURE, CapturedReplayConfig((5, 2, 5))).provenance
    assert [one["candidate_k"] for one in told["queries"]["candidates"]] == [5, 2]


# What does not stand in it


def test_where_and_by_whom_it_is_made_makes_no_difference(tmp_path, monkeypatch):
    """Another folder, file name, user, host, time zone and process: the same bytes, and none of these in them."""
    places = [tmp_path / "one" / "fixture.json", tmp_path / "two two" / "head.of.mine"]
    texts = []
    for place in places:
        place.parent.mkdir()
        place.write_bytes(encoded(FIXTURE_FIELDS))
        monkeypatch.chdir(place.parent)
        texts.append(run_captured_model_replay(load_fixture(place.name), CONFIG).to_json())
        program = f"""
            import os
            os.chdir({str(place.parent)!r})
            from polykv_core import CapturedReplayConfig, load_fixture, run_captured_model_replay
            config = CapturedReplayConfig((2, 5, 9), max_kl_divergence=0.1)
            print(run_captured_model_replay(load_fixture({str(place)!r}), config).to_json(), end="")
        """
        name = place.parent.name.replace(" ", "")
        names = dict.fromkeys(("USER", "LOGNAME", "HOSTNAME"), f"secret-{name}")
        texts.append(fresh_python(program, TZ="Asia/Tokyo" if name == "one" else "UTC", LC_ALL="C", **names))
    assert set(texts) == {RECEIPT.to_json()}
    for secret in (str(tmp_path), "secret-", "fixture.json", "head.of.mine"):
        assert secret not in texts[0]


def test_a_zipped_file_gives_the_same_receipt_but_for_the_file_s_digest():
    """And the seal, which is over that too."""
    data = gzip.compress(encoded(FIXTURE_FIELDS))
    fields = json.loads(run_captured_model_replay(load_fixture(data), CONFIG).to_json())
    assert fields["provenance"]["fixture"]["file_digest"] == sha256_of(data) != TOLD["fixture"]["file_digest"]
    assert fields["provenance"][SEAL] != TOLD[SEAL]
    back = changed(fields, "provenance", "fixture", "file_digest", to=TOLD["fixture"]["file_digest"])
    assert sealed(back) == FIELDS


def test_a_fixture_from_no_file_has_no_file_s_digest():
    """It is null; all else is as from a file."""
    made = type(FIXTURE).from_dict(FIXTURE_FIELDS)
    fields = json.loads(run_captured_model_replay(made, CONFIG).to_json())
    assert fields["provenance"]["fixture"]["file_digest"] is None
    assert fields["provenance"]["fixture"]["digest"] == FIXTURE.digest


def test_what_else_a_fixture_holds_is_not_copied():
    """A capture script may note user and machine there; nobody asked to publish them."""
    fields = {**FIXTURE_FIELDS, "captured_by": "alice@example", "metadata": {"path": "/home/alice"}}
    fields["queries"] = [{**query, "prompt": "my secret"} for query in fields["queries"]]
    receipt = run_captured_model_replay(load_fixture(encoded(fields)), CONFIG)
    assert receipt.fixture_digest == FIXTURE.digest
    for secret in ("alice", "captured_by", "metadata", "prompt", "secret"):
        assert secret not in receipt.to_json()


@pytest.mark.parametrize("statistic", ["mean", "p95", "worst"])
def test_measuring_more_ks_than_the_candidates_changes_no_byte(statistic):
    """The dashboard measures every k, the command line the candidates; the receipts are the same."""
    config = CapturedReplayConfig((99, 2, 9), max_output_mse=0.01, statistic=statistic)
    whole = judge(measure(FIXTURE, every_k(FIXTURE)), config)
    assert whole.to_json() == run_captured_model_replay(FIXTURE, config).to_json()


# From a file again

VARIANTS = {
    "plain": (CONFIG, ReplayOptions()),
    "beyond": (CapturedReplayConfig((4, 2**64 - 1, 2)), ReplayOptions()),
    "single": (CapturedReplayConfig((1,), min_output_cosine=-1.0), ReplayOptions(attention_scale=0.1 + 0.2)),
    "worst": (replace(CONFIG, statistic="worst"), ReplayOptions(query_coding="exact", pool_codec="exact")),
}
variants = pytest.mark.parametrize(("config", "options"), VARIANTS.values(), ids=VARIANTS)


@variants
def test_a_read_receipt_writes_the_same_bytes(config, options):
    """Provenance and seal included, and it says the same of its fixture."""
    receipt = run_captured_model_replay(FIXTURE, config, options)
    again = CapturedReplayReceipt.from_json(receipt.to_json())
    assert again.to_json() == receipt.to_json()
    assert (again.digest, again.fixture_digest) == (receipt.digest, FIXTURE.digest)
    assert again.digest == seal_of(json.loads(receipt.to_json()))


@variants
def test_a_read_receipt_s_measurement_is_judged_again_to_the_same_bytes(config, options):
    """What it holds of each query is enough for that, at its own gates and at others."""
    receipt = run_captured_model_replay(FIXTURE, config, options)
    measured = CapturedReplayReceipt.from_json(receipt.to_json()).measurement
    assert judge(measured, config).to_json() == receipt.to_json()
    other = replace(config, max_kl_divergence=1e-9, max_output_mse=9.0)
    assert judge(measured, other).to_json() == run_captured_model_replay(FIXTURE, other, options).to_json()


def test_a_receipt_of_the_crate_has_no_provenance():
    """No digests; and no measurement, which is said."""
    receipt = CapturedReplayReceipt.from_dict({name: FIELDS[name] for name in FIELDS if name != "provenance"})
    assert (receipt.provenance, receipt.digest, receipt.fixture_digest) == ({}, None, None)
    with pytest.raises(ReceiptError, match=r"^the receipt, provenance has no field 'queries'; add it$"):
        _ = receipt.measurement


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("queries", "rows"), [9, 9], "candidates[0], cosine has 3 entries; expected one for each of 2 queries"),
        (("queries", "rows"), [], "candidates[0], cosine has 3 entries; expected one for each of 0 queries"),
        (("queries", "rows", 1), 2**63, "queries, rows is 9223372036854775808; expected a whole number from 1 to"),
        (("queries", "rows", 1), 0, "queries, rows is 0; expected a whole number from 1 to"),
        (("queries", "candidates"), [], "queries holds no query or no candidate"),
        (("queries", "candidates", 1, "mse", 2), "0", "queries, candidates[1], mse is '0'; expected a number"),
        (("queries", "candidates", 0, "candidate_k"), 0, "candidates[0], candidate_k is 0; expected a whole number"),
        (("queries", "nll_exact"), 1, "queries, nll_exact is 1; expected a list"),
        (("queries", "candidates", 2, "kl"), None, "queries, candidates[2], kl is null; expected a list"),
        (("fixture",), None, "provenance, fixture is null; expected a JSON object"),
        (("fixture", "seed"), -1, "provenance, fixture, seed is -1; expected a whole number"),
        (("fixture", "digest"), None, "provenance, fixture, digest is null; expected a string"),
        (("findings", 0), "odd", "provenance, findings[0] is 'odd'; expected a JSON object"),
        (("made_with", "numpy"), 2, "provenance, made_with, numpy is 2; expected a string"),
    ],
)
def test_a_measurement_that_a_receipt_tells_wrong_is_refused_with_its_place(path, value, message):
    """Only where somebody asks for it: the verdict can be read all the same."""
    receipt = CapturedReplayReceipt.from_dict(changed(FIELDS, "provenance", *path, to=value))
    assert receipt == RECEIPT
    refused = refused_with(ReceiptError, lambda: receipt.measurement)
    assert refused is not None
    assert message in refused


@given(data=st.data())
def test_any_value_in_a_provenance_is_read_or_refused(data):
    """With one value, list or object replaced, the receipt and its measurement read, or raise ReceiptError."""
    path = data.draw(st.sampled_from([path for path in LEAVES if path[0] == "provenance"]))
    path = path[: data.draw(st.integers(1, len(path)))]
    text = json.dumps(changed(FIELDS, *path, to=data.draw(json_values)))

    def read():
        receipt = CapturedReplayReceipt.from_json(text)
        return receipt.digest, receipt.fixture_digest, receipt.measurement

    refused = refused_with(ReceiptError, read)
    assert refused is None or refused.isprintable()


# The seal


@given(chance=st.randoms(use_true_random=False), indent=st.sampled_from([None, 0, 4]), letters=st.booleans())
def test_the_seal_does_not_depend_on_how_the_json_is_written(chance, indent, letters):
    """Blanks, the order of fields, escapes, 1.0 as 1 and 1 as 1.0: another program may write it as it likes."""

    def rewritten(value):
        if isinstance(value, dict):
            return {name: rewritten(value[name]) for name in chance.sample(list(value), len(value))}
        if isinstance(value, list):
            return [rewritten(inner) for inner in value]
        if isinstance(value, float) and value.is_integer() and chance.random() < 0.5:
            return int(value)
        return float(value) if type(value) is int and chance.random() < 0.5 else value

    text = json.dumps(
        rewritten(changed(FIELDS, "model_id", to="K\u00f6pfe \U0001f600")), indent=indent, ensure_ascii=letters
    )
    assert seal_of(receipt_fields(text)) == seal_of(changed(FIELDS, "model_id", to="K\u00f6pfe \U0001f600"))


def test_every_leaf_is_under_the_seal():
    """Each number, text and flag of the receipt but the seal itself: any other value there is another seal."""
    assert seal_of(FIELDS) == TOLD[SEAL]
    seals = {seal_of(changed(FIELDS, *path, to="another")) for path in LEAVES}
    assert len(seals | {TOLD[SEAL]}) == len(LEAVES) + 1
    assert len(LEAVES) > 100
    assert seal_of(changed(FIELDS, *SEAL_PATH, to="another")) == TOLD[SEAL]


@given(path=st.sampled_from(LEAVES), value=json_values)
def test_the_seal_depends_on_every_leaf(path, value):
    """Whatever is put in its place, the last digit of a number included."""
    old = value_at(FIELDS, path)
    assume(canonical(value) != canonical(old))
    assert seal_of(changed(FIELDS, *path, to=value)) != TOLD[SEAL]
    if isinstance(old, float):
        assert seal_of(changed(FIELDS, *path, to=math.nextafter(old, math.inf))) != TOLD[SEAL]


@given(holder=st.sampled_from(HOLDERS), name=st.text(), value=json_values)
def test_the_seal_depends_on_what_is_added(holder, name, value):
    """A field anywhere, or an entry of a list."""
    fields = json.loads(json.dumps(FIELDS))
    node = value_at(fields, holder)
    if isinstance(node, list):
        node.append(value)
    else:
        assume(name not in node)
        node[name] = value
    assert seal_of(fields) != TOLD[SEAL]


@given(value=json_values)
def test_a_canonical_value_is_one_line_of_the_same_json(value):
    """Read again it is equal, keys are sorted, and nothing stands between them."""
    text = canonical(value).decode()
    assert json.loads(text) == value
    assert "\n" not in text
    assert canonical(json.loads(text)) == canonical(value)


# The crate

# The fields and their types in the crate's structs, by which serde reads a receipt.
CRATE = {
    "CapturedReplayReceipt": {
        "schema_version": "String",
        "model_id": "String",
        "claim_boundary": "String",
        "config": "CapturedReplayConfig",
        "selected_candidate_k": "usize",
        "candidate_results": "Vec<CandidateReplayMetrics>",
        "metrics": "ModelReplayMetrics",
        "passed": "bool",
        "blockers": "Vec<String>",
    },
    "CapturedReplayConfig": {
        "candidate_ks": "Vec<usize>",
        "min_output_cosine": "f64",
        "max_output_mse": "f64",
        "max_kl_divergence": "f64",
        "max_ppl_delta": "f64",
        "min_top1_agreement": "f64",
    },
    "CandidateReplayMetrics": {
        "candidate_k": "usize",
        "output_cosine_mean": "f64",
        "output_mse_mean": "f64",
        "kl_divergence_mean": "f64",
        "top1_agreement": "f64",
        "ppl_proxy_exact": "f64",
        "ppl_proxy_compressed": "f64",
        "ppl_proxy_delta": "f64",
        "decoded_values_total": "u64",
        "full_decode_value_count": "u64",
        "decode_reduction": "f64",
        "passed": "bool",
        "blockers": "Vec<String>",
    },
    "ModelReplayMetrics": {
        "query_count": "usize",
        "exact_attention_outputs": "u64",
        "logit_vectors_compared": "u64",
        "output_cosine_mean": "f64",
        "output_mse_mean": "f64",
        "kl_divergence_mean": "f64",
        "top1_agreement": "f64",
        "ppl_proxy_exact": "f64",
        "ppl_proxy_compressed": "f64",
        "ppl_proxy_delta": "f64",
        "decoded_values_total": "u64",
        "full_decode_value_count": "u64",
        "decode_reduction": "f64",
    },
    "ModelReplayReceipt": {
        "schema_version": "String",
        "claim_boundary": "String",
        "config": "ModelReplayConfig",
        "selected_candidate_k": "usize",
        "candidate_results": "Vec<CandidateReplayMetrics>",
        "metrics": "ModelReplayMetrics",
        "passed": "bool",
        "blockers": "Vec<String>",
    },
    "ModelReplayConfig": {
        "layer": "usize",
        "head": "usize",
        "candidate_ks": "Vec<usize>",
        "vocab_size": "usize",
        "projection_seed": "u64",
        "min_output_cosine": "f64",
        "max_output_mse": "f64",
        "max_kl_divergence": "f64",
        "max_ppl_delta": "f64",
        "min_top1_agreement": "f64",
    },
}


def misread(kind, value, place="receipt"):
    """Where serde would not take a JSON value as a Rust type; fields that the struct has not are ignored."""
    if kind in CRATE:
        if not isinstance(value, dict):
            return [f"{place} is no object"]
        missing = [f"{place}.{name} is missing" for name in CRATE[kind] if name not in value]
        found = [misread(inner, value[name], f"{place}.{name}") for name, inner in CRATE[kind].items() if name in value]
        return missing + [fault for faults in found for fault in faults]
    if kind.startswith("Vec<"):
        if not isinstance(value, list):
            return [f"{place} is no list"]
        return [fault for index, inner in enumerate(value) for fault in misread(kind[4:-1], inner, f"{place}[{index}]")]
    fits = {
        "String": lambda: isinstance(value, str),
        "bool": lambda: isinstance(value, bool),
        "f64": lambda: type(value) in (int, float) and math.isfinite(value),
        "usize": lambda: type(value) is int and 0 <= value < 2**64,
        "u64": lambda: type(value) is int and 0 <= value < 2**64,
    }
    return [] if fits[kind]() else [f"{place} is {value!r}, no {kind}"]


@pytest.mark.skipif(not (BESIDE / "seed").is_dir(), reason="the crate's source does not lie beside the checkout")
def test_the_table_of_the_crate_s_types_is_its_source_s():
    """Field for field, in its order."""
    source = (BESIDE / "seed" / "replay.rs.txt").read_text(encoding="utf-8")
    for name, expected in CRATE.items():
        body = re.search(rf"pub struct {name} \{{(.*?)\n\d*\s*\}}", source, re.DOTALL)
        assert body is not None, name
        assert dict(re.findall(r"pub (\w+): ([\w<>]+),", body[1])) == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("selected_candidate_k",), 9.0),
        (("metrics", "query_count"), -1),
        (("metrics", "decoded_values_total"), 2**64),
        (("config", "candidate_ks", 0), True),
        (("candidate_results", 0, "output_mse_mean"), None),
        (("candidate_results", 0, "passed"), 1),
        (("blockers",), [1]),
    ],
)
def test_what_serde_would_not_take_is_seen(path, value):
    """Else the tests below would say nothing."""
    assert misread("CapturedReplayReceipt", FIELDS) == []
    assert len(misread("CapturedReplayReceipt", changed(FIELDS, *path, to=value))) == 1


CAPTURED = [case for case in captured_cases() if any(case.config["candidate_ks"])]
MODEL = [case for case in model_cases() if case.error is None]


@cache
def ours(case):
    """A case's receipt made here, as a file holds it."""
    config, _ = without_k_zero(case)
    return run_captured_model_replay(load_fixture(case.input), CapturedReplayConfig.from_dict(config)).to_json()


@pytest.mark.parametrize("case", CAPTURED, ids=[case.name for case in CAPTURED])
def test_a_receipt_with_provenance_reads_into_the_crate_s_struct(case):
    """Every field is there with a value that serde takes, as in the crate's own receipt of the same case."""
    fields = json.loads(ours(case))
    assert fields["provenance"][SEAL] == seal_of(fields)
    assert misread("CapturedReplayReceipt", fields) == []
    assert misread("CapturedReplayReceipt", case.receipt) == []


@variants
def test_a_receipt_with_options_reads_into_the_crate_s_struct(config, options):
    """Its schema says that it is another kind, and not that it is another shape."""
    fields = json.loads(run_captured_model_replay(FIXTURE, config, options).to_json())
    assert misread("CapturedReplayReceipt", fields) == []


@pytest.mark.parametrize("case", MODEL, ids=[case.name for case in MODEL])
def test_a_model_receipt_reads_into_the_crate_s_struct(case):
    """Ours and the crate's own."""
    case_read = load_model_case(case.input)
    off = replace(case_read, config=replace(case_read.config, min_output_cosine=-1.0))
    for one in (case_read, off):
        assert misread("ModelReplayReceipt", json.loads(run_model_case(one).to_json())) == []
    assert misread("ModelReplayReceipt", case.receipt) == []


@pytest.mark.parametrize("case", CAPTURED, ids=[case.name for case in CAPTURED])
def test_each_case_s_receipt_survives_the_round_trip_whole(case):
    """Every golden case and every real head: the same bytes, whatever its provenance holds."""
    text = ours(case)
    assert CapturedReplayReceipt.from_json(text).to_json() == text
    measured = CapturedReplayReceipt.from_json(text).measurement
    config, _ = without_k_zero(case)
    assert judge(measured, CapturedReplayConfig.from_dict(config)).to_json() == text


def test_the_cases_are_all_there():
    """An empty folder must not pass for agreement."""
    assert len([case for case in CAPTURED if GOLDEN in case.folder.parents]) >= 19
    assert len([case for case in MODEL if GOLDEN in case.folder.parents]) == 3
