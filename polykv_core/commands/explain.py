"""`polykv explain` and `polykv inspect`: why a head passes or fails, and what a fixture holds."""

from typing import Any

import click

from polykv_core.advice import what_would_help
from polykv_core.arrays import U64_MASK
from polykv_core.commands.options import options_given, replay_options
from polykv_core.commands.shared import fixture_at, is_shown, keep, lines, naming, queries_told, write
from polykv_core.config import DEFAULT_CANDIDATE_KS, CapturedReplayConfig
from polykv_core.errors import CodecError
from polykv_core.explain import explain as explain_fixture
from polykv_core.explained import explanation_json
from polykv_core.health import fixture_findings, projection_floor
from polykv_core.measure import check_replayable
from polykv_core.options import ReplayOptions
from polykv_core.program import PASSED, show
from polykv_core.replay import run_captured_model_replay
from polykv_core.scale import fit_scale
from polykv_core.terminal import complain, wrapped


@click.command()
@click.argument("fixture")
@click.option(
    "--candidate-k", type=click.IntRange(1, U64_MASK), metavar="K", help="[default: the selected one of the defaults]"
)
@replay_options
@click.option("--json", "path", metavar="PATH", help="Write all of it (JSON) there; - is standard output.")
def explain(fixture: str, candidate_k: int | None, path: str | None, **options: Any) -> int:
    """Say where the fidelity of FIXTURE goes, and what would help.

    A replay at one k is taken apart: what is lost by the projection, the scale, the coding of keys and of values, and
    by reading few rows.
    """
    keep("--json", path, fixture)
    captured = fixture_at(fixture)
    changed = ReplayOptions(**options_given(options))
    with naming(fixture):
        if candidate_k is None:
            config = CapturedReplayConfig(DEFAULT_CANDIDATE_KS)
            candidate_k = run_captured_model_replay(captured, config, changed).selected_candidate_k
        explanation = explain_fixture(captured, candidate_k, changed)
        changes = what_would_help(captured, explanation)
    if path is not None:
        data = explanation_json(explanation, changes).encode("utf-8")
        if is_shown(path):
            show(data)
            return PASSED
        write(path, data)

    from polykv_core.tables import explanation_text  # rich is slow to import, and only tables need it

    facts = [("Fixture", fixture), ("Model", captured.model_id), ("Queries", queries_told(captured))]
    facts += [("JSON", path)] if path else []
    show(f"{lines(facts)}\n{explanation_text(explanation, changes)}")
    return PASSED


@click.command()
@click.argument("fixture")
def inspect(fixture: str) -> int:
    """Say what FIXTURE holds.

    And what is odd about it, before anything is compressed: no codec is to blame for that.
    """
    captured = fixture_at(fixture)
    try:
        check_replayable(captured)
    except CodecError as bad:
        complain("warning", f"cannot be replayed: {bad}")
    fit = fit_scale(captured)
    vocab, dim = captured.output_projection.shape
    facts = [
        ("Fixture", fixture),
        ("Model", captured.model_id),
        ("Schema", captured.schema_version),
        ("head_dim", str(dim)),
        ("Vocabulary", f"{vocab} rows of output_projection"),
        ("Queries", queries_told(captured)),
        ("Labels", ", ".join(str(query.label_token) for query in captured.queries)),
        ("Seed", f"{captured.seed} (query i: pool seed + i, shell seed + 10000 + i)"),
        ("Digest", captured.digest),
        (
            "Scale",
            f"{fit.scale:.6g}{f' = {fit.named}' if fit.named else ''} fits the captured output best (error "
            f"{fit.error:.2g} of its length); a replay uses 1",
        ),
    ]
    odd = [wrapped("- ", finding.text) for finding in fixture_findings(captured, fit, projection_floor(captured))]
    show("\n".join([lines(facts), *(["What is odd about it:", *odd] if odd else ["Nothing is odd about it."]), ""]))
    return PASSED
