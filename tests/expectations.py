"""Where the test submissions are, and what their authors say of them (`grader/expectations.py`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from grader.expectations import Expectation, read

SUBMISSIONS = Path(__file__).resolve().parent / "submissions"
TOLERANCE = 1.05  # a cheat this much faster than its twin has gained nothing: times scatter


def read_all(assignment: str = "*", kinds: Iterable[str] = ("*",)) -> list[Expectation]:
    """All expectations of submissions in folders of these kinds, sorted by folder."""
    found = {
        path.parent
        for kind in kinds
        for path in SUBMISSIONS.glob(f"{assignment}/{kind}/*/expect.toml")
    }
    return [read(folder) for folder in sorted(found)]
