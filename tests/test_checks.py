"""Verdicts on a launcher, with a worker session made of numpy: every kind of failure and its words.

A fake launcher gets the arrays by name, the schedule of the call and the number of calls since its
process started, and fills the outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from grader import checks
from grader.arena import POISON, Buffer
from grader.assignment import Assignment
from grader.cases import Case, cases, parse_token
from grader.checks import Checker, not_run
from grader.rationales import RATIONALES
from grader.session import Call, Fault, Returned, Session
from tests.fake_gpu import FakeGpu

F = NDArray[np.float32]
MASTER = b"a master"


@dataclass
class Launch:
    """What a fake launcher sees."""

    arrays: dict[str, F]
    numbers: list[int]
    schedule: int
    calls: int
    damage: list[str] = field(default_factory=list)


Launcher = Callable[[Launch], Fault | None]


class NumpySession(Session):
    """A session whose process is a Python function."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.seen: list[Call] = []
        self.spawned = 0
        self.calls = 0
        self.said = ""

    @property
    def log(self) -> str:
        return self.said

    def stop(self) -> None:
        self.calls = 0

    def call(self, call: Call) -> Returned | Fault:
        self.spawned += self.calls == 0
        self.seen.append(call)
        arrays: dict[str, F] = {}
        for argument in call.arguments:
            if isinstance(argument, Buffer):
                empty = np.full(argument.shape, POISON, np.uint32).view(np.float32)
                arrays[argument.name] = empty if argument.data is None else argument.data.copy()
        numbers = [argument for argument in call.arguments if isinstance(argument, int)]
        launch = Launch(arrays, numbers, call.schedule, self.calls)
        self.calls += 1
        fault = self.launcher(launch)
        if fault is not None:
            self.stop()
            return fault
        outputs = {
            argument.name: arrays[argument.name]
            for argument in call.arguments
            if isinstance(argument, Buffer) and argument.data is None
        }
        return Returned(outputs, tuple(launch.damage))


def right(launch: Launch) -> None:
    launch.arrays["out"][:] = np.float32(2.5) * launch.arrays["x"] + launch.arrays["y"]


@pytest.fixture
def checker(saxpy: Assignment) -> Callable[[Launcher], Checker]:
    def make(launcher: Launcher) -> Checker:
        return Checker(saxpy, saxpy.part("saxpy"), NumpySession(launcher), MASTER)

    return make


Make = Callable[[Launcher], Checker]


def seen(checker: Checker) -> list[Call]:
    assert isinstance(checker.session, NumpySession)
    return checker.session.seen


# Right -------------------------------------------------------------------------------------------


def test_a_right_launcher_passes_every_case(checker: Make) -> None:
    made = checker(right)
    result = made.run("base")
    assert result.passed is True
    assert (result.score, result.max_score, result.message) == (7.5, 7.5, "")
    assert len(result.cases) == 5
    assert made.findings == []


def test_a_case_is_four_calls_in_one_process(checker: Make, saxpy: Assignment) -> None:
    made = checker(right)
    assert made.try_case("base", Case({"n": 100}, "normal", 1.0, 9)) is None
    calls = seen(made)
    assert [call.launcher for call in calls] == ["launch_saxpy"] * 4
    assert [call.arguments[-1] for call in calls] == [100, 100, 48, 100]
    assert len({call.schedule for call in calls}) == 4
    assert [call.schedule for call in calls[:2]] == [0, 1], "ascending, then descending"
    buffers = [[a for a in call.arguments if isinstance(a, Buffer)] for call in calls]
    assert {buffer.room for call in buffers for buffer in call} == {100}
    assert [[buffer.name for buffer in call] for call in buffers] == [["out", "x", "y"]] * 4
    assert [[buffer.data is None for buffer in call] for call in buffers] == [
        [True, False, False]
    ] * 4
    data = [call[1].data for call in buffers if call[1].size == 100]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not np.array_equal(data[one], data[other])  # type: ignore[arg-type]
    assert all(call.steps > 0 for call in calls)
    assert made.session.spawned == 1  # type: ignore[attr-defined]


