"""Capturing: what a model's heads saw is what the file holds, or the capture says why it cannot."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from command_line import assert_one_error_line, one_line, polykv, polykv_process

if not (find_spec("torch") and find_spec("transformers")):
    pytest.skip("needs the capture extra: pip install 'polykv[capture]'", allow_module_level=True)

# Read as the libraries are imported: no test asks a server for anything.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from polykv_core import CapturedReplayConfig, heads_in, judge, load_fixture, measure
from polykv_core.capture import checking
from polykv_core.capture.heads import capture
from polykv_core.capture.model import load_checkpoint
from polykv_core.capture.projection import head_projection
from polykv_core.capture.request import CaptureRequest
from polykv_core.errors import CaptureError
from polykv_core.packs import open_pack
from polykv_core.scale import fit_scale

# Other versions of these libraries may warn about themselves, which says nothing about this project.
pytestmark = pytest.mark.filterwarnings(r"ignore::Warning:(torch|transformers|tokenizers|accelerate)(\..*)?")

VOCAB = 48
WORDS = [f"w{number}" for number in range(VOCAB)]
TEXT = " ".join(WORDS[int(number)] for number in np.random.default_rng(5).integers(0, VOCAB, 40))
COMMON = {"vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
REQUEST = CaptureRequest(queries=5, shared_tokens=10, vocab=24, seed=3)
# Large weights spread the attention, so that a wrong mapping of heads is seen.
SPREAD = {"initializer_range": 0.3}
CONFIGS = {
    "llama": lambda: hf.LlamaConfig(**COMMON, **HEADS, **SPREAD),
    "gpt2": lambda: hf.GPT2Config(
        vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0, **SPREAD
    ),
    "qwen2": lambda: hf.Qwen2Config(**COMMON, **HEADS, **SPREAD),
    "qwen3": lambda: hf.Qwen3Config(**COMMON, **HEADS, **SPREAD, head_dim=16),
    "gemma": lambda: hf.GemmaConfig(**COMMON, **HEADS, **SPREAD, head_dim=16),
    "mistral, long window": lambda: hf.MistralConfig(**COMMON, **HEADS, **SPREAD, sliding_window=64),
}
REFUSED = {
    "gemma2": (lambda: hf.Gemma2Config(**COMMON, **HEADS, head_dim=16), "caps its scores (soft-cap)"),
    "mistral": (lambda: hf.MistralConfig(**COMMON, **HEADS, sliding_window=8), "(sliding window of 8) hides"),
    "gpt-oss": (
        lambda: hf.GptOssConfig(**COMMON, **HEADS, head_dim=16, num_local_experts=2, num_experts_per_tok=1),
        "has attention sinks of its own",
    ),
    "qwen3.5, a gate behind attention": (
        lambda: hf.Qwen3_5TextConfig(**COMMON, **HEADS, head_dim=16, layer_types=["full_attention"] * 2),
        "layer 0 (Qwen3_5Attention) changes what its heads give (by a gate or a norm)",
    ),
    "bitnet, a norm behind attention": (
        lambda: hf.BitNetConfig(**COMMON, **HEADS),
        "layer 0 (BitNetAttention) changes what its heads give (by a gate or a norm)",
    ),
    "bloom": (
        lambda: hf.BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=2, n_head=4),
        "never came to transformers' attention interface",
    ),
    "falcon": (
        lambda: hf.FalconConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
        "its attention does not go through transformers' attention interface",
    ),
    "mamba": (
        lambda: hf.MambaConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, state_size=4),
        "says of no attention heads",
    ),
}


def saved(folder, config):
    """A random model of a config, with a tokenizer that knows its words, as a checkpoint."""
    torch.manual_seed(0)
    hf.AutoModelForCausalLM.from_config(config).save_pretrained(folder, safe_serialization=True)
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=WORDS[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=WORDS[0]).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """A function that gives a checkpoint's folder by the name of its config, made once."""
    made = {}

    def folder(name):
        if name not in made:
            make = CONFIGS[name] if name in CONFIGS else REFUSED[name][0]
            made[name] = saved(tmp_path_factory.mktemp("model"), make())
        return made[name]

    return folder


def loaded(folder):
    """A checkpoint; for some models transformers takes another kind of tokenizer than was saved."""
    return replace(load_checkpoint(folder), tokenizer=hf.PreTrainedTokenizerFast.from_pretrained(folder))


