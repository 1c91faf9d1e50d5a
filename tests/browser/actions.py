"""What the browser tests do on every page."""

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="install playwright: pip install 'polykv[dev]'").expect


def upload(page, path):
    """Put a file into the sidebar's uploader, once the page is drawn: until then the one before may be there too."""
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    uploader = page.get_by_test_id("stSidebar").locator('input[type="file"]')
    expect(uploader).to_have_count(1)
    uploader.set_input_files(path)
