"""An author's checks hold for an assignment that is as it should be, and each can fail."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from grader import author_check, cli, expectations, grading
from grader.assignment import Assignment
from grader.author_check import Checked, Outcome
from grader.errors import InfrastructureError, UsageError
from grader.manifest import Slope
from grader.margins import Margin, Margins
from grader.score import (
    AssignmentInfo,
    Environment,
    PartResult,
    Score,
    SubmissionInfo,
    Timing,
)
from grader.score import TestResult as Verdict

TESTS = Path(__file__).resolve().parent
SAXPY = TESTS / "submissions" / "saxpy"

Make = Callable[..., Score]


def scored(used: Assignment, backend: Any = "cpu", **marks: float | None) -> Score:
    """A score with full marks, unless `part__test` says what a test scores; None is not run."""
    parts = []
    for part in used.parts:
        tests = []
        for name in used.tests_of(part):
            worth = part.points[name]
            got = marks.get(f"{part.id}__{name}", worth)
            passed = None if got is None else got == worth
            tests.append(Verdict(name, name, passed, got or 0.0, worth, [], "told"))
        parts.append(PartResult(part.id, part.id, 0.0, 0.0, tests))
    return Score(
        status="graded",
        score=1.0,
        max_score=1.0,
        message="",
        assignment=AssignmentInfo(used.id, "", ""),
        submission=SubmissionInfo("it", None, []),
        parts=parts,
        findings=[],
        environment=Environment("", backend, "", "process", "public", "", 0.0),
    )


def timed(score: Score, low: float, verdict: Any = "scored") -> Score:
    """The score with a time of its first part, all marks of which are given from 0.5 on."""
    timing = Timing("speed", "modelled", low, low, low, 0.1, 0.5, verdict, [], [])
    first = msgspec.structs.replace(score.parts[0], timing=timing)
    return msgspec.structs.replace(score, parts=[first, *score.parts[1:]])


@pytest.fixture
def gives(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces grading: every submission has this score, and its results this margin."""

    def replace(score: Score, used: float = 0.1) -> None:
        def graded(folder: Path, **options: Any) -> Score:
            margins: Margins | None = options.get("margins")
            if margins is not None:
                margins.note(Margin("part", "base", "out", used, "n=1"))
            return score

        monkeypatch.setattr(grading, "grade", graded)

    return replace


def checked(used: Assignment, **options: Any) -> Checked:
    here = Path()
    return Checked(used, here, here, options.pop("expected", []), SAXPY, **options)


def failing(outcomes: Any) -> list[str]:
    return [f"{one.name}: {one.says}" for one in outcomes if not one.holds]


# The solution ------------------------------------------------------------------------------------


def test_a_solution_with_full_marks_and_small_errors(
    tensor: Assignment, gives: Callable[..., None]
) -> None:
    # speed has no marks on the cpu backend there: nothing is lost
    gives(scored(tensor, row_sums__speed=None))
    outcomes = list(author_check.check_solution(checked(tensor, masters=2)))
    assert failing(outcomes) == []
    assert [one.name for one in outcomes] == ["marks, master 1", "marks, master 2", "error"]


@pytest.mark.parametrize(
    ("backend", "marks", "used", "said"),
    [
        ("cpu", {"row_sums__base": 0.0}, 0.1, "row_sums.base has 0 of 3: told"),
        ("cuda", {"row_sums__speed": 0.2}, 0.1, "row_sums.speed has 0.2 of 0.5"),
        ("cpu", {"row_sums__speed": None}, 0.6, "more than half of what is allowed: part.base"),
        ("cpu", {"row_sums__speed": None}, float("inf"), "inf of the bound [n=1]"),
        ("cpu", {"row_sums__speed": None}, float("nan"), "more than half of what is allowed"),
    ],
)
def test_a_solution_that_is_none(
    tensor: Assignment,
    gives: Callable[..., None],
    backend: str,
    marks: dict[str, float | None],
    used: float,
    said: str,
) -> None:
    gives(scored(tensor, backend, **marks), used)
    (wrong,) = failing(author_check.check_solution(checked(tensor, masters=1)))
    assert said in wrong


def test_a_solution_that_does_not_build(tensor: Assignment, gives: Callable[..., None]) -> None:
    gives(msgspec.structs.replace(scored(tensor), status="build_failed", parts=[], message="a.cu"))
    wrong = failing(author_check.check_solution(checked(tensor, masters=1)))
    assert wrong[0] == "marks, master 1: build_failed: a.cu"


