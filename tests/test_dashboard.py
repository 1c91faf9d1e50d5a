"""The dashboard as its pages say it, without a browser; tests/browser has what only a browser can show."""

import json

import pytest
from dashboard import PASSING, SYNTHETIC, fixture_bytes, markdown, new_session, set_gates, texts, upload, verdict

from pages.ui.samples import SAMPLES
from polykv_core import (
    DEFAULT_CANDIDATE_KS,
    GATES,
    CapturedReplayConfig,
    CapturedReplayReceipt,
    ReceiptError,
    load_fixture,
    parse_ks,
    run_captured_model_replay,
)

HOSTILE = "org/m:Q4_K *bold* :tada: ~x~ $x$ <b> `c` [l](http://x) :red[r] \\n"


def test_a_first_visit_shows_a_verdict_on_a_sample(app):
    """Without any choice the page has a verdict, three sentences to start from, the gates, charts and candidates."""
    assert app.info[0].value.count(". ") == 2
    assert verdict(app) == "FAILED at every candidate k"
    assert "KL divergence is 0.529162 nats, but the gate asks for at most 0.5 nats: it misses by" in markdown(app)
    assert "At every candidate KL divergence, |PPL delta| and Top-1 agreement fail" in markdown(app)
    gates, candidates = (table.value for table in app.table)
    assert list(gates["Gate"]) == [
        "Output cosine",
        "Output MSE",
        "KL divergence (nats)",
        "|PPL delta|",
        "Top-1 agreement",
    ]
    assert [cell.split()[1].rstrip(",") for cell in gates["Verdict"]] == ["passes", "passes", "fails", "fails", "fails"]
    assert [cell.split()[0] for cell in candidates["k"]] == [str(k) for k in DEFAULT_CANDIDATE_KS]
    assert len(app.get("plotly_chart")) == 6
    assert any("not pretrained LLM PPL" in text for text in texts(app))


def test_the_sidebar_starts_with_the_cores_defaults(app):
    """The ks and the five thresholds are those of a config without any wish."""
    config = CapturedReplayConfig(DEFAULT_CANDIDATE_KS)
    assert parse_ks(app.text_input("candidate_ks").value) == config.candidate_ks
    for gate in GATES:
        assert app.number_input(gate.threshold).value == getattr(config, gate.threshold)


def test_every_offered_sample_is_there_and_every_fixture_is_offered(app):
    """The list of samples and the fixtures in the folder are the same, and each gets a verdict."""
    files = {path.name for path in SYNTHETIC.parent.iterdir() if {".json", ".safetensors"} & set(path.suffixes)}
    assert {sample.file_name for sample in SAMPLES} == {name for name in files if not name.startswith("model_case")}
    for sample in SAMPLES:
        app.selectbox("sample").set_value(sample.file_name).run()
        assert verdict(app).startswith(("PASSED", "FAILED"))
        assert any(text.startswith(sample.title) for text in texts(app))


def test_a_moved_threshold_judges_again_and_measures_nothing(app, measured):
    """Thresholds and ks change the verdict of one measurement, which is of every k."""
    upload(app, fixture_bytes(seed=1))
    assert verdict(app) == "FAILED at every candidate k"
    assert measured == [range(1, 73)]
    set_gates(app, **PASSING)
    assert verdict(app).startswith("PASSED at k = ")
    app.text_input("candidate_ks").set_value("4, 7, 13").run()
    assert [cell.split()[0] for cell in app.table[1].value["k"]] == ["4", "7", "13"]
    assert len(measured) == 1


def test_a_second_session_uses_the_kept_measurement(app, measured):
    """The same fixture in another session is not measured again."""
    upload(app, fixture_bytes(seed=2))
    upload(new_session(), fixture_bytes(seed=2))
    assert len(measured) == 1


def test_a_verdict_that_passes_says_at_which_k_and_what_it_saves(app):
    """The selected k and the saving stand in a sentence."""
    upload(app, SYNTHETIC.read_bytes())
    set_gates(app, **PASSING)
    assert verdict(app) == "PASSED at k = 16"
    assert "It decodes 64 of 288 value rows, 4.5× fewer." in markdown(app)  # noqa: RUF001


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty; expected JSON"),
        (b"{", "no valid JSON at line 1"),
        (b"\x1f\x8b\x08broken", "the gzip file is damaged or cut off"),
        (fixture_bytes(head_dim=8), "output_projection row 0 has 16 numbers; expected head_dim = 8"),
        (fixture_bytes(queries=[]), "queries is empty; capture at least one query"),
    ],
)
def test_a_faulty_upload_says_why_and_keeps_the_last_good_result(app, content, reason):
    """The message of the core is shown; verdict, charts and receipt stay, and still follow the thresholds."""
    upload(app, SYNTHETIC.read_bytes(), "good.json")
    receipt = app.session_state["receipt"]
    upload(app, content, "faulty.json")
    assert app.error[0].value == "The uploaded file could not be used."
    assert any(text.startswith(reason) for text in texts(app))
    assert "Below is the last good result, for good.json." in texts(app)
    assert verdict(app) == "FAILED at every candidate k"
    assert app.session_state["receipt"] == receipt
    assert verdict(set_gates(app, **PASSING)) == "PASSED at k = 16"
    assert app.error, "the message stays as long as the faulty file does"


