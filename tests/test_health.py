"""Findings: each appears for the fault planted, with its place and its size, and for nothing else."""

import copy
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import encoded, fixture_fields, gaussian

from polykv_core import QueryMetrics, ReplayOptions, check_fixture, fit_scale, load_fixture, measure, replay_findings

DIM, ROWS, COUNT = 16, 24, 18
FIELDS = fixture_fields(head_dim=DIM, rows=ROWS, shared=12, queries=COUNT, vocab=7)
NUMBER = r"(-?[\d.]+(?:e[+-]?\d+)?)"


def found(fields):
    """Code and text of what is odd about a fixture."""
    return {finding.code: finding.text for finding in check_fixture(load_fixture(encoded(fields)))}


def told(fixture, **options):
    """What is said of a replay's attention scale; None if nothing is."""
    texts = {finding.code: finding.text for finding in check_fixture(fixture, ReplayOptions(**options))}
    return texts.get("other_scale")


def replaced(name, change, which=range(COUNT), fields=FIELDS):
    """The fields with one array of some queries changed; nothing else follows it."""
    fields = copy.deepcopy(fields)
    for index in which:
        query = fields["queries"][index]
        query[name] = np.asarray(change(np.array(query[name], np.float32)), np.float32).tolist()
    return fields


def lengthened(row, times):
    """What makes a row this many times as long as the median row."""

    def change(rows):
        lengths = np.linalg.norm(rows, axis=1)
        return rows * np.where(np.arange(len(rows)) == row, times * np.median(lengths) / lengths, 1.0)[:, None]

    return change


def attended(scores, values):
    """The softmax of some scores times the values, in float64; scores beyond the values' have a value of zeros."""
    weights = np.exp(scores - scores.max())
    return (weights / weights.sum())[: len(values)] @ values


def recaptured(attend, which=range(COUNT)):
    """The fields with outputs by another attention, of (scores, values), and the logits and labels of those outputs."""
    fields = copy.deepcopy(FIELDS)
    for index in which:
        query = fields["queries"][index]
        scores = np.array(query["keys"]) @ query["query"]
        output = attend(scores, np.array(query["values"])).astype(np.float32)
        logits = (np.array(fields["output_projection"]) @ output).astype(np.float32)
        query |= {"exact_attention_output": output.tolist(), "exact_logits": logits.tolist()}
        query["label_token"] = int(logits.argmax())
    return fields


def log_softmax(logits):
    """Logarithms of probabilities, in float64."""
    logits = np.asarray(logits, np.float64)
    return logits - logits.max() - math.log(np.exp(logits - logits.max()).sum())


@given(draw=st.integers(0, 200), half=st.booleans())
def test_a_sound_capture_has_nothing_odd(draw, half):
    """Gaussian rows with their own attention, logits and labels; nor if all numbers were captured in float16."""
    fields = fixture_fields(head_dim=DIM, rows=ROWS, shared=12, queries=10, vocab=7, draw=draw)
    for name in ("query", "keys", "values", "exact_attention_output", "exact_logits") if half else ():
        fields = replaced(name, lambda array: array.astype(np.float16), range(10), fields)
    assert found(fields) == {}


def test_a_scaled_capture_has_nothing_odd():
    """Queries that were divided by 1/sqrt(d) after their outputs were taken: the scale is named instead."""
    fields = replaced("query", lambda query: query * math.sqrt(DIM))
    assert found(fields) == {}
    assert fit_scale(load_fixture(encoded(fields))).named == "1/sqrt(16)"


@pytest.mark.parametrize("name", ["keys", "values"])
@pytest.mark.parametrize(
    ("which", "told"),
    [
        ((5,), "query 5"),
        ((0, 3), "queries 0 and 3"),
        ((0, 3, 7), "queries 0, 3 and 7"),
        (range(2, 10), "queries 2, 3, 4, 5, 6, 7 and 2 more"),
        (range(COUNT), "every query"),
    ],
)
def test_rows_of_another_head_are_no_softmax(name, which, told):
    """Keys or values that the output was not made of: the queries are named, six of them by number."""
    fields = replaced(name, lambda rows: gaussian(*rows.shape, draw=99), which)
    assert list(found(fields)) == ["no_softmax"]
    assert found(fields)["no_softmax"].startswith(f"The captured output of {told} is no plain softmax ")


