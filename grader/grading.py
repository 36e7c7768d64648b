"""The main path: folder -> Submission -> Module -> checks -> Score."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

from grader import build, sandbox, submission
from grader.assignment import Assignment, detect
from grader.assignment import load as load_assignment
from grader.author import MARKER
from grader.cases import MAX_ELEMENTS, PUBLIC_MASTER, Case
from grader.checks import Checker, Problem
from grader.errors import BuildFailed, InfrastructureError, Rejected, UsageError
from grader.gpu import OutOfMemory
from grader.manifest import Part
from grader.review import needs_review
from grader.sandbox import Sandbox
from grader.score import (
    AssignmentInfo,
    Environment,
    Finding,
    PartResult,
    Score,
    Status,
    SubmissionInfo,
    TestResult,
    Timing,
    total,
)
from grader.session import Fault, NoDevice, Session
from grader.speed import SpeedTest
from grader.submission import Submission
from grader.target import Target
from grader.target import choose as choose_target

SPEED_MESSAGE = "not scored: this version of the grader does not time kernels on the cpu backend"
NO_MARKS = "not scored: the assignment names no marks for speed on the cuda backend"


def grade(
    folder: str | Path,
    *,
    assignment: str | Path | Assignment | None = None,
    backend: str = "auto",
    master: bytes = PUBLIC_MASTER,
    parts: Sequence[str] = (),
    timed: bool = True,
    nvcc: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Score:
    """Grade the submission in a folder.

    assignment: its name or folder; found by the submission's files when left out.
    master: the secret that all cases follow from; the public one is what students use.
    parts: ids of the parts to grade; all when empty.
    timed: False leaves speed out (it is not run, and earns nothing).
    nvcc: also compile with nvcc, without a GPU: what only the emulator's front end accepts does not
    build then, and the notes say what the kernels take of a GPU.

    Whatever is wrong with the submission is in the Score, a machine that cannot grade gives
    status "infrastructure_error". Raises UsageError when the call itself is wrong, and
    InfrastructureError when there is no such backend here.
    """
    target = choose_target(backend)
    used = resolve(folder, assignment)
    _ = used.reference  # a broken assignment shows before any work
    wanted = [used.part(name) for name in dict.fromkeys(parts)] or list(used.parts)
    started = datetime.now(UTC)
    clock = time.monotonic()
    name = Path(folder).resolve().name
    handed_in = SubmissionInfo(name, None, [])
    results: list[PartResult] = []
    findings: list[Finding] = []
    notes = [target.note] if target.note else []
    status: Status = "graded"
    message = ""
    try:
        read = submission.read(folder, used)
        handed_in = SubmissionInfo(read.id, read.sha256, [file.name for file in read.files])
        progress("Compiling")
        job = _Job(read, used, target, master, progress, findings, notes, timed, nvcc)
        results = job.run(wanted)
        if any(test.passed is False for part in results for test in part.tests):
            message = _unfinished(read)
    except Rejected as error:
        status, message = "rejected", str(error)
    except BuildFailed as error:
        status = "build_failed"
        message = f"{error}\n\n{error.log}" if error.log else str(error)
    except InfrastructureError as error:
        status, message = "infrastructure_error", str(error)
    scored = 0.0 if status != "infrastructure_error" else None
    return Score(
        status=status,
        score=total(part.score for part in results) if results else scored,
        max_score=total(points for part in wanted for points in part.points.values()),
        needs_review=needs_review(results),
        message=message,
        assignment=AssignmentInfo(used.id, used.title, used.version),
        submission=handed_in,
        parts=results,
        findings=findings,
        environment=Environment(
            grader=metadata.version("kernel-grader"),
            backend=target.backend,
            device=target.device,
            sandbox=sandbox.choose().kind,
            seed="public" if master == PUBLIC_MASTER else "secret",
            started_at=started.isoformat(timespec="seconds"),
            duration_seconds=round(time.monotonic() - clock, 3),
            notes=notes,
        ),
    )


def repro(
    folder: str | Path,
    part: Part,
    test_id: str,
    case: Case,
    used: Assignment,
    backend: str = "auto",
) -> tuple[Problem | None, str]:
    """Run one case again: (what is wrong with it, what the submission printed).

    Raises Rejected or BuildFailed as grading would, and InfrastructureError when the case needs
    another machine than this.
    """
    target = choose_target(backend)
    if target.gpu is None and case.elements > MAX_ELEMENTS:
        raise InfrastructureError(
            f"{case.describe()} is too large for the emulator: it needs a GPU (--backend cuda)"
        )
    box = sandbox.choose()
    module = _build(submission.read(folder, used), used, box, target)
    with Session(module, box) as session:
        checker = Checker(used, part, session, PUBLIC_MASTER, gpu=target.gpu)
        try:
            problem = checker.try_case(test_id, case)
        except OutOfMemory as error:
            raise InfrastructureError(f"the GPU is too small for this case: {error}") from None
        return problem, session.log


def load(
    folder: str | Path, *, assignment: str | Path | None = None, backend: str = "auto"
) -> ModuleType:
    """A submission's own module in YOUR process: its launchers take numpy arrays.

    For students and notebooks, with code that you trust; grading never does this. The stream
    argument is left out, float32 arrays are copied to the device and outputs back.

        module = grader.load("starter/saxpy")
        module.launch_saxpy(y, x, 2.0, y.size)

    Raises Rejected, BuildFailed, UsageError, and InfrastructureError when there is no such backend.
    """
    used = resolve(folder, assignment)
    target = choose_target(backend)
    built = _build(submission.read(folder, used), used, sandbox.choose(), target)
    # a name of its own: two submissions in one process must not be taken for each other
    name = f"_graded_{built.sha256[:16]}.submission"
    loader = ExtensionFileLoader(name, str(built.path))
    spec = importlib.util.spec_from_file_location(name, built.path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def resolve(folder: str | Path, assignment: str | Path | Assignment | None) -> Assignment:
    """The assignment that was named, or the one that the submission's files belong to."""
    if isinstance(assignment, Assignment):
        return assignment
    path = Path(folder)
    if not path.exists():
        raise UsageError(f"no such folder: {folder}")
    return load_assignment(assignment or detect(path))


