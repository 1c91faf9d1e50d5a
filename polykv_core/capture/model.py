"""A checkpoint on this machine: loaded without network and pickles, run over a text, and its projections."""

import logging
import os
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from polykv_core.capture.recording import IMPLEMENTATION
from polykv_core.errors import CaptureError

_PICKLES = ("*.bin", "*.pt", "*.pth")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A causal language model in float32 and its tokenizer; `name` is what its heads are called after."""

    name: str
    model: Any
    tokenizer: Any

    @property
    def layer_count(self) -> int:
        """Layers of the model."""
        return self._count("num_hidden_layers", "layers")

    @property
    def head_count(self) -> int:
        """Query heads of a layer."""
        return self._count("num_attention_heads", "attention heads")

    @property
    def context(self) -> int | None:
        """How many tokens the model is made for, if it says so."""
        length = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return length if isinstance(length, int) and length > 0 else None

    def _count(self, field: str, what: str) -> int:
        count = getattr(self.model.config.get_text_config(), field, None)
        if not isinstance(count, int):
            raise CaptureError(f"{self.name} says of no {what}; only models with softmax attention can be captured")
        return count

    def tokens(self, text: str) -> torch.Tensor:
        """The token ids of a text [t]."""
        with _quiet():
            return self.tokenizer(text, return_tensors="pt").input_ids[0]

    def logits(self, tokens: torch.Tensor, implementation: str = IMPLEMENTATION) -> torch.Tensor:
        """The model's logits at every token [t, v], with an attention implementation of transformers."""
        with _quiet(), torch.no_grad(), _told(f"{self.name} cannot be run"):
            self.model.set_attn_implementation(implementation)
            return self.model(tokens[None], use_cache=False).logits[0].float()

    def unembedding(self) -> torch.Tensor:
        """The rows that turn a hidden state into logits [v, hidden]."""
        head = self.model.get_output_embeddings()
        if head is None:
            raise CaptureError(f"{self.name} has no unembedding; only models that predict tokens can be captured")
        return head.weight.detach().float()


def load_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """A folder of safetensors with its tokenizer, or a .gguf file. Raises CaptureError with what is wrong."""
    place = Path(path)
    if place.is_dir():
        folder, extra = place, {}
        if not any(place.glob("*.safetensors")):
            pickled = next((found.name for kind in _PICKLES for found in sorted(place.glob(kind))), None)
            why = f"it has {pickled}, a pickle, which is never opened" if pickled else "there are no weights in it"
            raise CaptureError(f"{place} has no .safetensors file: {why}. Save the model with safe serialization")
    elif place.is_file() and place.suffix == ".gguf":
        folder, extra = place.parent, {"gguf_file": place.name}
    else:
        raise CaptureError(f"{place} is no folder and no .gguf file; give a checkpoint on this machine")
    local = {"local_files_only": True, "trust_remote_code": False, **extra}
    with _quiet(), _told(f"{place} cannot be loaded"):
        _check_kind(place, AutoConfig.from_pretrained(folder, **local))
        tokenizer = AutoTokenizer.from_pretrained(folder, **local)
        model, told = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=not extra,
            attn_implementation=IMPLEMENTATION,
            output_loading_info=True,
            **local,
        )
        _check_complete(place, told["missing_keys"])
    model.eval()
    name = place.stem if extra else place.resolve().name
    return Checkpoint(name, model, tokenizer)


def _check_kind(place: Path, config: Any) -> None:
    if getattr(config, "is_encoder_decoder", False):
        raise CaptureError(f"{place} is an encoder-decoder model; only causal language models can be captured")


def _check_complete(place: Path, missing: Collection[str]) -> None:
    """What is not in the file is drawn at random by transformers, which says so only in a warning."""
    if missing:
        raise CaptureError(
            f"{place} lacks {len(missing)} of the model's weights, such as {min(missing)}; get the whole checkpoint"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no hints of the library: what matters is told as an error."""
    log = transformers.utils.logging
    before, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    other = logging.getLogger("accelerate")
    level = other.level
    other.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        other.setLevel(level)
        log.set_verbosity(before)
        if bars:
            log.enable_progress_bar()


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Whatever transformers raises, in one line."""
    try:
        yield
    except CaptureError:
        raise
    except Exception as bad:  # noqa: BLE001 - it may be anything
        if IMPLEMENTATION in str(bad):
            raise CaptureError(f"{what}: its attention does not go through transformers' attention interface") from None
        raise CaptureError(f"{what}: {_line(bad)}") from None


def _line(bad: Exception) -> str:
    text = " ".join(str(bad).split())
    return f"{type(bad).__name__}: {text[:300]}" if text else type(bad).__name__
