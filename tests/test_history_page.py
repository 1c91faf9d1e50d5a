"""The History page: what is kept, found, opened, judged anew, labelled and compared; and a history that is broken."""

import json
import shlex
import sqlite3
from contextlib import closing
from datetime import date
from functools import cache

import pytest
from dashboard import PASSING, SYNTHETIC, fixture_bytes, markdown, new_session, set_gates, texts, upload, verdict

from polykv_core import (
    GATES,
    REFERENCE,
    CapturedReplayConfig,
    ReplayOptions,
    compare,
    every_k,
    judge,
    load_fixture,
    load_model_case,
    measure,
    relative_config,
    run_model_case,
)
from polykv_core.cli import main
from polykv_core.history import open_store
from polykv_core.kept import packed
from polykv_core.words import unbroken

PAGE, REPLAY = "pages/history/page.py", "pages/replay/page.py"
OTHER_PAGES = ("pages/explain/page.py", "pages/verify/page.py", "pages/model/page.py", "pages/about/page.py")
CASE = SYNTHETIC.parent / "model_case_one_layer_two_heads.json"
KS = (8, 16, 32, 64)
LOOSE = CapturedReplayConfig(KS, **PASSING)
STRICT = CapturedReplayConfig(KS)
HOSTILE = "*bold* :tada: $x$ <b>b</b> `c` [l](http://x) :red[r]"


@cache
def curve(options=REFERENCE, seed=None):
    """The synthetic sample, or that with another seed, measured at every k."""
    fixture = load_fixture(SYNTHETIC if seed is None else fixture_bytes(seed=seed))
    return measure(fixture, every_k(fixture), options=options)


def kept(config=STRICT, *, measured=None, changes=None, **labels):
    """Keep a run as the Replay page does, and give its receipt and number."""
    measured = measured or curve()
    receipt = judge(measured, config)
    fields = json.loads(receipt.to_json()) | (changes or {})
    text = json.dumps(fields) if changes else receipt.to_json()
    with open_store() as store:
        number = store.save(text, packed(measured, config.candidate_ks), **{"file_name": SYNTHETIC.name} | labels)
    return receipt, number


def stored():
    """What the history lists."""
    with open_store() as store:
        return store.runs()


def scripted(path, *statements):
    """Run SQL on the history as another program would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def visit(app):
    """Go to the page."""
    app.switch_page(PAGE).run()
    assert not app.exception
    return app


def open_runs(app, *numbers):
    """Choose runs on the page."""
    app.multiselect("history_runs").set_value(list(numbers)).run()
    assert not app.exception
    return app


def listed(app):
    """The list's column of runs; None where there is no list."""
    return list(app.dataframe[0].value["Run"]) if app.dataframe else None


def choose(app, key, value):
    """Press pills or a segmented control."""
    app.button_group(key).set_value(value)
    app.run()
    assert not app.exception
    return app


def keep(app, tags="", note=""):
    """Keep what the Replay page shows."""
    app.text_input("keep_tags").set_value(tags)
    app.text_area("keep_note").set_value(note)
    app.button("keep").click().run()
    assert not app.exception
    return app


def said(elements):
    """The values of elements."""
    return [element.value for element in elements]


def rendered(app):
    """Everything that is shown as Markdown, tables and charts included."""
    kinds = (app.markdown, app.caption, app.title, app.header, app.subheader, app.error, app.warning, app.success)
    cells = [str(cell) for table in app.table for cell in table.value.to_numpy().ravel()]
    charts = [chart.proto.spec + chart.proto.alt for chart in app.get("plotly_chart")]
    return "\n".join([*(text for kind in kinds for text in said(kind)), *cells, *charts])


def compared(app):
    """The rows of the comparison on screen: which gate at which k, and what became of it."""
    tables = [table.value for table in app.table if "Difference" in table.value]
    return [(unbroken(row["Gate"]), row["Verdict"].split()[-1]) for table in tables for _, row in table.iterrows()]


def ks(moved):
    """The k of a row, or that of each run."""
    return str(moved.k_after) if moved.k_before == moved.k_after else f"{moved.k_before} → {moved.k_after}"


