"""Replay options: what they refuse, what each changes in a replay, and how the command line takes them."""

import json
import math
import re

import numpy as np
import oracle
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support import changed, encoded, fixture_fields, refused_with

from polykv_core import (
    CODECS,
    REFERENCE,
    CapturedReplayConfig,
    ConfigError,
    ExactCodec,
    FibQuant,
    KvTensorShape,
    ReplayOptions,
    SharedKVPool,
    TurboQuant,
    cli,
    every_k,
    load_fixture,
    measure,
    run_captured_model_replay,
)
from polykv_core.attention import cache_scores, rank
from polykv_core.codecs import codec_of
from polykv_core.measure import captured_cache

FIELDS = fixture_fields(rows=9, shared=5, queries=3)
FIXTURE = load_fixture(encoded(FIELDS))
KS = every_k(FIXTURE)
LOSSLESS = {"pool_codec": "exact", "shell_codec": "exact"}
# One of each, other than the reference's.
OTHERS = {"attention_scale": 0.3, "query_coding": "exact", "pool_codec": "fib_k4_n8", "shell_codec": "turbo_12bit"}

codecs = st.one_of(
    st.just(ExactCodec()),
    st.builds(FibQuant, st.sampled_from([4, 8]), st.integers(2, 4096)),
    st.builds(TurboQuant, st.integers(2, 16), st.integers(1, 2**16)),
)
float32_scales = st.floats(1e-37, 1e38)
scales = st.one_of(st.sampled_from(["reference", "inverse_sqrt_head_dim"]), float32_scales)
options_of_any_kind = st.builds(ReplayOptions, scales, st.sampled_from(["compressed", "exact"]), codecs, codecs)


def refusal(**fields):
    """What options say about a field that they refuse, read from JSON or given in Python."""
    from_json = refused_with(ConfigError, lambda: ReplayOptions.from_dict(fields))
    assert from_json == refused_with(ConfigError, lambda: ReplayOptions(**fields))
    return from_json


def digits(measurement):
    """Every number of a measurement, as bytes."""
    arrays = [*vars(measurement.queries).values(), *measurement.metrics.values()]
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def captured_at(scale, **shape):
    """A fixture whose outputs are attention with this scale, computed in float64."""
    fields = fixture_fields(**shape)
    projection = np.array(fields["output_projection"])
    for query in fields["queries"]:
        keys, values = np.array(query["keys"]), np.array(query["values"])
        weights = np.exp(scale * (keys @ np.array(query["query"])))
        output = weights / weights.sum() @ values
        logits = projection @ output
        query |= {
            "exact_attention_output": output.tolist(),
            "exact_logits": logits.tolist(),
            "label_token": int(logits.argmax()),
        }
    return load_fixture(encoded(fields))


# The values


def test_the_defaults_are_the_reference_s_and_nothing_is_changed():
    """No options, REFERENCE, and every default spelled out are the same, and differ from the reference in nothing."""
    spelled = ReplayOptions("reference", "compressed", FibQuant(4, 32), TurboQuant(8, 32))
    assert ReplayOptions() == REFERENCE == spelled == ReplayOptions.from_dict({})
    assert REFERENCE.changed == {}


@pytest.mark.parametrize(
    "options",
    [ReplayOptions(), ReplayOptions("reference", "compressed", "fib_k4_n32", "turbo_8bit_p32")],
    ids=["default", "spelled out"],
)
def test_default_options_change_no_digit_of_a_measurement(options):
    """Measured with them or without, every number is the same to the last bit."""
    assert digits(measure(FIXTURE, KS, options=options)) == digits(measure(FIXTURE, KS))


def test_default_options_leave_scores_as_the_codecs_give_them():
    """The scale of 1 rounds nothing: scores are those of both coders, bit for bit."""
    pool, shell = captured_cache(FIXTURE, 1)
    query = FIXTURE.queries[1].query
    raw = np.concatenate([pool.tier.scores(0, 0, query), shell.tier.scores(0, 0, query)])
    assert cache_scores(pool, shell, 0, 0, query).tobytes() == raw.tobytes()


