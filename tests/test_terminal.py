"""How a score with times looks on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from grader import terminal
from grader.score import Finding, KernelUse, PartResult, Score, Timing, TimingCase
from grader.score import TestResult as Result  # pytest collects what is called Test...
from tests.test_score import made as a_score

MESSAGE = (
    "0.512 of the memory ceiling (95 % interval 0.508 to 0.517); marks from 0.1, all of them from "
    "0.85"
)


def timed(verdict: Any = "scored", earned: float = 3.8, passed: bool | None = True) -> Score:
    """Right, and half as fast as the memory."""
    case = TimingCase({"rows": 8192, "cols": 4096}, 0.5123, 0.508, 0.517, 123.456, 63.2, 30, 80.0)
    kernels = [
        KernelUse("rows<4>", 40, 8, 24, 1056, 64, 256, 4, 0.5),
        KernelUse("columns", 32, 0, 0, 0, 64, 128, 16, 1.0),
    ]
    timing = Timing("speed", "measured", 0.5123, 0.508, 0.517, 0.1, 0.85, verdict, [case], kernels)
    tests = [
        Result("base", "b", True, 5.0, 5.0, [], ""),
        Result("speed", "s", passed, earned, 7.0, [], MESSAGE),
    ]
    part = PartResult("sums", "Row sums", 5.0 + earned, 12.0, tests, timing)
    return a_score(parts=[part], score=part.score, max_score=12.0, findings=[])


def shown(score: Score) -> str:
    return click.unstyle(terminal.show(score, "mine"))


def test_a_score_with_times() -> None:
    assert shown(timed()).splitlines() == [
        "Saxpy: ada",
        "",
        "Row sums                        8.8 / 12",
        "  base   pass                     5 / 5",
        "  speed  part                   3.8 / 7",
        "",
        "Row sums: speed",
        f"  {MESSAGE}",
        "  8192 x 4096          123.5 us, memory ceiling      63.2 us  0.512",
        "  rows<4>: 256 threads a block, 40 registers, 24 bytes spilled, 1056 bytes of shared "
        "memory,",
        "  occupancy 50%",
        "  columns: 128 threads a block, 32 registers, 0 bytes of shared memory, occupancy 100%",
        "",
        "Score: 8.8 of 12",
    ]


@pytest.mark.parametrize("verdict", ["ambiguous", "withheld", "accepted", "denied"])
def test_a_verdict_that_is_not_plain_is_named(verdict: str) -> None:
    assert f"Row sums: speed ({verdict})\n" in shown(timed(verdict))


def test_withheld_marks_say_what_to_do() -> None:
    score = msgspec.structs.replace(timed("withheld", 0.0, None), needs_review=True)
    lines = shown(score).splitlines()
    assert lines[-1] == "Marks are withheld: `grader review` accepts or denies them."
    assert "  speed  -                        0 / 7" in lines


def test_no_marks_for_a_slow_kernel_are_a_failure_with_its_times() -> None:
    text = shown(timed(earned=0.0, passed=False))
    assert "  speed  FAIL                     0 / 7" in text
    assert "8192 x 4096" in text


def test_notes_come_last() -> None:
    score = timed()
    environment = msgspec.structs.replace(score.environment, notes=["one thing", "another"])
    text = shown(msgspec.structs.replace(score, environment=environment))
    assert text.endswith("Score: 8.8 of 12\nNote: one thing\nNote: another")


def test_without_times_there_is_no_such_section() -> None:
    part = msgspec.structs.replace(timed().parts[0], timing=None)
    assert "Row sums: speed" not in shown(msgspec.structs.replace(timed(), parts=[part]))


def test_findings_stand_below_the_failures_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("int x;\ns[i] = s[i + 1];\n")
    race = Finding("warning", "race", "sums", "a.cu", 2, "threads meet", "They must not.", 3)
    told = Finding("error", "launch", "sums", None, None, "it is too large", "", 1)
    failed = Result("base", "b", False, 0.0, 5.0, [], "it is too large [rows=1]")
    part = PartResult("sums", "Row sums", 0.0, 5.0, [failed])
    score = a_score(parts=[part], score=0.0, max_score=5.0, findings=[told, race, race])
    text = click.unstyle(terminal.show(score, "mine", tmp_path)).splitlines()
    assert text[-6:-2] == [
        "Warning (3 times)",
        "  a.cu:2: threads meet",
        "    a.cu:2 | s[i] = s[i + 1];",
        "  They must not.",
    ]
    assert sum("too large" in line for line in text) == 1


def test_a_kind_of_finding_is_explained_once() -> None:
    told = Finding("error", "race", "sums", "a.cu", 1, "threads meet", "They must not.", 1)
    again = [msgspec.structs.replace(told, line=n, message=f"and {n}") for n in (2, 3)]
    other = msgspec.structs.replace(told, line=4, kind="leak", message="gone", rationale="Free it.")
    failed = Result("base", "b", False, 0.0, 5.0, [], "a.cu:1: threads meet [rows=1]")
    part = PartResult("sums", "Row sums", 0.0, 5.0, [failed])
    text = shown(a_score(parts=[part], score=0.0, max_score=5.0, findings=[told, *again, other]))
    assert text.count("They must not.") == 1
    assert text.index("threads meet") < text.index("They must not.") < text.index("and 2")
    assert text.index("and 3") < text.index("gone") < text.index("Free it.")


def test_without_a_failure_the_first_finding_is_explained() -> None:
    one = Finding("warning", "race", "sums", "a.cu", 1, "threads meet", "They must not.", 1)
    other = msgspec.structs.replace(one, line=2, message="and there")
    part = PartResult("sums", "Row sums", 5.0, 5.0, [Result("base", "b", True, 5.0, 5.0, [], "")])
    text = shown(a_score(parts=[part], score=5.0, max_score=5.0, findings=[one, other]))
    assert text.count("They must not.") == 1
    assert text.index("They must not.") < text.index("and there")
