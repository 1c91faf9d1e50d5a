"""The dashboard as a command: what the wheel carries, what is refused before the server starts, how it is started."""

import os
import runpy
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile

import pytest
from click.testing import CliRunner
from support import ROOT, SAMPLES, encoded, fixture_fields, fresh_python

from pages.ui import samples
from polykv_core import cli, launch, load_fixture
from polykv_core.packs import pack_bytes

FIXTURE = SAMPLES / "synthetic_d16_basic.json"


@pytest.fixture
def free_port():
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def started(monkeypatch):
    """The command lines that Streamlit would have been run with."""
    runs = []
    for variable in (launch.FIXTURE_VARIABLE, launch.HEAD_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sys, "argv", ["polykv"])
    monkeypatch.setattr(runpy, "run_module", lambda name, **_: runs.append([name, *sys.argv[1:]]))
    return runs


def dashboard(*args):
    """Run `polykv dashboard` in this process."""
    result = CliRunner().invoke(cli.main, ["dashboard", *map(str, args)])
    assert result.stdout == ""
    return result


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what the wheel puts into site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(folder / "site-packages")
    return folder / "site-packages"


@pytest.fixture(scope="module")
def wheel(installed):
    """The names of the files in the wheel."""
    return {path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()}


def test_the_wheel_carries_the_whole_dashboard(wheel):
    """App, configuration, every page and every sample, side by side as in a checkout."""
    files = [ROOT / "app.py", ROOT / ".streamlit" / "config.toml", *ROOT.glob("pages/**/*.py"), *SAMPLES.iterdir()]
    assert len(files) > 10
    assert {f"polykv_core/_dashboard/{path.relative_to(ROOT).as_posix()}" for path in files} <= wheel


def test_the_wheel_carries_the_engine_and_nothing_else(wheel):
    """No tests, no benchmarks, no bytecode; the checkout itself has no copy of the dashboard."""
    files = [path for path in ROOT.glob("polykv_core/**/*") if path.is_file() and path.suffix != ".pyc"]
    engine = {path.relative_to(ROOT).as_posix() for path in files}
    assert {".jinja", ".css"} <= {path.suffix for path in files}  # what the report is made of
    assert engine <= wheel
    assert {name.split("/")[0] for name in wheel if ".dist-info/" not in name} == {"polykv.py", "polykv_core"}
    assert not [name for name in wheel if "__pycache__" in name or "test" in name]
    assert not (ROOT / "polykv_core" / "_dashboard").exists()


def test_a_checkout_serves_its_own_dashboard(started, free_port):
    """Without a word said, and with a port."""
    assert dashboard().exit_code == 0
    assert dashboard("--port", free_port).exit_code == 0
    run = ["streamlit", "run", str(ROOT / "app.py"), "--server.fileWatcherType=none"]
    assert started == [run, [*run, f"--server.port={free_port}"]]


def test_an_installed_package_serves_the_copy_in_it(monkeypatch, tmp_path):
    """The checkout it was built from may be gone, or be somebody else's folder."""
    (tmp_path / "_dashboard").mkdir()
    monkeypatch.setattr(launch, "__file__", str(tmp_path / "launch.py"))
    assert launch.dashboard_folder() == tmp_path / "_dashboard"


def test_the_fixture_is_handed_on_by_its_full_path(started, monkeypatch):
    """The server may run in another folder than the shell."""
    monkeypatch.chdir(SAMPLES)
    assert dashboard(FIXTURE.name).exit_code == 0
    assert os.environ.pop(launch.FIXTURE_VARIABLE) == str(FIXTURE)
    assert len(started) == 1


@pytest.mark.parametrize(("asked", "head"), [("#b", "b"), ("", "")])
def test_a_head_of_a_compact_file_may_be_given(started, tmp_path, asked, head):
    """As FILE#HEAD; without a head the page offers all of the file's."""
    fixture = load_fixture(FIXTURE)
    path = tmp_path / "two.safetensors"
    path.write_bytes(pack_bytes({"a": fixture, "b": fixture}))
    assert dashboard(f"{path}{asked}").exit_code == 0
    assert (os.environ.pop(launch.FIXTURE_VARIABLE), os.environ.pop(launch.HEAD_VARIABLE)) == (str(path), head)
    assert len(started) == 1


