"""Evidence in a real browser: a receipt verified, a run kept, found, judged anew and compared, a report taken away."""

import json
import re
from pathlib import Path

import pytest
from actions import give, go_to, open_run, settle, upload

from polykv_core import CapturedReplayConfig, load_fixture, run_captured_model_replay
from polykv_core.history import open_store
from polykv_core.report import receipts_in_report

sync_api = pytest.importorskip("playwright.sync_api", reason="install playwright: pip install 'polykv[dev]'")
expect = sync_api.expect
expect.set_options(timeout=60_000)

SYNTHETIC = Path(__file__).parents[2] / "sample_fixtures" / "synthetic_d16_basic.json"
SAMPLE = f"?sample={SYNTHETIC.name}"
HOSTILE = "*bold* :tada: $x$ <b>b</b> <img src=x> `c` [l](http://x) :red[r]"


def headline(page):
    """The verdict at the top of the page."""
    return page.get_by_role("heading", level=1)


def set_number(page, label, value):
    """Type a number and press Enter."""
    field = page.get_by_label(label, exact=True)
    field.fill(value)
    field.press("Enter")


def receipt_file(path, fixture=SYNTHETIC, **changes):
    """A receipt as a file, with some fields changed after it was sealed."""
    receipt = run_captured_model_replay(load_fixture(fixture), CapturedReplayConfig((8, 16))).to_json()
    text = json.dumps(json.loads(receipt) | changes) if changes else receipt
    path.write_text(text, encoding="utf-8")
    return path


def keep(page, tags, note=""):
    """Keep what the Replay page shows, and give the run's number."""
    page.get_by_role("button", name="Keep in history").click()
    page.get_by_label("Tags", exact=True).fill(tags)
    page.get_by_label("Note", exact=True).fill(note)
    page.get_by_role("button", name="Keep", exact=True).click()  # at once, before the page has the note
    told = page.get_by_text(re.compile(r"Kept as run \d+"))
    expect(told).to_be_visible()
    number = int(told.inner_text().split()[-1])
    page.keyboard.press("Escape")
    return number


def test_a_receipt_is_verified_and_an_edited_one_is_not(visit, tmp_path):
    """Against the fixture on screen; then let go."""
    page = visit(SAMPLE)
    go_to(page, "Verify")
    give(page, "eceipt", receipt_file(tmp_path / "good.json"))
    expect(headline(page)).to_have_text(re.compile("VERIFIED$"))
    expect(headline(page)).not_to_contain_text("NOT")
    expect(page.get_by_text("good.json", exact=True)).to_have_count(1)
    give(page, "eceipt", receipt_file(tmp_path / "edited.json", passed=True))
    expect(headline(page)).to_contain_text("NOT VERIFIED: edited after sealing")
    expect(page.get_by_role("heading", name="What differs")).to_be_visible()
    with page.expect_download() as downloaded:
        page.get_by_role("button", name="What was found, as JSON").click()
    found = json.loads(Path(downloaded.value.path()).read_text(encoding="utf-8"))
    assert found["verified"] is False
    assert [one["place"] for one in found["differences"]] == ["passed"]
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(page.get_by_text("Give a receipt.")).to_be_visible()
    expect(page.get_by_text("edited.json", exact=True)).to_have_count(0)


def test_a_receipt_is_held_against_a_fixture_that_is_given_beside_it(visit, tmp_path):
    """Both files stay through a look at another page; no markup in them comes to life."""
    fixture = tmp_path / "*my* fixture.json"
    fixture.write_text(json.dumps(json.loads(SYNTHETIC.read_text()) | {"model_id": HOSTILE}), encoding="utf-8")
    page = visit(SAMPLE)
    go_to(page, "Verify")
    give(page, "eceipt", receipt_file(tmp_path / "mine.json", fixture, claim_boundary=HOSTILE))
    expect(page.get_by_text("another fixture than the one on the left")).to_be_visible()
    give(page, "ixture or case", fixture)
    expect(page.get_by_role("heading", name="What differs")).to_be_visible()
    expect(headline(page)).to_contain_text("NOT VERIFIED: edited after sealing")
    go_to(page, "About the numbers")
    expect(page.get_by_text("NOT VERIFIED")).to_have_count(0)
    go_to(page, "Verify")
    expect(headline(page)).to_contain_text("NOT VERIFIED: edited after sealing")
    expect(page.get_by_text("*my* fixture.json", exact=True)).to_have_count(1)
    settle(page)
    expect(page.get_by_test_id("stMain").locator("b, em, img, a[href='http://x'], .katex")).to_have_count(0)
    expect(page.get_by_test_id("stApp")).not_to_contain_text("\N{PARTY POPPER}")


