"""A worker process: calls come in, what they give goes out. It ends with the process that started it.

A call is a function, named by its module, and its arguments. Both ends are this package, and the pipes between them are
their own; so calls and what they give are pickled.
"""

import os
import pickle
import struct
import sys
from queue import SimpleQueue
from threading import Thread
from typing import IO

_LENGTH = struct.Struct(">Q")


def main() -> None:
    """Answer calls until there are no more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not print between the answers
    calls: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(calls,), daemon=True).start()
    while True:
        send(answers, _answer(calls.get()))


def send(stream: IO[bytes], message: bytes) -> None:
    """Write a message. Raises OSError if the other end is gone."""
    stream.write(_LENGTH.pack(len(message)) + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message; None if the other end is gone, even in the middle of one."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = stream.read(length)
    return message if len(message) == length else None


def _listen(calls: "SimpleQueue[bytes]") -> None:
    """Queue what comes in. When nothing more can come, nobody waits for an answer either: end, even amid a head."""
    while (message := receive(sys.stdin.buffer)) is not None:
        calls.put(message)
    os._exit(0)


def _answer(call: bytes) -> bytes:
    """What a call gives, or what it raises."""
    try:
        function, arguments = pickle.loads(call)  # noqa: S301 - from the process that started this one
        return pickle.dumps((function(*arguments), None))
    except Exception as bad:  # noqa: BLE001 - raised again where the call was made
        return _raised(bad)


def _raised(bad: Exception) -> bytes:
    """An exception as an answer; one that does not survive that by its kind and text."""
    try:
        answer = pickle.dumps((None, bad))
        pickle.loads(answer)  # noqa: S301 - made a line above
    except Exception:  # noqa: BLE001 - an exception may do anything in there
        return pickle.dumps((None, RuntimeError(f"{type(bad).__name__}: {bad}")))
    return answer
