"""The doctor names what is missing, and a fix for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grader import doctor, sandbox
from grader.doctor import Diagnosis


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
    found = by_name(list(doctor.examine()))["sandbox"]
    assert found.state is None
    assert found.fix == "apt install bubblewrap"
    assert "process only (bwrap is not installed)" in found.says


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
