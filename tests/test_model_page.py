"""The model-replay page: made-up, sample and uploaded cases, judged by the sidebar's ks and gates."""

import json
from pathlib import Path

import pytest
from dashboard import SYNTHETIC, new_session
from streamlit.testing.v1 import AppTest

from pages.ui import model_inputs, model_state
from polykv_core import ModelReplayCase, load_model_case, measure_model, run_model_case

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "sample_fixtures" / "model_case_one_layer_two_heads.json"
PAGE, REPLAY = "pages/model/page.py", "pages/replay/page.py"
HOSTILE = "*my* :tada: $x$ <b>.json"


@pytest.fixture
def page():
    """The page, opened from the first one, in a session of its own."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run()
    return settled(app.switch_page(PAGE).run())


@pytest.fixture
def measured(monkeypatch):
    """How often a model replay was measured."""
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return measure_model(*arguments)

    monkeypatch.setattr(model_state, "measure_model", counted)
    return calls


def settled(app):
    """The page once the work it waits for is done."""
    if model_state.JOB in app.session_state:
        app.session_state[model_state.JOB].wait(60)
    app.run()
    assert not app.exception
    return app


def choose(app, kind):
    """Choose where the case comes from."""
    app.button_group("case_kind").set_value(kind)
    return settled(app.run())


def upload(app, content, name="mine.json"):
    """Upload a case."""
    count = app.session_state.get("case_count", 0)
    app.file_uploader(f"case_upload_{count}").upload(name, content, "application/json")
    return settled(app.run())


def set_numbers(app, **values):
    """Set inputs of the case."""
    for name, value in values.items():
        app.number_input(f"model_{name}").set_value(value)
    return settled(app.run())


def verdict(app):
    """The headline, without its icon."""
    return app.title[0].value.split("] ")[-1]


def texts(app):
    """Everything that is shown as plain text."""
    return [text.value for text in app.text]


def shown(app):
    """What the session holds as the last good result."""
    return app.session_state["last_good_model"]


def test_the_first_sight_is_a_verdict_on_a_made_up_case(page):
    """Without any choice: verdict, what the case holds, gates, six charts, all candidates, claim boundary."""
    assert verdict(page) == "PASSED at k = 16"
    captions = [caption.value for caption in page.caption]
    assert any("8 queries over 96 rows in the pool and 32 in the shell" in caption for caption in captions)
    assert any("not real model PPL" in text for text in texts(page))
    assert len(page.get("plotly_chart")) == 6
    gates, candidates = (table.value for table in page.table)
    assert len(gates) == 5
    assert [cell.split()[0] for cell in candidates["k"]] == ["8", "16", "32", "64"]


def test_every_input_reaches_the_case(page):
    """Shape, sizes, seeds, layer and head are those of the inputs."""
    values = {
        "layers": 3,
        "kv_heads": 4,
        "head_dim": 12,
        "layer": 2,
        "head": 3,
        "shared": 20,
        "hot": 10,
        "queries": 2,
        "vocab": 9,
        "data_seed": 5,
        "pool_seed": 6,
        "shell_seed": 7,
        "projection_seed": 8,
    }
    set_numbers(page, **values)
    case = shown(page).case
    assert (case.shape.num_layers, case.shape.num_kv_heads, case.shape.head_dim) == (3, 4, 12)
    assert (case.config.layer, case.config.head, case.config.vocab_size) == (2, 3, 9)
    assert (len(case.shared), len(case.hot), len(case.queries)) == (20, 10, 2)
    assert (case.pool_seed, case.shell_seed, case.config.projection_seed) == (6, 7, 8)
    assert {
        number.key.removeprefix("model_") for number in page.number_input if number.key.startswith("model_")
    } == set(values)


@pytest.mark.parametrize("kind", ["made", "sample"])
def test_the_downloaded_case_gives_the_receipt_on_screen(page, kind):
    """Read back and replayed as the command line does, byte for byte, with the sidebar's ks and gates in it."""
    choose(page, kind)
    page.text_input("candidate_ks").set_value("3, 7")
    page.number_input("min_output_cosine").set_value(0.33)
    settled(page.run())
    case = load_model_case(shown(page).case.to_json().encode())
    assert case.config.candidate_ks == (3, 7)
    assert case.config.min_output_cosine == 0.33
    assert page.session_state["model_receipt"] == run_model_case(case).to_json().encode()
    assert [button.proto.disabled for button in page.get("download_button")] == [False] * 4


def test_the_command_names_the_two_files(page):
    """The downloads' names, so that the line can be pasted where they lie."""
    (command,) = [code.value for code in page.code if code.value.startswith("polykv model-replay")]
    assert command.startswith("polykv model-replay model-replay_passed_")
    assert "_case.json --receipt=model-replay_passed_" in command


def test_the_fixture_is_chosen_on_the_page_that_is_about_it():
    """The model replay has no use for a fixture, and what was chosen stays chosen."""
    app = new_session()
    app.selectbox("sample").set_value(SYNTHETIC.name).run()
    app.switch_page("pages/model/page.py").run()
    assert "sample" not in {box.key for box in app.selectbox}
    assert not [uploader for uploader in app.get("file_uploader") if uploader.key.startswith("upload_")]
    app.switch_page("pages/replay/page.py").run()
    assert app.selectbox("sample").value == SYNTHETIC.name


