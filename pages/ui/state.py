"""What is on screen: the last result that was good, judged anew at every run; and what was not used since, and why."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import streamlit as st

from pages.ui import jobs, links, memory, replay_options, uploads
from pages.ui.controls import Choice
from pages.ui.jobs import Job
from pages.ui.replayed import Replayed, Source, replay, shelf
from polykv_core import (
    DEFAULT_CANDIDATE_KS,
    REFERENCE,
    CapturedMeasurement,
    CapturedReplayConfig,
    CapturedReplayFixture,
    CapturedReplayReceipt,
    Finding,
    PolyKvError,
    ReplayOptions,
    judge,
    load_fixture,
    parse_ks,
    replay_findings,
)
from polykv_core.health import BEYOND_ROWS


@dataclass(frozen=True)
class Shown:
    """A replay and the verdict on it."""

    replayed: Replayed
    receipt: CapturedReplayReceipt

    @property
    def source(self) -> Source:
        """Whose verdict it is."""
        return self.replayed.source

    @cached_property
    def curve(self) -> CapturedMeasurement:
        """What was measured, over every k, as its gates look at it."""
        return self.replayed.curve.by(self.receipt.config.statistic)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is odd about the fixture, and about its replay at the selected k but that it reads every row."""
        k = self.receipt.selected_candidate_k
        found = replay_findings(self.curve.queries.at(self.curve.index_of(k)), k)
        return (*self.replayed.findings, *(finding for finding in found if finding.code != BEYOND_ROWS))


@dataclass(frozen=True)
class Refusal:
    """What was not used, and why; the reason may quote the input and must be shown verbatim."""

    what: str
    reason: str


@dataclass(frozen=True)
class Screen:
    """What the page shows. `shown` is None if nothing good is there yet; `wanted` is a digest that is waited for.

    `followed`: what is shown is what the sidebar asks for, and not the last that was good.
    """

    shown: Shown | None
    refusals: tuple[Refusal, ...] = ()
    wanted: str = ""
    cancelled: str = ""
    followed: bool = False


def screen(choice: Choice) -> Screen:
    """Follow the sidebar as far as it makes sense; where it does not, keep what was good and say so."""
    wanted = links.wanted()
    if wanted and choice.upload is None and choice.sample.shipped:
        return Screen(None, wanted=wanted)
    last: Shown | None = st.session_state.get(uploads.LAST_GOOD)
    refusals: list[Refusal] = []
    options = last.replayed.curve.options if last else REFERENCE
    try:
        options = replay_options.parsed(choice.options)
    except PolyKvError as bad:
        refusals.append(Refusal("The replay options", str(bad)))
    job = _job(choice, options, wanted)
    replayed, cancelled = None, ""
    try:
        replayed = job.result()
    except jobs.Cancelled:
        cancelled = job.name
    except PolyKvError as bad:
        refusals.append(Refusal("The sample" if choice.upload is None else "The uploaded file", str(bad)))
    followed = replayed is not None
    if replayed is not None:
        if last is None or replayed is not last.replayed:
            memory.give_back()
        links.show("" if choice.upload is None and choice.sample.shipped else replayed.source.digest)
    elif last is not None and not wanted:
        replayed = last.replayed
    if replayed is None:
        return Screen(None, tuple(refusals), wanted, cancelled)

    ks = last.receipt.config.candidate_ks if last else DEFAULT_CANDIDATE_KS
    try:
        ks = parse_ks(choice.ks_text)
    except PolyKvError as bad:
        refusals.append(Refusal("The candidate ks", str(bad)))
    receipt = judge(replayed.curve, CapturedReplayConfig.from_dict({"candidate_ks": ks, **choice.gates}))
    shown = st.session_state[uploads.LAST_GOOD] = Shown(replayed, receipt)
    return Screen(shown, tuple(refusals), cancelled=cancelled, followed=followed)


def try_again() -> None:
    """Start a cancelled replay anew."""
    jobs.forget(uploads.REPLAY_JOB)


def go_on_with_sample() -> None:
    """Forget what a link asks for, and what was uploaded instead."""
    links.forget()
    uploads.clear()


def go_on_with_upload() -> None:
    """Forget what a link asks for, and take the file that was uploaded instead."""
    links.forget()
    jobs.forget(uploads.REPLAY_JOB)


def _job(choice: Choice, options: ReplayOptions, wanted: str) -> Job[Replayed]:
    upload, sample = choice.upload, choice.sample
    name, file_name = (upload.name, upload.name) if upload else (sample.title, sample.file_name)
    key = f"upload {upload.number}" if upload else f"sample {sample.file_name}"
    if choice.head is not None:
        name, file_name, key = f"{name}, {choice.head}", f"{file_name}#{choice.head}", f"{key} {choice.head}"
    told = partial(Source.of, name=name, file_name=file_name, shows="" if upload else sample.shows)
    load = partial(_loaded, upload.read if upload else lambda: sample.path, choice.head)
    work = partial(replay, load, told, options, shelf(), wanted)
    return jobs.run(uploads.REPLAY_JOB, f"{key} {options}", name, work)


def _loaded(read: Callable[[], Path | bytes], head: str | None) -> CapturedReplayFixture:
    return load_fixture(read(), head)
