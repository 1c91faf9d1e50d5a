"""The run of a sweep with real processes: what is done twice, what is lost, what becomes of killed workers."""

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import sweeping
from support import ROOT
from sweeping import KS, pack, wait_for, worked_on

from polykv_core.errors import SweepError
from polykv_core.sweep import local as local_workers
from polykv_core.sweep.executors import default_workers, local
from polykv_core.sweep.items import sweep_items
from polykv_core.sweep.ledger import Ledger, default_folder, ledger_key
from polykv_core.sweep.local import LocalWorkers, WorkerLost
from polykv_core.sweep.result import HeadResult
from polykv_core.sweep.run import run
from polykv_core.sweep.sources import Source
from polykv_core.sweep.work import SweepRequest, work

REQUEST = SweepRequest(KS)
TWO = partial(local, 2)
ALL = ["L0_H0", "L0_H1", "L0_H2", "L1_H0", "L1_H1", "L1_H2"]


def nobody():
    """Workers that must not be asked for."""
    raise AssertionError("there was no work to do")


def swept(file, ledger=None, work=sweeping.logged, start=TWO):
    """The results of all heads of a file by the heads' names, with those that were done here only for comparison."""
    results = list(run(sweep_items([file]), REQUEST, start=start, ledger=ledger, work=work))
    assert len({result.item for result in results}) == len(results)
    return {result.item.head: result for result in results}


def content(result):
    """What must not depend on where or when a head was done."""
    return replace(result, seconds=0.0).to_bytes()


@pytest.fixture
def file(tmp_path):
    """Two layers of three heads."""
    return pack(tmp_path)


@pytest.fixture
def ledger(tmp_path):
    """An empty ledger."""
    return Ledger(tmp_path / "ledger")


def test_worker_processes_give_the_results_that_the_work_gives_here(file):
    """To the last byte, each head once."""
    results = swept(file)
    assert sorted(results) == sorted(worked_on(file)) == ALL
    for item in sweep_items([file]):
        assert content(results[item.head]) == content(work(item, REQUEST, Source.at(item.file)))


def test_a_finished_head_is_not_done_again(file, ledger):
    """It comes from the ledger, without any worker; other ks are other work."""
    first = swept(file, ledger)
    again = swept(file, ledger, start=nobody)
    assert [result.kept for result in (*first.values(), *again.values())] == [False] * 6 + [True] * 6
    assert {name: content(result) for name, result in first.items()} == {n: content(r) for n, r in again.items()}
    assert sorted(worked_on(file)) == ALL
    other = SweepRequest((2,))
    assert len({ledger_key("sha256:0", "h", request) for request in (REQUEST, other)}) == 2
    assert [r.kept for r in run(sweep_items([file]), other, start=TWO, ledger=ledger)] == [False] * 6


def test_the_same_content_in_another_file_is_known_again(file, ledger, tmp_path):
    """A ledger goes by content; the result is that of the item that asks."""
    swept(file, ledger)
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(file.read_bytes())
    results = swept(copy, ledger, start=nobody)
    assert {result.item.file for result in results.values()} == {str(copy)}


def test_a_head_that_is_damaged_in_the_ledger_is_done_again(file, ledger):
    """It alone."""
    swept(file, ledger)
    path = sorted(ledger.folder.iterdir())[2]
    path.write_bytes(path.read_bytes()[:-1])
    results = swept(file, ledger)
    assert sorted(result.kept for result in results.values()) == [False] + [True] * 5


def test_a_killed_worker_costs_no_head(file, ledger):
    """SIGKILL in the middle of a head: it is done again, no other one is, and nothing is lost."""
    results = swept(file, ledger, sweeping.killed_once)
    assert sorted(results) == sorted(worked_on(file)) == ALL
    assert [result.error for result in results.values()] == [None] * 6


def test_a_head_that_always_kills_its_worker_is_told_and_the_others_are_done(file, ledger):
    """After the second time; its error is not kept."""
    results = swept(file, ledger, sweeping.killed_always)
    assert "L0_H1: its worker was lost twice (out of memory?" in results.pop("L0_H1").error
    assert [result.error for result in results.values()] == [None] * 5
    assert sorted(worked_on(file)) == sorted(results)
    assert len(list(ledger.folder.iterdir())) == 5


def test_what_nobody_foresaw_in_a_worker_is_the_head_s_error(file):
    """With its kind and text."""
    results = swept(file, work=sweeping.raising)
    assert results.pop("L0_H1").error.endswith("L0_H1: ZeroDivisionError: a fault of the program")
    assert [result.error for result in results.values()] == [None] * 5


def test_a_bad_file_does_not_stop_the_others(file, ledger, tmp_path):
    """One that cannot be opened, and one that is gone when its turn comes."""
    gone = pack(tmp_path, 1, 1, "gone.safetensors")
    (tmp_path / "bad.json").write_bytes(b"{")
    items = sweep_items([tmp_path / "bad.json", gone, file])
    gone.unlink()
    results = list(run(items, REQUEST, start=TWO, ledger=ledger))
    assert [result.item.name for result in results if result.error] == ["bad.json", "gone.safetensors#L0_H0"]
    assert results[1].error == "gone.safetensors#L0_H0: cannot read it: No such file or directory"
    assert len(results) == 8


