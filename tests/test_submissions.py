"""Every test submission is graded as its expect.toml says: wrong ones lose exactly the tests that
their fault concerns; odd, classic and pace ones, which are right, lose nothing, and hostile ones
are honest where nobody takes the time. `pytest --slow` adds four more masters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader import assignment, build, grade, submission
from grader.errors import BuildFailed
from grader.toolkit import Toolkit
from tests.expectations import SUBMISSIONS, Expectation, failed, messages, read, read_all

# Cheats against the clock are honest where nobody takes the time, and the slow styles are right: a
# few of them must do here.
ON_DEMAND = {"hostile", "pace"}
ALWAYS = {
    "late_thread", "side_stream", "value_cache",
    "global_atomics", "low_occupancy", "tiny_blocks", "uncoalesced",
}  # fmt: skip


def marks(expect: Expectation) -> tuple[pytest.MarkDecorator, ...]:
    kind, name = expect.folder.parent.name, expect.folder.name
    return (pytest.mark.slow,) if kind in ON_DEMAND and name not in ALWAYS else ()


EXPECTATIONS = [pytest.param(expect, marks=marks(expect), id=expect.name) for expect in read_all()]
MASTERS = [
    b"public",
    *(pytest.param(f"master {n}".encode(), marks=pytest.mark.slow) for n in range(1, 5)),
]


@pytest.mark.parametrize("master", MASTERS, ids=lambda master: master.decode())
@pytest.mark.parametrize("expect", EXPECTATIONS)
def test_is_graded_as_expected(expect: Expectation, master: bytes) -> None:
    name = expect.folder.parents[1].name
    score = grade(expect.folder, assignment=name, backend="cpu", master=master, parts=expect.parts)
    assert score.status == expect.status, score.message
    if expect.checker:
        return  # only a checker that does not exist yet can see this fault
    if score.status != "graded":
        assert score.score == 0 and not score.parts
    else:
        assert failed(score) == list(expect.cpu_fails), messages(score)
        for part, test in score.tests():
            if test.passed is None:  # not run: because of a failure, or because it is about speed
                needs = {f"{part.id}.base"} & set(expect.cpu_fails)
                assert needs or test.id == "speed"
    if expect.message:
        assert re.search(expect.message, messages(score)), messages(score)


@pytest.mark.slow
@pytest.mark.parametrize(
    "expect",
    read_all("layernorm", ["wrong", "odd", "classic", "pace"]),
    ids=lambda expect: expect.name,
)
def test_nvcc_takes_what_the_emulator_takes(nvidia: Toolkit, expect: Expectation) -> None:
    used = assignment("layernorm")
    try:
        build.cross_check(submission.read(expect.folder, used), used)
    except BuildFailed as error:
        assert expect.status == "build_failed", f"{error}\n{error.log}"
    else:
        assert expect.status != "build_failed"


def test_there_are_enough_of_them() -> None:
    kinds = [expect.folder.parent.name for expect in read_all("layernorm")]
    assert kinds.count("wrong") >= 25
    assert kinds.count("odd") >= 12
    assert kinds.count("hostile") >= 15
    assert kinds.count("classic") >= 5
    assert kinds.count("pace") >= 7


def test_expectations_are_about_parts_and_tests_that_exist() -> None:
    layernorm = assignment("layernorm")
    known = {f"{part.id}.{test}" for part in layernorm.parts for test in part.points}
    for expect in read_all("layernorm"):
        named = {*expect.cpu_fails, *expect.cuda_fails, *expect.withheld}
        assert named <= known, expect.name
        assert set(expect.parts) <= {part.id for part in layernorm.parts}, expect.name
        if expect.parts:
            assert {name.split(".")[0] for name in named} <= set(expect.parts), expect.name


def test_a_cheat_loses_marks_or_has_a_twin_that_is_as_fast() -> None:
    for expect in read_all("layernorm", ["hostile"]):
        loses = expect.cuda_fails or expect.withheld or expect.cuda_status != "graded"
        assert loses or expect.gains_nothing, expect.name
        if expect.gains_nothing:
            assert (SUBMISSIONS / "layernorm" / expect.twin / "layernorm.cu").is_file(), expect.name


def test_another_verdict_on_a_gpu_comes_with_a_reason() -> None:
    for expect in read_all("layernorm", ["wrong", "odd", "classic", "pace"]):
        assert (expect.cpu_fails != expect.cuda_fails) == bool(expect.difference), expect.name


def test_an_unknown_key_is_no_expectation(tmp_path: Path) -> None:
    (tmp_path / "expect.toml").write_text('why = "?"\nstatus = "graded"\nfail = []\n')
    with pytest.raises(ValueError, match="unknown fail"):
        read(tmp_path)
