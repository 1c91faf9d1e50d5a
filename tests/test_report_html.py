"""The HTML report: what it says, that it needs nothing else, that foreign text is inert, and the receipt in it."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from polykv_core import (
    GATES,
    CapturedReplayConfig,
    CapturedReplayReceipt,
    ReceiptError,
    command_line,
    every_k,
    explain,
    judge,
    load_fixture,
    measure,
)
from polykv_core.metrics import QueryMetrics
from polykv_core.report import ReportPart, html_report, receipts_in_report

SAMPLES = Path(__file__).parents[1] / "sample_fixtures"
FIXTURE = load_fixture(SAMPLES / "synthetic_d16_basic.json")
CURVE = measure(FIXTURE, every_k(FIXTURE))
EXPLANATION = explain(FIXTURE, 64)
HOSTILE = "</title></style><script>alert(1)</script><img src=http://e.vil onerror=x>\"'\u202e{{ 7 * 7 }}"
VOID = {"meta", "link", "br", "img"}


def part(name="a.json", curve=CURVE, ks=(8, 64), explanation=EXPLANATION, **gates):
    """The synthetic sample judged; with max_ppl_delta=10 it passes at k = 64."""
    config = CapturedReplayConfig(ks, **gates)
    return ReportPart(name, judge(curve, config), curve, explanation, command_line(name, config, "receipt.json"))


def made_up(**values):
    """The sample's curve with some metrics of its queries replaced, the same for each query."""
    arrays = {name: np.tile(np.asarray(value, dtype=np.float64), (4, 1)) for name, value in values.items()}
    fields = {name: getattr(CURVE.queries, name) for name in QueryMetrics.__dataclass_fields__}
    return replace(CURVE, queries=QueryMetrics(**fields | arrays))


class Page(HTMLParser):
    """A page as a browser reads it: tags with their attributes, whether all are closed, and the text."""

    def __init__(self, html):
        """Read the whole page."""
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        """Note a tag, and that it is open."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Note a tag that closes itself."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """Take a tag back that is closed."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Note text, but for style sheets."""
        if self.open and self.open[-1] != "style":
            self.text += data


def charts(html):
    """The charts by the end of their identity."""
    found = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]  # noqa: S314 - our own
    return {svg.get("aria-labelledby").removesuffix("-title").split("-", 2)[2]: svg for svg in found}


def kinds(svg):
    """How often each class is drawn."""
    names = [name for element in svg.iter() for name in element.get("class", "").split()]
    return {name: names.count(name) for name in names}


def test_a_pass_is_told():
    """Where, with what to spare, and what of all ks passes."""
    text = Page(html_report([part(max_ppl_delta=10.0)])).text
    assert "PASSED at k = 64" in text
    assert "The tightest gate is Output cosine, with 0.00589" in text
    assert "Of all k from 1 to 72, the smallest that passes is k = 41" in text


def test_a_failure_is_told():
    """With each blocker in words: value, rule, and by how much it misses."""
    text = Page(html_report([part()])).text
    assert "FAILED at every candidate k" in text
    assert re.search(r"\|PPL delta\| is 4\.749\d*, but the gate asks for at most 1: it misses by 3\.749", text)


def test_the_fixture_is_told():
    """Model, digests and rows, and what measured it."""
    text = Page(html_report([part()])).text
    for fact in ("synthetic-head-d16", FIXTURE.digest, "4, 72 rows each", CURVE.made_with.numpy):
        assert fact in text


def test_every_query_and_candidate_has_a_row():
    """And every gate, with its interval."""
    tables = {attrs.get("aria-label") for tag, attrs in Page(html_report([part()])).tags if tag == "div"}
    assert {"Gates at k = 64", "All candidates", "Query by query at k = 64"} <= tables
    assert "95 % interval" in Page(html_report([part()])).text


def test_many_queries_are_cut_to_the_worst():
    """And the table says so."""
    fields = {name: getattr(CURVE.queries, name) for name in QueryMetrics.__dataclass_fields__}
    many = QueryMetrics(**{name: np.concatenate([array] * 20) for name, array in fields.items()})
    text = Page(html_report([part(curve=replace(CURVE, queries=many), explanation=None)])).text
    assert "The 50 worst of 80 are shown" in text