@pytest.mark.parametrize(
    "attend",
    [
        lambda scores, values: attended(scores[-8:], values[-8:]),
        lambda scores, values: attended(3.0 * np.tanh(scores / 3.0), values),
        lambda scores, values: 1.5 * attended(scores, values),
        lambda scores, values: -attended(scores, values),
    ],
    ids=["sliding window", "soft cap", "too long", "turned around"],
)
def test_other_attention_is_no_softmax(attend):
    """A window over the last rows, capped scores; and no sink makes an output longer, or turns it around."""
    assert list(found(recaptured(attend))) == ["no_softmax"]


def test_the_distance_to_the_nearest_softmax_is_told():
    """That of the worst query named, and the scale at which it is nearest."""
    fields = replaced("values", lambda rows: gaussian(*rows.shape, draw=99), (2, 5))
    fit = fit_scale(load_fixture(encoded(fields)))
    told = re.search(rf"\(nearest at {NUMBER}, off by {NUMBER} of its length\)", found(fields)["no_softmax"])
    assert float(told[1]) == 1.0 == fit.scale
    assert float(told[2]) == pytest.approx(max(fit.errors[2], fit.errors[5]), rel=1e-2)


@pytest.mark.parametrize("name", ["keys", "values"])
def test_a_long_row_is_named_with_its_place(name):
    """Fifty times as long in one query, whose output was taken before: that query alone is no softmax either."""
    told = found(replaced(name, lengthened(9, 50.0), (3,)))
    assert list(told) == ["no_softmax", "long_row"]
    assert told["no_softmax"].startswith("The captured output of query 3 is no plain softmax ")
    row = re.match(rf"Query 3, {name} row 9 is {NUMBER} times as long as that query's median row\. ", told["long_row"])
    assert float(row[1]) == pytest.approx(50.0, rel=1e-2)


@pytest.mark.parametrize(("times", "long"), [(9.5, False), (10.5, True)])
def test_a_row_is_long_from_ten_times_the_median(times, long):
    """Of the rows of its own query and kind; the longest of all is named, and all rows together are not long."""
    one = replaced("keys", lengthened(4, times), (1,))
    assert ("long_row" in found(one)) == long
    assert "long_row" not in found(replaced("keys", lambda rows: 100.0 * rows, (1,)))
    longer = replaced("values", lengthened(7, 90.0), (6,), one)
    assert found(longer)["long_row"].startswith("Query 6, values row 7 is ")


def test_a_sink_outside_the_rows_is_named():
    """One more logit, as large as the largest, whose value is all zeros: how much of the weight it takes is told."""
    told = found(recaptured(lambda scores, values: attended(np.append(scores, scores.max()), values)))
    scores = [np.array(query["keys"]) @ query["query"] for query in FIELDS["queries"]]
    taken = [1.0 / (1.0 + np.exp(of_query - of_query.max()).sum()) for of_query in scores]
    assert list(told) == ["extra_sink"]
    least, most = re.search(
        rf"of every query is .* takes {NUMBER} to {NUMBER} of the weight", told["extra_sink"]
    ).groups()
    assert [float(least), float(most)] == pytest.approx([min(taken), max(taken)], abs=1e-3)


def test_a_sink_of_some_queries_is_named_with_them():
    """The others are plain attention."""
    told = found(recaptured(lambda scores, values: attended(np.append(scores, scores.max()), values), (2, 8)))
    assert list(told) == ["extra_sink"]
    assert told["extra_sink"].startswith("The captured output of queries 2 and 8 is plain attention times a factor ")


def test_a_whole_model_s_logits_are_not_local():
    """Logits that are no projection of the output: how far, as the mean KL divergence in nats."""
    random = np.random.default_rng(0)
    fields = replaced("exact_logits", lambda logits: 2.0 * random.standard_normal(len(logits)))
    for query in fields["queries"]:
        query["label_token"] = int(np.argmax(query["exact_logits"]))
    divergences = []
    for query in fields["queries"]:
        p = log_softmax(query["exact_logits"])
        q = log_softmax(np.array(fields["output_projection"]) @ query["exact_attention_output"])
        divergences.append(np.exp(p) @ (p - q))
    told = found(fields)
    assert list(told) == ["logits_not_local"]
    nats = re.match(rf"The projection of the captured output is {NUMBER} nats from ", told["logits_not_local"])
    assert float(nats[1]) == pytest.approx(np.mean(divergences), rel=1e-3)


