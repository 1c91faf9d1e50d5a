"""Where the work of a sweep is done: on this machine, or on a Dask cluster. Both are executors of one kind."""

import logging
import math
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from polykv_core.checks import Checks, shown
from polykv_core.errors import SweepError
from polykv_core.sweep.local import LocalWorkers, WorkerLost

_MOST_WORKERS = 4096
# Seconds to wait for a scheduler, and for its first worker.
_PATIENCE = 10.0
# Seconds after which a cluster without any worker is given up; clusters that grow by themselves take a while to do so.
_PATIENCE_WITHOUT_WORKERS = 120.0
_ASK_EVERY = 5.0

_ADDRESS = re.compile(r"((tcp|tls|ws|wss|ucx)://)?[^\s/:]+:\d{1,5}|((tcp|tls|ws|wss|ucx)://)?\[[0-9a-fA-F:]+\]:\d{1,5}")

GONE = "the workers are gone; run the sweep again: finished heads are kept"

_check = Checks(SweepError)


@dataclass(frozen=True)
class Crew:
    """Workers that stand ready.

    `size()` heads are done at once. A future raises one of `lost` where its worker died. `check` raises SweepError once
    there is nobody left to work; `end` ends the work, also what has begun.
    """

    name: str
    executor: Executor
    size: Callable[[], int]
    lost: tuple[type[BaseException], ...]
    check: Callable[[], None]
    end: Callable[[], None]


def local(workers: int | None = None) -> Crew:
    """Processes on this machine; by default as many as there are processors. Raises SweepError for no number of them.

    Also a single worker is a process of its own: one that runs out of memory ends a head, and not the program.
    """
    count = default_workers() if workers is None else _check.integer(workers, "workers", low=1, high=_MOST_WORKERS)
    executor = LocalWorkers(count)
    name = f"{count} {'process' if count == 1 else 'processes'} on this machine"
    return Crew(name, executor, lambda: count, (WorkerLost,), lambda: None, executor.kill)


def default_workers() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cluster(address: str, patience: float = _PATIENCE) -> Crew:
    """The workers of a Dask scheduler, such as tcp://10.0.0.7:8786; they read the fixtures at the same paths.

    Raises SweepError without the extra `cluster`, and if no scheduler or no worker answers within `patience` seconds.
    """
    try:
        distributed = import_module("distributed")
        killed = import_module("distributed.scheduler").KilledWorker
    except ImportError:
        raise SweepError("--scheduler needs distributed; install it with: pip install 'polykv[cluster]'") from None
    if not _ADDRESS.fullmatch(address):
        raise SweepError(f"the scheduler's address is {shown(address)}; expected one such as tcp://10.0.0.7:8786")
    # What cannot be reached is told below; the library would tell it as well, in tracebacks.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=patience, set_as_default=False, name="polykv-sweep")
    except (OSError, ValueError, TypeError, TimeoutError, ImportError) as bad:
        reason = " ".join(str(bad).split()) or type(bad).__name__
        raise SweepError(f"no scheduler answers at {shown(address)}: {reason}") from None
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError:
        client.close()
        raise SweepError(
            f"the scheduler at {shown(address)} has no workers; start some with: dask worker {address}"
        ) from None
    # Two heads of the same file are two calls, whatever their arguments have in common.
    executor = client.get_executor(pure=False)

    def end() -> None:
        executor.shutdown(wait=False)
        client.close()

    watch = _Watch(client, address)
    return Crew(f"the cluster at {address}", executor, watch.size, (killed,), watch.check, end)


class _Watch:
    """Keeps an eye on how many workers a cluster has: they come and go."""

    def __init__(self, client: Any, address: str) -> None:
        """Of a connected client."""
        self._client = client
        self._address = address
        self._size = 0
        self._seen = time.monotonic()
        self._looked = -math.inf

    def size(self) -> int:
        """The workers' threads; the scheduler is asked now and then."""
        now = time.monotonic()
        if now - self._looked >= _ASK_EVERY:
            self._looked = now
            self._size = sum(self._threads().values())
            if self._size:
                self._seen = now
        return self._size

    def _threads(self) -> dict[str, int]:
        """Of each worker. Raises SweepError if the scheduler is gone."""
        try:
            return self._client.nthreads()
        except (OSError, AttributeError):  # a client that lost its scheduler, and one that has given up on it
            raise SweepError(GONE) from None

    def check(self) -> None:
        """Raise SweepError once there was none for long."""
        if self.size() == 0 and time.monotonic() - self._seen > _PATIENCE_WITHOUT_WORKERS:
            raise SweepError(
                f"the scheduler at {self._address} has had no workers for {_PATIENCE_WITHOUT_WORKERS:.0f} s; "
                "start some and run the sweep again: finished heads are kept"
            )
