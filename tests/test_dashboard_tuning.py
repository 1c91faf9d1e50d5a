"""Tuning on the replay page: flips, presets, undo, switched-off gates, and what is said about every k."""

import pytest
from dashboard import PASSING, SYNTHETIC, markdown, new_session, set_gates, verdict

from pages.ui.history import History
from pages.ui.samples import Sample
from polykv_core import GATES, PRESETS, THRESHOLDS, CapturedReplayConfig, load_fixture, measure, thresholds_from
from polykv_core.gates import measured_candidate


@pytest.fixture
def synthetic(app):
    """The page on the synthetic sample, where gates decide."""
    return app.selectbox("sample").set_value(SYNTHETIC.name).run()


def gates_table(app):
    """The gates table by gate label."""
    rows = app.table[0].value.to_dict("records")
    return {row["Gate"].removesuffix(" (nats)"): row for row in rows}


def thresholds(app):
    """The thresholds in the sidebar."""
    return {name: app.number_input(name).value for name in THRESHOLDS}


def plain(text):
    """Text with ordinary blanks."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def press(app, key):
    """Press a button and wait for the page."""
    return app.button(key).click().run()


def preset(app, name):
    """Press a preset and wait for the page."""
    return press(app, f"preset_{name}")


def marked(app):
    """The presets that the gates are at."""
    return [name for name in PRESETS if app.button(f"preset_{name}").proto.icon]


def test_each_gate_shows_its_value_margin_and_nearest_flip(synthetic):
    """In words, which move of the gate alone would change what becomes of a candidate."""
    set_gates(synthetic, **PASSING)
    cosine = gates_table(synthetic)["Output cosine"]
    assert (cosine["Value"], plain(cosine["Margin"])) == ("0.721575", "0.0215753 to spare")
    assert plain(cosine["Nearest flip"]) == "raising it above 0.7216 would fail k = 16"


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.threshold)
def test_a_flip_does_what_it_says(synthetic, gate):
    """Each flip, followed: what was to pass passes, what was to fail fails, and just before it nothing changes."""
    set_gates(synthetic, **PASSING)
    words = plain(gates_table(synthetic)[gate.label]["Nearest flip"])
    number, k = float(words.split(" would")[0].split()[-1]), words.split("k = ")[1].split()[0]
    passed = {row["k"].split()[0]: row["Verdict"] for row in synthetic.table[1].value.to_dict("records")}
    beyond = 1e-9 if gate.side == "min" else -1e-9
    moved = number if words.startswith(("raising it to", "lowering it to")) else number + beyond
    set_gates(synthetic, **{gate.threshold: moved})
    after = {row["k"].split()[0]: row["Verdict"] for row in synthetic.table[1].value.to_dict("records")}
    assert ("passes" in after[k]) == (" would pass " in words) != ("passes" in passed[k])


def test_where_no_move_of_one_gate_helps_the_page_says_so(app):
    """Three gates fail at every k of the first sample; the page points to the gates from the result."""
    flips = {row["Nearest flip"] for row in gates_table(app).values()}
    assert flips == {"none alone: other gates fail too"}
    assert "No single gate, moved, makes a candidate pass; **Gates from this result** moves them all." in markdown(app)


def test_where_one_move_does_the_page_says_which(synthetic):
    """A failed replay that one gate decides names the gate and the number."""
    set_gates(synthetic, max_ppl_delta=10.0, min_output_cosine=0.76)
    assert "One move would do: with Output cosine, lowering it to 0.7558 would pass k = 64." in plain(
        markdown(synthetic)
    )
    assert verdict(set_gates(synthetic, min_output_cosine=0.7558)) == "PASSED at k = 64"


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_every_gate(app, name):
    """The thresholds are the preset's, it is marked, and the mark goes when a gate moves."""
    set_gates(app, max_output_mse=0.123)
    assert marked(app) == []
    preset(app, name)
    assert thresholds(app) == PRESETS[name]
    assert marked(app) == [name]
    set_gates(app, max_output_mse=0.123)
    assert marked(app) == []


def test_gates_from_this_result_just_pass(synthetic):
    """At the chosen k every gate stands at the candidate's own value, and the candidate passes."""
    synthetic.selectbox("preset_k").set_value(32).run()
    press(synthetic, "apply_result")
    curve = measure(load_fixture(SYNTHETIC), (32,))
    assert thresholds(synthetic) == thresholds_from(measured_candidate(curve, 32))
    assert verdict(synthetic) == "PASSED at k = 32"


