"""Advice: the first reason is the fault that was planted, or the one a real capture has; changes are real replays."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from support import BESIDE, GOLDEN, SAMPLES, encoded, fixture_fields, gaussian, stored

from polykv_core import FibQuant, ReplayOptions, TurboQuant, explain, load_fixture, measure, reasons, what_would_help
from polykv_core.gates import measured_candidate

EXACT = {"pool_codec": "exact", "shell_codec": "exact"}
# A head whose cache loses something at every step.
FIELDS = fixture_fields(head_dim=16, rows=24, shared=12, queries=12, vocab=7)
FIXTURE = load_fixture(encoded(FIELDS))
SMALL_FIELDS = fixture_fields(rows=9, shared=5, queries=3)
SMALL = load_fixture(encoded(SMALL_FIELDS))
FLOOR = r"The captured logits are not this head's own: even its exact output is {nats} nats from them, "
SCALE = r"The captured output fits 1/sqrt\({dim}\) = {scale} \(error [\d.e-]+\); the replay used 1\. "
REAL = [
    ("real/L0_H0_model", 256, FLOOR.format(nats=r"3\.294")),
    ("real/L20_H8_local", 256, r"Coded keys raise pool scores by 23\.\d against shell scores, "),
    ("published/tiny_transformer", 16, SCALE.format(dim=16, scale=r"0\.25")),
    ("published/distilgpt2", 72, FLOOR.format(nats=r"6\.39")),
]


def with_arrays(of=FIELDS, **arrays):
    """The fixture with other arrays, each by a function of a query's captured arrays."""
    fields = json.loads(json.dumps(of))
    for query, captured in zip(fields["queries"], of["queries"], strict=True):
        as_arrays = {name: np.array(value, np.float32) for name, value in captured.items()}
        query |= {name: np.asarray(array(as_arrays), np.float32).tolist() for name, array in arrays.items()}
    return load_fixture(encoded(fields))


def told(fixture, k, **options):
    """The reasons of a fixture's replay."""
    return reasons(explain(fixture, k, ReplayOptions(**options)))


def changes_by_name(explanation, fixture=SMALL):
    """What would help, by name."""
    return {change.name: change for change in what_would_help(fixture, explanation)}


@pytest.mark.parametrize(("name", "k", "expected"), REAL, ids=[name for name, _, _ in REAL])
def test_a_real_head_s_first_reason_is_the_one_it_has(name, k, expected):
    """A whole model's logits, a pool whose scores are raised, the scale: at the k that the gates select."""
    path = stored(BESIDE / name / "fixture.json")
    if not path.exists():
        pytest.skip(f"{path} is not there; it lies beside some checkouts only")
    assert re.match(expected, told(load_fixture(path), k)[0])


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("smollm2_l0_h0_model.json.gz", FLOOR.format(nats=r"3\.294")),
        ("smollm2_l15_h2_local.json.gz", SCALE.format(dim=64, scale=r"0\.125")),
    ],
)
def test_a_sample_s_first_reason_is_the_one_it_has(file, expected):
    """The same of the captures that come with the project."""
    assert re.match(expected, told(load_fixture(SAMPLES / file), 256)[0])


def test_nothing_lost_is_said_as_such():
    """Exact codecs, and every row read."""
    assert told(FIXTURE, 24, **EXACT) == ("Nothing much is lost: no step costs more than 0.01 of output cosine.",)


@pytest.mark.parametrize(
    ("arrays", "k", "options", "expected"),
    [
        ({"query": lambda q: 4.0 * q["query"]}, 24, EXACT, SCALE.format(dim=16, scale=r"0\.25")),
        (
            {"query": lambda q: 5.0 * q["query"]},
            24,
            EXACT,
            r"The captured output fits a scale of 0\.2 \(error [\d.e-]+\); the replay used 1\. ",
        ),
        (
            {"values": lambda q: gaussian(*q["values"].shape, draw=99)},
            24,
            {},
            r"Exact attention over these rows does not give the captured output, at any scale ",
        ),
        (
            {"exact_logits": lambda q: gaussian(1, 7, draw=int(100 * abs(q["query"][0])), scale=3.0)[0]},
            24,
            {},
            FLOOR.format(nats=r"[\d.]+"),
        ),
        ({}, 24, {"shell_codec": "turbo_2bit_p4", "pool_codec": "exact"}, r"Coding the (keys|values) costs "),
        ({}, 1, EXACT, r"Reading only k = 1 rows costs "),
    ],
    ids=["1/sqrt(d)", "another scale", "other values", "other logits", "coarse codec", "one row"],
)
def test_a_planted_fault_is_the_first_reason(arrays, k, options, expected):
    """Whatever else costs something."""
    assert re.match(expected, told(with_arrays(**arrays), k, **options)[0])


