"""A dashboard of its own and a real browser to look at it."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="install playwright: pip install 'polykv[dev]'")

ROOT = Path(__file__).parents[2]
SERVE = Path(__file__).with_name("serve.py")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def served_history(tmp_path_factory):
    """The history of the dashboard, which all tests of a run share."""
    return tmp_path_factory.mktemp("history") / "runs"


@pytest.fixture(scope="session")
def dashboard_url(served_history):
    """The address of a dashboard that runs as long as the tests do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [f"--server.port={port}", "--server.address=127.0.0.1", "--server.headless=true"]
    command = [sys.executable, str(SERVE), "app.py", *options, "--server.fileWatcherType=none"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "POLYKV_STORE": str(served_history),
            "POLYKV_SWEEPS": str(served_history.with_name("sweeps")),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_until_healthy(url, server)
            yield url
        finally:
            server.kill()


@pytest.fixture(scope="session")
def browser():
    """A browser that is installed on this machine; without one the tests are skipped."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip("no browser found; install one, for instance with: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, dashboard_url):
    """Open the dashboard as a new visitor, wait for the whole page, and return it."""
    contexts = []

    def opened(query="", heading="All candidates", **settings):
        context = browser.new_context(viewport={"width": 1440, "height": 1600}, **settings)
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.goto(f"{dashboard_url}/{query}")
        sync_api.expect(page.get_by_role("heading", name=heading)).to_be_visible(timeout=60_000)
        return page

    yield opened
    for context in contexts:
        context.close()


def _wait_until_healthy(url, server):
    for _ in range(600):
        if server.poll() is not None:
            pytest.fail(f"the dashboard ended at once, with exit code {server.returncode}")
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):  # noqa: S310 - our own address
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail("the dashboard did not start within a minute")