@pytest.fixture(scope="module")
def captured(checkpoints):
    """A function that gives a checkpoint and what was captured of it, by the name of its config; done once."""
    done = {}

    def of(name):
        if name not in done:
            checkpoint = loaded(checkpoints(name))
            done[name] = (checkpoint, capture(checkpoint, TEXT, REQUEST))
        return done[name]

    return of


@pytest.fixture
def text(tmp_path):
    """The text in a file."""
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


EACH = pytest.mark.parametrize("name", CONFIGS)


def subset(checkpoint, found, head):
    """The tokens that the rows of a head's projection are of: each is its token's row of the unembedding times W_o."""
    fixture, about = found.fixtures[head], found.about[head]
    (out,) = [
        module
        for name, module in checkpoint.model.named_modules()
        if f".{about['layer']}." in name and name.endswith(("self_attn.o_proj", "attn.c_proj"))
    ]
    # [in, hidden]: a linear layer holds it the other way round, GPT-2's Conv1D as it is.
    weight = (out.weight.T if isinstance(out, torch.nn.Linear) else out.weight).detach().numpy()
    columns = weight[about["head"] * fixture.head_dim :][: fixture.head_dim]
    rows = checkpoint.model.lm_head.weight.detach().numpy() @ columns.T
    apart = np.abs(rows[None] - fixture.output_projection[:, None]).max(axis=2)
    tokens = apart.argmin(axis=1)
    assert apart.min(axis=1).max() < 1e-5
    assert np.array_equal(tokens, np.unique(tokens))
    assert hashlib.sha256(tokens.astype("<i8").tobytes()).hexdigest() == about["vocabulary_sha256"]
    return tokens


@EACH
def test_recomputed_attention_is_the_captured_output(captured, name):
    """For every head of every model, in float64, with the scale that the capture tells."""
    _, found = captured(name)
    assert len(found.fixtures) == 8
    for head, fixture in found.fixtures.items():
        scale = found.about[head]["scale"]
        for query in fixture.queries:
            scores = scale * (query.keys.astype(np.float64) @ query.query)
            weights = np.exp(scores - scores.max())
            expected = weights @ query.values / weights.sum()
            np.testing.assert_allclose(query.exact_attention_output, expected, rtol=0, atol=1e-5)
    assert found.largest_difference <= 1e-5


@EACH
def test_the_heads_add_up_to_what_the_model_s_own_attention_gives(captured, checkpoints, name):
    """Every head through its slice of the output projection, plus the bias: a wrong head or slice would differ."""
    checkpoint, found = captured(name)
    own = hf.AutoModelForCausalLM.from_pretrained(checkpoints(name), attn_implementation="eager").eval()
    modules = [module for module in own.modules() if getattr(module, "layer_idx", None) is not None]
    attention = [module for module in modules if any(hasattr(module, name) for name in ("o_proj", "c_proj"))]
    given = {}

    def note(module, _args, out):
        given[module.layer_idx] = out[0][0]

    for module in attention:
        module.register_forward_hook(note)
    tokens = checkpoint.tokens(TEXT)
    with torch.no_grad():
        own(tokens[None], use_cache=False)
    positions = found.about["L0_H0"]["positions"]
    for module in attention:
        layer = module.layer_idx
        projection = head_projection(module, 4, found.fixtures["L0_H0"].head_dim).numpy()
        out = module.o_proj if hasattr(module, "o_proj") else module.c_proj
        bias = 0.0 if out.bias is None else out.bias.detach().numpy()
        for index, position in enumerate(positions):
            outputs = [found.fixtures[f"L{layer}_H{h}"].queries[index].exact_attention_output for h in range(4)]
            total = sum(projection[h] @ outputs[h] for h in range(4)) + bias
            np.testing.assert_allclose(total, given[layer][position].numpy(), rtol=0, atol=2e-5)


@EACH
def test_labels_are_the_text_s_next_tokens_and_logits_the_head_s_own(captured, name):
    """The labels lie in the vocabulary subset; local logits are the projection of the exact output."""
    checkpoint, found = captured(name)
    tokens = checkpoint.tokens(TEXT).numpy()
    for head, fixture in found.fixtures.items():
        vocabulary = subset(checkpoint, found, head)
        assert len(vocabulary) == REQUEST.vocab
        for query, position in zip(fixture.queries, found.about[head]["positions"], strict=True):
            assert query.row_count == position + 1
            assert vocabulary[query.label_token] == tokens[position + 1]
            expected = fixture.output_projection @ query.exact_attention_output
            np.testing.assert_allclose(query.exact_logits, expected, rtol=0, atol=1e-5)


