"""Compact files in the dashboard: one head of many is on screen, named in the link, explained and verified."""

import json

import pytest
from dashboard import SYNTHETIC, fixture_bytes, new_session, texts, upload, uploader, verdict

from pages.ui import uploads
from polykv_core import CapturedReplayConfig, load_fixture, run_captured_model_replay
from polykv_core.packs import pack_bytes

FIXTURES = {"L0_H0": load_fixture(SYNTHETIC), "L0_H1": load_fixture(fixture_bytes(seed=9, model_id="other"))}
PACK = pack_bytes(FIXTURES)
KS = (8, 16, 32, 64)


def head_of(app):
    """The list of heads in the sidebar."""
    return app.selectbox("head")


def shown(app):
    """What is on screen."""
    return app.session_state[uploads.LAST_GOOD] if uploads.LAST_GOOD in app.session_state else None  # noqa: SIM401 - it has no get


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_a_compact_file_is_replayed_head_by_head(app, kind):
    """The first head at once, another one when it is chosen; each receipt is that of the head alone."""
    upload(app, pack_bytes(FIXTURES, kind), f"two.{kind}")
    assert head_of(app).options == ["L0_H0", "L0_H1"]
    for name, fixture in FIXTURES.items():
        head_of(app).select(name).run()
        assert verdict(app)
        assert shown(app).source.file_name == f"two.{kind}#{name}"
        expected = run_captured_model_replay(fixture, CapturedReplayConfig(KS))
        assert (
            json.loads(shown(app).receipt.to_json())["candidate_results"]
            == json.loads(expected.to_json())["candidate_results"]
        )
    assert f"two.{kind}, L0_H1" in texts(app)


def test_a_compact_file_of_one_head_asks_for_no_choice(app):
    """It is replayed as a JSON fixture is."""
    upload(app, pack_bytes({"h": FIXTURES["L0_H0"]}), "one.safetensors")
    assert shown(app).source.digest == FIXTURES["L0_H0"].digest
    assert "head" not in [box.key for box in app.selectbox]


def test_a_damaged_compact_file_is_refused_and_the_last_result_stays(app):
    """With what is wrong with it."""
    before = verdict(app)
    upload(app, PACK[:-100], "cut.safetensors")
    assert any("damaged or cut off" in text for text in texts(app))
    assert verdict(app) == before


def test_a_link_to_a_head_waits_for_its_file_and_shows_that_head(app):
    """It holds the head's digest and its name."""
    upload(app, PACK, "two.safetensors")
    head_of(app).select("L0_H1").run()
    query = dict(app.query_params)
    assert query["head"] == "L0_H1"
    other = new_session(**query)
    assert shown(other) is None
    assert other.query_params["head"] == "L0_H1"
    upload(other, PACK, "two.safetensors")
    assert shown(other).source.digest == FIXTURES["L0_H1"].digest


def test_the_head_stays_chosen_on_other_pages(app):
    """Explain takes the same head apart, and Replay still shows it afterwards."""
    upload(app, PACK, "two.safetensors")
    head_of(app).select("L0_H1").run()
    app.switch_page("pages/explain/page.py").run()
    assert not app.exception
    assert any("L0_H1" in text for text in texts(app))
    assert shown(app).source.digest == FIXTURES["L0_H1"].digest
    app.switch_page("pages/replay/page.py").run()
    assert head_of(app).value == "L0_H1"


def test_a_head_s_receipt_is_verified_against_the_whole_file(app):
    """The head that the receipt tells of is taken out of the file."""
    text = run_captured_model_replay(FIXTURES["L0_H1"], CapturedReplayConfig(KS)).to_json()
    app.switch_page("pages/verify/page.py").run()
    given = {"fixture": ("two.npz", pack_bytes(FIXTURES, "npz")), "receipt": ("r.json", text.encode())}
    for slot, (name, content) in given.items():
        box = next(box for box in app.get("file_uploader") if box.key.startswith(f"verified_{slot}_"))
        box.upload(name, content, "application/octet-stream")
        app.run()
    assert verdict(app) == "VERIFIED"


def test_the_uploader_takes_all_four_kinds(app):
    """JSON, gzipped JSON and both compact files."""
    assert uploader(app).proto.type == [".json", ".gz", ".safetensors", ".npz"]