def test_an_explanation_may_be_missing():
    """Then the report has no ladder, and all the rest."""
    html = html_report([part(explanation=None)])
    assert "Where the fidelity goes" not in html
    assert len(charts(html)) == 6


def test_the_ladder_says_what_each_stage_costs():
    """In words for those who do not see its bars."""
    ladder = charts(html_report([part()]))["ladder-output_cosine_mean"]
    assert "Exact attention adds 0.18" in ladder.find("desc").text
    assert kinds(ladder)["whole"] == 1


def test_the_reader_is_told_how_to_get_the_same():
    """The command as it is given, and the one that verifies."""
    text = Page(html_report([part("my file.json")])).text
    assert "polykv replay 'my file.json' --candidate-ks=8,64" in text
    assert re.search(r"polykv verify synthetic-head-d16_failed_\w+\.json 'my file.json'", text)


def test_the_report_is_whole_html():
    """Every tag is closed, and no id is there twice."""
    page = Page(html_report([part(), part("b.json", max_ppl_delta=10.0)]))
    assert page.open == []
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_the_report_asks_for_nothing():
    """No script, no address but in the page itself, and a policy that forbids the rest."""
    html = html_report([part(), part("b.json")])
    assert not {"script", "iframe", "object", "img", "form"} & {tag for tag, _ in Page(html).tags}
    targets = [attrs.get("href") or attrs.get("src") for _, attrs in Page(html).tags if {"href", "src"} & set(attrs)]
    assert all(target.startswith(("#", "data:")) for target in targets)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in html
    assert not re.search(r"url\(|@import", html)


def test_foreign_text_is_inert():
    """The page has the tags of one with harmless names, nothing is filled in, and hidden characters are shown."""

    def page(text):
        receipt = replace(part(max_ppl_delta=10.0).receipt, model_id=text, claim_boundary=text)
        curve = replace(CURVE, model_id=text)
        return Page(
            html_report([ReportPart(text, receipt, curve, None, text), ReportPart(text, receipt, curve, None, text)])
        )

    assert [tag for tag, _ in page(HOSTILE).tags] == [tag for tag, _ in page("harmless").tags]
    assert "{{ 7 * 7 }}" in page(HOSTILE).text
    assert "\u202e" not in page(HOSTILE).text
    downloads = [attrs["download"] for tag, attrs in page(HOSTILE).tags if "download" in attrs]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+\.json", name) for name in downloads)


def test_the_receipt_comes_out_byte_for_byte():
    """From text and from bytes, in the order of the parts, whatever is in it."""
    parts = [part(), part("b.json", max_ppl_delta=10.0)]
    parts[1] = replace(parts[1], receipt=replace(parts[1].receipt, model_id=f"é\u202e😀{HOSTILE}"))
    expected = tuple(each.receipt.to_json().encode() for each in parts)
    html = html_report(parts)
    assert receipts_in_report(html) == expected
    assert receipts_in_report(html.encode()) == expected


def test_the_receipts_text_can_be_read_in_the_page():
    """It says the same; what cannot be seen is written as JSON's escapes."""
    receipt = replace(part().receipt, model_id="é\u202e\U000e0001")
    html = html_report([replace(part(), receipt=receipt)])
    text = re.search(r"<details>.*?<pre[^>]*>(.*?)</pre>", html, re.DOTALL)[1]
    assert CapturedReplayReceipt.from_dict(json.loads(Page(f"<pre>{text}</pre>").text)).model_id == receipt.model_id
    assert "\\u202e" in text
    assert "é" in text


@pytest.mark.parametrize("html", ["", "<a href='data:application/json;base64,e30='>no download</a>", b"\xff\x00"])
def test_a_page_without_a_receipt_is_refused(html):
    """Not taken for one with none to check."""
    with pytest.raises(ReceiptError, match="holds no receipt"):
        receipts_in_report(html)


def test_a_damaged_receipt_is_refused():
    """Cut in the middle of the data."""
    with pytest.raises(ReceiptError, match="damaged"):
        receipts_in_report("<a download='r.json' href='data:application/json;base64,e30=x*'>")


