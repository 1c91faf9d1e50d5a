"""Many heads in a real browser: from the verdict on a model to the head that did it."""

import re

import pytest
from actions import go_to, settle, upload

from polykv_core import load_fixture
from polykv_core.packs import pack_bytes

sync_api = pytest.importorskip("playwright.sync_api", reason="install playwright: pip install 'polykv[dev]'")
expect = sync_api.expect

SAMPLE = "smollm2_4x9.safetensors"


def test_a_square_of_the_map_leads_to_its_head(visit):
    """A click chooses the head; its buttons take it to the other pages, and the sidebar says which it is."""
    page = visit(f"?sample={SAMPLE}")
    go_to(page, "Sweep")
    expect(page.get_by_role("heading", level=1)).to_contain_text("FAILED: 34 of 36 heads fail")
    settle(page)
    page.locator(".st-key-head_map_0 .scatterlayer .point").nth(13).click(force=True)
    chosen = page.locator(".st-key-sweep_head")
    expect(chosen.get_by_text("L10_H4", exact=True)).to_be_visible()
    chosen.get_by_role("button", name="Open in Explain").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Why it")
    expect(page.get_by_text(re.compile("L10_H4, (passes|fails)"))).to_be_visible()
    go_to(page, "Replay")
    expect(page.get_by_role("combobox", name="Head")).to_have_value("L10_H4")


def test_the_last_click_chooses_the_head_on_the_map_or_in_the_list(visit):
    """It stays chosen on the way back, and when a moved gate ranks the heads anew."""
    page = visit(f"?sample={SAMPLE}")
    go_to(page, "Sweep")
    settle(page)
    points, chosen = page.locator(".st-key-head_map_0 .scatterlayer .point"), page.locator(".st-key-sweep_head")
    points.nth(13).click(force=True)
    expect(chosen.get_by_text("L10_H4", exact=True)).to_be_visible()
    settle(page)
    worst_row = {"x": 14, "y": 52}
    page.get_by_test_id("stDataFrame").click(position=worst_row)
    expect(chosen.get_by_text("L10_H4", exact=True)).to_have_count(0)
    expect(chosen.get_by_text("The head you chose")).to_be_visible()
    points.nth(20).click(force=True)
    expect(chosen.get_by_text("L15_H2", exact=True)).to_be_visible()
    page.get_by_role("button", name="Lenient").click()
    expect(page.get_by_role("heading", level=1)).not_to_contain_text("34 of 36")
    expect(chosen.get_by_text("L15_H2", exact=True)).to_be_visible()
    go_to(page, "Replay")
    go_to(page, "Sweep")
    expect(chosen.get_by_text("L15_H2", exact=True)).to_be_visible()


def test_a_moved_gate_turns_the_verdict_without_a_new_sweep(visit):
    """The map is drawn anew from what was measured."""
    page = visit(f"?sample={SAMPLE}")
    go_to(page, "Sweep")
    expect(page.get_by_role("heading", level=1)).to_contain_text("FAILED: 34 of 36 heads fail")
    settle(page)
    page.get_by_role("button", name="Lenient").click()
    expect(page.get_by_role("heading", level=1)).not_to_contain_text("34 of 36")
    expect(page.get_by_test_id("stMain").get_by_text("Replaying every head")).to_have_count(0)


def test_an_uploaded_file_is_swept_in_worker_processes_and_the_page_is_not_run_in_them(visit, tmp_path):
    """Every head of it has a verdict."""
    fixture = load_fixture("sample_fixtures/synthetic_d16_basic.json")
    path = tmp_path / "mine.npz"
    path.write_bytes(pack_bytes({f"L0_H{index}": fixture for index in range(3)}, "npz"))
    page = visit()
    upload(page, path)
    expect(page.get_by_text("mine.npz, L0_H0").first).to_be_visible()
    go_to(page, "Sweep")
    expect(page.get_by_role("heading", level=1)).to_contain_text("of 3 heads fail")
    expect(page.get_by_test_id("stException")).to_have_count(0)
