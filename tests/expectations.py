"""What a test submission's expect.toml says, and whether a score agrees with it.

why            what is right or wrong about it, in a sentence
status         of the score; cuda_status: on the cuda backend, if another
parts          the parts that are graded; all when left out
fails          part.test that must fail; on both backends, unless one of these says otherwise
cpu_fails      on the cpu backend
cuda_fails     on the cuda backend, and `difference` says why
withheld       part.test whose marks for speed must be withheld; in `fails` too: either will do
gains_nothing  true: marks for speed are given, but a cheat is no faster than its honest twin
twin           kind/name of the honest submission with the same kernels
message        a regular expression that the messages of a score on the cpu backend must contain
checker        only a checker that does not exist yet can see this fault
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.score import Score

SUBMISSIONS = Path(__file__).resolve().parent / "submissions"
TOLERANCE = 1.05  # a cheat this much faster than its twin has gained nothing: times scatter

KEYS = {
    "why", "status", "cuda_status", "parts", "fails", "cpu_fails", "cuda_fails", "difference",
    "withheld", "gains_nothing", "twin", "message", "checker",
}  # fmt: skip


@dataclass(frozen=True)
class Expectation:
    """An expect.toml; see above."""

    folder: Path
    why: str
    status: str
    parts: tuple[str, ...] = ()
    cpu_fails: tuple[str, ...] = ()
    cuda_fails: tuple[str, ...] = ()
    difference: str = ""
    withheld: tuple[str, ...] = ()
    gains_nothing: bool = False
    twin: str = ""
    message: str = ""
    checker: str = ""
    cuda_status: str = "graded"

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def needs_large_shapes(self) -> bool:
        """Shapes that no emulator has room for show what is wrong."""
        only_there = set(self.cuda_fails) - set(self.cpu_fails)
        return any(name.endswith(".general") for name in only_there)


def read(folder: Path) -> Expectation:
    """The expectation of one test submission. Raises ValueError for a key that means nothing."""
    said = tomllib.loads((folder / "expect.toml").read_text(encoding="utf-8"))
    unknown = sorted(set(said) - KEYS)
    if unknown:
        raise ValueError(f"{folder}/expect.toml: unknown {', '.join(unknown)}")
    fails = tuple(said.get("fails", ()))
    return Expectation(
        folder=folder,
        why=said["why"],
        status=said["status"],
        parts=tuple(said.get("parts", ())),
        cpu_fails=tuple(said.get("cpu_fails", fails)),
        cuda_fails=tuple(said.get("cuda_fails", fails)),
        difference=said.get("difference", ""),
        withheld=tuple(said.get("withheld", ())),
        gains_nothing=said.get("gains_nothing", False),
        twin=said.get("twin", ""),
        message=said.get("message", ""),
        checker=said.get("checker", ""),
        cuda_status=said.get("cuda_status", said["status"]),
    )


def read_all(assignment: str = "*", kinds: Iterable[str] = ("*",)) -> list[Expectation]:
    """All expectations, sorted by folder."""
    found = {
        path.parent
        for kind in kinds
        for path in SUBMISSIONS.glob(f"{assignment}/{kind}/*/expect.toml")
    }
    return [read(folder) for folder in sorted(found)]


def failed(score: Score) -> list[str]:
    """The tests that failed, as part.test."""
    return [f"{part.id}.{test.id}" for part, test in score.tests() if test.passed is False]


def messages(score: Score) -> str:
    return "\n".join([score.message, *(test.message for _, test in score.tests())])