def test_labels_that_are_less_likely_than_chance_are_told():
    """The least likely token of each query: a perplexity above the vocabulary, and no label on top."""
    fields = copy.deepcopy(FIELDS)
    for query in fields["queries"]:
        query["label_token"] = int(np.argmin(query["exact_logits"]))
    losses = [-log_softmax(query["exact_logits"])[query["label_token"]] for query in fields["queries"]]
    told = found(fields)
    assert list(told) == ["perplexity_above_vocabulary", "labels_never_top"]
    start = rf"The exact perplexity of the labels is {NUMBER}, above the 7 tokens there are: "
    perplexity = re.match(start, told["perplexity_above_vocabulary"])
    assert float(perplexity[1]) == pytest.approx(math.exp(np.mean(losses)), rel=1e-3)


@pytest.mark.parametrize("vocab", [5, 25, 29, 31])
def test_logits_that_are_all_alike_are_chance_and_no_worse(vocab):
    """The perplexity is that of guessing, whichever way float32 rounds 1 / vocabulary."""
    fields = fixture_fields(vocab=vocab, queries=10)
    fields["output_projection"] = np.zeros((vocab, 8)).tolist()
    for query in fields["queries"]:
        query |= {"exact_logits": [0.0] * vocab, "label_token": vocab - 1}
    assert found(fields) == {}


def test_labels_that_are_never_on_top_are_told():
    """All second best; one on top is enough to say nothing."""
    fields = copy.deepcopy(FIELDS)
    for query in fields["queries"]:
        query["label_token"] = int(np.argsort(query["exact_logits"])[-2])
    assert "labels_never_top" in found(fields)
    fields["queries"][4]["label_token"] = FIELDS["queries"][4]["label_token"]
    assert "labels_never_top" not in found(fields)


@pytest.mark.parametrize("count", [1, 2, 3, 9, 10])
def test_few_queries_are_told_with_their_step(count):
    """In which top-1 agreement moves; gone at ten."""
    told = found(FIELDS | {"queries": FIELDS["queries"][:count]})
    if count == 10:
        assert told == {}
        return
    assert list(told) == ["few_queries"]
    start = rf"With {count} {'query' if count == 1 else 'queries'} top-1 agreement moves in steps of {NUMBER}, "
    assert float(re.match(start, told["few_queries"])[1]) == pytest.approx(1.0 / count, rel=1e-2)


def perfect(**at):
    """Queries that lost nothing, but for some metrics of some queries, as {query: value}."""
    columns = {
        "cosine": np.ones((COUNT, 1)),
        **{name: np.zeros((COUNT, 1)) for name in ("mse", "kl", "nll_exact", "nll_compressed")},
        "top1_same": np.ones((COUNT, 1), bool),
        "decoded_values": np.full((COUNT, 1), 8),
        "rows": np.full(COUNT, ROWS),
    }
    for name, values in at.items():
        columns[name][list(values), ...] = np.reshape(list(values.values()), (-1, *columns[name].shape[1:]))
    return QueryMetrics(**columns)


def replay_told(queries, k=8):
    """Code and text of what is odd about a replay."""
    return {finding.code: finding.text for finding in replay_findings(queries, k)}


def test_a_replay_that_lost_alike_in_all_queries_has_nothing_odd():
    """Nothing at all, or the same everywhere; nor has a sound capture's replay."""
    assert replay_told(perfect()) == {}
    assert replay_told(perfect(mse=dict.fromkeys(range(COUNT), 0.1), kl=dict.fromkeys(range(COUNT), 0.1))) == {}
    assert replay_told(measure(load_fixture(encoded(FIELDS)), (8,)).queries) == {}


@pytest.mark.parametrize(
    ("metric", "value", "name"), [("mse", 9.0, "MSE"), ("kl", 9.0, "KL divergence"), ("cosine", -1.0, "lost cosine")]
)
def test_one_catastrophic_query_among_perfect_ones_is_named(metric, value, name):
    """With the metric whose mean is that query's alone."""
    text = replay_told(perfect(**{metric: {5: value}}))
    assert list(text) == ["dominant_query"]
    assert text["dominant_query"].startswith(f"Query 5 alone makes 100 % of the mean {name}. ")


@pytest.mark.parametrize(("others", "dominant"), [(0.04, True), (0.08, False)])
def test_a_query_dominates_from_half_of_the_loss(others, dominant):
    """One of 18 that lost 1: the other 17 lost 0.68 together, or 1.36."""
    assert ("dominant_query" in replay_told(perfect(kl=dict.fromkeys(range(17), others) | {17: 1.0}))) == dominant


