"""Nobody is shut out: axe-core looks at every page, in light and in dark."""

from importlib.resources import files

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="install playwright: pip install 'polykv[dev]'")
expect = sync_api.expect
expect.set_options(timeout=60_000)

# From a package that ships the script itself, so that the tests need neither npm nor a network.
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
OPEN_EVERYTHING = "document.querySelectorAll('details:not([open]) > summary').forEach(summary => summary.click())"


def settle(page):
    """Wait until nothing of a page is missing."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)


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
    settle(page)
    page.evaluate(OPEN_EVERYTHING)
    settle(page)
    assert serious_faults(page) == {}
