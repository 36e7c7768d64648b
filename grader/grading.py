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

from grader import sandbox, submission, words
from grader.assignment import Assignment, detect
from grader.assignment import load as load_assignment
from grader.author import MARKER
from grader.cases import MAX_ELEMENTS, PUBLIC_MASTER, Case
from grader.checks import Checker, Problem
from grader.errors import BuildFailed, InfrastructureError, Rejected, UsageError
from grader.gpu import OutOfMemory
from grader.job import Job, build_for
from grader.manifest import Part
from grader.margins import Margins
from grader.review import needs_review
from grader.score import (
    AssignmentInfo,
    Environment,
    Finding,
    PartResult,
    Score,
    Status,
    SubmissionInfo,
    total,
)
from grader.session import Session
from grader.submission import Submission
from grader.target import choose as choose_target


def grade(
    folder: str | Path,
    *,
    assignment: str | Path | Assignment | None = None,
    backend: str = "auto",
    master: bytes = PUBLIC_MASTER,
    parts: Sequence[str] = (),
    timed: bool = True,
    nvcc: bool = False,
    require_isolation: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    margins: Margins | None = None,
) -> Score:
    """Grade the submission in a folder.

    assignment: its name or folder; found by the submission's files when left out.
    master: the secret that all cases follow from; the public one is what students use.
    parts: ids of the parts to grade; all when empty.
    timed: False leaves speed out (it is not run, and earns nothing).
    nvcc: also compile with nvcc, without a GPU: what only the emulator's front end accepts does not
    build then, and the notes say what the kernels take of a GPU.
    margins: is filled with how close the results came to what is allowed.
    require_isolation: only grade in the strong sandbox (see grader/threat-model.md).

    Whatever is wrong with the submission is in the Score, a machine that cannot grade gives
    status "infrastructure_error". Raises UsageError when the call itself is wrong, and
    InfrastructureError when there is no such backend or no such sandbox here.
    """
    box = sandbox.choose()
    if require_isolation:
        sandbox.isolated()
    target = choose_target(backend)
    used = resolve(folder, assignment)
    _ = used.reference  # a broken assignment shows before any work
    wanted = [used.part(name) for name in dict.fromkeys(parts)] or list(used.parts)
    started = datetime.now(UTC)
    clock = time.monotonic()
    name = words.name(Path(folder).resolve().name)
    handed_in = SubmissionInfo(name, None, [])
    results: list[PartResult] = []
    findings: list[Finding] = []
    notes = [target.note] if target.note else []
    status: Status = "graded"
    message = ""
    try:
        read = submission.read(folder, used)
        handed_in = SubmissionInfo(read.id, read.sha256, [file.name for file in read.files])
        job = Job(read, used, target, master, progress, findings, notes, timed, nvcc, margins)
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
    except MemoryError:
        status, message = "infrastructure_error", "this machine has too little memory to grade"
    except OSError as error:  # a full disk, too many open files: never the submission's doing
        where = f" ({error.filename})" if error.filename else ""
        status, message = "infrastructure_error", f"{error.strerror or error}{where}"
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
            sandbox=box.kind,
            seed="public" if master == PUBLIC_MASTER else "secret",
            started_at=started.isoformat(timespec="seconds"),
            duration_seconds=round(time.monotonic() - clock, 3),
            notes=notes,
            sandbox_lacks=sandbox.lacks(box),
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
    module = build_for(submission.read(folder, used), used, box, target)
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
    built = build_for(submission.read(folder, used), used, sandbox.choose(), target)
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
    if not submission.there(path):
        raise UsageError(f"no such folder: {words.name(str(folder))}")
    return load_assignment(assignment or detect(path))


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