def test_undo_redo_and_reset(synthetic):
    """Steps go back and forth over thresholds, ks and switches; a new step ends what could be redone."""
    set_gates(synthetic, max_ppl_delta=10.0)
    synthetic.text_input("candidate_ks").set_value("4").run()
    synthetic.checkbox("max_output_mse_on").uncheck().run()
    press(synthetic, "undo")
    assert synthetic.checkbox("max_output_mse_on").value
    press(synthetic, "undo")
    assert synthetic.text_input("candidate_ks").value == "8, 16, 32, 64"
    press(synthetic, "redo")
    assert synthetic.text_input("candidate_ks").value == "4"
    assert not synthetic.button("redo").disabled
    set_gates(synthetic, max_kl_divergence=0.4)
    assert synthetic.button("redo").disabled
    press(synthetic, "reset")
    assert thresholds(synthetic) == PRESETS["Seed defaults"]
    assert synthetic.text_input("candidate_ks").value == "8, 16, 32, 64"
    assert synthetic.button("reset").disabled
    press(synthetic, "undo")
    assert thresholds(synthetic)["max_kl_divergence"] == 0.4


def test_at_first_there_is_nothing_to_undo(app):
    """Undo, redo and reset are out of use until something was tuned."""
    assert [app.button(key).disabled for key in ("undo", "redo", "reset")] == [True] * 3
    assert not new_session(max_ppl_delta="3").button("reset").disabled


def test_a_gate_that_is_off_cannot_fail_and_the_page_says_so(synthetic):
    """Its number waits for it to be switched on again; receipt and command carry the value that nothing fails."""
    set_gates(synthetic, max_ppl_delta=2.0, min_output_cosine=0.7)
    assert verdict(synthetic) == "FAILED at every candidate k"
    synthetic.checkbox("max_ppl_delta_on").uncheck().run()
    assert verdict(synthetic) == "PASSED at k = 16"
    assert "|PPL delta| is off and cannot fail" in markdown(synthetic)
    row = gates_table(synthetic)["|PPL delta|"]
    assert (row["Asked for"], row["Verdict"]) == ("off", "off")
    assert plain(row["Nearest flip"]).startswith("set below 5.2")
    assert b'"gates_off": [\n      "max_ppl_delta"\n    ]' in synthetic.session_state["receipt"]
    assert "--gate-off=max-ppl-delta" in synthetic.code[1].value
    synthetic.checkbox("max_ppl_delta_on").check().run()
    assert synthetic.number_input("max_ppl_delta").value == 2.0
    assert verdict(synthetic) == "FAILED at every candidate k"


def test_a_threshold_that_nothing_fails_is_off_too(synthetic):
    """A cosine gate at -1 is no gate, whoever wrote the number."""
    set_gates(synthetic, min_output_cosine=-1.0)
    assert "Output cosine is off and cannot fail" in markdown(synthetic)


def test_the_smallest_passing_k_of_all_is_named(synthetic):
    """Also where it is no candidate."""
    set_gates(synthetic, **PASSING)
    assert "Of all k from 1 to 72, the smallest that passes is **k = 13**; every larger one passes too." in plain(
        markdown(synthetic)
    )
    set_gates(synthetic, max_kl_divergence=0.01)
    assert "Of all k from 1 to 72, none passes." in markdown(synthetic)


def test_larger_ks_that_fail_again_are_warned_of(synthetic):
    """A verdict that turns back as k grows is said beside it, with the first k where it does."""
    set_gates(synthetic, min_top1_agreement=0.5, **PASSING)
    said = plain(markdown(synthetic))
    assert "Larger is not always better: of the 56 larger ones 2 fail, the first at k = 34." in said


def test_the_order_of_the_list_is_said_where_it_decides(synthetic):
    """A smaller k that passes too but stands later is named."""
    synthetic.text_input("candidate_ks").set_value("64, 16")
    set_gates(synthetic, **PASSING)
    assert "The order decided: 64 is listed before 16, which passes as well." in markdown(synthetic)
    synthetic.text_input("candidate_ks").set_value("16, 64").run()
    assert "The order decided" not in markdown(synthetic)


def test_ragged_queries_are_said(app):
    """Different row counts stand in the facts, with where they begin to matter."""
    assert any("57 to 72 rows each (ragged: beyond k = 57" in plain(caption.value) for caption in app.caption)


def test_the_welcome_goes_once_somebody_is_at_work(app):
    """Three sentences greet, and make room for the work."""
    assert app.info
    set_gates(app, max_ppl_delta=3.0)
    assert not app.info


def test_nobody_is_greeted_before_a_fixture_of_their_own(app, monkeypatch):
    """The one that the dashboard was started with is no sample."""
    monkeypatch.setattr(Sample, "shipped", False)
    assert not app.run().info


def test_history_keeps_the_last_steps():
    """It forgets the oldest ones, not the newest."""
    history = History({"a": 0})
    for step in range(1, 301):
        history.follow({"a": step})
    for _ in range(400):
        oldest = history.undo()
    assert oldest == {"a": 100}
    for _ in range(400):
        newest = history.redo()
    assert newest == {"a": 300}


def test_presets_are_configs():
    """Each preset makes a config."""
    for values in PRESETS.values():
        CapturedReplayConfig((8,), **values)
