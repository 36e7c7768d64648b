"""Answers that need no kernel are refused, or it is said which are not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from grader import trivial
from grader.assignment import Assignment, Expected, load
from grader.trivial import STALE, UNWRITTEN, answers, survey


@pytest.fixture
def edited(assignments: Path, tmp_path: Path) -> Callable[[str, str], Assignment]:
    """The tensor assignment with something else in its reference."""

    def make(old: str, new: str) -> Assignment:
        folder = tmp_path / "edited"
        shutil.copytree(assignments / "tensor", folder)
        text = (folder / "reference.py").read_text()
        assert old in text
        (folder / "reference.py").write_text(text.replace(old, new))
        return load(folder)

    return make


def passing(assignment: Assignment, part: str, test: str) -> set[tuple[str, str]]:
    found = survey(assignment, assignment.part(part), test)
    return {key for key, one in found.items() if not one.refused_at}


def test_all_answers_are_made() -> None:
    expected = Expected(np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2)), 2)
    row = np.array([5, 6], np.float32)
    inputs = {"a": (row, ("r",)), "b": (row, ("c",)), "both": (row.reshape(1, 2), ("c", "r"))}
    made = answers(expected, ("r", "c"), inputs, expected)
    assert set(made) == {
        "zeros", "ones", "NaN", UNWRITTEN, "the mean of the right answer", "a copy of a",
        "a copy of b", STALE,
    }  # fmt: skip
    assert made["a copy of a"].tolist() == [[5, 5], [6, 6]]
    assert made["a copy of b"].tolist() == [[5, 6], [5, 6]]
    assert made["the mean of the right answer"].tolist() == [[2.5, 2.5], [2.5, 2.5]]
    assert made[STALE].tolist() == expected.value.tolist()
    assert all(array.dtype == np.float32 and array.shape == (2, 2) for array in made.values())


def test_the_cases_of_the_tiny_assignments_refuse_all(
    saxpy: Assignment, tensor: Assignment
) -> None:
    for assignment in (saxpy, tensor):
        for part in assignment.parts:
            for test in assignment.tests_of(part):
                if assignment.test(test).kind == "correctness":
                    assert passing(assignment, part.id, test) == set()


def test_where_an_answer_is_right_is_told(tensor: Assignment) -> None:
    found = survey(tensor, tensor.part("row_sums"), "base")
    mean = found["sums", "the mean of the right answer"]
    assert mean.right_at == ["batch=1 rows=1 cols=1, normal data"]
    assert len(mean.refused_at) == 2


@pytest.mark.parametrize(
    ("old", "new", "passes"),
    [
        ("np.abs(a).sum(axis=2), dims", "1e9 + 0 * a.sum(axis=2), dims", {"zeros", "ones", STALE}),
        ("scale * array", "0 * array", {"zeros", STALE}),
        ("rng.normal(size=(dims", "np.random.default_rng(1).normal(size=(dims", {STALE}),
    ],
    ids=["a bound that allows everything", "data that are zero", "the same data in every call"],
)
def test_what_lets_trivial_answers_pass(
    edited: Callable[[str, str], Assignment], old: str, new: str, passes: set[str]
) -> None:
    found = {answer for _, answer in passing(edited(old, new), "row_sums", "base")}
    assert passes <= found
    assert not {"NaN", UNWRITTEN} & found


def test_a_case_of_one_call_has_no_answer_before(
    tensor: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trivial, "LARGE_ELEMENTS", 1)
    found = survey(tensor, tensor.part("row_sums"), "base")
    stale = found["sums", STALE]
    assert len(stale.refused_at) + len(stale.right_at) == 1
