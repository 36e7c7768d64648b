"""A worker's words about findings: parsed with suspicion, the same ones told once."""

from __future__ import annotations

import pytest

from grader.findings import MESSAGE, MOST, add, parse, sentence
from grader.rationales import RATIONALES
from grader.score import Finding


def line(
    severity: str = "error", kind: str = "race", file: str = "a.cu", number: str = "7",
    count: str = "2", message: str = "two threads",
) -> str:  # fmt: skip
    return "\t".join((severity, kind, file, number, count, message))


def test_a_line_is_a_finding() -> None:
    (found,) = parse(line() + "\n", "forward")
    assert found == Finding("error", "race", "forward", "a.cu", 7, "two threads", "", 2)
    assert sentence(found) == "a.cu:7: two threads"


def test_a_kind_brings_its_rationale() -> None:
    kind = next(iter(RATIONALES))
    assert parse(line(kind=kind), "p")[0].rationale == RATIONALES[kind]


def test_a_place_may_be_unknown() -> None:
    (found,) = parse(line(file="", number="0"), "p")
    assert (found.file, found.line) == (None, None)
    assert sentence(found) == "two threads"


@pytest.mark.parametrize(
    "nonsense",
    [
        "no tabs at all",
        line(severity="fatal"),
        line(number="-1"),
        line(count="many"),
        line(count="²"),
        line() + "\tmore",
    ],
)
def test_lines_without_sense_are_left_out(nonsense: str) -> None:
    assert [found.line for found in parse(f"{nonsense}\n{line()}", "p")] == [7]


def test_what_follows_an_empty_line_is_no_finding() -> None:
    assert parse(f"{line()}\n\n{line()}", "p") == parse(line(), "p")
    assert parse("", "p") == []


def test_a_worker_cannot_tell_without_end() -> None:
    report = "\n".join(line(number=str(n), message="x" * 5000) for n in range(10_000))
    found = parse(report, "p")
    assert len(found) == MOST
    assert all(len(one.message) == MESSAGE for one in found)


def test_the_same_at_the_same_line_is_told_once() -> None:
    known: list[Finding] = []
    add(known, parse(line(message="first"), "p"))
    add(known, parse(f"{line(message='again')}\n{line(number='8')}", "p"))
    assert [(one.line, one.count, one.message) for one in known] == [
        (7, 4, "first"),
        (8, 2, "two threads"),
    ]


def test_another_part_or_kind_is_another_finding() -> None:
    known = parse(line(), "forward")
    add(known, parse(line(), "backward"))
    add(known, parse(line(kind="leak"), "forward"))
    assert len(known) == 3


def test_an_error_anywhere_makes_it_an_error() -> None:
    known = parse(line(severity="warning"), "p")
    add(known, parse(line(), "p"))
    assert [one.severity for one in known] == ["error"]


def test_findings_without_a_place_are_told_apart_by_what_they_say() -> None:
    known = parse(line(file="", number="0", message="one"), "p")
    add(known, parse(line(file="", number="0", message="other"), "p"))
    assert len(known) == 2
