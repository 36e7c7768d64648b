"""One submission on one target: modules, sessions, and the tests of each part in order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from grader import build, machine, sandbox
from grader.assignment import Assignment
from grader.checks import Checker
from grader.errors import BuildFailed
from grader.findings import add
from grader.manifest import Part
from grader.modelled import ModelledSpeed
from grader.records import Pool
from grader.sandbox import Sandbox
from grader.score import Finding, PartResult, TestResult, Timing, total
from grader.session import Fault, NoDevice, Session
from grader.speed import SpeedTest
from grader.submission import Submission
from grader.target import Target

SPEED_MESSAGE = "not scored: the assignment names no marks for speed on the cpu backend"
NO_MARKS = "not scored: the assignment names no marks for speed on the cuda backend"


def build_for(read: Submission, used: Assignment, box: Sandbox, target: Target) -> build.Module:
    """The submission as a module for a target. Raises BuildFailed as `build.build` does."""
    if target.gpu is None:
        return build.build(read, used, box)
    return build.build(read, used, box, backend="cuda", arch=target.gpu.arch)


class _Stopped(Exception):
    """Another part has met something that ends the whole job."""


@dataclass
class Job:
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
    _stopped: threading.Event = field(default_factory=threading.Event)
    _sessions: list[Session] = field(default_factory=list)

    def run(self, wanted: list[Part]) -> list[PartResult]:
        box = sandbox.choose()
        if self.nvcc and self.target.gpu is None:
            self._cross_check(box)
        module = build_for(self.read, self.used, box, self.target)
        emulated = self._emulated(box)
        found: dict[str, list[Finding]] = {part.id: [] for part in wanted}

        def graded(part: Part) -> PartResult:
            try:
                return self._alone(part, module, emulated, box, found[part.id])
            except BaseException:
                self._stopped.set()
                raise

        results = self._side_by_side(graded, wanted)
        for part in wanted:
            add(self.findings, found[part.id])
        return results

    def _side_by_side(
        self, graded: Callable[[Part], PartResult], wanted: list[Part]
    ) -> list[PartResult]:
        """Parts know nothing of each other; while one waits for its worker, another compares.

        On a GPU one after another, and in this very thread: a CUDA context belongs to a thread.
        """
        if self.target.gpu is not None:
            return [graded(part) for part in wanted]
        with ThreadPoolExecutor(self._at_once(len(wanted))) as pool:
            futures: list[Future[PartResult]] = [pool.submit(graded, one) for one in wanted]
            try:
                errors = [error for future in futures if (error := future.exception())]
            except BaseException:  # Ctrl-C, say: nobody waits for calls that may take long
                self._stopped.set()
                for session in self._sessions:
                    session.abandon()
                raise
        for error in sorted(errors, key=lambda error: isinstance(error, _Stopped)):
            raise error
        return [future.result() for future in futures]

    def _at_once(self, parts: int) -> int:
        """How many parts are graded side by side."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        return max(1, min(parts, cores or 1))

    def _alone(
        self,
        part: Part,
        module: build.Module,
        emulated: build.Module | None,
        box: Sandbox,
        findings: list[Finding],
    ) -> PartResult:
        """All tests of a part, in workers of its own."""
        with Session(module, box) as session:
            self._sessions.append(session)
            try:
                fault = session.open()
                if isinstance(fault, Fault) and fault.kind in ("undefined", "load"):
                    raise BuildFailed(fault.sentence, "")
                return self._part(part, session, emulated, box, findings)
            except NoDevice:
                self._blame(box)
                raise

    def _say(self, sentence: str) -> None:
        """Progress; the place where a part notices that the job is over."""
        if self._stopped.is_set():
            raise _Stopped
        self.progress(sentence)

    def _cross_check(self, box: Sandbox) -> None:
        """Raises BuildFailed when nvcc refuses the submission, InfrastructureError without nvcc."""
        self.progress("Compiling with nvcc")
        for use in build.cross_check(self.read, self.used, box):
            spilled = use.spill_stores + use.spill_loads
            needs = f"{use.registers} registers, {use.shared} bytes of shared memory"
            needs += f", {spilled} bytes spilled" if spilled else ""
            self.notes.append(f"nvcc: {use.kernel}: {needs}")

    def _blame(self, box: Sandbox) -> None:
        """Raises BuildFailed if a worker without the submission's code can use the GPU, and map
        memory of ours there."""
        gpu = self.target.gpu
        assert gpu is not None, "only a GPU can be missing"
        module = build_for(build.without_code(self.used), self.used, box, self.target)
        memory = gpu.share(1)
        try:
            with Session(module, box) as session:
                session.map([Pool(memory.fd, memory.size, True)])
                session.batch(self.used.parts[0].launcher, [])  # NoDevice if that fails here, too
        finally:
            gpu.release(memory)
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
        self,
        part: Part,
        session: Session,
        emulated: build.Module | None,
        box: Sandbox,
        findings: list[Finding],
    ) -> PartResult:
        """The tests of a part in order; one whose needs did not pass is not run."""
        checker = Checker(
            self.used, part, session, self.master, self._say, self.target.gpu, findings
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
                    opinion = self._second_opinion(part, name, emulated, box, findings)
                    done[name] = opinion or done[name]
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
        self,
        part: Part,
        test_id: str,
        emulated: build.Module,
        box: Sandbox,
        findings: list[Finding],
    ) -> TestResult | None:
        """What the emulator's checkers see on the pinned cases that a GPU got right."""
        with Session(emulated, box) as session:
            fault = session.open()
            if isinstance(fault, Fault):
                self._not_checked(f"the emulator cannot load this file: {fault.sentence}")
                return None
            checker = Checker(self.used, part, session, self.master, self._say, findings=findings)
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
        if gpu is None and "cpu" in self.used.test(test_id).marks:
            modelled = ModelledSpeed(
                self.used, part, session, machine.load(), self._say, checker.findings
            )
            return modelled.run(test_id)
        if gpu is None:
            return checker.not_run(test_id, SPEED_MESSAGE), None
        if "cuda" not in self.used.test(test_id).marks:
            return checker.not_run(test_id, NO_MARKS), None
        speed = SpeedTest(gpu, self.used, part, session, self.master, self._say, checker.findings)
        return speed.run(test_id)
