"""A sweep's heads, the work on one of them, the verdict over all, maps, and the splits of a head."""

import json
import math
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import encoded, fixture_fields
from sweeping import KS, head, pack

from polykv_core import CapturedReplayConfig, ReplayOptions, explain, judge, load_fixture, measure
from polykv_core.errors import ConfigError, SweepError
from polykv_core.footprint import footprint
from polykv_core.gates import GATES
from polykv_core.packs import fixture_json, open_pack, pack_bytes
from polykv_core.sweep import sources
from polykv_core.sweep.items import SweepItem, sweep_items
from polykv_core.sweep.losses import BASE, STEPS
from polykv_core.sweep.maps import loss_name, maps
from polykv_core.sweep.pareto import default_splits, shared_tokens_curve
from polykv_core.sweep.result import HeadResult
from polykv_core.sweep.sources import Source
from polykv_core.sweep.verdict import verdict
from polykv_core.sweep.work import SweepRequest, work

OPEN = {
    "min_output_cosine": -1.0,
    "max_output_mse": 1e9,
    "max_kl_divergence": 1e9,
    "max_ppl_delta": 1e9,
    "min_top1_agreement": 0.0,
}
REQUEST = SweepRequest(KS)


def done(items, request=REQUEST):
    """The work on some heads, here."""
    return [work(item, request, Source.at(item.file)) for item in items]


def without_file(receipt_json):
    """A receipt but for the file it was read from, and the seal over that."""
    record = json.loads(receipt_json)
    del record["provenance"]["fixture"]["file_digest"], record["provenance"]["receipt_digest"]
    return record


@pytest.fixture
def results(tmp_path):
    """The results of two layers of three heads."""
    return done(sweep_items([pack(tmp_path)]))


def test_the_heads_of_a_file_are_told_by_layer_and_head(tmp_path):
    """From the layout, without reading an array; names are unique, files absolute."""
    items = sweep_items([pack(tmp_path)])
    assert [(item.layer, item.head_index) for item in items] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert items[1] == SweepItem(
        str(tmp_path / "heads.safetensors"), "L0_H1", "heads.safetensors#L0_H1", "tiny:layer0:head1", 0, 1
    )
    assert {item.model for item in items} == {"tiny"}


def test_what_a_layout_says_of_a_head_comes_first(tmp_path):
    """Numbers of layer, head and KV head; what is no number is passed over."""
    told = {"L0_H0": {"layer": 7, "head": 5, "kv_head": 2}, "L0_H1": {"layer": "x", "head": True, "kv_head": -1}}
    items = sweep_items([pack(tmp_path, layers=1, heads=2, about=told)])
    assert [(item.layer, item.head_index, item.kv_head) for item in items] == [(7, 5, 2), (0, 1, None)]


@pytest.mark.parametrize(
    ("model_id", "place", "model"),
    [
        ("SmolLM2:layer15:head2", (15, 2), "SmolLM2"),
        ("a/b layer3 head4", (3, 4), "a/b"),
        ("L0_H11", (0, 11), None),
        ("XL2_H3", (None, None), "XL2_H3"),
        ("nothing said", (None, None), "nothing said"),
    ],
)
def test_a_fixture_s_place_is_read_out_of_its_model_id(tmp_path, model_id, place, model):
    """Layer and head, or neither; the rest is the model, or else the file."""
    path = tmp_path / "one.json"
    path.write_bytes(encoded({**fixture_fields(), "model_id": model_id}))
    (item,) = sweep_items([path])
    assert (item.layer, item.head_index) == place
    assert item.model == (model or str(path))
    assert item.head is None


def test_only_the_layers_and_heads_that_were_asked_for_are_left(tmp_path):
    """Both filters together."""
    items = sweep_items([pack(tmp_path)], layers={1}, heads={0, 2})
    assert [item.head for item in items] == ["L1_H0", "L1_H2"]


def test_where_nothing_is_left_it_is_told_what_there_is(tmp_path):
    """The layers and heads of the files."""
    with pytest.raises(SweepError, match=r"no head is in layer 5; there are layers 0, 1 and heads 0, 1, 2$"):
        sweep_items([pack(tmp_path)], layers={5})
    path = tmp_path / "one.json"
    path.write_bytes(encoded(fixture_fields()))
    with pytest.raises(SweepError, match=r"none of the 1 heads says which layer and head it is$"):
        sweep_items([path], heads={0})
    with pytest.raises(SweepError, match="there is no file to sweep"):
        sweep_items([])


