"""What the browser tests do on every page."""

import re

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="install playwright: pip install 'polykv[dev]'").expect


def upload(page, path):
    """Put a file into the sidebar's uploader, once the page is drawn: until then the one before may be there too."""
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    uploader = page.get_by_test_id("stSidebar").locator('input[type="file"]')
    expect(uploader).to_have_count(1)
    uploader.set_input_files(path)


def settle(page):
    """Wait until nothing of a page is missing."""
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)


def go_to(page, name):
    """Change the page."""
    page.get_by_role("link", name=name, exact=True).click()


def give(page, label, path):
    """Put a file into one of the Verify page's uploaders."""
    settle(page)
    page.get_by_test_id("stMain").get_by_test_id("stFileUploader").filter(has_text=label).locator(
        'input[type="file"]'
    ).set_input_files(path)


def open_run(page, number):
    """Choose a run on the History page, beside those that are chosen already."""
    box = page.get_by_role("combobox", name=re.compile("Open a run"))
    box.click()
    box.fill(f"{number}: ")
    page.get_by_role("option", name=re.compile(f"^{number}: ")).click()
    box.press("Escape")
    page.get_by_role("heading", name="History", exact=True).click()
    # The list fades away; half there, it has too little contrast.
    expect(page.get_by_role("listbox")).to_have_count(0)
