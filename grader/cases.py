"""Which inputs a kernel is tried on.

A Case is the pinned corners of a test, then hypothesis draws of (dimensions, family, scale).
Its data follow from its own seed alone, so a case can be replayed, shown to a student and
recorded without giving away any other. Seeds come from one master by HMAC: whoever holds the
master holds the class's cases, nobody else can compute them.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec
import numpy as np

from grader import places
from grader.assignment import Assignment, Dims, Family
from grader.errors import UsageError, did_you_mean
from grader.manifest import Part, Range, Test

if TYPE_CHECKING:
    from hypothesis import settings
    from hypothesis.strategies import DrawFn, SearchStrategy

PUBLIC_MASTER = b"public"
MAX_ELEMENTS = 1 << 26  # of a case that is typed in: larger ones need gigabytes, and a GPU


class Case(msgspec.Struct, frozen=True):
    """One set of inputs. The seed (below 2**53, so that JSON keeps it exactly) makes its data."""

    dims: dict[str, int]
    family: str
    scale: float
    seed: int

    @property
    def elements(self) -> int:
        return int(np.prod(list(self.dims.values()), dtype=np.int64))

    def rng(self, call: int) -> np.random.Generator:
        """The generator of the data of one call of the case."""
        return np.random.Generator(np.random.PCG64([self.seed, call]))

    def describe(self) -> str:
        sizes = " ".join(f"{name}={value}" for name, value in self.dims.items())
        scaled = "" if self.scale == 1 else f" scale={self.scale:g}"
        return f"{sizes}, {self.family} data{scaled}"


def token(part: str, test: str, case: Case) -> str:
    """A case in one word, as `grader repro` takes it."""
    sizes = ",".join(f"{name}={value}" for name, value in case.dims.items())
    return f"{part}.{test}:{sizes},family={case.family},scale={case.scale!r},seed={case.seed}"


def parse_token(text: str, assignment: Assignment) -> tuple[Part, str, Case]:
    """The inverse of `token`. Raises UsageError with what is wrong in it."""
    match = re.fullmatch(r"(\w+)\.(\w+):(.*)", text)
    if match is None:
        raise UsageError(
            f"{text!r} is not a case: copy the one that the failure names "
            "(part.test:dimension=...,family=...,scale=...,seed=...)"
        )
    part = assignment.part(match[1])
    test = assignment.test(match[2])
    if match[2] not in part.points or test.kind != "correctness":
        raise UsageError(f"the part {part.id} has no correctness test {match[2]!r}")
    given = dict(item.split("=", 1) for item in match[3].split(",") if "=" in item)
    wanted = [*assignment.dimensions, "family", "scale", "seed"]
    for key in given:
        if key not in wanted:
            raise UsageError(f"unknown {key!r} in the case{did_you_mean(key, wanted)}")
    for key in wanted:
        if key not in given:
            raise UsageError(f"the case does not say {key}=...")
    if given["family"] not in assignment.families:
        raise UsageError(
            f"unknown input family {given['family']!r}"
            f"{did_you_mean(given['family'], assignment.families)}"
        )
    try:
        dims = {name: int(given[name]) for name in assignment.dimensions}
        case = Case(dims, given["family"], float(given["scale"]), int(given["seed"]))
    except ValueError as error:
        raise UsageError(f"a number in the case is wrong: {error}") from None
    known = case.elements <= MAX_ELEMENTS or dims in test.large
    legal = min(dims.values()) >= 1 and known and 0 <= case.seed < 1 << 53
    if not legal or not np.isfinite(case.scale):
        raise UsageError("a number in the case is out of range")
    return part, match[2], case


def seed(master: bytes, *names: object) -> int:
    """A 53-bit seed for something named, from the master."""
    message = "/".join(map(str, names)).encode()
    digest = hmac.new(master, message, hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "little") >> 11


def cases(
    assignment: Assignment, part: Part, test_id: str, master: bytes, pinned_only: bool = False
) -> Iterator[Case]:
    """All cases of a test of a part: pinned corners first, then draws."""
    test = assignment.test(test_id)
    index = 0
    for corner in test.pinned:
        if part.id in corner.get("parts", [part.id]):
            yield Case(
                dims={name: corner[name] for name in assignment.dimensions},
                family=corner.get("family", test.families[0]),
                scale=float(corner.get("scale", 1.0)),
                seed=seed(master, assignment.id, part.id, test_id, index),
            )
            index += 1
    if pinned_only or not test.draws:
        return
    drawn = _draw(
        _dims_family_scale(assignment, test),
        test.draws,
        seed(master, assignment.id, part.id, test_id, "draws"),
    )
    for dims, family, scale in drawn:
        yield Case(dims, family, scale, seed(master, assignment.id, part.id, test_id, index))
        index += 1


def smaller(dims: Dims, test: Test) -> dict[str, int]:
    """Another legal shape, about half as large in every dimension: for a call in between."""
    return {name: test.dimensions[name].floor(value // 2) for name, value in dims.items()}


def shrink(
    case: Case, test: Test, fails: Callable[[Case], bool], max_tries: int, max_elements: int
) -> Case:
    """A failing case no dimension of which can easily be made smaller; same family and scale.

    Hypothesis shrinks only what it generated itself, and hardly ever generates the one shape at
    which a pinned corner fails; so this starts from the failing case: per dimension the smallest
    sizes first, then by bisection, until nothing gets smaller.

    `fails` is asked at most max_tries times and for at most max_elements elements in all: counts,
    not seconds, so that a report does not depend on how fast a machine is.
    """
    known: dict[tuple[int, ...], bool] = {tuple(case.dims.values()): True}
    elements = 0

    def still_fails(candidate: Case) -> bool:
        nonlocal elements
        key = tuple(candidate.dims.values())
        if key not in known:
            if len(known) > max_tries or elements + candidate.elements > max_elements:
                return False
            elements += candidate.elements
            known[key] = fails(candidate)
        return known[key]

    best, before = case, None
    while best != before:
        before = best
        for name, span in test.dimensions.items():
            best = _shrink_dimension(best, name, span, still_fails)
    return best


SMALLEST = 3


def _shrink_dimension(
    case: Case, name: str, span: Range, still_fails: Callable[[Case], bool]
) -> Case:
    """The case with one dimension as small as a short search finds it to fail."""

    def resized(steps: int) -> Case:
        dims = {**case.dims, name: span.min + steps * span.step}
        return msgspec.structs.replace(case, dims=dims)

    high = max(0, -(-(case.dims[name] - span.min) // span.step))  # in steps above the minimum
    passing = min(SMALLEST, high) - 1
    for steps in range(passing + 1):
        if still_fails(resized(steps)):
            return resized(steps)
    found = case
    while high - passing > 1:
        middle = (passing + high) // 2
        if still_fails(resized(middle)):
            found, high = resized(middle), middle
        else:
            passing = middle
    return found


# Strategies --------------------------------------------------------------------------------------


_drawing = threading.Lock()  # hypothesis has global state, and so has the patch below


def _draw(strategy: SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """`count` values of a strategy, the same ones for the same number."""
    from hypothesis import given
    from hypothesis import seed as hypothesis_seed
    from hypothesis.configuration import set_hypothesis_home_dir
    from hypothesis.internal.conjecture.providers import HypothesisProvider

    found: list[Any] = []

    @hypothesis_seed(number)
    @_settings(count)
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    set_hypothesis_home_dir(places.cache() / "hypothesis")  # not into the user's folder
    # Hypothesis also tries numbers that it finds in the source files of the running program: then
    # the cases of a master would depend on where the grader is installed and on who imports it.
    with (
        _drawing,
        mock.patch.object(
            HypothesisProvider, "_maybe_draw_constant", lambda *_, **__: None, create=True
        ),
    ):
        collect()
    return found[:count]


def _settings(count: int) -> settings:
    from hypothesis import HealthCheck, Phase, settings

    return settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )


def _dims_family_scale(
    assignment: Assignment, test: Test
) -> SearchStrategy[tuple[dict[str, int], str, float]]:
    from hypothesis import strategies as st

    families: Mapping[str, Family] = assignment.families

    @st.composite
    def draw_all(draw: DrawFn) -> tuple[dict[str, int], str, float]:
        dims = draw(_sizes(test.dimensions, test.max_elements))
        family = draw(st.sampled_from(test.families))
        low, high = families[family].exponents
        return dims, family, 10.0 ** draw(st.integers(low, high))

    return draw_all()


def _sizes(legal: Mapping[str, Range], max_elements: int) -> SearchStrategy[dict[str, int]]:
    """Dimensions with a bounded product; sizes around powers of two are likely."""
    from hypothesis import strategies as st

    @st.composite
    def draw_sizes(draw: DrawFn) -> dict[str, int]:
        left = max_elements
        others = math.prod(span.min for span in legal.values())
        dims: dict[str, int] = {}
        # last dimension first: it is the contiguous one, where most corners are
        for name, span in reversed(list(legal.items())):
            others //= span.min  # what the dimensions still to be drawn need at least
            dims[name] = draw(_size(span, max(span.min, left // others)))
            left //= dims[name]
        return {name: dims[name] for name in legal}

    return draw_sizes()


def _size(span: Range, limit: int) -> SearchStrategy[int]:
    from hypothesis import strategies as st

    high = span.floor(limit)
    near = {
        span.floor(value)
        for power in range(high.bit_length() + 1)
        for value in (2**power - 1, 2**power, 2**power + 1)
    }
    steps = st.integers(0, (high - span.min) // span.step)
    anywhere = steps.map(lambda count: span.min + count * span.step)
    return st.one_of(st.sampled_from(sorted(value for value in near if value <= high)), anywhere)
