"""The main path: folder -> Submission -> Module -> checks -> Score."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import ModuleType

from grader import build, sandbox, submission
from grader.assignment import Assignment, detect
from grader.assignment import load as load_assignment
from grader.author import MARKER
from grader.cases import PUBLIC_MASTER, Case
from grader.checks import Checker, Problem
from grader.errors import BuildFailed, InfrastructureError, Rejected, UsageError
from grader.manifest import Part
from grader.score import (
    AssignmentInfo,
    Environment,
    Finding,
    PartResult,
    Score,
    Status,
    SubmissionInfo,
    TestResult,
    total,
)
from grader.session import Fault, Session
from grader.submission import Submission

BACKENDS = ("auto", "cpu")
SPEED_MESSAGE = "not scored: this version of the grader does not time kernels on the cpu backend"


def grade(
    folder: str | Path,
    *,
    assignment: str | Path | Assignment | None = None,
    backend: str = "auto",
    master: bytes = PUBLIC_MASTER,
    parts: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> Score:
    """Grade the submission in a folder.

    assignment: its name or folder; found by the submission's files when left out.
    master: the secret that all cases follow from; the public one is what students use.
    parts: ids of the parts to grade; all when empty.

    Whatever is wrong with the submission is in the Score, a machine that cannot grade gives
    status "infrastructure_error". Raises UsageError when the call itself is wrong.
    """
    if backend not in BACKENDS:
        raise UsageError(f"unknown backend {backend!r}: known are {', '.join(BACKENDS)}")
    used = resolve(folder, assignment)
    _ = used.reference  # a broken assignment shows before any work
    wanted = [used.part(name) for name in dict.fromkeys(parts)] or list(used.parts)
    started = datetime.now(UTC)
    clock = time.monotonic()
    name = Path(folder).resolve().name
    handed_in = SubmissionInfo(name, None, [])
    results: list[PartResult] = []
    findings: list[Finding] = []
    status: Status = "graded"
    message = ""
    try:
        read = submission.read(folder, used)
        handed_in = SubmissionInfo(read.id, read.sha256, [file.name for file in read.files])
        progress("Compiling")
        results = _check(read, used, wanted, master, progress, findings)
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
        message=message,
        assignment=AssignmentInfo(used.id, used.title, used.version),
        submission=handed_in,
        parts=results,
        findings=findings,
        environment=Environment(
            grader=metadata.version("kernel-grader"),
            backend="cpu",
            device="CUDA-on-CPU emulator",
            sandbox=sandbox.choose().kind,
            seed="public" if master == PUBLIC_MASTER else "secret",
            started_at=started.isoformat(timespec="seconds"),
            duration_seconds=round(time.monotonic() - clock, 3),
        ),
    )


def repro(
    folder: str | Path,
    part: Part,
    test_id: str,
    case: Case,
    used: Assignment,
) -> tuple[Problem | None, str]:
    """Run one case again: (what is wrong with it, what the submission printed).

    Raises Rejected or BuildFailed as grading would.
    """
    box = sandbox.choose()
    module = build.build(submission.read(folder, used), used, box)
    with Session(module, box) as session:
        problem = Checker(used, part, session, PUBLIC_MASTER).try_case(test_id, case)
        return problem, session.log


def load(folder: str | Path, *, assignment: str | Path | None = None) -> ModuleType:
    """A submission's own module in YOUR process: its launchers take numpy arrays.

    For students and notebooks, with code that you trust; grading never does this. The stream
    argument is left out, float32 arrays are copied to the device and outputs back.

        module = grader.load("starter/saxpy")
        module.launch_saxpy(y, x, 2.0, y.size)

    Raises Rejected, BuildFailed or UsageError.
    """
    used = resolve(folder, assignment)
    built = build.build(submission.read(folder, used), used)
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


def _check(
    read: Submission,
    used: Assignment,
    wanted: list[Part],
    master: bytes,
    progress: Callable[[str], None],
    findings: list[Finding],
) -> list[PartResult]:
    box = sandbox.choose()
    module = build.build(read, used, box)
    results = []
    for part in wanted:
        with Session(module, box) as session:
            fault = session.open()
            if isinstance(fault, Fault) and fault.kind in ("undefined", "load"):
                raise BuildFailed(fault.sentence, "")
            checker = Checker(used, part, session, master, progress)
            tests = _run_tests(checker)
            findings += checker.findings
        results.append(
            PartResult(
                id=part.id,
                title=part.title,
                score=total(test.score for test in tests),
                max_score=total(part.points.values()),
                tests=tests,
            )
        )
    return results


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


def _run_tests(checker: Checker) -> list[TestResult]:
    """The tests of a part in order; one whose needs did not pass is not run."""
    done: dict[str, TestResult] = {}
    for name in checker.assignment.tests_of(checker.part):
        test = checker.assignment.test(name)
        unmet = [need for need in test.needs if need in done and not done[need].passed]
        if unmet:
            done[name] = checker.not_run(name, f"not run: it needs {' and '.join(unmet)} to pass")
        elif test.kind == "speed":
            done[name] = checker.not_run(name, SPEED_MESSAGE)
        else:
            done[name] = checker.run(name)
    return list(done.values())
