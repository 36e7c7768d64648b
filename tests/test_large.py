"""Shapes that only a GPU can check, on one made of numpy."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest

from grader import checks, large
from grader.assignment import Assignment
from grader.cases import parse_token
from grader.checks import Checker
from grader.gpu import OutOfMemory
from grader.large import large_cases, try_large
from grader.session import Fault
from tests.fake_gpu import FakeGpu, FakeSession, Launch, reference

LARGER = 300_000
SIZES = (LARGER, 1000)


@pytest.fixture
def used(saxpy: Assignment) -> Assignment:
    """Saxpy with two large shapes, the larger one first, and no other cases."""
    general = msgspec.structs.replace(
        saxpy.test("general"), large=tuple({"n": n} for n in SIZES), pinned=(), draws=0
    )
    return dataclasses.replace(saxpy, tests={**saxpy.tests, "general": general})


@pytest.fixture
def session(used: Assignment) -> FakeSession:
    part = used.parts[0]
    return FakeSession(FakeGpu(), used, part, reference(used, part, "plain"))


@pytest.fixture(autouse=True)
def small_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "RESERVE", 1 << 20)


@pytest.fixture
def checker(used: Assignment, session: FakeSession) -> Checker:
    return Checker(used, used.parts[0], session, b"master", gpu=session.gpu)


def spoil(session: FakeSession, size: int, index: int) -> None:
    """One element of the large shape of this size is wrong."""
    right = session.launcher

    def launch(seen: Launch) -> None:
        right(seen)
        if seen.arrays["out"].size == size:
            seen.arrays["out"][index] += 50

    session.launcher = launch


def test_cases_come_smallest_first_with_seeds_of_their_own(used: Assignment) -> None:
    found = [*large_cases(used, used.parts[0], "general", b"master")]
    assert [case.dims for case in found] == [{"n": 1000}, {"n": LARGER}]
    assert found == [*large_cases(used, used.parts[0], "general", b"master")]
    others = [*large_cases(used, used.parts[0], "general", b"another")]
    assert len({case.seed for case in [*found, *others]}) == 4


def test_a_right_launcher_passes_and_is_called_once_a_shape(
    checker: Checker, session: FakeSession
) -> None:
    result = checker.run("general")
    assert (result.passed, result.score, result.message) == (True, 2.5, "")
    assert session.sizes == [1, 1]
    assert [case.dims["n"] for case in result.cases] == [1000, LARGER]


def test_nothing_stays_mapped_or_allocated(checker: Checker, session: FakeSession) -> None:
    checker.run("general")
    assert session.pools == ()
    assert session.gpu.blocks == {}
    assert session.gpu.locked == 0


def test_one_wrong_element_fails_with_a_case_to_repeat(
    checker: Checker, session: FakeSession, used: Assignment
) -> None:
    spoil(session, LARGER, 7777)
    result = checker.run("general")
    assert (result.passed, result.score) == (False, 0)
    assert result.failure is not None
    assert (result.failure.dims, result.failure.index) == ({"n": LARGER}, [7777])
    assert f"n={LARGER}" in result.message
    _, _, case = parse_token(result.failure.repro.removeprefix("grader repro "), used)
    assert case == result.cases[-1]
    again = checker.try_case("general", case)
    assert again is not None and again.mismatch is not None
    assert again.mismatch.actual == result.failure.actual


def test_a_write_beyond_an_array_is_a_finding(checker: Checker, session: FakeSession) -> None:
    right = session.launcher

    def launch(seen: Launch) -> None:
        right(seen)
        seen.around("out", seen.arrays["out"].size)[:] = 0

    session.launcher = launch
    result = checker.run("general")
    assert result.passed is False
    assert result.message.startswith("out-of-bounds write: element 1000 of `out`")
    assert [finding.kind for finding in checker.findings] == ["out_of_bounds"]


def test_a_fault_is_the_students_and_the_memory_is_given_back(
    checker: Checker, session: FakeSession
) -> None:
    session.faults[1] = Fault("illegal_address", "it read where nothing is")
    result = checker.run("general")
    assert result.passed is False
    assert result.message == f"it read where nothing is [n={LARGER}, normal data]"
    assert session.gpu.blocks == {}


def test_what_does_not_fit_is_left_out_and_named(checker: Checker, session: FakeSession) -> None:
    session.gpu.memory_bytes = large.RESERVE + 20 * LARGER - 1  # x, y, out, its copy, the order
    result = checker.run("general")
    assert result.passed is True
    assert result.message.startswith(f"not run: n={LARGER}, normal data (0 GB of GPU memory")
    assert [case.dims for case in result.cases] == [{"n": 1000}]
    assert session.gpu.blocks == {}


def test_the_submission_keeps_some_memory_for_itself(
    used: Assignment, session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large, "RESERVE", session.gpu.memory_bytes)
    case = next(large_cases(used, used.parts[0], "general", b"master"))
    with pytest.raises(OutOfMemory, match="GB of GPU memory are needed"):
        try_large(session.gpu, session, used, used.parts[0], "general", case)
    assert session.mapped == 0


def test_data_depend_on_the_seed(used: Assignment, session: FakeSession) -> None:
    seen: list[bytes] = []
    right = session.launcher

    def launch(call: Launch) -> None:
        seen.append(call.arrays["x"].tobytes())
        right(call)

    session.launcher = launch
    first, _ = large_cases(used, used.parts[0], "general", b"master")
    other = msgspec.structs.replace(first, seed=first.seed + 1)
    for case in (first, first, other):
        assert try_large(session.gpu, session, used, used.parts[0], "general", case) is None
    assert seen[0] == seen[1] != seen[2]
    assert np.isfinite(np.frombuffer(seen[0], np.float32)).all()


def test_without_a_gpu_large_shapes_are_not_tried(used: Assignment, session: FakeSession) -> None:
    made = checks.Checker(used, used.parts[0], session, b"master")
    assert [*made._cases("general")] == []
