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
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from grader.assignment import Assignment, Dims, Family
from grader.errors import UsageError, did_you_mean
from grader.manifest import Part, Range, Test

if TYPE_CHECKING:
    from hypothesis import settings
    from hypothesis.strategies import DrawFn, SearchStrategy

PUBLIC_MASTER = b"public"


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
    legal = min(dims.values()) >= 1 and case.elements <= 1 << 31 and 0 <= case.seed < 1 << 53
    if not legal or not np.isfinite(case.scale):
        raise UsageError("a number in the case is out of range")
    return part, match[2], case


def seed(master: bytes, *names: object) -> int:
    """A 53-bit seed for something named, from the master."""
    message = "/".join(map(str, names)).encode()
    digest = hmac.new(master, message, hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "little") >> 11


def cases(assignment: Assignment, part: Part, test_id: str, master: bytes) -> Iterator[Case]:
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
    if not test.draws:
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
    """The smallest case that hypothesis finds below a failing one, same family and scale.

    `fails` is asked at most max_tries times and for at most max_elements elements in all: counts,
    not seconds, so that a report does not depend on how fast a machine is.
    """
    from hypothesis import find
    from hypothesis.errors import HypothesisException

    best = case
    known: dict[tuple[int, ...], bool] = {tuple(case.dims.values()): True}
    tries, elements = 0, 0

    def predicate(dims: dict[str, int]) -> bool:
        nonlocal best, tries, elements
        key = tuple(dims.values())
        candidate = msgspec.structs.replace(case, dims=dims)
        if key not in known:
            if tries >= max_tries or elements + candidate.elements > max_elements:
                return False
            tries += 1
            elements += candidate.elements
            known[key] = fails(candidate)
        if known[key] and candidate.elements < best.elements:
            best = candidate
        return known[key]

    below = {
        name: Range(legal.min, legal.floor(case.dims[name]), legal.step)
        for name, legal in test.dimensions.items()
    }
    # running out of tries looks like flakiness to hypothesis; the best so far is kept anyway
    with suppress(HypothesisException):
        find(
            _sizes(below, case.elements, corners=False),
            predicate,
            settings=_settings(max_tries, shrinking=True),
            random=random.Random(case.seed),
        )
    return best


# Strategies --------------------------------------------------------------------------------------


def _draw(strategy: SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """`count` values of a strategy, the same ones for the same number."""
    from hypothesis import given
    from hypothesis import seed as hypothesis_seed

    found: list[Any] = []

    @hypothesis_seed(number)
    @_settings(count, shrinking=False)
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found[:count]


def _settings(count: int, *, shrinking: bool) -> settings:
    from hypothesis import HealthCheck, Phase, settings

    phases = [Phase.generate, Phase.shrink] if shrinking else [Phase.generate]
    return settings(
        max_examples=count,
        phases=phases,
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
        dims = draw(_sizes(test.dimensions, test.max_elements, corners=True))
        family = draw(st.sampled_from(test.families))
        low, high = families[family].exponents
        return dims, family, 10.0 ** draw(st.integers(low, high))

    return draw_all()


def _sizes(
    legal: Mapping[str, Range], max_elements: int, *, corners: bool
) -> SearchStrategy[dict[str, int]]:
    """Dimensions with a bounded product; corners: sizes around powers of two are likely."""
    from hypothesis import strategies as st

    @st.composite
    def draw_sizes(draw: DrawFn) -> dict[str, int]:
        left = max_elements
        others = math.prod(span.min for span in legal.values())
        dims: dict[str, int] = {}
        # last dimension first: it is the contiguous one, where most corners are
        for name, span in reversed(list(legal.items())):
            others //= span.min  # what the dimensions still to be drawn need at least
            limit = max(span.min, left // others)
            dims[name] = draw(_size(span, limit, corners=corners))
            left //= dims[name]
        return {name: dims[name] for name in legal}

    return draw_sizes()


def _size(span: Range, limit: int, *, corners: bool) -> SearchStrategy[int]:
    from hypothesis import strategies as st

    high = span.floor(limit)
    near = {
        span.floor(value)
        for power in range(high.bit_length() + 1)
        for value in (2**power - 1, 2**power, 2**power + 1)
    }
    steps = st.integers(0, (high - span.min) // span.step)
    anywhere = steps.map(lambda count: span.min + count * span.step)
    if not corners:
        return anywhere
    return st.one_of(st.sampled_from(sorted(value for value in near if value <= high)), anywhere)
