"""The Verify page: a receipt held against the fixture on screen or one that is given beside it, and what is said."""

import json
import threading

import pytest
from dashboard import ROOT, SYNTHETIC, fixture_bytes, markdown, new_session, texts, upload, verdict
from support import GOLDEN, read_golden, stored

from pages.ui import downloads, jobs, verifying
from polykv_core import (
    CapturedReplayConfig,
    ReplayOptions,
    command_line,
    explain,
    judge,
    load_fixture,
    load_model_case,
    measure,
    run_captured_model_replay,
    run_model_case,
)
from polykv_core.provenance import sealed
from polykv_core.report import ReportPart, html_report
from polykv_core.verify import verification_dict, verify

PAGE, REPLAY, ABOUT = "pages/verify/page.py", "pages/replay/page.py", "pages/about/page.py"
CASE = ROOT / "sample_fixtures" / "model_case_one_layer_two_heads.json"
CONFIG = CapturedReplayConfig((8, 16), max_ppl_delta=10.0, min_output_cosine=0.7)
FAILING = CapturedReplayConfig((8, 16), min_output_cosine=0.99)
HOSTILE = "*bold* :tada: $x$ <b>b</b> `c` [l](http://x) :red[r]\nsecond line | cell"
GIVE = "Give a receipt."


@pytest.fixture
def page(app):
    """The page, opened from the first one with the synthetic sample on screen."""
    app.selectbox("sample").set_value(SYNTHETIC.name).run()
    return app.switch_page(PAGE).run()


def give(app, slot, content, name="receipt.json"):
    """Give a file to one of the page's two uploaders and wait for the page."""
    count = app.session_state.get(f"{slot}_count", 0)
    app.file_uploader(f"{slot}_{count}").upload(name, content, "application/json")
    return app.run()


def give_receipt(app, content, name="receipt.json"):
    """Give the receipt."""
    return give(app, "verified_receipt", content, name)


def give_fixture(app, content, name="given.json"):
    """Give the fixture, or the case."""
    return give(app, "verified_fixture", content, name)


def receipt_bytes(fixture=SYNTHETIC, config=CONFIG, **how):
    """The receipt of a fixture as a file."""
    return run_captured_model_replay(load_fixture(fixture), config, **how).to_json().encode()


def edited(content, *path, to, seal=False):
    """A receipt with one place changed, and sealed anew if somebody took that trouble."""
    fields = json.loads(content)
    *inner, last = path
    node = fields
    for step in inner:
        node = node[step]
    node[last] = to
    return json.dumps(sealed(fields) if seal else fields).encode()


def rendered(app):
    """Everything that is shown as Markdown, tables included."""
    kinds = (app.markdown, app.caption, app.title, app.header, app.subheader, app.error, app.warning, app.info)
    cells = [str(cell) for table in app.table for cell in table.value.to_numpy().ravel()]
    return "\n".join([element.value for kind in kinds for element in kind] + cells)


def differing(app):
    """The fields that the page says differ."""
    if "What differs" not in [header.value for header in app.header]:
        return []
    return [line.split(" is ")[0] for line in app.code[-1].value.splitlines()]


def test_nothing_given_the_page_says_what_to_do(page):
    """Which file to give, what is done with it, what it tells apart, and which fixture it takes without another."""
    assert not page.exception
    assert GIVE in markdown(page)
    for told in ("edited after sealing", "another fixture", "numbers that moved"):
        assert f"**{told}**" in markdown(page)
    assert "Without a file: Synthetic head, 16 dimensions, the fixture on the left." in texts(page)
    assert not page.title


def test_a_good_receipt_of_the_fixture_on_screen_is_verified(page):
    """With what the receipt says of itself; nothing is left to do or to doubt."""
    give_receipt(page, receipt_bytes())
    assert verdict(page) == "VERIFIED"
    assert "The receipt says: PASSED at k = 16" in texts(page)
    assert page.code[0].value == "synthetic-head-d16"
    assert GIVE not in markdown(page)
    assert differing(page) == []
    assert not page.error


def test_the_receipts_own_gates_count_and_not_those_on_the_left(page):
    """A failed receipt is as true as a passed one, whatever the sidebar says."""
    page.number_input("max_ppl_delta").set_value(300.0)
    page.text_input("candidate_ks").set_value("3")
    give_receipt(page, receipt_bytes(config=CapturedReplayConfig((8, 64))))
    assert verdict(page) == "VERIFIED"
    assert "The receipt says: FAILED at k = 64" in texts(page)


