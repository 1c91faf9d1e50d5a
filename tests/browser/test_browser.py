"""What only a real browser shows: files going in and out, the address bar, what is drawn and what is asked for."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from actions import upload

from polykv_core import CapturedReplayConfig, load_fixture, run_captured_model_replay

sync_api = pytest.importorskip("playwright.sync_api", reason="install playwright: pip install 'polykv[dev]'")
expect = sync_api.expect
expect.set_options(timeout=60_000)

ROOT = Path(__file__).parents[2]
SYNTHETIC = ROOT / "sample_fixtures" / "synthetic_d16_basic.json"
HOSTILE = "org/m:Q4_K *bold* :tada: ~x~ $x$ <b>b</b> <img src=x> `c` [l](http://x) :red[r] ü"
SCRIPT = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def mine(tmp_path):
    """A fixture of one's own, whose model id is full of markup."""
    return fixture_file(tmp_path / "mine.json", HOSTILE)


def fixture_file(path, model_id):
    """The synthetic sample under another name."""
    path.write_text(json.dumps(json.loads(SYNTHETIC.read_text()) | {"model_id": model_id}), encoding="utf-8")
    return path


def set_number(page, label, value):
    """Type a number and press Enter."""
    field = page.get_by_label(label, exact=True)
    field.fill(value)
    field.press("Enter")


def headline(page):
    """The verdict at the top of the page."""
    return page.get_by_role("heading", level=1)


def test_an_upload_is_judged_and_its_receipt_is_that_of_core_and_cli(visit, mine, tmp_path):
    """Upload, move thresholds, read the verdict, download: the bytes are the core's and the command line's."""
    page = visit()
    upload(page, mine)
    expect(page.locator("code").first).to_have_text(HOSTILE)
    expect(headline(page)).to_contain_text("FAILED at every candidate k")
    set_number(page, "Output cosine, at least", "0.7")
    set_number(page, "|PPL delta|, at most", "5.27")
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    expect(page.locator('[data-testid="stApp"]')).to_have_attribute("data-test-script-state", "notRunning")
    with page.expect_download() as downloaded:
        page.get_by_role("button", name="Download receipt").click()
    receipt = tmp_path / "receipt.json"
    downloaded.value.save_as(receipt)

    config = CapturedReplayConfig((8, 16, 32, 64), min_output_cosine=0.7, max_ppl_delta=5.27)
    assert receipt.read_bytes() == run_captured_model_replay(load_fixture(mine), config).to_json().encode()
    options = ["--min-output-cosine", "0.7", "--max-ppl-delta", "5.27", "--receipt", "-"]
    command = [sys.executable, "-m", "polykv_core.cli", "replay", str(mine), *options]
    assert receipt.read_bytes() == subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("model_id", [HOSTILE, SCRIPT])
def test_a_model_id_brings_no_markup_to_life(visit, tmp_path, model_id):
    """What a fixture calls itself, and its file, stay text: no bold, image, link, emoji, formula or script."""
    page = visit()
    alerts = []
    page.on("dialog", lambda dialog: alerts.append(dialog.message) or dialog.dismiss())
    upload(page, fixture_file(tmp_path / "*my* :tada: <img src=x>.json", model_id))
    expect(page.locator("code").first).to_have_text(model_id)
    app = page.get_by_test_id("stApp")
    expect(app.get_by_text("*my* :tada: <img src=x>.json", exact=True)).to_have_count(2)
    expect(page.get_by_test_id("stMain").locator("b, em, img, a[href='http://x'], .katex")).to_have_count(0)
    expect(app).not_to_contain_text("\N{PARTY POPPER}")
    assert not alerts


def test_a_faulty_upload_leaves_the_last_good_result_on_screen(visit, mine, tmp_path):
    """The message is there, and so are verdict, charts and the name of what they belong to."""
    faulty = tmp_path / "faulty.json"
    faulty.write_text(mine.read_text(encoding="utf-8")[:-100], encoding="utf-8")
    page = visit()
    upload(page, faulty)
    expect(page.get_by_text("The uploaded file could not be used.")).to_be_visible()
    expect(page.get_by_text("no valid JSON at line 1").or_(page.get_by_text("ends too early"))).to_be_visible()
    expect(page.get_by_text("Below is the last good result, for SmolLM2-135M, layer 15, head 2.")).to_be_visible()
    expect(headline(page)).to_contain_text("FAILED at every candidate k")
    expect(page.locator(".js-plotly-plot")).to_have_count(6)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_a_reload_keeps_the_controls(visit):
    """Sample, ks and thresholds are in the address, so a reload or a shared link shows the same."""
    page = visit("?sample=Synthetic+head%2C+16+dimensions&candidate_ks=16&max_ppl_delta=10")
    set_number(page, "Output cosine, at least", "0.7")
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    page.reload()
    expect(headline(page)).to_contain_text("PASSED at k = 16")
    expect(page.get_by_label("Output cosine, at least", exact=True)).to_have_value("0.7")
    expect(page.get_by_label("Candidate ks", exact=True)).to_have_value("16")


def test_a_number_that_is_none_cannot_be_entered(visit):
    """An infinite threshold is not taken; the field comes back to a finite one and the verdict stays."""
    page = visit()
    set_number(page, "KL divergence, at most", "1e999")
    expect(page.get_by_label("KL divergence, at most", exact=True)).to_have_value("0.5")
    expect(page.get_by_text("but the gate asks for at most 0.5 nats")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_follow_the_theme(visit, scheme):
    """The numbers in a chart have the colour of the page's text, in light and in dark."""
    page = visit(color_scheme=scheme)
    tick = page.locator(".js-plotly-plot .xtick text").first
    expect(tick).to_be_visible()
    text_colour = headline(page).evaluate("element => getComputedStyle(element).color")
    expect(tick).to_have_css("fill", text_colour)


def test_charts_have_names_for_those_who_do_not_see_them(visit):
    """Each chart is labelled with its values and verdicts in words."""
    page = visit()
    expect(page.get_by_label(re.compile("^Output cosine.*higher is better.*at least 0.75.*0.8794"))).to_have_count(1)


def test_nothing_is_asked_of_anybody_else(browser, dashboard_url):
    """The page talks to its own server only; what is uploaded goes nowhere else."""
    asked = []
    context = browser.new_context()
    context.on("request", lambda request: asked.append(request.url))
    page = context.new_page()
    page.goto(dashboard_url)
    expect(page.locator(".js-plotly-plot")).to_have_count(6)
    context.close()
    assert asked
    assert [url for url in asked if not url.startswith((dashboard_url, "data:", "blob:"))] == []
