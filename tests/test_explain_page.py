"""The Explain page: the first sentence, the ladder, what would help, queries and their rows, what one takes away."""

import json
import shlex

import pytest
from dashboard import ROOT, SYNTHETIC, markdown, new_session, set_gates, texts, upload

from pages.ui import explain_state, jobs
from polykv_core import PolyKvError, ReplayOptions, explain, explanation_dict, load_fixture, reasons, what_would_help

PAGE = "pages/explain/page.py"
SAMPLES = ROOT / "sample_fixtures"


@pytest.fixture
def page(app):
    """The page, opened from the first one; the work beside it is waited for."""
    return app.switch_page(PAGE).run()


def tables(app):
    """The first column of each table."""
    return [list(table.value.iloc[:, 0]) for table in app.table]


@pytest.mark.parametrize(
    ("sample", "first"),
    [
        ("smollm2_l0_h0_model.json.gz", "The captured logits are not this head's own"),
        ("smollm2_l15_h2_local.json.gz", "The captured output fits 1/sqrt(64) = 0.125"),
        ("synthetic_d16_basic.json", "The captured output fits 1/sqrt(16) = 0.25"),
    ],
)
def test_the_first_sentence_says_what_costs_most(page, sample, first):
    """In bold, before anything else; the other reasons stand below it."""
    page.selectbox("sample").set_value(sample).run()
    assert not page.exception
    bold = [element.value for element in page.markdown if element.value.startswith("**")]
    assert bold[0].startswith(f"**{first}")
    explanation = explain(load_fixture(SAMPLES / sample), 64)
    for reason in reasons(explanation)[1:]:
        assert f"- {reason}" in markdown(page)
    for finding in explanation.findings:
        assert f":material/warning: {finding.text}" in [caption.value for caption in page.caption]


def test_the_ladder_the_controls_and_the_changes_are_tables(page):
    """Every stage, every single step, every control and every change has its row."""
    stages, alone, controls, changes = tables(page)[:4]
    assert [name.split("**")[1] for name in stages] == [
        "Captured output",
        "Exact attention",
        "Coded keys",
        "Coded values",
        "Top k",
    ]
    assert len(alone) == 4
    assert len(controls) == 3
    assert changes[:2] == ["as replayed", "scale 1/sqrt(64)"]
    assert "**Scale 1/sqrt(64)** brings the output nearest: cosine 0.8794 becomes **0.9772**." in markdown(page)


def test_rows_that_are_not_drawn_are_counted(page):
    """Of the worst query, which is shown at first."""
    explanation = explain(load_fixture(SAMPLES / "smollm2_l15_h2_local.json.gz"), 64)
    rows = explanation.rows[int(explanation.queries.cosine[:, 0].argmin())]
    hidden = sum(max(weights) <= 1e-6 for weights in zip(rows.exact_weights, rows.coded_weights, strict=True))
    assert f"{hidden} rows with a weight of at most 1e-6 are not drawn." in [caption.value for caption in page.caption]


def test_another_k_is_explained_when_it_is_chosen(page):
    """The selected k at first; the others of the list and all rows are offered."""
    (box,) = [box for box in page.selectbox if box.label == "Explained at k"]
    assert box.options == ["k = 8", "k = 16", "k = 32", "k = 64 (selected)", "k = 72 (every row)"]
    box.set_value(8).run()
    assert any(f"--candidate-k={8}" in code.value for code in page.code)


def test_the_explanation_follows_the_replay_options(page):
    """With the scale of the capture nothing but the coding is left to explain."""
    page.selectbox("attention_scale").set_value("inverse_sqrt_head_dim").run()
    assert not page.exception
    bold = next(element.value for element in page.markdown if element.value.startswith("**"))
    expected = explain(
        load_fixture(SAMPLES / "smollm2_l15_h2_local.json.gz"), 64, ReplayOptions("inverse_sqrt_head_dim")
    )
    assert bold == f"**{reasons(expected)[0]}**"
    assert "The captured output fits" not in bold


def test_an_upload_is_explained(page):
    """Its bytes are read again from where they lie; what is taken away is what the core makes of them."""
    upload(page, SYNTHETIC.read_bytes(), "*my* $x$.json")
    set_gates(page, max_ppl_delta=10.0, min_output_cosine=0.7)
    assert "*my* $x$.json, passes" in texts(page)
    assert page.title[0].value == "Why it passes"
    fixture = load_fixture(SYNTHETIC)
    explanation = explain(fixture, 16)
    command = page.code[-1].value
    assert shlex.split(command) == ["polykv", "explain", "*my* $x$.json", "--candidate-k=16"]
    record = explanation_dict(explanation, what_would_help(fixture, explanation))
    assert json.loads(json.dumps(record))["reasons"][0] in markdown(page)


def test_a_faulty_upload_does_not_take_the_place_of_what_is_explained(page):
    """The last good file is still on screen, so another k of it is explained, from that file."""
    upload(page, SYNTHETIC.read_bytes(), "good.json")
    upload(page, b"[]", "faulty.json")
    assert "Below is the last good result, for good.json." in texts(page)
    (box,) = [box for box in page.selectbox if box.label == "Explained at k"]
    box.set_value(8).run()
    assert "This could not be worked out." not in [error.value for error in page.error]
    assert f"**{reasons(explain(load_fixture(SYNTHETIC), 8))[0]}**" in markdown(page)
    assert shlex.split(page.code[-1].value) == ["polykv", "explain", "good.json", "--candidate-k=8"]


def test_what_cannot_be_explained_is_said(page, monkeypatch):
    """The reason is shown, and the verdict's page is left alone."""

    def refused(*_):
        raise PolyKvError("no *such* thing")

    monkeypatch.setattr(explain_state, "explain", refused)
    page.selectbox("sample").set_value(SYNTHETIC.name).run()
    assert "This could not be worked out." in [error.value for error in page.error]
    assert "no *such* thing" in texts(page)
    assert not page.exception


def test_cancelled_changes_can_be_started_again(page, monkeypatch):
    """The rest of the page is there meanwhile."""
    real = explain_state.what_would_help

    def cancelled(*_):
        raise jobs.Cancelled("stopped")

    monkeypatch.setattr(explain_state, "what_would_help", cancelled)
    page.selectbox("sample").set_value(SYNTHETIC.name).run()
    assert not any("as replayed" in table for table in tables(page))
    assert "Captured output" in tables(page)[0][0]
    monkeypatch.setattr(explain_state, "what_would_help", real)
    page.session_state["changes_job"].cancel()
    page.run()
    page.button("explain_again").click().run()
    assert "as replayed" in tables(page)[3]


def test_a_link_to_the_page_brings_its_fixture_and_options():
    """The page reads the same sidebar as the replay."""
    app = new_session(sample=SYNTHETIC.name, pool_codec="exact", shell_codec="exact", attention_scale="0.25")
    app.switch_page(PAGE).run()
    assert not app.exception
    assert "**Not as the reference replays:** attention_scale 0.25; pool_codec exact; shell_codec exact." in markdown(
        app
    )
    assert app.selectbox("pool_codec").value == "exact"
    assert any("Nothing much is lost" in text or "Reading only k" in text for text in markdown(app).splitlines())
