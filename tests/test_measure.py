"""Measuring: once per query, free of thresholds, of the other ks, of the other queries and of threads."""

import json
from collections import Counter
from importlib import import_module

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import GOLDEN, encoded, fixture_fields, fresh_python, gaussian, read_golden, stored

from polykv_core import (
    CapturedReplayConfig,
    CaseError,
    CodecError,
    ConfigError,
    ExactCodec,
    FibQuant,
    KvTensorShape,
    ModelReplayConfig,
    ModelReplayQuery,
    ReceiptError,
    ReplayOptions,
    SharedKVPool,
    TurboQuant,
    check_replayable,
    every_k,
    judge,
    load_fixture,
    measure,
    measure_model,
    run_captured_model_replay,
)
from polykv_core.measure import synthetic_projection

# polykv_core.measure is the function; this is the module it stands in.
measure_module = import_module("polykv_core.measure")

FIELDS = fixture_fields(rows=9, shared=5, queries=3)
FIXTURE = load_fixture(encoded(FIELDS))


def loaded(**changes):
    """The fixture with some fields changed."""
    return load_fixture(encoded({**FIELDS, **changes}))


def numbers(measurement, k):
    """Every number measured at a k, query by query and over all, as bytes."""
    at, queries = measurement.index_of(k), measurement.queries
    per_query = (
        queries.cosine,
        queries.mse,
        queries.kl,
        queries.nll_compressed,
        queries.top1_same,
        queries.decoded_values,
    )
    overall = [values[at] for _, values in sorted(measurement.metrics.items())]
    return b"".join(array[:, at].tobytes() for array in per_query) + np.array(overall).tobytes()


def query_numbers(measurement, query):
    """Every number measured for a query, as bytes."""
    queries = measurement.queries
    arrays = (queries.cosine, queries.mse, queries.kl, queries.nll_exact, queries.nll_compressed, queries.top1_same)
    return b"".join(array[query].tobytes() for array in arrays)


@pytest.fixture
def spy(monkeypatch):
    """Counts, by codec and method, the calls of encode, score and decode, and the rows they were about."""
    calls, rows = Counter(), Counter()

    def watch(coder_class, name):
        method = getattr(coder_class, name)

        def watched(self, subject, *arguments):
            key = f"{coder_class.__name__}.{name}"
            calls[key] += 1
            rows[key] += len(subject) if isinstance(subject, np.ndarray) else len(subject[0])
            return method(self, subject, *arguments)

        monkeypatch.setattr(coder_class, name, watched)

    for codec in (FibQuant(), TurboQuant()):
        for name in ("encode", "score", "decode"):
            watch(type(codec.coder(8, 0)), name)
    return calls, rows


@pytest.mark.parametrize("ks", [(4,), (1, 2, 3, 4), (4, 4, 1)])
def test_a_query_is_encoded_and_ranked_once_whatever_the_number_of_ks(spy, ks):
    """For each query keys and values are encoded once per tier, and scored once per tier."""
    calls, rows = spy
    measure(FIXTURE, ks)
    for coder, share in (("FibCoder", 5), ("TurboCoder", 4)):
        assert calls[f"{coder}.encode"] == 2 * 3
        assert rows[f"{coder}.encode"] == 2 * 3 * share
        assert calls[f"{coder}.score"] == 3


@pytest.mark.parametrize(("ks", "largest"), [((1,), 1), ((2, 5, 3), 5), ((99, 2), 9)])
def test_only_the_values_of_selected_rows_are_decoded(spy, ks, largest):
    """As many rows a query as the largest k reads, in both tiers together."""
    _, rows = spy
    measurement = measure(FIXTURE, ks)
    assert rows["FibCoder.decode"] + rows["TurboCoder.decode"] == 3 * largest
    assert measurement.queries.decoded_values.tolist() == [[min(k, 9) for k in ks]] * 3


def test_judging_measures_nothing(spy):
    """A moved threshold costs no replay."""
    measurement = measure(FIXTURE, (2, 4))
    calls, _ = spy
    before = dict(calls)
    for cosine in (0.1, 0.9):
        judge(measurement, CapturedReplayConfig((2, 4), min_output_cosine=cosine))
    assert dict(calls) == before