def test_a_file_that_cannot_be_opened_is_an_item_of_its_own(tmp_path):
    """With what is wrong, and whatever layers are asked for; the others are there too."""
    (tmp_path / "bad.json").write_bytes(b"{")
    bad = [tmp_path / "bad.json", tmp_path / "none.json", tmp_path, "/dev/null"]
    *faulty, first, second, third = sweep_items([*bad, pack(tmp_path)], layers={0})
    assert {first.fault, second.fault, third.fault} == {None}
    assert "JSON" in faulty[0].fault
    assert faulty[1].fault == "cannot read it: No such file or directory"
    assert faulty[2].fault == "cannot read it: Is a directory"
    assert faulty[3].fault.startswith("it is a pipe or a device")


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path):
    """A file that is given twice is taken once."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        pack(tmp_path / folder, layers=1, heads=1)
    paths = [tmp_path / "a" / "heads.safetensors", tmp_path / "b" / "heads.safetensors"]
    items = sweep_items([*paths, paths[0]])
    assert [item.name for item in items] == ["a/heads.safetensors#L0_H0", "b/heads.safetensors#L0_H0"]


@pytest.mark.parametrize(
    "options", [ReplayOptions(), ReplayOptions("inverse_sqrt_head_dim", "exact", "fib_k4_n64", "exact")]
)
def test_a_head_s_receipt_is_that_of_a_replay_of_it(tmp_path, options):
    """Byte for byte that of the same head of the same file, and of its JSON but for the file's digest."""
    request, config = SweepRequest(KS, options), CapturedReplayConfig(KS)
    path = pack(tmp_path, layers=1, heads=2)
    for result in done(sweep_items([path]), request):
        ours = judge(result.measurement, config).to_json()
        fixture = load_fixture(path, result.item.head)
        assert ours == judge(measure(fixture, KS, options=options), config).to_json()
        converted = load_fixture(fixture_json(fixture).encode())
        replayed = judge(measure(converted, KS, options=options), config).to_json()
        assert without_file(ours) == without_file(replayed)
    single = tmp_path / "single.json"
    single.write_text(fixture_json(fixture))
    (result,) = done(sweep_items([single]), request)
    assert judge(result.measurement, config).to_json() == replayed


def test_the_losses_of_each_step_are_those_of_the_explanation(results):
    """At every candidate k, to the last digit; ks beyond all rows included."""
    (result,) = done([results[0].item], SweepRequest((*KS, 1000)))
    fixture = load_fixture(result.item.file, result.item.head)
    for k in (*KS, 1000):
        losses = result.losses_at(k)
        explanation = explain(fixture, k)
        for stage in (explanation.stage(BASE), *explanation.alone):
            assert replace(losses.metrics[stage.name], candidate_k=k) == replace(stage.metrics, candidate_k=k)
        assert all(losses.loss(stage.name) == stage.added for stage in explanation.alone)
        assert losses.loss(BASE) == explanation.stage(BASE).loss
    assert tuple(losses.metrics) == STEPS


def test_a_result_as_bytes_is_the_same_again(results):
    """Of numbers and of errors; through pickle too."""
    for result in (results[0], HeadResult(results[0].item, error="it is not there", seconds=0.5)):
        for again in (HeadResult.from_bytes(result.to_bytes(), result.item), pickle.loads(pickle.dumps(result))):  # noqa: S301
            assert again.to_bytes() == result.to_bytes()
            assert (again.losses, again.footprint, again.error) == (result.losses, result.footprint, result.error)
            assert again.item == result.item


def test_damaged_bytes_are_no_result(results):
    """Cut off, changed, or of something else."""
    data = results[0].to_bytes()
    for damaged in (b"", data[:-1], data[:40], data + b"x", data[:50] + b"?" + data[51:], b"x" * 1000):
        with pytest.raises(SweepError, match="is damaged"):
            HeadResult.from_bytes(damaged, results[0].item)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"file": "none"}, "cannot read it: No such file or directory"),
        ({"head": "L9_H9"}, "the file has no head 'L9_H9'"),
    ],
)
def test_what_stands_in_the_way_of_a_head_is_its_error(tmp_path, changes, told):
    """In one line that names the head."""
    (item,) = sweep_items([pack(tmp_path, layers=1, heads=1)])
    source = Source.at(item.file)
    result = work(replace(item, **changes), REQUEST, source)
    assert result.error.startswith(f"{item.name}: {told}")
    assert "\n" not in result.error
    assert (result.measurement, result.fixture_digest, result.losses_at(2)) == (None, None, None)


