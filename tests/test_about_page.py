"""The page about the numbers: every metric and gate of the core, what they mean, and what is not claimed."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui.definitions import DEFINITIONS
from polykv_core import GATES, METRICS, words
from polykv_core.receipt import CAPTURED_CLAIM_BOUNDARY, MODEL_CLAIM_BOUNDARY

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def page():
    """The page, opened from the first one."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run()
    app = app.switch_page("pages/about/page.py").run()
    assert not app.exception
    return app


def said(page):
    """Everything in sentences."""
    return "\n".join(element.value for kind in (page.markdown, page.caption, page.text) for element in kind)


def test_every_metric_is_defined():
    """A formula, how it is averaged and what it means; and nothing that the core does not measure."""
    assert set(DEFINITIONS) == {metric.name for metric in METRICS}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_shown_with_formula_direction_and_receipt_field(page, metric):
    """Facts come from the core's list, words from the definitions."""
    definition = DEFINITIONS[metric.name]
    assert words.named(metric.name, metric.label) in [heading.value for heading in page.subheader]
    assert any(definition.formula in latex.value for latex in page.latex)
    assert definition.meaning in [text.value for text in page.markdown]
    assert f"In a receipt: `{metric.name}`" in said(page)
    assert any(caption.value.lower().startswith(metric.direction) for caption in page.caption)


def test_every_gate_is_in_the_table(page):
    """With its side, its default, and what it looks like when switched off."""
    table = page.table[0].value
    assert list(table["In a receipt"]) == [gate.threshold for gate in GATES]
    assert list(table["Seed default"]) == ["0.75", "0.25", "0.5", "1", "0.25"]
    by_gate = dict(zip(table["In a receipt"], table["Passes when"], strict=True))
    assert by_gate["max_ppl_delta"] == "|value| is at most the threshold"
    assert by_gate["min_output_cosine"] == "value is at least the threshold"
    assert list(table["Threshold when off"]) == [words.number(gate.off) for gate in GATES]


@pytest.mark.parametrize("boundary", [CAPTURED_CLAIM_BOUNDARY, MODEL_CLAIM_BOUNDARY])
def test_what_is_not_claimed_stands_there_word_for_word(page, boundary):
    """Both receipts' boundaries, verbatim."""
    assert boundary in [text.value for text in page.text]


@pytest.mark.parametrize(
    "fact",
    [
        "**Selected k**: The first candidate in the list that passes every gate",
        "**Smallest passing k**: The smallest of all ks, candidate or not",
        "**Blockers**",
        "**Decode reduction**",
        "**Receipt**",
        "Equality passes",
        "divide scores by $\\sqrt{d}$",
        "`seed + 10000 + i`",
    ],
)
def test_what_a_reader_asks_is_answered(page, fact):
    """The terms of the other pages, the missing scale, and where seeds come from."""
    assert fact in said(page)
