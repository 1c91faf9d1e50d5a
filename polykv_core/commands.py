"""What the commands share: files in and out, complaints that name the file, and the options of a replay."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from polykv_core.codecs import POOL_CODEC, SHELL_CODEC
from polykv_core.config import CapturedReplayConfig, parse_ks
from polykv_core.errors import PolyKvError
from polykv_core.files import write_whole
from polykv_core.fixture import CapturedReplayFixture, load_fixture
from polykv_core.gates import GATES, Gate
from polykv_core.options import ReplayOptions
from polykv_core.program import reason
from polykv_core.terminal import complain, inert

Loaded = TypeVar("Loaded")
Facts = list[tuple[str, str]]

_DEFAULTS = {field.name: field.default for field in fields(CapturedReplayConfig)}

_NAMES = tuple(field.name for field in fields(ReplayOptions))
_OPTIONS = (
    click.option(
        "--attention-scale",
        metavar="S",
        help="What scores are multiplied by: inverse_sqrt_head_dim or a number.  [default: reference, which is 1]",
    ),
    click.option(
        "--query-coding",
        type=click.Choice(["compressed", "exact"]),
        help="Whether the pool's codec codes the query too.  [default: compressed]",
    ),
    click.option("--pool-codec", metavar="ID", help=f"exact, or such as fib_k4_n64.  [default: {POOL_CODEC.id}]"),
    click.option("--shell-codec", metavar="ID", help=f"exact, or such as turbo_12bit.  [default: {SHELL_CODEC.id}]"),
)


def whole_numbers(_ctx: click.Context, _param: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """The ks of a comma-separated list."""
    return None if text is None else parse_ks(text)


def gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each gate's threshold; what is not given comes from the config."""
    for gate in reversed(GATES):
        bound = "Lowest" if gate.side == "min" else "Highest"
        text = f"{bound} {gate.label} that passes.  [default: {_DEFAULTS[gate.threshold]}]"
        option = click.option(f"--{option_name(gate)}", type=float, metavar="X", help=text)
        command = option(command)
    names = [option_name(gate) for gate in GATES]
    return click.option("--gate-off", multiple=True, type=click.Choice(names), help="Switch a gate off.")(command)


def option_name(gate: Gate) -> str:
    """How a gate is called on the command line."""
    return gate.threshold.replace("_", "-")


receipt_option = click.option(
    "--receipt", metavar="PATH", help="Write the receipt (JSON) there; - is standard output, which then has no table."
)


def replay_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What may differ from the reference; a receipt made with any of it says so and has another schema_version."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def options_of(given: dict[str, Any]) -> ReplayOptions:
    """The replay options among what was given; they are taken out of it."""
    chosen = {name: given.pop(name) for name in _NAMES}
    scale = chosen["attention_scale"]
    if scale is not None:
        with suppress(ValueError):
            chosen["attention_scale"] = float(scale)
    return ReplayOptions(**{name: value for name, value in chosen.items() if value is not None})


def keep(option: str, written: str | None, *inputs: str | None) -> None:
    """Refuse to write over what is read."""
    for path in inputs:
        with suppress(OSError, ValueError):
            if written and path and os.path.samefile(written, path):
                raise click.UsageError(f"{option} {written} would overwrite the input {path}; give another path")


def fixture_at(path: str) -> CapturedReplayFixture:
    """The fixture at a path, its warnings told."""
    fixture = loaded(path, load_fixture)
    for warning in fixture.warnings:
        complain("warning", f"{path}: {warning}")
    return fixture


def loaded(path: str, load: Callable[[bytes], Loaded]) -> Loaded:
    """What a file holds; every complaint names the file."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as bad:
        raise click.ClickException(f"cannot read {path or repr(path)}: {reason(bad)}") from None
    with naming(path):
        return load(data)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Complaints about a file's content say which file."""
    try:
        yield
    except PolyKvError as bad:
        raise click.ClickException(f"{path}: {bad}") from None


def write(path: str, data: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        write_whole(path, data)
    except (OSError, ValueError) as bad:
        raise click.ClickException(f"cannot write {path}: {reason(bad)}") from None


def queries_told(fixture: CapturedReplayFixture) -> str:
    """How many queries, and how many rows each tier has for them."""
    shell = [query.row_count - fixture.shared_tokens for query in fixture.queries]
    low, high = min(shell), max(shell)
    rows = str(low) if low == high else f"{low} to {high} (ragged)"
    return f"{len(shell)}, each with {fixture.shared_tokens} rows in the pool and {rows} in the shell"


def lines(facts: Facts) -> str:
    """A fact a line, aligned."""
    width = max(len(name) for name, _ in facts) + 2
    return "".join(f"{name:<{width}}{inert(text)}\n" for name, text in facts)
