"""The sample fixtures that the dashboard offers. To add one: its file in sample_fixtures/ and an entry in SAMPLES."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from polykv_core import heads_in
from polykv_core.launch import FIXTURE_VARIABLE

_FOLDER = Path(__file__).resolve().parents[2] / "sample_fixtures"


@dataclass(frozen=True)
class Sample:
    """A fixture file, the title it is offered under, and a sentence on what it shows."""

    file_name: str
    title: str
    shows: str
    folder: Path = _FOLDER

    @property
    def shipped(self) -> bool:
        """Whether everybody has it under this name; not so the fixture that the dashboard was started with."""
        return self.folder is _FOLDER

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self.folder / self.file_name

    @cached_property
    def heads(self) -> tuple[str, ...]:
        """The names of the heads of a compact file."""
        return tuple(head.name for head in heads_in(self.path))


def _given() -> tuple[Sample, ...]:
    """The fixture that the dashboard was started with, if any; "./" keeps its name apart from a sample's."""
    path = Path(os.environ.get(FIXTURE_VARIABLE, ""))
    return (Sample(f"./{path.name}", path.name, "", path.parent),) if path.name else ()


# The first one is on screen at the first visit.
SAMPLES = (
    *_given(),
    Sample(
        "smollm2_l15_h2_local.json.gz",
        "SmolLM2-135M, layer 15, head 2",
        "A head of a real language model. Like the reference, the replay does not scale scores by 1/√d as the model "
        "does, so nearly all attention falls on one row: eight rows do as well as all, and a larger k does not help.",
    ),
    Sample(
        "smollm2_4x9.safetensors",
        "SmolLM2-135M, 4 layers of 9 heads",
        "36 heads of a real language model in one compact file, captured by polykv capture. The Sweep page judges all "
        "of them.",
    ),
    Sample(
        "smollm2_l0_h0_model.json.gz",
        "SmolLM2-135M, layer 0, head 0",
        "A head of a real language model, held against the logits of the whole model. One head alone does not give "
        "those: even its exact output is about 3.3 nats away, so the gates on logits fail whatever the cache does.",
    ),
    Sample(
        "synthetic_d16_basic.json",
        "Synthetic head, 16 dimensions",
        "Random rows with attention spread over many of them: a larger k brings the output nearer to the exact one.",
    ),
    Sample(
        "synthetic_d64_sink.json",
        "Synthetic head, 64 dimensions, attention sink",
        "One row, the sink, draws nearly all attention where scores are not scaled: the output hardly changes with k.",
    ),
)
