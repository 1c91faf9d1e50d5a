"""What the README and the samples' README say is what one sees."""

import re
import shlex
import subprocess
import sys

import pytest
from support import ROOT, SAMPLES

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks_after(heading, language):
    """The first code block in a language below a heading, and the plain block that follows it: what it prints."""
    section = README.split(f"\n## {heading}\n")[1]
    code, printed = re.search(rf"```{language}\n(.*?)```\n+```\n(.*?)```", section, re.DOTALL).groups()
    return code, printed


def test_the_library_example_prints_what_the_readme_shows(tmp_path):
    """The Python block runs as it stands and prints the block below it."""
    code, printed = blocks_after("Library", "python")
    (tmp_path / "sample_fixtures").symlink_to(SAMPLES)
    process = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert process.stdout == printed
    assert (tmp_path / "receipt.json").exists()


def test_the_command_line_example_prints_what_the_readme_shows(monkeypatch):
    """The command's output begins with the block below it."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    code, printed = blocks_after("Command line", "sh")
    program, *args = shlex.split(code)
    assert program == ".venv/bin/polykv"
    process = subprocess.run(
        [sys.executable, "-m", "polykv_core.cli", *args], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert process.stdout.startswith(printed)


@pytest.mark.parametrize("folder", [ROOT, ROOT / "docs", SAMPLES], ids=["README", "docs", "samples"])
def test_links_and_sample_names_lead_somewhere(folder):
    """Every relative link of the documents, and every sample they name, exists (a screenshot is one of them)."""
    found = 0
    for document in folder.glob("*.md"):
        text = document.read_text(encoding="utf-8")
        links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
        samples = re.findall(r"`((?:smollm2|synthetic|model_case)_\w+\.json(?:\.gz)?)`", text)
        missing = [link for link in links if not (folder / link).exists()]
        missing += [name for name in samples if not (SAMPLES / name).exists()]
        assert missing == []
        found += len(links) + len(samples)
    assert found > 0