def expected_rows(comparison, wanted):
    """The same, of what the core compares."""
    labels = {
        "output_cosine_mean": "Output cosine",
        "output_mse_mean": "Output MSE",
        "kl_divergence_mean": "KL divergence (nats)",
        "ppl_proxy_delta": "|PPL delta|",
        "top1_agreement": "Top-1 agreement",
    }
    return [
        (
            unbroken(f"{labels[one.after.gate.metric]} at k = {ks(one)}"),
            "both" if one.change == "same" else one.change,
        )
        for one in (*comparison.selected, *comparison.at_ks)
        if wanted(one)
    ]


def test_nothing_kept_yet_says_how_to_keep(app, history):
    """Looking makes no history; where it would lie is said."""
    visit(app)
    (info,) = said(app.info)
    assert info.startswith("Nothing is kept yet. Keep a verdict on the Replay page, or by polykv replay")
    assert [code.value for code in app.code] == [str(history)]
    assert not history.exists()


def test_an_emptied_history_is_as_one_that_was_never_begun(app):
    """The last run deleted, the page says again how to keep one."""
    _, number = kept()
    with open_store() as store:
        store.delete([number])
    visit(app)
    assert said(app.info)[0].startswith("Nothing is kept yet.")


@pytest.mark.parametrize("gates", [{}, PASSING], ids=["failed", "passed"])
def test_keep_keeps_the_receipt_that_is_downloaded(app, gates):
    """Byte for byte, with tags, note and the file's name; the page says its number, which counts on."""
    upload(app, fixture_bytes(model_id="mine ü 漢"), "mine.json")
    set_gates(app, **gates)
    keep(app, " nightly, head 7 ,, nightly", "after the fix\nof Monday")
    assert said(app.success) == ["Kept as run 1"]
    with open_store() as store:
        run = store.run(1)
    assert run.receipt_json.encode() == app.session_state["receipt"]
    assert run.summary.tags == ("head 7", "nightly")
    assert run.summary.note == "after the fix\nof Monday"
    assert run.summary.file_name == "mine.json"
    keep(app)
    assert said(app.success) == ["Kept as run 2"]
    assert not said(app.run().success), "what was done is said once"


def test_a_kept_run_holds_every_k(app, measured):
    """So that it can be judged at other ks later, without a replay."""
    app.selectbox("sample").set_value(SYNTHETIC.name).run()
    keep(app)
    replays = len(measured)
    open_runs(visit(app), 1)
    app.text_input("candidate_ks").set_value("3, 5, 72").run()
    config = CapturedReplayConfig((3, 5, 72))
    assert app.session_state["rejudged_receipt"] == judge(curve(), config).to_json().encode()
    assert len(measured) == replays


def test_keep_says_why_it_could_not(app):
    """Tags that are none are refused in a sentence, and nothing is kept."""
    keep(app, "x" * 61)
    assert said(app.error) == ["The history could not be changed."]
    assert any("expected 1 to 60 characters and no comma" in text for text in texts(app))
    assert verdict(app) == "FAILED at every candidate k"
    keep(app, "", "n" * 2001)
    assert any("expected at most 2000" in text for text in texts(app))
    assert stored() == ()


def test_the_list_has_the_newest_first(app):
    """Number, verdict, k, failing gates, labels, file and model of each run."""
    kept(note="first", tags=["a", "b"])
    kept(LOOSE, note="second", file_name="other.json")
    visit(app)
    assert listed(app) == ["2", "1"]
    newest, first = app.dataframe[0].value.to_dict("records")
    assert newest["Verdict"].split() == ["✓", "passes"]
    assert (newest["k"], newest["Fails"], newest["Tags"], newest["Note"]) == ("16", "", "", "second")
    assert (newest["Fixture"], newest["Model"]) == ("other.json", "synthetic-head-d16")
    assert first["Verdict"].split() == ["✕", "fails"]
    assert (first["k"], first["Fails"], first["Tags"], first["Note"]) == ("64", "|PPL delta|", "a, b", "first")


