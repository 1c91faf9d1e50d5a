"""The statistics of a captured head, against the same in plain Python: math and lists, nothing of the core."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polykv_core.metrics import METRICS, QueryMetrics
from polykv_core.statistics import PERCENTS, Estimate, head_statistics

# The losses there are: of probabilities, floored at 1e-12.
losses = st.floats(1e-12, 1.0).map(lambda probability: -math.log(probability))
one_query = st.tuples(losses, losses, st.floats(0.0, 27.0), st.booleans())
many = st.lists(one_query, min_size=10, max_size=40)
few = st.lists(one_query, min_size=1, max_size=9)


def query_metrics(rows):
    """Queries of (loss compressed, loss exact, KL, top 1 the same), as the second of two ks; the first is another."""
    compressed, exact, kl, same = (np.array(column) for column in zip(*rows, strict=True))
    shape = (len(rows), 2)
    return QueryMetrics(
        cosine=np.ones(shape),
        mse=np.zeros(shape),
        kl=np.column_stack([kl + 1.0, kl]),
        nll_exact=exact[:, None],
        nll_compressed=np.column_stack([compressed + 1.0, compressed]),
        top1_same=np.column_stack([~same, same]),
        decoded_values=np.ones(shape, np.int64),
        rows=np.ones(len(rows), np.int64),
    )


def statistics(rows):
    """Statistics at the second k."""
    return head_statistics(query_metrics(rows), 1)


def mean(numbers):
    """The mean."""
    return math.fsum(numbers) / len(numbers)


def covariance(x, y):
    """Mean of products less product of means over n - 1, from all pairs, so that nothing cancels."""
    n = len(x)
    pairs = [(x[i] - x[j]) * (y[i] - y[j]) for i in range(n) for j in range(i)]
    return math.fsum(pairs) / n**2 / (n - 1)


def error_of_mean(numbers):
    """Standard error of the mean."""
    return math.sqrt(covariance(numbers, numbers))


def percentile(numbers, percent):
    """Interpolated between the two numbers around it."""
    ordered = sorted(numbers)
    place = percent / 100.0 * (len(ordered) - 1)
    below = min(int(place), len(ordered) - 1)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def approx(number, scale=1.0):
    """To nine digits of the number, or of the scale where the number is a difference of such."""
    return pytest.approx(number, rel=1e-9, abs=1e-9 * scale)


def assert_spread(found, numbers):
    """A distribution, but for its mean's error, is that of the numbers."""
    percents = [99.9, 99.0, 95.0, 90.0, 50.0, 10.0, 5.0, 1.0, 0.1]
    assert found.mean.value == approx(mean(numbers))
    assert (found.maximum, found.minimum) == (approx(max(numbers)), approx(min(numbers)))
    assert [percent for percent, _ in found.percentiles] == percents
    assert [value for _, value in found.percentiles] == approx([percentile(numbers, percent) for percent in percents])


def columns(rows):
    """The lists a, b, KL, same and the change of the label's probability."""
    a, b, kl, same = (list(column) for column in zip(*rows, strict=True))
    return a, b, kl, same, [math.exp(-x) - math.exp(-y) for x, y in zip(a, b, strict=True)]


def estimates(found):
    """Every estimate of the statistics, by name."""
    single = {name: value for name, value in vars(found).items() if isinstance(value, Estimate)}
    return {**single, "kl": found.kl_divergence.mean, "change": found.probability_change.mean}


@given(rows=many | few)
def test_values_are_those_of_the_oracle(rows):
    """For any number of queries."""
    found = statistics(rows)
    a, b, kl, same, change = columns(rows)
    ppl_a, ppl_b = math.exp(mean(a)), math.exp(mean(b))
    assert found.query_count == len(rows)
    assert found.ppl_compressed.value == approx(ppl_a)
    assert found.ppl_exact.value == approx(ppl_b)
    assert found.ppl_log_ratio.value == approx(mean(a) - mean(b))
    assert found.ppl_ratio.value == approx(math.exp(mean(a) - mean(b)))
    assert found.ppl_difference.value == approx(ppl_a - ppl_b, max(ppl_a, ppl_b))
    assert_spread(found.kl_divergence, kl)
    assert_spread(found.probability_change, change)
    assert found.probability_change_rms.value == approx(math.sqrt(mean([x * x for x in change])))
    assert found.top1_agreement.value == approx(sum(same) / len(same))


