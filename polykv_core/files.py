"""Writing a file whole or not at all."""

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Put data at a path so that nobody ever sees half of it. Raises OSError, and then leaves everything as it was.

    The data goes to a new file in the same folder, which then takes the place of the old one. A symbolic link stays,
    and the file it points to is replaced. A device or a pipe (/dev/null, a FIFO) gets the bytes directly, for it holds
    nothing that could be half.
    """
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        Path(path).write_bytes(data)  # a folder is refused here
        return
    if not os.path.basename(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if mode is not None and not os.access(path, os.W_OK):
        # Renaming over it would need no permission of the file's own; its owner wants it to stay.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))

    target = Path(os.path.realpath(path))
    fresh = target.with_name(f".polykv-{secrets.token_hex(8)}.tmp")
    try:
        with fresh.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            fresh.chmod(stat.S_IMODE(mode))
        fresh.replace(target)
    except BaseException:  # an interrupt, too, must leave no litter
        with suppress(OSError):
            fresh.unlink()
        raise


def _mode(path: str | os.PathLike[str]) -> int | None:
    """Kind and permissions of what a path leads to; None where there is nothing yet."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None
