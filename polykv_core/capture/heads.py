"""From a model and a text to fixtures: run it, check what was seen, and put each head's arrays together."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers

from polykv_core.arrays import Array, Float32, Float64, Int64
from polykv_core.capture.model import Checkpoint, head_projection
from polykv_core.capture.recording import Recording, recording
from polykv_core.capture.request import CaptureRequest
from polykv_core.errors import CaptureError
from polykv_core.fixture import CAPTURED_REPLAY_FIXTURE_SCHEMA, CapturedReplayFixture, CapturedReplayQuery
from polykv_core.version import __version__

# How far the captured output may be from softmax(scale * q.k) v over the captured rows, in float64.
TOLERANCE = 1e-5
# How far the model's logits may be from those with its own attention, of the largest of them.
_MODEL_TOLERANCE = 1e-3
_OWN_ATTENTION = "eager"

OnLayer = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Captured:
    """Fixtures by name (`L15_H2`), what the file is to say of each, and how the capture checked itself.

    `largest_difference` is between a captured output and attention recomputed from the captured rows.
    """

    fixtures: Mapping[str, CapturedReplayFixture]
    about: Mapping[str, Mapping[str, Any]]
    tokens: int
    largest_difference: float


def keep_going(done: int, total: int) -> None:
    """Nobody wants to know."""


def capture(checkpoint: Checkpoint, text: str, request: CaptureRequest, on_layer: OnLayer = keep_going) -> Captured:
    """Capture heads of a model on a text. `on_layer` is told how many layers are done of how many.

    A head's output projection is the unembedding times its slice of the layer's output projection, as the weights are:
    the final norm is not folded in. Raises CaptureError for what cannot be captured, and never captures it wrongly.
    """
    layers, heads = _asked(checkpoint, request)
    tokens = checkpoint.tokens(text)[: request.most_tokens]
    if checkpoint.context is not None:
        tokens = tokens[: checkpoint.context]
    positions = request.positions(len(tokens))
    with recording(layers) as recorder:
        logits = checkpoint.logits(tokens)
    missing = sorted(set(layers) - recorder.found.keys())
    if missing:
        raise CaptureError(
            f"layer {missing[0]} of {checkpoint.name} never came to transformers' attention interface; "
            "it has no softmax attention, or a kind that cannot be captured"
        )
    _check_model(checkpoint, tokens, logits)
    labels = tokens[positions + 1].numpy()
    vocabulary = _vocabulary(labels, logits[positions].numpy(), request.vocab)
    unembedding = checkpoint.unembedding()[torch.from_numpy(vocabulary)]
    model_logits = logits[positions][:, vocabulary].numpy() if request.logits == "model" else None
    common = _common(text, tokens, positions, vocabulary, request)
    fixtures: dict[str, CapturedReplayFixture] = {}
    about: dict[str, Mapping[str, Any]] = {}
    largest = 0.0
    for done, layer in enumerate(layers):
        on_layer(done, len(layers))
        found = recorder.found[layer]
        _check_rows(layer, found, positions)
        slices = head_projection(found.module, *found.queries.shape[::2])
        for head in heads:
            name = f"L{layer}_H{head}"
            fixture = _fixture(
                f"{checkpoint.name}:layer{layer}:head{head}",
                found,
                head,
                positions,
                (unembedding @ slices[head]).numpy(),
                model_logits,
                np.searchsorted(vocabulary, labels),
                request,
            )
            largest = max(largest, _check_output(name, fixture, found.scale))
            fixtures[name] = fixture
            about[name] = {"layer": layer, "head": head, "kv_head": head // found.group, "scale": found.scale, **common}
    on_layer(len(layers), len(layers))
    return Captured(fixtures, about, len(tokens), largest)


def _asked(checkpoint: Checkpoint, request: CaptureRequest) -> tuple[list[int], list[int]]:
    """The layers and heads that are asked for. Raises CaptureError for those that the model does not have."""
    found = []
    for what, asked, count in (
        ("layer", request.layers, checkpoint.layer_count),
        ("head", request.heads, checkpoint.head_count),
    ):
        chosen = sorted(range(count) if asked is None else asked)
        if not chosen or chosen[-1] >= count:
            wrong = chosen[-1] if chosen else "none"
            raise CaptureError(f"{what} {wrong} is asked for; {checkpoint.name} has {count}, counted from 0")
        found.append(chosen)
    return found[0], found[1]


def _check_model(checkpoint: Checkpoint, tokens: torch.Tensor, logits: torch.Tensor) -> None:
    """Whether the model says the same with its own attention: whatever that does besides would be missing here."""
    own = checkpoint.logits(tokens, _OWN_ATTENTION)
    difference, size = float((own - logits).abs().max()), float(own.abs().max())
    if not difference <= _MODEL_TOLERANCE * max(1.0, size):
        raise CaptureError(
            f"{checkpoint.name} gives other logits with its own attention (by {difference:.3g}); that does something "
            "beside softmax(scale * q.k) v, so its heads cannot be captured"
        )


def _check_rows(layer: int, found: Recording, positions: Int64[Array, " q"]) -> None:
    """Whether each query sees every row up to its own and none behind it."""
    for position in positions.tolist():
        seen = found.visible[position]
        if bool(seen[position + 1 :].any()):
            raise CaptureError(f"layer {layer} sees tokens that come later; only causal attention can be captured")
        hidden = int((~seen[: position + 1]).sum())
        if hidden:
            window = f" (sliding window of {found.window})" if found.window else ""
            raise CaptureError(
                f"layer {layer}{window} hides {hidden} of {position + 1} rows from token {position}; a fixture has all "
                "rows up to the query's. Leave the layer out, or take fewer tokens (--max-tokens)"
            )


def _vocabulary(labels: Int64[Array, " q"], logits: Float32[Array, "q v"], size: int) -> Int64[Array, " vocab"]:
    """The labels, and as many of each query's likeliest tokens as there is room for; ascending."""
    chosen = set(labels.tolist())
    if len(chosen) > size:
        raise CaptureError(f"vocab is {size}, and the queries have {len(chosen)} labels; it must hold all of them")
    size = min(size, logits.shape[1])
    likeliest = np.argsort(-logits, axis=1, kind="stable")[:, :size]
    for token in likeliest.T.ravel().tolist():
        if len(chosen) >= size:
            break
        chosen.add(token)
    return np.array(sorted(chosen), dtype=np.int64)


