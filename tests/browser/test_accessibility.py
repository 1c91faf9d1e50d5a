"""Nobody is shut out: axe-core looks at every page, in light and in dark."""

import re
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
from actions import give, go_to, open_run, settle

from polykv_core import CapturedReplayConfig, every_k, judge, load_fixture, measure
from polykv_core.history import open_store
from polykv_core.kept import packed

sync_api = pytest.importorskip("playwright.sync_api", reason="install playwright: pip install 'polykv[dev]'")
expect = sync_api.expect
expect.set_options(timeout=60_000)

# From a package that ships the script itself, so that the tests need neither npm nor a network.
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
SYNTHETIC = Path(__file__).parents[2] / "sample_fixtures" / "synthetic_d16_basic.json"
OPEN_EVERYTHING = "document.querySelectorAll('details:not([open]) > summary').forEach(summary => summary.click())"


def serious_faults(page):
    """What axe finds serious or critical: the rule, and the elements that break it.

    Plain Streamlit has none of these with this project's theme; its upload field has a minor one.
    """
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return {
        rule["id"]: [node["html"] for node in rule["nodes"]]
        for rule in found
        if rule["impact"] in ("serious", "critical")
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["", "explain", "model-replay", "about"], ids=lambda path: path or "replay")
def test_axe_finds_no_serious_fault(visit, dashboard_url, path, scheme):
    """Names, contrast, structure: all of the page, with everything open that can be opened."""
    page = visit(color_scheme=scheme)
    page.goto(f"{dashboard_url}/{path}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert faults_with_everything_open(page) == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_on_the_sweep_page(visit, scheme):
    """With the map, the list, and the splits of a head."""
    page = visit("?sample=smollm2_4x9.safetensors", color_scheme=scheme)
    go_to(page, "Sweep")
    expect(page.get_by_role("heading", level=1)).to_contain_text("of 36 heads fail")
    page.get_by_role("button", name="Work it out").click()
    expect(page.get_by_text("The numbers behind the chart")).to_be_visible()
    assert faults_with_everything_open(page) == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_on_the_verify_page(visit, tmp_path, scheme):
    """Empty, with a receipt that holds, and with one that does not, whose differences are a table."""
    page = visit(f"?sample={SYNTHETIC.name}", color_scheme=scheme)
    go_to(page, "Verify")
    expect(page.get_by_text("Give a receipt.")).to_be_visible()
    assert faults_with_everything_open(page) == {}
    receipt = judge(measured(), CapturedReplayConfig((8, 16))).to_json()
    for name, text, told in (
        ("good.json", receipt, "VERIFIED"),
        ("edited.json", receipt.replace('"passed": false', '"passed": true'), "NOT VERIFIED: edited after sealing"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        give(page, "eceipt", tmp_path / name)
        expect(page.get_by_role("heading", level=1, name=re.compile(f"{told}$"))).to_be_visible()
        assert faults_with_everything_open(page) == {}, name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_on_the_history_page(visit, served_history, scheme):
    """With runs, one opened, and two compared."""
    with open_store(served_history) as store:
        receipts = [judge(measured(), CapturedReplayConfig((8, 16), max_ppl_delta=limit)) for limit in (1.0, 10.0)]
        data = packed(measured(), (8, 16))
        numbers = [store.save(receipt.to_json(), data, file_name="a.json", tags=["axe"]) for receipt in receipts]
    page = visit(color_scheme=scheme)
    go_to(page, "History")
    expect(page.get_by_role("combobox", name=re.compile("Open a run"))).to_be_visible()
    assert faults_with_everything_open(page) == {}
    open_run(page, numbers[0])
    expect(page.get_by_role("heading", name=f"Run {numbers[0]}", exact=True)).to_be_visible()
    assert faults_with_everything_open(page) == {}
    open_run(page, numbers[1])
    expect(page.get_by_role("heading", name=f"Run {numbers[1]} against run {numbers[0]}")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(5)
    assert faults_with_everything_open(page) == {}


def faults_with_everything_open(page):
    """What axe finds once all is there and open."""
    settle(page)
    page.evaluate(OPEN_EVERYTHING)
    settle(page)
    return serious_faults(page)


@cache
def measured():
    """The synthetic sample at every k."""
    fixture = load_fixture(SYNTHETIC)
    return measure(fixture, every_k(fixture))
