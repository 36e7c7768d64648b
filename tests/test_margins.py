"""The checks say how close right results came to what is allowed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from grader.assignment import Assignment
from grader.checks import Checker
from grader.margins import Margin, Margins
from tests.test_checks import MASTER, Launch, NumpySession


def test_the_worst_is_kept_of_each_output_of_each_test() -> None:
    margins = Margins()
    for test, used, case in [("a", 0.1, "x"), ("a", 0.4, "y"), ("a", 0.2, "z"), ("b", 0.0, "x")]:
        margins.note(Margin("part", test, "out", used, case))
    assert [str(margin) for margin in margins] == [
        "part.a: out: 0.40 of the bound [y]",
        "part.b: out: 0.00 of the bound [x]",
    ]


@pytest.mark.parametrize(("ulps", "low", "high"), [(0, 0.0, 0.1), (4, 0.1, 0.6)])
def test_checks_note_the_largest_error(
    saxpy: Assignment, ulps: int, low: float, high: float
) -> None:
    def launcher(launch: Launch) -> None:
        arrays = launch.arrays
        exact = 2.5 * arrays["x"].astype(np.float64) + arrays["y"]
        arrays["out"][:] = exact * (1 + ulps * 2.0**-23)

    margins = Margins()
    part = saxpy.part("saxpy")
    made = Checker(saxpy, part, NumpySession(launcher), MASTER, margins=margins)
    assert made.run("general").passed
    (worst,) = margins
    assert (worst.part, worst.test, worst.output) == ("saxpy", "general", "out")
    assert low < worst.used <= high
    assert "normal data" in worst.case


def test_an_error_that_is_not_finite_is_the_worst(saxpy: Assignment) -> None:
    margins = Margins()
    session = NumpySession(lambda launch: launch.arrays["out"].fill(np.nan))
    made = Checker(saxpy, saxpy.part("saxpy"), session, MASTER, margins=margins)
    assert made.run("general").passed is False
    assert [margin.used for margin in margins] == [math.inf]