@pytest.mark.parametrize(
    ("scale", "shown"),
    [
        (0, "0.0"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (-1, "-1.0"),
        (-0.125, "-0.125"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        ("half", "'half'"),
        ("0.3", "'0.3'"),
        ("Reference", "'Reference'"),
        ("", "''"),
        (True, "true"),
        (None, "null"),
        ([1.0], "a list of 1"),
        ({}, "a JSON object of 0"),
        (1e300, "1e+300"),
        (1e-300, "1e-300"),
        (3.5e38, "3.5e+38"),
        (10**400, "an integer of about 401 digits"),
    ],
)
def test_a_scale_that_is_no_positive_float32_is_refused(scale, shown):
    """Zero, negative, not finite, beyond float32 on either side, or no number; the message has the value."""
    assert refusal(attention_scale=scale).startswith(f"attention_scale is {shown}; expected ")


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), np.float16(0.5)])
def test_a_scale_becomes_a_plain_number(number):
    """NumPy's numbers can be given, and the options still write as JSON."""
    options = ReplayOptions(attention_scale=number)
    assert type(options.attention_scale) is float
    assert json.dumps(options.changed) == '{"attention_scale": 0.5}'


@pytest.mark.parametrize(("scale", "plain"), [(3, 3.0), (np.int64(2), 2.0)])
def test_a_whole_number_is_a_scale(scale, plain):
    """Integers mean the same as floats, and become floats."""
    assert ReplayOptions(attention_scale=scale) == ReplayOptions(attention_scale=plain)
    assert type(ReplayOptions(attention_scale=scale).attention_scale) is float


@pytest.mark.parametrize("scale", [1, 1.0, 1.0 + 1e-12])
def test_a_scale_of_one_is_the_reference_s(scale):
    """What float32 holds as 1 changes no number, so it is no option either."""
    assert ReplayOptions(attention_scale=scale) == ReplayOptions()
    assert ReplayOptions(attention_scale=scale).changed == {}


def test_a_codec_without_its_settings_is_refused():
    """The class is no codec: the parentheses were forgotten."""
    with pytest.raises(ConfigError, match=r"^pool_codec is .*; expected a codec, or the id of one$"):
        ReplayOptions(pool_codec=FibQuant)


def test_near_scores_keep_their_order_at_any_scale():
    """Scores one last digit apart would tie once they are scaled; they are ranked before."""
    keys = np.zeros((9, 8), dtype=np.float32)
    keys[:, 0] = np.float32(1.9) + np.arange(9, dtype=np.float32) * np.float32(2.0**-23)
    rows = np.concatenate([keys, np.ones((9, 8), dtype=np.float32)], axis=1)
    pool = SharedKVPool.build(rows[:5], KvTensorShape(1, 1, 8), 0, ExactCodec())
    shell = pool.materialize_shell("a", rows[5:], 0, ExactCodec())
    query = np.eye(8, dtype=np.float32)[0]
    for scale in ("reference", "inverse_sqrt_head_dim", 1e-44):
        ranked = rank(pool, shell, 0, 0, query, 9, ReplayOptions(attention_scale=scale))
        assert ranked.rows.tolist() == list(range(8, -1, -1))


@pytest.mark.parametrize(
    ("coding", "shown"),
    [
        ("none", "'none'"),
        ("", "''"),
        ("Exact", "'Exact'"),
        (None, "null"),
        (1, "1"),
        (True, "true"),
        ([], "a list of 0"),
    ],
)
def test_a_query_coding_of_another_name_is_refused(coding, shown):
    """The message has the value, and the names there are."""
    assert refusal(query_coding=coding) == f"query_coding is {shown}; expected one of compressed, exact"


@pytest.mark.parametrize("tier", ["pool_codec", "shell_codec"])
@pytest.mark.parametrize(
    ("codec", "told"),
    [
        ("fib_k3_n32", "fib_quant with block_dim 3 and 32 codewords; expected block_dim 4 or 8"),
        ("fib_k4_n1", "fib_quant with block_dim 4 and 1 codewords; expected"),
        ("fib_k4_n4097", "fib_quant with block_dim 4 and 4097 codewords; expected"),
        ("turbo_1bit", "turbo_quant with 1 bits and 32 projections; expected 2 to 16 bits"),
        ("turbo_17bit", "turbo_quant with 17 bits and 32 projections; expected"),
        ("turbo_8bit_p0", "turbo_quant with 8 bits and 0 projections; expected"),
        ("zip", "no codec is called 'zip'; expected an id such as exact, fib_k4_n32, turbo_8bit"),
        ("", "no codec is called ''; expected"),
        ("Exact", "no codec is called 'Exact'; expected"),
        ("exact ", "no codec is called 'exact '; expected"),
        ("fib_k4_n32\n", r"no codec is called 'fib_k4_n32\n'; expected"),
        ("fib_k\u0664_n32", "no codec is called 'fib_k\u0664_n32'; expected"),
        ("fib_k-4_n32", "no codec is called 'fib_k-4_n32'; expected"),
        ("turbo_8bit_p", "no codec is called 'turbo_8bit_p'; expected"),
        ("x" * 999, f"no codec is called '{'x' * 40}'; expected"),
    ],
    ids=lambda text: text[:12].encode("unicode_escape").decode() or "nothing",
)
def test_an_id_of_no_codec_is_refused(tier, codec, told):
    """Unknown names, and known ones with settings that code nothing; the message has tier and value."""
    assert refusal(**{tier: codec}).startswith(f"{tier}: {told}")