def test_a_replayed_fixture_s_catastrophic_query_is_named():
    """Its values were another head's; the cache loses little."""
    fixture = load_fixture(encoded(replaced("values", lambda rows: 30.0 * rows, (7,))))
    assert replay_told(measure(fixture, (ROWS,)).queries, ROWS)["dominant_query"].startswith("Query 7 alone makes ")


@pytest.mark.parametrize(("metric", "kind"), [("nll_exact", "exact"), ("nll_compressed", "replayed")])
def test_a_probability_at_its_floor_is_replay_told(metric, kind):
    """Of the labels before or after; a little above the floor it is a number like others."""
    text = replay_told(perfect(**{metric: {2: -math.log(1e-12), 4: -math.log(1e-12), 6: -math.log(1.1e-12)}}))
    assert list(text) == ["metric_at_floor"]
    assert text["metric_at_floor"].startswith(
        f"The label's {kind} probability is at its floor of 1e-12 in queries 2 and 4,"
    )


@pytest.mark.parametrize(("k", "where"), [(23, None), (24, "query 3"), (25, "every query")])
def test_a_k_beyond_the_rows_is_replay_told(k, where):
    """Of 24 rows, and one query of 23; a k that is just all of them is none."""
    text = replay_told(perfect(rows={3: 23}), k)
    assert list(text) == ([] if where is None else ["k_beyond_rows"])
    assert where is None or text["k_beyond_rows"].startswith(f"k = {k} is larger than the rows of {where}: ")


def test_an_output_of_zeros_is_said_and_tells_nothing_of_the_scale():
    """The other queries keep their scale, and none of them is called odd."""
    fields = replaced("exact_attention_output", lambda output: 0.0 * output, (3,))
    said = found(fields)
    assert said["no_output"].startswith("The captured output of query 3 is all zeros")
    fit = fit_scale(load_fixture(encoded(fields)))
    assert fit.scale == pytest.approx(1.0, rel=1e-4)
    assert np.isfinite(fit.errors).all()
    assert np.flatnonzero(fit.errors > 1e-2).tolist() == [3]


def test_a_sink_does_not_hide_the_scale():
    """Captured at 1/sqrt(d) with 30 % of the weight elsewhere: both are found."""
    fields = recaptured(lambda scores, values: 0.7 * attended(scores / math.sqrt(DIM), values))
    fit = fit_scale(load_fixture(encoded(fields)))
    assert fit.named == f"1/sqrt({DIM})"
    assert "extra_sink" in found(fields)
    assert "no_softmax" not in found(fields)


def test_a_scale_far_above_one_is_found():
    """Normalised queries and keys are scaled by 20 and more."""
    fields = recaptured(lambda scores, values: attended(20.0 * scores, values))
    assert fit_scale(load_fixture(encoded(fields))).errors.max() < 1e-3


def scaled(scale):
    """A fixture whose queries were divided by a scale after their outputs were taken."""
    return load_fixture(encoded(replaced("query", lambda query: query / scale)))


@pytest.mark.parametrize(
    ("captured", "options", "used", "setting"),
    [
        (0.25, {}, "1", "inverse_sqrt_head_dim"),
        (0.6, {}, "1", "0.6"),
        (1.0, {"attention_scale": "inverse_sqrt_head_dim"}, "0.25", "1"),
    ],
)
def test_a_replay_at_another_scale_than_the_captured_one_is_told(captured, options, used, setting):
    """Both scales, and the setting that mends it."""
    text = told(scaled(captured), **options)
    assert text.startswith(
        f"The captured output fits an attention scale of {captured:g}, but this replay uses {used}: "
    )
    assert text.endswith(f"Replay with the attention scale {setting}.")
    assert told(scaled(captured), attention_scale=float(setting) if setting[0] != "i" else setting) is None


def test_where_scores_hardly_differ_every_scale_is_right():
    """Attention over keys that are all alike is the mean of the values, whatever the scale."""
    fields = replaced("keys", np.ones_like)
    for query in fields["queries"]:
        query["exact_attention_output"] = np.mean(query["values"], axis=0).tolist()
    assert told(load_fixture(encoded(fields))) is None
    assert told(load_fixture(encoded(fields)), attention_scale="inverse_sqrt_head_dim") is None
