"""What submissions are linked with: compiled once, kept, and never the student's fault."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader import native_parts
from grader.assignment import Assignment, load
from grader.errors import InfrastructureError


def test_a_cache_that_cannot_be_written_is_named(
    saxpy: Assignment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNEL_GRADER_CACHE", str(tmp_path / "file"))
    with pytest.raises(InfrastructureError, match=r"cannot write the build cache .*KERNEL_GRADER"):
        native_parts.native(saxpy)


def test_a_compiler_that_does_not_work_is_not_the_students_fault(
    saxpy: Assignment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho no licence >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    monkeypatch.setenv("KERNEL_GRADER_CACHE", str(tmp_path / "cache"))
    with pytest.raises(InfrastructureError, match="cannot compile the native parts of saxpy"):
        native_parts.native(saxpy)
    assert not list((tmp_path / "cache" / "native").iterdir())


@pytest.mark.slow
def test_a_copy_of_an_assignment_has_native_parts_of_its_own(
    saxpy: Assignment, cache: Path, tmp_path: Path
) -> None:
    native_parts.native(saxpy)
    copy = shutil.copytree(saxpy.folder, tmp_path / "copy")
    assert native_parts.native(load(copy)).binding.parent.name == "copy"


@pytest.mark.slow
def test_a_binding_that_does_not_compile_is_not_the_students_fault(
    assignments: Path, tmp_path: Path
) -> None:
    shutil.copytree(assignments / "saxpy", tmp_path / "saxpy")
    (tmp_path / "saxpy" / "binding.cpp").write_text("#error no binding(launch_saxpy)\n")
    with pytest.raises(InfrastructureError, match="cannot compile the native parts of saxpy"):
        native_parts.native(load(tmp_path / "saxpy"))


def test_native_parts_are_kept(
    saxpy_native: Assignment, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(native_parts, "_compile", None)
    parts = native_parts.native(saxpy_native)
    assert parts.binding.is_relative_to(cache)
    assert parts.runtime.is_file()
