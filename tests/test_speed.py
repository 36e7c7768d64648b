"""The speed test of a part, on a GPU made of numpy: marks, doubts, and what the score says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from grader import speed, stopwatch
from grader.assignment import Assignment
from grader.gpu import OutOfMemory
from grader.manifest import Slope
from grader.score import Finding, PartResult, Timing, decode, encode
from grader.score import TestResult as Result  # pytest collects what is called Test...
from grader.session import Fault, Timed
from grader.speed import SpeedTest
from grader.stopwatch import FEWEST_SAMPLES, WARM_UP, Measured
from grader.timing import Pair
from grader.trial import Trial
from grader.usage import Usage
from tests.fake_gpu import FakeGpu, FakeSession, Launch, reference, steady
from tests.test_score import made as a_score

STUDENT = 1e-4  # seconds per call; what the probe takes decides the fraction
BATCHES = WARM_UP + FEWEST_SAMPLES  # of a shape


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopwatch, "SAMPLES", FEWEST_SAMPLES)
    monkeypatch.setattr(stopwatch, "MOST_SETS", 4)


@pytest.fixture
def session(tensor: Assignment) -> FakeSession:
    part = tensor.part("row_sums")
    return FakeSession(FakeGpu(), tensor, part, reference(tensor, part, "plain"), steady(STUDENT))


Run = Callable[..., tuple[Result, Timing | None]]


@pytest.fixture
def findings() -> list[Finding]:
    return []


@pytest.fixture
def told() -> list[str]:
    """The progress."""
    return []


@pytest.fixture
def run(session: FakeSession, tensor: Assignment, findings: list[Finding], told: list[str]) -> Run:
    """Runs the test with a kernel that reaches a fraction of the ceiling."""

    def at(fraction: float | Callable[[], float]) -> tuple[Result, Timing | None]:
        session.gpu.probe = lambda *_: STUDENT * (fraction() if callable(fraction) else fraction)
        test = SpeedTest(
            session.gpu, tensor, session.part, session, b"master", told.append, findings
        )
        return test.run("speed")

    return at


def small_arrays(tensor: Assignment, number: int) -> float:
    """What the probe's time is multiplied by at a shape, because `sums` is small or not."""
    dims = tensor.test("speed").shapes[number]
    return 1 + 1 / dims["cols"]


def corrected(tensor: Assignment) -> float:
    """The geometric mean of that over both shapes."""
    return float(np.sqrt(small_arrays(tensor, 0) * small_arrays(tensor, 1)))


# Marks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fraction", "earned"), [(0.1, 0.0), (0.5, 0.3), (0.9, 0.5)])
def test_marks_follow_the_fraction(
    run: Run, tensor: Assignment, fraction: float, earned: float
) -> None:
    result, timing = run(fraction / corrected(tensor))
    assert timing is not None
    assert timing.fraction == pytest.approx(fraction, abs=1e-3)
    assert (result.score, result.max_score, result.passed) == (earned, 0.5, earned > 0)
    assert (timing.verdict, timing.source) == ("scored", "measured")
    assert (timing.zero, timing.full) == (0.2, 0.8)
    assert timing.low <= timing.fraction <= timing.high
    assert result.message.startswith(f"{fraction:.3f} of the memory ceiling")
    assert result.message.endswith("marks from 0.2, all of them from 0.8")


def test_every_shape_is_recorded(run: Run, tensor: Assignment) -> None:
    _, timing = run(0.5)
    assert timing is not None
    assert [case.dims for case in timing.cases] == [*tensor.test("speed").shapes]
    for number, case in enumerate(timing.cases):
        assert case.samples == FEWEST_SAMPLES
        assert case.time_us == pytest.approx(1e6 * STUDENT)
        assert 95 < case.overhead_us < 105  # without the copy of the last outputs
        assert case.fraction == pytest.approx(0.5 * small_arrays(tensor, number), rel=0.01)
        assert case.ceiling_us == pytest.approx(case.fraction * case.time_us, rel=1e-3)


def test_progress_names_the_shapes(run: Run, told: list[str]) -> None:
    run(0.5)
    assert told == ["Row sums, speed: 8 x 64 x 32", "Row sums, speed: 16 x 16 x 16"]


