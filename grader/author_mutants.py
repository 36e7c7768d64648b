"""For authors: do the tests of an assignment notice a small fault in a kernel that is right?

Mutants of a submission are graded by their numbers and the emulator's checkers, without timing. One
that no test fails is either no fault at all or a hole in the tests; a test that fails in one or two
of its cases only is a weak one.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from grader import sandbox, submission
from grader.assignment import Assignment
from grader.call_graph import CallGraph
from grader.cases import PUBLIC_MASTER
from grader.checks import Checker
from grader.errors import BuildFailed, UsageError
from grader.grading import resolve
from grader.job import build_for
from grader.manifest import Part
from grader.mutate import Mutant, mutants, sample
from grader.sandbox import Sandbox
from grader.session import Fault, Session
from grader.submission import SourceFile, Submission
from grader.target import choose

AT_ONCE = 2
WEAK = 2  # a test that fails in so few of its cases notices a fault by luck

Outcome = Literal["discarded", "killed", "survived"]
Progress = Callable[[str], None]


class Kill(msgspec.Struct, frozen=True):
    """The first test that fails: at which case, how, and in how many of the cases that it ran."""

    part: str
    test: str
    dims: dict[str, int]
    family: str
    scale: float
    kind: str
    failing: int
    cases: int
    master: int  # 0 is the public one

    @property
    def weak(self) -> bool:
        # a problem of every case ends the test at its first one
        return self.failing <= WEAK and self.cases > 2 * WEAK


class Tried(msgspec.Struct, frozen=True):
    """One mutant, and what became of it. `parts` are those whose launchers reach its line."""

    file: str
    line: int
    operator: str
    description: str
    outcome: Outcome
    parts: list[str]
    kill: Kill | None = None
    message: str = ""


class Report(msgspec.Struct, frozen=True):
    """All mutants of a sample, in the order of files and lines."""

    assignment: str
    submission: str
    sample: int
    masters: int
    tried: list[Tried]


@dataclass(frozen=True)
class _Candidate:
    file: str
    mutant: Mutant
    parts: list[Part]


def try_mutants(
    folder: str | Path,
    *,
    assignment: str | Path | Assignment | None = None,
    parts: Sequence[str] = (),
    count: int = 30,
    chosen_by: int = 0,
    masters: int = 5,
    progress: Progress = lambda _: None,
) -> Report:
    """Grade `count` mutants of a submission on the emulator, chosen by a seed.

    masters: what survives the public master's cases meets those of so many masters in all.

    Raises UsageError for a submission without mutants, Rejected as grading would, and
    InfrastructureError when this machine cannot grade.
    """
    if count < 1 or masters < 1:
        raise UsageError("the numbers of mutants and of masters must be 1 or more")
    used = resolve(folder, assignment)
    wanted = [used.part(name) for name in dict.fromkeys(parts)] or list(used.parts)
    read = submission.read(folder, used)
    candidates = _candidates(read, used, wanted, count, chosen_by)
    if not candidates:
        raise UsageError(f"no mutant of {folder} concerns these parts")
    box = sandbox.choose()
    lock, done = threading.Lock(), 0

    def attempt(candidate: _Candidate) -> Tried:
        nonlocal done
        tried = _attempt(candidate, read, used, box, masters)
        with lock:
            done += 1
            progress(f"{done} of {len(candidates)} mutants")
        return tried

    with ThreadPoolExecutor(AT_ONCE) as pool:
        tried = list(pool.map(attempt, candidates))
    tried.sort(key=lambda each: (each.file, each.line, each.operator, each.description))
    return Report(used.id, read.id, chosen_by, masters, tried)


def _candidates(
    read: Submission, used: Assignment, wanted: list[Part], count: int, chosen_by: int
) -> list[_Candidate]:
    texts = {file.name: file.data.decode("utf-8-sig") for file in read.files}
    graph = CallGraph(texts, [part.launcher for part in used.parts])
    found: dict[int, _Candidate] = {}
    every: list[Mutant] = []
    for name, text in texts.items():
        for mutant in mutants(text):
            reached = graph.launchers_of(name, mutant.line)
            concerned = [part for part in wanted if part.launcher in reached]
            if concerned:
                found[id(mutant)] = _Candidate(name, mutant, concerned)
                every.append(mutant)
    return [found[id(mutant)] for mutant in sample(every, count, chosen_by)]


def _attempt(
    candidate: _Candidate, read: Submission, used: Assignment, box: Sandbox, masters: int
) -> Tried:
    """Build and grade one mutant."""
    outcome: Outcome = "survived"
    kill: Kill | None = None
    message = ""
    try:
        changed = _mutated(read, candidate)
        module = build_for(changed, used, box, choose("cpu"))
        for number in range(masters):
            with Session(module, box) as session:
                kill, message = _grade(session, used, candidate.parts, number)
            if kill is not None:
                outcome = "killed"
                break
    except BuildFailed as error:
        outcome, message = "discarded", str(error)
    mutant = candidate.mutant
    return Tried(
        candidate.file, mutant.line, mutant.name, mutant.description, outcome,
        [part.id for part in candidate.parts], kill, message,
    )  # fmt: skip


def _grade(
    session: Session, used: Assignment, parts: list[Part], number: int
) -> tuple[Kill | None, str]:
    """The first test that fails over the cases of a master, and what it says."""
    fault = session.open()
    if isinstance(fault, Fault):
        raise BuildFailed(fault.sentence, "")
    for part in parts:
        checker = Checker(used, part, session, master(number), exhaustive=True)
        for name in used.tests_of(part):
            if used.test(name).kind != "correctness":
                continue
            result = checker.run(name)
            if checker.failed:
                case, problem = checker.failed[0]
                failing = len(checker.failed)
                return Kill(
                    part.id, name, case.dims, case.family, case.scale, problem.kind,
                    failing, len(result.cases), number,
                ), result.message  # fmt: skip
    return None, ""


def master(number: int) -> bytes:
    """The n-th master: the public one first."""
    return PUBLIC_MASTER if number == 0 else f"mutants-{number}".encode()


def _mutated(read: Submission, candidate: _Candidate) -> Submission:
    data = candidate.mutant.text.encode()
    files = tuple(
        SourceFile(file.name, data) if file.name == candidate.file else file for file in read.files
    )
    digest = hashlib.sha256(read.sha256.encode() + candidate.file.encode() + data).hexdigest()
    return Submission(read.id, read.folder, files, digest)


# Words -------------------------------------------------------------------------------------------


def show(report: Report) -> str:
    """The report for a terminal: a line for each mutant that compiles, and the sums."""
    lines = [_line(tried) for tried in report.tried if tried.outcome != "discarded"]
    sums = Counter(tried.outcome for tried in report.tried)
    weak = sum(tried.kill is not None and tried.kill.weak for tried in report.tried)
    lines.append(
        f"{sums['killed']} killed ({weak} of them in {WEAK} cases or fewer), "
        f"{sums['survived']} survived, {sums['discarded']} do not build"
    )
    return "\n".join(lines)


def _line(tried: Tried) -> str:
    what = f"{tried.file}:{tried.line}: {tried.operator}: {tried.description}"
    kill = tried.kill
    if kill is None:
        return f"SURVIVED {what} ({', '.join(tried.parts)})"
    sizes = " ".join(f"{name}={value}" for name, value in kill.dims.items())
    where = f"{kill.part}.{kill.test} at {sizes}, {kill.family}"
    return f"killed   {what}: {where}, {kill.kind}, {kill.failing} of {kill.cases} cases"
