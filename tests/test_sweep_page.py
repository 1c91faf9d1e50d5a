"""The sweep page: one verdict over all heads, a map, a ranked list, the way to a head, and splits of one."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from dashboard import markdown, set_gates, texts, upload, verdict
from sweeping import head, pack

from pages.ui import downloads, head_map, jobs, sweeping, uploads
from polykv_core import CapturedReplayConfig
from polykv_core.explain import ALONE
from polykv_core.packs import pack_bytes
from polykv_core.sweep.items import sweep_items
from polykv_core.sweep.maps import loss_name, maps
from polykv_core.sweep.run import run
from polykv_core.sweep.verdict import verdict as judged
from polykv_core.sweep.work import SweepRequest

OPEN = {
    "min_output_cosine": -1.0,
    "max_output_mse": 100.0,
    "max_kl_divergence": 100.0,
    "max_ppl_delta": 1000.0,
    "min_top1_agreement": 0.0,
}


@pytest.fixture
def swept(app, tmp_path):
    """The sweep page over an uploaded file of two layers of three heads, at ks 2 and 6."""
    app.text_input("candidate_ks").set_value("2, 6").run()
    upload(app, pack(tmp_path).read_bytes(), "heads.safetensors")
    app.switch_page("pages/sweep/page.py").run()
    assert not app.exception
    return app


@pytest.fixture
def counted(monkeypatch):
    """How often the page had heads replayed."""
    calls, real = [], sweeping.run

    def counting(items, request, **others):
        calls.append(request)
        return real(items, request, **others)

    monkeypatch.setattr(sweeping, "run", counting)
    return calls


def test_the_model_has_one_verdict_and_its_worst_head_is_named(swept):
    """With what the whole cache takes and saves."""
    set_gates(swept, **(OPEN | {"min_output_cosine": 1.0}))
    assert verdict(swept) == "FAILED: 6 of 6 heads fail"
    assert any(text.startswith("Worst: Output cosine of heads.safetensors#L") for text in texts(swept))
    told = markdown(swept)
    assert "**Heads**: 0 of 6 pass (0 %) in 2 layers" in told
    assert "**Bytes per token**: " in told
    assert "of fp16" in told


def test_a_moved_gate_judges_again_and_replays_nothing(swept, counted):
    """Other ks are another measurement."""
    set_gates(swept, **OPEN)
    assert verdict(swept) == "PASSED: all 6 heads pass"
    assert counted == []
    swept.text_input("candidate_ks").set_value("2, 5").run()
    assert [request.candidate_ks for request in counted] == [(2, 5)]
    assert verdict(swept) == "PASSED: all 6 heads pass"


def test_every_number_has_its_map(swept):
    """Each kind, and each metric of those that are of one."""
    swept.switch_page("pages/sweep/page.py").run()
    for kind in head_map.KINDS:
        swept.selectbox("map_kind").select(kind).run()
        assert not swept.exception
        figure = json.loads(swept.get("plotly_chart")[0].proto.spec)
        assert [trace["type"] for trace in figure["data"]] == ["heatmap", "scatter"]
        assert ("map_metric" in [box.key for box in swept.selectbox]) == head_map.needs_metric(kind)


def test_the_list_is_worst_first_and_opens_the_worst_head(swept):
    """Its buttons put the head on screen on the other pages."""
    set_gates(swept, **(OPEN | {"min_output_cosine": 1.0}))
    table = swept.dataframe[0].value
    margins = table["Margin (%)"].tolist()
    assert margins == sorted(margins)
    worst = table["Head"].iloc[0]
    swept.button("sweep_pages/replay/page.py").click().run()
    assert swept.selectbox("head").value == worst
    swept.switch_page("pages/replay/page.py").run()
    assert swept.session_state[uploads.LAST_GOOD].source.file_name == f"heads.safetensors#{worst}"


def test_a_head_at_other_splits_is_worked_out_when_asked_for(swept):
    """One point a split, the numbers behind it in a table."""
    assert "Output cosine against bytes" not in json.dumps([chart.proto.spec for chart in swept.get("plotly_chart")])
    swept.button("work_out_splits").click().run()
    assert not swept.exception
    figure = json.loads(swept.get("plotly_chart")[-1].proto.spec)
    assert figure["layout"]["title"]["text"] == "Output cosine against bytes"
    assert figure["layout"]["annotations"][0]["text"] == "fp16"
    points = sum(len(trace["x"]) for trace in figure["data"][1:])
    assert points == len(swept.table[-1].value)


def test_a_file_of_one_head_says_what_a_sweep_takes(app):
    """And offers that head's splits."""
    app.switch_page("pages/sweep/page.py").run()
    assert app.title[0].value == "One head is on screen"
    assert "polykv capture" in markdown(app)
    assert app.button("work_out_splits")


