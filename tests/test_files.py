"""Writing a file whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from polykv_core import files
from polykv_core.files import write_whole


def test_a_new_file_has_the_bytes_and_the_usual_permissions(tmp_path):
    """A new file holds exactly the data, with the permissions any new file gets."""
    write_whole(tmp_path / "receipt.json", b"{}\r\n\xff")
    (tmp_path / "ordinary").write_bytes(b"")
    assert (tmp_path / "receipt.json").read_bytes() == b"{}\r\n\xff"
    assert (tmp_path / "receipt.json").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_an_old_file_is_replaced_and_keeps_its_permissions(tmp_path):
    """The new content replaces the old one, longer or not; the permissions stay."""
    path = tmp_path / "receipt.json"
    path.write_bytes(b"old and longer")
    path.chmod(0o640)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    "fault", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "interrupt"]
)
def test_a_failure_keeps_the_old_content_and_leaves_no_litter(tmp_path, monkeypatch, step, fault):
    """Whichever step fails, and however, the old file is untouched and nothing else lies there."""

    def fail(*_):
        raise fault

    monkeypatch.setattr(*{"fsync": (files.os, "fsync"), "replace": (Path, "replace")}[step], fail)
    path = tmp_path / "receipt.json"
    path.write_bytes(b"old")
    with pytest.raises(type(fault)):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["receipt.json"]


def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path):
    """Writing through a link changes the file it points to, in that file's folder."""
    (tmp_path / "far").mkdir()
    target = tmp_path / "far" / "target.json"
    target.write_bytes(b"old")
    link = tmp_path / "link.json"
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path / "far") == ["target.json"]


def test_a_link_to_nothing_yet_makes_its_target(tmp_path):
    """A link whose target does not exist stays a link, and the target comes to be."""
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "target.json")
    write_whole(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "target.json").read_bytes() == b"new"


def test_a_pipe_gets_the_bytes_and_stays_a_pipe(tmp_path):
    """A FIFO is written to directly, and not replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"data")
    assert os.read(reader, 100) == b"data"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["", "sub", "sub/", "missing/", "missing/receipt.json"])
def test_what_is_no_place_for_a_file_is_refused(tmp_path, monkeypatch, name):
    """A folder, an empty name, a trailing slash or a missing folder raises OSError and makes nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    with pytest.raises(OSError, match=r"Is a directory|No such file"):
        write_whole(name, b"data")
    assert os.listdir(tmp_path) == ["sub"]
    assert os.listdir(tmp_path / "sub") == []


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    """A file its owner protects is refused, though renaming over it would be possible."""
    path = tmp_path / "receipt.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(
        files.os, "access", lambda *_: False
    )  # root may write everything, so permissions alone would not do
    with pytest.raises(PermissionError):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