@pytest.mark.parametrize("tier", ["pool_codec", "shell_codec"])
@pytest.mark.parametrize(
    ("codec", "shown"), [(5, "5"), (1.5, "1.5"), (None, "null"), (True, "true"), (["exact"], "a list of 1")]
)
def test_what_is_neither_codec_nor_id_is_refused(tier, codec, shown):
    """Numbers, null, lists; the message has tier and value."""
    assert refusal(**{tier: codec}) == f"{tier} is {shown}; expected a codec, or the id of one"


def test_every_refusal_of_a_codec_s_settings_is_a_config_error():
    """Not the CodecError that the codec itself raises: whoever reads options catches one kind."""
    assert refused_with(ConfigError, lambda: ReplayOptions(shell_codec="turbo_1bit")) is not None


@given(codec=codecs)
def test_a_codec_is_read_from_its_id(codec):
    """Whatever its settings; so its name in a receipt says all there is to know."""
    assert codec_of(codec.id) == codec
    assert type(codec_of(codec.id)) is type(codec)
    assert ReplayOptions(pool_codec=codec.id) == ReplayOptions(pool_codec=codec)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.id)
def test_every_codec_there_is_can_be_asked_for_by_its_id(codec):
    """In either tier; a codec that is only in the list of codecs and not among the ids fails here."""
    options = ReplayOptions(pool_codec=codec.id, shell_codec=codec.id)
    assert (options.pool_codec, options.shell_codec) == (codec, codec)


@given(options=options_of_any_kind)
def test_what_is_changed_makes_the_same_options_again(options):
    """By way of JSON text; only what differs from the reference is written."""
    record = json.loads(json.dumps(options.changed))
    assert ReplayOptions.from_dict(record) == options
    for name in ("attention_scale", "query_coding", "pool_codec", "shell_codec"):
        assert (name in record) == (getattr(options, name) != getattr(REFERENCE, name))


def test_what_is_changed_is_named_in_one_order():
    """That of the fields, whatever the order they were given in."""
    given_backwards = ReplayOptions.from_dict(dict(reversed(OTHERS.items())))
    assert given_backwards.changed == OTHERS
    assert list(given_backwards.changed) == list(OTHERS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("atention_scale", "attention_scale"),
        ("attention_scales", "attention_scale"),
        ("query_codeing", "query_coding"),
        ("pool_codecs", "pool_codec"),
        ("shellcodec", "shell_codec"),
    ],
)
def test_an_option_typed_wrong_is_pointed_out(typed, meant):
    """An option that would silently keep its default is worse than an error."""
    said = refused_with(ConfigError, lambda: ReplayOptions.from_dict({typed: "exact"}))
    assert said == f"the options has an unknown field '{typed}'; did you mean '{meant}'?"


@pytest.mark.parametrize("data", [None, [], "exact", 1])
def test_options_that_are_no_object_are_refused(data):
    """They are fields with values, as in a receipt."""
    said = refused_with(ConfigError, lambda: ReplayOptions.from_dict(data))
    assert said is not None
    assert said.endswith("; expected a JSON object")


@given(head_dim=st.integers(1, 1024), number=float32_scales)
def test_the_scale_is_one_or_the_root_s_inverse_or_the_number(head_dim, number):
    """As a float32, for any head size."""
    found = {
        scale: ReplayOptions(attention_scale=scale).scale(head_dim)
        for scale in ("reference", "inverse_sqrt_head_dim", number)
    }
    assert {type(scale) for scale in found.values()} == {np.float32}
    assert found["reference"] == 1.0
    assert found["inverse_sqrt_head_dim"] == pytest.approx(head_dim**-0.5, rel=1e-7)
    assert found[number] == pytest.approx(number, rel=1e-7)


