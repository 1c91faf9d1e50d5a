"""The CI examples of docs/ci.md, run as they stand in a scratch repository: they are seen to pass and to fail."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import junitparser
import pytest
import yaml
from support import ROOT, SAMPLES

DOCUMENT = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
CONFIG = json.loads(re.search(r"```json\n(.*?)```", DOCUMENT, re.DOTALL)[1])
GITHUB, COMMENT, GITLAB = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL))
SHELL = re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL)


def github_steps():
    """The shell commands of the workflow, each with whether it runs after a failure too; without the installation."""
    for step in GITHUB["jobs"]["polykv"]["steps"]:
        if "run" in step and not step["run"].startswith("pip install"):
            yield step["run"], step.get("if") == "always()"


@pytest.fixture
def repository(tmp_path):
    """A scratch repository as the document describes it, and a `polykv` to run there."""
    (tmp_path / "fixtures").mkdir()
    with gzip.open(tmp_path / "fixtures" / "head.json.gz", "wb") as packed:
        packed.write((SAMPLES / "synthetic_d16_basic.json").read_bytes())
    (tmp_path / "polykv.json").write_text(json.dumps(CONFIG))
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "polykv"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m polykv_core.cli "$@"\n')
    program.chmod(0o755)
    return tmp_path


def run(command, repository):
    """A command as a CI shell runs it."""
    environment = {
        **os.environ,
        "PATH": f"{repository / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(repository / "summary.md"),
    }
    bash = shutil.which("bash")
    return subprocess.run(
        [bash, "-e", "-c", command], cwd=repository, env=environment, capture_output=True, text=True, check=False
    )


def job(repository):
    """The workflow's steps in order; after a failure only those that run always. The exit status, and what was said."""
    status, said = 0, ""
    for command, always in github_steps():
        if status == 0 or always:
            process = run(command, repository)
            status, said = status or process.returncode, said + process.stdout + process.stderr
    return status, said


def failures(repository):
    """The failed test cases that the JUnit file tells of."""
    return sum(suite.failures for suite in junitparser.JUnitXml.fromfile(str(repository / "polykv.xml")))


def test_the_github_example_passes_with_the_gates_shown(repository):
    """Exit status 0, no failure in the JUnit file, and the summary, the report and the receipt are there."""
    status, said = job(repository)
    assert status == 0, said
    assert failures(repository) == 0
    assert "PASSED" in (repository / "summary.md").read_text()
    assert (repository / "polykv.html").exists()
    assert len(list((repository / "receipts").iterdir())) == 1


def test_the_github_example_fails_with_a_tighter_gate(repository):
    """As the document says: exit status 1, failures in the JUnit file, and the summary is written all the same."""
    (repository / "polykv.json").write_text(json.dumps(CONFIG | {"max_ppl_delta": 1.0}))
    status, said = job(repository)
    assert status == 1
    assert "FAILED" in said
    assert failures(repository) > 0
    assert "FAILED" in (repository / "summary.md").read_text()


def test_the_github_example_has_no_verdict_on_a_broken_fixture(repository):
    """Exit status 2, and the JUnit file has an error, not a failure."""
    (repository / "fixtures" / "broken.json.gz").write_bytes(b"no gzip")
    assert job(repository)[0] == 2
    suites = list(junitparser.JUnitXml.fromfile(str(repository / "polykv.xml")))
    assert sum(suite.errors for suite in suites) == 1
    assert sum(suite.failures for suite in suites) == 0


def test_the_gitlab_example_runs_the_same_command():
    """And hands its JUnit file to the merge request, also after a failure."""
    command = GITLAB["polykv"]["script"][1]
    assert command.split() == next(github_steps())[0].split()
    artifacts = GITLAB["polykv"]["artifacts"]
    assert (artifacts["when"], artifacts["reports"]["junit"]) == ("always", "polykv.xml")


def test_the_comment_s_file_is_the_summary():
    """The optional step sends the file that the replay wrote."""
    (step,) = COMMENT
    written = re.search(r"--markdown (\S+)", next(github_steps())[0])[1]
    assert f"--body-file {written}" in step["run"]


def test_the_relative_gates_and_the_verification_shown_run(repository):
    """With the receipt of the same head as the baseline; and that receipt holds."""
    baseline, check = (text.strip() for text in SHELL)
    (repository / "baseline").mkdir()
    made = run(f"{next(github_steps())[0]} --receipt baseline/head.json", repository)
    assert made.returncode == 0, made.stderr
    relative = run(baseline, repository)
    assert relative.returncode == 0, relative.stdout + relative.stderr
    (receipt,) = Path(repository / "receipts").iterdir()
    verified = run(re.sub(r"receipts/\S+", f"receipts/{receipt.name}", check), repository)
    assert verified.returncode == 0, verified.stdout + verified.stderr
