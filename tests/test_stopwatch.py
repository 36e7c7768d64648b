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
    SHAPE_SECONDS,
    SHORTEST,
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

    def measured(before: Measured | None = None, ambush: bool = False, seed: int = 5) -> Measured:
        return measure(gpu, session, make, np.random.default_rng(seed), before, ambush)

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
    assert len(session.sizes) == WARM_UP + SAMPLES
    assert session.stops == []
    assert median_ratio(measured.pairs) == pytest.approx(0.5, rel=0.02)
    assert 0 < measured.worst < 1
    assert measured.dims == DIMS


def test_no_batch_knows_its_last_call(run: Run, session: FakeSession) -> None:
    """The number of calls is drawn anew for each, from three quarters of the sets to all."""
    for seed in range(5):
        run(seed=seed)
    counts = [size for size in session.sizes if size > 1]
    assert len(counts) == 5 * SAMPLES
    assert {*counts} == {*range(3 * SETS // 4, SETS + 1)}
    assert len({tuple(counts[at : at + SAMPLES]) for at in range(0, len(counts), SAMPLES)}) == 5


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
        now[0] += 2.0 if calls else 0.0
        return steady(0.04)(batch, calls)

    session.clock = clock
    assert len(run().pairs) == FEWEST_SAMPLES


def test_a_slow_start_does_not_make_a_kernel_slow(run: Run, session: FakeSession) -> None:
    """What a launcher sets up in its first call is no part of its time."""
    session.clock = lambda batch, calls: steady(1.0 if batch == 0 else 1e-4)(batch, calls)
    measured = run()
    assert min(session.sizes[WARM_UP:]) >= 3 * SETS // 4
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
    session.clock = lambda *_: Timed(1e-6, 1e-6, 0.1, "")
    first = run()
    assert first.doubt
    session.clock = steady(1e-4)
    again = run(first)
    assert len(again.pairs) == 3 * FEWEST_SAMPLES, "a disputed shape is sampled twice as often"
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

    def launch(seen: Launch) -> None:
        right(seen)
        if seen.batch == WARM_UP and seen.call == session.sizes[-1] - 1:
            zero(seen)

    session.launcher = launch
    assert isinstance(run().wrong, Wrong)
    assert len(session.sizes) == WARM_UP + 1


@pytest.mark.usefixtures("quick")
def test_work_that_the_stream_does_not_wait_for_is_wrong(run: Run, session: FakeSession) -> None:
    """Although it is there by the time that anybody looks, and in every other call."""
    session.unjoined = True
    wrong = run().wrong
    assert isinstance(wrong, Wrong)
    assert wrong.sentence.endswith("nothing was written to it")
    assert session.sizes == [1]


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


# Clocks ------------------------------------------------------------------------------------------


def timed(done: float, settled: float | None = None, wall: float | None = None) -> Timed:
    settled = done if settled is None else settled
    return Timed(done, settled, settled + 1e-4 if wall is None else wall, "")


def test_a_batch_takes_until_its_stream_is_done() -> None:
    assert seconds(timed(1e-3, 1e-3 + 6e-6)) == 1e-3
    assert seconds(timed(1e-3, 1e-3 + 0.99 * ELSEWHERE)) == 1e-3


def test_work_on_another_stream_counts() -> None:
    """In full: no clock of the worker's says how much of it was there without the calls."""
    assert seconds(timed(1e-5, 1e-3)) == 1e-3
    assert seconds(timed(1e-3, 1e-3 + 1.1 * ELSEWHERE)) == 1e-3 + 1.1 * ELSEWHERE


def test_no_batch_takes_no_time() -> None:
    assert seconds(timed(0.0)) == SHORTEST
    assert seconds(timed(1.0, 0.0)) == 1.0, "whichever is longer"


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
    assert disagreement([timed(2e-3, wall=2.39e-3)] * 5) == "", "a little is noise"
    assert disagreement([]) == disagreement([timed(1.0)]) == ""
    assert disagreement([timed(1.0, wall=0.5)]) == "", "less is for the student to explain"


def test_a_disagreement_is_told_by_the_batches_that_show_it() -> None:
    said = disagreement([timed(2e-3)] * 8 + [timed(2e-3, wall=1.0)] * 2)
    assert "2.00 ms for a batch" in said and "1000.00 ms" in said


def test_samples_that_our_clock_saw_late_do_not_count(run: Run, session: FakeSession) -> None:
    """The machine was busy with something else: no reason to doubt anybody."""

    def clock(batch: int, calls: int) -> Timed:
        late = 0.01 if batch % 3 else 0.0
        return Timed(1e-4 * calls, 1e-4 * calls, 1e-4 * calls + 1e-4 + late, "")

    session.clock = clock
    measured = run()
    assert measured.doubt == ""
    assert FEWEST_SAMPLES <= len(measured.pairs) < SAMPLES


def test_a_clock_forged_now_and_then_gains_nothing(run: Run, session: FakeSession) -> None:
    def clock(batch: int, calls: int) -> Timed:
        true = 1e-3 * calls
        told = true / 2 if batch % 4 else true
        return Timed(told, told, true + 1e-4, "")

    session.clock = clock
    assert all(pair.student == pytest.approx(1e-3) for pair in run().pairs)


@pytest.mark.usefixtures("quick")
def test_too_few_honest_samples_leave_a_doubt(
    run: Run, session: FakeSession, now: list[float]
) -> None:
    """Every second time is forged, and so long is spent on each that few samples are taken."""

    def clock(batch: int, calls: int) -> Timed:
        now[0] += 1.0
        true = 1e-3 * calls
        told = true / 2 if batch % 2 else true
        return Timed(told, told, true + 1e-4, "")

    session.clock = clock
    assert run().doubt.startswith("the clocks disagree")


@pytest.mark.parametrize("wall", [2.42e-3, 1.0])
def test_clocks_that_disagree_are_named(wall: float) -> None:
    said = disagreement([timed(2e-3, wall=wall)] * 5)
    assert said.startswith("the clocks disagree: the device's events say 2.00 ms for a batch, ")
    assert f"the grader's own clock {wall * 1e3:.2f} ms" in said


@pytest.mark.usefixtures("quick")
def test_times_that_the_worker_made_up_are_in_doubt(run: Run, session: FakeSession) -> None:
    session.clock = lambda _, calls: Timed(1e-6, 1e-6, 1e-4 + 1e-3 * calls, "")
    assert run().doubt.startswith("the clocks disagree")


@pytest.mark.usefixtures("quick")
def test_what_our_clock_saw_beyond_the_devices_is_kept(run: Run, session: FakeSession) -> None:
    session.clock = steady(1e-4, overhead=2e-4)
    overhead = run().overhead  # without the copy of the last outputs, which no event counts either
    assert 2e-4 < overhead < 2e-4 + 5e-6
    session.clock = lambda batch, calls: Timed(1e-3, 1e-3, 5.0 if batch < WARM_UP else 1.3e-3, "")
    session.sizes.clear()
    assert run().overhead == pytest.approx(3e-4, rel=0.02), "of warm-ups nothing counts"


# Ambush ------------------------------------------------------------------------------------------


def ambushed(session: FakeSession) -> int:
    """The sample after which the worker was ended, the only one of its kind."""
    (batches,) = session.stops
    return batches - WARM_UP - 1


@pytest.mark.parametrize("seed", range(6))
def test_the_worker_is_ended_once(run: Run, session: FakeSession, seed: int) -> None:
    measured = run(ambush=True, seed=seed)
    assert (measured.wrong, measured.doubt) == (None, "")
    assert len(measured.pairs) == SAMPLES
    assert FEWEST_SAMPLES - 1 <= ambushed(session) < SAMPLES


def test_nobody_knows_when(run: Run, session: FakeSession) -> None:
    when = set()
    for seed in range(12):
        run(ambush=True, seed=seed)
        when.add(ambushed(session))
        session.stops.clear()
        session.sizes.clear()
    assert len(when) > 6


def test_a_new_worker_warms_up_before_it_counts(run: Run, session: FakeSession) -> None:
    """Its first call is slow again, which says nothing about the kernel."""
    born = [0]

    def clock(batch: int, calls: int) -> Timed:
        fresh = batch in (0, session.stops[-1] if session.stops else 0)
        born[0] += fresh
        return steady(4 * BATCH_SECONDS if fresh else 1e-4)(batch, calls)

    session.clock = clock
    measured = run(ambush=True, seed=1)
    after_it = session.sizes[session.stops[0] :]
    assert born == [2] and after_it[:WARM_UP] == [1] * WARM_UP
    assert min(after_it[WARM_UP:]) >= 3 * SETS // 4, "batches stay as large"
    assert max(pair.student for pair in measured.pairs) < 2e-4
    assert len(session.sizes) == SAMPLES + 2 * WARM_UP


@pytest.mark.usefixtures("quick")
def test_nobody_warms_up_after_the_last_sample(run: Run, session: FakeSession) -> None:
    run(ambush=True)
    assert session.stops == [len(session.sizes)] == [WARM_UP + FEWEST_SAMPLES]


@pytest.mark.parametrize("seed", range(3))
def test_outputs_that_come_after_the_answer_are_missing(
    run: Run, session: FakeSession, seed: int
) -> None:
    session.late = True
    honest = run(seed=seed)
    assert honest.wrong is None, "they are there by the time that anybody looks"
    session.sizes.clear()
    wrong = run(ambush=True, seed=seed).wrong
    assert isinstance(wrong, Wrong) and wrong.kind == "wrong_result"
    assert session.stops == [len(session.sizes)]


def test_a_slow_kernel_does_not_get_round_the_ambush(
    run: Run, session: FakeSession, now: list[float]
) -> None:
    """Whoever wastes the time for a shape gets more samples, until it has come."""

    def clock(batch: int, calls: int) -> Timed:
        now[0] += 2 * SHAPE_SECONDS
        return steady(1e-4)(batch, calls)

    session.clock = clock
    measured = run(ambush=True, seed=3)
    assert FEWEST_SAMPLES < len(measured.pairs) == ambushed(session) + 1


def test_a_probe_that_is_faster_alone_leaves_a_doubt(
    run: Run, session: FakeSession, gpu: FakeGpu
) -> None:
    """A worker that keeps the memory busy makes the ceiling look low."""
    gpu.probe = lambda *_: 6e-5 if session.alive else 5e-5
    doubt = run(ambush=True).doubt
    assert doubt.startswith("the memory was 1.20 times slower while the submission's process was")
    assert run().doubt == "", "nobody would see it without"


def test_the_probe_alone_is_the_best_of_some(run: Run, session: FakeSession, gpu: FakeGpu) -> None:
    """One disturbed run of it hides nothing."""
    alone = [0]

    def probe(*_: object) -> float:
        alone[0] += not session.alive and bool(session.stops)
        return 6e-5 if session.alive or alone[0] <= (ALONE - 1) * SETS else 5e-5

    gpu.probe = probe
    assert run(ambush=True).doubt.startswith("the memory was 1.20 times slower")


def test_about_as_fast_is_no_doubt() -> None:
    beside = [Pair(1.0, 9.0)] * 3 + [Pair(7.0, 9.0)] * 2
    assert busy(beside, 1.0) == busy([], 1.0) == busy(beside, 1.01 / BUSY) == ""
    assert busy(beside, 0.99 / BUSY)


# Kernels -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_what_was_launched_is_kept(run: Run, session: FakeSession) -> None:
    session.launches = "saxpy\t16\n"
    assert run().launches == "saxpy\t16\n"
