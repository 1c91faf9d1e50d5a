"""What an explanation comes down to in sentences, and what would help: the same replay with one thing changed."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from polykv_core.codecs import ExactCodec, FibQuant, TurboQuant
from polykv_core.errors import CodecError
from polykv_core.explain import Explanation
from polykv_core.fixture import CapturedReplayFixture
from polykv_core.gates import CandidateReplayMetrics, measured_candidate
from polykv_core.measure import OnQuery, keep_going, measure
from polykv_core.options import ReplayOptions
from polykv_core.scale import FITS, SAME_SCALE

# The floor is the first thing to say where it makes up at least this share of the divergence; below, it is noise.
_FLOOR_SHARE, _FLOOR_NATS = 0.5, 0.01
# Output cosine that a step may cost without being worth a sentence.
_NOTHING = 0.01
_IN_ORDER = 0.8  # rank correlation
_FINER_CODEWORDS, _FINER_BITS = 256, 12
_FINER_POOL, _FINER_SHELL = FibQuant(codeword_count=_FINER_CODEWORDS), TurboQuant(bits=_FINER_BITS)


@dataclass(frozen=True)
class Change:
    """One thing changed in a replay: what it is called, what was replayed then, and what came out."""

    name: str
    options: ReplayOptions
    metrics: CandidateReplayMetrics


def reasons(explanation: Explanation) -> tuple[str, ...]:
    """Where the fidelity goes, in sentences; the first names what costs most."""
    said = []
    floor, last = explanation.stage("projection").metrics, explanation.stage("selected").metrics
    if floor.kl_divergence_mean > max(_FLOOR_NATS, _FLOOR_SHARE * last.kl_divergence_mean):
        said.append(_floor(floor.kl_divergence_mean, last.kl_divergence_mean))
    costs = {name: explanation.stage(name).added["output_cosine_mean"] for name in _SAID_OF}
    # What is not a number is told as well.
    worth = [name for name, cost in costs.items() if not cost <= _NOTHING]
    said += [_SAID_OF[name](explanation, costs[name]) for name in sorted(worth, key=costs.__getitem__, reverse=True)]
    said += _controls(explanation)
    return tuple(said) or (_nothing_or_all(last),)


def _nothing_or_all(last: CandidateReplayMetrics) -> str:
    """What to say where no step stands out: that is well, or the fixture itself is not."""
    lost = 1.0 - last.output_cosine_mean
    if lost <= _NOTHING and last.kl_divergence_mean <= _FLOOR_NATS:
        return "Nothing much is lost: no step costs more than 0.01 of output cosine."
    return (
        "No step costs more than 0.01 of output cosine, and yet the replay is off: output cosine "
        f"{last.output_cosine_mean:.4g}, MSE {last.output_mse_mean:.4g}, KL {last.kl_divergence_mean:.4g} nats. "
        "Look at what is odd about the fixture."
    )


def what_would_help(
    fixture: CapturedReplayFixture, explanation: Explanation, on_change: OnQuery = keep_going
) -> tuple[Change, ...]:
    """Replay a fixture at the explained k once as it was and once for each single change, which `on_change` counts.

    Changes that make no difference, or that the head's size does not allow, are left out.
    """
    changes = list(_changes(explanation))
    k, found = explanation.candidate_k, []
    for done, (name, options, rows) in enumerate(changes):
        on_change(done, len(changes))
        try:
            measured = measure(fixture, (rows or k,), options=options)
        except CodecError:
            continue
        found.append(Change(name, options, measured_candidate(measured, rows or k)))
    on_change(len(changes), len(changes))
    return tuple(found)


def _changes(explanation: Explanation) -> Iterator[tuple[str, ReplayOptions, int]]:
    """A name, the options, and the k if that is what changes (else 0)."""
    used, head_dim = explanation.options, explanation.head_dim
    yield "as replayed", used, 0
    natural, fitted = 1.0 / math.sqrt(head_dim), explanation.scale.scale
    scaled = replace(used, attention_scale="inverse_sqrt_head_dim")
    if not math.isclose(explanation.used_scale, natural, rel_tol=SAME_SCALE):
        yield f"scale 1/sqrt({head_dim})", scaled, 0
        if _codes_query(explanation, "pool"):
            yield f"scale 1/sqrt({head_dim}) and exact query", replace(scaled, query_coding="exact"), 0
    if not any(math.isclose(fitted, other, rel_tol=SAME_SCALE) for other in (explanation.used_scale, natural)):
        yield f"scale {fitted:.4g}, as fitted", replace(used, attention_scale=fitted), 0
    if _codes_query(explanation, "pool"):
        yield "exact query", replace(used, query_coding="exact"), 0
    if isinstance(used.pool_codec, FibQuant) and used.pool_codec.codeword_count < _FINER_CODEWORDS:
        yield f"pool with {_FINER_CODEWORDS} codewords", replace(used, pool_codec=_FINER_POOL), 0
    if not isinstance(used.pool_codec, ExactCodec):
        yield "exact pool", replace(used, pool_codec=ExactCodec()), 0
    if isinstance(used.shell_codec, TurboQuant) and used.shell_codec.bits < _FINER_BITS:
        yield f"shell with {_FINER_BITS} bits", replace(used, shell_codec=_FINER_SHELL), 0
    if not isinstance(used.shell_codec, ExactCodec):
        yield "exact shell", replace(used, shell_codec=ExactCodec()), 0
    most = int(explanation.queries.rows.max())
    if explanation.candidate_k < most:
        yield f"every row (k = {most})", used, most


def _floor(floor: float, last: float) -> str:
    return (
        f"The captured logits are not this head's own: even its exact output is {floor:.4g} nats from them, where the "
        f"replay is {last:.4g}. No cache mends that floor; capture as logits the projection of the exact output."
    )


def _recomputed(explanation: Explanation, cost: float) -> str:
    fit, used = explanation.scale, explanation.used_scale
    if not fit.known or fit.is_scale(used):
        return (
            f"Exact attention over these rows does not give the captured output, at any scale (nearest at "
            f"{fit.scale:.4g}, {fit.error:.2g} of its length away): rows, head or capture are not what they seem. That "
            f"costs {cost:.3g} of output cosine before anything is compressed."
        )
    named = f"{fit.named} = {fit.scale:.4g}" if fit.named and fit.named != "1" else f"a scale of {fit.scale:.4g}"
    if fit.middle_error > FITS:
        named += ", but for its length"
    error = min(fit.middle_error, float(np.median(fit.directions)))
    return (
        f"The captured output fits {named} (error {error:.1g}); the replay used {used:.4g}. That alone "
        f"costs {cost:.3g} of output cosine, and the rest is told of another attention than the model's. Replay with "
        "that scale first, or capture the query with it multiplied in."
    )


def _keys(explanation: Explanation, cost: float) -> str:
    scores = explanation.scores
    lands = f"{100 * scores.misplaced:.3g} % of the weight lands on other rows"
    if abs(scores.tier_bias) > scores.deviation:
        raised, against = ("pool", "shell") if scores.tier_bias > 0 else ("shell", "pool")
        order = _disorder(explanation, raised)
        return (
            f"Coded keys raise {raised} scores by {abs(scores.tier_bias):.3g} against {against} scores, where the "
            f"exact scores' standard deviation is {scores.deviation:.3g}{order}: {lands}. That costs {cost:.3g} of "
            f"output cosine. Try {'the exact query, or ' * _codes_query(explanation, 'pool')}a finer pool codec."
        )
    worst = max(scores.tiers, key=lambda tier: tier.spread)
    return (
        f"Coding the keys costs {cost:.3g} of output cosine: {worst.tier} scores are off by {worst.spread:.3g} "
        f"(standard deviation), where the exact scores' own is {worst.deviation:.3g}, and {lands}. "
        f"Try {'the exact query, or ' * _codes_query(explanation, worst.tier)}a finer {worst.tier} codec."
    )


def _codes_query(explanation: Explanation, tier: str) -> bool:
    """Whether the query is compressed for a tier: the pool's FibQuant does so, unless it was told not to."""
    options = explanation.options
    return tier == "pool" and options.query_coding != "exact" and isinstance(options.pool_codec, FibQuant)


