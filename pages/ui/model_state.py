"""What the model page shows: the last case that was good with its curve over every k; and what was refused since."""

import hashlib
from dataclasses import dataclass, replace

import streamlit as st

from pages.ui import jobs
from pages.ui.controls import Choice
from pages.ui.jobs import OnQuery
from pages.ui.model_inputs import Asked
from pages.ui.state import Refusal
from polykv_core import (
    DEFAULT_CANDIDATE_KS,
    Measurement,
    ModelReplayCase,
    ModelReplayReceipt,
    PolyKvError,
    SharedKVPool,
    measure_model,
    parse_ks,
)

JOB = "model_job"

_LAST_GOOD = "last_good_model"
_AGENT = "model_replay"


@dataclass(frozen=True)
class Replayed:
    """A case, the name it goes by, and its measurement over every k."""

    name: str
    digest: str
    case: ModelReplayCase
    curve: Measurement


@dataclass(frozen=True)
class Shown:
    """A replay, its case with the ks and gates of the sidebar, and the verdict on it."""

    replayed: Replayed
    case: ModelReplayCase
    receipt: ModelReplayReceipt

    @property
    def curve(self) -> Measurement:
        """What was measured, over every k."""
        return self.replayed.curve.by(self.case.config.statistic)


@dataclass(frozen=True)
class Screen:
    """What the page shows. `shown` is None if nothing good is there yet."""

    shown: Shown | None
    refusals: tuple[Refusal, ...]
    cancelled: bool


def screen(asked: Asked | None, choice: Choice) -> Screen:
    """Replay the case that is asked for; where that does not work, keep what was good and say so."""
    last: Shown | None = st.session_state.get(_LAST_GOOD)
    refusals: list[Refusal] = []
    replayed, cancelled = None, False
    if asked is not None:
        job = jobs.run(JOB, asked.key, asked.name, lambda on_query: _replay(asked, on_query))
        cancelled = job.cancelled
        try:
            replayed = None if cancelled else job.result()
        except PolyKvError as bad:
            refusals.append(Refusal("The case", str(bad)))
    if replayed is None and last is not None:
        replayed = last.replayed
    if replayed is None:
        return Screen(None, tuple(refusals), cancelled)

    ks = last.receipt.config.candidate_ks if last else DEFAULT_CANDIDATE_KS
    try:
        ks = parse_ks(choice.ks_text)
    except PolyKvError as bad:
        refusals.append(Refusal("The candidate ks", str(bad)))
    case = replace(replayed.case, config=replace(replayed.case.config, candidate_ks=ks, **choice.gates))
    shown = Shown(replayed, case, ModelReplayReceipt.of(replayed.curve, case.config))
    st.session_state[_LAST_GOOD] = shown
    return Screen(shown, tuple(refusals), cancelled)


def try_again() -> None:
    """Start a cancelled replay anew."""
    jobs.forget(JOB)


def _replay(asked: Asked, on_query: OnQuery) -> Replayed:
    case = asked.load()
    pool = SharedKVPool.build(case.shared, case.shape, case.pool_seed)
    shell = pool.materialize_shell(_AGENT, case.hot, case.shell_seed)
    every_k = tuple(range(1, len(case.shared) + len(case.hot) + 1))
    config = replace(case.config, candidate_ks=every_k)
    curve = measure_model(pool, shell, case.queries, config, on_query)
    return Replayed(asked.name, _digest(case), case, curve)


def _digest(case: ModelReplayCase) -> str:
    """What tells a case from others, whatever its ks and gates."""
    config = case.config
    facts = (case.shape, case.pool_seed, case.shell_seed, config.layer, config.head, config.projection_seed)
    digest = hashlib.sha256(repr((facts, config.vocab_size, [query.label_token for query in case.queries])).encode())
    for rows in (case.shared, case.hot, *(query.query for query in case.queries)):
        digest.update(rows.tobytes())
    return digest.hexdigest()
