"""Every test submission is graded as its expect.toml says: wrong ones lose exactly the tests that
their fault concerns; odd, classic and pace ones, which are right, lose nothing, and hostile ones
lose what they are after or gain nothing. `pytest --slow` adds four more masters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader import assignment, build, grade, submission
from grader.errors import BuildFailed
from grader.score import Finding, Severity
from grader.toolkit import Toolkit
from tests import fault_table
from tests.expectations import (
    SUBMISSIONS,
    Expectation,
    Fault,
    failed,
    false_alarms,
    messages,
    not_found,
    read,
    read_all,
)

# The slow styles are right: a few of them must do here, and every other one of the odd styles.
# `pytest --slow` grades all.
ON_DEMAND = {"pace"}
SLOW = {"computes_on_the_host_of_the_emulator"}
ALWAYS = {"global_atomics", "low_occupancy", "tiny_blocks", "uncoalesced"}


def marks(expect: Expectation) -> tuple[pytest.MarkDecorator, ...]:
    kind, name = expect.folder.parent.name, expect.folder.name
    others = sorted(path.name for path in expect.folder.parent.iterdir())[1::2]
    rare = kind in ON_DEMAND or name in SLOW or (kind == "odd" and name in others)
    return (pytest.mark.slow,) if rare and name not in ALWAYS else ()


EXPECTATIONS = [pytest.param(expect, marks=marks(expect), id=expect.name) for expect in read_all()]
MASTERS = [
    b"public",
    *(pytest.param(f"master {n}".encode(), marks=pytest.mark.slow) for n in range(1, 5)),
]

# Kinds of findings that some wrong submission must show, by what is at fault
GROUPS = [
    {"out_of_bounds", "misaligned", "illegal_address", "stray_write"},
    {"uninitialised_read", "uninitialised_shared", "uninitialised_atomic"},
    {"race_shared", "race_warp", "race_blocks", "race_streams"},
    {"divergent_barrier", "shuffle", "launch"},
]


@pytest.mark.parametrize("master", MASTERS, ids=lambda master: master.decode())
@pytest.mark.parametrize("expect", EXPECTATIONS)
def test_is_graded_as_expected(
    expect: Expectation, master: bytes, request: pytest.FixtureRequest
) -> None:
    name = expect.folder.parents[1].name
    # the parts that are right are those of other submissions: on demand only
    at_fault = tuple(part.partition(".")[0] for part in expect.cpu_fails)
    parts = expect.parts
    if expect.folder.parent.name == "wrong" and not request.config.getoption("--slow"):
        parts = tuple(dict.fromkeys(at_fault)) or parts
    score = grade(
        expect.folder,
        assignment=name,
        backend="cpu",
        master=master,
        parts=parts,
        timed=expect.folder.parent.name == "hostile",
    )
    assert score.status == expect.status, score.message
    if score.status != "graded":
        assert score.score == 0 and not score.parts
    else:
        assert failed(score) == list(expect.cpu_fails), messages(score)
        for part, test in score.tests():
            if test.passed is None:  # not run: because of a failure, or because it is about speed
                needs = {f"{part.id}.base"} & set(expect.cpu_fails)
                assert needs or test.id == "speed"
    assert not not_found(expect, score), score.findings
    assert not false_alarms(expect, score)
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
    assert kinds.count("hostile") >= 30
    assert kinds.count("classic") >= 5
    assert kinds.count("pace") >= 7


def test_faults_of_every_group_are_found() -> None:
    found = {
        expect.name: {fault.kind for fault in expect.findings}
        for expect in read_all("layernorm", ["wrong"])
        if expect.findings
    }
    assert len(found) >= 25
    kinds = set().union(*found.values())
    for group in GROUPS:
        assert group <= kinds


def test_findings_are_expected_at_lines_that_exist() -> None:
    for expect in read_all("layernorm"):
        for fault in expect.findings:
            lines = (expect.folder / "layernorm.cu").read_text().splitlines()
            assert fault.line is None or lines[fault.line - 1].strip(), f"{expect.name}: {fault}"


def test_the_table_of_faults_is_as_the_expectations_say() -> None:
    assert fault_table.README.read_text() == fault_table.written()


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


def test_a_finding_is_expected_with_known_keys(tmp_path: Path) -> None:
    (tmp_path / "expect.toml").write_text(
        'why = "?"\nstatus = "graded"\nfindings = [{ kind = "race", row = 3 }]\n'
    )
    with pytest.raises(ValueError, match="unknown row"):
        read(tmp_path)


def finding(
    line: int | None = 7, message: str = "written", severity: Severity = "error"
) -> Finding:
    return Finding(severity, "race", "forward", "a.cu", line, message, "", 1)


@pytest.mark.parametrize(
    ("fault", "told", "same"),
    [
        (Fault("race", 7), finding(), True),
        (Fault("race"), finding(), True),
        (Fault("race", 9), finding(message="written here, and read at a.cu:9 by another"), True),
        (Fault("race", 9), finding(message="written here, and read at a.cu:99 by another"), False),
        (Fault("race", 9), finding(), False),
        (Fault("leak", 7), finding(), False),
        (Fault("race", 7), finding(severity="warning"), False),
        (Fault("race", 7, "warning"), finding(severity="warning"), True),
    ],
)
def test_a_fault_is_known_by_kind_severity_and_line(
    fault: Fault, told: Finding, same: bool
) -> None:
    assert fault.is_told_by(told) is same
