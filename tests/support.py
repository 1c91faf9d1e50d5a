"""What the tests share: golden files, small fixtures made on the spot, the agreement asked for with the reference."""

import copy
import gzip
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import config as jaxtyping_config

import polykv_core
from polykv_core.fixture import FixtureFacts

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
SAMPLES = ROOT / "sample_fixtures"
# Cases that lie beside a checkout are tried as well, where there are any; some of them may not be copied in here.
BESIDE = ROOT.parent / "shared"

# |ours - reference| <= tolerance * max(1, |reference|); what is not listed is equal.
TOLERANCES = {
    "output_cosine_mean": 1e-6,
    "output_mse_mean": 1e-6,
    "kl_divergence_mean": 5e-6,
    "ppl_proxy_exact": 5e-6,
    "ppl_proxy_compressed": 5e-6,
    "ppl_proxy_delta": 5e-6,
}
_NUMBER = re.compile(r"-?\d+\.\d+")


def stored(path: Path) -> Path:
    """The file of this name, or its gzipped form."""
    return path if path.exists() else path.with_name(path.name + ".gz")


def read_golden(path: Path) -> Any:
    """The JSON in a file or in its gzipped form."""
    data = stored(path).read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


@dataclass(frozen=True)
class Case:
    """A case of the reference: where its input and what the crate says about it stand."""

    name: str
    input: Path
    folder: Path

    @property
    def config(self) -> dict[str, Any]:
        """The config the crate was given."""
        return read_golden(self.folder / "config.json")

    @property
    def receipt(self) -> dict[str, Any]:
        """The crate's receipt."""
        return read_golden(self.folder / "receipt.json")

    @property
    def error(self) -> dict[str, Any] | None:
        """The crate's error, where it refuses the case."""
        path = self.folder / "error.json"
        return read_golden(path) if path.exists() else None


def captured_cases() -> list[Case]:
    """Every captured case: golden, real heads of the sample fixtures, and what lies beside the checkout."""
    folders = sorted((GOLDEN / "captured").iterdir())
    cases = [Case(folder.name, stored(folder / "fixture.json"), folder) for folder in folders]
    samples = {"L15_H2_local": "smollm2_l15_h2_local.json.gz", "L0_H0_model": "smollm2_l0_h0_model.json.gz"}
    cases += [Case(f"sample-{name}", SAMPLES / file, GOLDEN / "real" / name) for name, file in samples.items()]
    for group in ("reference/captured", "published", "real"):
        beside = sorted((BESIDE / group).glob("*/config.json"))
        cases += [
            Case(f"beside-{path.parent.name}", stored(path.parent / "fixture.json"), path.parent) for path in beside
        ]
    return cases


def model_cases() -> list[Case]:
    """Every model-replay case, refused ones included."""
    folders = [*sorted((GOLDEN / "model").iterdir()), *sorted((BESIDE / "reference" / "model").glob("*"))]
    return [
        Case(folder.name if GOLDEN in folder.parents else f"beside-{folder.name}", stored(folder / "case.json"), folder)
        for folder in folders
    ]