@given(k=st.integers(1, 12), others=st.lists(st.integers(1, 12), max_size=6))
def test_a_k_s_numbers_do_not_depend_on_the_other_ks(k, others):
    """Measured alone, or among others in any order, to the last digit."""
    alone = measure(FIXTURE, (k,))
    among = measure(FIXTURE, (*others, k))
    assert numbers(among, k) == numbers(alone, k)
    assert among.candidate_ks == (*others, k)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_query_s_numbers_do_not_depend_on_the_other_queries(index):
    """A fixture of that query alone, with the seed it had, gives the same digits."""
    alone = loaded(queries=[FIELDS["queries"][index]], seed=FIELDS["seed"] + index)
    among = measure(FIXTURE, (1, 3, 9))
    assert query_numbers(measure(alone, (1, 3, 9)), 0) == query_numbers(among, index)


def test_each_query_has_its_own_seeds():
    """The same query twice gives other numbers: seed + i for its pool, seed + 10000 + i for its shell."""
    twice = measure(loaded(queries=[FIELDS["queries"][0]] * 2), (3,))
    assert query_numbers(twice, 0) != query_numbers(twice, 1)


def test_seeds_wrap_around():
    """Query 1 of a fixture seeded with 2^64 - 1 has the seeds of query 0 of one seeded with 0."""
    last = measure(loaded(queries=[FIELDS["queries"][0]] * 2, seed=2**64 - 1), (3,))
    first = measure(loaded(queries=[FIELDS["queries"][0]], seed=0), (3,))
    assert query_numbers(last, 1) == query_numbers(first, 0)


@pytest.mark.parametrize("ks", [[2, 4], (2, 4), np.array([2, 4]), range(2, 5, 2)])
def test_ks_may_be_a_list_a_tuple_an_array_or_a_range(ks):
    """All mean the same, and are kept as plain integers."""
    measurement = measure(FIXTURE, ks)
    assert measurement.candidate_ks == (2, 4)
    assert {type(k) for k in measurement.candidate_ks} == {int}


def test_every_k_is_one_to_the_most_rows():
    """A query with more rows than the others decides."""
    short = fixture_fields(rows=6, shared=5)["queries"][0]
    assert every_k(FIXTURE) == range(1, 10)
    assert every_k(loaded(queries=[short, FIELDS["queries"][0], short])) == range(1, 10)


@pytest.mark.parametrize("logits", [1, 17, 40])
def test_chunks_of_ks_change_no_digit(monkeypatch, logits):
    """Many ks are measured in chunks to save memory; one by one, or some at a time, they give the same."""
    whole = measure(FIXTURE, every_k(FIXTURE))
    monkeypatch.setattr(measure_module, "_CHUNK_LOGITS", logits)
    chunked = measure(FIXTURE, every_k(FIXTURE))
    assert [numbers(chunked, k) for k in every_k(FIXTURE)] == [numbers(whole, k) for k in every_k(FIXTURE)]
    assert query_numbers(chunked, 2) == query_numbers(whole, 2)


THREADS = pytest.mark.parametrize("threshold", [0, 2**62], ids=["threads", "one thread"])


def test_threads_change_no_digit(monkeypatch):
    """Queries of very many numbers are replayed side by side, and come back in their order."""
    alone = measure(FIXTURE, every_k(FIXTURE))
    monkeypatch.setattr(measure_module, "_WORTH_THREADS", 0)
    together = measure(FIXTURE, every_k(FIXTURE))
    assert [query_numbers(together, query) for query in range(3)] == [query_numbers(alone, query) for query in range(3)]


