"""Measures a launcher on a GPU, beside the memory ceiling of the same buffers.

A sample is a batch of calls, back to back, each on its own set of arrays: together they are several
times larger than the L2 cache, so every call finds it cold, and effects of starting and ending a
batch hardly count. Every set gets fresh data and poisoned outputs before, and is compared in full
after, each sample. The probe runs before or after the student in turn.

Three clocks have to agree: the worker's events on the launcher's stream, its events once the whole
device is idle (work on other streams counts), and our own clock from command to answer, less what
a batch takes without its calls.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from grader.ceiling import Ceiling
from grader.gpu import Gpu
from grader.session import Fault, Session, Timed
from grader.timing import Pair
from grader.trial import Trial, Wrong

SAMPLES = 30
FEWEST_SAMPLES = 5
SHAPE_SECONDS = 5.0  # after so long, fewer samples are enough: the kernel is slow
BATCH_SECONDS = 0.05  # a batch of a slow kernel has fewer calls
WARM_UP = 2  # single calls: the first may set things up, the second tells how slow the kernel is
SHORTEST = 0.5e-6  # seconds: what CUDA's events resolve
MOST_SETS, FEWEST_SETS = 48, 4
FOOTPRINT = 0.03  # of the GPU's memory, for all sets together
COLD = 4  # times the L2 cache
ELSEWHERE = 50e-6  # seconds of a batch on other streams that are taken for noise
DISAGREEMENT = 0.15, 100e-6  # between the clocks: relative, and seconds of a batch


@dataclass
class Measured:
    """What was measured of one part at one shape. `wrong` is set when an output was wrong or a call
    failed; `doubt` when the clocks do not agree."""

    dims: dict[str, int]
    sets: int
    pairs: list[Pair] = field(default_factory=list)
    launches: str = ""
    wrong: Wrong | Fault | None = None
    doubt: str = ""
    worst: float = 0.0


def sets_for(gpu: Gpu, bytes_per_set: int) -> int:
    """How many sets of arrays a batch goes round."""
    wanted = int(FOOTPRINT * gpu.memory_bytes) // bytes_per_set
    cold = -(-COLD * gpu.l2_bytes // bytes_per_set)
    return min(MOST_SETS, max(FEWEST_SETS, cold, wanted))


def measure(
    gpu: Gpu,
    session: Session,
    make_trial: Callable[[int], Trial],
    rng: np.random.Generator,
    before: Measured | None = None,
) -> Measured:
    """Time a launcher at one shape; with `before`, as many samples again.

    make_trial makes the trial with a number of sets. Raises gpu.OutOfMemory.
    """
    with make_trial(1) as one:
        sets = sets_for(gpu, one.bytes_per_set)
        dims = one.dims
    with make_trial(sets) as trial:
        session.map(trial.pools)
        measured = _Stopwatch(gpu, session, trial, rng, before or Measured(dims, sets)).run()
        session.map(())
        return measured


class _Stopwatch:
    def __init__(
        self,
        gpu: Gpu,
        session: Session,
        trial: Trial,
        rng: np.random.Generator,
        measured: Measured,
    ) -> None:
        self.gpu = gpu
        self.session = session
        self.trial = trial
        self.rng = rng
        self.measured = measured
        self.calls = 1
        self.timed: list[Timed] = []
        self.idle: list[Timed] = []

    def run(self) -> Measured:
        began = time.monotonic()
        trial = self.trial
        ceiling = Ceiling(
            self.gpu, [(trial.addresses(n, 0), trial.addresses(n, 1)) for n in range(trial.sets)]
        )
        for _ in range(WARM_UP):
            if self._student() is None:
                return self.measured
        self.calls = max(1, min(trial.sets, int(BATCH_SECONDS / seconds(self.timed[-1], []))))
        while True:
            spent = time.monotonic() - began
            done = len(self.timed) - WARM_UP
            if done >= SAMPLES or (done >= FEWEST_SAMPLES and spent > SHAPE_SECONDS):
                break
            first = ceiling.seconds() if done % 2 else None
            student = self._student()
            if student is None:
                return self.measured
            self.measured.pairs.append(Pair(first or ceiling.seconds(), student))
            if not self._idle():
                return self.measured
        self.measured.doubt = self.measured.doubt or disagreement(self.timed[WARM_UP:], self.idle)
        self.measured.worst = max(self.measured.worst, trial.worst)
        return self.measured

    def _student(self) -> float | None:
        """Seconds per call of one batch, every output of which was right; None if one was not."""
        self.trial.prepare(self.rng)  # all sets, so that the first ones have left the cache again
        calls = [self.trial.arguments(number) for number in range(self.calls)]
        answer = self.session.batch(self.trial.part.launcher, calls)
        if isinstance(answer, Fault):
            self.measured.wrong = answer
            return None
        self.measured.launches = answer.launches or self.measured.launches
        self.measured.wrong = self.trial.judge(len(calls))
        if self.measured.wrong is not None:
            return None
        self.timed.append(answer)
        took = seconds(answer, self.idle)
        if took > BATCH_SECONDS and self.calls > 1:
            self.calls = max(1, int(self.calls * BATCH_SECONDS / took))
        return took / len(calls)

    def _idle(self) -> bool:
        """The same batch without its calls; False if even that went wrong."""
        calls = [self.trial.arguments(number) for number in range(self.calls)]
        answer = self.session.batch(self.trial.part.launcher, calls, dry=True)
        if isinstance(answer, Fault):
            self.measured.wrong = answer
            return False
        self.idle.append(answer)
        return True


def seconds(batch: Timed, idle: list[Timed]) -> float:
    """What a batch took: until its stream was done, or the device, if that had more to do."""
    usual = statistics.median(one.settled - one.done for one in idle) if idle else ELSEWHERE
    elsewhere = batch.settled - batch.done - usual
    took = batch.settled - usual if elsewhere > ELSEWHERE else batch.done
    return max(took, SHORTEST)


def disagreement(timed: list[Timed], idle: list[Timed]) -> str:
    """Empty when the worker's clock and ours agree about the batches, else a sentence."""
    if not timed or not idle:
        return ""
    overhead = statistics.median(one.wall - one.settled for one in idle)
    ours = statistics.median(one.wall - overhead for one in timed)
    theirs = statistics.median(seconds(one, idle) for one in timed)
    share, least = DISAGREEMENT
    if ours <= theirs * (1 + share) + least:
        return ""
    return (
        f"the clocks disagree: the device's events say {theirs * 1e3:.2f} ms for a batch, "
        f"the grader's own clock {ours * 1e3:.2f} ms"
    )