def test_long_notes_are_cut_in_the_list(app):
    """One run opened shows it whole."""
    kept(note="n" * 200)
    visit(app)
    assert app.dataframe[0].value["Note"][0] == "n" * 59 + "…"
    open_runs(app, 1)
    assert any("n" * 200 in text for text in texts(app))


@pytest.fixture
def several(history):
    """Five runs that every filter tells apart, each saved on a day of its own in 2026."""
    kept(note="the first", tags=["nightly"])
    kept(LOOSE, tags=["nightly", "head 7"])
    kept(CapturedReplayConfig(KS, min_output_cosine=0.99, max_ppl_delta=10.0), file_name="Straße.json")
    kept(measured=curve(seed=5), changes={"model_id": "another-model"})
    receipt = run_model_case(load_model_case(CASE))
    with open_store() as store:
        store.save(receipt.to_json(), None, file_name=CASE.name)
    # A day apart, from 2026-01-01 on.
    scripted(history, "UPDATE runs SET saved_at = 1767225600000 + id * 86400000")


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"history_text": "FIRST"}, ["1"]),
        ({"history_text": " strasse "}, ["3"]),
        ({"history_text": "head 7"}, ["2"]),
        ({"history_text": "another-m"}, ["4"]),
        ({"history_text": curve(seed=5).fixture_digest[:20]}, ["4"]),
        ({"history_text": curve(seed=5).fixture_digest[7:20]}, ["4"]),
        ({"history_verdict": "Passed"}, ["5", "2"]),
        ({"history_verdict": "Failed"}, ["4", "3", "1"]),
        ({"history_gate": "min_output_cosine"}, ["3"]),
        ({"history_gate": "max_ppl_delta"}, ["4", "1"]),
        ({"history_model": "another-model"}, ["4"]),
        ({"history_tag": "nightly"}, ["2", "1"]),
        ({"history_tag": "nightly", "history_verdict": "Failed"}, ["1"]),
    ],
    ids=lambda value: " ".join(map(str, value.values()))[:30] if isinstance(value, dict) else "",
)
def test_each_filter_finds_its_runs(app, several, filters, found):  # noqa: ARG001 - they are in the history
    """Text in names, notes, tags and digests; verdict, gate, model, tag; and several at once."""
    visit(app)
    assert listed(app) == ["5", "4", "3", "2", "1"]
    for key, value in filters.items():
        widget = app.text_input(key) if key == "history_text" else app.selectbox(key)
        widget.set_value(value)
    app.run()
    assert not app.exception
    assert listed(app) == found


@pytest.mark.parametrize(
    ("days", "found"),
    [
        ((date(2026, 1, 3), date(2026, 1, 4)), ["3", "2"]),
        ((date(2026, 1, 5), date(2026, 1, 5)), ["4"]),
        ((date(2026, 1, 4),), ["5", "4", "3"]),
    ],
    ids=["two", "one", "from"],
)
def test_runs_are_found_by_their_day(app, several, days, found):  # noqa: ARG001 - they are in the history
    """Both days are in; while the second is not chosen yet, all from the first on."""
    visit(app)
    app.date_input("history_days").set_value(days).run()
    assert not app.exception
    assert listed(app) == found


def test_filters_that_nothing_fits_say_so(app, several):  # noqa: ARG001 - they are in the history
    """The list is gone, the filters stay, and without them the runs are back."""
    visit(app)
    app.text_input("history_text").set_value("nobody").run()
    assert listed(app) is None
    assert said(app.info) == ["No run fits these filters."]
    app.text_input("history_text").set_value("").run()
    assert len(listed(app)) == 5


def test_a_filter_that_hides_the_opened_run_closes_it(app, several):  # noqa: ARG001 - they are in the history
    """Nothing is opened that is not in the list."""
    open_runs(visit(app), 1)
    app.selectbox("history_verdict").set_value("Passed").run()
    assert not app.exception
    assert listed(app) == ["5", "2"]
    assert "Run 1" not in said(app.header)


