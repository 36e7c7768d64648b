"""The emulator's checkers: programs with one fault each, and right ones of many styles.

A comment on the very line says what is to be found there: `// expect: error race_shared, warning
leak`. Nothing else may be found anywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from grader.emulator.program import build, runtime_library
from grader.rationales import RATIONALES

PROGRAMS = Path(__file__).parent / "emulator" / "checks"
COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]
WRONG = sorted(path.stem for path in PROGRAMS.glob("*.cu"))
RIGHT = sorted(path.stem for path in (PROGRAMS / "clean").glob("*.cu"))

Found = set[tuple[str, int, str, str]]  # file, line, severity, kind


def expected(source: Path) -> Found:
    """What the comments of a source say."""
    found: Found = set()
    for number, line in enumerate(source.read_text().splitlines(), start=1):
        comment = re.search(r"// expect: (.*)$", line)
        for one in comment[1].split(", ") if comment else []:
            severity, kind = one.split(" ")
            found.add((source.name, number, severity, kind))
    return found


def check(program: Path, **settings: int) -> tuple[Found, str]:
    """Run a program with the checkers on; what they found, and all that was told."""
    environment = os.environ | {f"EMULATOR_{key.upper()}": str(x) for key, x in settings.items()}
    environment |= {"EMULATOR_CHECK": "1", "EMULATOR_STEPS": "100000000"}
    done = subprocess.run(
        [program], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = re.findall(
        r"^(\S+):(\d+): (error|warning|advice): .* \[(\w+)\]$", done.stderr, re.MULTILINE
    )
    return {(file, int(line), severity, kind) for file, line, severity, kind in lines}, done.stderr


@pytest.fixture(scope="session")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The runtime library, built once for every compiler."""
    folder = tmp_path_factory.mktemp("checkers")
    return {cxx: runtime_library(cxx, folder / cxx) for cxx in COMPILERS}


@pytest.mark.parametrize("cxx", COMPILERS)
@pytest.mark.parametrize("name", WRONG)
def test_fault_is_found(name: str, cxx: str, tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """Each fault has its kind and its line, and nothing else is found."""
    source = PROGRAMS / f"{name}.cu"
    build([source], tmp_path / "program", cxx=cxx, runtime=runtimes[cxx])
    found, told = check(tmp_path / "program")
    assert expected(source), "the program does not say what is wrong with it"
    assert found == expected(source), told


@pytest.mark.parametrize("cxx", COMPILERS)
@pytest.mark.parametrize("name", RIGHT)
def test_right_program_is_clean(
    name: str, cxx: str, tmp_path: Path, runtimes: dict[str, Path]
) -> None:
    """Nothing is found in a right program, in whatever order its threads run."""
    source = PROGRAMS / "clean" / f"{name}.cu"
    build([source], tmp_path / "program", cxx=cxx, runtime=runtimes[cxx])
    for schedule in (0, 1, 7):
        found, told = check(tmp_path / "program", schedule=schedule)
        assert not found, told


def test_every_kind_has_a_reason() -> None:
    """What is found is explained."""
    kinds = {kind for path in PROGRAMS.glob("*.cu") for _, _, _, kind in expected(path)}
    assert len(kinds) > 15
    assert kinds <= set(RATIONALES)


def test_messages(tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """A message names who did what to which variable, the other line, and who called a helper."""
    for name, words in (
        ("static_shared_end", "read of 4 bytes, 0 bytes past the end of `s` (256 bytes)"),
        ("vector_over_the_end", "of which the last 8 are past the end of `x` (4088 bytes)"),
        ("named_array_guard", "read of 4 bytes, 4 bytes before the start of `x` (1024 bytes)"),
        ("missing_barrier", "and write at missing_barrier.cu:3 by thread (63,0,0) of the same"),
        ("in_a_helper", "(called from in_a_helper.cu:6)"),
        ("uninitialised_atomic", "set it to zero first"),
        ("memset_on_another_stream", "the write at memset_on_another_stream.cu:16"),
        ("leak", "each call allocates 1000 bytes here, and nobody frees them"),
    ):
        source = PROGRAMS / f"{name}.cu"
        build([source], tmp_path / name, runtime=runtimes["g++"])
        _, told = check(tmp_path / name)
        assert words in told
