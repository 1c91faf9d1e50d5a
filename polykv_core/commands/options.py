"""The options that commands share: the ks, the gates, what departs from the reference, and a config file under them."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, get_args

import click

from polykv_core.codecs import POOL_CODEC, SHELL_CODEC
from polykv_core.commands.shared import loaded
from polykv_core.config import DEFAULT_CANDIDATE_KS, CapturedReplayConfig, parse_ks
from polykv_core.gates import GATES, Gate
from polykv_core.metrics import STATISTICS
from polykv_core.options import ReplayOptions
from polykv_core.packs import Kind, Precision
from polykv_core.settings import load_settings

_DEFAULTS = {field.name: field.default for field in fields(CapturedReplayConfig)}

# What a compact file is, by its ending.
KINDS: dict[str, Kind] = {".safetensors": "safetensors", ".npz": "npz"}
_MOST_DIGITS = 6
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


def number_set(_ctx: click.Context, param: click.Parameter, text: str | None) -> frozenset[int] | None:
    """The whole numbers of a list of numbers and ranges, such as 0,3-5; None for all of them."""
    if text is None or text.strip() == "all":
        return None
    found: set[int] = set()
    name = (param.name or "").replace("_", "-")
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        first, last = _place(low), _place(high if dash else low)
        if first is None or last is None or last < first:
            raise click.UsageError(f"--{name} has {part.strip()!r}; expected numbers and ranges such as 0,3-5")
        found.update(range(first, last + 1))
    return frozenset(found)


def gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The ks, the statistic, and an option for each gate's threshold; what is not given comes from the config."""
    return _with_gates(command, {**_DEFAULTS, "candidate_ks": ",".join(map(str, DEFAULT_CANDIDATE_KS))})


def gate_options_of_run(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a run in the history; what is not given is as the run had it."""
    return _with_gates(command, dict.fromkeys(_DEFAULTS, "the run's"))


def _with_gates(command: Callable[..., Any], defaults: Mapping[str, object]) -> Callable[..., Any]:
    names = [gate.option for gate in GATES]
    options = [
        click.option(
            "--candidate-ks",
            metavar="K,K,...",
            callback=whole_numbers,
            help=f"Numbers of rows to read, in order of preference.  [default: {defaults['candidate_ks']}]",
        ),
        click.option("--gate-off", multiple=True, type=click.Choice(names), help="Switch a gate off."),
        *(_threshold_option(gate, defaults[gate.threshold]) for gate in GATES),
        click.option(
            "--statistic",
            type=click.Choice(STATISTICS),
            help=f"Over the queries, for the gates.  [default: {defaults['statistic']}]",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def replay_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What may differ from the reference; a receipt made with any of it says so and has another schema_version."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def precision_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Of the numbers in a compact file that is written."""
    kinds, text = click.Choice(get_args(Precision)), "Of the numbers in a compact file; only float32 keeps every bit."
    return click.option("--precision", type=kinds, default="float32", show_default=True, help=text)(command)


def gates_given(given: dict[str, Any]) -> dict[str, Any]:
    """The config's fields among what was given; they are taken out of it. A gate cannot be both off and at a number."""
    off = given.pop("gate_off")
    taken = {name: given.pop(name) for name in _DEFAULTS}
    for gate in GATES:
        if gate.option in off:
            if taken[gate.threshold] is not None:
                raise click.UsageError(
                    f"--{gate.option} and --gate-off {gate.option} contradict each other; give one of them"
                )
            taken[gate.threshold] = gate.off
    return {name: value for name, value in taken.items() if value is not None}


def options_given(given: dict[str, Any]) -> dict[str, Any]:
    """The replay options among what was given; they are taken out of it."""
    chosen = {name: given.pop(name) for name in _NAMES}
    scale = chosen["attention_scale"]
    if scale is not None:
        with suppress(ValueError):
            chosen["attention_scale"] = float(scale)
    return {name: value for name, value in chosen.items() if value is not None}


def settings_at(path: str | None, given: dict[str, Any]) -> tuple[CapturedReplayConfig, ReplayOptions]:
    """The config and options of a file, or the defaults, with what was given in their place."""
    changed, options = gates_given(given), options_given(given)
    if path is None:
        return CapturedReplayConfig(**{"candidate_ks": DEFAULT_CANDIDATE_KS, **changed}), ReplayOptions(**options)
    config, replayed = loaded(path, load_settings)
    return replace(config, **changed), replace(replayed, **options)


def _place(text: str) -> int | None:
    """A number from 0 to a million; nothing has more layers, heads or rows than that."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _threshold_option(gate: Gate, default: object) -> Callable[..., Any]:
    bound = "Lowest" if gate.side == "min" else "Highest"
    text = f"{bound} {gate.label} that passes.  [default: {default}]"
    return click.option(f"--{gate.option}", type=float, metavar="X", help=text)
