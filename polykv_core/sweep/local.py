"""Worker processes on this machine, as an executor.

Not a ProcessPoolExecutor, for three reasons. That imports the program's main module again in every worker, which under
Streamlit runs the page. Where one of its workers dies, all calls are lost, and nobody knows whose fault it was. And its
workers cannot be ended in the middle of a call.
"""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import IO, Any, TypeVar

from polykv_core.sweep.worker import receive, send

T = TypeVar("T")
_Call = tuple["Future[Any]", bytes]

# Seconds for a thread to see its process off.
_PATIENCE = 5.0
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from polykv_core.sweep.worker import main; main()"
# Heads are done side by side; threads of BLAS inside of each would only wait for each other.
_ONE_THREAD_EACH = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerLost(Exception):  # noqa: N818 - says whose fault it is not
    """The process that was at this call has died."""


class LocalWorkers(Executor):
    """Processes that import nothing but what a call needs; each has a thread here that hands it one call after another.

    A call whose process dies raises WorkerLost, no other call is touched, and a new process takes the place.
    """

    def __init__(self, workers: int) -> None:
        """So many processes, each started when it has its first call."""
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._killed = False
        self._threads = [Thread(target=self._serve, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Call a function of a module that a worker can import; arguments by position."""
        if kwargs:
            raise TypeError(f"arguments by name are not handed on: {', '.join(kwargs)}")
        future: Future[T] = Future()
        self._calls.put((future, pickle.dumps((fn, args))))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the workers once all calls are done, or only those that were begun."""
        if cancel_futures:
            self._cancel_waiting()
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def kill(self) -> None:
        """End the workers at once, also in the middle of a call."""
        with self._lock:
            self._killed = True
            for process in self._processes:
                process.kill()
        self.shutdown(wait=False, cancel_futures=True)
        for thread in self._threads:
            # Where an interrupt left a future locked, the thread that has its answer is stuck, and left behind.
            thread.join(_PATIENCE)

    def _cancel_waiting(self) -> None:
        with suppress(Empty):
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    call[0].cancel()

    def _serve(self) -> None:
        """Hand calls to a process, and start another one where it died."""
        process: subprocess.Popen[bytes] | None = None
        while (call := self._calls.get()) is not None:
            future, message = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                process = process or self._started()
                result, raised = _called(process, message)
            except WorkerLost as lost:
                self._ended(process)
                process = None
                future.set_exception(lost)
            except Exception as bad:  # noqa: BLE001 - an answer that cannot be read is the call's own
                future.set_exception(bad)
            else:
                if raised is None:
                    future.set_result(result)
                else:
                    future.set_exception(raised)
        self._ended(process)

    def _started(self) -> subprocess.Popen[bytes]:
        paths = [path for path in sys.path if isinstance(path, str)]
        with self._lock:
            if self._killed:
                raise WorkerLost("the workers were ended")
            try:
                process = subprocess.Popen(  # noqa: S603 - this Python, this package
                    [sys.executable, "-P", "-c", _START, json.dumps(paths)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**dict.fromkeys(_ONE_THREAD_EACH, "1"), **os.environ},
                    # Ctrl-C is for the sweep, which then ends its workers itself.
                    process_group=0,
                )
            except OSError as bad:
                raise WorkerLost(f"no worker could be started: {bad}") from None
            self._processes.add(process)
        return process

    def _ended(self, process: subprocess.Popen[bytes] | None) -> None:
        """See a process off; one that is alive ends when nothing more can come."""
        if process is None:
            return
        for pipe in _pipes(process):
            with suppress(OSError):
                pipe.close()
        process.wait()
        with self._lock:
            self._processes.discard(process)


def _called(process: subprocess.Popen[bytes], message: bytes) -> tuple[Any, BaseException | None]:
    """What a process gives for a call, or what the call raises there. Raises WorkerLost."""
    calls, answers = _pipes(process)
    try:
        send(calls, message)
        answer = receive(answers)
    except OSError:
        answer = None
    if answer is None:
        raise WorkerLost(f"its worker ended with status {process.wait()}")
    found: tuple[Any, BaseException | None] = pickle.loads(answer)  # noqa: S301 - from a process started here
    return found


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """To a process, and from it."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("the process was started without pipes")
    return process.stdin, process.stdout
