"""The doctor names what is missing, and a fix for it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from grader import doctor, sandbox, toolkit
from grader.doctor import Diagnosis
from grader.errors import InfrastructureError
from grader.sandbox import Sandbox
from grader.toolkit import Toolkit


def by_name(found: list[Diagnosis]) -> dict[str, Diagnosis]:
    return {diagnosis.what: diagnosis for diagnosis in found}


def test_this_machine_has_what_the_tests_need() -> None:
    assert all(found.state for found in doctor.needed())


def test_it_runs_before_anything_is_installed(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(root / "grader" / "doctor.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) in ((0, ""), (3, ""))
    if done.returncode:
        assert "pip" in done.stderr


def test_a_missing_compiler_has_a_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    compiler = by_name(list(doctor.needed()))["C++ compiler"]
    assert compiler.state is False
    assert compiler.fix == "apt install g++"


def test_missing_pieces_are_printed_one_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "needed", lambda: iter([Diagnosis("X", False, "no X", "get X")]))
    monkeypatch.setattr(doctor, "pip", lambda: Diagnosis("pip", True, "pip 1"))
    assert doctor.preflight() == 3
    assert capsys.readouterr().err == "X: no X. Fix: get X\n"


def test_nothing_is_printed_when_all_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "needed", lambda: iter([Diagnosis("X", True, "X 1")]))
    monkeypatch.setattr(doctor, "pip", lambda: Diagnosis("pip", True, "pip 1"))
    assert doctor.preflight() == 0
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def no_assignments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing has to be compiled to examine the machine."""
    from grader import places

    monkeypatch.setattr(places, "assignments", lambda: tmp_path)


@pytest.mark.usefixtures("no_assignments")
def test_everything_is_examined() -> None:
    found = by_name(list(doctor.examine()))
    assert {"Python", "C++ compiler", "cmake", "ninja", "sandbox", "build cache"} <= {*found}
    assert all(diagnosis.says for diagnosis in found.values())
    assert found["build cache"].state is True


@pytest.mark.usefixtures("no_assignments")
def test_a_missing_bubblewrap_is_a_pity_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "why_not_bubblewrap", lambda: "bwrap is not installed")
    monkeypatch.setattr(sandbox, "choose", sandbox.choose.__wrapped__)
    found = doctor.sandboxed()
    assert found.state is None
    for sentence in sandbox.lacks(Sandbox("process")):
        assert sentence in found.says
    assert found.fix == "apt install bubblewrap"
    assert "process only (bwrap is not installed)" in found.says


def test_a_sandbox_that_is_asked_for_and_does_not_work_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "why_not_bubblewrap", lambda: "bwrap is not installed")
    monkeypatch.setattr(sandbox, "choose", sandbox.choose.__wrapped__)
    monkeypatch.setenv(sandbox.VARIABLE, "bubblewrap")
    found = doctor.sandboxed()
    assert (found.state, found.fix) == (False, "apt install bubblewrap")


@pytest.mark.usefixtures("no_assignments")
def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = by_name(list(doctor.examine()))
    assert found["cmake"].state is False
    assert found["cmake"].fix == "pip install cmake"


@pytest.mark.usefixtures("no_assignments")
def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERNEL_GRADER_CACHE", str(tmp_path / "file" / "cache"))
    found = by_name(list(doctor.examine()))["build cache"]
    assert found.state is False
    assert "KERNEL_GRADER_CACHE" in found.fix


def test_a_broken_assignment_is_shown(monkeypatch: pytest.MonkeyPatch, assignments: Path) -> None:
    from grader import places

    monkeypatch.setattr(places, "assignments", lambda: assignments / "broken")
    found = by_name(list(doctor.examine()))["assignments"]
    assert found.state is False
    assert "assignment.toml" in found.says


# GPUs --------------------------------------------------------------------------------------------


def module(name: str, **members: object) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(members)
    return made


def imports(monkeypatch: pytest.MonkeyPatch, **found: ModuleType | Exception) -> None:
    """Says what an import of grader.gpu or of cuda.bindings.nvrtc gives."""

    def load(name: str) -> ModuleType:
        result = found.get(name.split(".")[-1], ImportError(f"No module named {name!r}"))
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(importlib, "import_module", load)


def refuse() -> str:
    raise InfrastructureError("the driver is too old. Fix: install driver 580")


def test_a_gpu_that_is_there_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    imports(monkeypatch, gpu=module("gpu", describe=lambda: "H200, driver 580"))
    assert by_name(list(doctor.gpu()))["GPU"] == Diagnosis("GPU", True, "H200, driver 580")


def test_a_gpu_that_cannot_be_used_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    imports(monkeypatch, gpu=module("gpu", describe=refuse))
    found = by_name(list(doctor.gpu()))["GPU"]
    assert found == Diagnosis(
        "GPU", None, "the driver is too old. (not needed on a CPU)", "install driver 580"
    )


@pytest.mark.parametrize("broken", [ImportError("No module named 'cuda'"), module("gpu")])
def test_without_the_extra_a_gpu_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch, broken: ModuleType | Exception
) -> None:
    imports(monkeypatch, gpu=broken)
    found = by_name(list(doctor.gpu()))["GPU"]
    assert (found.state, found.fix) == (None, doctor.CUDA_EXTRA)
    assert found.says.startswith("cannot be asked: ")


def test_the_compiler_of_our_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    imports(monkeypatch, nvrtc=module("nvrtc", nvrtcVersion=lambda: (0, 13, 0)))
    assert by_name(list(doctor.gpu()))["NVRTC"] == Diagnosis("NVRTC", True, "13.0")

    def no_library() -> str:
        raise RuntimeError("Failed to find libnvrtc")

    imports(monkeypatch, nvrtc=module("nvrtc", nvrtcVersion=no_library))
    found = by_name(list(doctor.gpu()))["NVRTC"]
    assert (found.state, found.fix) == (None, doctor.CUDA_EXTRA)
    assert "Failed to find libnvrtc" in found.says
    imports(monkeypatch)
    assert by_name(list(doctor.gpu()))["NVRTC"].says == "not there (not needed on a CPU)"


def test_a_machine_without_anything_for_a_gpu_is_fine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_package(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    imports(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolkit, "_places", lambda: iter([("PATH", None)]))
    monkeypatch.setattr(metadata, "version", no_package)
    found = list(doctor.gpu())
    assert {diagnosis.state for diagnosis in found} == {None}
    assert all(diagnosis.fix and "not needed on a CPU" in diagnosis.says for diagnosis in found)
    assert by_name(found)["nvcc"].says == "nvcc is missing: looked in PATH. (not needed on a CPU)"
    assert by_name(found)["nvcc"].fix == toolkit.FIX


def test_what_is_there_for_a_gpu_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kit = Toolkit(tmp_path / "bin" / "nvcc", tmp_path, tmp_path, tmp_path, (13, 0))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "compute-sanitizer").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "compute-sanitizer").chmod(0o755)
    monkeypatch.setattr(toolkit, "find", lambda: kit)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(metadata, "version", lambda name: "13.0.3")
    found = by_name(list(doctor.gpu()))
    assert found["nvcc"] == Diagnosis("nvcc", True, f"13.0, {kit.nvcc}")
    assert found["cuda-bindings"] == Diagnosis("cuda-bindings", True, "13.0.3")
    assert found["compute-sanitizer"].says == str(tmp_path / "bin" / "compute-sanitizer")