@given(rows=many)
def test_errors_are_those_of_the_oracle(rows):
    """Those of a mean, carried through exponentials, the root and the difference."""
    found = statistics(rows)
    a, b, kl, same, change = columns(rows)
    ppl_a, ppl_b, ratio = math.exp(mean(a)), math.exp(mean(b)), math.exp(mean(a) - mean(b))
    # Their own error is that of a difference: u(a)^2 + u(b)^2 - 2 C and the like cancel down to the square of noise.
    of_log_ratio = error_of_mean([x - y for x, y in zip(a, b, strict=True)])
    of_difference = error_of_mean([ppl_a * x - ppl_b * y for x, y in zip(a, b, strict=True)])
    rms, share = math.sqrt(mean([x * x for x in change])), sum(same) / len(same)
    assert found.ppl_compressed.error == approx(ppl_a * error_of_mean(a))
    assert found.ppl_exact.error == approx(ppl_b * error_of_mean(b))
    assert found.ppl_log_ratio.error == approx(of_log_ratio)
    assert found.ppl_ratio.error == approx(ratio * of_log_ratio)
    assert found.ppl_difference.error == approx(of_difference, max(ppl_a, ppl_b))
    assert found.kl_divergence.mean.error == approx(error_of_mean(kl))
    assert found.probability_change.mean.error == approx(error_of_mean(change))
    of_squares = error_of_mean([x * x for x in change])
    assert found.probability_change_rms.error == approx(of_squares / (2.0 * rms) if rms else 0.0)
    assert found.top1_agreement.error == approx(math.sqrt(share * (1.0 - share) / (len(same) - 1)))


@given(rows=many)
def test_errors_of_differences_count_the_covariance(rows):
    """u(a)^2 + u(b)^2 - 2 C for the log ratio, the same with U = PPL u for the difference of the perplexities."""
    found = statistics(rows)
    a, b, *_ = columns(rows)
    ppl_a, ppl_b = math.exp(mean(a)), math.exp(mean(b))
    of_a, of_b, c = covariance(a, a), covariance(b, b), covariance(a, b)
    squared_a, squared_b = ppl_a**2 * of_a, ppl_b**2 * of_b
    assert found.ppl_log_ratio.error**2 == approx(of_a + of_b - 2.0 * c, of_a + of_b)
    expected = squared_a + squared_b - 2.0 * ppl_a * ppl_b * c
    assert found.ppl_difference.error**2 == approx(expected, squared_a + squared_b)


@given(rows=many | few)
def test_the_correlation_is_that_of_the_oracle(rows):
    """And within -1 and 1 to the last digit; there is none where a loss never varies."""
    found = statistics(rows).correlation
    a, b, *_ = columns(rows)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert found is None
    else:
        assert found == approx(covariance(a, b) / math.sqrt(covariance(a, a)) / math.sqrt(covariance(b, b)))
        assert -1.0 <= found <= 1.0


def test_statistics_worked_by_hand():
    """Losses 0 and 2 against 1, five times each: mean 1, mean of squares 2, n - 1 = 9, so u = 1 / 3."""
    found = statistics([(0.0, 1.0, 0.0, True), (2.0, 1.0, 1.0, False)] * 5)
    assert vars(found.ppl_compressed) == approx({"value": math.e, "error": math.e / 3.0})
    assert vars(found.ppl_exact) == approx({"value": math.e, "error": 0.0})
    assert vars(found.ppl_log_ratio) == approx({"value": 0.0, "error": 1.0 / 3.0})
    assert vars(found.ppl_ratio) == approx({"value": 1.0, "error": 1.0 / 3.0})
    assert vars(found.ppl_difference) == approx({"value": 0.0, "error": math.e / 3.0})
    assert vars(found.kl_divergence.mean) == approx({"value": 0.5, "error": 1.0 / 6.0})
    assert vars(found.top1_agreement) == approx({"value": 0.5, "error": 1.0 / 6.0})
    assert found.correlation is None


def test_what_never_varies_has_no_error():
    """Not even of rounding: ten times 0.1 add up to less than 1."""
    found = statistics([(0.1, 0.1 * i, 0.1, True) for i in range(10)])
    assert found.kl_divergence.mean.error == found.ppl_compressed.error == 0.0
    assert found.correlation is None