def test_a_head_without_a_verdict_does_not_stop_the_others(app):
    """It is told, and ranked first; the model then has no verdict."""
    good, bad = head(0, 0), head(0, 1)
    queries = tuple(replace(query, keys=np.zeros_like(query.keys)) for query in bad.queries)
    upload(app, pack_bytes({"L0_H0": good, "L0_H1": replace(bad, queries=queries)}), "one_bad.safetensors")
    app.switch_page("pages/sweep/page.py").run()
    assert verdict(app) == "NO VERDICT: 1 of 2 heads has none"
    assert app.dataframe[0].value["Head"].iloc[0] == "L0_H1"
    assert any("is all zeros" in text for text in texts(app))


def test_a_first_head_that_cannot_be_replayed_leaves_nothing_of_another_file(app, monkeypatch):
    """The others are judged, in files named after theirs; no splits of the last good fixture are offered."""
    offered = []
    good, bad = head(0, 1), head(0, 0)
    queries = tuple(replace(query, keys=np.zeros_like(query.keys)) for query in bad.queries)
    upload(app, pack_bytes({"L0_H0": replace(bad, queries=queries), "L0_H1": good}), "first_bad.safetensors")
    monkeypatch.setattr(downloads, "draw", lambda _label, _content, name, *_: offered.append(name))
    app.switch_page("pages/sweep/page.py").run()
    assert verdict(app) == "NO VERDICT: 1 of 2 heads has none"
    assert any(text.startswith("first_bad.safetensors#L0_H0: ") for text in texts(app))
    assert "work_out_splits" not in [button.key for button in app.button]
    assert offered == [f"first_bad_{end}" for end in ("sweep.json", "receipts.zip", "candidates.csv", "junit.xml")]


def test_options_and_gates_that_are_off_are_told(swept):
    """A verdict that is not the reference's does not pass for it; what is odd about the heads stands beside it."""
    set_gates(swept, **OPEN)
    assert "Not as the reference replays" not in markdown(swept)
    assert "- **Gates**: Output cosine and Top-1 agreement are off and cannot fail" in markdown(swept)
    set_gates(swept, min_output_cosine=0.5, min_top1_agreement=0.5)
    assert "off and cannot fail" not in markdown(swept)
    swept.selectbox("attention_scale").select("inverse_sqrt_head_dim").run()
    assert "- **Not as the reference replays**: attention_scale inverse_sqrt_head_dim" in markdown(swept)
    odd = [
        caption.value for caption in swept.caption if "6 of 6 heads, such as: The captured output fits" in caption.value
    ]
    assert [text.endswith("Replay with the attention scale 1.") for text in odd] == [True]


def test_a_cancelled_sweep_can_be_started_again(swept, monkeypatch):
    """The page says that it was cancelled, and offers to go on."""
    job = swept.session_state[uploads.SWEEP_JOB]
    monkeypatch.setattr(type(job), "result", cancelled)
    swept.run()
    assert "This was cancelled." in [warning.value for warning in swept.warning]
    monkeypatch.undo()


def cancelled(_job):
    """As a cancelled job answers."""
    raise jobs.Cancelled("The work was cancelled")


def verdict_over(path, config):
    """The sweep of a file, judged."""
    return judged(list(run(sweep_items([path]), SweepRequest(config.candidate_ks))), config)