def test_a_receipt_with_replay_options_is_replayed_with_them(page):
    """They stand in the receipt; the sidebar's make no difference."""
    give_receipt(page, receipt_bytes(options=ReplayOptions("inverse_sqrt_head_dim", pool_codec="exact")))
    assert verdict(page) == "VERIFIED"


def test_an_uploaded_fixture_on_the_left_is_what_it_is_held_against(page):
    """Its bytes are read again from where they lie."""
    content = fixture_bytes(model_id="mine", seed=9)
    upload(page, content)
    assert "Without a file: mine.json, the fixture on the left." in texts(page)
    give_receipt(page, receipt_bytes(content))
    assert verdict(page) == "VERIFIED"
    assert page.code[0].value == "mine"


def test_an_edited_receipt_is_told_with_the_field(page):
    """The seal does not fit, and the number that was touched is named, with what it is replayed."""
    give_receipt(page, edited(receipt_bytes(), "metrics", "output_cosine_mean", to=0.99))
    assert verdict(page) == "NOT VERIFIED: edited after sealing"
    assert any(text.startswith("The receipt was edited after it was sealed") for text in texts(page))
    assert differing(page) == ["metrics, output_cosine_mean"]
    assert page.code[-1].value.startswith("metrics, output_cosine_mean is 0.99; replayed it is 0.721575")


def test_an_edited_and_resealed_receipt_is_told_by_its_numbers(page):
    """A seal that fits does not help: the replay gives other numbers."""
    give_receipt(page, edited(receipt_bytes(), "metrics", "output_cosine_mean", to=0.99, seal=True))
    assert verdict(page) == "NOT VERIFIED: the numbers moved"
    assert any("edited and sealed anew, or made by changed code" in text for text in texts(page))
    assert differing(page) == ["metrics, output_cosine_mean"]


def test_a_receipt_of_another_fixture_is_told(page):
    """Alone, it asks for its fixture; of a fixture that was given beside it, what tells the two apart is named."""
    give_receipt(page, receipt_bytes(fixture_bytes(seed=5)))
    assert not page.title
    assert any("another fixture than the one on the left" in info.value for info in page.info)
    give_fixture(page, SYNTHETIC.read_bytes())
    assert verdict(page) == "NOT VERIFIED: another fixture"
    assert any("seed is 326108059189, in the receipt 5" in text for text in texts(page))
    assert differing(page) == []


def test_the_fixture_given_beside_it_comes_before_the_one_on_screen(page):
    """The receipt is of the given one; let go, the receipt asks for it again."""
    content = fixture_bytes(seed=5)
    give_receipt(page, receipt_bytes(content))
    give_fixture(page, content)
    assert verdict(page) == "VERIFIED"
    page.button("verified_fixture_clear").click().run()
    assert not page.title
    assert any("another fixture than the one on the left" in info.value for info in page.info)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty; expected JSON"),
        (b"no receipt", "no valid JSON at line 1"),
        (b"[]", "the receipt is a list of 0; expected a JSON object"),
        (b"{}", "the receipt has no field 'candidate_results'"),
        (b'{"candidate_results": [], "model_id": 3}', "the receipt has no field 'schema_version'"),
        (b"\x00\xff\xfe", "the file looks like UTF-16 or UTF-32; save it as UTF-8"),
        (b"<p>A page, and no report</p>", "the file holds no receipt; expected a report of polykv"),
        (SYNTHETIC.read_bytes(), "the file is a captured fixture, not a receipt"),
        (b"[" * 100_000, "the JSON is nested too deeply"),
    ],
    ids=["empty", "text", "list", "object", "cut", "bytes", "html", "fixture", "deep"],
)
def test_nonsense_is_refused_and_leaves_the_page_standing(page, content, reason):
    """The reason is said; the uploaders are there, and the next receipt is checked."""
    give_receipt(page, content)
    assert not page.exception
    assert [error.value for error in page.error] == ["The receipt could not be checked."]
    assert any(reason in text for text in texts(page))
    assert not page.title
    give_receipt(page, receipt_bytes())
    assert verdict(page) == "VERIFIED"
    assert not page.error


def test_a_refused_fixture_leaves_the_receipt_there(page):
    """Another one takes its place, or none."""
    give_receipt(page, receipt_bytes())
    give_fixture(page, b"{", "broken.json")
    assert not page.exception
    assert [error.value for error in page.error] == ["The receipt could not be checked."]
    assert any(text.startswith("no valid JSON at line 1") for text in texts(page))
    give_fixture(page, SYNTHETIC.read_bytes())
    assert verdict(page) == "VERIFIED"


