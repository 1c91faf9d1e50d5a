"""Standard output and error, safely: text is data, whole outputs, and failures that can be told from verdicts."""

import errno
import os
import sys
import textwrap
from contextlib import suppress

_LINE = 79


def inert(text: str) -> str:
    """Text as one line that does nothing to a terminal: newlines, control and bidi characters and the like escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def wrapped(start: str, text: str) -> str:
    """Prose in lines of a terminal's usual width, hanging behind its start."""
    return textwrap.fill(text, _LINE, initial_indent=start, subsequent_indent=" " * len(start))


def complain(kind: str, message: str) -> None:
    """One line on standard error. Where nobody can read it, it is lost, and that is no second error."""
    if sys.stderr is None:
        return
    with suppress(OSError, ValueError):
        sys.stderr.write(f"{kind}: {inert(message)}\n")
        sys.stderr.flush()


def print_text(text: str) -> None:
    """Text to standard output; what its encoding lacks is escaped. Raises OSError."""
    print_bytes(text.encode(getattr(sys.stdout, "encoding", "utf-8"), "backslashreplace"))


def print_bytes(data: bytes) -> None:
    """Bytes to standard output as they are, and out of every buffer. Raises OSError."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError:
        drop_output()
        raise


def drop_output() -> None:
    """Send what is still buffered for standard output nowhere, or the interpreter would try it again on its way out."""
    with suppress(OSError, AttributeError):
        output = sys.stdout.fileno()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, output)
        os.close(nowhere)


def is_standard_output(path: str) -> bool:
    """Whether a path is another name of standard output: /dev/stdout, or the file that output is redirected to."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))
    except (OSError, ValueError):
        return False
