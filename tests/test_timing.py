"""From pairs of times to marks: slopes, medians, intervals, and what cannot be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import timing
from grader.manifest import Slope
from grader.timing import Estimate, Pair

SLOPE = Slope(zero=0.1, full=0.85)


def noisy(fraction: float, count: int, seed: int, noise: float = 0.05) -> list[Pair]:
    """Pairs whose true median ratio is `fraction`."""
    rng = np.random.default_rng(seed)
    ceilings = 20e-6 * np.exp(rng.normal(0, noise, count))
    students = 20e-6 / fraction * np.exp(rng.normal(0, noise, count))
    return [Pair(float(c), float(s)) for c, s in zip(ceilings, students, strict=True)]


# Marks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fraction", "earned"),
    [
        (0.0, 0.0), (0.1, 0.0), (0.85, 7.0), (1.0, 7.0), (9.0, 7.0),
        (0.475, 3.5),  # the middle of the slope
        (0.1 + 0.75 * 0.1, 0.7),
    ],
)  # fmt: skip
def test_marks_slide_between_the_ends_of_the_slope(fraction: float, earned: float) -> None:
    assert timing.marks(fraction, SLOPE, 7.0) == earned


@given(st.floats(0, 2), st.integers(0, 400))
def test_marks_are_tenths_and_never_beyond_the_points(fraction: float, tenths: int) -> None:
    points = tenths / 10
    earned = timing.marks(fraction, SLOPE, points)
    assert 0 <= earned <= points
    assert earned == round(earned, 1)


@given(st.floats(0, 2), st.floats(0, 2))
def test_a_faster_kernel_never_earns_less(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert timing.marks(low, SLOPE, 7.0) <= timing.marks(high, SLOPE, 7.0)


# Estimates ---------------------------------------------------------------------------------------


def test_equal_pairs_leave_no_doubt() -> None:
    found = timing.estimate([[Pair(1e-5, 2e-5)] * 9])
    assert (found.fraction, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_medians_count_and_not_what_happened_once() -> None:
    pairs = [Pair(1e-5, 2e-5)] * 9 + [Pair(1.0, 2e-5), Pair(1e-5, 3.0)]
    assert timing.median_ratio(pairs) == pytest.approx(0.5)
    assert timing.estimate([pairs]).fraction == pytest.approx(0.5)


def test_shapes_count_by_their_geometric_mean() -> None:
    found = timing.estimate([[Pair(1.0, 4.0)] * 5, [Pair(1.0, 1.0)] * 5])
    assert found.fraction == pytest.approx(0.5)
    assert (found.low, found.high) == pytest.approx((0.5, 0.5))


def test_the_same_times_give_the_same_numbers() -> None:
    shapes = [noisy(0.5, 30, seed) for seed in range(3)]
    assert timing.estimate(shapes) == timing.estimate(shapes)


def test_every_shape_is_resampled_on_its_own() -> None:
    """Were all shapes resampled alike, a trend that they share would not average out."""
    pairs = noisy(0.5, 30, 1)
    assert not np.array_equal(timing.resampled(pairs, 0), timing.resampled(pairs, 1))
    width = [found.high - found.low for found in (timing.estimate([pairs]),)]
    four = timing.estimate([pairs] * 4)
    assert four.high - four.low < 0.8 * width[0]


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """95 % intervals of 30 samples: of 120 of them, about 6 miss (a bootstrap of a median is a
    little too sure of itself)."""
    held = 0
    for seed in range(120):
        found = timing.estimate([noisy(0.5, 30, seed)])
        assert found.low <= found.fraction <= found.high
        held += found.low <= 0.5 <= found.high
    assert 105 <= held < 120


def test_more_samples_narrow_the_interval() -> None:
    few, many = (timing.estimate([noisy(0.5, count, 7)]) for count in (10, 300))
    assert many.high - many.low < 0.5 * (few.high - few.low)


# Verdicts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "does"),
    [
        (0.2, 0.3, False), (0.05, 0.09, False), (0.9, 0.95, False),
        (0.09, 0.11, True), (0.84, 0.86, True), (0.05, 0.9, True),
        (0.1, 0.2, False),  # touching is not holding
        (0.8, 0.85, False),
    ],
)  # fmt: skip
def test_straddling_is_holding_an_end_of_the_slope(low: float, high: float, does: bool) -> None:
    assert timing.straddles(Estimate((low + high) / 2, low, high), SLOPE) == does


def test_a_slope_from_nothing_is_not_straddled_at_nothing() -> None:
    assert not timing.straddles(Estimate(0.01, 0.0, 0.02), Slope(0.0, 0.5))


def test_impossible_is_beyond_the_ceiling_for_sure() -> None:
    assert timing.impossible(Estimate(1.2, 1.1, 1.3))
    assert not timing.impossible(Estimate(1.2, 1.0, 1.4))
    assert not timing.impossible(Estimate(1.0, 0.99, 1.01))


def test_the_shortest_time_that_a_clock_tells_gives_finite_numbers() -> None:
    found = timing.estimate([[Pair(1e-2, 0.5e-6 / 48)] * 5])
    assert math.isfinite(found.fraction) and math.isfinite(found.high)
    assert timing.impossible(found)