@EACH
def test_every_head_has_the_same_tokens_and_the_same_seed(captured, name):
    """A cache has one pool, and a sweep compares heads over one vocabulary."""
    checkpoint, found = captured(name)
    assert len({tuple(subset(checkpoint, found, head)) for head in found.fixtures}) == 1
    assert {(fixture.seed, fixture.shared_tokens) for fixture in found.fixtures.values()} == {(3, 10)}
    kv_heads = [found.about[f"L1_H{head}"]["kv_head"] for head in range(4)]
    assert kv_heads == ([0, 1, 2, 3] if name == "gpt2" else [0, 0, 1, 1])


@pytest.mark.parametrize("vocab", [24, VOCAB], ids=["a subset", "all tokens"])
def test_model_logits_are_the_whole_model_s(captured, checkpoints, vocab):
    """At the query's token, over the subset."""
    checkpoint, _ = captured("llama")
    request = CaptureRequest(queries=5, shared_tokens=10, vocab=vocab, logits="model")
    found = capture(checkpoint, TEXT, request)
    vocabulary = subset(checkpoint, found, "L1_H3")
    assert len(vocabulary) == vocab
    own = hf.AutoModelForCausalLM.from_pretrained(checkpoints("llama"), attn_implementation="eager").eval()
    with torch.no_grad():
        logits = own(checkpoint.tokens(TEXT)[None]).logits[0].numpy()
    for query, position in zip(found.fixtures["L1_H3"].queries, found.about["L1_H3"]["positions"], strict=True):
        np.testing.assert_allclose(query.exact_logits, logits[position][vocabulary], rtol=0, atol=1e-4)


def test_a_head_s_scale_is_found_again_from_its_capture(captured):
    """What the capture tells is what fits its own output."""
    _, found = captured("llama")
    for name, fixture in found.fixtures.items():
        assert fit_scale(fixture).scale == pytest.approx(found.about[name]["scale"], rel=1e-3)


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_captured_wrongly_is_refused_with_the_reason(checkpoints, name):
    """Soft-caps, sinks, windows that hide rows, and what is no softmax attention."""
    with pytest.raises(CaptureError) as refused:
        capture(loaded(checkpoints(name)), TEXT, REQUEST)
    assert REFUSED[name][1] in one_line(str(refused.value))


def test_a_model_whose_own_attention_does_more_is_refused(captured, monkeypatch):
    """Its logits with its own attention are compared with the captured ones."""
    checkpoint, _ = captured("llama")
    monkeypatch.setattr(checking, "_OWN_ATTENTION", "twice")

    def twice(module, query, key, value, mask, scaling, **others):
        from polykv_core.capture.recording import _attention

        output, weights = _attention(module, query, key, value, mask, scaling, **others)
        return 2.0 * output, weights

    hf.AttentionInterface.register("twice", twice)
    hf.AttentionMaskInterface.register("twice", hf.masking_utils.eager_mask)
    with pytest.raises(CaptureError, match="gives other logits with its own attention"):
        capture(checkpoint, TEXT, REQUEST)


def test_a_projection_that_is_more_than_its_weight_is_refused(checkpoints):
    """As that of a quantised layer is, whose scales stand beside the weight."""
    checkpoint = loaded(checkpoints("llama"))
    layer = checkpoint.model.model.layers[1].self_attn.o_proj
    layer.register_forward_hook(lambda _module, _inputs, output: 2.0 * output)
    with pytest.raises(CaptureError, match=r"layer 1 \(LlamaAttention\) does more in its output projection"):
        capture(checkpoint, TEXT, REQUEST)


def test_a_capture_leaves_the_model_as_it_was(checkpoints):
    """No hook stays behind."""
    checkpoint = loaded(checkpoints("llama"))
    capture(checkpoint, TEXT, REQUEST)
    assert not any(module._forward_hooks for module in checkpoint.model.modules())


def test_heads_and_queries_hold_their_rows_once(captured):
    """Else a long text would take as much memory for each query as the file takes in all."""
    _, found = captured("llama")
    first, second, third = (found.fixtures[f"L0_H{head}"].queries for head in range(3))
    assert np.shares_memory(first[0].keys, first[-1].keys)
    assert np.shares_memory(first[0].values, second[-1].values)
    assert not np.shares_memory(first[0].keys, third[0].keys)


