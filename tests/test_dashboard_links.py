"""Links, exports and jobs of the replay page."""

import json
import shlex
import threading
from urllib.parse import parse_qsl, urlsplit

import pytest
from dashboard import (
    PASSING,
    SYNTHETIC,
    fixture_bytes,
    markdown,
    new_session,
    set_gates,
    texts,
    upload,
    uploader,
    verdict,
)

from pages.ui import controls, jobs, replayed, uploads
from pages.ui.samples import Sample
from polykv_core import (
    CapturedReplayConfig,
    candidates_csv,
    every_k,
    judge,
    load_captured_config,
    load_fixture,
    measure,
)
from polykv_core.cli import main

DIGEST = load_fixture(SYNTHETIC).digest.removeprefix("sha256:")


def linked(app):
    """The query of the link that the page offers."""
    return dict(parse_qsl(urlsplit(app.code[-1].value).query))


def test_a_link_brings_the_same_verdict_to_a_first_visitor(app):
    """Sample, ks, thresholds and switches are in it."""
    app.selectbox("sample").set_value(SYNTHETIC.name)
    app.text_input("candidate_ks").set_value("32, 4, 16")
    app.checkbox("max_ppl_delta_on").uncheck()
    set_gates(app, min_output_cosine=0.7215, max_kl_divergence=0.123456789)
    other = new_session(**linked(app))
    assert other.session_state["receipt"] == app.session_state["receipt"]
    assert verdict(other) == verdict(app) == "PASSED at k = 32"


def test_the_address_bar_brings_the_same_too(app):
    """What is not as it was at first stands in the URL, options of charts included; at first nothing does."""
    assert not app.query_params
    app.get_by_key("value_axes").set_value("Log")
    set_gates(app, **PASSING)
    assert {"value_axes", *PASSING} == set(app.query_params)
    other = new_session(**app.query_params)
    assert other.session_state["receipt"] == app.session_state["receipt"]
    assert other.get_by_key("value_axes").value == "Log"


def test_what_a_link_says_in_vain_is_said(app):  # noqa: ARG001 - clears the caches
    """Numbers out of bounds and unknown samples do not pass silently."""
    other = new_session(sample="*gone*.json", max_kl_divergence="nan", min_output_cosine="7", max_ppl_delta="2")
    assert "Part of the link could not be used." in [error.value for error in other.error]
    (said,) = [text for text in texts(other) if "max_kl_divergence=nan" in text]
    assert "sample=*gone*.json" in said
    assert "min_output_cosine=7" in said
    assert "max_ppl_delta=2" not in said
    assert other.number_input("max_ppl_delta").value == 2.0


def test_a_link_to_an_upload_asks_for_the_file(app):
    """Its digest is in the link; the file brings the verdict, and no other fixture's is shown before."""
    upload(app, SYNTHETIC.read_bytes())
    set_gates(app, **PASSING)
    assert app.query_params["fixture"] == DIGEST[:16]
    link = linked(app)
    assert link["fixture"] == DIGEST[:16]
    assert "sample" not in link
    other = new_session(**link)
    assert [title.value for title in other.title] == [":material/link: This link needs a file"]
    assert any(DIGEST[:16] in text and "upload it on the left" in text for text in texts(other))
    assert not other.table
    upload(other, SYNTHETIC.read_bytes())
    assert verdict(other) == "PASSED at k = 16"
    assert other.session_state["receipt"] == app.session_state["receipt"]


@pytest.mark.parametrize("way_out", ["use_sample", "use_upload", "sample"])
def test_another_file_than_the_link_asks_for_is_refused(app, way_out):  # noqa: ARG001 - clears the caches
    """The sentence names both digests, and there are ways out."""
    other = new_session(fixture=DIGEST)
    content = fixture_bytes(seed=5)
    upload(other, content)
    digest = load_fixture(content).digest.removeprefix("sha256:")
    (said,) = [text for text in texts(other) if "but the link asks for" in text]
    assert digest[:16] in said
    assert DIGEST in said
    assert not other.table
    if way_out == "sample":
        uploads_cleared = other.button("clear_upload").click().run()
        uploads_cleared.selectbox("sample").set_value(SYNTHETIC.name).run()
    else:
        other.button(way_out).click().run()
    assert verdict(other) == "FAILED at every candidate k"
    assert "fixture" in other.query_params if way_out == "use_upload" else "fixture" not in other.query_params