# What they change


@pytest.mark.parametrize(
    ("given_as", "scale"), [("inverse_sqrt_head_dim", 8**-0.5), (0.05, 0.05), (2.5, 2.5)], ids=["root", "0.05", "2.5"]
)
def test_a_capture_is_replayed_without_loss_at_its_own_scale(given_as, scale):
    """With exact codecs and every row read nothing is lost there, and something is at the reference's scale."""
    fixture = captured_at(scale, rows=20, shared=12, queries=4)
    own = measure(fixture, (20,), options=ReplayOptions(given_as, **LOSSLESS)).metrics
    assert own["output_cosine_mean"][0] == pytest.approx(1.0, abs=1e-9)
    assert own["output_mse_mean"][0] == pytest.approx(0.0, abs=1e-10)
    assert own["kl_divergence_mean"][0] == pytest.approx(0.0, abs=1e-6)
    assert own["top1_agreement"][0] == 1.0
    assert measure(fixture, (20,), options=ReplayOptions(**LOSSLESS)).metrics["output_cosine_mean"][0] < 0.98


@pytest.mark.parametrize("k", [1, 3, 9])
def test_scores_are_scaled_before_the_softmax(k):
    """The outputs at any k weigh by exp(scale x score), in a float64 oracle of its own."""
    scale = 0.2
    found = measure(FIXTURE, (k,), options=ReplayOptions(scale, **LOSSLESS)).queries.mse[:, 0]
    for mse, query in zip(found, FIXTURE.queries, strict=True):
        keys, values, wide = (array.astype(np.float64) for array in (query.keys, query.values, query.query))
        scores = keys @ wide
        best = np.argsort(-scores, kind="stable")[:k]
        weights = np.exp(scale * scores[best])
        output = weights / weights.sum() @ values[best]
        assert mse == pytest.approx(np.mean((output - query.exact_attention_output) ** 2), rel=1e-4, abs=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"attention_scale": "inverse_sqrt_head_dim"},
        {"query_coding": "exact"},
        {"pool_codec": "exact"},
        {"shell_codec": "turbo_4bit_p64"},
        {"pool_codec": "turbo_8bit", "shell_codec": "fib_k4_n16", "query_coding": "exact"},
        OTHERS,
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_a_replay_with_options_agrees_with_a_plain_python_oracle(options):
    """Loops over each codec's decoded rows and scores come to the same metrics at every k."""
    fields = {"attention_scale": 1.0, "query_coding": "compressed", "pool_codec": "fib_k4_n32"}
    fields = {**fields, "shell_codec": "turbo_8bit", **options}
    scale = 8**-0.5 if fields["attention_scale"] == "inverse_sqrt_head_dim" else fields["attention_scale"]
    queries = []
    for index, query in enumerate(FIXTURE.queries):
        scores, values = [], []
        for name, rows, seed in (("pool", slice(0, 5), 7 + index), ("shell", slice(5, 9), 10_007 + index)):
            codec = codec_of(fields[f"{name}_codec"])
            coder = codec.coder(8, seed)
            keys = coder.encode(query.keys[rows])
            if fields["query_coding"] == "exact" and codec.id.startswith("fib"):
                decoded, wide = coder.decode(keys).tolist(), query.query.tolist()
                scores += [math.fsum(a * b for a, b in zip(key, wide, strict=True)) for key in decoded]
            else:
                scores += coder.score(keys, query.query).tolist()
            values += coder.decode(coder.encode(query.values[rows])).tolist()
        queries.append(
            {
                "scores": [score * scale for score in scores],
                "values": values,
                "output": query.exact_attention_output.tolist(),
                "logits": query.exact_logits.tolist(),
                "label": query.label_token,
            }
        )
    receipt = run_captured_model_replay(FIXTURE, CapturedReplayConfig(tuple(KS)), ReplayOptions(**options))
    for candidate in receipt.candidate_results:
        expected = oracle.metrics(queries, FIXTURE.output_projection.tolist(), candidate.candidate_k)
        for name, value in expected.items():
            assert getattr(candidate, name) == pytest.approx(value, rel=1e-6, abs=2e-6), (candidate.candidate_k, name)


