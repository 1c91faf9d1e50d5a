"""A sweep as tables for a terminal: a map of layers and heads, the worst heads, and a curve over shared_tokens."""

from collections.abc import Sequence

from rich.text import Text

from polykv_core.run_tables import outcomes_text
from polykv_core.sweep.maps import HeadMap, maps
from polykv_core.sweep.pareto import Split
from polykv_core.sweep.verdict import SweepVerdict
from polykv_core.sweep_report import outcomes
from polykv_core.tables import number, plain_table, rendered, word
from polykv_core.terminal import inert

_WORST = 10
_OPTIMAL = "* no other split has as few bytes and as good a cosine."
_LEGEND = "Smallest passing k of each head, over the candidates. - fails at every candidate, ! has no verdict."


def sweep_text(verdict: SweepVerdict) -> str:
    """The maps, and the worst heads."""
    parts = [_map_text(found) for found in maps(verdict)]
    shown = outcomes(verdict)[:_WORST]
    more = len(verdict.heads) - len(shown)
    parts.append(outcomes_text(shown) + (f"and {more} better ones\n" if more else ""))
    return "\n".join(parts)


def _map_text(found: HeadMap) -> str:
    table = plain_table()
    table.add_column("")
    for index in found.head_indices:
        table.add_column(f"H{index}", justify="right")
    for layer in found.layers:
        table.add_row(f"L{layer}", *(_cell(found, layer, index) for index in found.head_indices))
    return rendered(Text(inert(found.title), style="bold"), table, Text(_LEGEND, style="dim"))


def _cell(found: HeadMap, layer: int, index: int) -> Text:
    head = found.heads.get((layer, index))
    if head is None:
        return Text("")
    if head.receipt is None:
        return Text("!", style="bold red")
    k = head.smallest_passing_k
    return Text("-", style="red") if k is None else Text(str(k))


def splits_text(curve: Sequence[Split]) -> str:
    """A row for each split of a head's rows between pool and shell."""
    table = plain_table()
    for head in ("Shared", "Bytes per token", "Of fp16", "Verdict", "k", "Cosine", "MSE", "KL (nats)", ""):
        table.add_column(head, justify="left" if head in ("Verdict", "") else "right")
    for split in curve:
        metrics, size = split.metrics, split.footprint
        table.add_row(
            str(split.shared_tokens),
            number(split.bytes_per_token, 4),
            f"{number(100 * split.bytes_per_token / size.fp16_bytes_per_token, 3)} %",
            word(split.passed),
            str(split.receipt.selected_candidate_k),
            number(metrics.output_cosine_mean),
            number(metrics.output_mse_mean),
            number(metrics.kl_divergence_mean),
            "*" if split.optimal else "",
        )
    return rendered(table, Text(_OPTIMAL, style="dim"))