def test_the_gpu_is_ours_alone_while_it_is_measured(run: Run, session: FakeSession) -> None:
    right = session.launcher

    def launch(seen: Launch) -> None:
        assert session.gpu.locked == 1
        right(seen)

    session.launcher = launch
    run(0.5)
    assert session.gpu.locked == 0
    assert session.gpu.blocks == {}


# Close calls -------------------------------------------------------------------------------------


@pytest.fixture
def swinging(session: FakeSession) -> Callable[[float], Callable[[], float]]:
    """A fraction that is now above and now below; without the worker the probe is not faster."""
    rng = np.random.default_rng(1)

    def around(middle: float) -> Callable[[], float]:
        return lambda: middle * float(np.exp(rng.normal(0, 0.2) if session.alive else 1))

    return around


Swinging = Callable[[float], Callable[[], float]]


def test_a_close_call_is_measured_twice_and_decided_for_the_student(
    run: Run, session: FakeSession, tensor: Assignment, swinging: Swinging
) -> None:
    result, timing = run(swinging(0.8 / corrected(tensor)))
    assert timing is not None
    assert timing.low < 0.8 < timing.high
    assert timing.verdict == "ambiguous"
    assert result.score == 0.5
    assert [case.samples for case in timing.cases] == [2 * FEWEST_SAMPLES] * 2
    assert len(session.sizes) == 4 * BATCHES


def test_a_clear_case_is_measured_once(run: Run, session: FakeSession) -> None:
    run(0.5)
    assert len(session.sizes) == 2 * BATCHES


def test_the_second_measurement_has_other_data(
    run: Run, session: FakeSession, swinging: Swinging
) -> None:
    seen: list[bytes] = []
    right = session.launcher

    def launch(call: Launch) -> None:
        right(call)
        seen.append(call.arrays["a"].tobytes())

    session.launcher = launch
    run(swinging(0.78))
    assert len({*seen}) == len(seen)


# Doubts ------------------------------------------------------------------------------------------


def test_faster_than_the_memory_is_withheld(run: Run) -> None:
    result, timing = run(1.5)
    assert timing is not None
    assert (result.passed, result.score, timing.verdict) == (None, 0.0, "withheld")
    assert result.message.startswith("withheld until somebody has looked at it: 1.5")
    assert "is faster than reading every input" in result.message


def test_a_worker_that_keeps_the_memory_busy_is_withheld(run: Run, session: FakeSession) -> None:
    result, timing = run(lambda: 0.5 if session.alive else 0.4)
    assert timing is not None and timing.verdict == "withheld"
    assert "the memory was 1.25 times slower while the submission's process" in result.message


def test_outputs_that_come_after_the_answer_earn_nothing(run: Run, session: FakeSession) -> None:
    session.late = True
    result, timing = run(0.5)
    assert (result.passed, result.score, timing) == (False, 0.0, None)