@given(draw=st.integers(0, 99), scale=st.floats(1e-3, 1e3), limit=st.integers(1, 40))
def test_a_scale_changes_no_row_that_is_read(draw, scale, limit):
    """The same rows in the same order with the same decoded values; each score is multiplied and rounded once."""
    fixture = load_fixture(encoded(fixture_fields(rows=40, shared=25, queries=1, draw=draw)))
    pool, shell = captured_cache(fixture, 0)
    query = fixture.queries[0].query
    plain = rank(pool, shell, 0, 0, query, limit)
    scaled = rank(pool, shell, 0, 0, query, limit, ReplayOptions(attention_scale=scale))
    np.testing.assert_array_equal(scaled.rows, plain.rows)
    np.testing.assert_array_equal(scaled.values, plain.values)
    np.testing.assert_array_equal(scaled.scores, plain.scores * np.float32(scale))


@pytest.mark.parametrize("scale", [1e-3, "inverse_sqrt_head_dim", 50.0])
def test_a_single_row_is_read_whole_whatever_the_scale(scale):
    """At k = 1 the best row weighs 1, so the scale shows in no number; at k = 2 it does."""
    options = ReplayOptions(attention_scale=scale)
    assert digits(measure(FIXTURE, (1,), options=options)) == digits(measure(FIXTURE, (1,)))
    assert digits(measure(FIXTURE, (2,), options=options)) != digits(measure(FIXTURE, (2,)))


@pytest.mark.parametrize("scale", [0.25, 2.0])
@pytest.mark.parametrize("coding", ["compressed", "exact"])
def test_a_scale_is_a_query_with_it_multiplied_in(scale, coding):
    """A capture whose queries carry the scale measures the same, to the last bit where it is a power of two."""
    fields = json.loads(json.dumps(FIELDS))
    for query in fields["queries"]:
        query["query"] = [scale * number for number in query["query"]]
    plain, scaled = (ReplayOptions(number, coding) for number in ("reference", scale))
    multiplied_in = measure(load_fixture(encoded(fields)), KS, options=plain)
    assert digits(multiplied_in) == digits(measure(FIXTURE, KS, options=scaled))
    assert digits(multiplied_in) != digits(measure(FIXTURE, KS, options=plain))


def test_an_exact_query_scores_the_pool_s_decoded_keys():
    """FibQuant's own look-up is left aside: each pool row's score is its decoded key times the query, in float32."""
    options = ReplayOptions(query_coding="exact")
    pool, shell = captured_cache(FIXTURE, 0, options)
    query = FIXTURE.queries[0].query
    found = cache_scores(pool, shell, 0, 0, query, options)
    total = np.zeros(5, dtype=np.float32)
    for column, entry in zip(pool.tier.keys(0, 0).T, query, strict=True):
        total = total + column * entry
    np.testing.assert_array_equal(found[:5], total)
    assert np.abs(found[:5] - cache_scores(pool, shell, 0, 0, query)[:5]).max() > 0.01
    np.testing.assert_array_equal(found[5:], shell.tier.scores(0, 0, query))


@pytest.mark.parametrize("pool", ["exact", "turbo_8bit"])
def test_an_exact_query_is_nothing_new_to_codecs_that_do_not_code_it(pool):
    """With such codecs in both tiers every digit of the replay stays; with FibQuant in one it does not."""
    plain, exact = (ReplayOptions(query_coding=coding, pool_codec=pool) for coding in ("compressed", "exact"))
    assert digits(measure(FIXTURE, KS, options=exact)) == digits(measure(FIXTURE, KS, options=plain))
    plain, exact = (
        ReplayOptions(query_coding=coding, pool_codec=pool, shell_codec="fib_k4_n32")
        for coding in ("compressed", "exact")
    )
    assert digits(measure(FIXTURE, KS, options=exact)) != digits(measure(FIXTURE, KS, options=plain))


def test_a_measurement_carries_its_options():
    """So that its receipt can tell."""
    options = ReplayOptions(**OTHERS)
    assert measure(FIXTURE, (2,), options=options).options == options
    assert measure(FIXTURE, (2,)).options == REFERENCE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool_codec": "fib_k8_n16"}, "head_dim is 8; fib_k8_n16 needs a multiple of 8 larger than 8"),
        ({"shell_codec": "fib_k8_n16"}, "head_dim is 8; fib_k8_n16 needs a multiple of 8 larger than 8"),
    ],
)
def test_a_codec_that_cannot_hold_the_head_is_refused(tmp_path, options, message):
    """Whichever tier it was meant for; on the command line the one line names the file."""
    path = written(tmp_path)
    (name, codec), *_ = options.items()
    result = polykv("replay", path, f"--{name.replace('_', '-')}", codec)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {path}: {message}")
    assert result.stderr.count("\n") == 1