def test_a_link_with_a_broken_digest_says_so(app):  # noqa: ARG001 - clears the caches
    """It is shown as it came, and the sample is one press away."""
    other = new_session(fixture="*no* digest")
    assert any("'*no* digest', which is no digest" in text for text in texts(other))
    assert verdict(other.button("use_sample").click().run()) == "FAILED at every candidate k"


def test_a_link_to_a_given_fixture_names_its_digest(app, monkeypatch):  # noqa: ARG001 - clears the caches
    """Names are nobody's own: who has that file sees its verdict at once, who has another of that name is asked."""
    given = Sample(f"./{SYNTHETIC.name}", SYNTHETIC.name, "", SYNTHETIC.parent.absolute().joinpath())
    monkeypatch.setattr(controls, "SAMPLES", (given, *controls.SAMPLES))
    link = linked(set_gates(new_session(), **PASSING))
    assert link["fixture"] == DIGEST[:16]
    assert "sample" not in link
    assert verdict(new_session(**link)) == "PASSED at k = 16"
    asked = new_session(**link | {"fixture": "0" * 16})
    assert [title.value for title in asked.title] == [":material/link: This link needs a file"]


def test_another_upload_takes_the_place_of_the_first(app):
    """Once a link is served, files come and go freely, and the URL follows."""
    upload(app, SYNTHETIC.read_bytes())
    content = fixture_bytes(seed=6)
    upload(app, content, "second.json")
    assert app.query_params["fixture"] == load_fixture(content).digest[7:23]
    assert "second.json" in texts(app)


def test_uploads_that_differ_in_one_number_are_never_mixed_up(app, measured):
    """Each is measured for itself and judged by its own numbers."""
    record = json.loads(SYNTHETIC.read_text())
    record["queries"][0]["keys"][0][0] += 0.001
    ours, theirs = SYNTHETIC.read_bytes(), json.dumps(record).encode()
    other = new_session()
    upload(app, ours)
    upload(other, theirs)
    app.run()
    assert len(measured) == 2
    assert app.query_params["fixture"] != other.query_params["fixture"]


def test_an_upload_is_held_on_disk_alone(app):
    """The session holds no bytes and no rows of it in memory, and the uploader waits for the next file."""
    upload(app, SYNTHETIC.read_bytes())
    held = app.session_state["held_upload"]
    assert held.read() == SYNTHETIC.read_bytes()
    assert not [value for value in vars(held).values() if isinstance(value, bytes)]
    assert uploader(app).value is None
    app.button("clear_upload").click().run()
    assert "held_upload" not in app.session_state
    assert "synthetic-head-d16" not in str(app.session_state[uploads.LAST_GOOD])


def test_files_are_what_the_core_makes(app, tmp_path, capsysbinary, monkeypatch):
    """Tables and config as the core writes them, and the command line gives the identical receipt."""
    upload(app, SYNTHETIC.read_bytes(), "my file.json")
    set_gates(app, **PASSING)
    shown = app.session_state[uploads.LAST_GOOD]
    fixture, config = load_fixture(SYNTHETIC), CapturedReplayConfig((8, 16, 32, 64), **PASSING)
    assert shown.receipt.config == config
    assert candidates_csv([shown.receipt]) == candidates_csv([judge(measure(fixture, every_k(fixture)), config)])

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my file.json").write_bytes(SYNTHETIC.read_bytes())
    program, *arguments = shlex.split(app.code[1].value)
    assert program == "polykv"
    with pytest.raises(SystemExit, match="0"):
        main(arguments)
    receipt = tmp_path / arguments[-1].partition("=")[2]
    assert receipt.name == f"synthetic-head-d16_passed_{DIGEST[:12]}.json"
    assert receipt.read_bytes() == app.session_state["receipt"]
    capsysbinary.readouterr()

    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    assert load_captured_config(tmp_path / "config.json") == config