@given(rows=many)
def test_ten_queries_have_errors(rows):
    """Every one of them, and there is nothing to say about it."""
    found = statistics(rows)
    assert found.errors_withheld == ""
    assert None not in [estimate.error for estimate in estimates(found).values()]


@given(rows=few)
def test_fewer_than_ten_queries_have_no_errors(rows):
    """Not one of them."""
    assert {estimate.error for estimate in estimates(statistics(rows)).values()} == {None}


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (1, "standard errors are withheld: 1 query is too few (10 are needed)"),
        (4, "standard errors are withheld: 4 queries are too few (10 are needed)"),
        (9, "standard errors are withheld: 9 queries are too few (10 are needed)"),
    ],
)
def test_why_errors_are_withheld(count, sentence):
    """A sentence with the number of queries, and last in the text."""
    found = statistics([(1.0, 0.5, 0.1, True)] * count)
    assert found.errors_withheld == sentence
    assert found.lines()[-1] == sentence


@given(row=one_query)
def test_one_query_is_its_own_distribution(row):
    """Mean, extremes and every percentile are its number; a correlation takes two."""
    found = statistics([row])
    for spread, number in ((found.kl_divergence, row[2]), (found.probability_change, columns([row])[4][0])):
        numbers = [spread.mean.value, spread.maximum, spread.minimum, *(value for _, value in spread.percentiles)]
        assert numbers == approx([number] * len(numbers))
    assert found.correlation is None


@given(rows=many)
def test_a_lossless_replay_changes_nothing(rows):
    """The same losses on both sides: no difference, without an error, and in step wherever they vary."""
    found = statistics([(exact, exact, 0.0, True) for _, exact, *_ in rows])
    assert found.ppl_log_ratio == Estimate(0.0, 0.0)
    assert found.ppl_ratio == Estimate(1.0, 0.0)
    assert found.ppl_difference == Estimate(0.0, 0.0)
    assert found.probability_change_rms == Estimate(0.0, 0.0)
    assert found.correlation is None or 1.0 - 1e-9 <= found.correlation <= 1.0


@given(rows=many | few)
def test_percentiles_lie_in_order(rows):
    """From the maximum down to the minimum, up to rounding."""
    found = statistics(rows)
    for spread in (found.kl_divergence, found.probability_change):
        numbers = [spread.maximum, *(value for _, value in spread.percentiles), spread.minimum]
        assert (np.diff(numbers) <= 1e-12).all()


@given(rows=many | few)
def test_values_are_a_receipt_s(rows):
    """What a receipt reports too is the same number there."""
    queries = query_metrics(rows)
    reported = {metric.name: metric.over_queries(queries)[1] for metric in METRICS}
    found = head_statistics(queries, 1)
    assert found.kl_divergence.mean.value == reported["kl_divergence_mean"]
    assert found.top1_agreement.value == reported["top1_agreement"]
    assert found.ppl_exact.value == pytest.approx(reported["ppl_proxy_exact"], rel=1e-14)
    assert found.ppl_compressed.value == pytest.approx(reported["ppl_proxy_compressed"], rel=1e-14)


@pytest.mark.parametrize("undefined", [math.nan, math.inf])
def test_a_divergence_that_is_not_finite(undefined):
    """Shows in its own statistics, in no others, and as no warning."""
    found = statistics([(1.0, 0.5, undefined, True), *[(2.0, 1.0, 0.1, True)] * 9])
    assert not math.isfinite(found.kl_divergence.mean.value)
    assert not math.isfinite(found.kl_divergence.mean.error)
    assert not math.isfinite(found.kl_divergence.maximum)
    assert found.ppl_difference.value == approx(math.exp(1.9) - math.exp(0.95))


@given(rows=many | few)
def test_the_fields_survive_json(rows):
    """Written and read back they are equal, with the title and every percentile."""
    fields = statistics(rows).to_dict()
    assert json.loads(json.dumps(fields, allow_nan=False)) == fields
    assert fields["title"] == "captured-head proxy"
    assert [float(percent) for percent in fields["kl_divergence"]["percentiles"]] == list(PERCENTS)


