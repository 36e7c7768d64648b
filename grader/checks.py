"""Runs the correctness tests of a part: cases -> calls -> verdicts -> TestResult.

A case is several calls in one process: a shape, the same buffers with new data, another shape in
the same buffers, and the first shape again, each under another order of threads. (A very large case
is one call: it is there for its size.) State that is kept between calls shows, and so does a result
that depends on who runs first. The emulator's checkers watch the first call of each case: what they
call an error fails the case, even if the numbers come out right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from grader.arena import Buffer
from grader.assignment import Assignment
from grader.cases import Case, cases, shrink, smaller, token
from grader.compare import Mismatch, compare, used
from grader.findings import add, parse, sentence
from grader.gpu import Gpu, OutOfMemory
from grader.large import large_cases, try_large
from grader.manifest import Part
from grader.margins import Margin, Margins
from grader.rationales import RATIONALES
from grader.score import Failure, Finding, TestResult
from grader.session import Call, Fault, Returned, Session

# The emulator counts loop iterations, threads started and waits; a launcher that needs this many
# per call is not slow but stuck. The second number is per element of the case.
STEPS = 400_000_000
STEPS_PER_ELEMENT = 20_000
LARGE_ELEMENTS = 100_000
CHECKED_ELEMENTS = 40_000  # of a case whose first call is watched access by access
SHRINK_TRIES = 40
SHRINK_ELEMENTS = 150_000

# Limits of the emulator rather than faults of a kernel that is right on a GPU: what it does not
# have, and blocks that wait for later ones, which there run side by side.
EMULATORS_OWN = ("unsupported", "endless_loop", "timeout")

RACE = (
    "with the same data it is right when threads run in another order: a race, such as "
    "a missing __syncthreads() or an update by many threads that is not atomic"
)

RIGHT_ALL_THE_SAME = "the numbers are right this time, which is luck"

RIGHT_BY_LUCK = (
    "the GPU got it right, where threads run in another order and memory holds something else: "
    "a race, or something that is read before it is written"
)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Problem:
    """Why a case failed: in which of its calls, and what was wrong there."""

    call: int
    dims: dict[str, int]
    kind: str
    sentence: str
    output: str | None = None
    mismatch: Mismatch | None = None
    note: str = ""
    shrinkable: bool = True
    findings: tuple[Finding, ...] = ()  # all that the checkers saw in that call


@dataclass(frozen=True)
class Step:
    """One call of a case."""

    dims: dict[str, int]
    data: int  # which data: the n-th stream of the case's generator
    schedule: int
    checked: bool = False


def not_run(assignment: Assignment, part: Part, test_id: str, why: str) -> TestResult:
    """The result of a test that was not run."""
    return TestResult(
        id=test_id,
        title=assignment.test(test_id).title,
        passed=None,
        score=0.0,
        max_score=float(part.points[test_id]),
        cases=[],
        message=why,
    )


@dataclass
class Checker:
    """The tests of one part of one submission, on one worker session."""

    assignment: Assignment
    part: Part
    session: Session
    master: bytes
    progress: Progress = lambda _: None
    gpu: Gpu | None = None  # where the session's module runs; None is the emulator
    findings: list[Finding] = field(default_factory=list)
    margins: Margins | None = None  # where to note how close results came to what is allowed
    unchecked: str = ""  # why the emulator could not give its opinion
    exhaustive: bool = False  # go on behind a failure, and look for no smaller one
    failed: list[tuple[Case, Problem]] = field(default_factory=list)  # when exhaustive
    _seen: list[Finding] = field(default_factory=list)  # in the calls of the case that runs

    def run(self, test_id: str) -> TestResult:
        """Run all cases of a test up to the first that fails, and report the smallest failure.

        When `exhaustive`, run all of them, each in a clean worker after a failure; `failed` holds
        what failed, and ends early only at a problem that would show in every case, slowly.
        """
        first = len(self.failed)
        tried: list[Case] = []
        left_out: list[str] = []
        for case in self._cases(test_id):
            self.progress(f"{self.part.title}, {test_id}: case {len(tried) + 1}")
            try:
                problem = self.try_case(test_id, case)
            except OutOfMemory as error:
                left_out.append(f"not run: {case.describe()} ({error})")
                continue
            tried.append(case)
            if problem is not None and self.exhaustive:
                self.failed.append((case, problem))
                self.session.stop()
                if not problem.shrinkable:
                    break
                continue
            if problem is not None:
                self.progress(f"{self.part.title}, {test_id}: looking for a smaller failing case")
                return self._failed(test_id, tried, *self._smallest(test_id, case, problem))
            add(self.findings, self._seen)
        if self.failed[first:]:
            return self._failed(test_id, tried, *self.failed[first])
        return self._result(test_id, True, tried, "; ".join(left_out))

    def second_opinion(self, test_id: str) -> TestResult | None:
        """Run the pinned cases, which a GPU got right, for what only the emulator sees: faults, and
        numbers that come out right only when threads happen to run in a GPU's order. None when
        nothing was seen, or when the emulator cannot run this kernel: `unchecked` says why then."""
        tried: list[Case] = []
        for case in cases(self.assignment, self.part, test_id, self.master, pinned_only=True):
            tried.append(case)
            self.progress(f"{self.part.title}, {test_id}: case {len(tried)} on the emulator")
            problem = self.try_case(test_id, case)
            if problem is None:
                add(self.findings, self._seen)
                continue
            if problem.kind in EMULATORS_OWN:
                self.unchecked = problem.sentence
                return None
            if problem.kind == "wrong_result":
                self.session.stop()
                why = self._diagnose(test_id, case, problem) or RIGHT_BY_LUCK
                problem = replace(problem, note=f"on the emulator; {why}")
            return self._failed(test_id, tried, case, problem, " --backend cpu")
        return None

    def _cases(self, test_id: str) -> Iterable[Case]:
        every = cases(self.assignment, self.part, test_id, self.master)
        if self.gpu is None:
            return every
        # the smallest first, instead of a search for a smaller one
        small = sorted(every, key=lambda case: case.elements)
        return [*small, *large_cases(self.assignment, self.part, test_id, self.master)]

    # One case -----------------------------------------------------------------------------------

    def try_case(self, test_id: str, case: Case) -> Problem | None:
        """All calls of a case in the running worker; None when every one was right.

        Raises OutOfMemory when a large case does not fit into the GPU's memory.
        """
        self._seen = []
        if self.gpu is not None and case.dims in self.assignment.test(test_id).large:
            return self._try_large(self.gpu, test_id, case)
        for number, step in enumerate(self._steps(test_id, case)):
            problem = self._try_step(test_id, case, number, step)
            if problem is not None:
                return problem
        return None

    def _try_large(self, gpu: Gpu, test_id: str, case: Case) -> Problem | None:
        wrong = try_large(gpu, self.session, self.assignment, self.part, test_id, case)
        if wrong is None:
            return None
        if isinstance(wrong, Fault):
            return Problem(0, case.dims, wrong.kind, wrong.sentence, shrinkable=False)
        return Problem(
            0, case.dims, wrong.kind, wrong.sentence, wrong.output, wrong.mismatch, shrinkable=False
        )

    def _steps(self, test_id: str, case: Case) -> list[Step]:
        test = self.assignment.test(test_id)
        shuffled = 2 + case.seed % 1_000_003
        if case.elements > LARGE_ELEMENTS:  # there for its size alone
            return [Step(case.dims, 0, shuffled)]
        checked = self.gpu is None and case.elements <= CHECKED_ELEMENTS
        return [
            Step(case.dims, 0, 0, checked),
            Step(case.dims, 1, 1),
            Step(smaller(case.dims, test), 2, shuffled),
            Step(case.dims, 3, shuffled + 1),
        ]

    def _try_step(self, test_id: str, case: Case, number: int, step: Step) -> Problem | None:
        inputs = self.assignment.inputs(
            self.part, case.family, step.dims, case.scale, case.rng(step.data)
        )
        call = Call(
            launcher=self.part.launcher,
            arguments=self._arguments(case, step, inputs),
            schedule=step.schedule,
            steps=STEPS + STEPS_PER_ELEMENT * case.elements,
            checked=step.checked,
        )
        answer = self.session.call(call)
        told = tuple(parse(answer.report, self.part.id))
        self._seen += told
        if isinstance(answer, Fault):
            slow = answer.kind in ("timeout", "endless_loop")
            about_the_case = not (slow or answer.loading or answer.kind == "missing")
            return Problem(
                number, step.dims, answer.kind, answer.sentence,
                shrinkable=about_the_case, findings=told,
            )  # fmt: skip
        output, wrong = self._mismatch(test_id, case, answer, step, inputs)
        errors = [finding for finding in told if finding.severity == "error"]
        if errors:
            seen = RIGHT_ALL_THE_SAME if wrong is None else wrong.sentence(str(output))
            return Problem(
                number, step.dims, errors[0].kind, sentence(errors[0]), output, wrong, seen,
                findings=told,
            )  # fmt: skip
        if answer.damage:
            kind = "input_written" if "the input" in answer.damage[0] else "out_of_bounds"
            return Problem(number, step.dims, kind, answer.damage[0], findings=told)
        if wrong is None:
            return None
        return Problem(
            number, step.dims, "wrong_result", wrong.sentence(str(output)), output, wrong,
            answer.note, findings=told,
        )  # fmt: skip

    def _mismatch(
        self,
        test_id: str,
        case: Case,
        answer: Returned,
        step: Step,
        inputs: dict[str, np.ndarray],
    ) -> tuple[str | None, Mismatch | None]:
        """The first output that is wrong, and how."""
        bound = self.assignment.test(test_id).bound
        expected = self.assignment.expected(self.part, step.dims, inputs, bound)
        for name in self.part.outputs:
            if self.margins is not None:
                share = used(answer.outputs[name], expected[name])
                where = msgspec.structs.replace(case, dims=step.dims).describe()
                self.margins.note(Margin(self.part.id, test_id, name, share, where))
            wrong = compare(answer.outputs[name], expected[name], self.assignment.arrays[name])
            if wrong is not None:
                return name, wrong
        return None, None

    def _arguments(
        self, case: Case, step: Step, inputs: dict[str, np.ndarray]
    ) -> list[Buffer | int]:
        arguments: list[Buffer | int] = []
        for name in self.part.arguments:
            if name in step.dims:
                arguments.append(step.dims[name])
                continue
            shape = self.assignment.shape(name, step.dims)
            room = int(np.prod(self.assignment.shape(name, case.dims)))
            data = None if name in self.part.outputs else np.ascontiguousarray(inputs[name])
            arguments.append(Buffer(name, shape, data, max(room, int(np.prod(shape)))))
        return arguments

    # A failure ----------------------------------------------------------------------------------

    def _smallest(self, test_id: str, case: Case, problem: Problem) -> tuple[Case, Problem]:
        """A smaller case with the same kind of problem, seen in a clean worker; else the same."""
        if not problem.shrinkable:
            return case, problem  # slow to repeat, or not about the case at all

        def fails(candidate: Case) -> bool:
            self.session.stop()
            found = self.try_case(test_id, candidate)
            return found is not None and found.kind == problem.kind

        test = self.assignment.test(test_id)
        tries = SHRINK_TRIES if self.gpu is None else 0  # a GPU's cases come smallest first
        small = shrink(case, test, fails, tries, SHRINK_ELEMENTS)
        self.session.stop()
        again = self.try_case(test_id, small)
        if again is None or again.kind != problem.kind:
            note = (
                "it did not fail again in a fresh process: it depends on earlier calls or on luck"
            )
            return case, replace(problem, note=note)
        return small, replace(again, note=again.note or self._diagnose(test_id, small, again))

    def _diagnose(self, test_id: str, case: Case, problem: Problem) -> str:
        """Is it the data, the order of threads, or state? Repeat the one call on its own."""
        if problem.kind in ("crashed", "exited", "exception"):
            last = self.session.log.strip().splitlines()[-1:]
            return f"it printed: {last[0][:200]}" if last else ""
        if problem.kind != "wrong_result":
            return ""
        step = self._steps(test_id, case)[problem.call]

        def alone(schedule: int) -> bool:
            self.session.stop()
            only = Step(step.dims, step.data, schedule)
            return self._try_step(test_id, case, problem.call, only) is not None

        if not alone(step.schedule):
            return (
                "the same call is right in a fresh process: the launcher keeps something between "
                "calls (a static variable, a cached pointer or result, a workspace not cleared)"
            )
        if not all(alone(schedule) for schedule in (0, 1)):
            return RACE
        return ""

    def _failed(
        self, test_id: str, tried: list[Case], case: Case, problem: Problem, options: str = ""
    ) -> TestResult:
        wrong = problem.mismatch
        self._note_finding(problem)
        if problem.kind == "missing":  # no case has anything to do with it
            return self._result(test_id, False, tried, problem.sentence)
        failure = Failure(
            dims=problem.dims,
            family=case.family,
            scale=case.scale,
            output=problem.output,
            index=list(wrong.index) if wrong else None,
            expected=wrong.expected if wrong else None,
            actual=wrong.actual if wrong else None,
            error=wrong.error if wrong else None,
            allowed=wrong.allowed if wrong else None,
            repro=f"grader repro{options} {token(self.part.id, test_id, case)}",
        )
        where = msgspec.structs.replace(case, dims=problem.dims).describe()
        message = f"{problem.sentence} [{where}]"
        if problem.note:
            message += f"; {problem.note}"
        return self._result(test_id, False, tried, message, failure)

    def _note_finding(self, problem: Problem) -> None:
        """The checkers' findings of the failing call, and the fault that ended it."""
        add(self.findings, problem.findings)
        if problem.kind in ("wrong_result", *(finding.kind for finding in problem.findings)):
            return
        place = re.match(r"([^\s:]+):(\d{1,7}): (.*)", problem.sentence, re.S)
        fault = Finding(
            severity="error",
            kind=problem.kind,
            part=self.part.id,
            file=place[1] if place else None,
            line=int(place[2]) if place else None,
            message=place[3] if place else problem.sentence,
            rationale=RATIONALES.get(problem.kind, ""),
            count=1,
        )
        add(self.findings, [fault])

    def _result(
        self,
        test_id: str,
        passed: bool,
        tried: list[Case],
        message: str,
        failure: Failure | None = None,
    ) -> TestResult:
        worth = float(self.part.points[test_id])
        return TestResult(
            id=test_id,
            title=self.assignment.test(test_id).title,
            passed=passed,
            score=worth if passed else 0.0,
            max_score=worth,
            cases=tried,
            message=message,
            failure=failure,
        )
