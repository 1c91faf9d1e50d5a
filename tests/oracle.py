"""The replay's second half in plain Python: loops and math, nothing of the core but scores and decoded values."""

import math
from collections.abc import Sequence


def ranking(scores: Sequence[float]) -> list[int]:
    """Rows by score, largest first; equal scores keep the order of the rows (pool first, then lower tokens)."""
    return sorted(range(len(scores)), key=lambda row: (-scores[row], row))


def softmax(numbers: Sequence[float]) -> list[float]:
    """Probabilities of numbers."""
    largest = max(numbers)
    weights = [math.exp(number - largest) for number in numbers]
    return [weight / math.fsum(weights) for weight in weights]


def attention(scores: Sequence[float], values: Sequence[Sequence[float]], k: int) -> list[float]:
    """The softmax-weighted mean of the k best rows' values."""
    best = ranking(scores)[:k]
    weights = softmax([scores[row] for row in best])
    dims = range(len(values[0]))
    return [math.fsum(weight * values[row][d] for weight, row in zip(weights, best, strict=True)) for d in dims]


def project(output: Sequence[float], projection: Sequence[Sequence[float]]) -> list[float]:
    """Logits of an output."""
    return [math.fsum(a * b for a, b in zip(output, row, strict=True)) for row in projection]


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Cosine of the angle between two vectors; 0 where one has no length."""
    lengths = math.hypot(*a), math.hypot(*b)
    if min(lengths) <= 2.2e-16:
        return 0.0
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / (lengths[0] * lengths[1])


def mean(numbers: Sequence[float]) -> float:
    """The mean."""
    return math.fsum(numbers) / len(numbers)


def last_largest(numbers: Sequence[float]) -> int:
    """Where the largest number stands; the last of equal ones."""
    return max(range(len(numbers)), key=lambda index: (numbers[index], index))


def metrics(queries: Sequence[dict], projection: Sequence[Sequence[float]], k: int) -> dict[str, float]:
    """A receipt's metrics at a k. Each query has scores, values, output, logits (the exact ones) and label."""
    cosines, errors, divergences, exact_losses, losses, same, read, rows = ([] for _ in range(8))
    for query in queries:
        output = attention(query["scores"], query["values"], k)
        logits = project(output, projection)
        p, q = softmax(query["logits"]), softmax(logits)
        cosines.append(cosine(query["output"], output))
        errors.append(mean([(a - b) ** 2 for a, b in zip(query["output"], output, strict=True)]))
        divergences.append(math.fsum(a * math.log(a / max(b, 1e-12)) for a, b in zip(p, q, strict=True) if a > 0.0))
        exact_losses.append(-math.log(max(p[query["label"]], 1e-12)))
        losses.append(-math.log(max(q[query["label"]], 1e-12)))
        same.append(float(last_largest(logits) == last_largest(query["logits"])))
        read.append(min(k, len(query["scores"])))
        rows.append(len(query["scores"]))
    perplexities = math.exp(mean(exact_losses)), math.exp(mean(losses))
    return {
        "output_cosine_mean": mean(cosines),
        "output_mse_mean": mean(errors),
        "kl_divergence_mean": mean(divergences),
        "top1_agreement": mean(same),
        "ppl_proxy_exact": perplexities[0],
        "ppl_proxy_compressed": perplexities[1],
        "ppl_proxy_delta": perplexities[1] - perplexities[0],
        "decoded_values_total": sum(read),
        "full_decode_value_count": sum(rows),
        "decode_reduction": sum(rows) / max(sum(read), 1),
    }
