"""The uploaded file of a session, at most one: taken out of the uploader, and held on disk until it is let go.

Only facts and numbers are kept of it in memory. Its bytes lie in a temporary file without a name, which is gone when
the file is cleared, when another one comes, or when the session ends.
"""

import tempfile
import threading
import weakref
from dataclasses import dataclass, field
from typing import IO

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.ui import jobs, memory
from polykv_core import PolyKvError, heads_in

REPLAY_JOB, EXPLAIN_JOB, CHANGES_JOB, VERIFY_JOB = "replay_job", "explain_job", "changes_job", "verify_job"
SWEEP_JOB, SPLITS_JOB = "sweep_job", "splits_job"

FIXTURE_KINDS = ["json", "gz", "safetensors", "npz"]
LAST_GOOD = "last_good"
SHOWN_DIGEST = "shown_digest"

_HELD = "held_upload"
_COUNT = "upload_count"


@dataclass(eq=False)
class Upload:
    """A file as it came."""

    number: int
    name: str
    heads: tuple[str, ...]
    _file: IO[bytes]
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, number: int, name: str, content: bytes) -> "Upload":
        """Put a file's bytes aside, and note which heads it holds if it is a compact one."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed below
        file.write(content)
        upload = cls(number, name, _heads(content), file)
        weakref.finalize(upload, file.close)
        return upload

    def read(self) -> bytes:
        """The bytes; the replay and its explanation may ask for them at the same time."""
        with self._lock:
            self._file.seek(0)
            return self._file.read()


def held() -> Upload | None:
    """The session's upload, if it has one."""
    upload: Upload | None = st.session_state.get(_HELD)
    return upload


def draw() -> None:
    """The uploader, and the file that is held with the button that lets it go."""
    limit = st.get_option("server.maxUploadSize")
    upload = held()
    # Always there, so that what stands below keeps its place, and a field that is being typed in its text.
    row = st.container(horizontal=True, vertical_alignment="center", key="held_upload_row")
    if upload is not None:
        with row:
            st.text(upload.name)
            st.button(
                "Clear",
                key="clear_upload",
                on_click=clear,
                icon=":material/delete:",
                help="Frees the file and its result on the server, and comes back to the sample.",
            )
    st.file_uploader(
        "Upload another fixture" if upload else "Or upload a captured fixture",
        type=FIXTURE_KINDS,
        key=f"upload_{_count()}",
        on_change=_take,
        args=(_count(),),
        help="One attention head as JSON, plain or gzipped, or one or many in a compact .safetensors or .npz file. It "
        "stays in this browser session and is not shared.",
    )
    st.caption(f"Over {limit} MB: polykv replay FILE")


def clear() -> None:
    """Let the upload go, with everything that came of it."""
    for slot in (REPLAY_JOB, EXPLAIN_JOB, CHANGES_JOB, VERIFY_JOB, SWEEP_JOB, SPLITS_JOB):
        jobs.forget(slot)
    for name in (_HELD, LAST_GOOD, SHOWN_DIGEST):
        st.session_state.pop(name, None)
    memory.give_back()


def release() -> None:
    """Free what uploaders hold of this session, once it is taken: Streamlit itself keeps it until the session ends."""
    context = get_script_run_ctx()
    if context is not None:
        context.uploaded_file_mgr.remove_session_files(context.session_id)


def _take(count: int) -> None:
    """Take a file out of the uploader, which then waits for the next one."""
    file = st.session_state.get(f"upload_{count}")
    if file is None or count != _count():
        return  # freeing the file of an uploader that is still on screen calls this a second time
    memory.give_back_large_blocks()
    number = count + 1
    st.session_state[_COUNT] = number
    st.session_state[_HELD] = Upload.of(number, file.name, file.getvalue())
    release()


def _heads(content: bytes) -> tuple[str, ...]:
    """The names of a compact file's heads; what is no such file, or a damaged one, is told where it is replayed."""
    try:
        return tuple(head.name for head in heads_in(content))
    except PolyKvError:
        return ()


def _count() -> int:
    count: int = st.session_state.get(_COUNT, 0)
    return count