def _disorder(explanation: Explanation, name: str) -> str:
    """A phrase on the order of a tier's rows, if coding loses it."""
    found = next(tier.rank_correlation for tier in explanation.scores.tiers if tier.tier == name)
    if found is None or found >= _IN_ORDER:
        return ""
    return f", and keep little of their order (rank correlation {found:.2g})"


def _selected(explanation: Explanation, cost: float) -> str:
    held = 100 * explanation.scores.mass_read
    return (
        f"Reading only k = {explanation.candidate_k} rows costs {cost:.3g} of output cosine: the rows read hold "
        f"{held:.3g} % of the exact weight. Try a larger k."
    )


_SAID_OF: dict[str, Callable[[Explanation, float], str]] = {
    "recomputed": _recomputed,
    "coded_keys": _keys,
    "coded_values": lambda _, cost: f"Coding the values costs {cost:.3g} of output cosine. Try finer codecs.",
    "selected": _selected,
}


def _controls(explanation: Explanation) -> Iterator[str]:
    """Whether ranking by compressed score is worth more than reading rows at random, or the newest."""
    chosen = explanation.stage("selection").metrics.output_cosine_mean
    if (explanation.queries.rows <= explanation.candidate_k).all():
        return  # every row is read
    for name, rows in (("random", "random rows"), ("recency", "last rows")):
        control = explanation.stage(name).metrics.output_cosine_mean
        if not chosen > control:
            yield (
                f"The rows read do not beat as many {rows}: with everything else exact, output cosine is {chosen:.4g} "
                f"with them and {control:.4g} with those."
            )
