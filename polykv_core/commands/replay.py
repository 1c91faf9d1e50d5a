"""`polykv replay` and `polykv model-replay`: replay, judge, write, and say how it went."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from polykv_core.commands.baseline import Baseline, baseline_given
from polykv_core.commands.options import gate_options, replay_options, settings_at
from polykv_core.commands.outputs import Outputs, output_options
from polykv_core.commands.shared import Facts, fixture_at, is_shown, keep, lines, loaded, naming, queries_told, write
from polykv_core.commands.stores import keep_option, name_of
from polykv_core.compare import ACROSS
from polykv_core.config import CapturedReplayConfig
from polykv_core.errors import PolyKvError, StoreError
from polykv_core.explain import explain
from polykv_core.exports import command_line, receipt_stem
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.history import Store, default_path, exists, open_store
from polykv_core.kept import packed
from polykv_core.measure import every_k, measure
from polykv_core.measurement import CapturedMeasurement
from polykv_core.model_case import load_model_case
from polykv_core.options import ReplayOptions
from polykv_core.program import FAILED, NO_VERDICT, PASSED, show
from polykv_core.receipt import CapturedReplayReceipt, ModelReplayReceipt
from polykv_core.replay import judge, run_model_case
from polykv_core.report import Outcome, ReportPart, sentence
from polykv_core.terminal import complain


@dataclass(frozen=True)
class Asked:
    """What a replay is asked, the same for every fixture of a call."""

    config: CapturedReplayConfig
    options: ReplayOptions
    every_k: bool
    explained: bool
    written: bool
    baseline: Baseline | None


@dataclass(frozen=True)
class Replayed:
    """One fixture's replay: what is told of it, and what was measured."""

    outcome: Outcome
    facts: Facts = field(default_factory=list)
    curve: CapturedMeasurement | None = None
    part: ReportPart | None = None


@click.command()
@click.argument("fixtures", nargs=-1, required=True, metavar="FIXTURE...")
@click.option("--config", metavar="CONFIG.json", help="The ks, thresholds and options; single options override it.")
@gate_options
@replay_options
@click.option("--baseline", metavar="RUN", help="What --worse-by is relative to: a run's number, pinned, or a receipt.")
@click.option(
    "--worse-by",
    multiple=True,
    metavar="GATE=PERCENT",
    help="A gate relative to the baseline, such as max-kl-divergence=10.",
)
@click.option("--across", multiple=True, type=click.Choice(ACROSS), help="What may differ from the baseline.")
@output_options
@keep_option
def replay(fixtures: tuple[str, ...], config: str | None, **given: Any) -> int:
    """Replay each FIXTURE, a captured head, and judge it at each k.

    Several fixtures have one verdict: it passes if each passes, and the worst gate of the worst one is named.
    """
    kept, store, tags, note = (given.pop(name) for name in ("keep", "store", "tags", "note"))
    outputs = Outputs(given, [*fixtures, config, given["baseline"], store or str(default_path())], len(fixtures))
    baseline = baseline_given(given, store)
    settings, options = settings_at(config, given)
    asked = Asked(
        settings,
        options,
        every_k=outputs.wants_report or kept,
        explained=outputs.wants_report,
        written=outputs.hold_receipts or kept,
        baseline=baseline,
    )
    if kept and exists(store):
        open_store(store).close()  # one that cannot be used is told before all the work
    replays = [_replayed(path, asked) for path in fixtures]
    outcomes = [one.outcome for one in replays]
    told = outputs.written(outcomes, [one.part for one in replays if one.part is not None])
    if kept:
        with open_store(store) as history:
            numbers = _all_kept(history, replays, tags, note)
        if told is not None and numbers:
            told.append(("Kept", f"as run {', '.join(map(str, numbers))} in {history.path}"))
    for one in replays:
        if one.outcome.receipt is None:
            complain("error", one.outcome.error)
    if told is not None and any(outcome.receipt for outcome in outcomes):
        _print(replays, told)
    return exit_code(outcomes)


@click.command("model-replay")
@click.argument("case")
@click.option(
    "--receipt", metavar="PATH", help="Write the receipt (JSON) there; - is standard output, which then has no table."
)
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
    facts = [("Case", case), ("Replayed", layer_and_head), ("Rows", rows)]
    return report_one(verdict, receipt, facts)