def test_a_row_that_a_codec_cannot_hold_is_the_head_s_error(tmp_path):
    """With the place of the row."""
    fields = fixture_fields()
    fields["queries"][1]["keys"][2] = [0.0] * 8
    path = tmp_path / "zeros.json"
    path.write_bytes(encoded(fields))
    (result,) = done(sweep_items([path]))
    assert result.error.startswith("zeros.json: query 1, keys row 2 is all zeros")


def test_a_file_that_changed_meanwhile_is_not_mixed_up_with_what_it_was(tmp_path):
    """A head of another content is an error; the same content at another time is fine, also after another one."""
    (item,) = sweep_items([pack(tmp_path, layers=1, heads=1)])
    source, path = Source.at(item.file), Path(item.file)
    right = load_fixture(path).digest, path.read_bytes()
    os.utime(path, ns=(1, 1))
    assert work(item, REQUEST, source).error is None
    path.write_bytes(pack_bytes({"L0_H0": head(5)}))
    os.utime(path, ns=(2, 2))
    assert "was changed while the sweep ran" in work(item, REQUEST, source).error
    path.write_bytes(right[1])
    os.utime(path, ns=(3, 3))
    assert source.fixture(item.file, "L0_H0").digest == right[0]


@pytest.mark.parametrize("other", [pack_bytes({"L0_H0": head(5)}), b"PK\3\4 and no more"], ids=["whole", "damaged"])
def test_another_file_that_lay_there_while_it_was_read_leaves_nothing_behind(other, tmp_path, monkeypatch):
    """Neither its heads nor its damage are told as this file's, then or later."""
    (item,) = sweep_items([pack(tmp_path, layers=1, heads=1)])
    source, path, again = Source.at(item.file), Path(item.file), tmp_path / "again"
    right = load_fixture(path).digest
    again.write_bytes(path.read_bytes())

    def amid_a_swap(place):
        path.write_bytes(other)
        try:
            return open_pack(place)
        finally:
            again.replace(place)

    with monkeypatch.context() as patch:
        patch.setattr(sources, "open_pack", amid_a_swap)
        assert "was changed while the sweep ran" in work(item, REQUEST, source).error
    assert source.fixture(item.file, "L0_H0").digest == right


def test_a_file_that_became_none_meanwhile_is_told_as_changed(tmp_path):
    """And not as the damage that is found then."""
    (item,) = sweep_items([pack(tmp_path, layers=1, heads=1)])
    source = Source.at(item.file)
    Path(item.file).write_bytes(b"{}")
    assert "was changed while the sweep ran" in work(item, REQUEST, source).error
    Path(item.file).unlink()
    assert "cannot read it: No such file or directory" in work(item, REQUEST, source).error


def test_a_k_that_means_nothing_is_refused_before_any_work():
    """As everywhere; a k that is listed twice counts once."""
    with pytest.raises(ConfigError):
        SweepRequest(())
    assert SweepRequest([4, 2, 4]).candidate_ks == (4, 2)


def test_the_verdict_passes_where_every_head_passes(results):
    """Moving a gate takes nothing but another verdict over the same results."""
    passing = verdict(results, CapturedReplayConfig(KS, **OPEN))
    assert (passing.passed, passing.passing_share, passing.one_k) == (True, 1.0, 2)
    failing = verdict(results, CapturedReplayConfig(KS, **{**OPEN, "max_output_mse": 1e-12}))
    assert (failing.passed, failing.passing_share, failing.one_k) == (False, 0.0, None)
    assert failing.one_k_decode_reduction is None