SWEEP = """
import sys
sys.path.insert(0, sys.argv[3])
from functools import partial
import sweeping
from polykv_core.sweep.executors import local
from polykv_core.sweep.items import sweep_items
from polykv_core.sweep.ledger import Ledger
from polykv_core.sweep.run import run
from polykv_core.sweep.work import SweepRequest

file, folder, _ = sys.argv[1:]
for result in run(sweep_items([file]), SweepRequest(sweeping.KS), start=partial(local, 2), ledger=Ledger(folder),
                  work=sweeping.held_up):
    print(result.item.head, flush=True)
"""


def child(program, *arguments):
    """A process that runs a program with what the tests share."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_sweep_goes_on_where_it_was(file, ledger):
    """SIGKILL to all of it: the heads that were told as finished are there, and no worker lives on."""
    process = child(SWEEP, file, ledger.folder, Path(__file__).parent)
    with process.stdout:
        told = [process.stdout.readline().strip() for _ in range(3)]
        wait_for(Path(f"{file}.waits").exists)
        workers = workers_of(process.pid)
        assert len(workers) == 2
        process.kill()
        process.wait()
    wait_for(lambda: not any(alive(worker) for worker in workers))
    assert sorted(told) == ["L0_H0", "L0_H1", "L0_H2"]
    Path(f"{file}.go").touch()
    results = swept(file, ledger, sweeping.held_up)
    assert [results[name].kept for name in ALL] == [True] * 3 + [False] * 3
    assert sorted(worked_on(file)) == ALL


def test_an_interrupted_sweep_ends_with_its_workers_and_keeps_what_is_done(file, ledger):
    """Ctrl-C, as a terminal sends it."""
    process = child(
        SWEEP.replace(
            "for result", "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nfor result", 1
        ),
        file,
        ledger.folder,
        Path(__file__).parent,
    )
    with process.stdout:
        for _ in range(3):
            process.stdout.readline()
        wait_for(Path(f"{file}.waits").exists)
        workers = workers_of(process.pid)
        assert len(workers) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(sweeping.PATIENCE) == -signal.SIGINT
    wait_for(lambda: not any(alive(worker) for worker in workers))
    assert len(list(ledger.folder.iterdir())) == 3


def test_an_interrupt_that_leaves_a_lock_behind_does_not_hold_the_end_up(tmp_path, monkeypatch):
    """Python may be interrupted between taking a future's lock and what lets it go; its thread is then stuck."""
    monkeypatch.setattr(local_workers, "_PATIENCE", 0.1)
    workers, waits = LocalWorkers(1), tmp_path / "waits"
    future = workers.submit(sweeping.touched_then_waiting, waits)
    wait_for(waits.exists)
    (process,) = workers_of()
    with future._condition:
        ending = threading.Thread(target=workers.kill, daemon=True)
        ending.start()
        ending.join(sweeping.PATIENCE)
        assert not ending.is_alive()
    wait_for(lambda: not alive(process))


def workers_of(process="self"):
    """The worker processes of a process, whichever of its threads started them."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):
            found += [int(pid) for pid in (task / "children").read_text().split()]
    return [pid for pid in found if b"polykv_core.sweep.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def alive(process):
    """Whether a process is there and not just waiting to be buried."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_sweep_that_is_stopped_ends_soon_and_keeps_what_is_done(file, ledger):
    """Its workers are in the middle of heads that would never end."""
    stop = threading.Event()
    results = []
    for result in run(
        sweep_items([file]), REQUEST, start=TWO, ledger=ledger, should_stop=stop.is_set, work=sweeping.held_up
    ):
        results.append(result)
        if len(results) == 3:
            wait_for(Path(f"{file}.waits").exists)
            stop.set()
    assert [result.item.layer for result in results] == [0, 0, 0]
    assert len(list(ledger.folder.iterdir())) == 3
    assert sorted(worked_on(file)) == ["L0_H0", "L0_H1", "L0_H2"]


def test_a_sweep_that_is_no_longer_listened_to_ends_its_workers(file, ledger):
    """Closing the generator; what has finished meanwhile is kept though nobody heard of it."""
    results = run(sweep_items([file]), REQUEST, start=TWO, ledger=ledger)
    next(results)
    wait_for(lambda: len(workers_of()) == 2)
    results.close()
    assert workers_of() == []
    assert len(list(ledger.folder.iterdir())) >= 1


def test_a_sweep_that_is_stopped_at_once_asks_for_no_workers(file):
    """Nothing is started for it."""
    assert list(run(sweep_items([file]), REQUEST, start=nobody, should_stop=lambda: True)) == []


