"""What the engine costs: run `python benchmarks/replay.py`.

A synthetic fixture of head_dim 64, 512 rows (384 shared), 8 queries, vocab 256, is loaded from its JSON, measured cold
(no rotation or codebook made yet) and warm (the same seeds again), explained, and judged. Every time is the median of
several runs and is also given as a ratio to a fixed NumPy workload timed in the same process, so that machines can be
compared.
"""

import json
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np

from polykv_core import CapturedReplayConfig, explain, judge, load_fixture, measure
from polykv_core.codecs import fib_quant, turbo_quant

HEAD_DIM, ROWS, SHARED, QUERIES, VOCAB = 64, 512, 384, 8, 256
CANDIDATE_KS = (8, 16, 32, 64, 128, 256)
FIXTURES_IN_A_ROW = 30
EXPLAIN_LIMIT = 2.0


def synthetic_fixture_json(seed: int = 0, query_count: int = QUERIES) -> bytes:
    """A fixture as a capture script would write it: Gaussian rows, scaled exact attention, seven digits."""
    random = np.random.default_rng(seed)
    projection = random.normal(size=(VOCAB, HEAD_DIM)) / np.sqrt(HEAD_DIM)
    queries = []
    for _ in range(query_count):
        query, keys, values = (random.normal(size=shape) for shape in (HEAD_DIM, (ROWS, HEAD_DIM), (ROWS, HEAD_DIM)))
        weights = np.exp(keys @ query / np.sqrt(HEAD_DIM))
        output = weights @ values / weights.sum()
        queries.append(
            {
                "query": _digits(query),
                "keys": [_digits(row) for row in keys],
                "values": [_digits(row) for row in values],
                "exact_attention_output": _digits(output),
                "exact_logits": _digits(projection @ output),
                "label_token": int(random.integers(VOCAB)),
            }
        )
    fixture = {
        "schema_version": "poly_kv_captured_replay_fixture_v1",
        "model_id": "synthetic-benchmark-d64",
        "head_dim": HEAD_DIM,
        "shared_tokens": SHARED,
        "seed": 1000 * seed,
        "output_projection": [_digits(row) for row in projection],
        "queries": queries,
    }
    return json.dumps(fixture).encode()


def forget_coders() -> None:
    """Make the next measurement a cold one."""
    fib_quant.cached_coder.cache_clear()
    turbo_quant.cached_coder.cache_clear()


def calibrate() -> None:
    """The fixed workload: elementwise work, a sort and a product on arrays of the replay's size."""
    table = np.linspace(0.0, 1.0, ROWS * HEAD_DIM).reshape(ROWS, HEAD_DIM)
    for _ in range(20):
        np.einsum("td,de->te", table, table[:HEAD_DIM])
        np.sort(np.exp(np.sin(table)), axis=0)


def median_ms(work: Callable[[], object], runs: int, before: Callable[[], object] = lambda: None) -> float:
    """Median time of some work in milliseconds; `before` is run before each, untimed."""
    times = []
    for _ in range(runs):
        before()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000.0 * statistics.median(times)


def peak_mib() -> float:
    """Largest resident memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def main() -> None:
    """Print the table."""
    text = synthetic_fixture_json()
    fixture = load_fixture(text)
    config = CapturedReplayConfig(candidate_ks=CANDIDATE_KS)
    measurement = measure(fixture, CANDIDATE_KS)
    calibration = median_ms(calibrate, 9)
    costs = {
        f"load {len(text) / 1e6:.1f} MB of JSON": median_ms(lambda: load_fixture(text), 9),
        "measure, cold": median_ms(lambda: measure(fixture, CANDIDATE_KS), 9, before=forget_coders),
        "measure, warm": median_ms(lambda: measure(fixture, CANDIDATE_KS), 15),
        "explain, warm": median_ms(lambda: explain(fixture, CANDIDATE_KS[2]), 15),
        "judge": median_ms(lambda: judge(measurement, config), 51),
    }
    print(f"{'calibration workload':<28}{calibration:>10.2f} ms     1.000")
    for name, cost in costs.items():
        print(f"{name:<28}{cost:>10.2f} ms {cost / calibration:>9.3f}")

    ratio = costs["explain, warm"] / costs["measure, warm"]
    verdict = "within" if ratio <= EXPLAIN_LIMIT else "BEYOND"
    print(f"an explanation costs {ratio:.2f} measurements, {verdict} the limit of {EXPLAIN_LIMIT}")

    peaks = []
    for number in range(FIXTURES_IN_A_ROW):
        measure(load_fixture(synthetic_fixture_json(number)), CANDIDATE_KS)
        peaks.append(peak_mib())
    third = FIXTURES_IN_A_ROW // 3
    grown = f"{peaks[third - 1]:.0f} MiB after {third}, {peaks[-1]:.0f} MiB at the end"
    print(f"{'peak memory':<28}{peaks[-1]:>10.0f} MiB ({FIXTURES_IN_A_ROW} fixtures in a row: {grown})")


def _digits(row: np.ndarray) -> list[float]:
    return [float(f"{entry:.7g}") for entry in row]


if __name__ == "__main__":
    main()
