"""Every solution earns all marks, and the starter made from it none.

`pytest --slow` grades the solutions over 20 masters.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import assignment, author, grade
from grader.cases import PUBLIC_MASTER
from grader.profile import profile

ROOT = Path(__file__).resolve().parent.parent
NAMES = sorted(path.name for path in (ROOT / "solution").iterdir())
MASTERS = [
    PUBLIC_MASTER,
    *(pytest.param(f"secret {n}".encode(), marks=pytest.mark.slow) for n in range(1, 20)),
]


@pytest.mark.parametrize("master", MASTERS, ids=lambda master: master.decode())
@pytest.mark.parametrize("name", NAMES)
def test_a_solution_has_full_marks(name: str, master: bytes) -> None:
    score = grade(ROOT / "solution" / name, assignment=name, backend="cpu", master=master)
    assert score.status == "graded", score.message
    for part, test in score.tests():
        assert test.passed is True, f"{part.id}.{test.id}: {test.message}"
        assert test.score == test.max_score
    assert score.score == score.max_score == 100
    assert not score.findings


@pytest.mark.parametrize("name", NAMES)
def test_a_solution_leaves_little_to_advise(name: str) -> None:
    """What it could do better is worth less than a fiftieth of its time."""
    for part in profile(ROOT / "solution" / name, assignment(name)):
        assert part.advice == [], part.part


@pytest.mark.parametrize("name", NAMES)
def test_a_starter_compiles_scores_nothing_and_says_what_to_do(name: str) -> None:
    score = grade(ROOT / "starter" / name, assignment=name, backend="cpu")
    assert score.status == "graded", score.message
    assert score.score == 0
    assert not any(test.passed for _, test in score.tests())
    assert f"marked {author.MARKER}, the first at {name}.cu:" in score.message


@pytest.mark.parametrize("name", NAMES)
def test_a_starter_is_in_step_with_its_solution(name: str) -> None:
    assert author.out_of_step(ROOT / "solution" / name, ROOT / "starter" / name) == []
    text = (ROOT / "starter" / name / f"{name}.cu").read_text()
    assert author.BEGIN not in text and author.END not in text
