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
findings       what the emulator's checkers must find on the cpu backend: tables of `kind`, `line`
               (the finding's own, or one that its message names: a race has two ends; left out:
               any) and `severity` (error when left out)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.score import Finding, Score

SUBMISSIONS = Path(__file__).resolve().parent / "submissions"
TOLERANCE = 1.05  # a cheat this much faster than its twin has gained nothing: times scatter

KEYS = {
    "why", "status", "cuda_status", "parts", "fails", "cpu_fails", "cuda_fails", "difference",
    "withheld", "gains_nothing", "twin", "message", "findings",
}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """What the checkers must find, and where."""

    kind: str
    line: int | None = None
    severity: str = "error"

    def __str__(self) -> str:
        return f"{self.severity} {self.kind} at line {self.line or 'unknown'}"

    def is_told_by(self, finding: Finding) -> bool:
        if (finding.kind, finding.severity) != (self.kind, self.severity):
            return False
        named = re.findall(r"\w\.\w+:(\d+)", finding.message)
        return self.line in (None, finding.line, *map(int, named))


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
    findings: tuple[Fault, ...] = ()
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
        findings=tuple(_fault(table) for table in said.get("findings", ())),
        cuda_status=said.get("cuda_status", said["status"]),
    )


def _fault(table: Mapping[str, Any]) -> Fault:
    unknown = sorted(set(table) - {"kind", "line", "severity"})
    if unknown:
        raise ValueError(f"findings: unknown {', '.join(unknown)}")
    return Fault(**table)


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


def not_found(expect: Expectation, score: Score) -> list[str]:
    """The faults that no finding of the score tells."""
    return [
        str(fault)
        for fault in expect.findings
        if not any(fault.is_told_by(finding) for finding in score.findings)
    ]


def false_alarms(expect: Expectation, score: Score) -> list[str]:
    """Errors in parts that have no fault."""
    faulty = {name.split(".")[0] for name in expect.cpu_fails}
    return [
        f"{finding.part}: {finding.kind} at {finding.file}:{finding.line}: {finding.message}"
        for finding in score.findings
        if finding.severity == "error" and finding.part not in faulty
    ]
