"""Marks that were withheld wait for a person, who accepts or denies them.

A time that cannot be, or that two clocks disagree about, is no proof of anything: such marks are
neither given nor lost until an instructor has looked. The decision is recorded in the score.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

from msgspec.structs import replace

from grader import timing
from grader.errors import UsageError
from grader.manifest import Slope
from grader.score import PartResult, Review, Score, TestResult, total

Decision = Literal["accepted", "denied"]


def needs_review(parts: Iterable[PartResult]) -> bool:
    return any(_withheld(part) for part in parts)


def withheld(score: Score) -> list[tuple[PartResult, TestResult]]:
    """What waits for a decision."""
    return [(part, _speed_test(part)) for part in score.parts if _withheld(part)]


def decide(score: Score, part_id: str | None, decision: Decision, reason: str) -> Score:
    """The score with the withheld marks of one part, or of all, given or denied.

    Raises UsageError when nothing is withheld there.
    """
    waiting = [part.id for part, _ in withheld(score)]
    chosen = waiting if part_id is None else [name for name in waiting if name == part_id]
    if not chosen:
        where = f"part {part_id!r} of this score" if part_id else "this score"
        raise UsageError(
            f"nothing is withheld in {where}"
            + (f"; waiting: {', '.join(waiting)}" if waiting else "")
        )
    if not reason.strip():
        raise UsageError("say why: --reason TEXT")
    parts = [
        _decided(part, decision, reason) if part.id in chosen else part for part in score.parts
    ]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    reviews = [
        Review(part.id, _speed_test(part).id, decision, reason, now)
        for part in score.parts
        if part.id in chosen
    ]
    return replace(
        score,
        parts=parts,
        score=total(part.score for part in parts),
        needs_review=needs_review(parts),
        reviews=[*score.reviews, *reviews],
    )


def _withheld(part: PartResult) -> bool:
    return part.timing is not None and part.timing.verdict == "withheld"


def _speed_test(part: PartResult) -> TestResult:
    assert part.timing is not None
    for test in part.tests:
        if test.id == part.timing.test and part.timing.zero < part.timing.full:
            return test
    raise UsageError(f"the timing of part {part.id} in this score does not make sense")


def _decided(part: PartResult, decision: Decision, reason: str) -> PartResult:
    assert part.timing is not None
    test = _speed_test(part)
    slope = Slope(part.timing.zero, part.timing.full)
    found = timing.Estimate(part.timing.fraction, part.timing.low, part.timing.high)
    earned = timing.earned(found, slope, test.max_score)
    given = earned if decision == "accepted" else 0.0
    reviewed = replace(
        test,
        passed=given > 0,
        score=given,
        message=f"{decision} in review ({reason}); {test.message}",
    )
    tests = [reviewed if one.id == test.id else one for one in part.tests]
    return replace(
        part,
        tests=tests,
        score=total(one.score for one in tests),
        timing=replace(part.timing, verdict=decision),
    )
