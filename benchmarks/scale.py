"""How the product grows: run `python benchmarks/scale.py`. It takes some minutes.

Rows: one head of head_dim 128 with 8 queries, from 512 to 32,768 rows, loaded from a compact file and measured in a
process of its own, so that its peak memory is its own too: at six ks, and at every k.

Heads: 1 to 288 heads of head_dim 64 with 256 rows and 8 queries, swept at all cores by `polykv sweep`, each head with
seeds of its own. The second sweep over the same heads finds none of them done, but every codebook: what it saves is the
share of the time that training them takes.

Everything is also given per row and per head, as a ratio to the smallest one: near 1 is near-linear.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from polykv_core import CapturedReplayFixture, every_k, load_fixture, measure
from polykv_core.fixture import CAPTURED_REPLAY_FIXTURE_SCHEMA, CapturedReplayQuery
from polykv_core.packs import pack_bytes

ROWS, HEADS = (512, 2048, 8192, 32_768), (1, 36, 288)
QUERIES, VOCAB = 8, 256
KS = (8, 16, 32, 64, 128, 256)
LOAD_LIMIT_S, PEAK_LIMIT_MIB = 1.0, 1536


def head(rows: int, head_dim: int, vocab: int, seed: int, model_id: str = "scale") -> CapturedReplayFixture:
    """A head whose queries share their rows, each seeing one more than the one before."""
    random = np.random.default_rng(seed)
    keys, values = (random.normal(size=(rows, head_dim)).astype(np.float32) for _ in range(2))
    projection = (random.normal(size=(vocab, head_dim)) / np.sqrt(head_dim)).astype(np.float32)
    queries = []
    for index in range(QUERIES):
        count = rows - QUERIES + 1 + index
        query = (random.normal(size=head_dim) / np.sqrt(head_dim)).astype(np.float32)
        weights = np.exp(keys[:count] @ query)
        output = (weights @ values[:count] / weights.sum()).astype(np.float32)
        logits = projection @ output
        queries.append(CapturedReplayQuery(query, keys[:count], values[:count], output, logits, int(np.argmax(logits))))
    shared, schema = rows * 3 // 4, CAPTURED_REPLAY_FIXTURE_SCHEMA
    return CapturedReplayFixture(schema, model_id, head_dim, shared, 1000 * seed, projection, tuple(queries))


def make(path: str, kind: str, count: int) -> None:
    """In a process of its own: a file of one long head, or of many heads."""
    heads = {"h": head(count, 128, VOCAB, 1)} if kind == "rows" else {}
    for index in range(count if kind == "heads" else 0):
        layer, number = divmod(index, 9)
        heads[f"L{layer}_H{number}"] = head(256, 64, 64, index, f"m:layer{layer}:head{number}")
    Path(path).write_bytes(pack_bytes(heads))


def made(path: Path, kind: str, count: int) -> None:
    """The same from here: memory of this process would count as that of those it starts."""
    subprocess.run([sys.executable, str(Path(__file__)), str(path), kind, str(count)], check=True)


def one_file(path: str, ks: str) -> None:
    """In a process of its own: load, measure, and print what it took."""
    start = time.perf_counter()
    fixture = load_fixture(path)
    loaded = time.perf_counter()
    measure(fixture, every_k(fixture) if ks == "every" else KS)
    done = time.perf_counter()
    print(loaded - start, done - loaded, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0)


def rows_table(folder: Path) -> None:
    """One head, more and more rows."""
    print(f"{'rows':>7} {'ks':>6} {'load':>8} {'measure':>9} {'per row':>10} {'ratio':>6} {'peak':>9}")
    first: dict[str, float] = {}
    for rows in ROWS:
        path = folder / f"{rows}.safetensors"
        made(path, "rows", rows)
        for ks in ("six", "every"):
            run = [sys.executable, __file__, str(path), ks]
            load, took, peak = map(float, subprocess.run(run, check=True, capture_output=True).stdout.split())
            per_row = took / rows
            ratio = per_row / first.setdefault(ks, per_row)
            print(
                f"{rows:>7} {ks:>6} {load:>6.2f} s {took:>7.2f} s {1e6 * per_row:>7.1f} us {ratio:>6.2f} "
                f"{peak:>5.0f} MiB"
            )
            if rows == ROWS[-1]:
                within = load <= LOAD_LIMIT_S and peak <= PEAK_LIMIT_MIB
                limits = f"{LOAD_LIMIT_S:g} s to load and {PEAK_LIMIT_MIB} MiB"
                print(f"        {'within' if within else 'BEYOND'} the limits of {limits}")


def swept(path: Path, folder: Path) -> tuple[float, float]:
    """Seconds that a sweep takes, and the peak memory of its largest process."""
    for done in folder.glob("*.head"):
        done.unlink()
    command = [sys.executable, "-m", "polykv_core.cli", "sweep", str(path), "--json", os.devnull]
    start = time.perf_counter()
    environment = {**os.environ, "POLYKV_SWEEPS": str(folder)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as run:
        _, status, used = os.wait4(run.pid, 0)  # with the memory of it and of the processes that it waited for
        run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode == 2:
        sys.exit("the sweep has no verdict")
    return time.perf_counter() - start, used.ru_maxrss / 1024.0


def heads_table(folder: Path) -> None:
    """More and more heads."""
    print(f"\n{'heads':>7} {'first':>8} {'second':>8} {'training':>9} {'per head':>10} {'ratio':>6} {'peak':>9}")
    smallest = 0.0
    for count in HEADS:
        path = folder / f"{count}_heads.safetensors"
        made(path, "heads", count)
        kept = folder / f"sweeps_{count}"
        kept.mkdir()
        first, peak = swept(path, kept)
        second, _ = swept(path, kept)
        per_head = first / count
        smallest = smallest or per_head
        print(
            f"{count:>7} {first:>6.2f} s {second:>6.2f} s {100 * (1 - second / first):>7.0f} % "
            f"{1e3 * per_head:>7.0f} ms {per_head / smallest:>6.2f} {peak:>5.0f} MiB"
        )


def main() -> None:
    """Print both tables."""
    with tempfile.TemporaryDirectory() as name:
        rows_table(Path(name))
        heads_table(Path(name))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        make(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    elif len(sys.argv) > 1:
        one_file(*sys.argv[1:])
    else:
        main()