def _build(read: Submission, used: Assignment, box: Sandbox, target: Target) -> build.Module:
    if target.gpu is None:
        return build.build(read, used, box)
    return build.build(read, used, box, backend="cuda", arch=target.gpu.arch)


@dataclass
class _Job:
    """One submission on one target."""

    read: Submission
    used: Assignment
    target: Target
    master: bytes
    progress: Callable[[str], None]
    findings: list[Finding]
    notes: list[str]
    timed: bool
    nvcc: bool

    def run(self, wanted: list[Part]) -> list[PartResult]:
        box = sandbox.choose()
        if self.nvcc and self.target.gpu is None:
            self._cross_check(box)
        module = _build(self.read, self.used, box, self.target)
        emulated = self._emulated(box)
        results = []
        for part in wanted:
            with Session(module, box) as session:
                try:
                    fault = session.open()
                    if isinstance(fault, Fault) and fault.kind in ("undefined", "load"):
                        raise BuildFailed(fault.sentence, "")
                    results.append(self._part(part, session, emulated, box))
                except NoDevice:
                    self._blame(box)
                    raise
        return results

    def _cross_check(self, box: Sandbox) -> None:
        """Raises BuildFailed when nvcc refuses the submission, InfrastructureError without nvcc."""
        self.progress("Compiling with nvcc")
        for use in build.cross_check(self.read, self.used, box):
            spilled = use.spill_stores + use.spill_loads
            needs = f"{use.registers} registers, {use.shared} bytes of shared memory"
            needs += f", {spilled} bytes spilled" if spilled else ""
            self.notes.append(f"nvcc: {use.kernel}: {needs}")

    def _blame(self, box: Sandbox) -> None:
        """Raises BuildFailed if a worker without the submission's code can use the GPU."""
        with Session(
            _build(build.without_code(self.used), self.used, box, self.target), box
        ) as one:
            if one.open() is None:
                raise BuildFailed("the submission makes the GPU unusable for its process", "")

    def _emulated(self, box: Sandbox) -> build.Module | None:
        """The same submission for the emulator, when another backend decides the numbers: its
        checkers see what a GPU hides. None where the emulator is the backend, or cannot run it."""
        if self.target.gpu is None:
            return None
        self.progress("Compiling for the emulator's checkers")
        try:
            return build.build(self.read, self.used, box)
        except BuildFailed as error:
            self._not_checked(f"the emulator cannot run this file ({error})")
            return None

    def _not_checked(self, why: str) -> None:
        note = f"findings not checked: {why}"
        if note not in self.notes:
            self.notes.append(note)

    def _part(
        self, part: Part, session: Session, emulated: build.Module | None, box: Sandbox
    ) -> PartResult:
        """The tests of a part in order; one whose needs did not pass is not run."""
        checker = Checker(
            self.used, part, session, self.master, self.progress, self.target.gpu, self.findings
        )
        done: dict[str, TestResult] = {}
        timing: Timing | None = None
        for name in self.used.tests_of(part):
            test = self.used.test(name)
            unmet = [need for need in test.needs if need in done and not done[need].passed]
            if unmet:
                why = f"not run: it needs {' and '.join(unmet)} to pass"
                done[name] = checker.not_run(name, why)
            elif test.kind == "speed":
                done[name], timing = self._speed(part, name, session, checker)
            else:
                done[name] = checker.run(name)
                if done[name].passed and emulated is not None:
                    done[name] = self._second_opinion(part, name, emulated, box) or done[name]
        tests = list(done.values())
        return PartResult(
            id=part.id,
            title=part.title,
            score=total(test.score for test in tests),
            max_score=total(part.points.values()),
            tests=tests,
            timing=timing,
        )

    def _second_opinion(
        self, part: Part, test_id: str, emulated: build.Module, box: Sandbox
    ) -> TestResult | None:
        """What the emulator's checkers see on the pinned cases that a GPU got right."""
        with Session(emulated, box) as session:
            fault = session.open()
            if isinstance(fault, Fault):
                self._not_checked(f"the emulator cannot load this file: {fault.sentence}")
                return None
            checker = Checker(
                self.used, part, session, self.master, self.progress, findings=self.findings
            )
            found = checker.second_opinion(test_id)
            if checker.unchecked:
                where = f"{part.launcher} in {test_id}"
                self._not_checked(f"the emulator cannot run {where}: {checker.unchecked}")
            return found

    def _speed(
        self, part: Part, test_id: str, session: Session, checker: Checker
    ) -> tuple[TestResult, Timing | None]:
        gpu = self.target.gpu
        if not self.timed:
            return checker.not_run(test_id, "not scored: speed was left out on request"), None
        if gpu is None:
            return checker.not_run(test_id, SPEED_MESSAGE), None
        if "cuda" not in self.used.test(test_id).marks:
            return checker.not_run(test_id, NO_MARKS), None
        speed = SpeedTest(gpu, self.used, part, session, self.master, self.progress, self.findings)
        return speed.run(test_id)


def _unfinished(read: Submission) -> str:
    """What is left of the starter, in a sentence; empty when nothing is."""
    places = [
        f"{file.name}:{number}"
        for file in read.files
        for number, line in enumerate(file.data.splitlines(), start=1)
        if MARKER.encode() in line
    ]
    if not places:
        return ""
    many = f"{len(places)} places are" if len(places) > 1 else "one place is"
    return f"{many} still marked {MARKER}, the first at {places[0]}: write the kernel there"
