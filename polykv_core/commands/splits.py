"""`polykv sweep FILE#HEAD --shared-tokens N,N`: one head at several splits of its rows between pool and shell."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict

import click

from polykv_core.commands.shared import Facts, fixture_at, is_shown, lines, naming, write
from polykv_core.config import CapturedReplayConfig, parse_ks
from polykv_core.options import ReplayOptions
from polykv_core.program import FAILED, PASSED, show
from polykv_core.sweep.items import SweepItem
from polykv_core.sweep.pareto import Split, shared_tokens_curve

SPLITS_SCHEMA = "polykv_shared_tokens_v1"


def splits(
    items: Sequence[SweepItem],
    asked: str,
    config: CapturedReplayConfig,
    options: ReplayOptions,
    json_path: str | None,
) -> int:
    """Replay the one head at each split, and say which splits no other one beats in quality and bytes.

    Passes if one of the splits does.
    """
    if len(items) != 1:
        raise click.UsageError(f"--shared-tokens is about one head, and {len(items)} are given; name one as FILE#HEAD")
    (item,) = items
    place = item.file if item.head is None else f"{item.file}#{item.head}"
    fixture = fixture_at(place)
    counts = None if asked.strip() == "auto" else parse_ks(asked)
    with naming(place):
        curve = shared_tokens_curve(fixture, config, options, counts)
    told: Facts = [("Fixture", place), ("Model", fixture.model_id)]
    silent = False
    if json_path is not None:
        data = json.dumps(
            {"schema_version": SPLITS_SCHEMA, "model_id": fixture.model_id, "splits": [_fields(one) for one in curve]},
            indent=2,
        ).encode()
        silent = is_shown(json_path)
        if silent:
            show(data)
        else:
            write(json_path, data)
            told.append(("JSON", json_path))
    if not silent:
        from polykv_core.sweep_tables import splits_text  # rich is slow to import, and only tables need it

        show(f"{lines(told)}\n{splits_text(curve)}")
    return PASSED if any(split.passed for split in curve) else FAILED


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