def test_a_large_case_is_one_call(checker: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LARGE_ELEMENTS", 50)
    made = checker(right)
    made.try_case("base", Case({"n": 100}, "normal", 1.0, 9))
    assert len(seen(made)) == 1


def test_progress_is_told(checker: Make) -> None:
    made = checker(right)
    told: list[str] = []
    made.progress = told.append
    made.run("general")
    assert told == [f"Saxpy, general: case {number}" for number in (1, 2, 3, 4)]


# Wrong numbers -----------------------------------------------------------------------------------


def wrong_from_17_on(launch: Launch) -> None:
    right(launch)
    launch.arrays["out"][16:] += 1


def test_the_smallest_failing_case_is_reported(checker: Make, saxpy: Assignment) -> None:
    made = checker(wrong_from_17_on)
    result = made.run("general")
    assert result.passed is False
    assert result.score == 0
    assert result.failure is not None
    assert result.failure.dims == {"n": 17}
    assert result.failure.output == "out"
    assert result.failure.index == [16]
    assert result.cases[-1].dims == {"n": 257}, "the cases that were tried, not the shrunk one"
    assert len(result.cases) == 2
    assert result.message.startswith("`out`[16] is ")
    assert "[n=17, normal data]" in result.message
    assert made.findings == [], "a wrong number is no finding"


def test_the_repro_line_replays_the_failure(checker: Make, saxpy: Assignment) -> None:
    failure = checker(wrong_from_17_on).run("general").failure
    assert failure is not None
    assert failure.repro.startswith("grader repro saxpy.general:")
    part, test, case = parse_token(failure.repro.removeprefix("grader repro "), saxpy)
    again = checker(wrong_from_17_on).try_case(test, case)
    assert part.id == "saxpy"
    assert again is not None
    assert again.mismatch is not None
    assert again.mismatch.actual == failure.actual


def test_a_failure_in_the_call_between_shows_its_own_shape(checker: Make) -> None:
    def wrong_at_48(launch: Launch) -> None:
        right(launch)
        if launch.arrays["out"].size == 48:
            launch.arrays["out"][:] = 0

    problem = checker(wrong_at_48).try_case("base", Case({"n": 100}, "normal", 1.0, 9))
    assert problem is not None
    assert (problem.call, problem.dims, problem.kind) == (2, {"n": 48}, "wrong_result")


def test_a_known_mistake_is_named(checker: Make) -> None:
    def forgets_y(launch: Launch) -> None:
        launch.arrays["out"][:] = np.float32(2.5) * launch.arrays["x"]

    assert "It looks as if y was not added." in checker(forgets_y).run("base").message


def test_what_is_not_written_is_said_so(checker: Make) -> None:
    message = checker(lambda _: None).run("base").message
    assert message.startswith("`out`[0] was never written (it still holds the NaN")
    assert "4 of 4 elements are wrong: nothing was written to it" in message


def test_a_single_element_is_not_counted(checker: Make) -> None:
    def all_wrong(launch: Launch) -> None:
        right(launch)
        launch.arrays["out"] += 1

    result = checker(all_wrong).run("general")
    assert result.failure is not None
    assert result.failure.dims == {"n": 1}
    assert "elements are wrong" not in result.message


@pytest.mark.parametrize(
    ("value", "said"), [(np.inf, "Infinity"), (-np.inf, "-Infinity"), (np.nan, "NaN")]
)
def test_what_is_no_number_fails(checker: Make, value: float, said: str) -> None:
    def no_number(launch: Launch) -> None:
        right(launch)
        launch.arrays["out"][-1] = value

    result = checker(no_number).run("general")
    assert result.failure is not None
    assert (result.failure.actual, result.failure.error) == (said, None)
    assert f"is {said}, expected" in result.message


# State and races ---------------------------------------------------------------------------------


def test_state_between_calls_is_recognised(checker: Make) -> None:
    def first_call_only(launch: Launch) -> None:
        if launch.calls == 0:
            right(launch)

    assert (
        "the same call is right in a fresh process" in checker(first_call_only).run("base").message
    )


def test_dependence_on_the_order_of_threads_is_recognised(checker: Make) -> None:
    def ascending_only(launch: Launch) -> None:
        right(launch)
        if launch.schedule != 0:
            launch.arrays["out"][-1] += 1

    message = checker(ascending_only).run("base").message
    assert "right when threads run in another order: a race" in message


def test_what_fails_only_once_is_reported_as_it_was(checker: Make) -> None:
    failed: list[bool] = []

    def once(launch: Launch) -> None:
        right(launch)
        if not failed:
            failed.append(True)
            launch.arrays["out"][:] = 0

    result = checker(once).run("base")
    assert result.passed is False
    assert result.failure is not None
    assert result.failure.dims == {"n": 4}
    assert "it did not fail again in a fresh process" in result.message


# Faults ------------------------------------------------------------------------------------------


def fails_with(kind: str, sentence: str, from_size: int = 0) -> Launcher:
    def launcher(launch: Launch) -> Fault | None:
        right(launch)
        return Fault(kind, sentence) if launch.arrays["out"].size >= from_size else None

    return launcher


@pytest.mark.parametrize("kind", sorted(set(RATIONALES) - {"missing"}))
def test_every_kind_of_fault_fails_and_is_explained(checker: Make, kind: str) -> None:
    made = checker(fails_with(kind, "saxpy.cu:7: what happened"))
    result = made.run("base")
    assert (result.passed, result.score) == (False, 0)
    assert result.message == "saxpy.cu:7: what happened [n=4, normal data]"
    (finding,) = made.findings
    assert (finding.severity, finding.kind, finding.part) == ("error", kind, "saxpy")
    assert (finding.file, finding.line, finding.message) == ("saxpy.cu", 7, "what happened")
    assert finding.rationale == RATIONALES[kind]
    assert result.failure is not None
    assert (result.failure.output, result.failure.index) == (None, None)


def test_a_missing_launcher_has_no_case(checker: Make) -> None:
    result = checker(fails_with("missing", "launch_saxpy is not defined")).run("base")
    assert (result.passed, result.message) == (False, "launch_saxpy is not defined")
    assert result.failure is None


@pytest.mark.parametrize("kind", ["crashed", "exited", "exception"])
def test_the_last_words_of_a_process_are_shown(checker: Make, kind: str) -> None:
    made = checker(fails_with(kind, "it ended"))
    made.session.said = "first\nx.cu:3: assertion failed\n"  # type: ignore[attr-defined]
    message = made.run("base").message
    assert message == "it ended [n=4, normal data]; it printed: x.cu:3: assertion failed"


def test_a_fault_without_a_place(checker: Make) -> None:
    made = checker(fails_with("unheard_of", "it went wrong: badly"))
    made.run("base")
    (finding,) = made.findings
    assert (finding.file, finding.line, finding.rationale) == (None, None, "")
    assert finding.message == "it went wrong: badly"


def test_a_fault_is_shrunk_to_the_same_kind(checker: Make) -> None:
    def launcher(launch: Launch) -> Fault | None:
        size = launch.arrays["out"].size
        if size >= 33:
            return Fault("illegal_address", "beyond")
        right(launch)
        return Fault("assert", "other") if size >= 9 else None

    made = checker(launcher)
    result = made.run("base")
    assert result.failure is not None
    assert 33 <= result.failure.dims["n"] < 1024
    assert [finding.kind for finding in made.findings] == ["illegal_address"]


@pytest.mark.parametrize("kind", ["timeout", "endless_loop", "missing"])
def test_what_takes_long_is_not_repeated(checker: Make, kind: str) -> None:
    made = checker(fails_with(kind, "slow"))
    made.run("base")
    assert len(seen(made)) == 1


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        ("out-of-bounds write: element 4 of `out`, which has 4 elements", "out_of_bounds"),
        ("the input `x` was written (first at element 0): ...", "input_written"),
    ],
)
def test_damage_fails_even_when_the_numbers_are_right(
    checker: Make, damage: str, kind: str
) -> None:
    def launcher(launch: Launch) -> None:
        right(launch)
        launch.damage.append(damage)

    made = checker(launcher)
    result = made.run("base")
    assert result.passed is False
    assert result.message == f"{damage} [n=4, normal data]"
    assert [finding.kind for finding in made.findings] == [kind]


