"""A layer's output projection: found by its usual names, and split into what each head's output is multiplied by."""

import torch

from polykv_core.errors import CaptureError

_NAMES = ("o_proj", "out_proj", "c_proj", "dense", "wo")


def output_layer(module: torch.nn.Module, width: int) -> torch.nn.Module:
    """The child of an attention module that takes all its heads' outputs, `width` numbers, back to the hidden size.

    Raises CaptureError where there is none that is known.
    """
    for name in _NAMES:
        layer = getattr(module, name, None)
        weight = getattr(layer, "weight", None)
        if weight is not None and weight.ndim == 2 and _matrix(layer).shape[1] == width:
            return layer
    raise CaptureError(
        f"{type(module).__name__} has no output projection that is known here (looked for {', '.join(_NAMES)})"
    )


def head_projection(module: torch.nn.Module, heads: int, head_dim: int) -> torch.Tensor:
    """A layer's output projection [head, hidden, d]: what each head's output is multiplied by.

    Its bias, if it has one, belongs to no head. Raises CaptureError where there is none that is known.
    """
    matrix = _matrix(output_layer(module, heads * head_dim))
    return matrix.reshape(len(matrix), heads, head_dim).permute(1, 0, 2)


def _matrix(layer: torch.nn.Module) -> torch.Tensor:
    # A linear layer holds [hidden, in], GPT-2's Conv1D [in, hidden].
    weight = layer.weight.detach().float()
    return weight if isinstance(layer, torch.nn.Linear) else weight.T
