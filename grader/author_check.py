"""Does an assignment do what its author means it to do?

    solution      has full marks, and errors of at most half of what is allowed, with every master
    starter       builds, and scores nothing
    trivial       answers that need no kernel fail every correctness test (`grader/trivial.py`)
    submissions   every folder with an expect.toml is graded as it says, on the cpu backend
    thresholds    the solution has all marks for speed, with room

Each step gives outcomes: one thing that holds or does not, in a sentence.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from grader import expectations, grading, trivial
from grader.assignment import Assignment, load, names
from grader.cases import PUBLIC_MASTER
from grader.errors import InfrastructureError, UsageError, did_you_mean
from grader.expectations import Expectation
from grader.manifest import Part, Slope
from grader.margins import Margin, Margins
from grader.schedule import Stopped
from grader.score import PartResult, Score, Timing

MASTERS = 3
ALLOWED = 0.5  # of the bound: what the error of the solution may be
SIDE_BY_SIDE = 2  # submissions

Progress = Callable[[str], None]


class Outcome(msgspec.Struct, frozen=True):
    """One thing that was checked. `notes` are worth knowing, whether it holds or not."""

    step: str
    name: str
    holds: bool
    says: str
    notes: list[str] = []


class Report(msgspec.Struct, frozen=True):
    """All that was checked of an assignment."""

    assignment: str
    backend: str
    holds: bool
    outcomes: list[Outcome]


@dataclass
class Checked:
    """An assignment and the folders that belong to it; the solution is graded once per master."""

    used: Assignment
    solution: Path
    starter: Path
    expected: Sequence[Expectation]
    submissions: Path
    backend: str = "auto"
    masters: int = MASTERS
    fast: bool = False
    progress: Progress = lambda _: None
    _graded: dict[bytes, tuple[Score, Margins]] = field(default_factory=dict)

    def solved(self, master: bytes) -> tuple[Score, Margins]:
        """The score of the solution, and how close its results came to what is allowed."""
        if master not in self._graded:
            margins = Margins()
            score = self.grade(self.solution, "solution", master, margins)
            self._graded[master] = score, margins
        return self._graded[master]

    def grade(
        self, folder: Path, name: str, master: bytes = PUBLIC_MASTER, margins: Margins | None = None
    ) -> Score:
        """Raises InfrastructureError when this machine cannot grade."""
        return _no_fault_of_ours(
            grading.grade(
                folder,
                assignment=self.used,
                backend=self.backend,
                master=master,
                margins=margins,
                progress=lambda what: self.progress(f"{name}: {what}"),
            )
        )


def _no_fault_of_ours(score: Score) -> Score:
    if score.status == "infrastructure_error":
        raise InfrastructureError(score.message)
    return score


# What is checked -----------------------------------------------------------------------------


def choose(name: str | None) -> Assignment:
    """The assignment of that name or in that folder; the only one there is when left out."""
    known = names()
    if name is None and len(known) != 1:
        raise UsageError(f"name the assignment, one of {', '.join(known) or 'none'}")
    return load(known[0] if name is None else name)


def find(used: Assignment, kind: str, given: Path | None) -> Path:
    """The folder of a kind (such as `solution`) of an assignment: the one that was given, or
    <kind>/<id> in the nearest folder around the assignment that has it.

    Raises UsageError when there is none.
    """
    if given is not None:
        if not given.is_dir():
            raise UsageError(f"no such folder: {given}")
        return given
    for root in used.folder.parents:
        if (root / kind / used.id).is_dir():
            return root / kind / used.id
        if (root / ".git").exists():
            break
    raise UsageError(
        f"there is no folder {kind}/{used.id} around {used.folder}: name it with "
        f"--{Path(kind).name}, or name the other steps with --only"
    )


def select(
    expected: Sequence[Expectation], folder: Path, wanted: Sequence[str]
) -> list[Expectation]:
    """The expectations of the submissions of these names, with or without the folders that they
    are in; all when none is given. Raises UsageError for a name that none has."""
    if not wanted:
        return list(expected)
    known = {_name(one, folder): one for one in expected}
    for name in wanted:
        if not any(name in (path, Path(path).name) for path in known):
            close = did_you_mean(name, [*known, *(Path(path).name for path in known)])
            raise UsageError(f"{folder} has no submission {name!r} with an expect.toml{close}")
    return [one for path, one in known.items() if {path, Path(path).name} & set(wanted)]


def subset(expected: Sequence[Expectation], folder: Path, used: Assignment) -> list[Expectation]:
    """The first submissions that between them are of every kind (the folder that they are in, what
    becomes of them, the findings), for every part."""
    seen: set[tuple[str, ...]] = set()
    kept = []
    for one in expected:
        parts = one.parts_to_grade(thoroughly=False) or [part.id for part in used.parts]
        kind = (str(Path(_name(one, folder)).parent), one.status, str(bool(one.cpu_fails)))
        new = {(*kind, part) for part in parts} - seen
        if new:
            kept.append(one)
            seen |= new
    return kept


def _name(expect: Expectation, folder: Path) -> str:
    return expect.folder.relative_to(folder).as_posix()


# The steps -----------------------------------------------------------------------------------


def check_solution(checked: Checked) -> Iterator[Outcome]:
    worst = Margins()
    for number in range(checked.masters):
        master = PUBLIC_MASTER if number == 0 else f"author {number}".encode()
        score, margins = checked.solved(master)
        lost = [
            f"{part.id}.{test.id} has {test.score:g} of {test.max_score:g}: {test.message}"
            for part, test in score.tests()
            if test.score != test.max_score and _is_run(checked.used, score, test.id)
        ]
        lost = lost if score.status == "graded" else [f"{score.status}: {score.message}"]
        says = "; ".join(lost) or f"full marks, {score.score:g} of {score.max_score:g}"
        yield Outcome("solution", f"marks, master {number + 1}", not lost, says)
        for margin in margins:
            worst.note(margin)
    yield _error(list(worst))


def _is_run(used: Assignment, score: Score, test_id: str) -> bool:
    """Whether a test gives marks on the backend of a score."""
    test = used.test(test_id)
    return test.kind != "speed" or score.environment.backend in test.marks


def _error(margins: list[Margin]) -> Outcome:
    close = [margin for margin in margins if not margin.used <= ALLOWED]
    notes = [str(margin) for margin in margins]
    if not margins:
        return Outcome("solution", "error", False, "no result could be compared")
    if close:
        says = "the error is more than half of what is allowed: " + "; ".join(map(str, close))
        return Outcome("solution", "error", False, says, notes)
    return Outcome("solution", "error", True, f"at most {max(margins, key=_used)}", notes)


def _used(margin: Margin) -> float:
    return margin.used


def check_starter(checked: Checked) -> Iterator[Outcome]:
    score = checked.grade(checked.starter, "starter")
    if score.status != "graded":
        yield Outcome("starter", "builds", False, f"{score.status}: {score.message}")
        return
    gains = [f"{part.id}.{test.id}" for part, test in score.tests() if test.score]
    yield Outcome("starter", "builds", True, "it builds")
    says = f"it has marks for {', '.join(gains)}" if gains else "it scores nothing"
    yield Outcome("starter", "marks", not gains, says)


def check_trivial(checked: Checked) -> Iterator[Outcome]:
    for part in checked.used.parts:
        for test_id in checked.used.tests_of(part):
            if checked.used.test(test_id).kind == "correctness":
                checked.progress(f"trivial: {part.title}, {test_id}")
                yield _trivial(checked.used, part, test_id)


def _trivial(used: Assignment, part: Part, test_id: str) -> Outcome:
    found = trivial.survey(used, part, test_id)
    passes = [
        f"{output}: {answer}" for (output, answer), one in found.items() if not one.refused_at
    ]
    notes = [
        f"{output}: {answer}: right at {'; '.join(one.right_at)}"
        for (output, answer), one in found.items()
        if one.right_at
    ]
    says = f"{len(found)} trivial answers are refused"
    if passes:
        says = f"no case refuses {'; '.join(passes)}: pin one at which that is wrong"
    return Outcome("trivial", f"{part.id}.{test_id}", not passes, says, notes)


def check_submissions(checked: Checked) -> Iterator[Outcome]:
    """Two at a time, on the cpu backend: findings and messages are the emulator's."""
    stopped = threading.Event()

    def graded(expect: Expectation) -> Outcome:
        name = _name(expect, checked.submissions)

        def progress(what: str) -> None:
            if stopped.is_set():
                raise Stopped
            checked.progress(f"{name}: {what}")

        score = _no_fault_of_ours(
            grading.grade(
                expect.folder,
                assignment=checked.used,
                backend="cpu",
                parts=expect.parts_to_grade(thoroughly=not checked.fast),
                timed=expect.timed,
                progress=progress,
            )
        )
        wrong = expectations.disagreements(expect, score, checked.used)
        return Outcome("submissions", name, not wrong, "; ".join(wrong) or "as expected")

    if not checked.expected:
        yield Outcome("submissions", "any", False, f"{checked.submissions} has no expect.toml")
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        try:
            yield from pool.map(graded, checked.expected)
        finally:  # one has failed, or nobody waits: those that run notice
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