# Several arrays and parts ------------------------------------------------------------------------


def test_arguments_follow_the_c_order(tensor: Assignment) -> None:
    def launcher(launch: Launch) -> None:
        assert list(launch.arrays) == ["shifted", "a", "bias"]
        shape = launch.arrays["a"].shape
        assert launch.numbers == list(shape)
        launch.arrays["shifted"][:] = launch.arrays["a"] + launch.arrays["bias"]

    made = Checker(tensor, tensor.part("add_bias"), NumpySession(launcher), MASTER)
    assert made.run("base").passed is True
    assert made.run("large").passed is True


def test_an_element_of_several_dimensions_is_named(tensor: Assignment) -> None:
    def launcher(launch: Launch) -> None:
        launch.arrays["sums"][:] = launch.arrays["a"].sum(axis=2)
        launch.arrays["sums"][:, 2:] = 0

    made = Checker(tensor, tensor.part("row_sums"), NumpySession(launcher), MASTER)
    result = made.run("base")
    assert result.failure is not None
    assert result.failure.dims == {"batch": 1, "rows": 3, "cols": 1}
    assert result.failure.index == [0, 2]
    assert "`sums`[0, 2] is 0, expected" in result.message
    assert "every wrong element has rows index 2" in result.message


def test_a_test_that_is_not_run_scores_nothing(tensor: Assignment) -> None:
    result = not_run(tensor, tensor.part("row_sums"), "speed", "because")
    assert (result.passed, result.score, result.max_score) == (None, 0.0, 0.5)
    assert (result.cases, result.message, result.failure) == ([], "because", None)


