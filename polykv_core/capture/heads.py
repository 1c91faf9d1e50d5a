"""From a model and a text to fixtures: run it, check what was seen, and put each head's arrays together."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers

from polykv_core.arrays import Array, Float32, Int64, frozen
from polykv_core.capture.checking import check_model, check_output, check_projection, check_rows
from polykv_core.capture.model import Checkpoint
from polykv_core.capture.projection import head_projection
from polykv_core.capture.recording import Recording, recording
from polykv_core.capture.request import CaptureRequest
from polykv_core.errors import CaptureError
from polykv_core.fixture import CAPTURED_REPLAY_FIXTURE_SCHEMA, CapturedReplayFixture, CapturedReplayQuery
from polykv_core.version import __version__

OnLayer = Callable[[int, int], None]
Rows = tuple[Float32[Array, "t d"], Float32[Array, "t d"]]


@dataclass(frozen=True, eq=False)
class Captured:
    """Fixtures by name (`L15_H2`), what the file is to say of each, and how the capture checked itself.

    `tokens` were read, of the `text_tokens` that the text has. `largest_difference` is between a captured output and
    attention recomputed from the captured rows.
    """

    fixtures: Mapping[str, CapturedReplayFixture]
    about: Mapping[str, Mapping[str, Any]]
    tokens: int
    text_tokens: int
    largest_difference: float


def keep_going(done: int, total: int) -> None:
    """Nobody wants to know."""


def capture(checkpoint: Checkpoint, text: str, request: CaptureRequest, on_layer: OnLayer = keep_going) -> Captured:
    """Capture heads of a model on a text. `on_layer` is told how many layers are done of how many.

    A head's output projection is the unembedding times its slice of the layer's output projection, as the weights are:
    the final norm is not folded in. Raises CaptureError for what cannot be captured, and never captures it wrongly.
    """
    layers, heads = _asked(checkpoint, request)
    whole = checkpoint.tokens(text)
    tokens = whole[: request.most_tokens][: checkpoint.context]
    positions = request.positions(len(tokens))
    with recording(layers) as recorder:
        logits = checkpoint.logits(tokens)
    missing = sorted(set(layers) - recorder.found.keys())
    if missing:
        raise CaptureError(
            f"layer {missing[0]} of {checkpoint.name} never came to transformers' attention interface; "
            "it has no softmax attention, or a kind that cannot be captured"
        )
    check_model(checkpoint, tokens, logits)
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
        if heads[-1] >= len(found.queries):
            raise CaptureError(f"head {heads[-1]} is asked for; layer {layer} has {len(found.queries)}, counted from 0")
        check_rows(layer, found, positions)
        slices = head_projection(found.module, *found.queries.shape[::2])
        check_projection(layer, found, recorder.projected.get(layer), slices, positions)
        rows = {kv_head: _rows(found, kv_head) for kv_head in {head // found.group for head in heads}}
        for head in heads:
            name = f"L{layer}_H{head}"
            fixture = _fixture(
                f"{checkpoint.name}:layer{layer}:head{head}",
                found,
                head,
                rows[head // found.group],
                positions,
                (unembedding @ slices[head]).numpy(),
                model_logits,
                np.searchsorted(vocabulary, labels),
                request,
            )
            largest = max(largest, check_output(name, fixture, found.scale))
            fixtures[name] = fixture
            about[name] = {"layer": layer, "head": head, "kv_head": head // found.group, "scale": found.scale, **common}
    on_layer(len(layers), len(layers))
    return Captured(fixtures, about, len(tokens), len(whole), largest)


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


def _rows(found: Recording, kv_head: int) -> Rows:
    """A KV head's keys and values as arrays that nobody can change: its heads and their queries need no copies."""
    keys, values = (np.array(rows[kv_head].float().numpy()) for rows in (found.keys, found.values))
    return frozen(keys), frozen(values)


def _fixture(
    model_id: str,
    found: Recording,
    head: int,
    rows: Rows,
    positions: Int64[Array, " q"],
    projection: Float32[Array, "v d"],
    model_logits: Float32[Array, "q v"] | None,
    labels: Int64[Array, " q"],
    request: CaptureRequest,
) -> CapturedReplayFixture:
    keys, values = rows
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