def test_a_head_that_the_file_does_not_have_is_refused_before_the_server_starts(started, tmp_path):
    """With the names of those it has."""
    path = tmp_path / "one.safetensors"
    path.write_bytes(pack_bytes({"a": load_fixture(FIXTURE)}))
    result = dashboard(f"{path}#z")
    assert (result.exit_code, started) == (2, [])
    assert "has no head 'z'; it has a" in result.stderr


ZERO_ROW = fixture_fields()
ZERO_ROW["queries"][1]["keys"][0] = [0.0] * 8


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "no valid JSON at line 1"),
        (encoded(fixture_fields() | {"head_dim": 3}), "output_projection row 0 has 8 numbers"),
        (encoded(ZERO_ROW), "query 1, keys row 0 is all zeros"),
        (None, "cannot read "),
    ],
)
def test_a_faulty_fixture_is_refused_before_the_server_starts(started, tmp_path, content, reason):
    """One line that says what is wrong and in which file, exit 2."""
    path = tmp_path / "mine.json"
    if content is not None:
        path.write_bytes(content)
    result = dashboard(path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert reason in result.stderr
    assert str(path) in result.stderr
    assert result.stderr.count("\n") == 1
    assert started == []


def test_a_port_in_use_is_refused_before_the_server_starts(started):
    """One line that names it and the way out, exit 2."""
    with socket.create_server(("localhost", 0)) as other:
        port = other.getsockname()[1]
        result = dashboard("--port", port)
    assert result.exit_code == 2
    assert result.stderr == (
        f"error: cannot listen on port {port}: Address already in use; give another one with --port\n"
    )
    assert started == []


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http"])
def test_a_port_that_is_none_is_refused(started, port):
    """As every wrong option is."""
    result = dashboard(f"--port={port}")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: Invalid value for '--port': ")
    assert started == []


@pytest.mark.skipif(os.name == "nt", reason="an interrupt is sent in another way there")
def test_the_installed_dashboard_listens_and_ends_quietly_when_interrupted(installed, free_port, tmp_path):
    """Started from any folder it answers on its port, talks of no error, and an interrupt ends it with exit 0."""
    command = [sys.executable, "-m", "polykv_core.cli", "dashboard", f"--port={free_port}", str(FIXTURE)]
    environment = {**os.environ, "PYTHONPATH": str(installed), "STREAMLIT_SERVER_HEADLESS": "true"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            answer = _answer(f"http://localhost:{free_port}/_stcore/health", server)
            server.send_signal(signal.SIGINT)
            printed, complaints = server.communicate(timeout=30)
        finally:
            server.kill()
    assert answer == b"ok"
    assert f"http://localhost:{free_port}" in printed
    # The configuration beside the app is in force: it would be announced otherwise.
    assert "usage statistics" not in printed
    assert server.returncode == 0
    assert "Traceback" not in complaints


def test_the_given_fixture_is_the_first_one_offered_by_the_installed_dashboard(installed, tmp_path):
    """It is on screen at the first visit, the samples stand behind it, and one of its name is another entry."""
    path = tmp_path / FIXTURE.name
    path.write_bytes(encoded(fixture_fields() | {"model_id": "given"}))
    program = f"""
        import os
        os.chdir({str(tmp_path)!r})  # away from the checkout, or that would be imported
        from streamlit.testing.v1 import AppTest
        from polykv_core.launch import dashboard_folder
        assert str(dashboard_folder()).startswith({str(installed)!r})
        app = AppTest.from_file(str(dashboard_folder() / "app.py"), default_timeout=120).run()
        assert not app.exception
        print(*app.selectbox("sample").options, sep="\\n")
        print("shown:", app.code[0].value)
    """
    environment = {"PYTHONPATH": str(installed), launch.FIXTURE_VARIABLE: str(path)}
    printed = fresh_python(program, **environment).splitlines()
    assert printed == [FIXTURE.name, *(sample.title for sample in samples.SAMPLES), "shown: given"]


def _answer(url, server):
    """What a server that is just starting says at an address."""
    for _ in range(600):
        assert server.poll() is None, server.stderr.read()
        try:
            with urllib.request.urlopen(url, timeout=1) as reply:  # noqa: S310 - our own address
                return reply.read()
        except OSError:
            time.sleep(0.1)
    pytest.fail("the dashboard did not start within a minute")
