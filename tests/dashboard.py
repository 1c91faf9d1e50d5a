"""What the tests of the dashboard share: visitors, uploads, gates, and what a page says."""

import json
from pathlib import Path

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).parents[1]
SYNTHETIC = ROOT / "sample_fixtures" / "synthetic_d16_basic.json"
PASSING = {"max_ppl_delta": 10.0, "min_output_cosine": 0.7}


def new_session(**query):
    """A visitor of the dashboard, just arrived, by a link if there is a query."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    app.query_params.update(query)
    return app.run()


def fixture_bytes(**changes):
    """The synthetic sample as a file, with some fields changed."""
    return json.dumps(json.loads(SYNTHETIC.read_text()) | changes).encode()


def upload(app, content, name="mine.json"):
    """Upload a file and wait for the page."""
    uploader(app).upload(name, content, "application/json")
    return app.run()


def uploader(app):
    """The sidebar's uploader: its key changes with each file that it took."""
    return next(uploader for uploader in app.get("file_uploader") if uploader.key.startswith("upload_"))


def set_gates(app, **thresholds):
    """Set thresholds and wait for the page."""
    for name, value in thresholds.items():
        app.number_input(name).set_value(value)
    return app.run()


def verdict(app):
    """The headline, without its icon."""
    assert not app.exception
    return app.title[0].value.split("] ")[1]


def texts(app):
    """Everything that is shown as plain text."""
    return [text.value for text in app.text]


def markdown(app):
    """Everything that is shown as Markdown."""
    return "\n".join(element.value for element in app.markdown)
