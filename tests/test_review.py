"""Marks that were withheld: shown, accepted, denied, and recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import msgspec
import pytest

from grader import cli, review
from grader.errors import UsageError
from grader.score import (
    PartResult,
    Score,
    Timing,
    TimingCase,
    decode,
    encode,
    read,
    write,
)
from grader.score import TestResult as Result  # pytest collects what is called Test...
from tests.test_score import made as a_score

DONE, USAGE = 0, 2


def part(name: str, verdict: Any = "withheld", fraction: float = 0.5) -> PartResult:
    """A part with 5 points for being right and 7 for speed, the latter not given (yet)."""
    case = TimingCase({"n": 9}, fraction, 0.4, 0.6, 20.0, 10.0, 30, 15.0)
    timing = Timing("speed", "measured", fraction, 0.4, 0.6, 0.1, 0.85, verdict, [case], [])
    tests = [
        Result("base", "b", True, 5.0, 5.0, [], ""),
        Result("speed", "s", None, 0.0, 7.0, [], "withheld until somebody has looked at it"),
    ]
    return PartResult(name, name.title(), 5.0, 12.0, tests, timing)


def score(*parts: PartResult) -> Score:
    return a_score(
        parts=[*parts],
        score=5.0 * len(parts),
        max_score=12.0 * len(parts),
        needs_review=review.needs_review(parts),
    )


# In Python ---------------------------------------------------------------------------------------


def test_only_withheld_marks_need_a_review() -> None:
    for verdict in ("scored", "ambiguous", "accepted", "denied"):
        assert not review.needs_review([part("one", verdict)])
    assert review.needs_review([part("one", "scored"), part("other")])
    untimed = msgspec.structs.replace(part("one"), timing=None)
    assert not review.needs_review([untimed])


def test_accepted_marks_are_those_of_the_fraction() -> None:
    decided = review.decide(score(part("one", fraction=0.475)), None, "accepted", "looks honest")
    (one,) = decided.parts
    speed = one.tests[1]
    assert (speed.passed, speed.score, speed.max_score) == (True, 3.5, 7.0)
    assert speed.message.startswith("accepted in review (looks honest); withheld until")
    assert (one.score, decided.score, decided.needs_review) == (8.5, 8.5, False)
    assert one.timing is not None and one.timing.verdict == "accepted"


def test_more_than_the_ceiling_earns_all_points_and_no_more() -> None:
    decided = review.decide(score(part("one", fraction=1.7)), None, "accepted", "why not")
    assert decided.score == 12.0


def test_denied_marks_are_lost() -> None:
    decided = review.decide(score(part("one")), None, "denied", "the result was kept")
    (one,) = decided.parts
    assert (one.tests[1].passed, one.tests[1].score) == (False, 0.0)
    assert (decided.score, decided.needs_review) == (5.0, False)
    assert one.timing is not None and one.timing.verdict == "denied"


def test_what_was_decided_is_recorded() -> None:
    decided = review.decide(score(part("one"), part("other")), None, "denied", "because")
    assert [
        (entry.part, entry.test, entry.decision, entry.reason) for entry in decided.reviews
    ] == [
        ("one", "speed", "denied", "because"),
        ("other", "speed", "denied", "because"),
    ]
    assert all(entry.at.endswith("+00:00") for entry in decided.reviews)
    assert decode(encode(decided)) == decided


def test_one_part_at_a_time() -> None:
    first = review.decide(score(part("one"), part("other")), "other", "accepted", "fine")
    assert [one.id for one, _ in review.withheld(first)] == ["one"]
    assert first.needs_review
    second = review.decide(first, "one", "denied", "not fine")
    assert not second.needs_review
    assert [entry.part for entry in second.reviews] == ["other", "one"]
    assert second.score == 10.0 + 3.7


def test_everything_else_stays_as_it_was() -> None:
    before = score(part("one"), part("other", "scored"))
    after = review.decide(before, None, "accepted", "fine")
    assert after.parts[1] == before.parts[1]
    assert after.parts[0].tests[0] == before.parts[0].tests[0]
    assert after.environment == before.environment


@pytest.mark.parametrize(
    ("parts", "name", "reason", "said"),
    [
        ([part("one", "scored")], None, "x", "nothing is withheld in this score$"),
        (
            [part("one")],
            "two",
            "x",
            "nothing is withheld in part 'two' of this score; waiting: one",
        ),
        ([part("one")], None, " ", "say why: --reason TEXT"),
        ([], None, "x", "nothing is withheld in this score$"),
    ],
)
def test_what_cannot_be_decided(
    parts: list[PartResult], name: str | None, reason: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        review.decide(score(*parts), name, "accepted", reason)


def test_a_decision_is_final() -> None:
    decided = review.decide(score(part("one")), None, "denied", "x")
    with pytest.raises(UsageError, match="nothing is withheld"):
        review.decide(decided, None, "accepted", "y")


# As a command ------------------------------------------------------------------------------------

Run = Callable[..., click.testing.Result]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "score.json"
    write(score(part("one"), part("other", fraction=0.85)), path)
    return path


@pytest.fixture
def run(file: Path) -> Run:
    def invoke(*arguments: str, path: Path = file) -> click.testing.Result:
        return click.testing.CliRunner().invoke(cli.main, ["review", str(path), *arguments])

    return invoke


def test_without_a_decision_it_only_shows(run: Run, file: Path) -> None:
    before = file.read_bytes()
    result = run()
    assert result.exit_code == DONE
    assert result.output == (
        "one, speed (7 points): withheld until somebody has looked at it\n"
        "other, speed (7 points): withheld until somebody has looked at it\n"
    )
    assert file.read_bytes() == before


def test_one_part_is_shown_alone(run: Run) -> None:
    assert run("--part", "other").output.startswith("other, speed")
    assert "the score has no part 'third'" in run("--part", "third").output


def test_nothing_to_show(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "fine.json"
    write(score(part("one", "scored")), path)
    result = run(path=path)
    assert (result.exit_code, result.output) == (DONE, "nothing is withheld\n")


def test_accepting_changes_the_file(run: Run, file: Path) -> None:
    result = run("--accept", "--part", "other", "--reason", "a new trick")
    assert (result.exit_code, result.output) == (DONE, "accepted; the score is 17 of 24\n")
    found = read(file)
    assert (found.score, found.needs_review) == (17.0, True)
    result = run("--deny", "--reason", "an old trick")
    assert (result.exit_code, result.output) == (DONE, "denied; the score is 17 of 24\n")
    assert not read(file).needs_review


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--accept"], "say why: --reason TEXT"),
        (["--deny", "--reason", ""], "say why: --reason TEXT"),
        (["--accept", "--part", "third", "--reason", "x"], "waiting: one, other"),
    ],
)
def test_a_wrong_command_changes_nothing(
    run: Run, file: Path, arguments: list[str], said: str
) -> None:
    before = file.read_bytes()
    result = run(*arguments)
    assert result.exit_code == USAGE
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", '{"schema": "another"}'])
@pytest.mark.parametrize("decision", [[], ["--accept", "--reason", "x"]])
def test_what_is_no_score_is_left_alone(
    run: Run, tmp_path: Path, content: str | None, decision: list[str]
) -> None:
    path = tmp_path / "other.json"
    if content is not None:
        path.write_text(content)
    result = run(*decision, path=path)
    assert result.exit_code == USAGE
    assert result.stderr.startswith("grader: ")
    assert str(path) in result.stderr
    assert (path.read_text() if path.exists() else None) == content