@pytest.mark.parametrize("k", [1, 2, 4, 8, 24])
def test_reasons_come_dearest_first(k):
    """Each with the cosine that its stage adds; a step that costs less than 0.01 has none."""
    fixture = with_arrays(query=lambda q: 2.0 * q["query"])
    explanation = explain(fixture, k)
    named = [re.search(r"costs ([\d.]+) of output cosine", reason) for reason in reasons(explanation)]
    costs = [float(cost[1]) for cost in named if cost]
    added = [stage.added["output_cosine_mean"] for stage in explanation.stages[1:]]
    expected = sorted((cost for cost in added if cost > 0.01), reverse=True)
    assert len(expected) >= 2
    assert costs == pytest.approx(expected, rel=1e-2)


def test_the_scale_is_a_reason_though_one_query_does_not_fit():
    """One query with another head's values of twelve does not hide that the other eleven were captured scaled."""
    fixture = with_arrays(query=lambda q: 4.0 * q["query"])
    odd = replace(fixture.queries[5], values=gaussian(24, 16, draw=99))
    fixture = replace(fixture, queries=(*fixture.queries[:5], odd, *fixture.queries[6:]))
    explanation = explain(fixture, 24, ReplayOptions(**EXACT))
    fitted, recomputed = (explanation.stage(name).metrics.output_cosine_mean for name in ("fitted", "recomputed"))
    assert fitted > recomputed + 0.01
    assert any("1/sqrt(16)" in reason for reason in reasons(explanation))


def test_the_scale_is_no_reason_where_it_is_the_one_used():
    """The odd query of four costs its cosine all the same: rows or output are not what they seem."""
    values = [FIXTURE.queries[0].values, gaussian(24, 16, draw=99)]
    queries = [replace(query, values=rows) for query, rows in zip(FIXTURE.queries[:2], values, strict=True)]
    fixture = replace(FIXTURE, queries=(*queries, *FIXTURE.queries[2:4]))
    first = told(fixture, 24, **EXACT)[0]
    assert first.startswith("Exact attention over these rows does not give the captured output, at any scale ")


def test_order_is_called_lost_only_where_it_is():
    """A tier bias moves weight though each tier's own order is kept; what is told is the rank correlation of a tier."""
    fixture = load_fixture(stored(GOLDEN / "captured" / "label_probability_zero" / "fixture.json"))
    explanation = explain(fixture, 24)
    reason = reasons(explanation)[0]
    assert re.match(r"Coded keys (raise shell|lower pool) scores by 2\.77 against ", reason)
    found = re.search(r"little of their order \(rank correlation (-?[\d.]+)\)", reason)
    assert found is None or float(found[1]) < 0.8


def test_weight_read_is_told_with_the_selection():
    """As a percentage of the exact weight."""
    explanation = explain(FIXTURE, 1, ReplayOptions(**EXACT))
    held = re.search(r"the rows read hold ([\d.]+) % of the exact weight", reasons(explanation)[0])
    assert float(held[1]) == pytest.approx(100.0 * explanation.scores.mass_read, rel=1e-2)


def window(query):
    """Attention over the last four rows alone."""
    weights = np.exp(query["keys"][-4:] @ query["query"])
    return weights / weights.sum() @ query["values"][-4:]


@pytest.mark.parametrize(
    ("k", "output", "beaten_by"),
    [
        (4, window, ["last"]),
        (1, lambda q: -q["values"][np.argmax(q["keys"] @ q["query"])], ["random", "last"]),
        (4, lambda q: q["exact_attention_output"], []),
        (24, window, []),
    ],
    ids=["last rows", "opposite of the best row", "sound", "every row"],
)
def test_rows_that_do_not_beat_others_are_told(k, output, beaten_by):
    """Against as many at random and the last ones, with the two cosines; not where every row is read."""
    explanation = explain(with_arrays(exact_attention_output=output), k, ReplayOptions(**EXACT))
    pattern = (
        r"The rows read do not beat as many (\w+) rows: .* output cosine is (\S+) with them and (\S+) with those\."
    )
    found = [match.groups() for match in (re.match(pattern, reason) for reason in reasons(explanation)) if match]
    assert [rows for rows, _, _ in found] == beaten_by
    for rows, chosen, control in found:
        stages = ("selection", {"random": "random", "last": "recency"}[rows])
        cosines = [explanation.stage(name).metrics.output_cosine_mean for name in stages]
        assert [float(chosen), float(control)] == pytest.approx(cosines, rel=1e-3)
        assert cosines[0] <= cosines[1]


def test_what_is_not_a_number_is_told():
    """Values that overflow when decoded cost nan, and that is said."""
    large = with_arrays(values=lambda q: np.where(np.arange(24)[:, None] == 23, 3e38, q["values"]))
    assert "Coding the values costs nan of output cosine. Try finer codecs." in told(large, 24)