def test_the_map_marks_and_tells_every_head(tmp_path):
    """A mark on each square, its number beside the pointer, the whole of it in words for those who see no map."""
    found = verdict_over(pack(tmp_path), CapturedReplayConfig((2, 6), **OPEN))
    (whole,) = maps(found)
    for kind in (head_map.MARGIN, head_map.SMALLEST_K, head_map.METRIC, *ALONE):
        shown = head_map.draw_map(whole, kind, "kl_divergence_mean")
        colours, marks = shown.figure.data
        assert all(text.startswith("✓") for row in colours.text for text in row)
        assert [told.split("</b>")[0] for told in marks.customdata] == [
            f"<b>Layer {layer}, head {index}" for layer in (0, 1) for index in (0, 1, 2)
        ]
        assert "A map of 2 layers by 3 heads, 6 of 6 pass" in shown.alt
    assert head_map.place_of(whole, 4).item.head == "L1_H1"


def test_a_map_with_holes_has_no_mark_there(tmp_path):
    """A layer that was captured without one of the heads."""
    fixtures = {"L0_H0": head(0, 0), "L0_H1": head(0, 1), "L3_H0": head(3, 0)}
    path = tmp_path / "holes.npz"
    path.write_bytes(pack_bytes(fixtures, "npz"))
    (whole,) = maps(verdict_over(path, CapturedReplayConfig((2,), **OPEN)))
    colours, marks = head_map.draw_map(whole, head_map.MARGIN, "").figure.data
    assert [bool(text) for row in colours.text for text in row] == [True, True, True, False]
    assert len(marks.x) == 3
    assert head_map.place_of(whole, 2).item.head == "L3_H0"


def test_the_head_that_was_chosen_is_framed(tmp_path):
    """And no other one."""
    (whole,) = maps(verdict_over(pack(tmp_path), CapturedReplayConfig((2, 6), **OPEN)))
    for chosen, corners in (("heads.safetensors#L1_H2", [(1.5, 2.5, 0.5, 1.5)]), ("", [])):
        layout = head_map.draw_map(whole, head_map.MARGIN, "", chosen).figure.layout
        assert [(frame.x0, frame.x1, frame.y0, frame.y1) for frame in layout.shapes] == corners


@pytest.mark.parametrize(
    ("margin", "text"),
    [
        (0.154, "+15%"),
        (-0.0028, "-0.28%"),
        (-6.99, "-699%"),
        (-387.99, "-38.8k%"),
        (-1.88e6, "-188M%"),
        (-1e30, "<-999G%"),
        (math.inf, "none"),
    ],
)
def test_a_margin_is_written_in_percent_of_its_threshold_whatever_its_size(tmp_path, margin, text):
    """In one unit, that the title tells."""
    (whole,) = maps(verdict_over(pack(tmp_path, layers=1, heads=1), CapturedReplayConfig((2,), **OPEN)))
    whole = replace(whole, grids={**whole.grids, "margin": np.array([[margin]])})
    colours, _ = head_map.draw_map(whole, head_map.MARGIN, "").figure.data
    assert colours.text[0][0] == f"✓<br>{text}"


@pytest.mark.parametrize(
    ("kind", "metric", "better"),
    [
        (head_map.MARGIN, "", 1),
        (head_map.SMALLEST_K, "", -1),
        (head_map.METRIC, "output_cosine_mean", 1),
        (head_map.METRIC, "output_mse_mean", -1),
        ("selection", "output_cosine_mean", -1),
    ],
)
def test_the_worse_of_two_heads_is_nearer_to_orange(tmp_path, kind, metric, better):
    """Whether higher is better or lower."""
    (whole,) = maps(verdict_over(pack(tmp_path, layers=1, heads=2), CapturedReplayConfig((2,), **OPEN)))
    name = kind if not head_map.needs_metric(kind) else metric if kind == head_map.METRIC else loss_name(kind, metric)
    whole = replace(whole, grids={**whole.grids, name: np.array([[-0.5, 0.75]])})
    colours, _ = head_map.draw_map(whole, kind, metric).figure.data
    assert colours.z[0][0] < colours.z[0][1]
    ends = [colour for _, colour in (colours.colorscale[0], colours.colorscale[-1])]
    assert (ends.index(head_map.BAD) == 0) == (better > 0)