def test_a_run_is_kept_found_opened_and_judged_anew(visit, served_history, tmp_path):
    """Tags and note as they were typed last; a moved gate judges the kept numbers, the run stays as it was."""
    page = visit(SAMPLE)
    expect(headline(page)).to_contain_text("FAILED")
    number = keep(page, f"evidence {tmp_path.name}", "typed last")
    with page.expect_download() as downloaded:
        page.get_by_role("button", name="Download receipt").click()
    with open_store(served_history) as store:
        run = store.run(number)
    assert run.receipt_json.encode() == Path(downloaded.value.path()).read_bytes()
    assert run.summary.tags == (f"evidence {tmp_path.name}",)
    assert run.summary.note == "typed last"

    go_to(page, "History")
    search = page.get_by_label("Search", exact=True)
    search.fill(f"evidence {tmp_path.name}")
    search.press("Enter")
    settle(page)
    open_run(page, number)
    expect(page.get_by_role("heading", name=f"Run {number}", exact=True)).to_be_visible()
    main = page.get_by_test_id("stMain")
    expect(main.get_by_text("✕ fails at k = 64")).to_have_count(2)
    set_number(page, "Output cosine, at least", "0.7")
    set_number(page, "|PPL delta|, at most", "10")
    expect(main.get_by_text("✓ passes at k = 16")).to_be_visible()
    expect(main.get_by_text("✕ fails at k = 64")).to_have_count(1)


def test_two_runs_are_compared(visit, tmp_path):
    """What was fixed is said, in a table and in a chart for each gate with a line a run."""
    page = visit(SAMPLE)
    first = keep(page, tmp_path.name)
    set_number(page, "Output cosine, at least", "0.7")
    set_number(page, "|PPL delta|, at most", "10")
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    settle(page)
    second = keep(page, tmp_path.name)
    assert second > first
    go_to(page, "History")
    open_run(page, first)
    open_run(page, second)
    expect(page.get_by_role("heading", name=f"Run {second} against run {first}")).to_be_visible()
    expect(page.get_by_text("fixed: it failed, and passes now")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(5)
    expect(
        page.get_by_label(re.compile(f"^Output cosine, higher is better. run {first}: .* run {second}: "))
    ).to_have_count(1)
    page.get_by_role("button", name="Regressed", exact=True).or_(
        page.get_by_role("radio", name="Regressed", exact=True)
    ).click()
    expect(page.get_by_text("No row is like that.")).to_be_visible()


def test_the_report_is_downloaded_and_opens(visit, browser, tmp_path):
    """It shows the verdict of the page, without the page, and holds the receipt that the page downloads."""
    page = visit(SAMPLE)
    upload(page, SYNTHETIC)
    expect(page.get_by_test_id("stMain").get_by_text(SYNTHETIC.name, exact=True)).to_be_visible()
    set_number(page, "Output cosine, at least", "0.7")
    set_number(page, "|PPL delta|, at most", "10")
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    settle(page)
    files = {}
    for name in ("Report as HTML", "Download receipt"):
        with page.expect_download() as downloaded:
            page.get_by_role("button", name=name).click()
        files[name] = tmp_path / downloaded.value.suggested_filename
        downloaded.value.save_as(files[name])
    report = files["Report as HTML"]
    assert report.suffix == ".html"
    assert receipts_in_report(report.read_bytes()) == (files["Download receipt"].read_bytes(),)
    context = browser.new_context(offline=True)
    reading = context.new_page()
    reading.goto(report.as_uri())
    expect(reading.locator("body")).to_contain_text("k = 16")
    expect(reading.locator("body")).to_contain_text("synthetic-head-d16")
    context.close()