def test_rows_that_no_codec_holds_are_refused_like_a_faulty_file(app):
    """A fixture that can be read but not replayed leaves the last good result on screen."""
    queries = json.loads(SYNTHETIC.read_text())["queries"]
    queries[1]["keys"][0] = [0.0] * 16
    upload(app, fixture_bytes(queries=queries))
    assert any("query 1, keys row 0" in text for text in texts(app))
    assert verdict(app) == "FAILED at every candidate k"


def test_removing_the_upload_comes_back_to_the_sample(app):
    """The sample waits while a file is there, and takes its place when the file goes."""
    upload(app, fixture_bytes(model_id="mine"))
    assert app.selectbox("sample").disabled
    assert app.code[0].value == "mine"
    app.button("clear_upload").click().run()
    assert not app.selectbox("sample").disabled
    assert SAMPLES[0].title in texts(app)


def test_what_a_fixture_says_is_shown_verbatim(app):
    """A model id full of Markdown stands in a code block as it is, a file name and a warning in plain text."""
    upload(app, fixture_bytes(model_id=HOSTILE, schema_version=":tada: *v9*"), "*my* :tada:.json")
    assert app.code[0].value == HOSTILE
    assert "*my* :tada:.json" in texts(app)
    assert any("':tada: *v9*', not 'poly_kv_captured_replay_fixture_v1'" in text for text in texts(app))
    rendered = [element.value for kind in (app.markdown, app.caption, app.error, app.warning) for element in kind]
    assert not any(":tada:" in text or "*bold*" in text for text in rendered)
    assert not any("tada" in chart.proto.spec for chart in app.get("plotly_chart"))


@pytest.mark.parametrize("text", ["", "8, x", "8, *x*", "-3", "1e2", "2.5", "0", "8, 99999999999999999999", "٣"])
def test_ks_that_mean_nothing_are_refused_and_the_last_ones_stay(app, text):
    """The message says what is wrong; the table still has the candidates of before."""
    app.text_input("candidate_ks").set_value("4, 8").run()
    app.text_input("candidate_ks").set_value(text).run()
    assert app.error[0].value == "The candidate ks could not be used."
    assert verdict(app) == "FAILED at every candidate k"
    assert [cell.split()[0] for cell in app.table[1].value["k"]] == ["4", "8"]


def test_ks_keep_their_order_and_their_repetitions(app):
    """The order is the order of preference, so the first that passes is selected, not the smallest."""
    app.selectbox("sample").set_value(SYNTHETIC.name)
    app.text_input("candidate_ks").set_value("64, 16, 64")
    set_gates(app, **PASSING)
    assert verdict(app) == "PASSED at k = 64"
    assert [cell.split()[0] for cell in app.table[1].value["k"]] == ["64", "16", "64"]


def test_a_k_beyond_the_rows_is_said_to_read_everything(app):
    """A k larger than the rows is accepted, and the page says what that means."""
    app.text_input("candidate_ks").set_value("8, 100000").run()
    assert any("fewer rows than k = 100000; of those every row is read" in caption.value for caption in app.caption)


@pytest.mark.parametrize("gates", [{}, PASSING])
def test_the_receipt_is_the_one_of_the_core(app, gates):
    """What the button downloads is the receipt of run_captured_model_replay, byte for byte, in UTF-8."""
    content = fixture_bytes(model_id=f"{HOSTILE} ü 漢")
    upload(app, content)
    app.text_input("candidate_ks").set_value("32, 8")
    set_gates(app, **gates)
    config = CapturedReplayConfig((32, 8), **gates)
    assert app.session_state["receipt"] == run_captured_model_replay(load_fixture(content), config).to_json().encode()
    assert not app.get("download_button")[0].proto.disabled


def test_a_receipt_that_must_not_be_written_is_not_offered(app, monkeypatch):
    """The reason is shown and the button is out of use; the verdict stays."""

    def refuse(_receipt):
        raise ReceiptError("metrics, output_mse_mean is inf; this one is not written")

    monkeypatch.setattr(CapturedReplayReceipt, "to_json", refuse)
    app.run()
    assert "metrics, output_mse_mean is inf; this one is not written" in texts(app)
    assert app.get("download_button")[0].proto.disabled
    assert verdict(app) == "FAILED at every candidate k"


def test_nobody_sees_the_fixture_of_somebody_else(app):
    """What one session uploads is not in another."""
    upload(app, fixture_bytes(model_id="secret"))
    other = new_session()
    assert app.code[0].value == "secret"
    assert other.code[0].value == "SmolLM2-135M-Instruct-Q4_1:layer15:head2"
