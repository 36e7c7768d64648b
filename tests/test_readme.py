"""Every command block of the README is run, as it stands; outputs are those of the commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like the repository, where commands may leave files."""
    for entry in ROOT.iterdir():
        if entry.name not in (".git", "build", "score.json"):
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: block.splitlines()[0])
def test_shell_block(block: str, checkout: Path) -> None:
    if block == "make test\n":
        # this very test runs in it; .ci/run must call it
        assert re.search(r"^make test$", (ROOT / ".ci" / "run").read_text(), re.M)
        return
    if block == "pip install .\n":
        return  # tests/test_package.py runs it, and uses what it installed
    folder = ROOT if block.startswith("make") else checkout  # make follows no links
    done = run(block, folder)
    expected = 1 if "grader check starter" in block else 0
    assert done.returncode == expected, done.stdout + done.stderr


@pytest.mark.parametrize("block", blocks("python"))
def test_python_block(block: str, checkout: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"-?\d\.\d", done.stdout)) >= 8


@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.splitlines()[0])
def test_an_output_is_what_the_command_prints(block: str) -> None:
    """Lines between two `...` follow each other, and what stands further down comes later."""
    command, _, shown = block.partition("\n")
    words = command.removeprefix("$ grader ").split()
    done = subprocess.run(
        [sys.executable, "-m", "grader", *words],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    left = f"\n{done.stdout}"
    for piece in f"\n{shown}".split("\n..."):
        assert piece in left, piece
        left = left[left.index(piece) + len(piece) :]


def test_both_outputs_are_shown() -> None:
    assert [block.split()[2] for block in blocks("console")] == ["check", "profile"]
