"""Measuring, with a launcher in Python and clocks that say what a test wants them to."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from grader import stopwatch
from grader.assignment import Assignment
from grader.ceiling import VARIANTS
from grader.session import Fault, Timed
from grader.stopwatch import (
    ALONE,
    BATCH_SECONDS,
    BUSY,
    COLD,
    ELSEWHERE,
    FEWEST_SAMPLES,
    FEWEST_SETS,
    MOST_SETS,
    SAMPLES,
    WARM_UP,
    Measured,
    busy,
    disagreement,
    measure,
    seconds,
    sets_for,
)
from grader.timing import Pair, median_ratio
from grader.trial import Trial, Wrong, base_case
from tests.fake_gpu import FakeGpu, FakeSession, Launch, Launcher, reference, steady

DIMS = {"n": 256}
PER_SET = 3 * 4 * 256
SETS = 8


@pytest.fixture
def gpu() -> FakeGpu:
    return FakeGpu(l2_bytes=SETS * PER_SET // COLD)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The grader's own clock, which stands still unless a test moves it; and sets that are as many
    as the cache wants."""
    moment = [0.0]
    monkeypatch.setattr(stopwatch, "time", SimpleNamespace(monotonic=lambda: moment[0]))
    monkeypatch.setattr(stopwatch, "FOOTPRINT", 0.0)
    return moment


@pytest.fixture
def session(gpu: FakeGpu, saxpy: Assignment) -> FakeSession:
    part = saxpy.parts[0]
    return FakeSession(gpu, saxpy, part, reference(saxpy, part, "plain"))


@pytest.fixture
def run(gpu: FakeGpu, session: FakeSession, saxpy: Assignment) -> Iterator[Callable[..., Measured]]:
    """Measures; all memory must be free again after it."""
    part = saxpy.parts[0]
    base = base_case(saxpy, part, DIMS, "normal", "plain", 1)
    make = functools.partial(Trial, gpu, saxpy, part, DIMS, base)

    def measured(before: Measured | None = None, ambush: bool = False) -> Measured:
        return measure(gpu, session, make, np.random.default_rng(5), before, ambush)

    yield measured
    assert gpu.blocks == {}
    assert session.pools == ()