def test_a_model_replays_run_is_listed_and_not_opened(app, several):  # noqa: ARG001 - they are in the history
    """It has no queries' numbers to judge or compare."""
    visit(app)
    assert app.dataframe[0].value["Model"][0] == "a model replay"
    assert len(app.multiselect("history_runs").options) == 4


def test_one_run_opened_shows_its_verdict_and_candidates(app):
    """As it was kept: blockers, model, file, digest, note, a row for each candidate; its receipt to take away."""
    receipt, number = kept(note="a note")
    open_runs(visit(app), number)
    assert f"Run {number}" in said(app.header)
    assert "✕ fails at k = 64" in said(app.markdown)
    assert "|PPL delta| is 4.74961, but the gate asks for at most 1" in markdown(app)
    facts = f"Fixture: {SYNTHETIC.name}\nModel: synthetic-head-d16\nDigest: {receipt.fixture_digest}\nNote: a note"
    assert facts in texts(app)
    assert any("Output cosine at least 0.75" in caption for caption in said(app.caption))
    candidates = app.table[0].value
    assert [cell.split()[0] for cell in candidates["k"]] == ["8", "16", "32", "64"]
    assert {cell.split()[-1] for cell in candidates["Verdict"]} == {"fails"}
    assert app.session_state["kept_receipt"] == receipt.to_json().encode()


def test_a_moved_gate_judges_a_kept_run_anew(app, measured):
    """Then stays as it was, now follows gates, ks, switches and statistic; nothing is replayed."""
    receipt, number = kept()
    open_runs(visit(app), number)
    assert said(app.markdown).count("✕ fails at k = 64") == 2
    set_gates(app, **PASSING)
    assert said(app.markdown).count("✕ fails at k = 64") == 1
    assert "✓ passes at k = 16" in said(app.markdown)
    assert app.session_state["rejudged_receipt"] == judge(curve(), LOOSE).to_json().encode()
    assert app.session_state["kept_receipt"] == receipt.to_json().encode()
    app.checkbox("max_ppl_delta_on").uncheck()
    app.text_input("candidate_ks").set_value("1, 71")
    app.selectbox("statistic").set_value("worst").run()
    off = {gate.threshold: gate.off for gate in GATES if gate.threshold == "max_ppl_delta"}
    config = CapturedReplayConfig((1, 71), min_output_cosine=0.7, statistic="worst", **off)
    assert app.session_state["rejudged_receipt"] == judge(curve(), config).to_json().encode()
    assert "Off: |PPL delta|." in said(app.caption)
    assert measured == []


def test_ks_that_mean_nothing_are_said_and_the_run_stays(app):
    """The run as it was kept is still there."""
    _, number = kept()
    open_runs(visit(app), number)
    app.text_input("candidate_ks").set_value("8, *x*").run()
    assert not app.exception
    assert said(app.error) == ["It cannot be judged at these."]
    assert any("'*x*'" in text for text in texts(app))
    assert "✕ fails at k = 64" in said(app.markdown)


