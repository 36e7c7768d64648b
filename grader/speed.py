"""The speed test of a part on a GPU: shapes -> measurements -> fraction of the ceiling -> marks."""

from __future__ import annotations

import functools
import re
import secrets
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from grader import timing
from grader.assignment import Assignment
from grader.build import Module
from grader.cases import seed
from grader.gpu import Gpu, OutOfMemory
from grader.manifest import Part, Slope
from grader.rationales import RATIONALES
from grader.score import Finding, KernelUse, TestResult, Timing, TimingCase
from grader.session import Fault, Session
from grader.stopwatch import Measured, measure
from grader.timing import Estimate
from grader.trial import Trial, Wrong, base_case
from grader.usage import kernel_name

Progress = Callable[[str], None]
NUMBER = re.compile(r"[0-9]{1,10}")


@dataclass
class SpeedTest:
    """One speed test of one part of one submission."""

    gpu: Gpu
    assignment: Assignment
    part: Part
    session: Session
    master: bytes
    progress: Progress
    findings: list[Finding]
    ambushed: int = -1  # the shape at which the worker is ended once: nobody can compute which

    def run(self, test_id: str) -> tuple[TestResult, Timing | None]:
        """Measure all shapes; a second time when that decides between marks."""
        test = self.assignment.test(test_id)
        slope = test.marks["cuda"][self.part.id]
        self.ambushed = secrets.randbelow(len(test.shapes))
        with self.gpu.alone():
            self.session.stop()  # what it holds of the GPU's memory is nobody else's fault
            try:
                reason = self.gpu.why_not_shared()
            except OutOfMemory as error:
                reason = str(error)
            if reason:
                return self._result(test_id, None, 0.0, f"not measured: {reason}"), None
            measured = self._measure(test_id, dict.fromkeys(range(len(test.shapes))))
            found = _estimate([*measured.values()])
            if found is not None and timing.straddles(found, slope):
                measured = self._measure(test_id, measured)
                found = _estimate([*measured.values()])
        for shape in measured.values():
            if shape.wrong is not None:
                self._note(shape.wrong)
                return self._result(test_id, False, 0.0, _failure(shape)), None
        if found is None:
            return self._result(test_id, None, 0.0, "not measured: the GPU is too small"), None
        return self._judge(test_id, [*measured.values()], found, slope)

    # Measuring ----------------------------------------------------------------------------------

    def _measure(self, test_id: str, before: Mapping[int, Measured | None]) -> dict[int, Measured]:
        """Shapes by their numbers, in order, up to the first that goes wrong; one that does not fit
        into the GPU's memory is left out, or what was measured of it before stays."""
        done: dict[int, Measured] = {}
        for number, earlier in before.items():
            measured = self._fitting(test_id, number, earlier) or earlier
            if measured is None:
                continue
            done[number] = measured
            if measured.wrong is not None:
                break
        return done

    def _fitting(self, test_id: str, number: int, before: Measured | None) -> Measured | None:
        """None when the GPU is too small for the shape."""
        with suppress(OutOfMemory):
            return self._shape(test_id, number, before)
        self.session.stop()  # what the submission holds must not spare it the shape
        with suppress(OutOfMemory):
            return self._shape(test_id, number, before)
        return None

    def _shape(self, test_id: str, number: int, before: Measured | None) -> Measured:
        test = self.assignment.test(test_id)
        dims = test.shapes[number]
        sizes = " x ".join(map(str, dims.values()))
        self.progress(f"{self.part.title}, {test_id}: {sizes}")
        names = (self.assignment.id, self.part.id, test_id, number)
        base = base_case(
            self.assignment, self.part, dims, test.families[0], test.bound,
            seed(self.master, *names),
        )  # fmt: skip
        make = functools.partial(Trial, self.gpu, self.assignment, self.part, dims, base)
        repeat = 0 if before is None else len(before.pairs)
        rng = np.random.default_rng([seed(self.master, *names, "variations"), repeat])
        ambush = before is None and number == self.ambushed
        return measure(self.gpu, self.session, make, rng, before, ambush)

    # Judging ------------------------------------------------------------------------------------

    def _judge(
        self, test_id: str, measured: list[Measured], found: Estimate, slope: Slope
    ) -> tuple[TestResult, Timing]:
        points = float(self.part.points[test_id])
        doubts = [shape.doubt for shape in measured if shape.doubt]
        if timing.impossible(found):
            doubts.append(
                f"{found.fraction:.2f} of the memory ceiling is faster than reading every input "
                "and writing every output once can be"
            )
        for shape in measured:
            ratio = timing.median_ratio(shape.pairs)
            if ratio > timing.IMPOSSIBLE and not timing.impossible(found):
                sizes = " x ".join(map(str, shape.dims.values()))
                doubts.append(f"{ratio:.2f} of the memory ceiling at {sizes} is impossible")
        straddles = timing.straddles(found, slope)
        earned = timing.earned(found, slope, points)
        summary = (
            f"{found.fraction:.3f} of the memory ceiling "
            f"(95 % interval {found.low:.3f} to {found.high:.3f}); "
            f"marks from {slope.zero:g}, all of them from {slope.full:g}"
        )
        record = Timing(
            test=test_id,
            source="measured",
            fraction=round(found.fraction, 4),
            low=round(found.low, 4),
            high=round(found.high, 4),
            zero=slope.zero,
            full=slope.full,
            verdict="withheld" if doubts else "ambiguous" if straddles else "scored",
            cases=[_case(shape) for shape in measured],
            kernels=_kernels(measured, self.session.module, self.gpu),
        )
        if doubts:
            message = f"withheld until somebody has looked at it: {'; '.join(doubts)}; {summary}"
            return self._result(test_id, None, 0.0, message), record
        return self._result(test_id, earned > 0, earned, summary), record

    def _note(self, wrong: Wrong | Fault) -> None:
        """A wrong number is no finding: the message says all."""
        if wrong.kind != "wrong_result":
            rationale = RATIONALES.get(wrong.kind, "")
            self.findings.append(
                Finding("error", wrong.kind, self.part.id, None, None, wrong.sentence, rationale, 1)
            )

    def _result(self, test_id: str, passed: bool | None, score: float, message: str) -> TestResult:
        return TestResult(
            id=test_id,
            title=self.assignment.test(test_id).title,
            passed=passed,
            score=score,
            max_score=float(self.part.points[test_id]),
            cases=[],
            message=message,
        )


