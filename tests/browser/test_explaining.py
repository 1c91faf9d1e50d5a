"""From a failed gate to the row that did it, in a real browser; and options that are measured anew."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from actions import upload

from polykv_core import explain, load_fixture, reasons

sync_api = pytest.importorskip("playwright.sync_api", reason="install playwright: pip install 'polykv[dev]'")
expect = sync_api.expect
expect.set_options(timeout=60_000)

ROOT = Path(__file__).parents[2]
SYNTHETIC = ROOT / "sample_fixtures" / "synthetic_d16_basic.json"
FIRST_SAMPLE = ROOT / "sample_fixtures" / "smollm2_l15_h2_local.json.gz"


def why(page):
    """Follow the link beside the verdict, and wait for the last thing on the page."""
    page.get_by_role("link", name="Why? Take it apart").click()
    expect(page.get_by_role("heading", name=re.compile("^Why it "))).to_be_visible()
    expect(page.get_by_role("button", name="Explanation as JSON")).to_be_visible()
    expect(page.get_by_text("brings the output nearest")).to_be_visible()


def test_from_a_failed_gate_to_the_row_that_did_it(visit):
    """Three clicks: the link beside the verdict, the second worst query, and its rows are there."""
    page = visit()
    why(page)
    explanation = explain(load_fixture(FIRST_SAMPLE), 64)
    expect(page.get_by_text(reasons(explanation)[0])).to_be_visible()
    worst, second = np.argsort(explanation.queries.cosine[:, 0])[:2]
    expect(page.get_by_role("heading", name=f"The rows of query {worst}")).to_be_visible()
    table = page.locator('[class*="st-key-queries_"] .dvn-scroller')
    table.scroll_into_view_if_needed()
    table.click(position={"x": 18, "y": 36 + 35 + 17})  # the box of the second row
    expect(page.get_by_role("heading", name=f"The rows of query {second}")).to_be_visible()
    expect(page.get_by_text(re.compile(rf"^Of query {second}'s \d+ rows|^Of query {second} all"))).to_be_visible()


def test_the_downloaded_explanation_is_that_of_the_upload(visit):
    """The page reads the file again from where it lies; the JSON has the core's numbers."""
    page = visit()
    upload(page, SYNTHETIC)
    expect(page.locator("code").first).to_have_text("synthetic-head-d16")
    why(page)
    with page.expect_download() as downloaded:
        page.get_by_role("button", name="Explanation as JSON").click()
    record = json.loads(Path(downloaded.value.path()).read_text(encoding="utf-8"))
    explanation = explain(load_fixture(SYNTHETIC), record["candidate_k"])
    assert record["fixture_digest"] == explanation.fixture_digest
    assert record["reasons"] == list(reasons(explanation))
    assert record["changes"][0]["name"] == "as replayed"
    assert downloaded.value.suggested_filename.startswith("synthetic-head-d16_failed_")


def test_a_replay_option_is_measured_and_said(visit):
    """Chosen in the sidebar, it is in the verdict, the address and the command, and survives a reload."""
    page = visit("?sample=smollm2_l15_h2_local.json.gz")
    page.get_by_text("Replay options").click()
    page.get_by_role("combobox", name=re.compile("^.*Attention scale")).click()
    page.get_by_role("option", name="1/√d, as most models").click()
    expect(page.get_by_text("Not as the reference replays:")).to_be_visible()
    expect(page).to_have_url(re.compile("attention_scale=inverse_sqrt_head_dim"))
    command = page.locator("code").filter(has_text="polykv replay")
    expect(command).to_contain_text("--attention-scale=inverse_sqrt_head_dim")
    page.reload()
    expect(page.get_by_text("Not as the reference replays:")).to_be_visible()
