"""`polykv sweep FILE#HEAD --shared-tokens N,N`: one head at several splits of its rows between pool and shell."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import click

from polykv_core.commands.options import number_set
from polykv_core.commands.outputs import Outputs
from polykv_core.commands.shared import fixture_at, lines, naming
from polykv_core.config import CapturedReplayConfig
from polykv_core.errors import SweepError
from polykv_core.options import ReplayOptions
from polykv_core.program import FAILED, PASSED, show
from polykv_core.sweep.items import SweepItem
from polykv_core.sweep.pareto import Split, shared_tokens_curve

SPLITS_SCHEMA = "polykv_shared_tokens_v1"


def splits_asked(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """The numbers of a list; none of them for `auto`."""
    if text is None or text.strip() == "auto":
        return None if text is None else ()
    return tuple(sorted(number_set(ctx, param, text) or ()))


def splits(
    items: Sequence[SweepItem],
    asked: Sequence[int],
    config: CapturedReplayConfig,
    options: ReplayOptions,
    outputs: Outputs,
) -> int:
    """Replay the one head at each split, and say which splits no other one beats in quality and bytes.

    Passes if one of the splits does.
    """
    if len(items) != 1:
        raise click.UsageError(f"--shared-tokens is about one head, and {len(items)} are given; name one as FILE#HEAD")
    if not outputs.only_json:
        raise click.UsageError(
            "--shared-tokens is about one head, of which --json alone is written; leave the others out"
        )
    (item,) = items
    place = item.file if item.head is None else f"{item.file}#{item.head}"
    with naming(place):
        if item.fault is not None:
            raise SweepError(item.fault)
        fixture = fixture_at(place)
        curve = shared_tokens_curve(fixture, config, options, asked or None)
    told = outputs.written([], [], partial(_json, fixture.model_id, curve))
    if told is not None:
        from polykv_core.sweep_tables import splits_text  # rich is slow to import, and only tables need it

        facts = [("Fixture", place), ("Model", fixture.model_id), *told]
        show(f"{lines(facts)}\n{splits_text(curve)}")
    return PASSED if any(split.passed for split in curve) else FAILED


def _json(model_id: str, curve: Sequence[Split]) -> str:
    record = {"schema_version": SPLITS_SCHEMA, "model_id": model_id, "splits": [_fields(split) for split in curve]}
    return json.dumps(record, indent=2)


def _fields(split: Split) -> dict[str, object]:
    metrics = asdict(split.metrics)
    return {
        "shared_tokens": split.shared_tokens,
        "bytes_per_token": split.bytes_per_token,
        "fp16_bytes_per_token": split.footprint.fp16_bytes_per_token,
        "fp32_bytes_per_token": split.footprint.fp32_bytes_per_token,
        "passed": split.passed,
        "selected_candidate_k": split.receipt.selected_candidate_k,
        "pareto_optimal": split.optimal,
        "metrics": {
            name: value if not isinstance(value, float) or math.isfinite(value) else None
            for name, value in metrics.items()
        },
    }