def _estimate(measured: Sequence[Measured]) -> Estimate | None:
    """None when nothing was measured, or something was wrong."""
    if not measured or any(shape.wrong is not None for shape in measured):
        return None
    return timing.estimate([shape.pairs for shape in measured])


def _failure(shape: Measured) -> str:
    wrong = shape.wrong
    assert isinstance(wrong, Wrong | Fault)
    sizes = " ".join(f"{name}={size}" for name, size in shape.dims.items())
    return f"no marks for speed without right results: {wrong.sentence} [{sizes}, while timed]"


def _case(shape: Measured) -> TimingCase:
    found = timing.estimate([shape.pairs])
    return TimingCase(
        dims=shape.dims,
        fraction=round(found.fraction, 4),
        low=round(found.low, 4),
        high=round(found.high, 4),
        time_us=round(1e6 * statistics.median(pair.student for pair in shape.pairs), 3),
        ceiling_us=round(1e6 * statistics.median(pair.ceiling for pair in shape.pairs), 3),
        samples=len(shape.pairs),
        overhead_us=round(1e6 * shape.overhead, 1),
    )


def _kernels(measured: Sequence[Measured], module: Module, gpu: Gpu) -> list[KernelUse]:
    """Every kernel that was launched, each once, from what the worker says about it."""
    found: dict[tuple[str, int], KernelUse] = {}
    spills = {use.kernel: use.spill_stores + use.spill_loads for use in module.usage}
    for shape in measured:
        for line in shape.launches.split("\n")[:-1]:  # the last may have been cut
            signature, *numbers = line.split("\t")
            if len(numbers) != 7 or not all(map(NUMBER.fullmatch, numbers)):
                continue  # the worker's words: believed only where they make sense
            name = kernel_name(signature)
            registers, local, shared, dynamic, blocks, threads, resident = map(int, numbers)
            share = resident * threads / gpu.threads_per_multiprocessor
            found.setdefault(
                (name, threads),
                KernelUse(
                    name=name,
                    registers=registers,
                    local_bytes=local,
                    spill_bytes=spills.get(name),
                    shared_bytes=shared + dynamic,
                    blocks=blocks,
                    threads=threads,
                    blocks_per_multiprocessor=resident,
                    occupancy=round(min(1.0, share), 3),
                ),
            )
    return list(found.values())
