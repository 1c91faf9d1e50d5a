"""The sweep: heads go out to the workers, results come back as they are done, and each is kept at once."""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from polykv_core.errors import SweepError
from polykv_core.sweep.executors import GONE, Crew, local
from polykv_core.sweep.items import SweepItem
from polykv_core.sweep.ledger import Ledger, ledger_key
from polykv_core.sweep.result import HeadResult
from polykv_core.sweep.sources import Source
from polykv_core.sweep.work import SweepRequest, Work, failed
from polykv_core.sweep.work import work as do_head

# Heads handed out for each that is worked on: enough that no worker waits, few enough to stop quickly.
_HANDED_OUT = 3
# A head that loses its worker may have been beside another one that took all the memory; it gets one more try, alone.
_MOST_LOST = 2
# Seconds between two looks at whether to stop.
_LOOK_EVERY = 0.2


def never() -> bool:
    """Nobody wants it to stop."""
    return False


def ignored(_reason: str) -> None:
    """Nobody needs to know."""


def run(
    items: Iterable[SweepItem],
    request: SweepRequest,
    *,
    start: Callable[[], Crew] = local,
    ledger: Ledger | None = None,
    should_stop: Callable[[], bool] = never,
    on_unkept: Callable[[str], None] = ignored,
    work: Work = do_head,
) -> Generator[HeadResult, None, None]:
    """Every head's result, as they are done; first those that the ledger has, for which nobody works.

    `start` gives the workers, and is called only if there is work: `local`, `partial(local, 4)`,
    `partial(cluster, address)`. The workers are ended when the generator is closed, when it raises, or soon after
    `should_stop` says so; it then ends without the results that are missing. What is done by then is in the ledger.

    What goes wrong with a head is its result's error. Once a finished head cannot be kept, none is any more:
    `on_unkept` is told why, and the sweep goes on. Raises SweepError where there are no workers.
    """
    tasks = []
    for known in _looked_up(items, request, ledger):
        if should_stop():
            return
        if isinstance(known, HeadResult):
            yield known
        else:
            tasks.append(known)
    if not tasks:
        return
    sweep = _Sweep(start(), request, ledger, work, on_unkept)
    try:
        yield from sweep.done(tasks, should_stop)
    finally:
        sweep.end()


@dataclass(frozen=True)
class _Task:
    """A head to be done: which, of which file, and what its result is called in the ledger."""

    item: SweepItem
    source: Source
    key: str


def _looked_up(
    items: Iterable[SweepItem], request: SweepRequest, ledger: Ledger | None
) -> Iterator[HeadResult | _Task]:
    """The result of each head that has one already; a task for each of the others. Every file is hashed once."""
    sources: dict[str, Source] = {}
    for item in items:
        if item.fault is not None:
            yield failed(item, SweepError(item.fault))
            continue
        try:
            source = sources.get(item.file) or sources.setdefault(item.file, Source.at(item.file))
        except OSError as bad:
            yield failed(item, bad)
            continue
        key = ledger_key(source.digest, item.head, request)
        kept = ledger.get(key, item) if ledger else None
        yield kept or _Task(item, source, key)


@dataclass(eq=False)
class _Sweep:
    """The work in progress: what is with the workers (`out`), and what lost its worker and waits for a try `alone`.

    Futures that are done queue up in `ready`. Waiting for the futures themselves is not safe from Ctrl-C: an interrupt
    in there can leave a lock behind, at which the workers' threads then wait for ever.
    """

    crew: Crew
    request: SweepRequest
    ledger: Ledger | None
    work: Work
    on_unkept: Callable[[str], None]
    out: "dict[Future[HeadResult], _Task]" = field(default_factory=dict)
    ready: "SimpleQueue[Future[HeadResult]]" = field(default_factory=SimpleQueue)
    alone: deque[_Task] = field(default_factory=deque)
    lost: Counter[_Task] = field(default_factory=Counter)

    def done(self, tasks: Iterable[_Task], should_stop: Callable[[], bool]) -> Iterator[HeadResult]:
        """Results as they come."""
        waiting = deque(tasks)
        while (waiting or self.alone or self.out) and not should_stop():
            self._hand_out(waiting)
            # All are kept before anybody hears of one: whoever hears of it may take long, or not come back.
            yield from self._finished()

    def end(self) -> None:
        """End the workers; what was finished but not asked for any more is kept."""
        self.crew.end()
        for future, task in self.out.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                self._keep(task, future.result())
        if self.ledger:
            self.ledger.prune()

    def _hand_out(self, waiting: deque[_Task]) -> None:
        """As many as keep the workers busy; those that lost a worker one by one, when nobody else is at work."""
        while waiting and len(self.out) < _HANDED_OUT * max(1, self.crew.size()):
            self._submit(waiting.popleft())
        if self.alone and not self.out:
            self._submit(self.alone.popleft())

    def _finished(self) -> list[HeadResult]:
        """What was done by now, or soon is."""
        try:
            done = [self.ready.get(timeout=_LOOK_EVERY)]
        except Empty:
            self.crew.check()
            return []
        while not self.ready.empty():
            done.append(self.ready.get())
        return [result for future in done if (result := self._taken(future)) is not None]

    def _submit(self, task: _Task) -> None:
        future = self.crew.executor.submit(self.work, task.item, self.request, task.source)
        self.out[future] = task
        future.add_done_callback(self.ready.put)

    def _taken(self, future: "Future[HeadResult]") -> HeadResult | None:
        """What became of a head, kept; None if it is to be tried again."""
        task = self.out.pop(future)
        try:
            result = future.result()
        except CancelledError:
            raise SweepError(GONE) from None
        except self.crew.lost:
            self.lost[task] += 1
            if self.lost[task] < _MOST_LOST:
                self.alone.append(task)
                return None
            return failed(task.item, SweepError("its worker was lost twice (out of memory? use fewer workers)"))
        except Exception as bad:  # noqa: BLE001 - told as the head's error
            return failed(task.item, bad)
        self._keep(task, result)
        return result

    def _keep(self, task: _Task, result: HeadResult) -> None:
        """As far as there is room: a full disk must not cost what is done."""
        if self.ledger:
            try:
                self.ledger.put(task.key, result)
            except SweepError as bad:
                self.ledger = None
                self.on_unkept(str(bad))
