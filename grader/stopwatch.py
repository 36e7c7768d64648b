"""Measures a launcher on a GPU, beside the memory ceiling of the same buffers.

A sample is a batch of calls, back to back, each on its own set of arrays: together they are several
times larger than the L2 cache, so every call finds it cold, and effects of starting and ending a
batch hardly count. Every set gets fresh data and poisoned outputs before, and is compared in full
after, each sample; how many calls a batch has is drawn, so that none knows that it is the last. The
probe runs before or after the student in turn.

Nothing is believed because the worker says so. Its events on the launcher's stream give the figure;
its events once the whole device is idle must say the same, or else they count; and our own clock,
from the word to go to the answer, must not have seen more, or the sample does not count. In one
sample of a part, drawn as well, the worker is ended the moment it answers: what it would have
finished later is missing then, and the probe, alone on the device, must not be faster than it was
beside the worker.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

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
MOST_SETS, FEWEST_SETS = 64, 4
FOOTPRINT = 0.05  # of the GPU's memory, for all sets together
COLD = 4  # times the L2 cache
ELSEWHERE = 100e-6  # seconds of a batch on other streams that are taken for noise
DISAGREEMENT = 0.05, 300e-6  # between the clocks: relative, and seconds of a batch
BUSY = 1.05  # the probe beside the worker may be so much slower than alone
ALONE = 5  # runs of the probe without the worker, of which the best counts


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
    overhead: float = 0.0  # seconds a batch that our clock saw and the device's events did not


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
    ambush: bool = False,
) -> Measured:
    """Time a launcher at one shape; with `before`, as many samples again.

    make_trial makes the trial with a number of sets. ambush: end the worker after one of the
    samples, before anything is compared. Raises gpu.OutOfMemory.
    """
    with make_trial(1) as one:
        sets = sets_for(gpu, one.bytes_per_set)
        dims = one.dims
    with make_trial(sets) as trial:
        session.map(trial.pools)
        measured = before or Measured(dims, sets)
        _Stopwatch(gpu, session, trial, rng, measured).run(ambush)
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
        self.most = 1  # calls of a batch
        self.copying = 0.0  # seconds that copying the last outputs takes: no event counts it
        self.timed: list[Timed] = []  # what counts of it

    def run(self, ambush: bool) -> None:
        began = time.monotonic()
        measured, trial = self.measured, self.trial
        ceiling = Ceiling(
            self.gpu, [(trial.addresses(n, 0), trial.addresses(n, 1)) for n in range(trial.sets)]
        )
        kept = sum(size for _, size in trial.addresses(0, 1))
        self.copying = ceiling.best * 2 * kept / trial.bytes_per_set
        chosen = int(self.rng.integers(FEWEST_SAMPLES - 1, SAMPLES)) if ambush else None
        # who takes long must not get round the ambush
        fewest = FEWEST_SAMPLES if chosen is None else chosen + 1
        counted: list[Pair] = []  # both clocks agree about these
        disputed: list[Pair] = []
        fresh, done = True, 0
        while len(counted) < SAMPLES and done < 2 * SAMPLES:
            if done >= fewest and time.monotonic() - began > SHAPE_SECONDS:
                break
            if fresh and not self._warm_up():
                return
            first = ceiling.seconds() if done % 2 else None
            fresh = done == chosen
            student = self._student(ended=fresh)
            if student is None:
                return
            if fresh:
                alone = min(ceiling.seconds() for _ in range(ALONE))
                measured.doubt = measured.doubt or busy([*counted, *disputed], alone)
            pair = Pair(first or ceiling.seconds(), student)
            (counted if agree(self.timed[-1]) else disputed).append(pair)
            done += 1
        if len(counted) < min(FEWEST_SAMPLES, done):  # too few to speak for themselves
            measured.doubt = measured.doubt or disagreement(self.timed)
            counted += disputed
        measured.pairs += counted
        measured.overhead = statistics.median(one.wall - seconds(one) for one in self.timed)
        measured.worst = max(measured.worst, trial.worst)

    def _warm_up(self) -> bool:
        """Single calls of a new worker, which do not count; False if one was not right."""
        counted, self.timed, self.most = self.timed, [], 1
        for _ in range(WARM_UP):
            if self._student() is None:
                return False
        self.most = max(1, min(self.trial.sets, int(BATCH_SECONDS / seconds(self.timed[-1]))))
        self.timed = counted
        return True

    def _student(self, ended: bool = False) -> float | None:
        """Seconds per call of one batch, every output of which was right; None if one was not.

        ended: the worker is ended as soon as it has answered.
        """
        self.trial.prepare(self.rng)  # all sets, so that the first ones have left the cache again
        count = int(self.rng.integers(max(1, 3 * self.most // 4), self.most + 1))
        calls = [self.trial.arguments(number) for number in range(count)]
        answer = self.session.batch(self.trial.part.launcher, calls, self.trial.keep(count))
        if ended:
            self.session.stop()
        if isinstance(answer, Fault):
            self.measured.wrong = answer
            return None
        self.measured.launches = answer.launches or self.measured.launches
        self.measured.wrong = self.trial.judge(count)
        if self.measured.wrong is not None:
            return None
        self.timed.append(replace(answer, wall=answer.wall - self.copying))
        took = seconds(answer)
        if took > BATCH_SECONDS and self.most > 1:
            self.most = max(1, int(self.most * BATCH_SECONDS / took))
        return took / count


def seconds(batch: Timed) -> float:
    """What a batch took: until its stream was done, or the device, if that had more to do."""
    elsewhere = batch.settled - batch.done
    return max(batch.settled if elsewhere > ELSEWHERE else batch.done, SHORTEST)


def agree(batch: Timed) -> bool:
    """Whether our own clock saw about what the worker's events say. It is late now and then, when
    the machine is busy: such a sample does not count."""
    share, least = DISAGREEMENT
    return batch.wall <= seconds(batch) * (1 + share) + least


def disagreement(timed: list[Timed]) -> str:
    """How far apart the clocks are, in a sentence; empty when they agree about every batch."""
    disputed = [one for one in timed if not agree(one)]
    if not disputed:
        return ""
    ours = statistics.median(one.wall for one in disputed)
    theirs = statistics.median(seconds(one) for one in disputed)
    return (
        f"the clocks disagree: the device's events say {theirs * 1e3:.2f} ms for a batch, "
        f"the grader's own clock {ours * 1e3:.2f} ms"
    )


def busy(beside: list[Pair], alone: float) -> str:
    """Empty when the probe was about as fast beside the worker as alone, else a sentence."""
    usual = statistics.median(pair.ceiling for pair in beside) if beside else alone
    if usual <= BUSY * alone:
        return ""
    return (
        f"the memory was {usual / alone:.2f} times slower while the submission's process was "
        "there, with nothing to do, than without it"
    )
