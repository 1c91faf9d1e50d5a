"""The Replay page's exports: the report and the config hold the very receipt that is downloaded."""

import pytest
from click.testing import CliRunner
from dashboard import PASSING, SYNTHETIC, fixture_bytes, new_session, set_gates, upload

from pages.ui import downloads
from polykv_core.cli import main
from polykv_core.report import receipts_in_report

SETTINGS = {
    "as at first": {},
    "other gates and ks": {"candidate_ks": "32, 4, 16", "max_ppl_delta": "10.0", "min_output_cosine": "0.7215"},
    "gates off": {"max_ppl_delta_on": "false", "min_output_cosine_on": "false"},
    "every gate off": {
        f"{name}_on": "false"
        for name in (
            "min_output_cosine",
            "max_output_mse",
            "max_kl_divergence",
            "max_ppl_delta",
            "min_top1_agreement",
        )
    },
    "replay options": {
        "attention_scale": "inverse_sqrt_head_dim",
        "query_coding": "exact",
        "pool_codec": "fib_k4_n64",
        "shell_codec": "turbo_4bit",
    },
    "a scale that is a number": {"attention_scale": "0.3"},
    "the worst query": {"statistic": "worst", "max_ppl_delta": "10.0"},
    "95 % of queries, a gate off, a codec": {"statistic": "p95", "max_ppl_delta_on": "false", "pool_codec": "exact"},
}


@pytest.fixture
def offered(monkeypatch):
    """What each download button hands out, by its label."""
    contents, draw = {}, downloads.draw

    def noted(label, content, *rest):
        contents[label] = content
        draw(label, content, *rest)

    monkeypatch.setattr(downloads, "draw", noted)
    return contents


def handed_out(offered, label):
    """The bytes of a download; some are made only when they are asked for."""
    content = offered[label]
    return content if isinstance(content, bytes) else content().encode()


def with_settings(settings):
    """A visitor of the synthetic sample with settings."""
    app = new_session(sample=SYNTHETIC.name, **settings)
    assert not app.exception
    assert not app.error
    return app


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_report_holds_the_receipt_that_is_downloaded(app, offered, settings):
    """One receipt, byte for byte."""
    app = with_settings(settings)
    receipts = receipts_in_report(handed_out(offered, "Report as HTML"))
    assert receipts == (app.session_state["receipt"],)
    assert handed_out(offered, "Download receipt") == app.session_state["receipt"]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_config_given_to_the_command_line_yields_the_identical_receipt(app, offered, settings, tmp_path):
    """Ks, gates, switches, statistic and replay options are all in it."""
    app = with_settings(settings)
    config, receipt = tmp_path / "config.json", tmp_path / "receipt.json"
    config.write_bytes(handed_out(offered, "Config as JSON"))
    arguments = ["replay", str(SYNTHETIC), "--config", str(config), "--receipt", str(receipt)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (0, 1), done.output
    assert receipt.read_bytes() == app.session_state["receipt"]


def test_the_exports_of_an_upload_are_those_of_its_file(app, offered, tmp_path):
    """The report reads the file again from where it lies; a hostile name does no harm to it."""
    content = fixture_bytes(model_id="<script>alert(1)</script> *m* ü", seed=3)
    upload(app, content, "<b> & my.json")
    set_gates(app, **PASSING)
    report = handed_out(offered, "Report as HTML")
    assert receipts_in_report(report) == (app.session_state["receipt"],)
    assert b"<script>" not in report
    assert b"&lt;b&gt; &amp; my.json" in report
    fixture, config, receipt = (tmp_path / name for name in ("fixture.json", "config.json", "receipt.json"))
    fixture.write_bytes(content)
    config.write_bytes(handed_out(offered, "Config as JSON"))
    CliRunner().invoke(main, ["replay", str(fixture), "--config", str(config), "--receipt", str(receipt)])
    assert receipt.read_bytes() == app.session_state["receipt"]


def test_the_exports_follow_a_moved_gate(app, offered):
    """They are of the verdict on screen, not of the one before."""
    app.selectbox("sample").set_value(SYNTHETIC.name).run()
    before = handed_out(offered, "Config as JSON")
    set_gates(app, **PASSING)
    assert handed_out(offered, "Config as JSON") != before
    assert receipts_in_report(handed_out(offered, "Report as HTML")) == (app.session_state["receipt"],)