def test_the_worst_head_is_that_of_the_worst_margin(results):
    """A gate between the heads parts them; the ranking is by margin, those that fail first."""
    mse = [judge(result.measurement, CapturedReplayConfig(KS, **OPEN)).metrics.output_mse_mean for result in results]
    gate = sorted(mse)[3]
    found = verdict(results, CapturedReplayConfig(KS[:1], **{**OPEN, "max_output_mse": gate}))
    assert found.worst.result is results[int(np.argmax(mse))]
    assert found.worst.worst_gate.gate.metric == "output_mse_mean"
    assert found.worst.margin == pytest.approx((gate - max(mse)) / gate)
    assert [head.passed for head in found.ranked] == [False, False, True, True, True, True]
    assert [head.margin for head in found.ranked] == sorted(head.margin for head in found.heads)
    assert found.passing_share == 4 / 6
    assert not found.passed


def test_a_head_without_a_verdict_leaves_none_over_all(results):
    """It is the worst, and the others are judged all the same."""
    lost = HeadResult(results[0].item, error="gone")
    found = verdict([*results[1:], lost], CapturedReplayConfig(KS, **OPEN))
    assert found.passed is None
    assert (found.worst.result, found.worst.margin, found.worst.error) == (lost, -math.inf, "gone")
    assert [head.result for head in found.errors] == [lost]
    assert found.passing_share == 5 / 6
    assert found.one_k is None
    assert found.worst.metrics is found.worst.selected_k is found.worst.worst_gate is None
    assert found.worst.losses == {}
    nothing = verdict([], CapturedReplayConfig(KS))
    assert (nothing.passed, nothing.worst, nothing.passing_share, nothing.cache) == (None, None, 0.0, None)


def test_the_selected_k_is_the_first_listed_and_the_smallest_that_passes_is_named_beside_it(results):
    """The order of the candidates is a preference."""
    head = verdict(results[:1], CapturedReplayConfig((6, 3, 2), **OPEN)).heads[0]
    assert (head.selected_k, head.smallest_passing_k, head.passing_ks) == (6, 2, (6, 3, 2))
    assert head.metrics.candidate_k == 6
    whole = sum(head.losses[step]["output_mse_mean"] for step in (BASE, "joint"))
    assert whole == pytest.approx(head.metrics.output_mse_mean)


def test_decode_reduction_is_that_of_all_heads_together(results):
    """At each head's own k, and at the smallest k that all pass."""
    found = verdict(results, CapturedReplayConfig((3, 2), **OPEN))
    assert found.decode_reduction == 6 / 3
    assert (found.one_k, found.one_k_decode_reduction) == (2, 6 / 2)


def test_a_gate_that_is_moved_to_a_k_that_was_not_measured_is_refused(results):
    """Nothing is replayed behind anybody's back."""
    with pytest.raises(ConfigError, match="candidate k 4 was not measured"):
        verdict(results, CapturedReplayConfig((4,)))


