"""The HTML report in a real browser: offline, accessible, printable, and the receipt comes out of it."""

from importlib.resources import files
from itertools import combinations
from pathlib import Path

import pytest

from polykv_core import CapturedReplayConfig, command_line, every_k, explain, judge, load_fixture, measure
from polykv_core.report import ReportPart, html_report

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
SAMPLES = Path(__file__).parents[2] / "sample_fixtures"
PAPER = {"width": 688, "height": 1017}  # A4 less its margins, at 96 pixels an inch
TEXTS = """svg => [...svg.querySelectorAll('text')].map(text => {
    const box = text.getBoundingClientRect()
    return {text: text.textContent, left: box.left, right: box.right, top: box.top, bottom: box.bottom}
})"""


def part(name, **gates):
    """A sample with its explanation."""
    fixture = load_fixture(SAMPLES / name)
    config = CapturedReplayConfig((8, 16, 32, 64), **gates)
    curve = measure(fixture, every_k(fixture))
    receipt = judge(curve, config)
    explanation = explain(fixture, receipt.selected_candidate_k)
    return ReportPart(name, receipt, curve, explanation, command_line(name, config, "receipt.json"))


@pytest.fixture(scope="module")
def parts():
    """One that passes and one that fails."""
    return [part("synthetic_d16_basic.json", max_ppl_delta=10.0), part("smollm2_l15_h2_local.json.gz")]


@pytest.fixture(scope="module")
def report(parts, tmp_path_factory):
    """The report as a file."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_bytes(html_report(parts).encode())
    return path


@pytest.fixture
def reading(browser, report):
    """Open the report as a reader with these settings."""
    contexts = []

    def opened(**settings):
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.goto(report.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()


def test_the_report_asks_the_network_for_nothing_and_complains_of_nothing(browser, report):
    """One request, for itself; and the console stays empty, of its own policy's complaints too."""
    context = browser.new_context()
    page, requests, told = context.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.goto(report.as_uri())
    page.wait_for_load_state("networkidle")
    context.close()
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
    assert told == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(reading, scheme):
    """With everything open that can be opened."""
    page = reading(color_scheme=scheme, bypass_csp=True, viewport={"width": 1440, "height": 1000})
    page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    faults = {rule["id"]: [node["html"][:200] for node in rule["nodes"]] for rule in found}
    assert {rule["id"]: faults[rule["id"]] for rule in found if rule["impact"] in ("serious", "critical")} == {}


@pytest.mark.parametrize("width", [390, 800, 1440])
def test_no_page_is_wider_than_its_screen(reading, width):
    """A wide table scrolls in its own place."""
    page = reading(viewport={"width": width, "height": 900})
    assert page.locator("html").evaluate("root => root.scrollWidth") <= width


@pytest.mark.parametrize("width", [800, 1440])
def test_no_text_of_a_chart_is_cut_or_covers_another(reading, width):
    """Each within its picture, none over another one."""
    page = reading(viewport={"width": width, "height": 900})
    for chart in page.locator("svg").all():
        frame, texts = chart.bounding_box(), chart.evaluate(TEXTS)
        out = [t["text"] for t in texts if t["left"] < frame["x"] - 1 or t["right"] > frame["x"] + frame["width"] + 1]
        assert out == []
        assert [(a["text"], b["text"]) for a, b in combinations(texts, 2) if overlap(a, b)] == []


def overlap(a, b):
    """Whether two texts cover each other by more than the blank room around their letters."""
    wide = min(a["right"], b["right"]) - max(a["left"], b["left"])
    high = min(a["bottom"], b["bottom"]) - max(a["top"], b["top"])
    return wide > 1 and high > 4


def test_it_prints(reading):
    """To a few pages, in light colours though the screen is dark."""
    page = reading(color_scheme="dark", bypass_csp=True)
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor") == "rgb(255, 255, 255)"


def test_no_chart_or_table_is_wider_than_the_paper(reading):
    """Paper does not scroll."""
    page = reading(viewport=PAPER)
    page.emulate_media(media="print")
    boxes = [element.bounding_box() for element in page.locator("svg, table").all()]
    assert len(boxes) > 12
    assert [box for box in boxes if box["x"] < 0 or box["x"] + box["width"] > PAPER["width"] + 0.5] == []


def test_the_link_downloads_the_exact_receipt(reading, parts, tmp_path):
    """Under the name that the report tells."""
    page = reading()
    for index, expected in enumerate(parts):
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the receipt").nth(index).click()
        saved = tmp_path / download.value.suggested_filename
        download.value.save_as(saved)
        assert saved.read_bytes() == expected.receipt.to_json().encode()
        assert f"polykv verify {saved.name}" in page.locator("body").inner_text()
