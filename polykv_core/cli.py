"""The command line: parse, call, print, exit code. 0 passed, 1 a gate failed, 2 no verdict, 130 interrupted."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from polykv_core import __version__, launch
from polykv_core.config import DEFAULT_CANDIDATE_KS, CapturedReplayConfig, load_captured_config, parse_ks
from polykv_core.errors import CodecError, PolyKvError
from polykv_core.files import write_whole
from polykv_core.fixture import CapturedReplayFixture, load_fixture
from polykv_core.gates import GATES, Gate
from polykv_core.inspection import uncompressed
from polykv_core.measure import check_replayable
from polykv_core.model_case import load_model_case
from polykv_core.program import FAILED, PASSED, Program, reason, show
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayReceipt
from polykv_core.replay import run_captured_model_replay, run_model_case
from polykv_core.terminal import complain, inert, is_standard_output

_DEFAULTS = {field.name: field.default for field in fields(CapturedReplayConfig)}

Loaded = TypeVar("Loaded")
Facts = list[tuple[str, str]]


def _whole_numbers(_ctx: click.Context, _param: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """The ks of a comma-separated list."""
    return None if text is None else parse_ks(text)


def _gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each gate's threshold; what is not given comes from the config."""
    for gate in reversed(GATES):
        bound = "Lowest" if gate.side == "min" else "Highest"
        text = f"{bound} {gate.label} that passes.  [default: {_DEFAULTS[gate.threshold]}]"
        option = click.option(f"--{_option_name(gate)}", type=float, metavar="X", help=text)
        command = option(command)
    names = [_option_name(gate) for gate in GATES]
    return click.option("--gate-off", multiple=True, type=click.Choice(names), help="Switch a gate off.")(command)


def _option_name(gate: Gate) -> str:
    return gate.threshold.replace("_", "-")


_receipt_option = click.option(
    "--receipt", metavar="PATH", help="Write the receipt (JSON) there; - is standard output, which then has no table."
)


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
    callback=_whole_numbers,
    help=f"Numbers of rows to read, in order of preference.  [default: {','.join(map(str, DEFAULT_CANDIDATE_KS))}]",
)
@_gate_options
@_receipt_option
def replay(fixture: str, config: str | None, receipt: str | None, gate_off: tuple[str, ...], **options: Any) -> int:
    """Replay FIXTURE, a captured head, and judge it at each k."""
    _keep(receipt, fixture, config)
    options |= {gate.threshold: gate.off for gate in GATES if _option_name(gate) in gate_off}
    settings = _settings(config, {name: value for name, value in options.items() if value is not None})
    captured = _load_fixture(fixture)
    with _naming(fixture):
        verdict = run_captured_model_replay(captured, settings)
    return _report(
        verdict, receipt, [("Fixture", fixture), ("Model", captured.model_id), ("Queries", _queries(captured))]
    )


@main.command("model-replay")
@click.argument("case")
@_receipt_option
def model_replay(case: str, receipt: str | None) -> int:
    """Replay CASE, a synthetic model replay.

    One file gives the rows of pool and shell, the queries and the config.
    """
    _keep(receipt, case)
    loaded = _load(case, load_model_case)
    with _naming(case):
        verdict = run_model_case(loaded)
    layer_and_head = f"layer {loaded.config.layer}, KV head {loaded.config.head}, {len(loaded.queries)} queries"
    rows = f"{len(loaded.shared)} in the pool, {len(loaded.hot)} in the shell"
    return _report(verdict, receipt, [("Case", case), ("Replayed", layer_and_head), ("Rows", rows)])