def test_every_download_has_a_safe_name(app):
    """A model id cannot choose the name of a file."""
    upload(app, fixture_bytes(model_id="../../con:*?.\n"))
    assert len(app.get("download_button")) == 5
    stem = app.code[1].value.split("--receipt=")[1]
    assert stem.replace("'", "").startswith("fixture-con_failed_")


@pytest.fixture
def held_up(monkeypatch):
    """Replays that wait before every query but the first until they may go on; the page does not wait for them."""
    may_go_on, begun = threading.Event(), threading.Event()

    def slow(fixture, ks, on_query, *, options):
        def told(done, total):
            on_query(done, total)
            if done == 1:
                begun.set()
                may_go_on.wait(60)
                on_query(done, total)

        return measure(fixture, ks, told, options=options)

    monkeypatch.setattr(replayed, "measure", slow)
    yield begun, may_go_on
    may_go_on.set()


def test_long_work_shows_how_far_it_is_and_the_last_result_stays(app, held_up, monkeypatch):
    """Progress by query, verdict of before, gates still judge; then the result, without another word."""
    begun, may_go_on = held_up
    monkeypatch.setattr(jobs, "PATIENCE", 0.0)
    monkeypatch.setattr(jobs, "LOOK_EVERY", None)
    upload(app, fixture_bytes(model_id="slow"), "*slow*.json")
    assert begun.wait(60)
    app.run()
    assert "Replaying *slow*.json" in texts(app)
    assert app.button("replay_job_cancel")
    assert verdict(app) == "FAILED at every candidate k"
    assert any("SmolLM2-135M, layer 15, head 2" in text for text in texts(app))
    set_gates(app, max_ppl_delta=300.0, max_kl_divergence=1.0, min_top1_agreement=0.0)
    assert verdict(app) == "PASSED at k = 8", "the last result can still be tuned"
    may_go_on.set()
    app.session_state["replay_job"].wait(60)
    app.run()
    assert app.code[0].value == "slow"
    assert not [text for text in texts(app) if "Replaying" in text]


def test_a_cancelled_replay_leaves_the_last_result_and_can_be_started_again(app, held_up, monkeypatch):
    """The page says what was cancelled."""
    begun, may_go_on = held_up
    monkeypatch.setattr(jobs, "PATIENCE", 0.0)
    monkeypatch.setattr(jobs, "LOOK_EVERY", None)
    upload(app, fixture_bytes(model_id="slow"), "slow.json")
    assert begun.wait(60)
    app.run()
    app.button("replay_job_cancel").click().run()
    assert "The replay was cancelled." in [warning.value for warning in app.warning]
    assert "Below is the last good result, for SmolLM2-135M, layer 15, head 2." in texts(app)
    assert verdict(app) == "FAILED at every candidate k"
    may_go_on.set()
    monkeypatch.setattr(jobs, "PATIENCE", None)
    app.button("try_again").click().run()
    assert app.code[0].value == "slow"
    assert not app.warning


def test_a_job_says_what_went_wrong():
    """Faults of the work are raised where its result is asked for, at every time of asking."""
    job = jobs.Job("key", "name", lambda on_query: on_query(1, 0) or 1 / 0, "queries")
    job.wait(None)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            job.result()
    assert not job.running


def test_gates_of_the_sidebar_are_kept_on_every_page(app):
    """Page changes lose neither fixture nor gates."""
    upload(app, SYNTHETIC.read_bytes())
    set_gates(app, **PASSING)
    app.switch_page("pages/about/page.py").run()
    assert not app.exception
    app.switch_page("pages/replay/page.py").run()
    assert verdict(app) == "PASSED at k = 16"
    assert "is the first candidate" in markdown(app)