def test_a_run_without_its_measurement_is_judged_by_its_receipt(app):
    """At the ks that it lists; of another k it is said that it was not measured."""
    receipt = judge(curve(), STRICT)
    with open_store() as store:
        number = store.save(receipt.to_json(), None)
    open_runs(visit(app), number)
    assert app.session_state["rejudged_receipt"] == receipt.to_json().encode()
    app.text_input("candidate_ks").set_value("7").run()
    assert not app.exception
    assert said(app.error) == ["It cannot be judged at these."]


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (LOOSE, ReplayOptions()),
        (STRICT, ReplayOptions(pool_codec="exact", query_coding="exact")),
        (CapturedReplayConfig((32, 8), statistic="worst"), ReplayOptions()),
    ],
    ids=["as the reference", "with options", "worst query"],
)
def test_gates_relative_to_a_run_set_the_sidebar(app, tmp_path, monkeypatch, config, options):
    """To so many per cent worse than it was, all on; and the command on the page judges by the same gates."""
    receipt, number = kept(config, measured=curve(options))
    open_runs(visit(app), number)
    app.checkbox("max_ppl_delta_on").uncheck()
    app.text_input("candidate_ks").set_value(", ".join(map(str, config.candidate_ks)))
    app.number_input("relative_percent").set_value(7.25).run()
    # Below an agreement of 0 there is no gate.
    names = [gate.threshold for gate in GATES if getattr(receipt.metrics, gate.metric)]
    if len(names) < len(GATES):
        app.button("relative_set").click().run()
        assert said(app.error) == ["These gates cannot be set."]
        app.multiselect("relative_gates").set_value(names).run()
    command = app.code[-2].value
    app.button("relative_set").click().run()
    assert not app.exception
    assert not app.error
    wanted = relative_config(config, receipt, dict.fromkeys(names, 7.25))
    for gate in GATES:
        assert app.number_input(gate.threshold).value == getattr(wanted, gate.threshold)
    assert app.checkbox("max_ppl_delta_on").value is True
    assert app.selectbox("statistic").value == config.statistic
    assert app.session_state["rejudged_receipt"] == judge(curve(options), wanted).to_json().encode()

    monkeypatch.chdir(tmp_path)
    (tmp_path / "FIXTURE").write_bytes(SYNTHETIC.read_bytes())
    program, *arguments = shlex.split(command)
    assert program == "polykv"
    with pytest.raises(SystemExit, match=r"[01]"):
        main(arguments)
    assert (tmp_path / "receipt.json").read_bytes() == app.session_state["rejudged_receipt"]


def test_relative_gates_may_be_some_of_them(app, tmp_path, monkeypatch):
    """The others stay as they are, on the page and in its command; of none there is nothing to set."""
    receipt, number = kept()
    set_gates(app, max_output_mse=0.2)
    open_runs(visit(app), number)
    app.multiselect("relative_gates").set_value(["max_kl_divergence"]).run()
    command = app.code[-2].value
    app.button("relative_set").click().run()
    wanted = relative_config(CapturedReplayConfig(KS, max_output_mse=0.2), receipt, {"max_kl_divergence": 10.0})
    for gate in GATES:
        assert app.number_input(gate.threshold).value == getattr(wanted, gate.threshold)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FIXTURE").write_bytes(SYNTHETIC.read_bytes())
    with pytest.raises(SystemExit, match=r"[01]"):
        main(shlex.split(command)[1:])
    assert (tmp_path / "receipt.json").read_bytes() == app.session_state["rejudged_receipt"]
    app.multiselect("relative_gates").set_value([]).run()
    assert not app.exception
    assert app.button("relative_set").disabled
    assert not [code for code in app.code if "--baseline" in code.value]


def save_label(app, number, tags, note):
    """Fill in the form and send it."""
    app.text_input(f"tags_{number}").set_value(tags)
    app.text_area(f"note_{number}").set_value(note)
    next(button for button in app.button if button.label == "Save tags and note").click().run()
    assert not app.exception


def test_a_run_is_labelled(app):
    """Tags and note change in the history and in the list; what is no tag is refused and changes nothing."""
    _, number = kept(tags=["old"], note="old")
    open_runs(visit(app), number)
    assert app.text_input(f"tags_{number}").value == "old"
    save_label(app, number, "new, head 7", "a new note")
    assert "Saved" in said(app.success)
    assert app.dataframe[0].value["Tags"][0] == "head 7, new"
    assert app.dataframe[0].value["Note"][0] == "a new note"
    save_label(app, number, "x" * 61, "never")
    assert "The history could not be changed." in said(app.error)
    (run,) = stored()
    assert (run.tags, run.note) == (("head 7", "new"), "a new note")


def test_a_run_is_pinned_and_unpinned(app):
    """It is then its fixture's baseline, which the list shows; another one pinned takes its place."""
    _, first = kept()
    receipt, second = kept(LOOSE)
    open_runs(visit(app), first)
    app.button(f"pin_{first}").click().run()
    assert "Pinned" in said(app.success)
    assert listed(app) == ["2", "1 (pinned)"]
    open_runs(app, second)
    app.button(f"pin_{second}").click().run()
    assert listed(app) == ["2 (pinned)", "1"]
    with open_store() as store:
        assert store.baseline(receipt.fixture_digest).summary.id == second
    app.button(f"unpin_{second}").click().run()
    assert not app.exception
    assert listed(app) == ["2", "1"]
    with open_store() as store:
        assert store.baseline(receipt.fixture_digest) is None