def test_a_moved_gate_judges_again_and_measures_nothing(measured):
    """Ks and thresholds need no new measurement; another seed does."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run()
    page = settled(app.switch_page(PAGE).run())
    assert len(measured) == 1
    page.number_input("min_output_cosine").set_value(0.99)
    page.text_input("candidate_ks").set_value("5")
    settled(page.run())
    assert verdict(page) == "FAILED at every candidate k"
    assert len(measured) == 1
    set_numbers(page, data_seed=1)
    assert len(measured) == 2


def test_a_case_that_is_too_large_is_refused_and_the_last_result_stays(page):
    """The message says what to ask for instead."""
    set_numbers(page, layers=64, kv_heads=64, head_dim=256)
    assert page.error[0].value == "The case could not be used."
    assert any("Ask for fewer tokens, layers or heads" in text for text in texts(page))
    assert "Below is the last good result, for made-up case with data seed 7." in texts(page)
    assert verdict(page) == "PASSED at k = 16"


def test_a_head_that_the_codecs_cannot_hold_is_refused(page):
    """A head_dim that is no multiple of 4 is named, and nothing is lost."""
    set_numbers(page, head_dim=18)
    assert page.error[0].value == "The case could not be used."
    assert any("18" in text for text in texts(page))
    set_numbers(page, head_dim=16)
    assert not page.error


def test_an_uploaded_case_is_replayed(page):
    """Its rows, layer, head and projection; the ks and gates are the sidebar's."""
    choose(page, "upload")
    content = SAMPLE.read_bytes()
    upload(page, content)
    assert not page.error
    case = shown(page).case
    original = load_model_case(content)
    assert case.config.vocab_size == original.config.vocab_size
    assert case.config.candidate_ks == (8, 16, 32, 64)
    assert "mine.json" in texts(page)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "no valid JSON"),
        (b"{}", "shape"),
        (json.dumps(json.loads(SAMPLE.read_text()) | {"queries": []}).encode(), "queries is empty"),
        (json.dumps(json.loads(SAMPLE.read_text()) | {"hot": [[1.0]]}).encode(), "hot"),
    ],
)
def test_a_faulty_case_is_refused_and_the_last_result_stays(page, content, reason):
    """The reason is shown verbatim, also with a name full of Markdown; the next upload is taken."""
    choose(page, "upload")
    upload(page, content, HOSTILE)
    assert page.error[0].value == "The case could not be used."
    assert any(reason in text for text in texts(page))
    assert f"Uploaded: {HOSTILE}" in texts(page)
    assert verdict(page) == "PASSED at k = 16"
    rendered = [element.value for kind in (page.markdown, page.caption, page.error) for element in kind]
    assert not any(":tada:" in text for text in rendered)
    upload(page, SAMPLE.read_bytes())
    assert not page.error


def test_inputs_and_upload_survive_a_change_of_page(page):
    """Coming back finds the numbers, the choice and the uploaded case as they were."""
    set_numbers(page, queries=3, shared=40)
    settled(page.switch_page(REPLAY).run())
    settled(page.switch_page(PAGE).run())
    assert page.number_input("model_queries").value == 3
    assert page.number_input("model_shared").value == 40
    choose(page, "upload")
    upload(page, SAMPLE.read_bytes())
    settled(page.switch_page(REPLAY).run())
    settled(page.switch_page(PAGE).run())
    assert page.button_group("case_kind").value == "upload"
    assert "Uploaded: mine.json" in texts(page)


def test_waiting_for_an_upload_keeps_the_last_result(page):
    """Choosing to upload shows the uploader, and takes nothing away."""
    choose(page, "upload")
    assert verdict(page) == "PASSED at k = 16"
    assert not page.error


def test_the_sample_is_a_case_like_any_other():
    """What the page offers is the file in the folder of samples."""
    assert isinstance(load_model_case(SAMPLE), ModelReplayCase)


def test_a_link_carries_the_inputs():
    """What differs from the defaults stands in the URL, and a URL gives it to a new session."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    app.query_params["model_queries"] = "3"
    app.query_params["case_kind"] = "sample"
    page = settled(app.run().switch_page(PAGE).run())
    assert page.button_group("case_kind").value == "sample"
    page = choose(page, "made")
    assert page.number_input("model_queries").value == 3
    page = set_numbers(page, hot=9)
    assert page.query_params["model_queries"] == "3"
    assert page.query_params["model_hot"] == "9"
    assert "model_shared" not in page.query_params


@pytest.mark.parametrize("text", ["", "-1", "0", "65", "1.5", "x", "٣", "9" * 5000])
def test_an_input_that_makes_no_sense_in_a_link_is_left_out(text):
    """The default stands instead, whatever somebody typed into the address."""
    assert model_inputs.from_url({"model_queries": text, "case_kind": text}) == {}
