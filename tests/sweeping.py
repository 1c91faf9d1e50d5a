"""What the tests of the sweep share: small files of many heads, and work that a worker process can import.

A work function leaves its marks in files beside the fixture, for it runs in another process.
"""

import os
import signal
import time
from pathlib import Path

from support import encoded, fixture_fields

from polykv_core import load_fixture
from polykv_core.packs import pack_bytes
from polykv_core.sweep.work import work

# Much longer than anything takes: a test that waits so long has failed.
PATIENCE = 60.0
KS = (2, 3, 6)


def head(layer=0, index=0, **changes):
    """A small head as a fixture, others at every place."""
    place = 100 * layer + index
    fields = fixture_fields(**{"draw": place, "seed": 7, **changes})
    return load_fixture(encoded({**fields, "model_id": f"tiny:layer{layer}:head{index}"}))


def pack(folder, layers=2, heads=3, name="heads.safetensors", about=None):
    """A compact file of so many layers and heads."""
    fixtures = {f"L{layer}_H{index}": head(layer, index) for layer in range(layers) for index in range(heads)}
    path = Path(folder) / name
    path.write_bytes(pack_bytes(fixtures, about=about))
    return path


def wait_for(found, patience=PATIENCE):
    """Wait until something is there."""
    over = time.monotonic() + patience
    while not (there := found()):
        assert time.monotonic() < over, "waited in vain"
        time.sleep(0.01)
    return there


def log_of(file):
    """Where the work on a file's heads is written down."""
    return Path(f"{file}.log")


def worked_on(file):
    """The heads that a worker has begun, in that order; one that was begun twice stands there twice."""
    return log_of(file).read_text().split() if log_of(file).exists() else []


def logged(item, request, source):
    """The work, written down: one short write to the end of a file is whole, whoever else writes."""
    with log_of(item.file).open("ab", buffering=0) as log:
        log.write(f"{item.head}\n".encode())
    return work(item, request, source)


def killed_once(item, request, source):
    """The work, but the first to come to L0_H1 dies of it."""
    mark = Path(f"{item.file}.killed")
    if item.head == "L0_H1" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return logged(item, request, source)


def killed_always(item, request, source):
    """The work, but whoever comes to L0_H1 dies of it."""
    if item.head == "L0_H1":
        os.kill(os.getpid(), signal.SIGKILL)
    return logged(item, request, source)


def raising(item, request, source):
    """The work, but L0_H1 raises what nobody foresaw."""
    if item.head == "L0_H1":
        raise ZeroDivisionError("a fault of the program")
    return work(item, request, source)


def held_up(item, request, source):
    """The work, but all heads of layer 1 wait until there is a file FILE.go."""
    if item.layer == 1:
        Path(f"{item.file}.waits").touch()
        wait_for(Path(f"{item.file}.go").exists)
    return logged(item, request, source)


def touched_then_waiting(mark):
    """A call that says that it has begun, and does not end by itself."""
    mark.touch()
    time.sleep(PATIENCE)