def test_a_run_is_deleted(app):
    """It is gone from the history and from the page, and the others stay."""
    _, first = kept()
    _, second = kept(LOOSE)
    open_runs(visit(app), first)
    app.button(f"delete_{first}").click().run()
    assert not app.exception
    assert f"Run {first} is deleted" in said(app.success)
    assert listed(app) == [str(second)]
    assert app.multiselect("history_runs").value == []
    assert [run.id for run in stored()] == [second]


def test_a_run_that_somebody_else_deleted_is_no_exception(app):
    """It is no longer listed, and what cannot be done is said."""
    _, first = kept()
    kept()
    open_runs(visit(app), first)
    with open_store() as store:
        store.delete([first])
    app.button(f"pin_{first}").click().run()
    assert not app.exception
    assert listed(app) == ["2"]


WANTED = {
    "All rows": lambda _one: True,
    "Only differences": lambda one: one.differs,
    "Regressed": lambda one: one.change == "regressed",
    "Fixed": lambda one: one.change == "fixed",
    "Same": lambda one: one.change == "same",
}


@pytest.mark.parametrize("order", ["fixed", "regressed"])
def test_two_runs_are_compared_with_the_first_one_chosen(app, order):
    """What became of the verdict, a row for each gate, and the filters of rows."""
    strict, first = kept(CapturedReplayConfig((8, 16, 64)))
    loose, second = kept(CapturedReplayConfig((8, 16, 64), min_top1_agreement=0.45, **PASSING))
    runs, receipts = (first, second), (strict, loose)
    if order == "regressed":
        runs, receipts = runs[::-1], receipts[::-1]
    open_runs(visit(app), *runs)
    assert f"Run {runs[1]} against run {runs[0]}" in said(app.subheader)
    told = {"fixed": "fixed: it failed, and passes now", "regressed": "regressed: it passed, and fails now"}
    assert told[order] in markdown(app)
    comparison = compare(*receipts)
    for name, wanted in WANTED.items():
        choose(app, "compare_only", name)
        rows = expected_rows(comparison, wanted)
        assert compared(app) == rows, name
        assert ("No row is like that." in said(app.caption)) == (not rows)
    assert {one.change for one in comparison.at_ks} >= {"regressed", "fixed", "same"}


