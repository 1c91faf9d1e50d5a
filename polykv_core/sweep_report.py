"""A sweep in words and as JSON: one verdict for all heads, and what the whole cache saves at it."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from polykv_core import why, words
from polykv_core.gates import gates_off
from polykv_core.health import ACCEPTED, OTHER_SCALE, Finding
from polykv_core.receipt import CapturedReplayReceipt
from polykv_core.report import Outcome, in_two, odd, sentence
from polykv_core.sweep.cache import CacheBytes
from polykv_core.sweep.verdict import HeadVerdict, SweepVerdict
from polykv_core.terminal import inert
from polykv_core.version import __version__

SWEEP_SCHEMA = "polykv_sweep_v1"


def outcomes(verdict: SweepVerdict) -> list[Outcome]:
    """What became of each head, worst first."""
    return [Outcome(head.name, head.receipt, head.error or "") for head in verdict.ranked]


def headline(verdict: SweepVerdict, quoted: Callable[[str], str] = inert) -> str:
    """The verdict on the whole model in a sentence, with the worst gate of the worst head."""
    return sentence(outcomes(verdict), quoted, "head")


def headline_in_two(verdict: SweepVerdict) -> tuple[str, str]:
    """The two halves of that sentence: the verdict, and what it hangs on."""
    return in_two(outcomes(verdict), inert, "head")


def facts(verdict: SweepVerdict) -> list[tuple[str, str]]:
    """What else is to be said of the whole model, each with its name."""
    told = [("Heads", _heads(verdict)), ("Gates", _off(verdict)), ("Not as the reference replays", _apart(verdict))]
    told += [("Value rows read", _own_k(verdict)), ("One k for all heads", _one_k(verdict))]
    if verdict.cache is not None:
        told += [("Bytes per token", _bytes(verdict.cache)), ("Beside them", _tables(verdict.cache))]
    kept = sum(head.result.kept for head in verdict.heads)
    if kept:
        told.append(("Done before", f"{kept} of {len(verdict.heads)} heads, in an earlier sweep over the same files"))
    return [(name, text) for name, text in told if text]


def findings(verdict: SweepVerdict) -> tuple[Finding, ...]:
    """What is odd about the heads, each kind once with how many heads have it; those that most heads have come first.

    A fixture's own warnings are left to that fixture.
    """
    found: dict[str, list[str]] = {}
    for receipt in _receipts(verdict):
        # A head may have several of a kind, such as for exact and replayed numbers.
        for code, text in {finding.code: finding.text for finding in reversed(odd(receipt))}.items():
            if code != ACCEPTED:
                found.setdefault(code, []).append(text)
    total = len(verdict.heads)
    return tuple(
        Finding(code, f"{len(texts)} of {total} heads{'' if len(texts) == 1 else ', such as'}: {texts[0]}")
        for code, texts in sorted(found.items(), key=lambda entry: (entry[0] != OTHER_SCALE, -len(entry[1])))
    )


def sweep_json(verdict: SweepVerdict) -> str:
    """All of it as JSON: the verdict, the gates, and every head, worst first. What is not finite is null."""
    cache, receipts = verdict.cache, _receipts(verdict)
    whole = {
        "schema_version": SWEEP_SCHEMA,
        "polykv": __version__,
        "passed": verdict.passed,
        "sentence": headline(verdict),
        "config": verdict.config.to_dict(),
        "gates_off": gates_off(verdict.config),
        "options": receipts[0].options.to_dict() if receipts else None,
        "findings": [asdict(finding) for finding in findings(verdict)],
        "heads_passing": sum(head.passed for head in verdict.heads),
        "heads_total": len(verdict.heads),
        "worst_head": verdict.worst.name if verdict.worst else None,
        "decode_reduction": verdict.decode_reduction,
        "one_k": verdict.one_k,
        "one_k_decode_reduction": verdict.one_k_decode_reduction,
        "cache": None
        if cache is None
        else asdict(cache) | {"ratio_to_fp32": cache.ratio_to_fp32, "ratio_to_fp16": cache.ratio_to_fp16},
        "heads": [_head(head) for head in verdict.ranked],
    }
    return json.dumps(_finite(whole), indent=2, ensure_ascii=False)


def _receipts(verdict: SweepVerdict) -> list[CapturedReplayReceipt]:
    return [head.receipt for head in verdict.heads if head.receipt is not None]


def _off(verdict: SweepVerdict) -> str:
    """All heads have the same gates, so that one of them tells."""
    return next(map(why.off, _receipts(verdict)), "")


def _apart(verdict: SweepVerdict) -> str:
    return "; ".join(next((receipt.departures for receipt in _receipts(verdict)), []))


def _heads(verdict: SweepVerdict) -> str:
    total, passing = len(verdict.heads), sum(head.passed for head in verdict.heads)
    places = {(head.item.model, head.item.layer) for head in verdict.heads if head.item.layer is not None}
    layers = f" in {len(places)} {'layer' if len(places) == 1 else 'layers'}" if places else ""
    return f"{passing} of {total} pass ({words.number(100 * verdict.passing_share, 3)} %){layers}"


def _own_k(verdict: SweepVerdict) -> str:
    if verdict.decode_reduction is None:
        return ""
    fewer = words.with_unit(verdict.decode_reduction, "decode_reduction", 4)
    note = "" if verdict.passed else "; heads that pass at no k read the last one of the list"
    return f"{fewer} fewer over all heads, each at its own selected k{note}"


def _one_k(verdict: SweepVerdict) -> str:
    if verdict.one_k is None or verdict.one_k_decode_reduction is None:
        each = ": each passes at a k of its own" if verdict.passed else ""
        return f"none of the candidates lets every head pass{each}"
    fewer = words.with_unit(verdict.one_k_decode_reduction, "decode_reduction", 4)
    return f"k = {verdict.one_k} is the smallest at which every head passes, with {fewer} fewer value rows"


def _bytes(cache: CacheBytes) -> str:
    heads = f"{cache.kv_heads} KV {'head' if cache.kv_heads == 1 else 'heads'}"
    return (
        f"{words.number(cache.bytes_per_token, 5)} for keys and values of {heads} (pool "
        f"{words.number(cache.pool_bytes_per_token, 5)}, shell {words.number(cache.shell_bytes_per_token, 5)}): "
        f"{_against(cache.ratio_to_fp16, cache.fp16_bytes_per_token, 'fp16')}, "
        f"{_against(cache.ratio_to_fp32, cache.fp32_bytes_per_token, 'fp32')}"
    )


def _against(ratio: float, uncompressed: int, name: str) -> str:
    times = words.with_unit(max(ratio, 1 / ratio), "decode_reduction", 3)
    if math.isclose(ratio, 1.0):
        return f"as large as the {uncompressed} of {name}"
    return f"{times} {'smaller' if ratio >= 1 else 'larger'} than the {uncompressed} of {name}"


def _tables(cache: CacheBytes) -> str:
    return f"{cache.table_bytes} bytes of codebook and seeds, once for all tokens"


def _head(head: HeadVerdict) -> dict[str, Any]:
    gate = head.worst_gate
    item = head.item
    return {
        "name": head.name,
        "model_id": item.model_id,
        "layer": item.layer,
        "head": item.head_index,
        "kv_head": item.kv_head,
        "fixture_digest": head.result.fixture_digest,
        "error": head.error,
        "passed": None if head.receipt is None else head.passed,
        "selected_candidate_k": head.selected_k,
        "smallest_passing_k": head.smallest_passing_k,
        "worst_gate": None if gate is None else {"gate": gate.gate.threshold, "value": gate.value, "share": gate.share},
        "metrics": None if head.metrics is None else asdict(head.metrics),
        "losses": {step: dict(losses) for step, losses in head.losses.items()},
        "bytes_per_token": None if head.footprint is None else head.footprint.bytes_per_token,
    }


def _finite(value: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
