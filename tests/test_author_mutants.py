"""Mutants of a submission that is right: which are noticed, by which case, and which are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import author_mutants
from grader.assignment import Assignment
from grader.author_mutants import Kill, Report, Tried, master, show, try_mutants
from grader.cases import PUBLIC_MASTER
from grader.errors import UsageError
from grader.mutate import Mutant

KERNEL = """\
__global__ void saxpy(float* out, const float* x, const float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = SAXPY_A * x[i] + y[i];
}
extern "C" void launch_saxpy(float* out, const float* x, const float* y, int n,
                             cudaStream_t stream) {
    saxpy<<<(n + 255) / 256, 256, 0, stream>>>(out, x, y, n);
}
"""
CHANGES = {
    "dropped": ("if (i < n)", "if (true)"),  # beyond the end unless n is a multiple of 256
    "only_odd": ("(n + 255)", "(n + n % 4 * 256)"),  # too few blocks where n is a multiple of 4
    "nothing": ("256, 0,", "256 , 0,"),
    "nonsense": ("float* out,", "float* ,"),
    "last_block": ("(n + 255) / 256", "n / 256 + 1"),  # one block too many at most
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "saxpy.cu").write_text(KERNEL)
    return tmp_path


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly the mutants of CHANGES."""

    def made(text: str) -> list[Mutant]:
        return [
            Mutant(name, 3, f"{old} becomes {new}", text.replace(old, new))
            for name, (old, new) in CHANGES.items()
        ]

    monkeypatch.setattr(author_mutants, "mutants", made)


@pytest.mark.usefixtures("chosen")
def test_a_mutant_is_killed_survives_or_does_not_build(
    saxpy_native: Assignment, folder: Path
) -> None:
    told: list[str] = []
    report = try_mutants(folder, assignment=saxpy_native, masters=2, progress=told.append)
    tried = {each.operator: each for each in report.tried}
    assert {name: each.outcome for name, each in tried.items()} == {
        "dropped": "killed",
        "only_odd": "killed",
        "nothing": "survived",
        "nonsense": "discarded",
        "last_block": "survived",
    }
    kill = tried["dropped"].kill
    assert kill is not None
    assert (kill.part, kill.test, kill.dims, kill.master) == ("saxpy", "base", {"n": 4}, 0)
    assert kill.kind == "out_of_bounds" and 1 <= kill.failing <= kill.cases == 5
    assert tried["nothing"].parts == ["saxpy"]
    assert told[-1] == "5 of 5 mutants"


def test_the_same_seed_tries_the_same_mutants(saxpy_native: Assignment, folder: Path) -> None:
    reports = [
        try_mutants(folder, assignment=saxpy_native, count=3, chosen_by=7, masters=1)
        for _ in range(2)
    ]
    assert reports[0] == reports[1]
    assert len(reports[0].tried) == 3


def test_numbers_below_one_and_unknown_parts_are_refused(saxpy: Assignment, folder: Path) -> None:
    with pytest.raises(UsageError, match="must be 1 or more"):
        try_mutants(folder, assignment=saxpy, masters=0)
    with pytest.raises(UsageError, match="nosuch"):
        try_mutants(folder, assignment=saxpy, parts=["nosuch"])


def test_the_first_master_is_the_public_one_and_no_two_are_the_same() -> None:
    assert master(0) == PUBLIC_MASTER
    assert len({master(number) for number in range(5)}) == 5


KILL = Kill("saxpy", "base", {"n": 4}, "normal", 1.0, "wrong_result", 5, 5, 0)


@pytest.mark.parametrize(
    ("failing", "cases", "weak"), [(5, 5, False), (2, 28, True), (3, 28, False), (1, 1, False)]
)
def test_a_kill_by_few_of_many_cases_is_weak(failing: int, cases: int, weak: bool) -> None:
    kill = Kill("saxpy", "base", {"n": 4}, "normal", 1.0, "wrong_result", failing, cases, 0)
    assert kill.weak is weak


def test_a_report_is_a_line_for_each_mutant_and_the_sums() -> None:
    killed = Tried("x.cu", 3, "relation", "< becomes <=", "killed", ["saxpy"], KILL)
    tried = [
        killed,
        Tried("x.cu", 4, "type", "double becomes float", "survived", ["saxpy"]),
        Tried("x.cu", 5, "constant", "0 becomes 1", "discarded", ["saxpy"]),
    ]
    assert show(Report("saxpy", "right", 0, 5, tried)).splitlines() == [
        "killed   x.cu:3: relation: < becomes <=: saxpy.base at n=4, normal, wrong_result, "
        "5 of 5 cases",
        "SURVIVED x.cu:4: type: double becomes float (saxpy)",
        "1 killed (0 of them in 2 cases or fewer), 1 survived, 1 do not build",
    ]