def test_the_same_verdict_twice_has_no_difference(app):
    """A run against its like: the same, in every row."""
    kept()
    kept()
    open_runs(visit(app), 1, 2)
    assert "the same verdict" in markdown(app)
    choose(app, "compare_only", "Only differences")
    assert compared(app) == []
    assert "No row is like that." in said(app.caption)


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("attention_scale", {"options": ReplayOptions("inverse_sqrt_head_dim")}),
        ("query_coding", {"options": ReplayOptions(query_coding="exact")}),
        ("pool_codec", {"options": ReplayOptions(pool_codec="exact")}),
        ("shell_codec", {"options": ReplayOptions(shell_codec="turbo_4bit")}),
        ("statistic", {"config": CapturedReplayConfig(KS, statistic="worst")}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_runs_with_other_options_are_compared_only_on_purpose(app, field, other):
    """The field that differs is named; once that is named as the question, they are held against each other."""
    kept()
    kept(other.get("config", STRICT), measured=curve(other.get("options", REFERENCE)))
    open_runs(visit(app), 1, 2)
    assert said(app.error) == ["They are not comparable."]
    assert any(f"the runs are not comparable: {field} is" in text for text in texts(app))
    assert compared(app) == []
    assert not app.get("plotly_chart")
    choose(app, "compare_across", ["pool_codec" if field != "pool_codec" else "shell_codec"])
    assert said(app.error) == ["They are not comparable."]
    choose(app, "compare_across", [field])
    assert not app.error
    assert len(compared(app)) >= len(GATES)
    assert len(app.get("plotly_chart")) == len(GATES)


def test_another_fixture_is_refused_whatever_is_chosen(app):
    """Queries of two fixtures cannot be paired."""
    kept()
    kept(measured=curve(seed=5))
    open_runs(visit(app), 1, 2)
    choose(app, "compare_across", ["attention_scale", "query_coding", "pool_codec", "shell_codec", "statistic"])
    assert said(app.error) == ["They are not comparable."]
    (reason,) = [text for text in texts(app) if text.startswith("the runs are not comparable: the fixture's digest")]
    assert curve().fixture_digest in reason
    assert curve(seed=5).fixture_digest in reason


def test_of_three_runs_with_one_not_comparable_the_others_are_compared(app):
    """The one is named with its reason; table and charts are of the other two."""
    kept()
    kept(measured=curve(seed=5))
    kept(LOOSE)
    open_runs(visit(app), 1, 2, 3)
    assert {"Run 2 against run 1", "Run 3 against run 1"} <= set(said(app.subheader))
    assert said(app.error) == ["They are not comparable."]
    assert len(compared(app)) > len(GATES)
    assert "fixed: it failed, and passes now" in markdown(app)
    for chart in app.get("plotly_chart"):
        assert lines_of(chart) == ["run 1", "run 3"]


def lines_of(chart):
    """The names of the lines in a chart."""
    return [trace["name"] for trace in json.loads(chart.proto.spec)["data"] if trace["mode"] == "lines"]


def test_charts_have_one_line_a_run_and_their_values_in_words(app):
    """A chart for each gate over every k, told apart by more than colour, with the values for those who see none."""
    receipts = [kept(config)[0] for config in (STRICT, LOOSE, CapturedReplayConfig((4,)))]
    open_runs(visit(app), 2, 1, 3)
    charts = app.get("plotly_chart")
    assert len(charts) == len(GATES)
    for gate, chart in zip(GATES, charts, strict=True):
        traces = json.loads(chart.proto.spec)["data"]
        lines = [trace for trace in traces if trace["mode"] == "lines"]
        marks = [trace for trace in traces if trace["mode"] == "markers"]
        assert [line["name"] for line in lines] == ["run 2", "run 1", "run 3"]
        assert [len(line["x"]) for line in lines] == [72, 72, 72]
        assert len({line["line"]["dash"] for line in lines}) == 3
        assert len({mark["marker"]["symbol"] for mark in marks}) == 3
        assert chart.proto.alt.startswith(gate.label)
        for number, k in ((2, 16), (1, 64), (3, 4)):
            value = gate.gated(getattr(receipts[number - 1].metrics, gate.metric))
            assert f"run {number}: {value:.4g}" in chart.proto.alt
            assert f"at its selected k = {k}" in chart.proto.alt


def test_more_runs_than_lines_are_compared_all_the_same(app):
    """Six can be told apart in a chart; the tables go on, and it is said."""
    for _ in range(7):
        kept()
    open_runs(visit(app), *range(1, 8))
    assert {f"Run {number} against run 1" for number in range(2, 8)} <= set(said(app.subheader))
    assert "The charts show the first 6 runs." in said(app.caption)
    assert {len(lines_of(chart)) for chart in app.get("plotly_chart")} == {6}


def damaged(history):
    """A file that is no database."""
    history.write_bytes(b"no database at all, " * 300)
    return "is no SQLite database, or a damaged one"


def newer(history):
    """The history of a later polykv."""
    kept()
    scripted(history, "PRAGMA user_version = 99")
    return "has version 99, from a newer polykv"


def foreign(history):
    """The database of another program."""
    scripted(history, "CREATE TABLE theirs (a)")
    return "is the database of another program"


def folder(history):
    """A folder where the file should be."""
    history.mkdir()
    return "is a folder or a device"


@pytest.mark.parametrize("broken", [damaged, newer, foreign, folder])
def test_a_history_that_cannot_be_read_is_said(app, history, broken):
    """The path and the reason; no exception, and nothing of it is touched."""
    reason = broken(history)
    before = history.read_bytes() if history.is_file() else None
    visit(app)
    assert said(app.error) == ["The history cannot be read."]
    assert any(reason in text and str(history) in text for text in texts(app))
    assert (history.read_bytes() if history.is_file() else None) == before


@pytest.mark.parametrize("broken", [damaged, newer])
def test_a_broken_history_leaves_the_other_pages_alone(app, history, broken):
    """All are drawn; only Keep says why it could not."""
    reason = broken(history)
    for page in OTHER_PAGES:
        app.switch_page(page).run()
        assert not app.exception
        assert not app.error
    app.switch_page(REPLAY).run()
    assert verdict(app) == "FAILED at every candidate k"
    keep(app)
    assert said(app.error) == ["The history could not be changed."]
    assert any(reason in text for text in texts(app))
    assert not app.success
    assert verdict(app) == "FAILED at every candidate k"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE contents SET measurement = x'504b0304' WHERE run = 1",
        "UPDATE contents SET measurement = 'text' WHERE run = 1",
        "UPDATE contents SET receipt = '{' WHERE run = 1",
        "UPDATE contents SET receipt = '{}' WHERE run = 1",
        "DELETE FROM contents WHERE run = 1",
    ],
)
def test_a_run_that_is_damaged_is_said_and_the_others_open(app, history, statement):
    """One run's content is broken, the list is not."""
    kept()
    kept(LOOSE)
    scripted(history, statement)
    visit(app)
    if "DELETE" in statement:
        assert listed(app) == ["2"]
    else:
        open_runs(app, 1)
        less = "Of what was measured, only the candidates in the receipt are left."
        expected = less if "504b0304" in statement else "The run cannot be opened."
        assert set(said(app.error)) == {expected}
        assert bool(app.get("download_button")) == (expected == less)
    open_runs(app, 2)
    assert not app.error
    assert "Run 2" in said(app.header)


