"""The verdict on an array: within the bound accepted, beyond it or not finite rejected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from grader.arena import POISON
from grader.assignment import Expected
from grader.compare import UNIT_ROUNDOFF, allowance, compare, used

F = NDArray[np.float32]
UNWRITTEN = np.uint32(POISON).view(np.float32)

scales = st.floats(1e-30, 1e30)
terms = st.integers(1, 1 << 20)


def expected(value: Any, scale: Any = 1.0, terms: int = 1, **mistakes: Any) -> Expected:
    value = np.asarray(value, np.float64)
    return Expected(
        value,
        np.broadcast_to(np.asarray(scale, np.float64), value.shape),
        terms,
        {name.replace("_", " "): np.asarray(array, np.float64) for name, array in mistakes.items()},
    )


# The bound ---------------------------------------------------------------------------------------


@given(scale=scales, count=terms)
def test_the_bound_is_the_documented_one(scale: float, count: int) -> None:
    bound = allowance(expected([0.0], scale, count))[0]
    assert bound == pytest.approx((16 + math.sqrt(count)) * 2.0**-24 * scale, rel=1e-12, abs=2e-45)
    assert UNIT_ROUNDOFF == 2.0**-24


@given(scale=st.floats(1e-20, 1e20), count=terms, fraction=st.floats(-0.9999, 0.9999))
def test_an_error_within_the_bound_is_accepted(scale: float, count: int, fraction: float) -> None:
    got = np.zeros(1, np.float32)
    right = expected([0.0], scale, count)
    wanted = expected(fraction * allowance(right), scale, count)
    assert compare(got, wanted, ("n",)) is None
    assert used(got, wanted) == pytest.approx(abs(fraction), rel=1e-9)


@given(
    scale=st.floats(1e-20, 1e20),
    count=terms,
    factor=st.floats(1.0001, 1e6),
    sign=st.sampled_from([-1, 1]),
)
def test_an_error_beyond_the_bound_is_rejected(
    scale: float, count: int, factor: float, sign: int
) -> None:
    wanted = expected(sign * factor * allowance(expected([0.0], scale, count)), scale, count)
    wrong = compare(np.zeros(1, np.float32), wanted, ("n",))
    assert wrong is not None
    assert wrong.error is not None
    assert wrong.error > wrong.allowed


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, float(UNWRITTEN)])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e300, math.inf])
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_what_is_not_finite_is_always_rejected(bad: float, scale: float, value: float) -> None:
    got = np.array([1.0, bad], np.float32)
    wrong = compare(got, expected([1.0, value], scale), ("n",))
    assert wrong is not None
    assert wrong.index == (1,)
    assert wrong.error is None
    assert used(got, expected([1.0, value], scale)) == math.inf


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (0x7F80_0000, "Infinity"),
        (0xFF80_0000, "-Infinity"),
        (0x7FC0_0000, "NaN"),
        (0xFFC0_0000, "NaN"),
        (0x7FA5_5AA5, "NaN"),
        (POISON, "not written"),
    ],
)
def test_what_is_no_number_has_a_name(bits: int, said: str) -> None:
    got = np.array([bits], np.uint32).view(np.float32)
    wrong = compare(got, expected([1.0]), ("n",))
    assert wrong is not None
    assert wrong.actual == said


def test_without_a_scale_only_the_spacing_of_tiny_numbers_is_allowed() -> None:
    wanted = expected([0.0], 0.0)
    assert compare(np.array([1e-45], np.float32), wanted, ("n",)) is None
    assert compare(np.array([3e-45], np.float32), wanted, ("n",)) is not None
    assert compare(np.array([-0.0], np.float32), wanted, ("n",)) is None


# The worst element -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "index"),
    [
        ([[1, 9], [5, 1]], (0, 1)),
        ([[1, 9], [math.nan, 1]], (1, 0)),
        ([[math.inf, 1], [1, float(UNWRITTEN)]], (1, 1)),
    ],
)
def test_the_worst_element_is_named(got: list[list[float]], index: tuple[int, int]) -> None:
    array = np.array(got, np.float32)
    array.view(np.uint32)[np.isnan(array)] = (
        POISON if index == (1, 1) else 0x7FC0_0000  # numpy may change the bits of a NaN
    )
    wrong = compare(array, expected(np.ones((2, 2))), ("rows", "cols"))
    assert wrong is not None
    assert wrong.index == index
    assert (wrong.wrong, wrong.size) == (2, 4)


def test_worst_means_worst_against_its_own_bound() -> None:
    wrong = compare(np.array([10, 1], np.float32), expected([0, 0], [1e6, 1]), ("n",))
    assert wrong is not None
    assert wrong.index == (1,)


# What they have in common ------------------------------------------------------------------------


def pattern(bad: Any, shape: tuple[int, ...], value: float = 7.0) -> str:
    got = np.ones(shape, np.float32)
    got[bad] = value
    if math.isnan(value):
        got.view(np.uint32)[bad] = POISON
    wrong = compare(got, expected(np.ones(shape)), ("rows", "cols")[: len(shape)])
    assert wrong is not None
    return wrong.pattern


@pytest.mark.parametrize(
    ("bad", "shape", "said"),
    [
        (np.s_[:], (8,), "every element is wrong"),
        (np.s_[:], (1,), ""),
        (np.s_[5], (8,), "every wrong element has rows index 5"),
        (np.s_[2, :], (4, 8), "every wrong element has rows index 2"),
        (np.s_[:, 5], (4, 8), "every wrong element has cols index 5"),
        (np.s_[:, 4:], (4, 8), "every wrong element has cols index 4 or more"),
        (np.s_[:3, :], (4, 8), "every wrong element has rows index 2 or less"),
        (np.s_[:, 1::3], (2, 9), "every wrong element has cols index 1, 4, 7, ... (every 3th)"),
        (([0, 1, 2], [0, 1, 4]), (3, 8), ""),
    ],
)
def test_a_pattern_is_described(bad: Any, shape: tuple[int, ...], said: str) -> None:
    assert pattern(bad, shape) == said


@pytest.mark.parametrize(
    ("bad", "shape", "said"),
    [
        (np.s_[:], (8,), "nothing was written to it"),
        (np.s_[6:], (8,), "every element that was not written has rows index 6 or more"),
    ],
)
def test_what_was_not_written_is_said_so(bad: Any, shape: tuple[int, ...], said: str) -> None:
    assert pattern(bad, shape, math.nan) == said


# Well-known mistakes -----------------------------------------------------------------------------


def mistake(got: Any, right: Expected) -> str:
    wrong = compare(np.asarray(got, np.float32), right, ("n",))
    assert wrong is not None
    return wrong.mistake


RIGHT = expected([1, 2, 3], Doubled=[2, 4, 6], Off_by_one=[2, 3, 4])


@pytest.mark.parametrize(
    ("got", "said"),
    [
        ([2, 4, 6], "Doubled"),
        ([2, 3, 4], "Off by one"),
        ([2, 4, 7], ""),  # explains a part only
        ([2, 2, 3], ""),
        ([math.nan, 4, 6], ""),
    ],
)
def test_a_mistake_must_explain_the_whole_array(got: list[float], said: str) -> None:
    assert mistake(got, RIGHT) == said


def test_a_mistake_that_makes_no_difference_is_not_blamed() -> None:
    right = expected([0, 2], Doubled=[0, 2])
    assert mistake([1, 2], right) == ""


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=20))
def test_the_right_answer_is_right(values: list[float]) -> None:
    array = np.array(values, np.float32)
    assert compare(array, expected(array, np.abs(array)), ("n",)) is None
    assert used(array, expected(array)) == 0