Run = Callable[..., Measured]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few samples are enough."""
    monkeypatch.setattr(stopwatch, "SAMPLES", FEWEST_SAMPLES)


def after(batch: int, harm: Launcher, right: Launcher, call: int = 0) -> Launcher:
    """Right, but for one call of one batch."""

    def launch(seen: Launch) -> None:
        right(seen)
        if (seen.batch, seen.call) == (batch, call):
            harm(seen)

    return launch


def zero(seen: Launch) -> None:
    seen.arrays["out"][:] = 0


# Sets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "l2", "per_set", "sets"),
    [
        (140 << 30, 50 << 20, 64 << 20, MOST_SETS),
        (140 << 30, 50 << 20, 1 << 10, MOST_SETS),
        (8 << 30, 4 << 20, 64 << 20, FEWEST_SETS),
        (8 << 30, 100 << 20, 32 << 20, 13),  # four times the cache
        (16 << 30, 1 << 20, 32 << 20, 15),  # so much of the memory
    ],
)
def test_sets_are_several_caches_large(
    monkeypatch: pytest.MonkeyPatch, memory: int, l2: int, per_set: int, sets: int
) -> None:
    monkeypatch.setattr(stopwatch, "FOOTPRINT", 0.03)
    assert sets_for(FakeGpu(memory, l2), per_set) == sets


# Samples -----------------------------------------------------------------------------------------


def test_a_fast_kernel_gets_all_samples_in_full_batches(run: Run, session: FakeSession) -> None:
    session.clock = steady(1e-4)
    session.gpu.probe = lambda _, __: 5e-5
    measured = run()
    assert measured.wrong is None
    assert measured.doubt == ""
    assert len(measured.pairs) == SAMPLES
    assert session.sizes[:WARM_UP] == [1] * WARM_UP
    assert {*session.sizes[WARM_UP:]} == {6, 7, 8}, "how many calls there are is drawn"
    assert session.stopped == []
    assert median_ratio(measured.pairs) == pytest.approx(0.5, rel=0.02)
    assert 0 < measured.worst < 1
    assert measured.dims == DIMS


def test_a_slow_kernel_gets_smaller_batches(run: Run, session: FakeSession) -> None:
    per_call = BATCH_SECONDS / 3
    session.clock = steady(per_call)
    measured = run()
    assert {*session.sizes[WARM_UP:]} <= {2, 3}
    assert measured.pairs[0].student == pytest.approx(per_call, rel=0.01)


def test_a_very_slow_kernel_is_called_one_at_a_time(run: Run, session: FakeSession) -> None:
    """From its very first batch: a whole one could take longer than a call may."""
    session.clock = steady(20 * BATCH_SECONDS)
    run()
    assert {*session.sizes} == {1}


def test_after_some_seconds_fewer_samples_are_enough(
    run: Run, session: FakeSession, now: list[float]
) -> None:
    def clock(batch: int, calls: int) -> Timed:
        now[0] += 2.0
        return steady(0.04)(batch, calls)

    session.clock = clock
    assert len(run().pairs) == FEWEST_SAMPLES


def test_a_slow_start_does_not_make_a_kernel_slow(run: Run, session: FakeSession) -> None:
    """What a launcher sets up in its first call is no part of its time."""
    session.clock = lambda batch, calls: steady(1.0 if batch == 0 else 1e-4)(batch, calls)
    measured = run()
    assert {*session.sizes[WARM_UP:]} == {6, 7, 8}
    assert max(pair.student for pair in measured.pairs) < 2e-4


def test_probe_and_student_take_turns(run: Run, session: FakeSession, gpu: FakeGpu) -> None:
    """Neither always comes first: what one leaves in the caches is there for both."""
    right = session.launcher

    def launch(seen: Launch) -> None:
        right(seen)
        if seen.call == 0:
            gpu.launched.append("student")

    session.launcher = launch
    run()
    order = [name for name in gpu.launched if name in ("pause", "student")]
    samples = order[order.index("student") + WARM_UP :]
    pairs = [tuple(samples[at : at + 2]) for at in range(0, len(samples), 2)]
    assert pairs == [("student", "pause"), ("pause", "student")] * (SAMPLES // 2)


@pytest.mark.usefixtures("quick")
def test_measuring_again_adds_samples_and_keeps_doubts(run: Run, session: FakeSession) -> None:
    session.clock = lambda _, __: Timed(1e-6, 1e-6, 0.1, "")
    first = run()
    assert first.doubt
    session.clock = steady(1e-4)
    again = run(first)
    assert len(again.pairs) == 2 * FEWEST_SAMPLES
    assert again.doubt == first.doubt, "a second, honest measurement does not settle the first"


# Wrong -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("batch", [0, 1, WARM_UP, WARM_UP + FEWEST_SAMPLES - 1])
def test_a_wrong_result_in_any_batch_is_found(run: Run, session: FakeSession, batch: int) -> None:
    session.launcher = after(batch, zero, session.launcher)
    wrong = run().wrong
    assert isinstance(wrong, Wrong)
    assert wrong.kind == "wrong_result"
    assert len(session.sizes) == batch + 1


@pytest.mark.usefixtures("quick")
def test_the_last_call_of_a_batch_counts_as_well(run: Run, session: FakeSession) -> None:
    right = session.launcher
    calls: list[int] = []

    def launch(seen: Launch) -> None:
        right(seen)
        calls.append(seen.call)
        if seen.batch == WARM_UP and seen.call == last:
            zero(seen)

    session.launcher, last = launch, -1
    assert run().wrong is None
    last = session.sizes[WARM_UP] - 1
    session.sizes.clear()
    assert isinstance(run().wrong, Wrong)
    assert calls[-1] == last


@pytest.mark.parametrize("batch", [0, 1, 4])
def test_a_fault_ends_the_measurement(run: Run, session: FakeSession, batch: int) -> None:
    fault = Fault("illegal_address", "it read where nothing is")
    session.faults[batch] = fault
    assert run().wrong == fault
    assert len(session.sizes) == batch + 1


@pytest.mark.usefixtures("quick")
def test_a_batch_of_one_call_meets_cold_memory_too(
    run: Run, session: FakeSession, gpu: FakeGpu
) -> None:
    """All sets are filled before, however few are used: the first ones have left the cache."""
    session.clock = steady(20 * BATCH_SECONDS)
    right = session.launcher
    filled: list[int] = []

    def launch(call: Launch) -> None:
        right(call)
        filled.append(gpu.launched.count("vary"))
        gpu.launched.clear()

    session.launcher = launch
    run()
    assert filled == [2 * SETS] * (WARM_UP + FEWEST_SAMPLES)


# Ambush ------------------------------------------------------------------------------------------


def test_in_one_sample_the_worker_is_ended_when_it_answers(
    run: Run, session: FakeSession, gpu: FakeGpu
) -> None:
    measured = run(ambush=True)
    assert (measured.wrong, measured.doubt) == (None, "")
    assert len(measured.pairs) == SAMPLES
    (ended,) = session.stopped
    assert WARM_UP + FEWEST_SAMPLES - 1 <= ended < WARM_UP + SAMPLES
    assert gpu.launched.count("pause") == 3 * len(VARIANTS) + 1 + SAMPLES + ALONE


def test_what_the_process_does_after_its_answer_is_missing_then(
    run: Run, session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission that computes all but the last call when it has answered is right as long as it
    lives."""
    right, judge, waiting = session.launcher, Trial.judge, list[Launch]()

    def launch(seen: Launch) -> None:
        right(seen)
        for earlier in waiting:
            zero(earlier)
        waiting.append(seen)

    def judge_later(trial: Trial, calls: int) -> Wrong | None:
        if not session.stopped:
            for seen in waiting:
                right(seen)
        waiting.clear()
        return judge(trial, calls)

    session.launcher = launch
    monkeypatch.setattr(Trial, "judge", judge_later)
    assert run().wrong is None
    session.sizes.clear()
    assert isinstance(run(ambush=True).wrong, Wrong)
    assert session.stopped == [len(session.sizes) - 1]


