"""One submission on one target: its module, sessions, and the tests of all parts."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

from grader import build, machine, sandbox
from grader.assignment import Assignment
from grader.checks import Checker, not_run
from grader.errors import BuildFailed, Forbidden
from grader.findings import add
from grader.manifest import Part
from grader.margins import Margins
from grader.modelled import ModelledSpeed
from grader.records import Pool
from grader.sandbox import Sandbox
from grader.schedule import Schedule, Stopped
from grader.score import Finding, PartResult, TestResult, Timing, total
from grader.session import Fault, NoDevice, Session
from grader.speed import SpeedTest
from grader.submission import Submission
from grader.target import Target

SPEED_MESSAGE = "not scored: the assignment names no marks for speed on the cpu backend"
LEFT_OUT = "not scored: speed was left out on request"
NO_MARKS = "not scored: the assignment names no marks for speed on the cuda backend"

_Opener = Callable[[], AbstractContextManager[Session]]


def build_for(read: Submission, used: Assignment, box: Sandbox, target: Target) -> build.Module:
    """The submission as a module for a target. Raises BuildFailed as `build.build` does."""
    if target.gpu is None:
        return build.build(read, used, box)
    return build.build(read, used, box, backend="cuda", arch=target.gpu.arch)


@dataclass
class _Part:
    """What is known of a part: results and findings by test."""

    part: Part
    tests: list[str]
    done: dict[str, TestResult] = field(default_factory=dict)
    found: dict[str, list[Finding]] = field(default_factory=dict)
    timing: Timing | None = None

    def result(self) -> PartResult:
        tests = [self.done[name] for name in self.tests]
        return PartResult(
            id=self.part.id,
            title=self.part.title,
            score=total(test.score for test in tests),
            max_score=total(self.part.points.values()),
            tests=tests,
            timing=self.timing,
        )


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
    margins: Margins | None = None
    _stopped: threading.Event = field(default_factory=threading.Event)
    _sessions: list[Session] = field(default_factory=list)
    _module: build.Module | None = None
    _emulated: build.Module | None = None  # for a second opinion

    def run(self, wanted: list[Part]) -> list[PartResult]:
        """Build, then all tests of the parts.

        On the emulator side by side: tests know nothing of each other, and while one waits for its
        worker, another compares. On a GPU one after another, and in this very thread: a CUDA
        context belongs to a thread.
        """
        box = sandbox.choose()
        parts = [_Part(part, self.used.tests_of(part)) for part in wanted]
        schedule = Schedule()
        on_gpu = self.target.gpu is not None
        if self.nvcc and not on_gpu:
            schedule.add("nvcc", lambda: self._cross_check(box))
        schedule.add("build", lambda: self._build(box))
        with ExitStack() as opened:
            for one in parts:
                session = self._for_all_tests(opened, box) if on_gpu else self._for_one_test(box)
                for name in one.tests:
                    needs = [f"{one.part.id}.{need}" for need in self._needs(one, name)]
                    task = functools.partial(self._test, one, name, session, box)
                    schedule.add(f"{one.part.id}.{name}", task, ["build", *needs])
            if on_gpu:
                schedule.run_here()
            else:
                schedule.run_side_by_side(self._stopped.set, self._abandon)
        for why in dict.fromkeys(one.repeated for one in self._sessions if one.repeated):
            self.notes.append(f"a call was made once more in a clean worker: {why}")
        for one in parts:
            for name in one.tests:
                add(self.findings, one.found[name])
        return [one.result() for one in parts]

    def _needs(self, one: _Part, name: str) -> list[str]:
        """The tests of the same part that a test needs."""
        return [need for need in self.used.test(name).needs if need in one.tests]

    def _abandon(self) -> None:
        for session in self._sessions:
            session.abandon()

    def _build(self, box: Sandbox) -> None:
        self._say("Compiling")
        self._module = build_for(self.read, self.used, box, self.target)
        if self.target.gpu is not None:
            self._emulated = self._for_second_opinions(box)

    def _for_one_test(self, box: Sandbox) -> _Opener:
        """Opens a session that ends with the test."""

        @contextmanager
        def opened() -> Iterator[Session]:
            assert self._module is not None
            with Session(self._module, box) as session:
                self._sessions.append(session)
                yield _loaded(session)

        return opened

    def _for_all_tests(self, stack: ExitStack, box: Sandbox) -> _Opener:
        """Opens one session for all tests of a part: to start CUDA takes a while."""
        kept: list[Session] = []

        @contextmanager
        def opened() -> Iterator[Session]:
            assert self._module is not None
            if not kept:
                kept.append(stack.enter_context(Session(self._module, box)))
                self._sessions += kept
            yield _loaded(kept[0])

        return opened

    def _test(self, one: _Part, name: str, opener: _Opener, box: Sandbox) -> None:
        """One test of a part; not run when one that it needs did not pass."""
        one.found[name] = []
        unmet = [need for need in self._needs(one, name) if not one.done[need].passed]
        if unmet:
            why = f"not run: it needs {' and '.join(unmet)} to pass"
            one.done[name] = not_run(self.used, one.part, name, why)
            return
        with self._blaming(box):
            if self.used.test(name).kind == "speed":
                self._speed(one, name, opener)
            else:
                self._correctness(one, name, opener, box)

    def _correctness(self, one: _Part, name: str, opener: _Opener, box: Sandbox) -> None:
        gpu, found = self.target.gpu, one.found[name]
        with opener() as session:
            checker = Checker(self.used, one.part, session, self.master, self._say, gpu, found)
            checker.margins = self.margins
            result = checker.run(name)
        if result.passed and self._emulated is not None:
            result = self._second_opinion(one.part, name, self._emulated, box, found) or result
        one.done[name] = result

    def _speed(self, one: _Part, name: str, opener: _Opener) -> None:
        gpu, marks = self.target.gpu, self.used.test(name).marks
        if not self.timed:
            one.done[name] = not_run(self.used, one.part, name, LEFT_OUT)
        elif (gpu is None) and "cpu" not in marks:
            one.done[name] = not_run(self.used, one.part, name, SPEED_MESSAGE)
        elif gpu is not None and "cuda" not in marks:
            one.done[name] = not_run(self.used, one.part, name, NO_MARKS)
        else:
            with opener() as session:
                test = self._speed_test(one, name, session)
                one.done[name], one.timing = test.run(name)

    def _speed_test(self, one: _Part, name: str, session: Session) -> SpeedTest | ModelledSpeed:
        gpu, found = self.target.gpu, one.found[name]
        if gpu is None:
            on = machine.load()
            return ModelledSpeed(self.used, one.part, session, on, self.master, self._say, found)
        return SpeedTest(gpu, self.used, one.part, session, self.master, self._say, found)

    @contextmanager
    def _blaming(self, box: Sandbox) -> Iterator[None]:
        """When a worker says that it has no GPU, find out whose fault that is."""
        try:
            yield
        except NoDevice:
            self._blame(box)
            raise

    def _say(self, sentence: str) -> None:
        """Progress; the place where a test notices that the job is over."""
        if self._stopped.is_set():
            raise Stopped
        self.progress(sentence)

    def _cross_check(self, box: Sandbox) -> None:
        """Raises BuildFailed when nvcc refuses the submission, InfrastructureError without nvcc."""
        self._say("Compiling with nvcc")
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

    def _for_second_opinions(self, box: Sandbox) -> build.Module | None:
        """The same submission for the emulator, when another backend decides the numbers: its
        checkers see what a GPU hides. None where the emulator cannot run it. Raises Forbidden."""
        self._say("Compiling for the emulator's checkers")
        try:
            return build.build(self.read, self.used, box)
        except Forbidden:  # it need not run there, but it must not fight what would watch it
            raise
        except BuildFailed as error:
            self._not_checked(f"the emulator cannot run this file ({error})")
            return None

    def _not_checked(self, why: str) -> None:
        note = f"findings not checked: {why}"
        if note not in self.notes:
            self.notes.append(note)

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


def _loaded(session: Session) -> Session:
    """The session with a worker. Raises BuildFailed when the module cannot be loaded."""
    fault = session.open()
    if isinstance(fault, Fault) and fault.kind in ("undefined", "load"):
        raise BuildFailed(fault.sentence, "")
    return session
