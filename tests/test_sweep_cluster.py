"""A sweep on a Dask cluster: a real scheduler and two real workers on this machine, one of which is killed."""

import json
import os
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
import sweeping
from support import ROOT
from sweeping import KS, PATIENCE, pack, wait_for, worked_on

from polykv_core.errors import SweepError
from polykv_core.sweep import executors
from polykv_core.sweep.executors import cluster
from polykv_core.sweep.items import sweep_items
from polykv_core.sweep.ledger import Ledger
from polykv_core.sweep.run import run
from polykv_core.sweep.sources import Source
from polykv_core.sweep.work import SweepRequest, work

REQUEST = SweepRequest(KS)
needs_distributed = pytest.mark.skipif(find_spec("distributed") is None, reason="needs the cluster extra")


class Cluster:
    """A scheduler, and workers as they are asked for; all end with the test."""

    def __init__(self, stack, folder):
        """Without workers at first."""
        self.stack, self.folder = stack, folder
        told = folder / "scheduler.json"
        self.scheduler = self.started("dask_scheduler", "--host", "127.0.0.1", "--port", 0, "--scheduler-file", told)
        self.address = json.loads(wait_for(lambda: told.exists() and told.read_text()))["address"]

    def worker(self):
        """A worker of one thread that nobody starts again."""
        once = ("--nthreads", 1, "--no-nanny", "--memory-limit", 0, "--local-directory", self.folder)
        return self.started("dask_worker", self.address, *once)

    def wait_for_workers(self, count):
        """Until so many are there."""
        with self.client() as client:
            client.wait_for_workers(count, timeout=PATIENCE)

    def tasks(self):
        """How many calls the scheduler knows of: those that wait, are done, or whose result somebody holds."""
        with self.client() as client:
            return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))

    def client(self):
        """Somebody to ask the scheduler."""
        from distributed import Client

        return Client(self.address, timeout=PATIENCE, set_as_default=False)

    def started(self, module, *arguments):
        """A process of Dask's; what it says goes to nobody."""
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *map(str, arguments), "--no-dashboard"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process


@pytest.fixture
def dask(tmp_path):
    """A cluster without workers."""
    with ExitStack() as stack:
        yield Cluster(stack, tmp_path)


@needs_distributed
def test_a_cluster_gives_the_results_that_the_work_gives_here_though_a_worker_is_killed(dask, tmp_path):
    """To the last byte, each once; the heads of the worker that dies are done by the other one."""
    file, ledger = pack(tmp_path), Ledger(tmp_path / "ledger")
    workers = dask.worker(), dask.worker()
    dask.wait_for_workers(2)
    items, results = sweep_items([file]), []
    for result in run(items, REQUEST, start=partial(cluster, dask.address), ledger=ledger, work=sweeping.held_up):
        results.append(result)
        if len(results) == 3:
            wait_for(Path(f"{file}.waits").exists)
            wait_for(lambda: dask.tasks() == len(items) - len(results))
            workers[0].kill()
            Path(f"{file}.go").touch()
    assert sorted(result.item.head for result in results) == [item.head for item in items]
    assert sorted(worked_on(file)) == [item.head for item in items]
    for result in results:
        here = work(result.item, REQUEST, Source.at(result.item.file))
        assert replace(result, seconds=0.0).to_bytes() == replace(here, seconds=0.0).to_bytes()
    assert all(result.kept for result in run(items, REQUEST, start=nobody, ledger=ledger))


@needs_distributed
def test_workers_that_join_later_get_work_as_well(dask, tmp_path, monkeypatch):
    """As many heads are handed out as keep all of them busy."""
    monkeypatch.setattr(executors, "_ASK_EVERY", 0.1)
    file = pack(tmp_path, heads=5)
    dask.worker()
    results = run(sweep_items([file]), REQUEST, start=partial(cluster, dask.address), work=sweeping.held_up)
    for _ in range(5):
        next(results)
    dask.worker()
    dask.wait_for_workers(2)
    threading.Thread(target=lambda: (wait_for(lambda: dask.tasks() == 5), Path(f"{file}.go").touch())).start()
    assert len(list(results)) == 5


@needs_distributed
@pytest.mark.parametrize("ask_every", [0.0, PATIENCE])
def test_a_sweep_whose_scheduler_dies_says_so_and_keeps_what_is_done(dask, tmp_path, monkeypatch, ask_every):
    """It does not wait for ever, whether it hears of that from its heads or when it asks how many workers there are."""
    monkeypatch.setattr(executors, "_ASK_EVERY", ask_every)
    file, ledger = pack(tmp_path), Ledger(tmp_path / "ledger")
    dask.worker()
    results = run(
        sweep_items([file]), REQUEST, start=partial(cluster, dask.address), ledger=ledger, work=sweeping.held_up
    )
    for _ in range(3):
        next(results)
    wait_for(Path(f"{file}.waits").exists)
    dask.scheduler.kill()
    with pytest.raises(SweepError, match="the workers are gone; run the sweep again: finished heads are kept"):
        next(results)
    Path(f"{file}.go").touch()
    assert len(list(ledger.folder.iterdir())) == 3


@needs_distributed
def test_a_scheduler_without_workers_is_told(dask):
    """With how to start one."""
    with pytest.raises(SweepError, match=r"has no workers; start some with: dask worker tcp://127\.0\.0\.1:\d+$"):
        cluster(dask.address, patience=1.0)


@needs_distributed
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "127.0.0.1:9"])
def test_a_scheduler_that_does_not_answer_is_told_in_one_line(address):
    """By its address."""
    with pytest.raises(SweepError, match=r"^no scheduler answers at .*: .*$"):
        cluster(address, patience=1.0)


def test_without_the_extra_it_is_told_how_to_install_it(monkeypatch):
    """The command to type."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SweepError, match=r"^--scheduler needs distributed; install it with: pip install 'polykv\[clus"):
        cluster("tcp://127.0.0.1:8786")


def nobody():
    """Workers that must not be asked for."""
    raise AssertionError("there was no work to do")
