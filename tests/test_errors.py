"""The tree of exceptions, and suggestions for typos."""

from __future__ import annotations

import pytest

from grader.errors import (
    AssignmentError,
    BuildFailed,
    GraderError,
    InfrastructureError,
    Rejected,
    UsageError,
    did_you_mean,
)


@pytest.mark.parametrize("kind", [UsageError, InfrastructureError, Rejected, BuildFailed])
def test_all_errors_are_grader_errors(kind: type[GraderError]) -> None:
    assert issubclass(kind, GraderError)


def test_a_broken_assignment_is_a_wrong_configuration() -> None:
    assert issubclass(AssignmentError, UsageError)


def test_the_four_kinds_are_apart() -> None:
    kinds = [UsageError, InfrastructureError, Rejected, BuildFailed]
    for kind in kinds:
        assert not any(issubclass(kind, other) for other in kinds if other is not kind)


def test_build_failed_keeps_the_log_apart_from_the_sentence() -> None:
    error = BuildFailed("a.cu:3: no", "a.cu:3:1: error: no\n")
    assert str(error) == "a.cu:3: no"
    assert error.log == "a.cu:3:1: error: no\n"


@pytest.mark.parametrize(
    ("wrong", "known", "said"),
    [
        ("forwrad", ["forward", "dinp"], " (did you mean 'forward'?)"),
        ("base", {"bass": 1}, " (did you mean 'bass'?)"),
        ("zzz", ["forward", "dinp"], ""),
        ("forward", [], ""),
    ],
)
def test_did_you_mean(wrong: str, known: list[str] | dict[str, int], said: str) -> None:
    assert did_you_mean(wrong, known) == said
