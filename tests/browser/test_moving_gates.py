"""Tuning in a real browser: gates, presets, undo, page changes, links, files and long work."""

import json
import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from actions import settle, upload
from serve import HELD_UP

from polykv_core import (
    CapturedReplayConfig,
    candidates_csv,
    curve_csv,
    every_k,
    judge,
    load_fixture,
    measure,
    settings_json,
)
from polykv_core.cli import main

sync_api = pytest.importorskip("playwright.sync_api", reason="install playwright: pip install 'polykv[dev]'")
expect = sync_api.expect
expect.set_options(timeout=60_000)

SYNTHETIC = Path(__file__).parents[2] / "sample_fixtures" / "synthetic_d16_basic.json"
TUNED = "?sample=synthetic_d16_basic.json&max_ppl_delta=10&min_output_cosine=0.7"


def headline(page):
    """The verdict at the top of the page."""
    return page.get_by_role("heading", level=1)


def field(page, label):
    """A field of the sidebar."""
    return page.get_by_label(label, exact=True)


def type_in(page, label, text):
    """Type into a field and press Enter."""
    field(page, label).fill(text)
    field(page, label).press("Enter")


def switch(page, threshold):
    """Switch a gate on or off."""
    page.locator(f".st-key-{threshold}_on label").first.click()


def go_to(page, name):
    """Change the page."""
    page.get_by_role("link", name=name, exact=True).click()


def download(page, name):
    """Press a download button and return the file."""
    with page.expect_download() as downloaded:
        page.get_by_role("button", name=name, exact=True).click()
    return downloaded.value


def test_gates_presets_and_undo(visit):
    """The verdict follows the gates; undo, redo and reset go through what was tuned, and fields show it."""
    page = visit(TUNED)
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    expect(page.get_by_text("raising it above 0.7216 would fail k")).to_be_visible()
    type_in(page, "Output cosine, at least", "0.73")
    expect(headline(page)).to_contain_text("PASSED at k = 32")
    page.get_by_role("button", name="Strict").click()
    expect(headline(page)).to_contain_text("FAILED")
    expect(field(page, "KL divergence, at most")).to_have_value("0.02")
    page.get_by_role("button", name="Undo").click()
    expect(headline(page)).to_contain_text("PASSED at k = 32")
    page.get_by_role("button", name="Undo").click()
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    expect(field(page, "Output cosine, at least")).to_have_value("0.7")
    page.get_by_role("button", name="Redo").click()
    expect(headline(page)).to_contain_text("PASSED at k = 32")
    page.get_by_role("button", name="Reset").click()
    expect(headline(page)).to_contain_text("FAILED")
    expect(field(page, "|PPL delta|, at most")).to_have_value("1")


def test_numbers_typed_in_a_row_all_count(visit):
    """Faster than the page answers, away from a preset that is marked and must not come back."""
    page = visit("?sample=synthetic_d16_basic.json")
    type_in(page, "Output cosine, at least", "0.7")
    type_in(page, "Output MSE, at most", "0.24")
    type_in(page, "|PPL delta|, at most", "10")
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    expect(page).to_have_url(re.compile("min_output_cosine=0.7&max_output_mse=0.24&max_ppl_delta=10"))


def test_a_gate_is_switched_off_and_on(visit):
    """Off, it is said so beside the verdict, its field waits; on, its number counts again."""
    page = visit("?sample=synthetic_d16_basic.json&min_output_cosine=0.7")
    expect(headline(page)).to_contain_text("FAILED")
    switch(page, "max_ppl_delta")
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    expect(page.get_by_text("|PPL delta| is off and cannot fail")).to_be_visible()
    expect(field(page, "|PPL delta|, at most")).to_be_disabled()
    switch(page, "max_ppl_delta")
    expect(headline(page)).to_contain_text("FAILED")
    expect(field(page, "|PPL delta|, at most")).to_have_value("1")


def test_gates_from_this_result(visit):
    """The chosen candidate just passes."""
    page = visit("?sample=synthetic_d16_basic.json&candidate_ks=32")
    expect(headline(page)).to_contain_text("FAILED")
    page.get_by_role("button", name="Gates from this result").click()
    page.get_by_role("button", name="Set the gates").click()
    expect(headline(page)).to_contain_text("PASSED at k = 32")
    expect(field(page, "Output cosine, at least")).to_have_value(re.compile(r"^0\.745"))


def test_page_changes_and_a_reload_keep_everything(visit):
    """Fixture, ks, gates and switches are the same after a walk through the pages and after a reload."""
    page = visit("?sample=synthetic_d16_basic.json")
    type_in(page, "Candidate ks", "4, 32")
    type_in(page, "Output cosine, at least", "0.7")
    switch(page, "max_ppl_delta")
    expect(headline(page)).to_contain_text("PASSED at k = 32")
    for name in ("Model replay", "About the numbers", "Replay"):
        go_to(page, name)
        expect(field(page, "Candidate ks")).to_have_value("4, 32")
        expect(field(page, "|PPL delta|, at most")).to_be_disabled()
    expect(headline(page)).to_contain_text("PASSED at k = 32")
    page.reload()
    expect(headline(page)).to_contain_text("PASSED at k = 32")
    expect(field(page, "Output cosine, at least")).to_have_value("0.7")