def test_several_parts_have_a_table_of_contents():
    """After the sentence over all of them."""
    page = Page(html_report([part("a.json"), part("b.json", max_ppl_delta=10.0)]))
    assert "FAILED: 1 of 2 fixtures fails; worst: |PPL delta| of a.json" in page.text
    assert [attrs["href"] for tag, attrs in page.tags if tag == "a" and "download" not in attrs] == [
        "#fixture-1",
        "#fixture-2",
    ]


def test_no_part_is_refused():
    """There is nothing to report."""
    with pytest.raises(ReceiptError, match="no receipt"):
        html_report([])


def test_a_chart_for_each_gate_in_words_too():
    """A title and a description that names value, verdict and rule."""
    drawn = charts(html_report([part(max_ppl_delta=10.0)]))
    assert {gate.metric for gate in GATES} < set(drawn)
    told = drawn["output_cosine_mean"].find("desc").text
    assert "for every k from 1 to 72; higher is better, gate: at least 0.75" in told
    assert "k = 8: 0.6713, fails; k = 64: 0.7559, passes" in told


def test_marks_of_a_chart():
    """Pass, fail, selected, smallest, gate and shade are shapes of their own."""
    found = kinds(charts(html_report([part(max_ppl_delta=10.0)]))["output_cosine_mean"])
    assert {name: found.get(name) for name in ("pass", "fail", "selected", "smallest", "gate", "fails-here")} == dict(
        {"pass": 1, "fail": 1, "selected": 1, "smallest": 1, "gate": 1}, **{"fails-here": 1}
    )


def test_a_gate_that_is_off_is_not_drawn():
    """And the heading says that it is off."""
    html = html_report([part(min_output_cosine=GATES[0].off)])
    assert "gate" not in kinds(charts(html)["output_cosine_mean"])
    assert "<b>Output cosine</b> <span>gate off</span>" in html


def test_a_gate_far_away_is_named_at_the_edge():
    """Where all fail all is shaded; where all pass nothing is."""
    far = charts(html_report([part(max_output_mse=1e6)]))["output_mse_mean"]
    assert "off scale" in [element.text for element in far.iter()]
    assert not {"gate", "fails-here"} & set(kinds(far))


def test_zeros_stand_on_a_floor():
    """On a logarithmic axis, with a tick that says 0."""
    kl = np.geomspace(10.0, 1e-4, 72)
    kl[40:50] = 0.0
    chart = charts(html_report([part(curve=made_up(kl=kl), explanation=None)]))["kl_divergence_mean"]
    assert kinds(chart)["zero"] == 10
    assert "0" in [element.text for element in chart.iter("text")]
    assert "KL divergence (nats), lower is better, log scale" in [element.text for element in chart.iter()]


def test_a_gap_where_a_value_is_not_finite():
    """The line does not run through what is not there."""
    cosine = np.full(72, 0.9)
    cosine[30] = np.nan
    chart = charts(html_report([part(curve=made_up(cosine=cosine), explanation=None)]))["output_cosine_mean"]
    assert kinds(chart)["curve"] == 2


def test_a_receipt_alone_is_enough_for_a_curve():
    """Measured at its candidates only, ks beyond the rows among them: nothing is claimed of the ks between."""
    receipt = CapturedReplayReceipt.from_json(part(ks=(64, 8, 200), max_ppl_delta=10.0).receipt.to_json())
    text = Page(html_report([ReportPart("a.json", receipt, receipt.measurement, None, "polykv replay")])).text
    assert "The line joins the ks that were measured." in text
    assert "smallest" not in text


def test_a_number_that_is_not_finite_is_refused():
    """As no receipt may hold it."""
    broken = part(curve=made_up(mse=np.full(72, np.inf)), explanation=None)
    with pytest.raises(ReceiptError, match="finite"):
        html_report([broken])


def test_the_same_parts_give_the_same_bytes():
    """No clock, no path of this machine."""
    assert html_report([part()]) == html_report([part()])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda text: "<![" + text, "no HTML that polykv wrote"),
        (
            lambda text: text.replace("data:application/json;base64,", "data:application/json;charset=utf-8;base64,"),
            "download",
        ),
    ],
)
def test_a_report_that_was_tampered_with_is_refused(changed, told):
    """A declaration that the parser chokes on, and a link that offers something else to download."""
    with pytest.raises(ReceiptError, match=told):
        receipts_in_report(changed(html_report([part()])))
