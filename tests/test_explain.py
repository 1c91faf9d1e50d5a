"""An explanation: its stages against plain sums, its last stage the replay itself, and each fault in its own stage."""

import json
import math
from functools import cache, partial

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import captured_cases, changed, encoded, fixture_fields, gaussian

from polykv_core import (
    GATES,
    CodecError,
    ConfigError,
    ReplayOptions,
    explain,
    explanation_json,
    fit_scale,
    load_fixture,
    measure,
)
from polykv_core.explain import ALONE, CONTROLS, STAGES
from polykv_core.gates import measured_candidate

EXACT = {"pool_codec": "exact", "shell_codec": "exact"}
FIELDS = fixture_fields(rows=9, shared=5, queries=3)
FIXTURE = load_fixture(encoded(FIELDS))
# A head with enough queries that a fault in one of them is a fault of that one.
HEAD = fixture_fields(head_dim=16, rows=24, shared=12, queries=12, vocab=7)
OPTIONS = [ReplayOptions(), ReplayOptions(attention_scale=0.3, query_coding="exact", shell_codec="turbo_4bit_p8")]


def ks_of(case):
    """The least, the middle and the largest k of a case's config, less the k = 0 that is refused here."""
    ks = sorted({k for k in case.config["candidate_ks"] if k} or {1})
    return sorted({ks[0], ks[len(ks) // 2], ks[-1]})


CASES_AT_KS = [pytest.param(case, k, id=f"{case.name}-{k}") for case in captured_cases() for k in ks_of(case)]
every_case = pytest.mark.parametrize(("case", "k"), CASES_AT_KS)


@cache
def loaded(case):
    """A case's fixture, and what is measured of it at all its ks."""
    fixture = load_fixture(case.input)
    return fixture, measure(fixture, ks_of(case))


@cache
def explained(case, k):
    """A case, explained at a k."""
    return explain(loaded(case)[0], k)


@every_case
def test_the_last_stage_is_the_replay(case, k):
    """Bit for bit, in every field, what measure gives at that k; and so is the single step of everything."""
    explanation = explained(case, k)
    measured = repr(measured_candidate(loaded(case)[1], k))
    assert repr(explanation.stage("selected").metrics) == measured
    assert repr(explanation.stage("joint").metrics) == measured
    assert repr(explanation.stage("keys").metrics) == repr(explanation.stage("coded_keys").metrics)


@every_case
def test_the_parts_add_up_to_the_whole(case, k):
    """What the stages add to the loss in each gated metric is the loss of the replay; a single step is based alike."""
    explanation = explained(case, k)
    assert [stage.name for stage in explanation.stages] == list(STAGES)
    for metric in (gate.metric for gate in GATES):
        parts = [stage.added[metric] for stage in explanation.stages]
        largest = max(stage.loss[metric] for stage in explanation.stages)
        assert math.fsum(parts) == pytest.approx(explanation.stage("selected").loss[metric], abs=1e-12 * largest)
        base = explanation.stage("recomputed").loss[metric]
        for stage in (*explanation.alone, *explanation.controls):
            assert stage.added[metric] == stage.loss[metric] - base


def plain(options):
    """Each query's (scores, values) for each named view, from exact products and the codecs' own scores and rows."""
    views = []
    for index, query in enumerate(FIXTURE.queries):
        scale = float(options.scale(8))
        exact = [scale * float(score) for score in query.keys.astype(np.float64) @ query.query.astype(np.float64)]
        coded, decoded = [], []
        tiers = ((options.pool_codec, slice(0, 5), 7 + index), (options.shell_codec, slice(5, 9), 10_007 + index))
        for codec, rows, seed in tiers:
            coder = codec.coder(8, seed)
            keys, values = coder.encode(query.keys[rows]), coder.encode(query.values[rows])
            exact_query = options.query_coding == "exact" and coder.codes_query
            scores = (
                coder.decode(keys).astype(np.float64) @ query.query if exact_query else coder.score(keys, query.query)
            )
            coded += [scale * float(score) for score in scores]
            decoded += coder.decode(values).tolist()
        values = query.values.tolist()
        best = oracle.ranking(coded)[:4]
        views.append(
            {
                "recomputed": (exact, values),
                "coded_keys": (coded, values),
                "coded_values": (coded, decoded),
                "values": (exact, decoded),
                "selection": ([exact[row] for row in best], [values[row] for row in best]),
                "selected": ([coded[row] for row in best], [decoded[row] for row in best]),
                "recency": (exact[-4:], values[-4:]),
                "fitted": ([score / scale for score in exact], values),
            }
        )
    return views


@pytest.mark.parametrize("options", OPTIONS, ids=["reference", "changed"])
def test_every_stage_agrees_with_a_plain_python_oracle(options):
    """Scores, values and rows as each name says, softmax and metrics in Python's own floats; at k = 4 of 9 rows."""
    explanation = explain(FIXTURE, 4, options)
    views = plain(options)
    for name in views[0]:
        queries = [
            {
                "scores": view[name][0],
                "values": view[name][1],
                "output": query.exact_attention_output.tolist(),
                "logits": query.exact_logits.tolist(),
                "label": query.label_token,
            }
            for view, query in zip(views, FIXTURE.queries, strict=True)
        ]
        expected = oracle.metrics(queries, FIXTURE.output_projection.tolist(), 9)
        found = explanation.stage(name).metrics
        read = 3 * len(queries[0]["scores"])
        assert (found.decoded_values_total, found.full_decode_value_count) == (read, 27)
        for gate in GATES:
            value = getattr(found, gate.metric)
            assert value == pytest.approx(expected[gate.metric], rel=1e-5, abs=1e-6), (name, gate.metric)


def test_the_rows_are_those_that_the_replay_ranks():
    """Each query's scores of both kinds, and the k best by compressed score; weights are over all rows."""
    for rows, view in zip(explain(FIXTURE, 4).rows, plain(OPTIONS[0]), strict=True):
        assert rows.exact_scores.tolist() == pytest.approx(view["recomputed"][0], abs=1e-5)
        assert rows.coded_scores.tolist() == pytest.approx(view["coded_keys"][0], abs=1e-5)
        assert sorted(np.flatnonzero(rows.read)) == sorted(oracle.ranking(view["coded_keys"][0])[:4])
        assert rows.exact_weights.tolist() == pytest.approx(oracle.softmax(view["recomputed"][0]), abs=1e-6)
        assert rows.coded_weights.tolist() == pytest.approx(oracle.softmax(view["coded_keys"][0]), abs=1e-6)


@settings(max_examples=20)
@given(draw=st.integers(0, 99), scale=st.sampled_from([1.0, 0.25, 0.3]))
def test_where_nothing_is_lost_every_stage_is_at_its_best(draw, scale):
    """Exact codecs, every row read, the scale of the capture: so are single steps and controls."""
    fields = fixture_fields(rows=9, shared=5, queries=3, draw=draw)
    for query in fields["queries"]:
        query["query"] = [number / scale for number in query["query"]]
    explanation = explain(load_fixture(encoded(fields)), 9, ReplayOptions(attention_scale=scale, **EXACT))
    for stage in (*explanation.stages, *explanation.alone, *explanation.controls):
        metrics = stage.metrics
        assert metrics.output_cosine_mean == pytest.approx(1.0, abs=1e-6)
        assert metrics.output_mse_mean == pytest.approx(0.0, abs=1e-8)
        assert metrics.kl_divergence_mean == pytest.approx(0.0, abs=1e-6)
        assert metrics.ppl_proxy_delta == pytest.approx(0.0, abs=1e-4)
        assert metrics.top1_agreement == 1.0


def test_random_rows_are_drawn_from_all():
    """One row each for 60 queries, eight times: the mean cosine is near that over all rows, and not that of any one."""
    fixture = load_fixture(encoded(fixture_fields(rows=9, shared=5, queries=60)))
    rows = [[oracle.cosine(query.exact_attention_output, row) for row in query.values] for query in fixture.queries]
    found = explain(fixture, 1, ReplayOptions(**EXACT)).stage("random").metrics
    assert found.output_cosine_mean == pytest.approx(np.mean(rows), abs=0.03)
    assert found.decoded_values_total == 60
    assert np.abs(np.mean(rows, axis=0) - np.mean(rows)).max() > 0.03


@pytest.mark.parametrize("fault", ["values", "keys", "query"])
def test_wrong_rows_show_where_attention_is_recomputed(fault):
    """Values or keys of another head, or a query with another scale, cost their cosine before anything is coded."""
    fields = json.loads(json.dumps(HEAD))
    for index, query in enumerate(fields["queries"]):
        rows = np.array(query[fault])
        query[fault] = (rows / 8.0 if fault == "query" else gaussian(*rows.shape, draw=index + 50)).tolist()
    added = {
        stage.name: stage.added["output_cosine_mean"] for stage in explain(load_fixture(encoded(fields)), 24).stages
    }
    assert max(added, key=added.__getitem__) == "recomputed"
    assert added["recomputed"] > 0.2
    assert added["projection"] == pytest.approx(0.0, abs=1e-9)


def test_the_fitted_scale_gives_back_what_another_scale_cost():
    """Where that is all there is: the control is at its best, by the very scale that fit_scale finds."""
    fields = json.loads(json.dumps(HEAD))
    for query in fields["queries"]:
        query["query"] = [8.0 * number for number in query["query"]]
    fixture = load_fixture(encoded(fields))
    explanation = explain(fixture, 24)
    assert explanation.scale.scale == fit_scale(fixture).scale == pytest.approx(1 / 8, rel=1e-4)
    assert explanation.used_scale == 1.0
    assert explanation.stage("recomputed").metrics.output_cosine_mean < 0.97
    assert explanation.stage("fitted").metrics.output_cosine_mean == pytest.approx(1.0, abs=1e-6)


def test_foreign_logits_show_in_the_projection():
    """Their divergence is there before attention is even recomputed; the output is not touched by them."""
    fields = json.loads(json.dumps(HEAD))
    for query, logits in zip(fields["queries"], gaussian(12, 7, draw=3, scale=3.0), strict=True):
        query["exact_logits"] = logits.tolist()
    explanation, sound = (explain(load_fixture(encoded(each)), 16) for each in (fields, HEAD))
    added = {stage.name: stage.added["kl_divergence_mean"] for stage in explanation.stages}
    assert max(added, key=added.__getitem__) == "projection"
    assert added["projection"] > 1.0
    assert sound.stage("projection").loss["kl_divergence_mean"] == pytest.approx(0.0, abs=1e-6)
    for stage in STAGES:
        of_output = [each.stage(stage).metrics.output_cosine_mean for each in (explanation, sound)]
        assert of_output[0] == of_output[1]


def test_a_catastrophic_query_is_found():
    """By its own metrics, among the findings, and as the one whose output no attention gives."""
    values = gaussian(24, 16, draw=99, scale=4.0).tolist()
    explanation = explain(load_fixture(encoded(changed(HEAD, "queries", 7, "values", to=values))), 24)
    findings = {finding.code: finding.text for finding in explanation.findings}
    assert list(findings) == ["no_softmax", "dominant_query"]
    assert "query 7 " in findings["no_softmax"]
    assert findings["dominant_query"].startswith("Query 7 alone ")
    assert int(explanation.queries.mse[:, 0].argmax()) == 7


def test_progress_is_told_and_may_cancel():
    """Before each query, and after the last; what is raised goes through."""
    told = []
    explain(FIXTURE, 4, on_query=lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]

    class StoppedError(Exception):
        """Enough."""

    def stop(done, _total):
        if done == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        explain(FIXTURE, 4, on_query=stop)


def test_what_cannot_be_replayed_is_refused_before_any_work():
    """A k that means nothing, and a head that the codecs cannot hold: nobody is told of any query."""
    untold = partial(pytest.fail, "a query was begun")
    with pytest.raises(ConfigError, match=r"^candidate_ks entry 0 is 0; expected a whole number from 1 "):
        explain(FIXTURE, 0, on_query=untold)
    with pytest.raises(CodecError, match=r"^head_dim is 6; "):
        explain(load_fixture(encoded(fixture_fields(head_dim=6))), 4, on_query=untold)


@pytest.mark.parametrize("options", OPTIONS, ids=["reference", "changed"])
def test_two_explanations_are_the_same(options):
    """To the last digit, random rows included; and the k may be any beyond the rows."""
    first, second = (explanation_json(explain(FIXTURE, 4, options)) for _ in range(2))
    assert first == second
    most, beyond = (explain(FIXTURE, k, options) for k in (9, 2**64 - 1))
    assert (most.candidate_k, beyond.candidate_k) == (9, 2**64 - 1)
    assert [stage.added for stage in most.stages] == [stage.added for stage in beyond.stages]


def test_the_json_is_valid_and_has_null_for_what_is_not_finite():
    """Shell values that overflow when decoded: no NaN in the text, and null just where the metrics are not finite."""
    fields = changed(FIELDS, "queries", 1, "values", 8, to=[3e38] * 8)
    explanation = explain(load_fixture(encoded(fields)), 9)

    def refuse(literal):
        raise AssertionError(literal)

    record = json.loads(explanation_json(explanation), parse_constant=refuse)
    nulls = 0
    for stage, written in zip(explanation.stages, record["stages"], strict=True):
        for name, value in written["metrics"].items():
            number = getattr(stage.metrics, name)
            assert value == (number if math.isfinite(number) else None)
            nulls += value is None
    assert nulls
    assert "output_cosine_mean" not in record["intervals"]
    assert [stage["name"] for stage in (*record["alone"], *record["controls"])] == [*ALONE, *CONTROLS]


@pytest.mark.parametrize("options", [{}, EXACT], ids=["reference", "exact"])
@pytest.mark.parametrize(("array", "to"), [("keys", [3e38] * 8), ("values", [3e38] * 8), ("query", -3e38)])
def test_extreme_numbers_are_explained_without_a_warning(array, to, options):
    """A shell row, or a number of a query, at the end of float32: some metrics are not finite, and that is all."""
    fields = changed(FIELDS, "queries", 1, array, 7, to=to)
    explanation = explain(load_fixture(encoded(fields)), 9, ReplayOptions(**options))
    assert json.loads(explanation_json(explanation))["candidate_k"] == 9