def test_the_masters_differ(tensor: Assignment, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def graded(folder: Path, **options: Any) -> Score:
        seen.append(options["master"])
        return scored(tensor, row_sums__speed=None)

    monkeypatch.setattr(grading, "grade", graded)
    made = checked(tensor, masters=3)
    assert failing(author_check.check_solution(made)) == ["error: no result could be compared"]
    list(author_check.check_thresholds(made))  # takes what is known
    assert len(seen) == len(set(seen)) == 3


# The starter -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "status", "said"),
    [
        (0.0, "graded", []),
        (7.5, "graded", ["marks: it has marks for saxpy.base"]),
        (0.0, "build_failed", ["builds: build_failed: "]),
    ],
)
def test_a_starter_builds_and_scores_nothing(
    saxpy: Assignment, gives: Callable[..., None], base: float, status: Any, said: list[str]
) -> None:
    score = scored(saxpy, saxpy__base=base, saxpy__general=None)
    gives(msgspec.structs.replace(score, status=status))
    assert failing(author_check.check_starter(checked(saxpy))) == said


# Trivial answers ---------------------------------------------------------------------------------


def test_trivial_answers_are_refused(saxpy: Assignment) -> None:
    outcomes = list(author_check.check_trivial(checked(saxpy)))
    assert [(one.name, one.holds) for one in outcomes] == [
        ("saxpy.base", True),
        ("saxpy.general", True),
    ]


def test_a_trivial_answer_that_passes(saxpy: Assignment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saxpy.reference, "A", 0.0)  # y is the right answer then
    wrong = failing(author_check.check_trivial(checked(saxpy)))
    assert wrong[0].startswith("saxpy.base: no case refuses out: a copy of y: pin one")
    assert len(wrong) == 2


# Submissions -------------------------------------------------------------------------------------


def test_submissions_are_as_expected_or_not(saxpy: Assignment, gives: Callable[..., None]) -> None:
    gives(scored(saxpy))
    expected = [expectations.read(SAXPY / name) for name in ("forgets_y", "right")]
    outcomes = list(author_check.check_submissions(checked(saxpy, expected=expected)))
    assert [(one.name, one.holds) for one in outcomes] == [("forgets_y", False), ("right", True)]
    assert "nothing failed, not saxpy.base" in outcomes[0].says


def test_no_submission_is_no_check(saxpy: Assignment) -> None:
    (wrong,) = failing(author_check.check_submissions(checked(saxpy)))
    assert wrong.endswith("has no expect.toml")