@pytest.mark.parametrize("chosen", [0, 1])
def test_one_shape_is_ambushed_the_first_time_only(
    session: FakeSession,
    tensor: Assignment,
    swinging: Swinging,
    chosen: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("secrets.randbelow", lambda _: chosen)
    swing = swinging(0.8 / corrected(tensor))
    session.gpu.probe = lambda *_: STUDENT * swing()
    SpeedTest(session.gpu, tensor, session.part, session, b"a", lambda _: None, []).run("speed")
    assert len(session.sizes) == 4 * BATCHES, "measured twice"
    assert session.stops == [0, (1 + chosen) * BATCHES], "the first is for the memory it may hold"


def test_one_impossible_shape_is_enough(run: Run, session: FakeSession) -> None:
    def clock(batch: int, calls: int) -> Timed:
        return steady(STUDENT if batch < BATCHES else STUDENT / 3)(batch, calls)

    session.clock = clock
    result, timing = run(0.4)
    assert timing is not None and timing.verdict == "withheld"
    assert timing.fraction < 1
    assert "of the memory ceiling at 16 x 16 x 16 is impossible" in result.message


def test_clocks_that_disagree_withhold_the_marks(run: Run, session: FakeSession) -> None:
    session.clock = lambda _, calls: Timed(
        STUDENT * calls, STUDENT * calls, 1e-4 + 5 * STUDENT * calls, ""
    )
    result, timing = run(0.5)
    assert timing is not None and timing.verdict == "withheld"
    assert "the clocks disagree" in result.message


@pytest.mark.parametrize("clock", [Timed(0.0, 0.0, 1e-4, ""), Timed(0.0, 1e300, 1e-4, "")])
def test_absurd_times_still_give_a_score_that_can_be_read(
    run: Run, session: FakeSession, clock: Timed
) -> None:
    session.clock = lambda _, __: clock
    result, timing = run(0.5)
    part = PartResult("row_sums", "Row sums", 0.0, 0.5, [result], timing)
    written = encode(a_score(parts=[part]))
    json.loads(written, parse_constant=pytest.fail)
    assert decode(written).parts == [part]
    assert result.score == 0


# Wrong -------------------------------------------------------------------------------------------


def test_a_wrong_result_while_timed_earns_nothing(
    run: Run, session: FakeSession, findings: list[Finding]
) -> None:
    right = session.launcher

    def launch(seen: Launch) -> None:
        right(seen)
        if seen.batch == BATCHES + 3:  # of the second shape
            seen.arrays["sums"][0, 0] += 1000

    session.launcher = launch
    result, timing = run(0.9)
    assert (result.passed, result.score, timing) == (False, 0.0, None)
    assert result.message.startswith("no marks for speed without right results: `sums`[0, 0] is ")
    assert result.message.endswith("[batch=16 rows=16 cols=16, while timed]")
    assert findings == [], "the message says it all"


def test_nothing_is_timed_after_something_wrong(run: Run, session: FakeSession) -> None:
    session.launcher = lambda _: None
    result, _ = run(0.9)
    assert result.passed is False
    assert len(session.sizes) == 1


def test_a_fault_while_timed_is_a_finding(
    run: Run, session: FakeSession, findings: list[Finding]
) -> None:
    session.faults[3] = Fault("illegal_address", "an illegal memory access was encountered")
    result, timing = run(0.9)
    assert (result.passed, result.score, timing) == (False, 0.0, None)
    (finding,) = findings
    assert (finding.kind, finding.part) == ("illegal_address", "row_sums")
    assert "cudaErrorIllegalAddress" in finding.rationale


# This GPU ----------------------------------------------------------------------------------------


def test_a_driver_that_cannot_share_memory_measures_nothing(run: Run, session: FakeSession) -> None:
    session.gpu.unshareable = "this driver cannot share device memory"
    result, timing = run(0.5)
    assert (result.passed, result.score, timing) == (None, 0.0, None)
    assert result.message == "not measured: this driver cannot share device memory"
    assert session.sizes == []


def test_a_gpu_that_is_too_small_measures_nothing(run: Run, session: FakeSession) -> None:
    session.gpu.memory_bytes = 1 << 20
    result, timing = run(0.5)
    assert (result.passed, result.score, timing) == (None, 0.0, None)
    assert result.message == "not measured: the GPU is too small"


def test_a_shape_that_does_not_fit_is_left_out_and_the_others_stay_themselves(
    run: Run, tensor: Assignment, swinging: Swinging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when a close call is measured again: samples of one shape never go to another."""

    def picky(*arguments: object) -> Trial:
        if arguments[3] == tensor.test("speed").shapes[0]:
            raise OutOfMemory("not enough memory on the GPU")
        return Trial(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(speed, "Trial", picky)
    _, timing = run(swinging(0.8 / small_arrays(tensor, 1)))
    assert timing is not None
    assert timing.verdict == "ambiguous"
    assert [case.dims for case in timing.cases] == [tensor.test("speed").shapes[1]]
    assert [case.samples for case in timing.cases] == [2 * FEWEST_SAMPLES]


def test_memory_that_the_submission_holds_spares_it_no_shape(
    run: Run, tensor: Assignment, session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def picky(*arguments: object) -> Trial:
        if session.alive and arguments[3] == tensor.test("speed").shapes[1]:
            raise OutOfMemory("not enough memory on the GPU")
        return Trial(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(speed, "Trial", picky)
    _, timing = run(0.5)
    assert timing is not None
    assert [case.dims for case in timing.cases] == [*tensor.test("speed").shapes]


def test_memory_that_is_gone_the_second_time_keeps_the_first_samples(
    run: Run,
    tensor: Assignment,
    session: FakeSession,
    swinging: Swinging,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def picky(*arguments: object) -> Trial:
        if len(session.sizes) >= 2 * BATCHES:
            raise OutOfMemory("not enough memory on the GPU")
        return Trial(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(speed, "Trial", picky)
    _, timing = run(swinging(0.8 / corrected(tensor)))
    assert timing is not None
    assert [case.samples for case in timing.cases] == [FEWEST_SAMPLES] * 2


# Kernels -----------------------------------------------------------------------------------------

LINE = "sums<4>\t32\t8\t1024\t256\t64\t256\t4\n"


def test_kernels_are_described(run: Run, session: FakeSession) -> None:
    session.launches = LINE + "sums<4>\t32\t8\t1024\t256\t1\t128\t4\n" + LINE
    session.module = SimpleNamespace(
        usage=(Usage("sums<4>", 32, spill_stores=12, spill_loads=20), Usage("another"))
    )
    _, timing = run(0.5)
    assert timing is not None
    first, second = timing.kernels
    assert (first.name, first.registers, first.local_bytes, first.spill_bytes) == (
        "sums<4>", 32, 8, 32,
    )  # fmt: skip
    assert (first.shared_bytes, first.blocks, first.threads) == (1280, 64, 256)
    assert (first.blocks_per_multiprocessor, first.occupancy) == (4, 0.5)
    assert (second.threads, second.occupancy) == (128, 0.25)


@pytest.mark.parametrize(
    "words",
    [
        "", "\n", "garbage\n", "\t" * 7 + "\n", "k\t1\t2\t3\n",
        LINE.replace("32", "-32"), LINE.replace("32", "3.2"), LINE.replace("32", "\u00b2"),
        LINE.replace("32", "9" * 400), LINE.replace("32", "\u0663"),
        LINE.replace("\n", "\t9\n"),
    ],
)  # fmt: skip
def test_words_that_make_no_sense_are_not_believed(
    run: Run, session: FakeSession, words: str
) -> None:
    session.launches = words + LINE.replace("sums<4>", "sense")
    _, timing = run(0.5)
    assert timing is not None
    assert [kernel.name for kernel in timing.kernels] == ["sense"]


def test_a_line_that_was_cut_off_is_not_believed(run: Run, session: FakeSession) -> None:
    """Its last number may be the beginning of another."""
    session.launches = LINE + LINE.replace("sums", "other").rstrip("\n")
    _, timing = run(0.5)
    assert timing is not None
    assert [kernel.name for kernel in timing.kernels] == ["sums<4>"]


def test_occupancy_is_a_share(run: Run, session: FakeSession) -> None:
    session.launches = LINE.replace("\t4\n", "\t4000\n")
    _, timing = run(0.5)
    assert timing is not None
    assert timing.kernels[0].occupancy == 1.0
    part = PartResult("row_sums", "Row sums", 0.0, 0.5, [], timing)
    assert decode(encode(a_score(parts=[part]))).parts == [part]


# Judging alone -----------------------------------------------------------------------------------


def test_a_slope_of_the_part_is_used(tensor: Assignment, session: FakeSession) -> None:
    strict = msgspec.structs.replace(
        tensor.test("speed"), marks={"cuda": {"row_sums": Slope(0.0, 1.0)}}
    )
    used = dataclasses.replace(tensor, tests={**tensor.tests, "speed": strict})
    session.gpu.probe = lambda *_: 0.5 * STUDENT / corrected(tensor)
    test = SpeedTest(session.gpu, used, session.part, session, b"m", lambda _: None, [])
    result, timing = test.run("speed")
    assert timing is not None and (timing.zero, timing.full) == (0.0, 1.0)
    assert result.score == pytest.approx(0.2, abs=0.11)


def test_nothing_measured_is_no_estimate() -> None:
    pairs = [Pair(1.0, 2.0)]
    right, wrong = Measured({}, 1, pairs), Measured({}, 1, pairs, wrong=Fault("launch", ""))
    assert speed._estimate([]) is None
    assert speed._estimate([right, wrong]) is None
    assert speed._estimate([right]) is not None
