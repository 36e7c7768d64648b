"""From raw times to marks: the fraction of the memory ceiling, how sure it is, what it earns.

Pure arithmetic, the same for measured and modelled times. The unit is the fraction of the ceiling:
time of the grader's probe for the part's minimum bytes / time of the student's launcher. Marks
slide linearly between two fractions; over several shapes the geometric mean counts, so that no
single shape decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grader.manifest import Slope
from grader.score import tenths

RESAMPLES = 1000
CONFIDENCE = 0.95
# No kernel is faster than the memory; the rest is the probe's own imperfection and noise.
IMPOSSIBLE = 1.08


@dataclass(frozen=True)
class Pair:
    """Neighbouring measurements of the probe and of the student, in seconds per call."""

    ceiling: float
    student: float


@dataclass(frozen=True)
class Estimate:
    """A fraction of the ceiling with its bootstrap interval."""

    fraction: float
    low: float
    high: float


def resampled(pairs: Sequence[Pair], stream: int = 0) -> NDArray[np.float64]:
    """Fractions of RESAMPLES bootstrap samples of the pairs: ratios of medians. The same pairs give
    the same numbers; another stream chooses other samples. (Efron, Bootstrap methods: another look
    at the jackknife, 1979.)"""
    ceilings = np.array([pair.ceiling for pair in pairs])
    students = np.array([pair.student for pair in pairs])
    rng = np.random.default_rng([len(pairs), stream])
    chosen = rng.integers(0, len(pairs), (RESAMPLES, len(pairs)))
    ratio: NDArray[np.float64] = np.median(ceilings[chosen], axis=1) / np.median(
        students[chosen], axis=1
    )
    return ratio


def estimate(shapes: Sequence[Sequence[Pair]]) -> Estimate:
    """The geometric mean over shapes, each with its own pairs."""
    logs = np.zeros(RESAMPLES)
    middle = 0.0
    for number, pairs in enumerate(shapes):
        logs += np.log(resampled(pairs, number))
        middle += math.log(median_ratio(pairs))
    outside = 100 * (1 - CONFIDENCE) / 2
    low, high = np.exp(np.percentile(logs / len(shapes), [outside, 100 - outside]))
    fraction = math.exp(middle / len(shapes))
    return Estimate(fraction, min(float(low), fraction), max(float(high), fraction))


def median_ratio(pairs: Sequence[Pair]) -> float:
    return float(
        np.median([pair.ceiling for pair in pairs]) / np.median([pair.student for pair in pairs])
    )


def marks(fraction: float, slope: Slope, points: float) -> float:
    """Points, in tenths, that a fraction of the ceiling earns."""
    share = (fraction - slope.zero) / (slope.full - slope.zero)
    return tenths(points * min(1.0, max(0.0, share))) / 10


def earned(found: Estimate, slope: Slope, points: float) -> float:
    """Points for an estimate; decided for the student where it is not sure."""
    return marks(found.high if straddles(found, slope) else found.fraction, slope, points)


def straddles(found: Estimate, slope: Slope) -> bool:
    """Whether the interval holds a fraction at which the marks begin or end."""
    return any(found.low < threshold < found.high for threshold in (slope.zero, slope.full))


def impossible(found: Estimate) -> bool:
    """Faster than the memory could be: something else was measured than the kernel's work."""
    return found.low > IMPOSSIBLE