def test_a_machine_at_fault_ends_all(saxpy: Assignment, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()
    noticed = []

    def graded(folder: Path, **options: Any) -> Score:
        if folder.name == "right":
            assert begun.wait(30)
            score = scored(saxpy)
            return msgspec.structs.replace(score, status="infrastructure_error", message="full")
        begun.set()
        try:
            while not release.wait(0.01):
                options["progress"]("still at it")
        except BaseException as error:
            noticed.append(error)
            raise
        return scored(saxpy)

    monkeypatch.setattr(grading, "grade", graded)
    expected = [expectations.read(SAXPY / name) for name in ("right", "racy", "spins", "throws")]
    with pytest.raises(InfrastructureError, match="full"):
        list(author_check.check_submissions(checked(saxpy, expected=expected)))
    assert len(noticed) >= 1  # what ran then has stopped


def test_a_subset_has_every_kind_and_part(tensor: Assignment, tmp_path: Path) -> None:
    for name, fails in [
        ("odd/a", ""), ("odd/b", ""), ("wrong/a", "row_sums.base"), ("wrong/b", "row_sums.base"),
        ("wrong/c", "add_bias.large"), ("hostile/a", "row_sums.speed"),
    ]:  # fmt: skip
        (tmp_path / name).mkdir(parents=True)
        text = f'why = "?"\nstatus = "graded"\nfails = {[fails] if fails else []}\n'
        (tmp_path / name / "expect.toml").write_text(text)
    expected = expectations.read_all(tmp_path)
    kept = author_check.subset(expected, tmp_path, tensor)
    assert [one.name for one in kept] == ["hostile/a", "odd/a", "wrong/a", "wrong/c"]


def test_submissions_are_chosen_by_name(tmp_path: Path) -> None:
    for name in ("odd/a", "odd/b", "wrong/a"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "expect.toml").write_text('why = "?"\nstatus = "graded"\n')
    expected = expectations.read_all(tmp_path)

    def chosen(*wanted: str) -> list[str]:
        return [one.name for one in author_check.select(expected, tmp_path, wanted)]

    assert chosen() == ["odd/a", "odd/b", "wrong/a"]
    assert chosen("a") == ["odd/a", "wrong/a"]
    assert chosen("odd/b") == ["odd/b"]
    with pytest.raises(UsageError, match=r"no submission 'od/b' .* \(did you mean 'odd/b'\?\)"):
        chosen("a", "od/b")


# Thresholds --------------------------------------------------------------------------------------


def with_marks(used: Assignment, cpu: Slope, cuda: Slope) -> Assignment:
    marks = {"cpu": {"row_sums": cpu}, "cuda": {"row_sums": cuda}}
    speed = msgspec.structs.replace(used.tests["speed"], marks=marks)
    return dataclasses.replace(used, tests={**used.tests, "speed": speed})


@pytest.mark.parametrize(
    ("low", "verdict", "zero", "said"),
    [
        (0.55, "scored", 0.1, []),
        (0.5, "scored", 0.1, ["no room to all marks (scored): 0.500 of the memory ceiling"]),
        (0.6, "withheld", 0.1, ["no room to all marks (withheld)"]),
        (0.6, "scored", 0.3, ["marks on the cpu backend ask for more than on the cuda backend"]),
    ],
)
def test_the_thresholds_leave_room(
    tensor: Assignment,
    gives: Callable[..., None],
    low: float,
    verdict: str,
    zero: float,
    said: list[str],
) -> None:
    used = with_marks(tensor, Slope(zero, 0.5), Slope(0.2, 0.6))
    gives(timed(scored(used), low, verdict))
    wrong = failing(author_check.check_thresholds(checked(used)))
    assert len(wrong) == len(said)
    assert all(part in whole for part, whole in zip(said, wrong, strict=True))


def test_a_solution_that_is_not_timed(tensor: Assignment, gives: Callable[..., None]) -> None:
    gives(scored(tensor, "cuda"))
    wrong = failing(author_check.check_thresholds(checked(tensor)))
    assert wrong == ["row_sums.speed, room: the solution was not timed"]


# Folders -----------------------------------------------------------------------------------------


def test_folders_are_found_around_the_assignment(saxpy: Assignment, tmp_path: Path) -> None:
    assert author_check.find(saxpy, "tests/submissions", None) == SAXPY
    assert author_check.find(saxpy, "solution", tmp_path) == tmp_path
    with pytest.raises(UsageError, match=r"^no such folder: .*nowhere$"):
        author_check.find(saxpy, "solution", tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"no folder solution/saxpy around .* --solution"):
        author_check.find(saxpy, "solution", None)


# The command -------------------------------------------------------------------------------------


def run(*arguments: object) -> Result:
    words = ["author", "check", str(TESTS / "assignments" / "saxpy"), *map(str, arguments)]
    result = CliRunner().invoke(cli.main, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


@pytest.mark.usefixtures("saxpy_native")
def test_an_assignment_as_it_should_be(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    done = run(
        "--backend", "cpu", "--solution", SAXPY / "right", "--starter", SAXPY / "forgets_y",
        "--masters", 2, "--names", "right", "--names", "forgets_y", "--json", out,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    report = msgspec.json.decode(out.read_bytes(), type=author_check.Report)
    assert report.holds and report.assignment == "saxpy"
    assert {one.step for one in report.outcomes} == set(author_check.STEPS) - {"thresholds"}
    (error,) = [one for one in report.outcomes if one.name == "error"]
    assert len(error.notes) == 2  # base and general
    assert "submissions         2      0" in done.output


@pytest.mark.usefixtures("saxpy_native")
def test_an_assignment_that_is_upside_down(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    done = run(
        "--backend", "cpu", "--solution", SAXPY / "forgets_y", "--starter", SAXPY / "right",
        "--fast", "--only", "solution", "--only", "starter", "--json", out,
    )  # fmt: skip
    assert done.exit_code == 1, done.output
    wrong = [one["name"] for one in json.loads(out.read_text())["outcomes"] if not one["holds"]]
    assert wrong == ["marks, master 1", "error", "marks"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "starters"], "unknown step 'starters' (did you mean 'starter'?); the steps"),
        (["--only", "solution"], "there is no folder solution/saxpy around"),
        (["--only", "submissions", "--names", "wright"], "(did you mean 'right'?)"),
        (["--only", "submissions", "--submissions", "nowhere"], "no such folder: nowhere"),
        (["--only", "trivial", "--json", "no/where.json"], "there is no folder no"),
        (["--masters", "0"], "--masters"),
    ],
)
def test_bad_use_is_said_before_any_work(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_a_machine_at_fault_is_no_fault_of_the_assignment(
    saxpy: Assignment, gives: Callable[..., None], tmp_path: Path
) -> None:
    score = msgspec.structs.replace(scored(saxpy), status="infrastructure_error", message="full")
    gives(score)
    done = run("--only", "starter", "--starter", tmp_path, "--json", tmp_path / "out.json")
    assert done.exit_code == 3
    assert "grader: full" in done.output
    assert not (tmp_path / "out.json").exists()


def test_the_table_counts_and_names_what_fails() -> None:
    outcomes = [
        Outcome("starter", "builds", True, "yes"),
        Outcome("starter", "b", False, "c"),
    ]
    text = author_check.table(author_check.Report("x", "cpu", False, outcomes))
    assert text.splitlines()[1:] == ["starter             1      1", "starter: b: c"]
