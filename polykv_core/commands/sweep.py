"""`polykv sweep`: every head of some files, one verdict for the model."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import click

from polykv_core.commands.options import gate_options, number_set, replay_options, settings_at
from polykv_core.commands.outputs import Outputs
from polykv_core.commands.replay import exit_code
from polykv_core.commands.shared import file_and_head, lines
from polykv_core.commands.splits import splits, splits_asked
from polykv_core.program import show
from polykv_core.sweep.executors import cluster, local
from polykv_core.sweep.items import SweepItem, absolute, sweep_items
from polykv_core.sweep.ledger import Ledger
from polykv_core.sweep.result import HeadResult
from polykv_core.sweep.run import run
from polykv_core.sweep.verdict import SweepVerdict, verdict
from polykv_core.sweep.work import SweepRequest
from polykv_core.sweep_report import facts, findings, headline, outcomes, sweep_json
from polykv_core.terminal import complain, wrapped


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--layers", metavar="L,L-L", callback=number_set, help="Only these layers: 0,10-15.  [default: all]")
@click.option("--heads", metavar="H,H-H", callback=number_set, help="Only these heads of each layer.  [default: all]")
@click.option("--config", metavar="CONFIG.json", help="The ks, thresholds and options; single options override it.")
@gate_options
@replay_options
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes here.  [default: one for each core]")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask cluster instead, such as tcp://host:8786.")
@click.option("--again", is_flag=True, help="Replay heads anew that an earlier sweep has done.")
@click.option(
    "--shared-tokens",
    metavar="N,N|auto",
    callback=splits_asked,
    help="For one head: quality and bytes at other splits.",
)
@click.option("--json", metavar="PATH", help="Write the verdict and each head there; - is standard output.")
@click.option("--junit", metavar="PATH", help="Write a JUnit report there: a test case for each gate of each k.")
@click.option("--markdown", metavar="PATH", help="Write a summary there, fit for a pull request.")
@click.option("--csv", metavar="PATH", help="Write every candidate of every head as a table there.")
@click.option("--receipts", metavar="DIR", help="Write each head's receipt into this folder.")
def sweep(files: tuple[str, ...], config: str | None, **given: Any) -> int:
    """Replay every head of each FILE, and judge the model that they are of: it passes if each head passes.

    What is done is kept: a sweep that was stopped goes on where it was.
    """
    workers, scheduler, again = (given.pop(name) for name in ("workers", "scheduler", "again"))
    layers, heads, shared = (given.pop(name) for name in ("layers", "heads", "shared_tokens"))
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers is for processes here, and --scheduler for a cluster; give one of them")
    outputs = Outputs(given, [*files, config], len(files))
    settings, options = settings_at(config, given)
    items = _items(files, layers, heads)
    if shared is not None:
        return splits(items, shared, settings, options, outputs)
    start = partial(local, workers) if scheduler is None else partial(cluster, scheduler)
    unkept = partial(complain, "warning")
    request = SweepRequest(settings.candidate_ks, options)
    with closing(run(items, request, start=start, ledger=Ledger(anew=again), on_unkept=unkept)) as found:
        results = _in_order(items, _told(found, len(items)))
    return _reported(verdict(results, settings), outputs)


def _items(files: Sequence[str], layers: frozenset[int] | None, heads: frozenset[int] | None) -> list[SweepItem]:
    """The heads of files; of FILE#HEAD the one that it names."""
    named = [file_and_head(file) for file in files]
    chosen: dict[str, set[str]] = {}
    for file, head in named:
        if head is not None:
            chosen.setdefault(absolute(file), set()).add(head)
    whole = {absolute(file) for file, head in named if head is None}
    items = sweep_items([file for file, _ in named], layers, heads)
    for file, asked in chosen.items():
        missing = asked - {item.head for item in items if item.file == file}
        if missing and not any(item.fault for item in items if item.file == file):
            raise click.UsageError(f"{file} has no head {min(missing)} among those that are asked for")
    return [item for item in items if item.file in whole or item.fault or item.head in chosen.get(item.file, ())]


def _told(found: Iterable[HeadResult], total: int) -> Sequence[HeadResult]:
    """All results, with a line on a terminal that says how far it is."""
    results: list[HeadResult] = []
    watched = sys.stderr is not None and sys.stderr.isatty()
    try:
        for result in found:
            results.append(result)
            if watched:
                sys.stderr.write(f"\r{len(results)} of {total} heads done")
                sys.stderr.flush()
    except KeyboardInterrupt:
        _clear_line(watched)
        complain("stopped", f"{len(results)} of {total} heads are done; without --again a sweep goes on from there")
        raise
    finally:
        _clear_line(watched)
    return results


def _clear_line(watched: bool) -> None:
    """What is told next begins at the start of a line."""
    if watched:
        sys.stderr.write("\r\033[K")


def _in_order(items: Sequence[SweepItem], results: Sequence[HeadResult]) -> list[HeadResult]:
    by_item = {result.item: result for result in results}
    return [by_item[item] for item in items if item in by_item]


def _reported(judged: SweepVerdict, outputs: Outputs) -> int:
    """Write what was asked for, say how it went, and give the exit code."""
    told = outputs.written(outcomes(judged), [], partial(sweep_json, judged))
    for head in judged.errors:
        complain("error", head.error or head.name)
    if told is not None:
        from polykv_core.sweep_tables import sweep_text  # rich is slow to import, and only tables need it

        odd = [wrapped("- ", finding.text) for finding in findings(judged)]
        believed = "\n".join(["Before you believe it:", *odd, "", ""]) if odd else ""
        show(f"{sweep_text(judged)}\n{headline(judged)}\n\n{believed}{lines([*facts(judged), *told])}")
    return exit_code(outcomes(judged))