@pytest.mark.parametrize("k", [3, 9, 999])
@pytest.mark.parametrize("options", [{}, {"attention_scale": 0.3, "query_coding": "exact"}], ids=["reference", "other"])
def test_every_change_is_a_replay_with_its_options(k, options):
    """The first is the replay as it was; each has the very metrics that measure gives."""
    explanation = explain(SMALL, k, ReplayOptions(**options))
    changes = what_would_help(SMALL, explanation)
    assert changes[0].name == "as replayed"
    assert repr(changes[0].metrics) == repr(explanation.stage("selected").metrics)
    for change in changes:
        at = 9 if change.name.startswith("every row") else k
        assert repr(change.metrics) == repr(measured_candidate(measure(SMALL, (at,), options=change.options), at))
    assert len({(change.options, change.metrics.candidate_k) for change in changes}) == len(changes) > 5


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"query_coding": "exact"}, "exact query"),
        ({"pool_codec": FibQuant(codeword_count=256)}, "pool with 256 codewords"),
        ({"pool_codec": "exact"}, "exact pool"),
        ({"shell_codec": TurboQuant(bits=12)}, "shell with 12 bits"),
        ({"shell_codec": "exact"}, "exact shell"),
        ({"attention_scale": "inverse_sqrt_head_dim"}, "scale 1/sqrt(8)"),
        ({"attention_scale": 0.353553}, "scale 1/sqrt(8)"),
        ({"attention_scale": "inverse_sqrt_head_dim"}, "scale 1/sqrt(8) and exact query"),
        ({"query_coding": "exact"}, "scale 1/sqrt(8) and exact query"),
    ],
)
def test_a_change_that_is_in_use_is_left_out(options, name):
    """It is there where it changes something."""
    assert name in changes_by_name(explain(SMALL, 4))
    assert name not in changes_by_name(explain(SMALL, 4, ReplayOptions(**options)))


def test_the_fitted_scale_is_a_change_where_it_has_no_name():
    """A capture at 0.2; not one at 1/sqrt(d), nor where it is used already."""
    odd = with_arrays(SMALL_FIELDS, query=lambda q: 5.0 * q["query"])
    fitted = [name for name in changes_by_name(explain(odd, 4), odd) if "fitted" in name]
    assert fitted == ["scale 0.2, as fitted"]
    assert changes_by_name(explain(odd, 9, ReplayOptions(**EXACT)), odd)[fitted[0]].metrics.output_cosine_mean > 0.9999
    for fixture, scale in ((odd, 0.2), (with_arrays(SMALL_FIELDS, query=lambda q: 8**0.5 * q["query"]), 1.0)):
        explanation = explain(fixture, 4, ReplayOptions(attention_scale=scale))
        assert not [name for name in changes_by_name(explanation, fixture) if "fitted" in name]


@pytest.mark.parametrize(("k", "there"), [(8, True), (9, False), (10, False)])
def test_every_row_is_a_change_where_k_is_smaller(k, there):
    """With 9 rows; its metrics are those of all of them."""
    changes = changes_by_name(explain(SMALL, k))
    assert ("every row (k = 9)" in changes) == there
    assert not there or changes["every row (k = 9)"].metrics.decode_reduction == 1.0


def test_a_codec_that_does_not_fit_is_left_out():
    """A head of 6 numbers is not a multiple of the blocks of 4; the other changes are there."""
    fixture = load_fixture(encoded(fixture_fields(head_dim=6)))
    changes = changes_by_name(explain(fixture, 4, ReplayOptions(pool_codec="exact")), fixture)
    assert "exact shell" in changes
    assert "pool with 256 codewords" not in changes


def test_changes_are_counted_and_may_be_cancelled():
    """Before each, and after the last; what is raised goes through."""
    explanation, counts = explain(SMALL, 4), []
    changes = what_would_help(SMALL, explanation, lambda done, total: counts.append((done, total)))
    assert counts == [(done, len(changes)) for done in range(len(changes) + 1)]

    def stop(done, _total):
        if done == 1:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        what_would_help(SMALL, explanation, stop)


def test_an_output_that_is_wrong_from_the_start_is_not_called_fine():
    """Ten times too long it has the right direction, and no step costs any: the fixture is to blame."""
    said = told(with_arrays(exact_attention_output=lambda q: 10.0 * q["exact_attention_output"]), 24, **EXACT)
    assert any("and yet the replay is off" in reason or "not this head's own" in reason for reason in said)
    assert not any("Nothing much is lost" in reason for reason in said)


def test_the_exact_query_is_no_advice_where_it_is_exact():
    """Nor is it tried: it would change nothing."""
    explanation = explain(FIXTURE, 4, ReplayOptions(query_coding="exact"))
    assert not any("exact query" in reason for reason in reasons(explanation))
    assert not any("exact query" in change.name for change in what_would_help(FIXTURE, explanation))