def check_thresholds(checked: Checked) -> Iterator[Outcome]:
    score, _ = checked.solved(PUBLIC_MASTER)
    for test_id, test in checked.used.tests.items():
        for part in checked.used.parts:
            if test.kind == "speed" and test_id in part.points:
                name = f"{part.id}.{test_id}"
                yield from _order(name, part.id, test.marks)
                if score.environment.backend in test.marks:
                    yield _room(name, _of(score, part.id))


def _order(name: str, part: str, marks: dict[str, dict[str, Slope]]) -> Iterator[Outcome]:
    """A model of time errs, so marks for modelled times must not ask for more than for measured
    ones. (That zero < full, an assignment is refused for.)"""
    if {"cpu", "cuda"} <= set(marks):
        cpu, cuda = marks["cpu"][part], marks["cuda"][part]
        holds = cpu.zero <= cuda.zero and cpu.full <= cuda.full
        says = (
            f"from {cpu.zero:g} to {cpu.full:g} modelled, {cuda.zero:g} to {cuda.full:g} measured"
        )
        if not holds:
            says = f"marks on the cpu backend ask for more than on the cuda backend: {says}"
        yield Outcome("thresholds", f"{name}, order", holds, says)


def _of(score: Score, part: str) -> PartResult | None:
    return next((one for one in score.parts if one.id == part), None)