def report_one(verdict: CapturedReplayReceipt | ModelReplayReceipt, path: str | None, facts: Facts) -> int:
    """Write the receipt, print the table unless the receipt has its place, and say how it went."""
    if path is not None:
        data = verdict.to_json().encode("utf-8")
        if is_shown(path):
            show(data)
            return PASSED if verdict.passed else FAILED
        write(path, data)
        facts = [*facts, ("Receipt", path)]

    from polykv_core.tables import receipt_text  # rich is slow to import, and only tables need it

    show(f"{lines(facts)}\n{receipt_text(verdict)}")
    return PASSED if verdict.passed else FAILED


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 if every fixture passes, 1 if one fails, 2 if one has no verdict."""
    if any(outcome.receipt is None for outcome in outcomes):
        return NO_VERDICT
    return PASSED if all(outcome.receipt is not None and outcome.receipt.passed for outcome in outcomes) else FAILED


def _replayed(path: str, asked: Asked) -> Replayed:
    """One fixture's replay; what stands in its way is told in its outcome, and does not stop the others."""
    try:
        fixture = fixture_at(path)
        with naming(path):
            return _judged(path, fixture, asked)
    except click.ClickException as bad:
        if isinstance(bad, click.UsageError):
            raise
        return Replayed(Outcome(path, None, bad.format_message()))
    except PolyKvError as bad:
        return Replayed(Outcome(path, None, str(bad)))


def _judged(path: str, fixture: CapturedReplayFixture, asked: Asked) -> Replayed:
    ks = every_k(fixture) if asked.every_k else asked.config.candidate_ks
    curve = measure(fixture, ks, options=asked.options)
    config = asked.baseline.applied(asked.config, curve) if asked.baseline else asked.config
    receipt = judge(curve, config)
    if asked.written:
        receipt.to_json()  # what cannot be written is told of this fixture, and not later of all
    part = None
    if asked.explained:
        explanation = explain(fixture, receipt.selected_candidate_k, asked.options)
        command = command_line(name_of(path), config, f"{receipt_stem(receipt)}.json", asked.options)
        part = ReportPart(name_of(path), receipt, curve, explanation, command)
    facts = [("Fixture", path), ("Model", fixture.model_id), ("Queries", queries_told(fixture))]
    relative = asked.baseline.told if asked.baseline else ""
    facts += [("Relative", relative)] if relative else []
    return Replayed(Outcome(path, receipt, relative=relative), facts, curve, part)


def _all_kept(history: Store, replays: Sequence[Replayed], tags: Sequence[str], note: str | None) -> list[int]:
    """The numbers of the runs, kept one after the other; one that cannot be kept says which were before it."""
    numbers: list[int] = []
    for one in replays:
        if one.curve is not None:
            try:
                numbers.append(_kept(history, one, tags, note))
            except StoreError as bad:
                before = f"; kept before that: run {', '.join(map(str, numbers))}" if numbers else ""
                raise click.ClickException(f"{one.outcome.name}: {bad}{before}") from None
    return numbers


def _kept(history: Store, one: Replayed, tags: Sequence[str], note: str | None) -> int:
    receipt, curve = one.outcome.receipt, one.curve
    if receipt is None or curve is None:
        raise ValueError("there is nothing to keep")
    data = packed(curve, receipt.config.candidate_ks)
    return history.save(receipt.to_json(), data, file_name=name_of(one.outcome.name), tags=tags, note=note or "")


def _print(replays: Sequence[Replayed], told: Facts) -> None:
    from polykv_core.run_tables import outcomes_text  # rich is slow to import, and only tables need it
    from polykv_core.tables import receipt_text

    outcomes = [one.outcome for one in replays]
    if len(replays) == 1 and outcomes[0].receipt is not None:
        show(f"{lines([*replays[0].facts, *told])}\n{receipt_text(outcomes[0].receipt)}")
        return
    show(f"{outcomes_text(outcomes)}\n{sentence(outcomes)}\n" + (f"\n{lines(told)}" if told else ""))