def without_k_zero(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """A captured case's config and receipt, less the k = 0 that is refused here."""
    config, receipt = case.config, case.receipt
    config["candidate_ks"] = [k for k in config["candidate_ks"] if k]
    receipt["config"]["candidate_ks"] = config["candidate_ks"]
    receipt["candidate_results"] = [c for c in receipt["candidate_results"] if c["candidate_k"]]
    return config, receipt


def disagreements(ours: Mapping[str, Any], reference: Mapping[str, Any], place: str = "") -> list[str]:
    """Where two receipts (or parts of them) differ by more than the agreement asked for, or in the order of fields."""
    if list(ours) != list(reference):
        return [f"{place or 'receipt'}: fields {list(ours)}, reference {list(reference)}"]
    found = []
    for name, theirs in reference.items():
        at, mine = f"{place}.{name}" if place else name, ours[name]
        if isinstance(theirs, Mapping):
            found += disagreements(mine, theirs, at)
        elif name == "candidate_results":
            if len(mine) != len(theirs):
                found.append(f"{at}: {len(mine)} candidates, reference {len(theirs)}")
            for index, (one, other) in enumerate(zip(mine, theirs, strict=False)):
                found += disagreements(one, other, f"{at}[{index}]")
        elif not _agree(name, mine, theirs, reference):
            found.append(f"{at}: {mine!r}, reference {theirs!r}")
    return found


def _agree(name: str, ours: Any, theirs: Any, record: Mapping[str, Any]) -> bool:
    """Whether a field agrees; `record` is the reference's object that holds it."""
    if name == "blockers":
        return _same_blockers(ours, theirs)
    if name in TOLERANCES:
        spread = ("ppl_proxy_exact", "ppl_proxy_compressed") if name == "ppl_proxy_delta" else (name,)
        scale = max(1.0, *(abs(record[other]) for other in spread))
        return abs(ours - theirs) <= TOLERANCES[name] * scale
    return ours == theirs and type(ours) is type(theirs)


def _same_blockers(ours: list[str], reference: list[str]) -> bool:
    """Equal, but for a fourth decimal that sits on a rounding edge."""
    if [_NUMBER.sub("#", text) for text in ours] != [_NUMBER.sub("#", text) for text in reference]:
        return False
    numbers = [float(number) for text in ours for number in _NUMBER.findall(text)]
    theirs = [float(number) for text in reference for number in _NUMBER.findall(text)]
    return all(abs(a - b) <= 1.01e-4 for a, b in zip(numbers, theirs, strict=True))


def fixture_facts(digest: str = "sha256:0") -> FixtureFacts:
    """Facts of a made-up fixture."""
    return FixtureFacts(digest, None, head_dim=8, shared_tokens=4, seed=0, vocab=16)


def fixture_fields(
    head_dim: int = 8, rows: int = 6, shared: int = 4, queries: int = 2, vocab: int = 5, seed: int = 7, draw: int = 0
) -> dict[str, Any]:
    """A small valid fixture as JSON fields: Gaussian rows, with the unscaled attention's own output and logits."""
    random = np.random.default_rng(draw)

    def drawn(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    projection = drawn(vocab, head_dim)
    listed = []
    for _ in range(queries):
        query, keys, values = drawn(head_dim), drawn(rows, head_dim), drawn(rows, head_dim)
        scores = keys @ query
        weights = np.exp(scores - scores.max())
        output = (weights / weights.sum()) @ values
        logits = projection @ output
        listed.append(
            {
                "query": query.tolist(),
                "keys": keys.tolist(),
                "values": values.tolist(),
                "exact_attention_output": output.tolist(),
                "exact_logits": logits.tolist(),
                "label_token": int(logits.argmax()),
            }
        )
    return {
        "schema_version": "poly_kv_captured_replay_fixture_v1",
        "model_id": "made-on-the-spot",
        "head_dim": head_dim,
        "shared_tokens": shared,
        "seed": seed,
        "output_projection": projection.tolist(),
        "queries": listed,
    }


def changed(fields: Any, *path: Any, to: object) -> Any:
    """A deep copy of JSON fields with one place changed."""
    fields = copy.deepcopy(fields)
    *inner, last = path
    node = fields
    for step in inner:
        node = node[step]
    node[last] = to
    return fields


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every number, string and flag of a JSON value, with its path."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield path, value
    else:
        for step, child in inner:
            yield from leaves(child, (*path, step))


def encoded(fields: object) -> bytes:
    """JSON text as a file holds it."""
    return json.dumps(fields).encode()


def gaussian(rows: int, dim: int, draw: int = 0, scale: float = 1.0) -> np.ndarray:
    """Gaussian float32 rows."""
    return (np.random.default_rng(draw).standard_normal((rows, dim)) * scale).astype(np.float32)


def refused_with(error: type[Exception], call: Callable[[], object]) -> str | None:
    """What a call says when it refuses with this error; None where it does not refuse."""
    try:
        call()
    except error as refusal:
        return str(refusal)
    return None


@contextmanager
def annotations_unchecked() -> Iterator[None]:
    """Switch the shape and type checks of the test run off: for what a caller without them may pass in."""
    jaxtyping_config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping_config.update("jaxtyping_disable", False)


def fresh_python(program: str, **environment: str) -> str:
    """What a program prints in a new interpreter that imports the same polykv_core. Warnings are errors there too."""
    home = Path(polykv_core.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(home), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