@pytest.mark.parametrize("name", ["d16_basic", "d32_outlier_channel"])
def test_a_receipt_of_the_crate_is_held_by_its_numbers(page, name):
    """It has no seal, which is said; another number in it is found all the same."""
    folder = GOLDEN / "captured" / name
    content = stored(folder / "receipt.json").read_bytes()
    fixture = stored(folder / "fixture.json")
    give_fixture(page, fixture.read_bytes(), fixture.name)
    give_receipt(page, content)
    assert verdict(page) == "VERIFIED"
    assert any(text.startswith("The receipt has no seal") for text in texts(page))
    give_receipt(page, edited(content, "metrics", "kl_divergence_mean", to=0.0))
    assert verdict(page) == "NOT VERIFIED: the numbers moved"


@pytest.mark.parametrize("whose", ["ours", "crate"])
def test_a_model_replays_receipt_asks_for_its_case(page, whose):
    """The fixture on screen has nothing to say to it; with the case it is verified, and not once edited."""
    folder = GOLDEN / "model" / "one_layer_two_heads"
    case = CASE if whose == "ours" else folder / "case.json"
    content = (
        run_model_case(load_model_case(case)).to_json().encode()
        if whose == "ours"
        else json.dumps(read_golden(folder / "receipt.json")).encode()
    )
    give_receipt(page, content)
    assert not page.exception
    assert [info.value for info in page.info] == ["This is a model replay's receipt: give its case beside it."]
    assert not page.title
    give_fixture(page, case.read_bytes(), "case.json")
    assert verdict(page) == "VERIFIED"
    assert page.code[0].value == "a model replay"
    give_receipt(page, edited(content, "metrics", "output_mse_mean", to=9.0))
    assert verdict(page) == "NOT VERIFIED: the numbers moved"


def report(*configs):
    """A report of the sample, a part for each config."""
    fixture = load_fixture(SYNTHETIC)
    parts = []
    for config in configs:
        curve = measure(fixture, range(1, 73))
        receipt = judge(curve, config)
        explanation = explain(fixture, receipt.selected_candidate_k)
        command = command_line(SYNTHETIC.name, config, "receipt.json")
        parts.append(ReportPart(SYNTHETIC.name, receipt, curve, explanation, command))
    return html_report(parts).encode()


def test_the_receipt_in_a_report_is_checked(page):
    """The HTML file is as good as the receipt that it carries."""
    give_receipt(page, report(CONFIG), "report.html")
    assert verdict(page) == "VERIFIED"
    assert "report.html" in texts(page)


def test_a_report_of_several_is_asked_for_the_one(page):
    """Which receipt is meant is not guessed."""
    give_receipt(page, report(CONFIG, CapturedReplayConfig((8,))), "report.html")
    assert any("the report holds 2 receipts" in text for text in texts(page))
    assert not page.exception


def test_clear_lets_a_file_go(page):
    """Its name, the result and the held bytes are gone, and the page says again what to do."""
    give_receipt(page, receipt_bytes(), "mine.json")
    assert "mine.json" in texts(page)
    page.button("verified_receipt_clear").click().run()
    assert "mine.json" not in texts(page)
    assert "verified_receipt_held" not in page.session_state
    assert "verify_job" not in page.session_state
    assert GIVE in markdown(page)
    give_receipt(page, receipt_bytes())
    assert verdict(page) == "VERIFIED"


def test_the_files_stay_when_one_comes_back(page):
    """Receipt, fixture and result are there after a look at other pages, and nothing is replayed for that."""
    content = fixture_bytes(seed=5)
    give_fixture(page, content, "fixture of mine.json")
    give_receipt(page, receipt_bytes(content), "receipt of mine.json")
    checked = page.session_state["verify_job"]
    for other in (ABOUT, REPLAY):
        page.switch_page(other).run()
        assert not page.exception
    page.switch_page(PAGE).run()
    assert verdict(page) == "VERIFIED"
    assert {"fixture of mine.json", "receipt of mine.json"} <= set(texts(page))
    assert page.session_state["verify_job"] is checked


def test_what_was_found_is_taken_away(page, monkeypatch):
    """As the JSON that the core makes of it."""
    offered = {}
    monkeypatch.setattr(downloads, "draw", lambda label, content, *_: offered.update({label: content}))
    content = edited(receipt_bytes(), "passed", to=False)
    give_receipt(page, content)
    expected = verification_dict(verify(json.loads(content), load_fixture(SYNTHETIC)))
    assert json.loads(offered["What was found, as JSON"]) == json.loads(json.dumps(expected))
    assert expected["verified"] is False


