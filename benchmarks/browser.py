"""What the dashboard costs in a real browser: run `python benchmarks/browser.py`, with a chromium installed.

Latency: the fixture of replay.py is uploaded, every gate but one is off, and that one's threshold is typed again and
again, such that the verdict changes each time. From the Enter key to the new verdict, and to the last stroke of the
redrawn charts, as a MutationObserver in the page sees them; the frame that shows them follows within 17 ms.

Memory: five fixtures of about 30 MB are uploaded one after the other; resident memory of the server before, after each,
and at its peak, when the JSON of a fixture is taken apart (Linux only).

A long head: the longest one of scale.py is uploaded, and replayed over every k.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright
from replay import synthetic_fixture_json
from scale import PEAK_LIMIT_MIB, ROWS, made

CHANGES, WARM_UP = 15, 2
VERDICT_LIMIT_MS, CHARTS_LIMIT_MS = 300, 700
LONG_LIMIT_S = 10
UPLOADS, LARGE_QUERIES = 5, 40
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

WATCH = """([verdict, gate]) => {
    const times = {};
    let start, quiet;
    document.addEventListener("keydown", () => { start = performance.now(); }, {capture: true, once: true});
    window.times = new Promise(done => {
        const observer = new MutationObserver(changes => {
            const now = performance.now() - start;
            if (!times.verdict && document.querySelector("h1")?.textContent.includes(verdict)) times.verdict = now;
            const element = change => change.target.closest ? change.target : change.target.parentElement;
            if (!changes.some(change => element(change)?.closest(".js-plotly-plot"))) return;
            times.charts = now;
            clearTimeout(quiet);
            quiet = setTimeout(() => {
                if (!document.querySelector(".js-plotly-plot").textContent.includes(gate)) return;
                observer.disconnect();
                done(times);
            }, 500);
        });
        observer.observe(document.body, {childList: true, subtree: true, characterData: true, attributes: true});
    });
}"""


@contextmanager
def served() -> Iterator[tuple[str, int]]:
    """A dashboard's address and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "polykv_core.cli", "dashboard", f"--port={port}"]
    environment = {**os.environ, "STREAMLIT_SERVER_HEADLESS": "true"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            url = f"http://localhost:{port}"
            while not _answers(f"{url}/_stcore/health"):
                time.sleep(0.1)
            yield url, server.pid
        finally:
            server.terminate()


@contextmanager
def opened(url: str) -> Iterator[Page]:
    """A page of the dashboard, with a verdict on it."""
    with sync_playwright() as playwright:
        executable = next(filter(None, map(shutil.which, BROWSERS)), None)
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 1600})
        page.goto(url)
        expect(page.get_by_role("heading", level=1)).to_contain_text("k", timeout=60_000)
        yield page
        browser.close()


def upload(page: Page, path: Path, model_id: str) -> None:
    """Upload a fixture and wait for its verdict."""
    page.locator('[data-testid="stFileUploader"] input[type="file"]').set_input_files(path)
    expect(page.locator("code").first).to_have_text(model_id, timeout=120_000)
    _settled(page)


def latencies(page: Page) -> tuple[list[float], list[float]]:
    """Milliseconds to the verdict and to the charts, for each change of a threshold."""
    field = page.get_by_label("Output cosine, at least", exact=True)
    to_verdict, to_charts = [], []
    for number in range(WARM_UP + CHANGES):
        passes = number % 2 == 0
        threshold = f"{-0.9 if passes else 0.99:.2f}{number:02d}"
        page.evaluate(WATCH, ["PASSED" if passes else "FAILED", f"{float(threshold):.4g}".lstrip("-")])
        field.fill(threshold)
        field.press("Enter")
        times = page.evaluate("window.times")
        if number >= WARM_UP:
            to_verdict.append(times["verdict"])
            to_charts.append(times["charts"])
        _settled(page)
    return to_verdict, to_charts


def report(name: str, times: list[float], limit: float) -> None:
    """A line with the median, its spread and the limit."""
    median = statistics.median(times)
    verdict = "within" if median <= limit else "BEYOND"
    print(f"{name:<26}{median:>7.0f} ms  ({min(times):.0f} to {max(times):.0f}), {verdict} the limit of {limit} ms")


def measure_latency(folder: Path) -> None:
    """Print what a moved threshold costs."""
    fixture = folder / "fixture.json"
    fixture.write_bytes(synthetic_fixture_json())
    off = "&".join(
        f"{name}_on=false" for name in ("max_output_mse", "max_kl_divergence", "max_ppl_delta", "min_top1_agreement")
    )
    with served() as (url, _), opened(f"{url}/?{off}") as page:
        upload(page, fixture, "synthetic-benchmark-d64")
        to_verdict, to_charts = latencies(page)
    print(f"From a threshold to, medians of {len(to_verdict)} changes")
    report("the verdict", to_verdict, VERDICT_LIMIT_MS)
    report("the last redrawn chart", to_charts, CHARTS_LIMIT_MS)


def measure_memory(folder: Path) -> None:
    """Print what uploads leave in the server."""
    text = synthetic_fixture_json(query_count=LARGE_QUERIES)
    resident = []
    with served() as (url, process), opened(url) as page:
        _settled(page)  # what the first page needs is no growth by uploads
        resident.append(_mib(process, "VmRSS"))
        for number in range(UPLOADS):
            path = folder / f"large_{number}.json"
            path.write_bytes(text.replace(b"synthetic-benchmark-d64", b"upload-%d" % number))
            upload(page, path, f"upload-{number}")
            path.unlink()
            resident.append(_mib(process, "VmRSS"))
        peak = _mib(process, "VmHWM")
    size = len(text) / 2**20
    grown = resident[-1] - resident[0]
    verdict = "within" if grown <= 2 * size else "BEYOND"
    steps = ", ".join(f"{after:.0f}" for after in resident[1:])
    print(
        f"Memory of the server: {resident[0]:.0f} MiB, after each upload of {size:.0f} MiB {steps} MiB, peak {peak:.0f}"
    )
    print(f"grown by {grown:.0f} MiB, {verdict} the limit of twice one fixture, {2 * size:.0f} MiB")


def measure_long(folder: Path) -> None:
    """Print how long a long head takes from its upload to the verdict and the charts over every k."""
    path = folder / "long.safetensors"
    made(path, "rows", ROWS[-1])
    with served() as (url, process), opened(url) as page:
        _settled(page)
        start = time.perf_counter()
        upload(page, path, "scale")
        expect(page.locator(".js-plotly-plot").last).to_be_visible()
        took, peak = time.perf_counter() - start, _mib(process, "VmHWM")
    within = "within" if took <= LONG_LIMIT_S and peak <= PEAK_LIMIT_MIB else "BEYOND"
    print(
        f"{ROWS[-1]} rows, every k: {took:.1f} s from upload to charts, peak {peak:.0f} MiB, {within} the limits of "
        f"{LONG_LIMIT_S} s and {PEAK_LIMIT_MIB} MiB"
    )


def main() -> None:
    """Print all of it."""
    with tempfile.TemporaryDirectory() as folder:
        measure_latency(Path(folder))
        measure_memory(Path(folder))
        measure_long(Path(folder))


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1):  # noqa: S310 - our own address
            return True
    except OSError:
        return False


def _settled(page: Page) -> None:
    expect(page.locator('[data-testid="stApp"]')).to_have_attribute("data-test-script-state", "notRunning")


def _mib(process: int, name: str) -> float:
    """A size of a process in MiB, from what Linux says about it."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


if __name__ == "__main__":
    main()