def test_the_command_writes_a_file_that_replays(checkpoints, text, tmp_path):
    """Every head by name; what they share is stored once; the same request gives the same bytes."""
    paths = [tmp_path / "one.safetensors", tmp_path / "two.safetensors"]
    for path in paths:
        result = polykv(
            "capture", checkpoints("llama"), "--text", text, "--out", path, "--layers=1", "--heads=0-2", "--vocab=24",
            "--queries=5", "--shared-tokens=10", "--seed=3",
        )  # fmt: skip
        assert (result.exit_code, result.stderr) == (0, "")
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert f"{paths[1]}: 3 heads" in result.stdout
    assert "40 tokens" in result.stdout
    assert "5 a head, each with 11 to 39 rows, 10 shared" in one_line(result.stdout)
    assert [head.name for head in heads_in(paths[0])] == ["L1_H0", "L1_H1", "L1_H2"]
    first, second, third = open_pack(paths[0]).heads
    assert first.arrays["keys"] == second.arrays["keys"] != third.arrays["keys"]
    assert {name: second.about[name] for name in ("layer", "head", "kv_head")} == {"layer": 1, "head": 1, "kv_head": 0}
    assert third.about["kv_head"] == 1
    assert first.about["scale"] == pytest.approx(8**-0.5)
    for head in heads_in(paths[0]):
        fixture = load_fixture(paths[0], head.name)
        assert (fixture.seed, fixture.shared_tokens, fixture.head_dim) == (3, 10, 8)
        assert judge(measure(fixture, (4, 8)), CapturedReplayConfig((4, 8))).to_json()
    swept = polykv("sweep", paths[0], "--workers=1")
    assert "3 heads" in swept.stdout
    assert "of 2 KV heads" in swept.stdout


def test_a_text_that_is_cut_is_told(checkpoints, text, tmp_path):
    """How many tokens were read of how many."""
    args = ("--text", text, "--out", tmp_path / "o.npz", "--max-tokens=30", "--queries=5", "--shared-tokens=10")
    assert "30 tokens, the first of 40" in polykv("capture", checkpoints("llama"), *args).stdout


def test_the_captured_scale_is_told_with_how_to_replay_at_it(checkpoints, text, tmp_path):
    """The option is named, where there is one for all heads."""
    args = ("--text", text, "--out", tmp_path / "o.npz", "--queries=5", "--shared-tokens=10")
    told = polykv("capture", checkpoints("llama"), *args).stdout
    assert re.search(r"Scale +0\.353553; replay with --attention-scale inverse_sqrt_head_dim\n", told)


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision_takes_half_the_room(checkpoints, text, tmp_path, precision):
    """And an .npz is written as well as a .safetensors."""
    sizes = []
    for given in ("float32", precision):
        path = tmp_path / f"{given}.npz"
        args = ("--text", text, "--out", path, "--queries=5", "--shared-tokens=10", "--precision", given)
        assert polykv("capture", checkpoints("gpt2"), *args).exit_code == 0
        assert load_fixture(path, "L1_H3").head_dim == 8
        sizes.append(sum(open_pack(path)._container.array(f"L0_H0.{role}").nbytes for role in ("keys", "query")))
    assert sizes[0] == 2 * sizes[1]


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--shared-tokens=99"], "the text has 40 tokens; 16 queries behind 99 shared tokens take at least 116"),
        (["--max-tokens=20", "--shared-tokens=10"], "the text has 20 tokens"),
        (["--layers=7", "--shared-tokens=10"], "layer 7 is asked for"),
        (["--heads=0-4", "--shared-tokens=10"], "head 4 is asked for"),
        (["--vocab=3", "--shared-tokens=10"], "vocab is 3, and the queries have"),
        (["--queries=0"], "queries"),
        (["--out=heads.json"], "must end in .safetensors or .npz"),
    ],
)
def test_what_cannot_be_captured_is_refused_in_one_line(checkpoints, text, tmp_path, args, reason):
    """Exit 2, and no file."""
    out = tmp_path / "out.safetensors"
    result = polykv("capture", checkpoints("llama"), "--text", text, "--out", out, *args)
    assert_one_error_line(result)
    assert reason in result.stderr
    assert not out.exists()


def test_a_folder_that_is_no_checkpoint_is_refused(text, tmp_path):
    """Without weights, with pickled ones, with broken ones, and what is no folder at all."""
    folder = tmp_path / "model"
    folder.mkdir()
    out = ("--text", text, "--out", tmp_path / "out.npz")
    assert "there are no weights in it" in polykv("capture", folder, *out).stderr
    (folder / "pytorch_model.bin").write_bytes(b"never opened")
    assert "pytorch_model.bin, a pickle, which is never opened" in polykv("capture", folder, *out).stderr
    (folder / "model.safetensors").write_bytes(b"none")
    broken = polykv("capture", folder, *out)
    assert_one_error_line(broken)
    assert "cannot be loaded" in broken.stderr
    assert "no folder and no .gguf file" in polykv("capture", tmp_path / "gone", *out).stderr