def _room(name: str, part: PartResult | None) -> Outcome:
    timing: Timing | None = part.timing if part else None
    if timing is None:
        return Outcome("thresholds", f"{name}, room", False, "the solution was not timed")
    room = timing.low / timing.full - 1
    says = f"{timing.low:.3f} of the memory ceiling, all marks from {timing.full:g}: {room:+.1%}"
    holds = room > 0 and timing.verdict == "scored"
    if not holds:
        says = f"the solution has no room to all marks ({timing.verdict}): {says}"
    return Outcome("thresholds", f"{name}, room", holds, says)


STEPS: dict[str, Callable[[Checked], Iterator[Outcome]]] = {
    "solution": check_solution,
    "starter": check_starter,
    "trivial": check_trivial,
    "submissions": check_submissions,
    "thresholds": check_thresholds,
}


# All of it -----------------------------------------------------------------------------------


def prepare(
    name: str | None,
    *,
    only: Sequence[str] = (),
    solution: Path | None = None,
    starter: Path | None = None,
    submissions: Path | None = None,
    wanted: Sequence[str] = (),
    masters: int | None = None,
    fast: bool = False,
    backend: str = "auto",
    progress: Progress = lambda _: None,
) -> Checked:
    """Find all that the steps `only` need (all steps when empty).

    Raises UsageError, before any work, for what is not there or cannot be read.
    """
    steps = set(only or STEPS)
    used = choose(name)
    _ = used.reference
    here = Path()
    folder, expected = here, []
    if "submissions" in steps:
        folder = find(used, "tests/submissions", submissions)
        expected = select(expectations.read_all(folder), folder, wanted)
        expected = subset(expected, folder, used) if fast and not wanted else expected
    needs_solution = steps & {"solution", "thresholds"}
    return Checked(
        used=used,
        solution=find(used, "solution", solution) if needs_solution else here,
        starter=find(used, "starter", starter) if "starter" in steps else here,
        expected=expected,
        submissions=folder,
        backend=backend,
        masters=masters or (1 if fast else MASTERS),
        fast=fast,
        progress=progress,
    )


def run(
    checked: Checked, only: Sequence[str] = (), told: Callable[[Outcome], None] = lambda _: None
) -> Report:
    """The steps `only` (all when empty), in their order; `told` hears of each outcome at once."""
    outcomes = []
    for step, outcomes_of in STEPS.items():
        if not only or step in only:
            for outcome in outcomes_of(checked):
                told(outcome)
                outcomes.append(outcome)
    holds = all(outcome.holds for outcome in outcomes)
    return Report(checked.used.id, checked.backend, holds, outcomes)


def table(report: Report) -> str:
    """How many outcomes of each step hold, and all that do not."""
    lines = [f"{'step':<14}{'holds':>7}{'fails':>7}"]
    for step in dict.fromkeys(outcome.step for outcome in report.outcomes):
        verdicts = [outcome.holds for outcome in report.outcomes if outcome.step == step]
        lines.append(f"{step:<14}{verdicts.count(True):>7}{verdicts.count(False):>7}")
    wrong = [outcome for outcome in report.outcomes if not outcome.holds]
    lines += [f"{one.step}: {one.name}: {one.says}" for one in wrong]
    return "\n".join(lines)