def test_exact_codecs_take_heads_and_rows_that_the_reference_s_do_not():
    """A head of 6, and a zero row in the pool."""
    fields = changed(fixture_fields(head_dim=6), "queries", 0, "keys", 1, to=[0.0] * 6)
    assert measure(load_fixture(encoded(fields)), (3,), options=ReplayOptions(**LOSSLESS)).query_count == 2


# On the command line


def polykv(*args):
    """Run the program in this process."""
    return CliRunner().invoke(cli.main, [str(arg) for arg in args])


def written(tmp_path, fields=FIELDS, name="fixture.json"):
    """A JSON file with these fields."""
    path = tmp_path / name
    path.write_bytes(encoded(fields))
    return path


def one_line(text):
    """Text with its line breaks and runs of blanks made single blanks."""
    return " ".join(text.split())


GIVEN = [
    (("--attention-scale", "inverse_sqrt_head_dim"), {"attention_scale": "inverse_sqrt_head_dim"}),
    (("--attention-scale", "0.3"), {"attention_scale": 0.3}),
    (("--query-coding", "exact"), {"query_coding": "exact"}),
    (("--pool-codec", "exact"), {"pool_codec": "exact"}),
    (("--shell-codec", "turbo_12bit"), {"shell_codec": "turbo_12bit"}),
    ([f"--{name.replace('_', '-')}={value}" for name, value in OTHERS.items()], OTHERS),
]
given_options = pytest.mark.parametrize(("args", "options"), GIVEN, ids=[" ".join(args) for args, _ in GIVEN])


@given_options
@pytest.mark.parametrize("statistic", ["mean", "worst", "p95"])
def test_options_on_the_command_line_give_the_library_s_receipt(tmp_path, args, options, statistic):
    """To the byte, in a file and on standard output."""
    path, receipt = written(tmp_path), tmp_path / "receipt.json"
    told = () if statistic == "mean" else ("--statistic", statistic)
    config = CapturedReplayConfig((2, 9), statistic=statistic)
    expected = run_captured_model_replay(FIXTURE, config, ReplayOptions(**options))
    shared = ("replay", path, "--candidate-ks", "2,9", *args, *told, "--receipt")
    assert polykv(*shared, "-").stdout_bytes == expected.to_json().encode()
    assert polykv(*shared, receipt).exit_code == (0 if expected.passed else 1)
    assert receipt.read_bytes() == expected.to_json().encode()


@given_options
def test_the_table_says_what_is_not_the_reference_s(tmp_path, args, options):
    """Each option with its value, in the last sentence; and no claim of unscaled scores where they are scaled."""
    text = one_line(polykv("replay", written(tmp_path), *args).stdout)
    told = "; ".join(f"{name} {value}" for name, value in options.items())
    assert text.endswith(f"Not as the reference replays: {told}.")
    assert ("not divided by sqrt(head_dim)" in text) == ("attention_scale" not in options)


@pytest.mark.parametrize("statistic", ["worst", "p95"])
def test_the_table_says_which_statistic_the_gates_hold(tmp_path, statistic):
    """In the same sentence, behind the options."""
    shared = ("replay", written(tmp_path), "--statistic", statistic)
    told = f"gates hold the {statistic} over the queries, not the mean."
    assert one_line(polykv(*shared).stdout).endswith(f"Not as the reference replays: {told}")
    both = one_line(polykv(*shared, "--query-coding", "exact").stdout)
    assert both.endswith(f"Not as the reference replays: query_coding exact; {told}")


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--attention-scale", "reference"),
        ("--query-coding", "compressed"),
        ("--pool-codec", "fib_k4_n32", "--shell-codec", "turbo_8bit"),
        ("--statistic", "mean"),
    ],
    ids=lambda args: " ".join(args) or "nothing",
)
def test_the_reference_s_own_values_change_nothing(tmp_path, args):
    """Asked for by name they give its receipt, and the table says nothing about them."""
    path = written(tmp_path)
    expected = run_captured_model_replay(FIXTURE, CapturedReplayConfig((2, 9))).to_json()
    assert polykv("replay", path, "--candidate-ks", "2,9", *args, "--receipt", "-").stdout == expected
    text = polykv("replay", path, *args).stdout
    assert "Not as the reference" not in text
    assert "Scores are not divided by sqrt(head_dim)." in text