def test_workers_do_not_run_the_program_that_started_them(file, tmp_path):
    """A script without a guard, as a page of the dashboard is, sweeps from a thread of its own."""
    script = tmp_path / "page.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys, threading
        from functools import partial
        print("run", flush=True)
        from polykv_core.sweep.executors import local
        from polykv_core.sweep.items import sweep_items
        from polykv_core.sweep.run import run
        from polykv_core.sweep.work import SweepRequest
        def sweep():
            for result in run(sweep_items([{str(file)!r}]), SweepRequest((2,)), start=partial(local, 1)):
                print(result.error, flush=True)
        thread = threading.Thread(target=sweep)
        thread.start()
        thread.join()
        """)
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["run"] + ["None"] * 6
    assert done.stderr == ""


def test_an_executor_hands_back_what_a_call_gives_or_raises():
    """Whatever the call prints; a call that nobody waits for any more is not begun."""
    with LocalWorkers(1) as workers:
        assert workers.submit(max, 3, 4).result() == 4
        assert workers.submit(print, "said amid the answers").result() is None
        with pytest.raises(ZeroDivisionError):
            workers.submit(divmod, 1, 0).result()
        with pytest.raises(SweepError, match="as it was"):
            workers.submit(raise_it, SweepError("as it was")).result()
        with pytest.raises(RuntimeError, match="Odd: "):
            workers.submit(raise_odd).result()
        with pytest.raises(TypeError, match="by name are not handed on: key"):
            workers.submit(max, 3, key=len)
        with pytest.raises(WorkerLost, match="ended with status 3"):
            workers.submit(os._exit, 3).result()
        assert workers.submit(os.getpid).result() != os.getpid()


def raise_it(error):
    """Raise an error."""
    raise error


class Odd(Exception):  # noqa: N818 - a test's
    """An exception that cannot be made again from its text."""

    def __init__(self, one, two):
        """Of two things."""
        super().__init__(f"{one} {two}")


def raise_odd():
    """Raise an odd error."""
    raise Odd(1, 2)


def test_a_worker_has_one_thread_of_blas_unless_the_environment_says_otherwise(monkeypatch):
    """Heads are done side by side; what the user sets stays."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with LocalWorkers(1) as workers:
        assert workers.submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "1"
        assert workers.submit(os.getenv, "OMP_NUM_THREADS").result() == "2"


@pytest.mark.parametrize("workers", [0, -1, True, 5000])
def test_a_number_of_workers_that_is_none_is_refused(workers):
    """Before any is started."""
    with pytest.raises(SweepError, match=r"workers is .*; expected a whole number from 1 to 4096"):
        local(workers)
    assert default_workers() >= 1


def test_the_ledger_is_where_the_environment_says(monkeypatch, tmp_path):
    """Else in the user's cache."""
    monkeypatch.setenv("POLYKV_SWEEPS", str(tmp_path / "here"))
    assert Ledger().folder == tmp_path / "here"
    monkeypatch.delenv("POLYKV_SWEEPS")
    assert default_folder().parts[-2:] == ("polykv", "sweeps")


def test_a_ledger_that_cannot_be_written_is_told(tmp_path, file):
    """When it is made, and when a head cannot be kept."""
    (tmp_path / "taken").touch()
    with pytest.raises(SweepError, match=r"cannot keep finished heads in .*taken: File exists; free some space, or"):
        Ledger(tmp_path / "taken")
    ledger = Ledger(tmp_path / "folder")
    ledger.folder.rmdir()
    result = swept(file)["L0_H0"]
    with pytest.raises(SweepError, match=r"cannot keep finished heads in .*folder: No such file or directory"):
        ledger.put("key", result)


def test_errors_are_not_kept(ledger, file):
    """A head that failed is tried again."""
    (item, *_) = sweep_items([file])
    ledger.put("key", HeadResult(item, error="gone"))
    assert ledger.get("key", item) is None


def test_a_full_ledger_loses_what_was_not_used_for_longest(ledger, file):
    """And what a killed writer left behind long ago."""
    (item, *_) = sweep_items([file])
    result = work(item, REQUEST, Source.at(item.file))
    for age, key in enumerate("abcd"):
        ledger.put(key, result)
        os.utime(ledger.folder / f"{key}.head", (1000 + age, 1000 + age))
    old, fresh = ledger.folder / ".polykv-1.tmp", ledger.folder / ".polykv-2.tmp"
    for litter in (old, fresh):
        litter.touch()
    os.utime(old, (1000, 1000))
    assert ledger.get("a", item) is not None  # used now
    ledger.prune(2 * len(result.to_bytes()))
    assert sorted(path.name for path in ledger.folder.iterdir()) == [".polykv-2.tmp", "a.head", "d.head"]


def test_a_disk_that_fills_up_costs_no_head(tmp_path, monkeypatch):
    """The sweep goes on to its end, and says once why nothing is kept any more."""
    ledger, told = Ledger(tmp_path / "ledger"), []
    file = pack(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("polykv_core.sweep.ledger.write_whole", full)
    results = list(run(sweep_items([file]), REQUEST, ledger=ledger, on_unkept=told.append))
    assert [result.error for result in results] == [None] * 6
    assert len(told) == 1
    assert told[0].startswith("cannot keep finished heads in ")
    assert "No space left on device; free some space" in told[0]
