"""Every test submission is graded as its expect.toml says: wrong ones lose exactly the tests that
their fault concerns, odd but right ones lose nothing. `pytest --slow` adds four more masters."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from grader import grade
from grader.score import Score

SUBMISSIONS = Path(__file__).resolve().parent / "submissions"
FOLDERS = sorted(
    path.parent for path in SUBMISSIONS.glob("*/*/*/expect.toml") if "saxpy" not in path.parts
)
MASTERS = [
    b"public",
    *(pytest.param(f"master {n}".encode(), marks=pytest.mark.slow) for n in range(1, 5)),
]


def failed(score: Score) -> list[str]:
    return [f"{part.id}.{test.id}" for part, test in score.tests() if test.passed is False]


def messages(score: Score) -> str:
    return "\n".join([score.message, *(test.message for _, test in score.tests())])


@pytest.mark.parametrize("master", MASTERS, ids=lambda master: master.decode())
@pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}"
)
def test_is_graded_as_expected(folder: Path, master: bytes) -> None:
    expect: dict[str, Any] = tomllib.loads((folder / "expect.toml").read_text())
    score = grade(folder, assignment=folder.parents[1].name, backend="cpu", master=master)
    assert score.status == expect["status"], score.message
    if "checker" in expect:
        return  # only a checker that does not exist yet can see this fault
    if score.status != "graded":
        assert score.score == 0 and not score.parts
    else:
        assert failed(score) == expect["fails"], messages(score)
        for part, test in score.tests():
            if test.passed is None:  # not run: because of a failure, or because it is about speed
                needs = {f"{part.id}.base"} & set(expect["fails"])
                assert needs or test.id == "speed"
    if "message" in expect:
        assert re.search(expect["message"], messages(score)), messages(score)


def test_there_are_enough_of_them() -> None:
    kinds = [folder.parent.name for folder in FOLDERS if folder.parents[1].name == "layernorm"]
    assert kinds.count("wrong") >= 25
    assert kinds.count("odd") >= 12
