"""Every test submission is graded as its expect.toml says: wrong ones lose exactly the tests that
their fault concerns; odd, classic and pace ones, which are right, lose nothing, and hostile ones
lose what they are after or gain nothing. `pytest --slow` adds four more masters."""

from __future__ import annotations

import pytest

from grader import assignment, build, grade, submission
from grader.errors import BuildFailed
from grader.expectations import Expectation, disagreements
from grader.toolkit import Toolkit
from tests import fault_table
from tests.expectations import SUBMISSIONS, read_all

# The slow styles are right, and cheats against a GPU's clock are honest here: a few of them must
# do, and every other one of the odd styles. `pytest --slow` grades all.
ON_DEMAND = {"pace"}
SLOW = {
    "batch_deferral", "computes_on_the_host_of_the_emulator", "cuda_graph_replay",
    "device_side_stale", "forged_clock", "forged_events", "joins_one_call_late", "persisting_l2",
    "pointer_cache", "prints_without_end", "side_stream_joined_in_checks_only",
    "wrong_on_call_37",
}  # fmt: skip
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
    used = assignment(expect.folder.parents[1].name)
    score = grade(
        expect.folder,
        assignment=used,
        backend="cpu",
        master=master,
        parts=expect.parts_to_grade(thoroughly=bool(request.config.getoption("--slow"))),
        timed=expect.timed,
    )
    assert not disagreements(expect, score, used)


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