@THREADS
def test_somebody_who_waits_is_told_how_far_it_is(monkeypatch, threshold):
    """Before each query, and after the last."""
    monkeypatch.setattr(measure_module, "_WORTH_THREADS", threshold)
    told = []
    measure(FIXTURE, (2,), on_query=lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_somebody_who_waits_may_stop_it(spy):
    """What on_query raises goes through, and no further query is replayed."""
    calls, _ = spy

    class StoppedError(Exception):
        """Enough."""

    def stop(done, _total):
        if done == 1:
            raise StoppedError

    with pytest.raises(StoppedError):
        measure(FIXTURE, (2,), on_query=stop)
    assert calls["FibCoder.score"] == 1


@pytest.mark.parametrize("ks", [[], [0], [-1], [1, 0]])
def test_ks_that_mean_nothing_are_refused(ks):
    """Before anything is encoded."""
    with pytest.raises(ConfigError, match=r"^candidate_ks"):
        measure(FIXTURE, ks)


def test_a_k_beyond_the_rows_reads_them_all():
    """The number stays as asked, the counts are those of all rows; the largest u64 is no problem."""
    measurement = measure(FIXTURE, (9, 10, 2**64 - 1))
    assert measurement.candidate_ks == (9, 10, 2**64 - 1)
    assert measurement.queries.decoded_values.tolist() == [[9, 9, 9]] * 3
    assert measurement.metrics["decode_reduction"].tolist() == [1.0, 1.0, 1.0]
    for k in (10, 2**64 - 1):
        assert numbers(measurement, k) == numbers(measurement, 9)


def test_queries_with_fewer_rows_read_what_they_have():
    """Counts add up over queries of different lengths."""
    short = fixture_fields(rows=6, shared=5)["queries"][0]
    measurement = measure(loaded(queries=[FIELDS["queries"][0], short]), (2, 8))
    assert measurement.queries.decoded_values.tolist() == [[2, 8], [2, 6]]
    assert measurement.full_decode_value_count == 15
    assert measurement.metrics["decode_reduction"].tolist() == [15 / 4, 15 / 14]


def test_a_measurement_says_whose_it_is():
    """Model, digest of the fixture, number of queries."""
    measurement = measure(FIXTURE, (2,))
    assert (measurement.model_id, measurement.fixture_digest) == (FIXTURE.model_id, FIXTURE.digest)
    assert measurement.query_count == 3


@pytest.mark.parametrize(("measured", "asked"), [(9, 9), (9, 10), (10, 9), (2**64 - 1, 9), (12, 2**64 - 1)])
def test_all_ks_beyond_the_rows_are_one(measured, asked):
    """Where one of them was measured, all of them were; with 9 rows that begins at 9."""
    assert measure(FIXTURE, (2, measured)).index_of(asked) == 1
    with pytest.raises(ConfigError, match=r"^candidate k 8 was not measured; "):
        measure(FIXTURE, (2, measured)).index_of(8)


def test_a_zero_row_is_named_by_its_place_in_the_fixture_whichever_tier_refuses_it():
    """A shell codec that refuses a row speaks of the fixture's row, not of the shell's."""
    fields = json.loads(json.dumps(FIELDS))
    fields["queries"][1]["values"][7] = [0.0] * 8
    with pytest.raises(CodecError, match=r"^query 1, values row 7 is all zeros; "):
        check_replayable(load_fixture(encoded(fields)), ReplayOptions(shell_codec="fib_k4_n32"))


def test_a_k_that_was_not_measured_has_no_place():
    """The error lists what was."""
    with pytest.raises(ConfigError, match=r"^candidate k 5 was not measured; measured were 2, 4$"):
        measure(FIXTURE, (2, 4)).index_of(5)


@pytest.mark.parametrize(("row", "fine"), [(4, False), (5, True)])
@pytest.mark.parametrize("kind", ["keys", "values"])
def test_a_zero_row_is_refused_in_the_pool_and_fine_in_the_shell(row, fine, kind):
    """Row 4 is the pool's last, row 5 the shell's first; the message counts rows as the fixture does."""
    fields = json.loads(json.dumps(FIELDS))
    fields["queries"][2][kind][row] = [0.0] * 8
    fixture = load_fixture(encoded(fields))
    if fine:
        assert measure(fixture, (9,)).query_count == 3
        return
    for check in (check_replayable, lambda fixture: measure(fixture, (9,))):
        with pytest.raises(CodecError, match=f"^query 2, {kind} row {row} is all zeros; "):
            check(fixture)


@pytest.mark.parametrize("head_dim", [4, 6, 9])
def test_a_head_size_that_the_codecs_cannot_hold_is_refused_before_any_work(spy, head_dim):
    """By name, and nothing was encoded."""
    calls, _ = spy
    with pytest.raises(CodecError, match=f"^head_dim is {head_dim}; "):
        measure(load_fixture(encoded(fixture_fields(head_dim=head_dim))), (2,))
    assert not calls


def test_the_measurement_agrees_with_a_plain_python_oracle():
    """Loops over decoded rows and scores, in Python's own floats, come to the same metrics at every k."""
    queries = []
    for index, query in enumerate(FIXTURE.queries):
        tiers = []
        for codec, rows, seed in ((FibQuant(), slice(0, 5), 7 + index), (TurboQuant(), slice(5, 9), 10_007 + index)):
            coder = codec.coder(8, seed)
            keys, values = coder.encode(query.keys[rows]), coder.encode(query.values[rows])
            tiers.append((coder.score(keys, query.query).tolist(), coder.decode(values).tolist()))
        queries.append(
            {
                "scores": tiers[0][0] + tiers[1][0],
                "values": tiers[0][1] + tiers[1][1],
                "output": query.exact_attention_output.tolist(),
                "logits": query.exact_logits.tolist(),
                "label": query.label_token,
            }
        )
    ks = tuple(range(1, 11))
    receipt = run_captured_model_replay(FIXTURE, CapturedReplayConfig(ks))
    for candidate in receipt.candidate_results:
        expected = oracle.metrics(queries, FIXTURE.output_projection.tolist(), candidate.candidate_k)
        for name, value in expected.items():
            assert getattr(candidate, name) == pytest.approx(value, rel=1e-6, abs=1e-6), (candidate.candidate_k, name)


def test_receipts_do_not_depend_on_the_number_of_threads():
    """One BLAS thread or two: the same bytes, for head sizes with and without a power of two."""
    names = ("d64_sink", "d80_not_power_of_two", "d16_three_shared_rows")
    paths = [str(stored(GOLDEN / "captured" / name / "fixture.json")) for name in names]
    program = f"""
        from polykv_core import CapturedReplayConfig, load_fixture, run_captured_model_replay
        for path in {paths!r}:
            print(run_captured_model_replay(load_fixture(path), CapturedReplayConfig((1, 3, 8, 16, 64))).to_json())
    """
    one, two = (fresh_python(program, OPENBLAS_NUM_THREADS=count) for count in ("1", "2"))
    assert one.count("poly_kv_captured_model_replay_v1") == 3
    assert one == two


def test_scores_of_extreme_size_give_no_number_that_passes():
    """Shell values near the end of float32 overflow on the way: such metrics fail, and no receipt is written."""
    fields = json.loads(json.dumps(FIELDS))
    for query in fields["queries"]:
        query["values"][5:] = [[3e38] * 8] * 4
    receipt = run_captured_model_replay(load_fixture(encoded(fields)), CapturedReplayConfig((9,)))
    assert not receipt.passed
    assert receipt.blockers[0] == "output_cosine_mean NaN < 0.7500"
    with pytest.raises(ReceiptError, match=r"^candidate_results\[0\], output_cosine_mean is nan; "):
        receipt.to_json()


def exact_cache(shape, rows):
    """A pool and a shell that compress nothing."""
    pool = SharedKVPool.build(rows[: len(rows) // 2], shape, 0, codec=ExactCodec())
    return pool, pool.materialize_shell("agent", rows[len(rows) // 2 :], 0, codec=ExactCodec())


@given(draw=st.integers(0, 200), rows=st.integers(2, 12), layer=st.integers(0, 1), head=st.integers(0, 1))
def test_a_lossless_cache_read_whole_replays_exact_attention(draw, rows, layer, head):
    """With exact codecs and k = all there is nothing between the replay and exact attention."""
    shape = KvTensorShape(2, 2, 6)
    pool, shell = exact_cache(shape, gaussian(rows, shape.row_width, draw))
    queries = [ModelReplayQuery(query, 3) for query in gaussian(3, 6, draw + 1)]
    config = ModelReplayConfig(layer=layer, head=head, candidate_ks=(rows,), vocab_size=11)
    found = measure_model(pool, shell, queries, config).metrics
    assert found["output_cosine_mean"][0] == pytest.approx(1.0, abs=1e-6)
    assert found["output_mse_mean"][0] == pytest.approx(0.0, abs=1e-10)
    assert found["kl_divergence_mean"][0] == pytest.approx(0.0, abs=1e-6)
    assert found["ppl_proxy_delta"][0] == pytest.approx(0.0, abs=1e-5)
    assert found["decode_reduction"][0] == 1.0


def test_a_lossless_cache_read_in_part_errs_less_the_more_is_read():
    """One row is not the whole attention; the last k is."""
    shape = KvTensorShape(1, 1, 8)
    pool, shell = exact_cache(shape, gaussian(40, 16))
    queries = [ModelReplayQuery(query, 0) for query in gaussian(8, 8, draw=1)]
    found = measure_model(pool, shell, queries, ModelReplayConfig(candidate_ks=(1, 4, 16, 40))).metrics
    assert all(np.diff(found["output_mse_mean"]) < 0)
    assert found["output_cosine_mean"][0] < 0.99


def test_a_model_replay_s_layers_and_heads_differ():
    """Each reads its own rows."""
    shape = KvTensorShape(2, 2, 8)
    pool, shell = exact_cache(shape, gaussian(12, shape.row_width))
    queries = [ModelReplayQuery(gaussian(1, 8)[0], 0)]
    found = {
        measure_model(pool, shell, queries, ModelReplayConfig(layer, head, (2,))).metrics["output_mse_mean"][0]
        for layer in (0, 1)
        for head in (0, 1)
    }
    assert len(found) == 4


@pytest.mark.parametrize(
    ("query", "label", "message"),
    [
        (np.ones(7, np.float32), 0, "query 1, query has 7 numbers; expected head_dim = 8"),
        (np.full(8, np.nan, np.float32), 0, "query 1, query, column 0 is nan; "),
        (np.ones(8, np.float32), 5, "query 1, label_token is 5; expected a whole number from 0 to 4"),
        (np.ones(8, np.float32), -1, "query 1, label_token is -1; expected a whole number from 0 to 4"),
    ],
)
def test_model_queries_that_do_not_fit_are_refused(query, label, message):
    """By number, before the replay."""
    shape = KvTensorShape(1, 1, 8)
    pool, shell = exact_cache(shape, gaussian(4, 16))
    queries = [ModelReplayQuery(np.ones(8, np.float32), 0), ModelReplayQuery(query, label)]
    with pytest.raises(CaseError) as refused:
        measure_model(pool, shell, queries, ModelReplayConfig(candidate_ks=(2,), vocab_size=5))
    assert str(refused.value).startswith(message)


def test_a_model_replay_without_queries_or_ks_is_refused():
    """There would be nothing to say."""
    pool, shell = exact_cache(KvTensorShape(1, 1, 8), gaussian(4, 16))
    with pytest.raises(CaseError, match=r"^queries is empty; "):
        measure_model(pool, shell, [], ModelReplayConfig(candidate_ks=(2,)))
    with pytest.raises(ConfigError, match=r"^candidate_ks is empty; "):
        measure_model(pool, shell, [ModelReplayQuery(np.ones(8, np.float32), 0)], ModelReplayConfig())


def test_the_synthetic_projection_is_the_reference_s_formula():
    """With x = (t + 1) 0.013 + (i + 1) 0.017 + seed 0.0001: a sine and a cosine of it, in float32."""
    found = synthetic_projection(3, 2, 5)
    assert found.dtype == np.float32
    for token in range(3):
        for dim in range(2):
            x = (token + 1) * 0.013 + (dim + 1) * 0.017 + 5 * 0.0001
            assert found[token, dim] == pytest.approx(np.sin(x) * 0.25 + np.cos(x) * 0.10, abs=1e-7)


def test_a_golden_measurement_covers_every_k():
    """The curve over every k from 1 to n holds the receipt's candidates as points."""
    folder = GOLDEN / "captured" / "d8_unscaled"
    fixture = load_fixture(stored(folder / "fixture.json"))
    rows = max(query.row_count for query in fixture.queries)
    curve = measure(fixture, range(1, rows + 1))
    for candidate in read_golden(folder / "receipt.json")["candidate_results"]:
        at = curve.index_of(candidate["candidate_k"])
        assert curve.metrics["output_mse_mean"][at] == pytest.approx(candidate["output_mse_mean"], abs=1e-6)


def test_a_mean_over_many_queries_does_not_depend_on_the_other_ks():
    """Alone, in pairs and among all ks every metric has the same digits, also its mean over many queries."""
    fixture = load_fixture(encoded(fixture_fields(queries=11, rows=9, shared=4, vocab=7)))
    every = measure(fixture, every_k(fixture))
    for ks in ([5], [2, 5], [9, 5, 1]):
        some = measure(fixture, ks)
        for name, values in some.metrics.items():
            assert values[ks.index(5)] == every.metrics[name][4], (ks, name)
