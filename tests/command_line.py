"""What the tests of the command line share: running the program, and what an error must look like."""

import os
import subprocess
import sys

from click.testing import CliRunner
from support import ROOT, encoded

from polykv_core import cli

# What whoever runs the tests may have set, and what changes colours or buffers.
_UNSET = ("FORCE_COLOR", "TTY_COMPATIBLE", "PYTHONUNBUFFERED", "PYTHONIOENCODING")


def polykv(*args, answer=None):
    """Run the program in this process; `answer` is what somebody types."""
    return CliRunner(env=dict.fromkeys(_UNSET)).invoke(cli.main, [str(arg) for arg in args], input=answer)


def process_of(*args):
    """The command of the program as a process of its own."""
    return [sys.executable, "-W", "error", "-m", "polykv_core.cli", *map(str, args)]


def polykv_process(*args, env=None, **settings):
    """Run the program as a process of its own; `env` is what its environment has besides."""
    environment = {name: value for name, value in os.environ.items() if name not in _UNSET} | (env or {})
    kept = {"capture_output": True} | settings
    return subprocess.run(process_of(*args), cwd=ROOT, env=environment, check=False, **kept)


def written(folder, fields, name="fixture.json"):
    """A JSON file with these fields."""
    path = folder / name
    path.write_bytes(encoded(fields))
    return path


def assert_one_error_line(result):
    """Exit 2, nothing on standard output, and one line of error."""
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")


def one_line(text):
    """Text with its line breaks and runs of blanks made single blanks."""
    return " ".join(text.split())
