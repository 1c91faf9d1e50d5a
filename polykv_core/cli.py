"""The command line: parse, call, print, exit code. 0 passed, 1 a gate failed, 2 no verdict, 130 interrupted."""

from dataclasses import replace
from typing import Any

import click

from polykv_core import __version__, launch
from polykv_core.advice import what_would_help
from polykv_core.arrays import U64_MASK
from polykv_core.commands import (
    Facts,
    fixture_at,
    gate_options,
    keep,
    lines,
    loaded,
    naming,
    option_name,
    options_of,
    queries_told,
    receipt_option,
    replay_options,
    whole_numbers,
    write,
)
from polykv_core.config import DEFAULT_CANDIDATE_KS, CapturedReplayConfig, load_captured_config
from polykv_core.errors import CodecError
from polykv_core.explain import explain as explain_fixture
from polykv_core.explained import explanation_json
from polykv_core.gates import GATES
from polykv_core.health import fixture_findings, projection_floor
from polykv_core.measure import check_replayable
from polykv_core.metrics import STATISTICS
from polykv_core.model_case import load_model_case
from polykv_core.program import FAILED, PASSED, Program, show
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayReceipt
from polykv_core.replay import run_captured_model_replay, run_model_case
from polykv_core.scale import fit_scale
from polykv_core.terminal import complain, is_standard_output, wrapped


@click.group(cls=Program, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="polykv")
def main() -> None:
    """Replay a captured attention head through a compressed KV cache and judge what is left of it.

    Exit status: 0 passed, 1 a gate failed, 2 no verdict (bad input or usage, output not written).
    """


@main.command()
@click.argument("fixture")
@click.option("--config", metavar="CONFIG.json", help="The ks and thresholds; single options override it.")
@click.option(
    "--candidate-ks",
    metavar="K,K,...",
    callback=whole_numbers,
    help=f"Numbers of rows to read, in order of preference.  [default: {','.join(map(str, DEFAULT_CANDIDATE_KS))}]",
)
@gate_options
@click.option("--statistic", type=click.Choice(STATISTICS), help="Over the queries, for the gates.  [default: mean]")
@replay_options
@receipt_option
def replay(fixture: str, config: str | None, receipt: str | None, gate_off: tuple[str, ...], **options: Any) -> int:
    """Replay FIXTURE, a captured head, and judge it at each k."""
    keep("--receipt", receipt, fixture, config)
    changed = options_of(options)
    options |= {gate.threshold: gate.off for gate in GATES if option_name(gate) in gate_off}
    settings = _settings(config, {name: value for name, value in options.items() if value is not None})
    captured = fixture_at(fixture)
    with naming(fixture):
        verdict = run_captured_model_replay(captured, settings, changed)
    return _report(
        verdict, receipt, [("Fixture", fixture), ("Model", captured.model_id), ("Queries", queries_told(captured))]
    )


@main.command("model-replay")
@click.argument("case")
@receipt_option
def model_replay(case: str, receipt: str | None) -> int:
    """Replay CASE, a synthetic model replay.

    One file gives the rows of pool and shell, the queries and the config.
    """
    keep("--receipt", receipt, case)
    model_case = loaded(case, load_model_case)
    with naming(case):
        verdict = run_model_case(model_case)
    layer_and_head = (
        f"layer {model_case.config.layer}, KV head {model_case.config.head}, {len(model_case.queries)} queries"
    )
    rows = f"{len(model_case.shared)} in the pool, {len(model_case.hot)} in the shell"
    return _report(verdict, receipt, [("Case", case), ("Replayed", layer_and_head), ("Rows", rows)])


@main.command()
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
    changed = options_of(options)
    with naming(fixture):
        if candidate_k is None:
            config = CapturedReplayConfig(DEFAULT_CANDIDATE_KS)
            candidate_k = run_captured_model_replay(captured, config, changed).selected_candidate_k
        explanation = explain_fixture(captured, candidate_k, changed)
        changes = what_would_help(captured, explanation)
    if path is not None:
        data = explanation_json(explanation, changes).encode("utf-8")
        if path == "-" or is_standard_output(path):
            show(data)
            return PASSED
        write(path, data)

    from polykv_core.tables import explanation_text  # rich is slow to import, and only tables need it

    facts = [("Fixture", fixture), ("Model", captured.model_id), ("Queries", queries_told(captured))]
    facts += [("JSON", path)] if path else []
    show(f"{lines(facts)}\n{explanation_text(explanation, changes)}")
    return PASSED


@main.command()
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


@main.command()
@click.argument("fixture", required=False)
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="[default: the first free one from 8501 on]")
def dashboard(fixture: str | None, port: int | None) -> None:
    """Open the dashboard, with FIXTURE on its first page if one is given.

    It listens on this machine only, until Ctrl-C.
    """
    if fixture is not None:
        captured = fixture_at(fixture)
        with naming(fixture):
            check_replayable(captured)
    if port is not None:
        launch.check_port(port)
    launch.serve(fixture, port)


def _settings(config: str | None, options: dict[str, Any]) -> CapturedReplayConfig:
    if config is None:
        return CapturedReplayConfig(**{"candidate_ks": DEFAULT_CANDIDATE_KS, **options})
    return replace(loaded(config, load_captured_config), **options)


def _report(verdict: CapturedReplayReceipt | ModelReplayReceipt, path: str | None, facts: Facts) -> int:
    """Write the receipt, print the table unless the receipt has its place, and say how it went."""
    if path is not None:
        data = verdict.to_json().encode("utf-8")
        if path == "-" or is_standard_output(path):
            show(data)
            return _exit_code(verdict)
        write(path, data)
        facts = [*facts, ("Receipt", path)]

    from polykv_core.tables import receipt_text  # rich is slow to import, and only tables need it

    show(f"{lines(facts)}\n{receipt_text(verdict)}")
    return _exit_code(verdict)


def _exit_code(verdict: CapturedReplayReceipt | ModelReplayReceipt) -> int:
    return PASSED if verdict.passed else FAILED


if __name__ == "__main__":
    main(prog_name="polykv")