def test_a_table_with_every_option_reads_at_80_columns(tmp_path, monkeypatch):
    """No line is longer, and none ends in blanks."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    lines = polykv("replay", "fixture.json", *GIVEN[-1][0], "--statistic", "worst").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("command", ["replay", "explain"])
@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--attention-scale", "bad", "attention_scale is 'bad'"),
        ("--attention-scale", "", "attention_scale is ''"),
        ("--attention-scale", "0", "attention_scale is 0.0"),
        ("--attention-scale", "-1", "attention_scale is -1.0"),
        ("--attention-scale", "nan", "attention_scale is nan"),
        ("--attention-scale", "1e999", "attention_scale is inf"),
        ("--query-coding", "none", "'none' is not one of 'compressed', 'exact'"),
        ("--pool-codec", "zip", "pool_codec: no codec is called 'zip'"),
        ("--pool-codec", "", "pool_codec: no codec is called ''"),
        ("--shell-codec", "turbo_1bit", "shell_codec: turbo_quant with 1 bits"),
    ],
)
def test_an_option_that_means_nothing_is_one_line(tmp_path, command, option, value, told):
    """Exit 2, nothing on standard output, and a line with option and value that blames no file."""
    path = written(tmp_path)
    result = polykv(command, path, option, value)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(rf"error: .*{re.escape(told)}.*\n", result.stderr)
    assert str(path) not in result.stderr


def test_an_unknown_statistic_is_one_line(tmp_path):
    """With the names there are."""
    result = polykv("replay", written(tmp_path), "--statistic", "median")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'median' is not one of 'mean', 'p95', 'worst'" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_config_s_statistic_holds_unless_another_is_asked_for(tmp_path):
    """From the file it is the file's; --statistic overrides it, back to the mean as well."""
    path = written(tmp_path)
    config = written(tmp_path, {"candidate_ks": [2, 9], "statistic": "worst"}, "config.json")
    shared = ("replay", path, "--config", config, "--receipt", "-")
    assert json.loads(polykv(*shared).stdout)["config"]["statistic"] == "worst"
    assert json.loads(polykv(*shared, "--statistic", "p95").stdout)["config"]["statistic"] == "p95"
    mean = run_captured_model_replay(FIXTURE, CapturedReplayConfig((2, 9)))
    assert polykv(*shared, "--statistic", "mean").stdout == mean.to_json()


@pytest.mark.parametrize("command", ["replay", "explain"])
def test_the_help_names_every_option_with_its_default(command):
    """And an id of each kind of codec."""
    text = one_line(polykv(command, "--help").stdout)
    for name in ("--attention-scale", "--query-coding", "--pool-codec", "--shell-codec"):
        assert name in text
    for default in ("reference, which is 1", "compressed", "fib_k4_n32", "turbo_8bit"):
        assert f"[default: {default}]" in text


def test_a_worst_query_is_what_fails_the_gates(tmp_path):
    """One query whose output is turned around, where nine are exact: the mean's 0.8 passes, the worst does not."""
    fields = fixture_fields(rows=9, shared=5, queries=10)
    turned = [-number for number in fields["queries"][4]["exact_attention_output"]]
    path = written(tmp_path, changed(fields, "queries", 4, "exact_attention_output", to=turned))
    shared = ("replay", path, "--candidate-ks", 9, "--pool-codec", "exact", "--shell-codec", "exact")
    shared = (*shared, "--gate-off", "max-output-mse")
    assert polykv(*shared).exit_code == 0
    result = polykv(*shared, "--statistic", "worst")
    assert result.exit_code == 1
    assert "!-1.0000" in result.stdout


@pytest.mark.parametrize("scale", [1.0, 0.125, 64**-0.5, 0.015625, 1 / 3])
def test_the_setting_of_a_scale_is_that_scale(scale):
    """By its name or in digits; a float32's worth of them unless fewer are asked for."""
    setting = ReplayOptions.setting_of(scale, 64)
    assert (setting == "inverse_sqrt_head_dim") == (scale == 0.125)
    named = setting if setting[0].isalpha() else float(setting)
    assert ReplayOptions(attention_scale=named).scale(64) == np.float32(scale)
    assert ReplayOptions.setting_of(1 / 3, 64, digits=4) == "0.3333"
