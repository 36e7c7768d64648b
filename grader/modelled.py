"""The speed test of a part without a GPU: shapes -> counters -> modelled time -> marks.

Every shape is one call on the emulator, of which it runs some blocks and counts what they ask of
the machine. The result is the same on every computer: nothing is timed.

What those blocks write must be right as well. Of a part whose results only all blocks together can
make (sums over the rows, say) some shapes, which the master chooses, are run as a whole, and so is
every shape at which not all of the arrays seems to be touched.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grader import advice, cases, model, timing
from grader.assignment import Assignment, Dims
from grader.counters import Counters, parse
from grader.findings import add
from grader.machine import Machine
from grader.manifest import Part, Slope
from grader.rationales import RATIONALES
from grader.records import Laid
from grader.score import Finding, TestResult, Timing, TimingCase
from grader.session import Fault, Session
from grader.sheet import Look, Sheet, Unmade
from grader.worker import COUNTS_BYTES

STEPS = 4_000_000_000  # of the emulator, for one call
# Nothing is faster than memory: a launcher that is, by more than the model errs for kernels nearly
# as fast as memory, leaves work out at that size.
IMPOSSIBLE = 1.2
TOUCHED = 0.97  # of an array, at least, by a call that does all of its work
LARGE = 0.05  # of all arrays: how much of a smaller one is touched, a sample does not tell
CHEAPER = 0.67  # no sample is so much cheaper than the whole
AFFORDABLE = 6e7  # accesses of all shapes that are run as a whole: some seconds
SLOW = ("timeout", "endless_loop")
ADVICE = 3  # of a part: who follows it will see what is next
GARBAGE = Fault("garbage", "the emulator's counters make no sense: the submission tampered with it")
NOTHING = Fault(
    "nothing", "it does nothing at this size: no kernel runs, nothing is copied or filled"
)
TOO_MANY = Fault("too_many", "one call starts more kernels than the emulator has room to count")


@dataclass(frozen=True)
class Shape:
    """One shape, counted and priced; times in seconds. truncated: some launch was too long to be
    run to its end, so it takes at least as long."""

    dims: Dims
    counted: Counters
    seconds: float
    ceiling: float
    right: bool = True  # what the blocks that ran have written

    @property
    def sizes(self) -> str:
        return " x ".join(map(str, self.dims.values()))

    @property
    def ratio(self) -> float:
        """The memory ceiling / the time."""
        return self.ceiling / self.seconds

    @property
    def fraction(self) -> float:
        """Of the memory ceiling; no model is so good that a little more than all means anything."""
        return min(1.0, self.ratio)

    @property
    def accesses(self) -> float:
        """Of all lanes of all warps, roughly."""
        return 32 * sum(
            count
            for launch in self.counted.launches
            for name, count in launch.counters.items()
            if name.endswith("_requests") and name.startswith(("global_", "shared_"))
        )

    @property
    def truncated(self) -> bool:
        return any(launch.truncated for launch in self.counted.launches)


@dataclass
class ModelledSpeed:
    """One speed test of one part of one submission."""

    assignment: Assignment
    part: Part
    session: Session
    machine: Machine
    master: bytes
    progress: Callable[[str], None]
    findings: list[Finding]

    def run(self, test_id: str) -> tuple[TestResult, Timing | None]:
        """Model all shapes, and give the marks of the cpu backend."""
        test = self.assignment.test(test_id)
        slope = test.marks["cpu"][self.part.id]
        shapes: list[Shape] = []
        for dims in test.shapes:
            shape = self._shape(test_id, dims)
            if isinstance(shape, Fault):
                return self._failed(test_id, dims, shape), None
            shapes.append(shape)
        doubts: list[str] = []
        if self._earned(test_id, shapes, slope) > 0:
            for number in self._doubtful(test_id, shapes):
                # what blocks count in device memory, a sample leaves behind half done
                self.session.stop()
                sampled, shape = shapes[number], self._shape(test_id, shapes[number].dims, True)
                if isinstance(shape, Fault) and shape.kind in SLOW:
                    doubts.append(f"it could not be run as a whole at {sampled.sizes}")
                    continue
                if isinstance(shape, Fault):
                    return self._failed(test_id, sampled.dims, shape), None
                if sampled.seconds < CHEAPER * shape.seconds:
                    doubts.append(f"when it is run as a whole it takes longer at {shape.sizes}")
                shapes[number] = shape
        return self._judge(test_id, shapes, slope, doubts)

    def _shape(self, test_id: str, dims: Dims, every_block: bool = False) -> Shape | Fault:
        """One call at a shape, counted and looked at; of every block, wrong results are a Fault."""
        sizes = " x ".join(map(str, dims.values()))
        self.progress(f"{self.part.title}, {test_id}: {sizes}")
        test = self.assignment.test(test_id)
        names = (self.assignment.id, self.part.id, test_id, sizes, every_block)
        seed = cases.seed(self.master, *names)
        family = test.families[0]
        try:
            with Sheet(self.assignment, self.part, dims, family, test.bound, seed) as sheet:
                counted = count(
                    self.session, self.assignment, self.part, dims, self.machine, sheet, every_block
                )
                if isinstance(counted, Fault):
                    return counted
                looks = sheet.look(every_block)
        except Unmade:
            counted = count(self.session, self.assignment, self.part, dims, self.machine)
            if isinstance(counted, Fault):
                return counted
            looks = {}
        wrong = _wrong(looks)
        if every_block and wrong is not None:
            return wrong
        priced = price(counted, self.assignment, self.part, dims, self.machine)
        right = wrong is None and all(look.written for look in looks.values())
        return dataclasses.replace(priced, right=right)

    def _doubtful(self, test_id: str, shapes: list[Shape]) -> list[int]:
        """Which shapes to run as a whole: those at which work seems to be left out, and of those
        at which the sample tells nothing about the results as many as can be afforded."""
        left_out = [n for n, shape in enumerate(shapes) if not self._touches_all(shape)]
        unknown = [n for n, shape in enumerate(shapes) if not shape.right and n not in left_out]
        names = (self.assignment.id, self.part.id, test_id, "whole")
        unknown.sort(key=lambda n: cases.seed(self.master, *names, n))
        spent, chosen = 0.0, unknown[:1]
        for n in unknown[1:]:
            spent += shapes[chosen[-1]].accesses
            if spent + shapes[n].accesses > AFFORDABLE:
                break
            chosen.append(n)
        return [*left_out, *chosen]

    def _touches_all(self, shape: Shape) -> bool:
        """Whether a call reads all of its large inputs, and writes all of its large outputs."""
        if shape.truncated:
            return True  # nobody knows
        sizes = _sizes(self.assignment, self.part, shape.dims)
        touched = dict.fromkeys(sizes, 0.0)
        for launch in shape.counted.launches:
            for buffer in launch.buffers:
                if buffer.name in touched:
                    output = buffer.name in self.part.outputs
                    seen = buffer.written_sectors if output else buffer.read_sectors
                    touched[buffer.name] += model.SECTOR * seen
        large = LARGE * sum(sizes.values())
        return all(touched[name] >= TOUCHED * size for name, size in sizes.items() if size >= large)

    def _fraction(self, shapes: list[Shape]) -> float:
        return math.exp(sum(math.log(shape.fraction) for shape in shapes) / len(shapes))

    def _earned(self, test_id: str, shapes: list[Shape], slope: Slope) -> float:
        return timing.marks(self._fraction(shapes), slope, float(self.part.points[test_id]))

    def _judge(
        self, test_id: str, shapes: list[Shape], slope: Slope, unlike: list[str]
    ) -> tuple[TestResult, Timing]:
        fraction = self._fraction(shapes)
        earned = self._earned(test_id, shapes, slope)
        fast = [
            f"{shape.ratio:.2f} of the memory ceiling at {shape.sizes} is impossible without "
            "leaving work out"
            for shape in shapes
            if shape.ratio > IMPOSSIBLE
        ]
        doubts = [*fast, *unlike]
        at_most = "at most " if any(shape.truncated for shape in shapes) else ""
        message = (
            f"{at_most}{fraction:.2f} of the memory ceiling, modelled for an {self.machine.name}; "
            f"marks from {slope.zero:g}, all of them from {slope.full:g}"
        )
        record = Timing(
            test=test_id,
            source="modelled",
            fraction=round(fraction, 4),
            low=round(fraction, 4),
            high=round(fraction, 4),
            zero=slope.zero,
            full=slope.full,
            verdict="withheld" if doubts else "scored",
            cases=[_case(shape) for shape in shapes],
            kernels=[],
        )
        if earned < self.part.points[test_id]:
            self._advise(min(shapes, key=lambda shape: shape.ratio))
        if doubts:
            message = f"withheld until somebody has looked at it: {'; '.join(doubts)}; {message}"
            return self._result(test_id, None, 0.0, message), record
        return self._result(test_id, earned > 0, earned, message), record

    def _advise(self, shape: Shape) -> None:
        """What would earn more, at the shape that is furthest from the ceiling."""
        for one in advice.advise(shape.counted, self.machine)[:ADVICE]:
            message = f"{one.message} (at {shape.sizes})"
            line = one.line or None
            told = Finding("advice", one.kind, self.part.id, one.file or None, line, message, "", 1)
            add(self.findings, [told])

    def _failed(self, test_id: str, dims: Dims, fault: Fault) -> TestResult:
        rationale = RATIONALES.get(fault.kind, "")
        sizes = " ".join(f"{name}={size}" for name, size in dims.items())
        seen = Finding("error", fault.kind, self.part.id, None, None, fault.sentence, rationale, 1)
        add(self.findings, [seen])
        return self._result(test_id, False, 0.0, f"{fault.sentence} [{sizes}]")

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


def _wrong(looks: Mapping[str, Look]) -> Fault | None:
    """The first output with a wrong element."""
    for name, look in looks.items():
        if look.first is not None:
            return Fault("wrong_result", look.first.sentence(name))
    return None


def count(
    session: Session,
    assignment: Assignment,
    part: Part,
    dims: Dims,
    machine: Machine,
    sheet: Sheet | None = None,
    every_block: bool = False,
) -> Counters | Fault:
    """What the emulator counts of one call of a part's launcher, on zeros if there is no sheet."""
    sizes = _sizes(assignment, part, dims)
    arguments = (
        sheet.arguments
        if sheet
        else [dims[name] if name in dims else Laid(name, sizes[name]) for name in part.arguments]
    )
    file = sheet.file if sheet else (-1, 0)
    report = session.model(part.launcher, arguments, STEPS, machine.settings(), file, every_block)
    if isinstance(report, Fault):
        return report
    if not report:
        return NOTHING
    if len(report.encode()) >= COUNTS_BYTES:  # cut off there
        return TOO_MANY
    return parse(report) or GARBAGE


def price(
    counted: Counters, assignment: Assignment, part: Part, dims: Dims, machine: Machine
) -> Shape:
    """The call and the memory ceiling of its shape, in seconds."""
    sizes = _sizes(assignment, part, dims)
    written = sum(sizes[name] for name in part.outputs)
    ceiling = model.ceiling(sum(sizes.values()) - written, written, machine)
    return Shape(dims, counted, model.seconds(counted, machine), ceiling)


def _sizes(assignment: Assignment, part: Part, dims: Dims) -> dict[str, int]:
    """Bytes of each array."""
    return {
        name: 4 * math.prod(assignment.shape(name, dims))
        for name in part.arguments
        if name not in dims
    }


def _case(shape: Shape) -> TimingCase:
    fraction = round(shape.fraction, 4)
    return TimingCase(
        dims=dict(shape.dims),
        fraction=fraction,
        low=fraction,
        high=fraction,
        time_us=round(1e6 * shape.seconds, 3),
        ceiling_us=round(1e6 * shape.ceiling, 3),
        samples=0,
        overhead_us=0.0,
    )