def test_a_process_that_keeps_the_memory_busy_is_in_doubt(
    run: Run, session: FakeSession, gpu: FakeGpu
) -> None:
    """It would make the ceiling look lower than it is."""
    gpu.probe = lambda *_: 5e-5 if session.stopped else 6e-5
    assert run(ambush=True).doubt.startswith("the memory was 1.20 times slower while")


def test_busy_is_more_than_noise() -> None:
    assert busy([Pair(1e-3 * BUSY, 1.0)] * 5, 1e-3) == ""
    assert busy([Pair(1.01e-3 * BUSY, 1.0)] * 5, 1e-3) != ""
    assert busy([], 1e-3) == ""


# Clocks ------------------------------------------------------------------------------------------


def timed(done: float, settled: float | None = None, wall: float | None = None) -> Timed:
    settled = done if settled is None else settled
    return Timed(done, settled, settled + 1e-4 if wall is None else wall, "")


def test_a_batch_takes_until_its_stream_is_done() -> None:
    assert seconds(timed(1e-3, 1e-3 + ELSEWHERE / 2)) == 1e-3


def test_work_on_another_stream_counts() -> None:
    assert seconds(timed(1e-5, 1e-3)) == 1e-3


def test_no_batch_takes_no_time() -> None:
    assert seconds(timed(0.0)) > 0
    assert seconds(timed(0.0, 0.0)) > 0


@pytest.mark.usefixtures("quick")
def test_a_clock_that_stands_still_gives_finite_numbers(run: Run, session: FakeSession) -> None:
    session.clock = lambda _, __: Timed(0.0, 0.0, 1e-4, "")
    ratio = median_ratio(run().pairs)
    assert math.isfinite(ratio)
    assert ratio > 1.08, "and an impossible one"


@pytest.mark.usefixtures("quick")
def test_time_on_another_stream_is_measured(run: Run, session: FakeSession) -> None:
    def clock(_: int, calls: int) -> Timed:
        done, settled = 1e-5, 1e-5 + 1e-3 * calls
        return Timed(done, settled, settled + 1e-4, "")

    session.clock = clock
    for pair in run().pairs:
        assert pair.student == pytest.approx(1e-3, rel=0.05)


def test_clocks_that_agree_leave_no_doubt() -> None:
    assert disagreement([timed(2e-3)] * 5) == ""
    assert disagreement([timed(2e-3, wall=2.3e-3)] * 5) == "", "a little is noise"
    assert disagreement([]) == ""


def test_one_late_answer_is_no_disagreement() -> None:
    assert disagreement([timed(2e-3)] * 8 + [timed(2e-3, wall=1.0)] * 2) == ""


@pytest.mark.parametrize("wall", [2.7e-3, 1.0])
def test_clocks_that_disagree_are_named(wall: float) -> None:
    said = disagreement([timed(2e-3, wall=wall)] * 5)
    assert said.startswith("the clocks disagree: the device's events say 2.00 ms for a batch, ")
    assert said.endswith(f"the grader's own clock {wall * 1e3:.2f} ms")


def test_what_the_clocks_differ_by_is_kept(run: Run, session: FakeSession) -> None:
    """Less what copying the last outputs takes: one of three arrays, read and written."""
    session.gpu.probe = lambda *_: 3e-6
    session.clock = steady(1e-4, overhead=7e-5)
    assert run().overhead == pytest.approx(7.5e-5 - 2e-6)


@pytest.mark.usefixtures("quick")
def test_times_that_the_worker_made_up_are_in_doubt(run: Run, session: FakeSession) -> None:
    session.clock = lambda _, calls: Timed(1e-6, 1e-6, 1e-4 + 1e-3 * calls, "")
    assert run().doubt.startswith("the clocks disagree")


# Kernels -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_what_was_launched_is_kept(run: Run, session: FakeSession) -> None:
    session.launches = "saxpy\t16\n"
    assert run().launches == "saxpy\t16\n"
