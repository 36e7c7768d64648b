"""Grades every test submission on both backends, and holds the verdicts against expect.toml.

Speed is left out here: that needs the GPU for itself (timings.py).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import grader
from grader import build, sandbox, submission
from grader.assignment import Assignment
from grader.errors import BuildFailed, GraderError
from grader.expectations import Expectation, failed, messages
from grader.target import choose as choose_target
from tests.expectations import TOLERANCE, read_all

ROOT = Path(__file__).resolve().parents[2]
ASSIGNMENT = "layernorm"
KINDS = ("wrong", "odd", "classic", "pace", "hostile")

Row = dict[str, Any]


def everything() -> list[Expectation]:
    """The solution, the starter, and all test submissions."""
    points = {part.id: part for part in grader.assignment(ASSIGNMENT).parts}
    solution = Expectation(ROOT / "solution" / ASSIGNMENT, "the reference kernels", "graded")
    bases = tuple(f"{part}.base" for part in points)
    starter = Expectation(
        ROOT / "starter" / ASSIGNMENT, "nothing is written yet", "graded", (), bases, bases
    )
    return [solution, starter, *read_all(ASSIGNMENT, KINDS)]


def parts_of(expect: Expectation) -> tuple[str, ...]:
    """The parts that have to be graded to see what is expected; all when empty."""
    if expect.parts or expect.status != "graded":
        return expect.parts
    return tuple(
        dict.fromkeys(name.split(".")[0] for name in (*expect.cpu_fails, *expect.cuda_fails))
    )


def with_large_shapes(expect: Expectation) -> bool:
    """They take seconds each: only for kernels that they are there for, and for the best ones."""
    return expect.needs_large_shapes or expect.name.split("/")[0] in ("solution", "classic")


def without_large_shapes(assignment: Assignment) -> Assignment:
    """The assignment, its tests without the shapes that only a GPU has room for."""
    tests = {
        name: msgspec.structs.replace(test, large=()) for name, test in assignment.tests.items()
    }
    return dataclasses.replace(assignment, tests=tests)


# Tasks for a pool of processes -------------------------------------------------------------------


def compile_one(folder: str, backend: str) -> Row:
    """Build a submission, so that later steps find it built."""
    began = time.monotonic()
    said = ""
    try:
        assignment = grader.assignment(ASSIGNMENT)
        read = submission.read(folder, assignment)
        target = choose_target(backend)
        if target.gpu is None:
            build.build(read, assignment, sandbox.choose())
        else:
            build.build(read, assignment, sandbox.choose(), backend="cuda", arch=target.gpu.arch)
    except GraderError as error:
        said = str(error)
        if not isinstance(error, BuildFailed):
            said = f"{type(error).__name__}: {said}"
    return {"folder": folder, "backend": backend, "seconds": _since(began), "said": said[:300]}


def verdict(folder: str, backend: str, parts: Sequence[str], large: bool) -> Row:
    """What the grader says about a submission, without speed."""
    began = time.monotonic()
    assignment = grader.assignment(ASSIGNMENT)
    if not large:
        assignment = without_large_shapes(assignment)
    score = grader.grade(folder, assignment=assignment, backend=backend, parts=parts, timed=False)
    notes = [test.message for _, test in score.tests() if test.passed and test.message]
    return {
        "status": score.status,
        "score": score.score,
        "max_score": score.max_score,
        "failed": failed(score),
        "message": messages(score).strip()[:600],
        "notes": [*score.environment.notes, *notes][:6],
        "findings": sorted({found.kind for found in score.findings}),
        "large": large and backend == "cuda",
        "seconds": _since(began),
    }


def _since(began: float) -> float:
    return round(time.monotonic() - began, 2)


# Against the expectations ------------------------------------------------------------------------


def judge(
    expect: Expectation,
    cpu: Row | None,
    cuda: Row | None,
    speed: Mapping[str, Row],
    twin: Row | None,
) -> Row:
    """One line of the table. cpu, cuda: None for a verdict that is missing; speed: part -> what was
    measured; twin: that of the honest twin."""
    problems = []
    if cpu is None or "error" in cpu:
        problems.append(f"cpu: {cpu['error'] if cpu else 'not graded'}")
    else:
        problems += _compare("cpu", expect, cpu, expect.cpu_fails)
    timed = [name for name in (*expect.cuda_fails, *expect.withheld) if name.endswith(".speed")]
    if cuda is None or "error" in cuda:
        problems.append(f"cuda: {cuda['error'] if cuda else 'not graded'}")
    else:
        wanted = [name for name in expect.cuda_fails if not name.endswith(".speed")]
        problems += _compare("cuda", expect, cuda, wanted)
    for part in expect.parts if timed or expect.gains_nothing else ():
        problem = cheated(expect, part, speed.get(part), twin)
        if problem:
            problems.append(problem)
    return {
        "name": expect.name,
        "why": expect.why,
        "cpu": _short(cpu),
        "cuda": _short(cuda),
        "speed": {part: outcome(row) for part, row in speed.items()},
        "fractions": {part: row.get("fraction") for part, row in speed.items()},
        "twin": expect.twin,
        "twin_fraction": twin.get("fraction") if twin else None,
        "difference": expect.difference,
        "problems": problems,
    }


def _compare(backend: str, expect: Expectation, seen: Row, wanted: Sequence[str]) -> list[str]:
    status = expect.cuda_status if backend == "cuda" else expect.status
    if seen["status"] != status:
        return [f"{backend}: {seen['status']} instead of {status}"]
    if sorted(seen["failed"]) == sorted(wanted):
        return []
    return [f"{backend}: failed {_listed(seen['failed'])} instead of {_listed(wanted)}"]


def cheated(expect: Expectation, part: str, measured: Row | None, twin: Row | None) -> str:
    """Empty when a cheat earned nothing by it, else what it earned."""
    if measured is None or "error" in measured:
        return f"{part}: {measured['error'] if measured else 'not timed'}"
    what, name = outcome(measured), f"{part}.speed"
    if what == "failed" and (name in expect.cuda_fails or expect.gains_nothing):
        return ""
    if what == "withheld" and (name in expect.withheld or expect.gains_nothing):
        return ""
    if expect.gains_nothing:
        if twin is None or not twin.get("fraction"):
            return f"{name}: its twin was not timed"
        if measured["fraction"] <= TOLERANCE * twin["fraction"]:
            return ""
        return f"{name}: {measured['fraction']:.3f}, its honest twin {twin['fraction']:.3f}"
    fraction = measured.get("fraction")
    reached = f" at {fraction:.3f} of the ceiling" if fraction else ""
    return f"{name}: {what}{reached}"


def outcome(measured: Row) -> str:
    """failed, withheld, scored or not measured."""
    if "error" in measured:
        return "crashed"
    if measured.get("verdict") == "withheld":
        return "withheld"
    if measured["passed"] is None:
        return "not measured"
    return "failed" if measured.get("fraction") is None else "scored"


def _short(seen: Row | None) -> str:
    if seen is None or "error" in seen:
        return "crashed"
    if seen["status"] != "graded":
        return str(seen["status"])
    return _listed(seen["failed"])


def _listed(names: Sequence[str]) -> str:
    return " ".join(names) if names else "nothing"