def test_an_upload_outlives_page_changes_and_its_link_asks_for_it(visit, tmp_path):
    """The digest is in the address; a first visitor is asked for the file, and another file is refused."""
    page = visit(TUNED)
    upload(page, SYNTHETIC)
    digest = load_fixture(SYNTHETIC).digest[7:23]
    expect(page).to_have_url(re.compile(f"fixture={digest}"))
    go_to(page, "About the numbers")
    go_to(page, "Replay")
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    expect(page).to_have_url(re.compile(f"max_ppl_delta=10.*fixture={digest}"))
    expect(page.locator("code").last).to_contain_text(f"fixture={digest}")
    link = page.locator("code").last.inner_text()

    other = visit(f"?{urlsplit(link).query}", heading="This link needs a file")
    expect(other.get_by_text(f"whose digest starts with {digest}")).to_be_visible()
    expect(other.locator(".js-plotly-plot")).to_have_count(0)
    another = tmp_path / "another.json"
    another.write_text(json.dumps(json.loads(SYNTHETIC.read_text()) | {"seed": 1}))
    upload(other, another)
    expect(other.get_by_text(f"but the link asks for '{digest}'")).to_be_visible()
    upload(other, SYNTHETIC)
    expect(other.get_by_role("heading", name="This link needs a file")).to_have_count(0)
    expect(headline(other)).to_contain_text("PASSED at k = 16")


def test_the_way_out_of_a_link_to_a_file(visit):
    """Who has not got the file goes on with a sample, and the address forgets the digest."""
    page = visit(f"?fixture={'0' * 16}", heading="This link needs a file")
    page.get_by_role("button", name="Use a sample instead").click()
    expect(page.get_by_role("heading", name="This link needs a file")).to_have_count(0)
    expect(headline(page)).to_contain_text("FAILED")
    expect(page).not_to_have_url(re.compile("fixture="))


def test_every_download_is_what_core_and_command_line_make(visit, tmp_path, monkeypatch):
    """Tables and config; and the command that the page shows writes the receipt that the page downloads."""
    page = visit(TUNED)
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    fixture = load_fixture(SYNTHETIC)
    config = CapturedReplayConfig((8, 16, 32, 64), min_output_cosine=0.7, max_ppl_delta=10.0)
    curve = measure(fixture, every_k(fixture))
    expected = {
        "Candidates as CSV": candidates_csv([judge(curve, config)]),
        "Every k as CSV": curve_csv(curve),
        "Config as JSON": settings_json(config),
    }
    for name, text in expected.items():
        assert Path(download(page, name).path()).read_bytes() == text.encode(), name
    receipt = download(page, "Download receipt")
    monkeypatch.chdir(tmp_path)
    (tmp_path / SYNTHETIC.name).write_bytes(SYNTHETIC.read_bytes())
    command = page.locator("code", has_text="polykv replay").inner_text()
    with pytest.raises(SystemExit, match="0"):
        main(shlex.split(command)[1:])
    assert (tmp_path / receipt.suggested_filename).read_bytes() == Path(receipt.path()).read_bytes()


def test_long_work_can_be_cancelled(visit, tmp_path):
    """It says how far it is, the last result stays in use, and after a cancel the page says what happened."""
    slow = tmp_path / "slow.json"
    slow.write_text(json.dumps(json.loads(SYNTHETIC.read_text()) | {"model_id": HELD_UP}))
    page = visit(TUNED)
    upload(page, slow)
    expect(page.get_by_text("1 of 4 queries done")).to_be_visible()
    type_in(page, "Output cosine, at least", "0.73")
    expect(headline(page)).to_contain_text("PASSED at k = 32")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_text("The replay was cancelled.")).to_be_visible()
    expect(page.get_by_text("Below is the last good result, for Synthetic head, 16 dimensions.")).to_be_visible()
    expect(headline(page)).to_contain_text("PASSED at k = 32")
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(page.get_by_text("The replay was cancelled.")).to_have_count(0)


def test_two_people_see_their_own_fixture(visit, tmp_path):
    """Fixtures that differ in one number, in two browsers at once."""
    record = json.loads(SYNTHETIC.read_text())
    record["queries"][0]["keys"][0][0] += 0.001
    (tmp_path / "theirs.json").write_text(json.dumps(record))
    mine, theirs = visit(TUNED), visit(TUNED)
    upload(mine, SYNTHETIC)
    upload(theirs, tmp_path / "theirs.json")
    for page, path in ((mine, SYNTHETIC), (theirs, tmp_path / "theirs.json")):
        expect(page).to_have_url(re.compile(f"fixture={load_fixture(path).digest[7:23]}"))


def test_a_link_holds_though_its_first_runs_are_cut_short(visit):
    """Whatever makes the page run again while it is drawn for the first time."""
    page = visit()
    link = f"{page.url.split('?')[0]}?sample=synthetic_d16_basic.json&max_ppl_delta=10&candidate_ks=2,4"
    page.goto(link, wait_until="commit")
    for _ in range(100):
        page.keyboard.press("r")  # Streamlit's key for another run
        page.wait_for_timeout(20)
    settle(page)
    expect(page.get_by_role("spinbutton", name="|PPL delta|")).to_have_value("10")
    expect(page.get_by_role("textbox", name="Candidate ks")).to_have_value("2,4")