def _common(
    text: str,
    tokens: torch.Tensor,
    positions: Int64[Array, " q"],
    vocabulary: Int64[Array, " vocab"],
    request: CaptureRequest,
) -> dict[str, Any]:
    """What the file says of every head."""
    return {
        "logits": request.logits,
        "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "tokens": len(tokens),
        "positions": positions.tolist(),
        "vocabulary_sha256": hashlib.sha256(vocabulary.astype("<i8").tobytes()).hexdigest(),
        "made_with": {"polykv": __version__, "torch": torch.__version__, "transformers": transformers.__version__},
    }


def _fixture(
    model_id: str,
    found: Recording,
    head: int,
    positions: Int64[Array, " q"],
    projection: Float32[Array, "v d"],
    model_logits: Float32[Array, "q v"] | None,
    labels: Int64[Array, " q"],
    request: CaptureRequest,
) -> CapturedReplayFixture:
    kv_head = head // found.group
    keys, values = found.keys[kv_head].float().numpy(), found.values[kv_head].float().numpy()
    outputs = found.outputs[head].float().numpy()
    queries = []
    for index, position in enumerate(positions.tolist()):
        output = outputs[position]
        queries.append(
            CapturedReplayQuery(
                query=found.queries[head, position].float().numpy(),
                keys=keys[: position + 1],
                values=values[: position + 1],
                exact_attention_output=output,
                exact_logits=projection @ output if model_logits is None else model_logits[index],
                label_token=int(labels[index]),
            )
        )
    return CapturedReplayFixture(
        schema_version=CAPTURED_REPLAY_FIXTURE_SCHEMA,
        model_id=model_id,
        head_dim=keys.shape[1],
        shared_tokens=request.shared_tokens,
        seed=request.seed,
        output_projection=projection,
        queries=tuple(queries),
    )


def _check_output(name: str, fixture: CapturedReplayFixture, scale: float) -> float:
    """How far the captured outputs are from attention recomputed in float64. Raises CaptureError beyond TOLERANCE."""
    largest = 0.0
    for index, query in enumerate(fixture.queries):
        expected = _attention(query, scale)
        difference = float(np.abs(expected - query.exact_attention_output).max())
        if not difference <= TOLERANCE * max(1.0, float(np.abs(expected).max())):
            raise CaptureError(
                f"head {name}, query {index}: the captured output is {difference:.3g} away from softmax(scale * q.k) v "
                f"over its rows, more than {TOLERANCE:g}; this attention does something else"
            )
        largest = max(largest, difference)
    return largest


def _attention(query: CapturedReplayQuery, scale: float) -> Float64[Array, " d"]:
    scores = query.keys.astype(np.float64) @ query.query.astype(np.float64) * scale
    weights = np.exp(scores - scores.max())
    return weights @ query.values.astype(np.float64) / weights.sum()
