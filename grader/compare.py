"""Is an array right? Element by element, against float64, within a bound that scales with the data.

An element is accepted iff it is finite and

    |got - value| <= K(N) * u * S,    u = 2**-24,    K(N) = 16 + sqrt(N)

where S is the element's first-order error scale and N the length of the longest sum behind it,
both from the assignment's reference. Summing N terms in any order costs up to (N - 1) u times the
sum of magnitudes (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2), but about
sqrt(N) u in practice since roundings cancel; the 16 leaves room for the handful of other
operations and for reciprocal square roots of two units in the last place. Nothing here is tuned
to a kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grader.arena import POISON
from grader.assignment import Expected

UNIT_ROUNDOFF = 2.0**-24


def allowance(expected: Expected) -> NDArray[np.float64]:
    """The largest error that is accepted, per element."""
    factor = 16.0 + math.sqrt(expected.terms)
    bound: NDArray[np.float64] = factor * UNIT_ROUNDOFF * expected.scale
    # a float32 below the smallest normal number is spaced 2**-149 apart, whatever S is
    return bound + 2.0**-149


def used(got: NDArray[np.float32], expected: Expected) -> float:
    """The largest error as a fraction of the allowed one; infinity when not finite."""
    if not np.isfinite(got).all():
        return math.inf
    error = np.abs(got.astype(np.float64) - expected.value)
    return float(np.max(error / allowance(expected), initial=0.0))


@dataclass(frozen=True)
class Mismatch:
    """The worst wrong element of an array, and what the wrong ones have in common."""

    index: tuple[int, ...]
    expected: float
    actual: float | str  # "NaN", "Infinity", "-Infinity" or "not written" where no number is
    error: float | None
    allowed: float
    wrong: int
    size: int
    pattern: str
    mistake: str

    @classmethod
    def of_element(
        cls,
        index: tuple[int, ...],
        got: NDArray[np.float32],
        expected: float,
        allowed: float,
        wrong: int,
        size: int,
        pattern: str,
        mistake: str = "",
    ) -> Mismatch:
        """From one wrong element; `got` is an array that holds it alone (its bits matter)."""
        number = float(got[0])
        actual: float | str = number
        if got.view(np.uint32)[0] == POISON:
            actual = "not written"
        elif math.isnan(number):
            actual = "NaN"
        elif math.isinf(number):
            actual = "Infinity" if number > 0 else "-Infinity"
        return cls(
            index=index,
            expected=expected,
            actual=actual,
            error=abs(number - expected) if math.isfinite(number) else None,
            allowed=allowed,
            wrong=wrong,
            size=size,
            pattern=pattern,
            mistake=mistake,
        )

    def sentence(self, name: str) -> str:
        """What is wrong with the array `name`, for a student: the element, how many, where, why."""
        place = f"`{name}`[{', '.join(map(str, self.index))}]"
        if self.actual == "not written":
            text = f"{place} was never written (it still holds the NaN that it arrived with)"
        elif isinstance(self.actual, str):
            text = f"{place} is {self.actual}, expected {self.expected:.7g}"
            if self.actual == "NaN":
                text += " (memory starts as NaN: is something read before it is written?)"
        else:
            text = (
                f"{place} is {self.actual:.7g}, expected {self.expected:.7g} "
                f"(error {self.error:.2g}, allowed {self.allowed:.2g})"
            )
        if self.size > 1:
            text += f"; {self.wrong} of {self.size} elements are wrong"
        if self.pattern:
            text += f": {self.pattern}"
        if self.mistake:
            text += f". {self.mistake}"
        return text


def compare(
    got: NDArray[np.float32], expected: Expected, dimensions: tuple[str, ...]
) -> Mismatch | None:
    """None when every element is accepted. `dimensions` names the axes, for the message."""
    allowed = allowance(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.astype(np.float64) - expected.value)
        accepted = np.isfinite(got) & (error <= allowed)  # false for NaN, whatever the bound
        ratio = error / allowed
    if accepted.all():
        return None
    wrong = ~accepted
    unwritten = got.view(np.uint32) == POISON
    index = _worst(got, ratio, wrong, unwritten)
    return Mismatch.of_element(
        index=tuple(int(i) for i in index),
        got=np.array([got[index]]),
        expected=float(expected.value[index]),
        allowed=float(allowed[index]),
        wrong=int(wrong.sum()),
        size=got.size,
        pattern=_pattern(wrong, unwritten, dimensions),
        mistake=_mistake(got, expected, wrong),
    )


def _worst(
    got: NDArray[np.float32],
    ratio: NDArray[np.float64],
    wrong: NDArray[np.bool_],
    unwritten: NDArray[np.bool_],
) -> tuple[np.intp, ...]:
    """The first element never written, else the first that is not finite, else the worst."""
    for kind in (wrong & unwritten, wrong & ~np.isfinite(got)):
        if kind.any():
            return np.unravel_index(int(np.argmax(kind)), got.shape)
    return np.unravel_index(int(np.argmax(np.where(wrong, ratio, -1.0))), got.shape)


def _pattern(
    wrong: NDArray[np.bool_], unwritten: NDArray[np.bool_], dimensions: tuple[str, ...]
) -> str:
    """Where the wrong elements are, when one sentence says it: most faults have a shape."""
    what = "every wrong element"
    if (wrong & unwritten).any() and not (wrong & ~unwritten).any():
        if wrong.all():
            return "nothing was written to it"
        what = "every element that was not written"
    elif wrong.all():
        return "every element is wrong" if wrong.size > 1 else ""
    for axis, name in enumerate(dimensions):
        others = tuple(other for other in range(wrong.ndim) if other != axis)
        hit = np.flatnonzero(wrong.any(axis=others) if others else wrong)
        length = wrong.shape[axis]
        if length == 1 or hit.size == length:
            continue
        if hit.size == 1:
            return f"{what} has {name} index {hit[0]}"
        if hit[-1] == length - 1 and hit.size == length - hit[0]:
            return f"{what} has {name} index {hit[0]} or more"
        if hit[0] == 0 and hit.size == hit[-1] + 1:
            return f"{what} has {name} index {hit[-1]} or less"
        steps = np.unique(np.diff(hit))
        if hit.size > 2 and steps.size == 1 and steps[0] > 1:
            return f"{what} has {name} index {hit[0]}, {hit[1]}, {hit[2]}, ... (every {steps[0]}th)"
    return ""


def _mistake(got: NDArray[np.float32], expected: Expected, wrong: NDArray[np.bool_]) -> str:
    """The well-known mistake whose outcome this array is, if it is one's and no other's."""
    allowed = 4.0 * allowance(expected)
    for sentence, value in expected.mistakes.items():
        with np.errstate(invalid="ignore", over="ignore"):
            explained = np.abs(got.astype(np.float64) - value) <= allowed
        # it must explain all of the array, and differ from the right answer where it is wrong
        if explained.all() and (np.abs(value - expected.value) > allowed)[wrong].all():
            return sentence
    return ""