@main.command()
@click.argument("fixture")
def inspect(fixture: str) -> int:
    """Say what FIXTURE holds.

    And what is left of the head with every row read and nothing compressed: no codec is to blame for that.
    """
    captured = _load_fixture(fixture)
    try:
        check_replayable(captured)
    except CodecError as bad:
        complain("warning", f"cannot be replayed: {bad}")
    best = uncompressed(captured)
    vocab, dim = captured.output_projection.shape
    facts = [
        ("Fixture", fixture),
        ("Model", captured.model_id),
        ("Schema", captured.schema_version),
        ("head_dim", str(dim)),
        ("Vocabulary", f"{vocab} rows of output_projection"),
        ("Queries", _queries(captured)),
        ("Labels", ", ".join(str(query.label_token) for query in captured.queries)),
        ("Seed", f"{captured.seed} (query i: pool seed + i, shell seed + 10000 + i)"),
        ("Digest", captured.digest),
        ("Uncompressed", "every row read, keys and values as captured:"),
        ("", f"output cosine {best.cosine_unscaled:.6f} with scores as they are, as in a replay"),
        ("", f"output cosine {best.cosine_scaled:.6f} with scores / sqrt(head_dim)"),
        ("", f"KL divergence {best.kl:.4g} nats of the captured output's logits from exact_logits"),
    ]
    show(_lines(facts))
    return PASSED


@main.command()
@click.argument("fixture", required=False)
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="[default: the first free one from 8501 on]")
def dashboard(fixture: str | None, port: int | None) -> None:
    """Open the dashboard, with FIXTURE on its first page if one is given.

    It listens on this machine only, until Ctrl-C.
    """
    if fixture is not None:
        captured = _load_fixture(fixture)
        with _naming(fixture):
            check_replayable(captured)
    if port is not None:
        launch.check_port(port)
    launch.serve(fixture, port)


def _keep(receipt: str | None, *inputs: str | None) -> None:
    """Refuse to write the receipt over what it is about."""
    for path in inputs:
        with suppress(OSError, ValueError):
            if receipt and path and os.path.samefile(receipt, path):
                raise click.UsageError(f"--receipt {receipt} would overwrite the input {path}; give another path")


def _settings(config: str | None, options: dict[str, Any]) -> CapturedReplayConfig:
    if config is None:
        return CapturedReplayConfig(**{"candidate_ks": DEFAULT_CANDIDATE_KS, **options})
    return replace(_load(config, load_captured_config), **options)


def _load_fixture(path: str) -> CapturedReplayFixture:
    """The fixture at a path, its warnings told."""
    fixture = _load(path, load_fixture)
    for warning in fixture.warnings:
        complain("warning", f"{path}: {warning}")
    return fixture


def _load(path: str, load: Callable[[bytes], Loaded]) -> Loaded:
    """What a file holds; every complaint names the file."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as bad:
        raise click.ClickException(f"cannot read {path or repr(path)}: {reason(bad)}") from None
    with _naming(path):
        return load(data)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Complaints about a file's content say which file."""
    try:
        yield
    except PolyKvError as bad:
        raise click.ClickException(f"{path}: {bad}") from None


def _report(verdict: CapturedReplayReceipt | ModelReplayReceipt, path: str | None, facts: Facts) -> int:
    """Write the receipt, print the table unless the receipt has its place, and say how it went."""
    if path is not None:
        data = verdict.to_json().encode("utf-8")
        if path == "-" or is_standard_output(path):
            show(data)
            return _exit_code(verdict)
        try:
            write_whole(path, data)
        except (OSError, ValueError) as bad:
            raise click.ClickException(f"cannot write {path}: {reason(bad)}") from None
        facts = [*facts, ("Receipt", path)]

    from polykv_core.tables import receipt_text  # rich is slow to import, and only tables need it

    show(f"{_lines(facts)}\n{receipt_text(verdict)}")
    return _exit_code(verdict)


def _exit_code(verdict: CapturedReplayReceipt | ModelReplayReceipt) -> int:
    return PASSED if verdict.passed else FAILED


def _queries(fixture: CapturedReplayFixture) -> str:
    """How many queries, and how many rows each tier has for them."""
    shell = [query.row_count - fixture.shared_tokens for query in fixture.queries]
    low, high = min(shell), max(shell)
    rows = str(low) if low == high else f"{low} to {high} (ragged)"
    return f"{len(shell)}, each with {fixture.shared_tokens} rows in the pool and {rows} in the shell"


def _lines(facts: Facts) -> str:
    """A fact a line, aligned."""
    width = max(len(name) for name, _ in facts) + 2
    return "".join(f"{name:<{width}}{inert(text)}\n" for name, text in facts)


if __name__ == "__main__":
    main(prog_name="polykv")
