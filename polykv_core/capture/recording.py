"""What a layer's attention sees and gives: queries, keys and values after rotary embedding, the scaling, the mask.

Source: transformers' attention interface. A function registered there takes the place of a model's own attention, in
every model that uses the interface.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from polykv_core.capture.projection import output_layer
from polykv_core.errors import CaptureError

IMPLEMENTATION = "polykv_capture"
# What else is handed to attention and makes no difference to what it computes here.
_HARMLESS = frozenset({
    "dropout", "position_ids", "cache_position", "use_cache", "output_attentions", "output_hidden_states",
    "return_dict", "is_causal", "position_embeddings", "past_key_values", "token_type_ids", "sliding_window",
    "logits_to_keep",
})  # fmt: skip
_KNOWN_FAULTS = {
    "softcap": "caps its scores (soft-cap)",
    "s_aux": "has attention sinks of its own",
    "sinks": "has attention sinks of its own",
    "position_bias": "adds a bias to its scores",
    "head_mask": "masks whole heads",
}


@dataclass(frozen=True, eq=False)
class Recording:
    """One layer, one sequence: queries [head, t, d], keys and values [kv_head, t, d], outputs [head, t, d].

    `visible` [t, t] says which rows each position attends to.
    """

    module: torch.nn.Module
    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    outputs: torch.Tensor
    scale: float
    visible: torch.Tensor
    window: int | None

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return len(self.queries) // len(self.keys)


@dataclass(frozen=True, eq=False)
class Projected:
    """What a layer's output projection was given [t, heads * d], and what it made of it [t, hidden]."""

    given: torch.Tensor
    made: torch.Tensor


class Recorder:
    """The recordings of the layers that are asked for, in the order in which the model runs them.

    `projected` is what their output projections did then, so that it can be held against the heads.
    """

    def __init__(self, layers: Collection[int] | None) -> None:
        """Of these layers, or of all."""
        self._layers = layers
        self.found: dict[int, Recording] = {}
        self.projected: dict[int, Projected] = {}
        self._hooks: list[Any] = []

    def take(self, layer: int, recording: Callable[[], Recording]) -> None:
        """Keep a layer that is asked for. Raises CaptureError for one that runs twice in a pass."""
        if self._layers is not None and layer not in self._layers:
            return
        if layer in self.found:
            raise CaptureError(f"layer {layer} attends more than once (cross attention?), which cannot be captured")
        found = self.found[layer] = recording()
        heads, _, head_dim = found.outputs.shape

        def note(_module: Any, inputs: Any, output: Any) -> None:
            self.projected[layer] = Projected(inputs[0][0], output[0])

        self._hooks.append(output_layer(found.module, heads * head_dim).register_forward_hook(note))

    def let_go(self) -> None:
        """Leave the model as it was."""
        for hook in self._hooks:
            hook.remove()


_ACTIVE: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recording(layers: Collection[int] | None) -> Iterator[Recorder]:
    """Record what a model with IMPLEMENTATION does inside of this."""
    recorder = Recorder(layers)
    token = _ACTIVE.set(recorder)
    try:
        yield recorder
    finally:
        _ACTIVE.reset(token)
        recorder.let_go()


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Softmax attention [b, head, t, d] in float32, recorded if somebody records."""
    layer = getattr(module, "layer_idx", None)
    where = f"layer {layer} ({type(module).__name__})"
    _check(where, query, key, value, others)
    scale = float(query.shape[-1] ** -0.5 if scaling is None else scaling)
    group = query.shape[1] // key.shape[1]
    keys, values = (tensor.repeat_interleave(group, dim=1) for tensor in (key, value))
    scores = (query @ keys.transpose(2, 3)).float() * scale
    if attention_mask is None:
        raise CaptureError(
            f"{where} attends without a mask, to tokens that come later; only causal attention is captured"
        )
    mask = attention_mask[:, :, :, : key.shape[2]]
    scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    output = (torch.softmax(scores, dim=-1) @ values.float()).to(value.dtype)
    recorder = _ACTIVE.get()
    if recorder is not None and layer is not None:
        recorder.take(
            layer,
            lambda: Recording(
                module,
                query[0],
                key[0],
                value[0],
                output[0],
                scale,
                _visible(where, mask),
                others.get("sliding_window"),
            ),
        )
    return output.transpose(1, 2).contiguous(), None


def _check(where: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, others: dict[str, Any]) -> None:
    """Raise CaptureError for attention that is more than softmax(scale * q.k) v, and would be captured wrongly."""
    for name, given in others.items():
        if name in _HARMLESS or given is None or given is False:
            continue
        told = _KNOWN_FAULTS.get(name, f"is given {name!r}, which is not known here")
        raise CaptureError(f"{where} {told}; such attention cannot be captured")
    if key.shape[2] != query.shape[2]:
        raise CaptureError(
            f"{where} has {query.shape[2]} queries and {key.shape[2]} keys (cross attention?), which cannot be captured"
        )
    if not key.shape[-1] == value.shape[-1] == query.shape[-1]:
        raise CaptureError(
            f"{where} has keys of size {key.shape[-1]} and values of size {value.shape[-1]}; a fixture has one head_dim"
        )


def _visible(where: str, mask: torch.Tensor) -> torch.Tensor:
    """Which rows a mask lets each position see. Raises CaptureError for one that does more than hide rows."""
    one = mask[0, 0]
    if one.dtype == torch.bool:
        return one
    hidden = one <= torch.finfo(one.dtype).min / 2
    if not bool(((one == 0) | hidden).all()):
        raise CaptureError(f"{where} adds a bias to its scores; such attention cannot be captured")
    return ~hidden


AttentionInterface.register(IMPLEMENTATION, _attention)
AttentionMaskInterface.register(IMPLEMENTATION, eager_mask)