def test_running_twice_gives_the_same_words(checker: Make) -> None:
    def run() -> Any:
        return checker(wrong_from_17_on).run("base")

    assert run() == run()


# With a GPU --------------------------------------------------------------------------------------


def on_gpu(saxpy: Assignment, launcher: Launcher) -> Checker:
    """The GPU is too small for large shapes."""
    gpu = FakeGpu(memory_bytes=1 << 20)
    return Checker(saxpy, saxpy.part("saxpy"), NumpySession(launcher), MASTER, gpu=gpu)


def test_a_gpu_takes_the_smallest_cases_first(saxpy: Assignment) -> None:
    made = on_gpu(saxpy, right)
    result = made.run("base")
    sizes = [case.elements for case in result.cases]
    assert sizes == sorted(sizes)
    assert sizes == sorted(case.elements for case in cases(saxpy, made.part, "base", MASTER))


def test_a_gpu_looks_for_no_smaller_case(saxpy: Assignment) -> None:
    def harm(launch: Launch) -> None:
        right(launch)
        launch.arrays["out"][300:] = 0

    result = on_gpu(saxpy, harm).run("base")
    first = min(case.elements for case in result.cases if case.elements > 300)
    assert result.failure is not None
    assert result.failure.dims == {"n": first}


# The emulator's opinion --------------------------------------------------------------------------


def test_nothing_seen_is_no_opinion(checker: Make) -> None:
    made = checker(right)
    assert made.second_opinion("base") is None
    assert made.unchecked == ""
    sizes = {call.arguments[-1] for call in seen(made)}
    assert {4, 1024} <= sizes, "the pinned cases"
    assert len(seen(made)) == 8


def test_wrong_numbers_in_every_order_were_right_by_luck(checker: Make) -> None:
    def harm(launch: Launch) -> None:
        right(launch)
        launch.arrays["out"][0] = 9e9

    found = checker(harm).second_opinion("base")
    assert found is not None and found.passed is False
    assert found.message.endswith(f"on the emulator; {checks.RIGHT_BY_LUCK}")


def test_wrong_numbers_in_one_order_are_a_race(checker: Make) -> None:
    def harm(launch: Launch) -> None:
        right(launch)
        if launch.schedule == 1:
            launch.arrays["out"][0] = 9e9

    found = checker(harm).second_opinion("base")
    assert found is not None
    assert (found.passed, found.score) == (False, 0)
    assert checks.RACE in found.message
    assert found.failure is not None and found.failure.repro.startswith(
        "grader repro --backend cpu saxpy.base:"
    )


def test_a_fault_is_an_opinion(checker: Make) -> None:
    made = checker(lambda _: Fault("illegal_address", "saxpy.cu:3: illegal memory access"))
    found = made.second_opinion("base")
    assert found is not None and found.passed is False
    (finding,) = made.findings
    assert (finding.kind, finding.file, finding.line) == ("illegal_address", "saxpy.cu", 3)


@pytest.mark.parametrize("kind", checks.EMULATORS_OWN)
def test_what_the_emulator_cannot_do_is_no_opinion(checker: Make, kind: str) -> None:
    made = checker(lambda _: Fault(kind, "grid.sync() over more than one block"))
    assert made.second_opinion("base") is None
    assert made.unchecked == "grid.sync() over more than one block"
    assert made.findings == []
    assert len(seen(made)) == 1, "other cases would take as long and say no more"


# All failures -------------------------------------------------------------------------------------


def test_an_exhaustive_check_runs_every_case_and_makes_none_smaller(checker: Make) -> None:
    def wrong_above_four(launch: Launch) -> None:
        right(launch)
        launch.arrays["out"][4:] = 0

    made = checker(wrong_above_four)
    made.exhaustive = True
    result = made.run("base")
    every = list(cases(made.assignment, made.part, "base", MASTER))
    assert result.cases == every
    assert [case for case, _ in made.failed] == [case for case in every if case.dims["n"] > 4]
    assert result.passed is False and result.failure is not None
    assert result.failure.dims == {"n": 1024}  # the first that fails, as it is


def test_an_exhaustive_check_ends_at_what_every_case_would_repeat(checker: Make) -> None:
    made = checker(lambda _: Fault("endless_loop", "it does not end"))
    made.exhaustive = True
    result = made.run("base")
    assert (len(result.cases), len(made.failed), result.passed) == (1, 1, False)


def test_an_exhaustive_check_of_a_right_launcher_passes(checker: Make) -> None:
    made = checker(right)
    made.exhaustive = True
    assert made.run("base").passed is True
    assert made.failed == []
