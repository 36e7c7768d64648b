"""`pip install .` into a fresh environment: complete, usable anywhere, and without secrets."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bin folder of a virtual environment into which README's `pip install .` was run."""
    folder = tmp_path_factory.mktemp("package")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = getattr(sys, "_base_executable", sys.executable)
    pip = folder / "pip"
    pip.write_text(f'#!/bin/sh\nexec {python} -m pip --python {folder}/venv/bin/python "$@"\n')
    pip.chmod(pip.stat().st_mode | stat.S_IXUSR)
    copy = folder / "repository"  # pip must not leave a build folder in the real one
    ignored = shutil.ignore_patterns(".venv", "build", ".git", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, copy, ignore=ignored)
    block = "pip install .\n"
    assert f"```sh\n{block}```" in (ROOT / "README.md").read_text()
    done = subprocess.run(
        ["bash", "-euc", block],
        cwd=copy,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(copy)  # the repository is not needed any more
    return folder / "venv" / "bin"


def test_grades_anywhere(installed: Path, tmp_path: Path) -> None:
    work = tmp_path / "mine"
    shutil.copytree(ROOT / "solution" / "layernorm", work)
    env = {**os.environ, "KERNEL_GRADER_CACHE": str(tmp_path / "cache")}
    del env["PATH"]  # nothing of the test environment may help
    env["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        [installed / "grader", "grade", "mine", "--part", "forward", "--json", "score.json"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    score = json.loads((tmp_path / "score.json").read_text())
    assert score["status"] == "graded"
    assert score["score"] == 30
    # the native parts travelled in the wheel: nothing but the submission was compiled
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["modules"]


def test_holds_no_solution_and_no_submission(installed: Path) -> None:
    package = next((installed.parent / "lib").glob("python*/site-packages/grader"))
    files = [path for path in package.rglob("*") if path.is_file()]
    assert any(path.name == "assignment.toml" for path in files)
    assert any(path.name == "binding.o" for path in files)
    own = package / "native" / "gpu"  # the grader's kernels
    assert not [path for path in files if path.suffix == ".cu" and path.parent != own]
    secrets = ["BEGIN SOLUTION\n", "expect.toml"]
    for path in files:
        if path.suffix not in (".o", ".a", ".so", ".pyc"):
            text = path.read_text(encoding="utf-8")
            assert not any(f"// {secret}" in text for secret in secrets), path
