"""What the author of an assignment says of a submission in its expect.toml, and whether a score
agrees.

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
kind           a kind of finding that a score on the cpu backend must have, wherever it is
findings       what the emulator's checkers must find on the cpu backend: tables of `kind`, `line`
               (the finding's own, or one that its message names: a race has two ends; left out:
               any) and `severity` (error when left out)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

from grader.assignment import Assignment
from grader.errors import UsageError, did_you_mean
from grader.score import Finding, Score, Severity

FILE = "expect.toml"
TIMED = "hostile"  # the folder of the submissions that are after marks for speed
PARTLY = "wrong"  # the folder of those with one fault, whose other parts are those of others

Verdict = Literal["graded", "build_failed", "rejected"]


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the checkers must find, and where."""

    kind: str
    line: int | None = None
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.severity} {self.kind} at line {self.line or 'unknown'}"

    def is_told_by(self, finding: Finding) -> bool:
        if (finding.kind, finding.severity) != (self.kind, self.severity):
            return False
        named = re.findall(r"\w\.\w+:(\d+)", finding.message)
        return self.line is None or str(self.line) in (str(finding.line), *named)


class _Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An expect.toml as it is written."""

    why: str
    status: Verdict
    cuda_status: Verdict | None = None
    parts: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()
    cpu_fails: tuple[str, ...] | None = None
    cuda_fails: tuple[str, ...] | None = None
    difference: str = ""
    withheld: tuple[str, ...] = ()
    gains_nothing: bool = False
    twin: str = ""
    message: str = ""
    kind: str = ""
    findings: tuple[Fault, ...] = ()


class Expectation(msgspec.Struct, frozen=True):
    """An expect.toml; see above."""

    folder: Path
    why: str
    status: Verdict
    parts: tuple[str, ...] = ()
    cpu_fails: tuple[str, ...] = ()
    cuda_fails: tuple[str, ...] = ()
    difference: str = ""
    withheld: tuple[str, ...] = ()
    gains_nothing: bool = False
    twin: str = ""
    message: str = ""
    kind: str = ""
    findings: tuple[Fault, ...] = ()
    cuda_status: Verdict = "graded"

    @property
    def group(self) -> str:
        """The name of the folder that holds submissions of this kind."""
        return self.folder.parent.name

    @property
    def name(self) -> str:
        return f"{self.group}/{self.folder.name}"

    @property
    def timed(self) -> bool:
        """Whether its marks for speed are what it is about."""
        return self.group == TIMED

    @property
    def needs_large_shapes(self) -> bool:
        """Shapes that no emulator has room for show what is wrong."""
        only_there = set(self.cuda_fails) - set(self.cpu_fails)
        return any(name.endswith(".general") for name in only_there)

    def parts_to_grade(self, thoroughly: bool) -> tuple[str, ...]:
        """Ids of the parts; all when empty. Of one with a single fault, unless `thoroughly`, only
        the parts that it concerns: the others are those of other submissions."""
        if thoroughly or self.group != PARTLY:
            return self.parts
        return tuple(dict.fromkeys(_part(name) for name in self.cpu_fails)) or self.parts


def read(folder: Path) -> Expectation:
    """The expectation of one submission.

    Raises UsageError, with the file and the key, for anything else than the keys above.
    """
    path = folder / FILE
    try:
        said = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _Said)
        re.compile(said.message)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None
    except msgspec.ValidationError as error:
        raise UsageError(_explain(path, str(error))) from None
    except re.error as error:
        raise UsageError(f"{path}: message: not a regular expression: {error}") from None
    except (ValueError, OverflowError) as error:  # what int() and re say to huge numbers, too
        raise UsageError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path} is not valid TOML: it is nested too deeply") from None
    shared = {
        name: getattr(said, name)
        for name in Expectation.__struct_fields__
        if name not in ("folder", "cuda_status", "cpu_fails", "cuda_fails")
    }
    return Expectation(
        folder=folder,
        cuda_status=said.cuda_status or said.status,
        cpu_fails=said.fails if said.cpu_fails is None else said.cpu_fails,
        cuda_fails=said.fails if said.cuda_fails is None else said.cuda_fails,
        **shared,
    )


def _explain(path: Path, problem: str) -> str:
    """A msgspec sentence with the file, the key and, for a typo, the key that was meant."""
    what, _, where = problem.partition(" - at `$")
    place = where.rstrip("`").lstrip(".")
    unknown = re.search(r"unknown field `(.*)`", what)
    if unknown:
        known = (Fault if place.startswith("findings") else _Said).__struct_fields__
        inside = f" in {place}" if place else ""
        return f"{path}: unknown key {unknown[1]!r}{inside}{did_you_mean(unknown[1], known)}"
    missing = re.search(r"missing required field `(.*)`", what)
    if missing:
        return f"{path}: the key {missing[1]!r} is missing" + (f" in {place}" if place else "")
    return f"{path}: {place or 'the file'}: {what}"


def read_all(folder: Path) -> list[Expectation]:
    """All expectations in a folder and its folders, sorted. Raises UsageError as `read` does."""
    return [read(path.parent) for path in sorted(folder.rglob(FILE))]


# Against a score ---------------------------------------------------------------------------------


def disagreements(expect: Expectation, score: Score, used: Assignment) -> list[str]:
    """How a score on the cpu backend is not as expected, a sentence each; empty when it is."""
    if score.status != expect.status:
        return [f"the status is {score.status}, not {expect.status}: {score.message}"]
    found: list[str] = []
    if score.status != "graded" and (score.score != 0 or score.parts):
        found.append("it is not graded, and has marks or parts all the same")
    if score.status == "graded" and failed(score) != list(expect.cpu_fails):
        found.append(f"{_listed(failed(score))} failed, not {_listed(expect.cpu_fails)}")
    found += [f"{name} was not run" for name in _left_out(score, used)]
    found += [f"no finding tells the {fault}" for fault in not_found(expect, score)]
    if expect.kind and expect.kind not in {finding.kind for finding in score.findings}:
        found.append(f"no finding is of the kind {expect.kind}")
    found += [f"an error in a part without a fault: {it}" for it in false_alarms(expect, score)]
    if expect.message and not re.search(expect.message, messages(score)):
        found.append(f"no message is like {expect.message!r}")
    if found and score.status == "graded":
        found.append(f"the messages: {' | '.join(filter(None, messages(score).splitlines()))}")
    return found


def _left_out(score: Score, used: Assignment) -> list[str]:
    """The correctness tests that were not run, though all that they need have passed."""
    passed = {(part.id, test.id) for part, test in score.tests() if test.passed}
    return [
        f"{part.id}.{test.id}"
        for part, test in score.tests()
        if test.passed is None
        and used.test(test.id).kind == "correctness"
        and all((part.id, need) in passed for need in used.test(test.id).needs)
    ]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def _part(name: str) -> str:
    return name.partition(".")[0]


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
    faulty = {_part(name) for name in expect.cpu_fails}
    return [
        f"{finding.part}: {finding.kind} at {finding.file}:{finding.line}: {finding.message}"
        for finding in score.findings
        if finding.severity == "error" and finding.part not in faulty
    ]