def test_many_differences_are_counted(page):
    """The first fifty stand there; how many more there are is said."""
    fields = json.loads(receipt_bytes(config=CapturedReplayConfig(tuple(range(1, 40)))))
    for candidate in fields["candidate_results"]:
        candidate["output_mse_mean"] += 1.0
        candidate["output_cosine_mean"] = 0.0
    give_receipt(page, json.dumps(fields).encode())
    found = verify(fields, load_fixture(SYNTHETIC))
    assert len(differing(page)) == 50
    assert f"And {len(found.differences) - 50} more; all of them are in the file below." in [
        caption.value for caption in page.caption
    ]


def test_a_cancelled_check_can_be_started_again(page, monkeypatch):
    """It says how far it is and can be cancelled; then it is said what happened, and one press checks it."""
    may_go_on, begun = threading.Event(), threading.Event()

    def slow(fields, fixture, on_query):
        def told(done, total):
            on_query(done, total)
            begun.set()
            may_go_on.wait(60)
            on_query(done, total)

        return verify(fields, fixture, told)

    monkeypatch.setattr(verifying, "verify", slow)
    monkeypatch.setattr(jobs, "PATIENCE", 0.0)
    monkeypatch.setattr(jobs, "LOOK_EVERY", None)
    give_receipt(page, receipt_bytes())
    assert begun.wait(60)
    page.run()
    assert "Replaying Synthetic head, 16 dimensions, to verify the receipt" in texts(page)
    page.button("verify_job_cancel").click().run()
    assert not page.exception
    assert [warning.value for warning in page.warning] == ["The check was cancelled."]
    may_go_on.set()
    monkeypatch.setattr(jobs, "PATIENCE", None)
    page.button("verify_again").click().run()
    assert verdict(page) == "VERIFIED"
    assert not page.warning


def test_a_receipt_without_any_fixture_asks_for_one(app):  # noqa: ARG001 - clears the caches
    """Somebody who came by a link to a file has none on screen; given beside the receipt it is enough."""
    page = new_session(fixture="0" * 16).switch_page(PAGE).run()
    give_receipt(page, receipt_bytes())
    assert not page.exception
    assert [info.value for info in page.info] == ["No fixture is on screen: give the receipt's beside it."]
    give_fixture(page, SYNTHETIC.read_bytes())
    assert verdict(page) == "VERIFIED"


def test_a_model_id_and_file_names_are_data(page):
    """They come with the files; nothing in them is rendered."""
    content = fixture_bytes(model_id=HOSTILE)
    give_fixture(page, content, "*fixture* :tada:.json")
    give_receipt(page, receipt_bytes(content), "*receipt* :tada:.json")
    assert verdict(page) == "VERIFIED"
    assert page.code[0].value == HOSTILE
    assert {"*fixture* :tada:.json", "*receipt* :tada:.json"} <= set(texts(page))
    assert "tada" not in rendered(page)


@pytest.mark.parametrize("seal", [False, True])
@pytest.mark.parametrize(
    "path",
    [
        ("claim_boundary",),
        ("blockers", 0),
        ("candidate_results", 0, "blockers", 0),
        ("provenance", "made_with", "polykv"),
        ("provenance", "schema_version"),
        ("provenance", "fixture", "digest"),
        ("provenance", "findings", 0, "text"),
        ("provenance", HOSTILE),
        ("config", HOSTILE),
        (HOSTILE,),
        ("model_id",),
        ("schema_version",),
    ],
    ids=lambda path: "-".join(str(step)[:12] for step in path),
)
def test_texts_and_field_names_of_an_edited_receipt_are_data(page, path, seal):
    """Wherever they stand, they are shown verbatim at most."""
    content = receipt_bytes(fixture_bytes(queries=json.loads(SYNTHETIC.read_text())["queries"][:1]), FAILING)
    give_fixture(page, fixture_bytes(queries=json.loads(SYNTHETIC.read_text())["queries"][:1]))
    give_receipt(page, edited(content, *path, to=HOSTILE, seal=seal))
    assert not page.exception
    assert "tada" not in rendered(page)
    assert "<b>" not in rendered(page)


@pytest.mark.parametrize("value", ['":tada:"', "[]", "{}", "null", "true", "1e400", "-1", "9" * 400])
def test_a_field_of_another_kind_is_no_exception(page, value):
    """It is refused, or checked like any other."""
    for name in json.loads(receipt_bytes()):
        fields = json.loads(receipt_bytes())
        fields[name] = "@here@"
        give_receipt(page, json.dumps(fields).replace('"@here@"', value).encode())
        assert not page.exception, name
        assert page.error or page.title or page.info, name