def test_the_cache_of_a_kv_head_is_counted_once(tmp_path):
    """Query heads that share it add nothing; without that knowledge every head counts; tables are the model's."""
    shared = {f"L{layer}_H{index}": {"kv_head": index // 2} for layer in range(2) for index in range(3)}
    of_one = footprint(head())
    for about, caches in ((shared, 4), (None, 6)):
        found = verdict(done(sweep_items([pack(tmp_path, about=about)])), CapturedReplayConfig(KS)).cache
        assert found.kv_heads == caches
        assert found.bytes_per_token == pytest.approx(caches * of_one.bytes_per_token)
        assert found.pool_bytes_per_token == caches * of_one.pool.bytes_per_token
        assert found.shell_bytes_per_token == caches * of_one.shell.bytes_per_token
        assert found.table_bytes == of_one.table_bytes
        assert found.ratio_to_fp32 == pytest.approx(of_one.fp32_bytes_per_token / of_one.bytes_per_token)
        assert found.ratio_to_fp16 == pytest.approx(found.ratio_to_fp32 / 2)


def test_a_head_from_two_files_has_one_cache_if_one_of_them_tells_its_kv_head(tmp_path):
    """The same head as JSON beside the compact file adds no bytes."""
    about = {f"L{layer}_H{index}": {"kv_head": index // 2} for layer in range(2) for index in range(3)}
    (tmp_path / "again.json").write_text(fixture_json(head(1, 2)))
    items = sweep_items([pack(tmp_path, about=about), tmp_path / "again.json"])
    found = verdict(done(items), CapturedReplayConfig(KS))
    assert (len(found.heads), found.cache.kv_heads) == (7, 4)


def test_a_map_has_each_head_at_its_layer_and_head(results):
    """Every number of the head's verdict; NaN where there is no head, or no number."""
    lost = HeadResult(results[4].item, error="gone")
    found = verdict([*results[:4], lost], CapturedReplayConfig(KS, **{**OPEN, "max_output_mse": 1e-3}))
    (there,) = maps(found)
    assert (there.title, there.layers, there.head_indices) == ("tiny", (0, 1), (0, 1, 2))
    first = found.heads[0]
    assert there.heads[0, 0] is first
    assert there.grids["margin"][0, 0] == first.margin
    assert there.grids["smallest_passing_k"][0, 0] == (first.smallest_passing_k or pytest.approx(math.nan, nan_ok=True))
    for gate in GATES:
        assert there.grids[gate.metric][0, 0] == getattr(first.metrics, gate.metric)
        for step in STEPS:
            assert there.grids[loss_name(step, gate.metric)][0, 0] == first.losses[step][gate.metric]
    for grid in there.grids.values():
        assert grid.shape == (2, 3)
        assert np.isnan(grid[1, 1:]).all()
    assert (1, 1) in there.heads
    assert (1, 2) not in there.heads


def test_each_model_has_a_map_and_heads_of_no_known_place_have_none(results, tmp_path):
    """Another model has its own; the same heads from two files are parted by file."""
    fixtures = {
        "a": replace(head(), model_id="other:layer0:head0"),
        "b": replace(head(), model_id="nobody knows"),
    }
    other = tmp_path / "other.npz"
    other.write_bytes(pack_bytes(fixtures, "npz"))
    again = pack(tmp_path, layers=1, heads=1, name="again.safetensors")
    config = CapturedReplayConfig(KS, **OPEN)
    found = maps(verdict([*results, *done(sweep_items([other]))], config))
    assert [(there.title, len(there.heads)) for there in found] == [("tiny", 6), ("other", 1)]
    found = maps(verdict([*results, *done(sweep_items([again]))], config))
    assert [(there.title, len(there.heads)) for there in found] == [
        ("tiny (heads.safetensors)", 6),
        ("tiny (again.safetensors)", 1),
    ]


def test_the_splits_of_a_head_are_measured_and_the_best_of_them_marked():
    """More rows in the pool take fewer bytes; a split is optimal unless another is as good and as small."""
    fixture, config = head(rows=12, shared=4, head_dim=16), CapturedReplayConfig(KS, **OPEN)
    curve = shared_tokens_curve(fixture, config, quality="output_mse_mean")
    assert [split.shared_tokens for split in curve] == list(default_splits(11)) == [1, 2, 4, 5, 7, 8, 10, 11]
    sizes = [split.bytes_per_token for split in curve]
    assert sizes == sorted(sizes, reverse=True)
    for split in curve:
        same = judge(measure(replace(fixture, shared_tokens=split.shared_tokens, file_digest=None), KS), config)
        assert split.receipt.to_json() == same.to_json()
        assert split.passed
        assert split.loss("output_mse_mean") == split.metrics.output_mse_mean
        better = [other for other in curve if other.shared_tokens > split.shared_tokens]
        assert split.optimal == all(other.metrics.output_mse_mean > split.metrics.output_mse_mean for other in better)
    assert curve[-1].optimal


def test_splits_that_leave_a_tier_without_rows_are_refused():
    """And a quality without a best value; two rows have one split."""
    fixture, config = head(), CapturedReplayConfig(KS)
    with pytest.raises(SweepError, match="shared_tokens is 6; expected a whole number from 1 to 5"):
        shared_tokens_curve(fixture, config, shared_tokens=[6])
    with pytest.raises(SweepError, match="quality is 'decode_reduction'; expected one of output_cosine_mean"):
        shared_tokens_curve(fixture, config, quality="decode_reduction")
    assert default_splits(1) == (1,)


def test_heads_that_are_spread_over_more_places_than_any_model_has_have_no_map(results):
    """A map of them would take all memory, and nobody could read it."""
    spread = [
        replace(result, item=replace(result.item, layer=1000 * index, head_index=1000 * index))
        for index, result in enumerate(results[:2])
    ]
    assert [len(found.layers) for found in maps(verdict(spread, CapturedReplayConfig(KS)))] == [2]
    many = [replace(results[0], item=replace(results[0].item, layer=place, head_index=place)) for place in range(300)]
    assert maps(verdict(many, CapturedReplayConfig(KS))) == ()
