"""The result of grading, `kernel-grader/score/v1`: what is written, shown and exported.

Points are counted in tenths, as integers, and only printed as decimals, so sums are exact. The
schema is open: parts, tests and dimensions are the assignment's own. `schema()` is published as
`grader/score.schema.json`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec

from grader import atomic
from grader.cases import Case
from grader.errors import InfrastructureError, UsageError

SCHEMA: Literal["kernel-grader/score/v1"] = "kernel-grader/score/v1"

Status = Literal["graded", "build_failed", "rejected", "infrastructure_error"]
Severity = Literal["error", "warning", "advice"]


class Failure(msgspec.Struct, frozen=True):
    """The smallest failing call that was found. Without a wrong element, `output` is null."""

    dims: dict[str, int]
    family: str
    scale: float
    output: str | None
    index: list[int] | None
    expected: float | None
    actual: float | str | None
    error: float | None
    allowed: float | None
    repro: str


class TestResult(msgspec.Struct, frozen=True):
    """passed: true, false, or null for a test that was not run (its score is 0 then).

    `cases` are all that were tried, the failing one last; they replay this very test.
    """

    id: str
    title: str
    passed: bool | None
    score: float
    max_score: float
    cases: list[Case]
    message: str
    failure: Failure | None = None


class KernelUse(msgspec.Struct, frozen=True):
    """What a kernel needs, as launched. Bytes: local memory and spills per thread, shared memory
    per block. `occupancy` is the share of a multiprocessor's threads that are resident."""

    name: str
    registers: int
    local_bytes: int
    spill_bytes: int | None
    shared_bytes: int
    blocks: int
    threads: int
    blocks_per_multiprocessor: int
    occupancy: float


class TimingCase(msgspec.Struct, frozen=True):
    """One shape: medians in microseconds, of the student's launcher and of the memory ceiling.
    overhead_us: what the grader's own clock saw of a batch of calls beyond the device's events."""

    dims: dict[str, int]
    fraction: float
    low: float
    high: float
    time_us: float
    ceiling_us: float
    samples: int
    overhead_us: float


class Timing(msgspec.Struct, frozen=True):
    """How fast a part is, as a fraction of the memory ceiling, with its 95 % interval.

    verdict: "scored"; "ambiguous", decided for the student because the interval holds a fraction
    at which the marks begin or end; "withheld", until somebody has looked at it, and has
    "accepted" or "denied" the marks.
    """

    test: str
    source: Literal["measured", "modelled"]
    fraction: float
    low: float
    high: float
    zero: float
    full: float
    verdict: Literal["scored", "ambiguous", "withheld", "accepted", "denied"]
    cases: list[TimingCase]
    kernels: list[KernelUse]


class PartResult(msgspec.Struct, frozen=True):
    id: str
    title: str
    score: float
    max_score: float
    tests: list[TestResult]
    timing: Timing | None = None


class Finding(msgspec.Struct, frozen=True):
    """What was seen at a place in the student's code. An `error` failed the test that showed it."""

    severity: Severity
    kind: str
    part: str
    file: str | None
    line: int | None
    message: str
    rationale: str
    count: int


class Review(msgspec.Struct, frozen=True):
    """What a person decided about marks that were withheld."""

    part: str
    test: str
    decision: Literal["accepted", "denied"]
    reason: str
    at: str


class AssignmentInfo(msgspec.Struct, frozen=True):
    id: str
    title: str
    version: str


class SubmissionInfo(msgspec.Struct, frozen=True):
    id: str
    sha256: str | None
    files: list[str]


class Environment(msgspec.Struct, frozen=True):
    """sandbox: the rung that was used, "bubblewrap" or "process"; `sandbox_lacks` is what it does
    not promise on this machine. seed: "public" or "secret"; the master itself is never recorded.
    `notes` say what could not be done here, such as findings that were not checked."""

    grader: str
    backend: Literal["cpu", "cuda"]
    device: str
    sandbox: str
    seed: Literal["public", "secret"]
    started_at: str
    duration_seconds: float
    notes: list[str] = []
    sandbox_lacks: list[str] = []


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """score == sum of the parts == sum of the tests. `message` says why there are no parts.

    An infrastructure error carries no score: `score` is null.
    """

    schema: Literal["kernel-grader/score/v1"] = SCHEMA
    status: Status
    score: float | None
    max_score: float
    needs_review: bool = False
    message: str
    assignment: AssignmentInfo
    submission: SubmissionInfo
    parts: list[PartResult]
    findings: list[Finding]
    environment: Environment
    reviews: list[Review] = []

    def tests(self) -> Iterable[tuple[PartResult, TestResult]]:
        """All tests with their parts, in order."""
        for part in self.parts:
            for test in part.tests:
                yield part, test


def tenths(points: float) -> int:
    return round(points * 10)


def points(in_tenths: int) -> float:
    return in_tenths / 10


def total(scores: Iterable[float]) -> float:
    """Exact sum of points."""
    return points(sum(map(tenths, scores)))


def encode(score: Score) -> bytes:
    """Indented JSON with a newline at the end. Finite numbers only."""
    raw = msgspec.json.encode(score)
    return msgspec.json.format(raw, indent=2) + b"\n"


def decode(data: bytes) -> Score:
    """Raises UsageError for anything that is not a score."""
    try:
        return msgspec.json.decode(data, type=Score)
    except msgspec.MsgspecError as error:
        raise UsageError(f"not a {SCHEMA} file: {error}") from None


def read(path: Path) -> Score:
    """Raises UsageError when there is no score in that file."""
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise UsageError("it is no ordinary file")
        return decode(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a score."""
    made = msgspec.json.schema(Score)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        **made,
    }


def check_writable(path: Path) -> None:
    """Raises UsageError, before any work, when a result could not be written there."""
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder")
    if path.exists() and not path.is_file():  # a device or a pipe would be replaced by a file
        raise UsageError(f"cannot write {path}: it is no ordinary file")
    parent = path.parent
    if not parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {parent}")
    if not os.access(parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise UsageError(f"cannot write {path}: permission denied")


def write(score: Score, path: Path) -> None:
    """Write atomically: a reader sees the old file or the new one, never half of it.

    An infrastructure error never replaces an earlier score.
    """
    if score.status == "infrastructure_error" and path.exists():
        return
    write_json(encode(score), path)


def write_json(data: bytes, path: Path) -> None:
    """Write a result atomically. Raises UsageError when that is not allowed there, and
    InfrastructureError when the disk is full or broken."""
    try:
        atomic.write(path, data)
    except OSError as error:
        sentence = f"cannot write {path}: {error.strerror}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EROFS):
            raise InfrastructureError(sentence) from None
        raise UsageError(sentence) from None