def test_the_fields_hold_what_the_statistics_do():
    """An estimate as an object, a distribution as another."""
    found = statistics([(1.0, 0.5, 0.25, True), (2.0, 0.5, 0.75, True)])
    fields = found.to_dict()
    assert fields["query_count"] == 2
    assert fields["ppl_ratio"] == {"value": found.ppl_ratio.value, "error": None}
    assert fields["kl_divergence"]["mean"] == {"value": 0.5, "error": None}
    assert fields["kl_divergence"]["percentiles"]["50"] == 0.5
    assert fields["errors_withheld"] == found.errors_withheld


def varied(count):
    """Queries that differ from each other."""
    return [(0.5 + 0.125 * i, 0.5 + 0.0625 * (i % 3), 0.01 * i, i % 2 == 0) for i in range(count)]


SPREAD = ["Mean   ", "Maximum", "99.9%  ", "99.0%  ", "95.0%  ", "90.0%  ", "Median "]
SPREAD += ["10.0%  ", " 5.0%  ", " 1.0%  ", " 0.1%  ", "Minimum"]
LINES = [
    "====== Perplexity statistics (captured-head proxy) ======",
    "Mean PPL(Q)                   : ",
    "Mean PPL(base)                : ",
    "Cor(ln(PPL(Q)), ln(PPL(base))): ",
    "Mean ln(PPL(Q)/PPL(base))     : ",
    "Mean PPL(Q)/PPL(base)         : ",
    "Mean PPL(Q)-PPL(base)         : ",
    "",
    "====== KL divergence statistics ======",
    *(f"{row} KLD: " for row in SPREAD),
    "",
    "====== Token probability statistics ======",
    *(f"{row} Δp: " for row in SPREAD),
    "RMS Δp    : ",
    "Same top p: ",
]


def test_each_label_stands_once_and_in_order():
    """As in llama.cpp's output, label for label, and nothing else."""
    starts = [re.match(r"(=.*|.*?: |)", line)[0] for line in statistics(varied(12)).lines()]
    assert starts == LINES


def test_columns_line_up():
    """Within a section colons stand below each other, and so do the errors' signs and ends."""
    for section in "\n".join(statistics(varied(12)).lines()).split("\n\n"):
        _, *lines = section.splitlines()
        assert len({line.index(": ") for line in lines}) == 1
        assert len({(line.index("±"), len(line)) for line in lines if "±" in line}) == 1


def shown(rows, label):
    """What follows a label in the text, with single spaces."""
    (line,) = (line for line in statistics(rows).lines() if line.startswith(label))
    return re.sub(r" +", " ", line.partition(": ")[2]).strip()


def test_errors_stand_next_to_their_values():
    """Six significant digits; percentages with three decimals."""
    rows = [(0.0, 1.0, 0.0, True), (2.0, 1.0, 1.0, False)] * 5
    assert shown(rows, "Mean PPL(Q) ") == "2.71828 ± 0.906094"
    assert shown(rows, "Mean    KLD") == "0.500000 ± 0.166667"
    assert shown(rows, "Maximum KLD") == "1.00000"
    assert shown(rows, "Same top p") == "50.000 ± 16.667 %"
    assert shown(rows, "Minimum Δp") == "-23.254 %"


def test_withheld_errors_are_left_out():
    """No sign of them, and no trailing unit of theirs."""
    assert shown(varied(4), "Mean PPL(Q) ") == "1.98874"
    assert shown(varied(4), "Same top p") == "50.000 %"
    assert "±" not in "".join(statistics(varied(4)).lines())


def test_a_correlation_is_a_percentage_or_undefined():
    """Undefined where a loss never varies."""
    assert shown([(1.0, 1.0, 0.0, True), (2.0, 1.5, 0.0, True)], "Cor") == "100.000 %"
    assert shown([(1.0, 1.0, 0.0, True), (1.0, 1.5, 0.0, True)], "Cor") == "undefined"


def test_zero_has_no_sign_and_whole_numbers_no_point():
    """What only rounds to zero included."""
    assert shown([(1.0, 1.0 - 1e-7, 0.0, True)], "Mean    Δp") == "0.000 %"
    assert shown([(math.log(123456.0), 1.0, 0.0, True)], "Mean PPL(Q) ") == "123456"
