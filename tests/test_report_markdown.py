"""The summary for a pull request: what it says, and that no foreign text does anything in it."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from polykv_core import GATES, CapturedReplayConfig, ReplayOptions, judge, load_fixture, measure
from polykv_core.report import Outcome, markdown_summary

SAMPLES = Path(__file__).parents[1] / "sample_fixtures"
FIXTURE = load_fixture(SAMPLES / "synthetic_d16_basic.json")
MEASURED = measure(FIXTURE, (8, 64))
PASSING = {"max_ppl_delta": 10.0}
HOSTILE = "<img src=x onerror=alert(1)> ![a](http://e.vil) [b](javascript:c) @octocat #1 | ``` \n# H <!-- www.evil.com"


def outcome(name="a.json", model_id="synthetic", **gates):
    """The synthetic sample judged at k = 8 and 64; with PASSING it passes at 64."""
    receipt = judge(MEASURED, CapturedReplayConfig((8, 64), **gates))
    return Outcome(name, replace(receipt, model_id=model_id))


@dataclass(frozen=True)
class Seen:
    """A rendered page: its tags but for code, in order, and the text outside of code."""

    tags: list[str]
    outside: str

    @classmethod
    def of(cls, markdown):
        """What GitHub would make of it."""
        page = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
        without_code = re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL)
        return cls(re.findall(r"<(\w+)", without_code), re.sub(r"<[^>]*>", "", without_code))


def test_the_verdict_comes_first():
    """As an icon, a word and a sentence."""
    first, _, second, *_ = markdown_summary([outcome(), outcome("b", **PASSING)]).splitlines()
    assert first == "## ❌ FAILED"
    assert second.startswith("FAILED: 1 of 2 fixtures fails; worst: |PPL delta| of `a.json` at k = 64")
    assert markdown_summary([outcome(**PASSING)]).startswith("## ✅ PASSED\n")
    assert markdown_summary([Outcome("x", None, "gone")]).startswith("## ⚠️ NO VERDICT\n")


def test_a_row_for_each_fixture():
    """Verdict, k, the worst gate with its numbers, and the decode reduction; the failing ones first."""
    page = markdown_summary([outcome("good.json", **PASSING), outcome("bad.json"), Outcome("none.json", None, "gone")])
    rows = [line for line in page.splitlines() if ".json` |" in line]
    assert [row.replace("\N{MULTIPLICATION SIGN}", "x") for row in rows] == [
        "| `none.json` | ⚠️ NO VERDICT |  | `gone` |  |  |  |  |",
        "| `bad.json` | ❌ FAILED | 64 | \\|PPL delta\\| | 4.75 | at most 1 | 3.75 too high | 1.125x |",
        "| `good.json` | ✅ PASSED | 64 | Output cosine | 0.7559 | at least 0.75 | 0.005898 to spare | 1.125x |",
    ]


def test_details_hold_the_candidates():
    """A mark before each number that fails."""
    page = markdown_summary([outcome(**PASSING)])
    assert "| 8 | ✕ 0.67132 | 0.16446 | 0.091172 | 5.6569 | 0.25 | 9\N{MULTIPLICATION SIGN} | ✕ fails |" in page
    assert (
        "| 64 (selected) | 0.7559 | 0.12618 | 0.06994 | 4.7496 | 0.5 | 1.125\N{MULTIPLICATION SIGN} | ✓ passes |"
        in page
    )


def test_details_say_why_and_what_is_odd():
    """Blockers in words, gates that are off, findings, and the digest."""
    page = markdown_summary([outcome(max_kl_divergence=GATES[2].off)])
    assert re.search(r"- \|PPL delta\| is 4\.749\d+, but the gate asks for at most 1: it misses by 3\.749\d+", page)
    assert "Switched off: KL divergence." in page
    assert "- With 4 queries top-1 agreement moves in steps of 0.25" in page
    assert f"Fixture `{FIXTURE.digest}`" in page


def test_what_departs_from_the_reference_is_said():
    """Options and statistic."""
    measured = measure(FIXTURE, (8,), options=ReplayOptions(query_coding="exact"))
    page = markdown_summary([Outcome("a", judge(measured, CapturedReplayConfig((8,), statistic="worst")))])
    assert "- `query_coding exact`" in page
    assert "- gates hold the worst over the queries, not the mean" in page


def test_the_claim_boundary_is_said():
    """Once, at the end."""
    page = markdown_summary([outcome(), outcome("b.json")])
    assert page.count("What is not claimed: captured tensor replay") == 1


def test_a_receipt_without_provenance_is_told_as_well():
    """As the Rust crate writes them."""
    bare = replace(outcome(**PASSING).receipt, evidence={})
    page = markdown_summary([Outcome("a.json", bare)])
    assert "What is odd" not in page
    assert "| 64 (selected) |" in page


def test_foreign_text_does_nothing():
    """No link, image, HTML, heading or further cell: the page has the tags of one with harmless names."""
    evidence = {"findings": [{"code": "x", "text": HOSTILE}], "fixture": {"digest": HOSTILE}}

    def page(text):
        receipt = replace(outcome(model_id=text).receipt, claim_boundary=text, evidence=evidence)
        return Seen.of(markdown_summary([Outcome(text, receipt), Outcome(text, None, text)]))

    assert not {"a", "img", "script", "h1"} & set(page(HOSTILE).tags)
    assert page(HOSTILE).tags == page("harmless").tags
    assert not [trace for trace in ("octocat", "evil", "#1", "onerror") if trace in page(HOSTILE).outside]


@given(text=st.text(alphabet="`|\\ ab<>@!\n*_[]()&\u202e\x00", max_size=200))
def test_no_name_breaks_out_of_its_code(text):
    """Whatever marks it is made of."""
    page = Seen.of(markdown_summary([Outcome(text, outcome(model_id=text).receipt), Outcome(text, None, text)]))
    harmless = Seen.of(markdown_summary([Outcome("a", outcome().receipt), Outcome("a", None, "a")]))
    assert page.tags == harmless.tags


def test_a_long_name_is_cut():
    """At 120 characters."""
    page = markdown_summary([outcome("n" * 500, **PASSING)])
    assert f"`{'n' * 119}…`" in page
    assert "n" * 120 not in page


@pytest.mark.parametrize("count", [60, 3000])
def test_many_fixtures_fit_a_comment(count):
    """Details, then rows, are left out, and the page says how many."""
    page = markdown_summary([outcome(f"{index}-{'|' * 100}", **PASSING) for index in range(count)])
    assert len(page) < 60_000
    assert "Left out, for a comment holds no more:" in page
    assert "What is not claimed" in page


def test_what_fails_is_not_left_out():
    """It stands first."""
    many = [outcome(f"{index}-{'n' * 100}", **PASSING) for index in range(1000)]
    page = markdown_summary([*many, outcome("the-bad-one.json")])
    assert "| `the-bad-one.json` | ❌ FAILED |" in page
    assert "<summary>✕ <code>the-bad-one.json</code></summary>" in page
