"""Finding cmake, ninja and a C++ compiler."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from grader import tools
from grader.errors import InfrastructureError


def test_the_compiler_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen = tmp_path / "my-c++"
    chosen.write_text("#!/bin/sh\n")
    chosen.chmod(0o755)
    monkeypatch.setenv("CXX", str(chosen))
    assert tools.compiler() == str(chosen)
    monkeypatch.delenv("CXX")
    assert tools.compiler() == (shutil.which("g++") or shutil.which("clang++"))


def test_without_a_compiler_the_machine_is_at_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(InfrastructureError, match="no C\\+\\+ compiler: apt install"):
        tools.compiler()


def test_missing_build_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(InfrastructureError, match="cmake is missing: pip install cmake"):
        tools.cmake_and_ninja()


def test_a_program_that_changes_has_another_identity(tmp_path: Path) -> None:
    program = tmp_path / "c++"
    program.write_text("1.0")
    seen = {tools.identity(program)}
    program.write_text("1.0.1")
    seen.add(tools.identity(program))
    os.utime(program, (1, 1))
    seen.add(tools.identity(program))
    assert len(seen) == 3


def test_only_a_compiler_outside_of_usr_has_to_be_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tools, "compiler", lambda: "/usr/bin/g++")
    assert tools.compiler_folders() == []
    monkeypatch.setattr(tools, "compiler", lambda: str(tmp_path / "bin" / "g++"))
    assert tools.compiler_folders() == [tmp_path]