def test_a_checkpoint_that_lacks_weights_is_refused(checkpoints, text, tmp_path):
    """Transformers would draw them at random."""
    folder = tmp_path / "model"
    shutil.copytree(checkpoints("llama"), folder)
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.self_attn.k_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    result = polykv("capture", folder, "--text", text, "--out", tmp_path / "out.npz")
    assert_one_error_line(result)
    assert "lacks 1 of the model's weights, such as model.layers.1.self_attn.k_proj.weight" in result.stderr


def test_heads_that_the_reference_s_codecs_cannot_take_are_told(text, tmp_path):
    """They are written; a replay with exact codecs takes them."""
    config = hf.LlamaConfig(**COMMON | {"hidden_size": 24}, **HEADS, head_dim=6)
    folder, out = saved(tmp_path / "model", config), tmp_path / "out.npz"
    result = polykv("capture", folder, "--text", text, "--out", out, "--queries=5", "--shared-tokens=10")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: the heads replay with --pool-codec exact --shell-codec exact only")
    assert polykv("replay", f"{out}#L0_H0", "--pool-codec=exact", "--shell-codec=exact").exit_code != 2


def test_an_encoder_decoder_is_refused(text, tmp_path):
    """Its heads attend to another text as well."""
    config = hf.T5Config(vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4)
    hf.T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5", safe_serialization=True)
    result = polykv("capture", tmp_path / "t5", "--text", text, "--out", tmp_path / "out.npz")
    assert_one_error_line(result)
    assert "encoder-decoder" in result.stderr


def test_a_text_that_is_no_text_is_refused(checkpoints, tmp_path):
    """With the byte that is none, and the file's name."""
    path = tmp_path / "text.txt"
    path.write_bytes(b"good \xff")
    result = polykv("capture", checkpoints("llama"), "--text", path, "--out", tmp_path / "out.npz")
    assert_one_error_line(result)
    assert f"{path}: the text is not UTF-8: byte 5 is 0xff; save it as UTF-8" in result.stderr


def test_the_text_is_not_overwritten(checkpoints, tmp_path):
    """Whatever it is called."""
    path = tmp_path / "text.npz"
    path.write_text(TEXT)
    assert_one_error_line(polykv("capture", checkpoints("llama"), "--text", path, "--out", path))
    assert path.read_text() == TEXT


def test_the_weights_are_not_overwritten(checkpoints, text):
    """An output in the model's folder may not take the place of what is there."""
    weights = checkpoints("llama") / "model.safetensors"
    before = weights.read_bytes()
    args = ("--text", text, "--queries=5", "--shared-tokens=10")
    result = polykv("capture", checkpoints("llama"), *args, "--out", weights)
    assert_one_error_line(result)
    assert "would overwrite the input" in result.stderr
    assert weights.read_bytes() == before


def test_without_the_extra_a_capture_says_what_to_install(text, tmp_path):
    """In one line, without a traceback."""
    code = (
        "import sys; sys.modules['torch'] = None; from polykv_core.cli import main; "
        f"main(['capture', '.', '--text', {str(text)!r}, '--out', {str(tmp_path / 'o.npz')!r}])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert (
        run.stderr == "error: capture needs torch and transformers; install them with: pip install 'polykv[capture]'\n"
    )


def test_as_a_program_it_prints_nothing_but_its_own(checkpoints, text, tmp_path):
    """No bars and warnings of the libraries on standard error."""
    out = tmp_path / "out.safetensors"
    args = ("--text", text, "--out", out, "--queries=5", "--shared-tokens=10")
    run = polykv_process("capture", checkpoints("gemma"), *args)
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout.startswith(f"{out}: 8 heads".encode())


def test_what_the_file_tells_is_json_and_small(captured):
    """Places, scale, text and versions; never the text itself."""
    _, found = captured("llama")
    told = json.dumps(found.about["L1_H2"])
    assert {"layer", "head", "kv_head", "scale", "logits", "text_sha256", "tokens", "positions", "made_with"} <= set(
        json.loads(told)
    )
    assert WORDS[7] not in told
    assert len(told) < 1000
