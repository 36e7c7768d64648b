"""Answers that need no kernel, and whether the cases of a test refuse them.

By numbers only: an answer is compared with the reference as a kernel's would be, nothing runs.
Each output stands alone, so that no wrong array hides behind another one. At least one pinned case
of every test must refuse each of them; where the right answer is trivial, so be it (the variance of
rows of one element is zero), but the author should know at which cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from grader.arena import POISON
from grader.assignment import Assignment, Expected
from grader.cases import PUBLIC_MASTER, Case, cases
from grader.checks import LARGE_ELEMENTS
from grader.compare import used
from grader.manifest import Part

Float32 = NDArray[np.float32]
Axes = tuple[str, ...]
UNWRITTEN = "nothing written"
STALE = "the answer of the call before"


@dataclass
class Survey:
    """Of one trivial answer for one output: the cases that refuse it, and those at which it is
    right, in words."""

    refused_at: list[str] = field(default_factory=list)
    right_at: list[str] = field(default_factory=list)


def answers(
    expected: Expected,
    axes: Axes,
    inputs: Mapping[str, tuple[Float32, Axes]],
    before: Expected | None,
) -> dict[str, Float32]:
    """Trivial answers for one output, by what they are. `axes` names the dimensions of an array;
    inputs that have no others than the output, in the same order, are copied all over it. `before`
    is what the call before asked for, None when there was none."""
    value = expected.value
    shape = value.shape
    made = {
        "zeros": np.zeros(shape, np.float32),
        "ones": np.ones(shape, np.float32),
        "NaN": np.full(shape, np.nan, np.float32),
        UNWRITTEN: np.full(shape, POISON, np.uint32).view(np.float32),
        "the mean of the right answer": np.full(shape, value.mean(), np.float32),
    }
    for name, (array, its) in inputs.items():
        if its == tuple(axis for axis in axes if axis in its):
            spread = [slice(None) if axis in its else np.newaxis for axis in axes]
            made[f"a copy of {name}"] = np.broadcast_to(array[tuple(spread)], shape)
    if before is not None:
        made[STALE] = before.value.astype(np.float32)
    return made


def survey(assignment: Assignment, part: Part, test_id: str) -> dict[tuple[str, str], Survey]:
    """(output, answer) -> where it is right and where not, over the pinned cases of a test (over
    its draws with the public master when it has none)."""
    found: dict[tuple[str, str], Survey] = {}
    pinned = list(cases(assignment, part, test_id, PUBLIC_MASTER, pinned_only=True))
    for case in pinned or cases(assignment, part, test_id, PUBLIC_MASTER):
        # the checks call twice at the same shape, unless a case is there for its size alone
        again = case.elements <= LARGE_ELEMENTS
        first, inputs = _asked(assignment, part, test_id, case, 0)
        expected = first
        if again:
            expected, inputs = _asked(assignment, part, test_id, case, 1)
        for output in part.outputs:
            before, axes = first[output] if again else None, assignment.arrays[output]
            for answer, array in answers(expected[output], axes, inputs, before).items():
                one = found.setdefault((output, answer), Survey())
                with np.errstate(invalid="ignore", over="ignore"):
                    right = used(array, expected[output]) <= 1
                (one.right_at if right else one.refused_at).append(case.describe())
    return found


def _asked(
    assignment: Assignment, part: Part, test_id: str, case: Case, call: int
) -> tuple[dict[str, Expected], dict[str, tuple[Float32, Axes]]]:
    """What a call of a case asks for, and its inputs with their axes."""
    bound = assignment.test(test_id).bound
    inputs = assignment.inputs(part, case.family, case.dims, case.scale, case.rng(call))
    given = {
        name: (inputs[name], assignment.arrays[name])
        for name in part.arguments
        if name in assignment.arrays and name not in part.outputs
    }
    return assignment.expected(part, case.dims, inputs, bound), given
