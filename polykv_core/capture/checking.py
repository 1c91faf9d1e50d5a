"""What must hold before anything is captured: else the file would be wrong, and nobody would see it."""

import numpy as np
import torch

from polykv_core.arrays import Array, Float64, Int64
from polykv_core.capture.model import Checkpoint
from polykv_core.capture.projection import output_layer
from polykv_core.capture.recording import Projected, Recording
from polykv_core.errors import CaptureError
from polykv_core.fixture import CapturedReplayFixture, CapturedReplayQuery

# How far the captured output may be from softmax(scale * q.k) v over the captured rows, in float64.
TOLERANCE = 1e-5
# How far the model's logits may be from those with its own attention, of the largest of them.
_MODEL_TOLERANCE = 1e-3
# How far a layer may be from the sum of its heads, of its largest number.
_LAYER_TOLERANCE = 1e-3
_OWN_ATTENTION = "eager"


def check_model(checkpoint: Checkpoint, tokens: torch.Tensor, logits: torch.Tensor) -> None:
    """Whether the model says the same with its own attention: whatever that does besides would be missing here."""
    own = checkpoint.logits(tokens, _OWN_ATTENTION)
    difference, size = float((own - logits).abs().max()), float(own.abs().max())
    if not difference <= _MODEL_TOLERANCE * max(1.0, size):
        raise CaptureError(
            f"{checkpoint.name} gives other logits with its own attention (by {difference:.3g}); that does something "
            "beside softmax(scale * q.k) v, so its heads cannot be captured"
        )


def check_rows(layer: int, found: Recording, positions: Int64[Array, " q"]) -> None:
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


def check_projection(
    layer: int, found: Recording, projected: Projected | None, slices: torch.Tensor, positions: Int64[Array, " q"]
) -> None:
    """Whether the heads' outputs, as they are, times their slices are what the layer gives.

    A gate or a norm between attention and projection (Qwen3-Next, BitNet) would be missing in the projection, and so
    would the scales of a quantised weight.
    """
    where = f"layer {layer} ({type(found.module).__name__})"
    if projected is None:
        raise CaptureError(f"{where} never calls its output projection; what its heads are multiplied by is not known")
    outputs = found.outputs[:, positions].float()
    if not _near(outputs.transpose(0, 1).flatten(1), projected.given[positions]):
        raise CaptureError(
            f"{where} changes what its heads give (by a gate or a norm) before its output projection; a fixture's "
            "projection knows of no such step"
        )
    expected = torch.einsum("hcd,hqd->qc", slices, outputs)
    bias = getattr(output_layer(found.module, projected.given.shape[-1]), "bias", None)
    if not _near(expected if bias is None else expected + bias.detach().float(), projected.made[positions]):
        raise CaptureError(f"{where} does more in its output projection than multiply by its weight (quantised?)")


def _near(expected: torch.Tensor, found: torch.Tensor) -> bool:
    found = found.float()
    return bool((expected - found).abs().max() <= _LAYER_TOLERANCE * max(1e-6, float(found.abs().max())))


def check_output(name: str, fixture: CapturedReplayFixture, scale: float) -> float:
    """How far the captured outputs are from attention recomputed in float64. Raises CaptureError beyond TOLERANCE.

    As a share of the largest number of an output where that is above 1: float32 has no more digits.
    """
    largest = 0.0
    for index, query in enumerate(fixture.queries):
        expected = _attention(query, scale)
        difference = float(np.abs(expected - query.exact_attention_output).max())
        difference /= max(1.0, float(np.abs(expected).max()))
        if not difference <= TOLERANCE:
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