def test_labels_and_file_names_are_data(app):
    """Tags, note and file name of whoever kept it: in the list, in the run and in comparisons nothing is rendered."""
    labels = {"tags": [HOSTILE], "note": f"{HOSTILE}\n# second line\n- third", "file_name": f"{HOSTILE}.json"}
    kept(**labels)
    kept(LOOSE, **labels)
    visit(app)
    assert app.dataframe[0].value["Tags"][0] == HOSTILE
    assert app.dataframe[0].value["Fixture"][0].startswith(HOSTILE[:50])
    assert "tada" not in rendered(app)
    open_runs(app, 1)
    assert any(labels["note"] in text for text in texts(app))
    assert "tada" not in rendered(app)
    open_runs(app, 1, 2)
    assert "tada" not in rendered(app)
    app.selectbox("history_tag").set_value(HOSTILE).run()
    assert not app.exception
    assert listed(app) == ["2", "1"]


def test_texts_of_a_kept_receipt_are_data(app):
    """A history may come from anywhere: what a receipt in it says is shown verbatim at most."""
    kept(changes={"model_id": HOSTILE, "claim_boundary": HOSTILE, "blockers": [f"kl {HOSTILE}"]})
    open_runs(visit(app), 1)
    assert any(HOSTILE in text for text in texts(app))
    assert "tada" not in rendered(app)


def test_hostile_labels_are_kept_from_the_replay_page(app):
    """As they were typed, and shown as they were typed."""
    upload(app, fixture_bytes(model_id=HOSTILE), "*my* :tada:.json")
    keep(app, HOSTILE, f"{HOSTILE}\n<script>")
    assert said(app.success) == ["Kept as run 1"]
    (run,) = stored()
    assert (run.tags, run.note) == ((HOSTILE,), f"{HOSTILE}\n<script>")
    assert (run.model_id, run.file_name) == (HOSTILE, "*my* :tada:.json")
    open_runs(visit(app), 1)
    assert "tada" not in rendered(app)


def test_two_visitors_see_one_history(app):
    """It is the server's: what one keeps the other finds."""
    keep(app, "mine")
    assert listed(visit(new_session())) == ["1"]
