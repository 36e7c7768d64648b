"""Scores: exact sums, strict JSON, written whole or not at all."""

from __future__ import annotations

import json
import math
import os
from decimal import Decimal
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import score as scores
from grader.cases import Case
from grader.errors import InfrastructureError, UsageError
from grader.score import (
    AssignmentInfo,
    Environment,
    Failure,
    Finding,
    PartResult,
    Score,
    Status,
    SubmissionInfo,
    decode,
    encode,
    points,
    tenths,
    total,
)
from grader.score import TestResult as Result  # pytest collects what is called Test...


def failure(**changes: object) -> Failure:
    made = Failure(
        dims={"n": 3}, family="normal", scale=1.0, output="out", index=[2],
        expected=1.5, actual="NaN", error=None, allowed=1e-6, repro="grader repro ...",
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def made(status: Status = "graded", **changes: object) -> Score:
    case = Case({"n": 3}, "normal", 1.0, (1 << 53) - 1)
    tests = [
        Result("base", "b", True, 7.5, 7.5, [case], ""),
        Result("general", "g", False, 0.0, 2.5, [case, case], "wrong", failure()),
    ]
    score = Score(
        status=status,
        score=None if status == "infrastructure_error" else 7.5,
        max_score=10.0,
        message="",
        assignment=AssignmentInfo("saxpy", "Saxpy", "1"),
        submission=SubmissionInfo("ada", "00", ["saxpy.cu"]),
        parts=[PartResult("saxpy", "Saxpy", 7.5, 10.0, tests)] if status == "graded" else [],
        findings=[Finding("error", "launch", "saxpy", "saxpy.cu", 3, "m", "r", 1)],
        environment=Environment("0.1", "cpu", "d", "process", "public", "2024-01-01T00:00:00", 1.5),
    )
    return msgspec.structs.replace(score, **changes)


# Sums --------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 100_000)))
def test_sums_are_exact_in_tenths(counts: list[int]) -> None:
    exact = sum((Decimal(count) / 10 for count in counts), Decimal(0))
    assert total(points(count) for count in counts) == float(exact)
    assert repr(total(points(count) for count in counts)) == repr(float(exact))


@given(st.integers(0, 10**9))
def test_tenths_and_points_are_inverse(count: int) -> None:
    assert tenths(points(count)) == count


def test_ten_dimes_are_a_dollar() -> None:
    assert sum([0.1] * 10) != 1.0
    assert total([0.1] * 10) == 1.0


# JSON --------------------------------------------------------------------------------------------


def test_a_score_survives_json() -> None:
    assert decode(encode(made())) == made()


def test_json_is_indented_and_ends_with_a_newline() -> None:
    text = encode(made()).decode()
    assert text.startswith('{\n  "schema": "kernel-grader/score/v1",\n')
    assert text.endswith("\n}\n")


def test_seeds_are_exact_even_for_readers_that_know_only_doubles() -> None:
    data = json.loads(encode(made()), parse_int=lambda text: int(float(text)))
    assert data["parts"][0]["tests"][0]["cases"][0]["seed"] == (1 << 53) - 1


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_json_holds_finite_numbers_only(number: float) -> None:
    def refuse(text: str) -> float:
        raise AssertionError(f"{text} in the JSON")

    wrong = Result("base", "b", False, 0.0, 1.0, [], "", failure(expected=number, error=number))
    part = PartResult("saxpy", "Saxpy", 0.0, 1.0, [wrong])
    json.loads(encode(made(parts=[part])), parse_constant=refuse)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"\xff", b'{"schema": "kernel-grader/score/v2"}', b'{"status": 1}']
)
def test_what_is_no_score_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"^not a kernel-grader/score/v1 file: "):
        decode(data)


def test_another_version_of_the_schema_is_refused() -> None:
    with pytest.raises(UsageError):
        decode(encode(made()).replace(b"score/v1", b"score/v2"))


def test_tests_are_listed_with_their_parts() -> None:
    assert [(part.id, test.id) for part, test in made().tests()] == [
        ("saxpy", "base"),
        ("saxpy", "general"),
    ]


# Schema ------------------------------------------------------------------------------------------

VALIDATOR = jsonschema.Draft202012Validator(scores.schema())


@pytest.mark.parametrize("status", ["graded", "build_failed", "rejected", "infrastructure_error"])
def test_scores_fit_the_schema(status: Status) -> None:
    VALIDATOR.validate(json.loads(encode(made(status))))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", "kernel-grader/score/v2"),
        ("status", "fine"),
        ("score", "7.5"),
        ("parts", None),
        ("environment", {}),
    ],
)
def test_the_schema_is_not_toothless(key: str, value: object) -> None:
    data = json.loads(encode(made()))
    data[key] = value
    assert not VALIDATOR.is_valid(data)
    del data[key]
    assert not VALIDATOR.is_valid(data) or key == "schema"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(scores.schema())


# Files -------------------------------------------------------------------------------------------


def test_a_score_is_written_whole_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "score.json"
    scores.write(made(), path)
    assert path.read_bytes() == encode(made())
    assert [entry.name for entry in tmp_path.iterdir()] == ["score.json"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_an_earlier_score_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "score.json"
    scores.write(made(), path)
    scores.write(made("rejected"), path)
    assert decode(path.read_bytes()).status == "rejected"


def test_an_infrastructure_error_is_written_but_replaces_nothing(tmp_path: Path) -> None:
    fresh, earlier = tmp_path / "fresh.json", tmp_path / "earlier.json"
    scores.write(made("infrastructure_error"), fresh)
    assert decode(fresh.read_bytes()).score is None
    scores.write(made(), earlier)
    scores.write(made("infrastructure_error"), earlier)
    assert decode(earlier.read_bytes()) == made()


def test_a_write_that_fails_leaves_the_earlier_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "score.json"
    scores.write(made(), path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InfrastructureError, match=r"cannot write .*score\.json: No space left"):
        scores.write(made("rejected"), path)
    assert path.read_bytes() == encode(made())
    assert [entry.name for entry in tmp_path.iterdir()] == ["score.json"]


def test_writing_into_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*: No such file"):
        scores.write(made(), tmp_path / "no" / "score.json")


def test_a_good_place_is_writable(tmp_path: Path) -> None:
    scores.check_writable(tmp_path / "score.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "said"), [("", "it is a folder"), ("no/score.json", "there is no folder .*no$")]
)
def test_a_bad_place_is_named_before_any_work(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"cannot write .*: {said}"):
        scores.check_writable(tmp_path / name)


def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="it is no ordinary file"):
        scores.check_writable(tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_protected_folder_is_named_before_any_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="permission denied"):
        scores.check_writable(tmp_path / "score.json")
