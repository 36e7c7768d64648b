"""An expect.toml is read as meant or refused in a sentence, and a score is held against it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import score as scores
from grader.assignment import Assignment
from grader.errors import UsageError
from grader.expectations import Expectation, Fault, disagreements, read, read_all
from grader.score import (
    AssignmentInfo,
    Environment,
    Finding,
    PartResult,
    Score,
    Severity,
    SubmissionInfo,
)

PLAIN = 'why = "?"\nstatus = "graded"\n'


def written(folder: Path, text: str) -> Path:
    (folder / "expect.toml").write_text(text, encoding="utf-8")
    return folder


def test_what_is_left_out_is_as_for_both_backends(tmp_path: Path) -> None:
    expect = read(written(tmp_path, PLAIN + 'fails = ["a.b"]\ncuda_fails = []\n'))
    assert (expect.cpu_fails, expect.cuda_fails) == (("a.b",), ())
    assert expect.cuda_status == "graded"
    refused = read(written(tmp_path, 'why = "?"\nstatus = "rejected"\n'))
    assert refused.cuda_status == "rejected"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAIN + "fail = []", "unknown key 'fail' (did you mean 'fails'?)"),
        ('status = "graded"', "the key 'why' is missing"),
        (PLAIN + "fails = 3", "fails: Expected `array`, got `int`"),
        ('why = "?"\nstatus = "grade"', "status: Invalid enum value 'grade'"),
        (
            PLAIN + 'findings = [{ kind = "race", lines = 3 }]',
            "unknown key 'lines' in findings[0] (did you mean 'line'?)",
        ),
        (PLAIN + "findings = [{ line = 3 }]", "the key 'kind' is missing in findings[0]"),
        (PLAIN + "message = '('", "message: not a regular expression"),
        ("why = ", "is not valid TOML"),
        (f"why = {'[' * 9000}", "nested too deeply"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(written(tmp_path, text))
    assert str(raised.value).startswith(str(tmp_path / "expect.toml"))
    assert said in str(raised.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^cannot read .*expect\.toml: No such file"):
        read(tmp_path)
    (tmp_path / "expect.toml").write_bytes(b'why = "\xff"')
    with pytest.raises(UsageError, match=r"expect\.toml is not UTF-8 text$"):
        read(tmp_path)


VALUES = st.recursive(
    st.sampled_from(["3", "-1", "true", '"graded"', "'('", "1e400", "9" * 30, "9" * 5000, "nan"])
    | st.text("abc.{}[]\\\"'=#\n", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda them: f"[{', '.join(them)}]")
        | inner.map(lambda it: f"[{{ kind = {it}, line = {it} }}]")
    ),
    max_leaves=4,
)


@given(
    st.lists(
        st.tuples(st.sampled_from([*Expectation.__struct_fields__, "fails", "x"]), VALUES),
        max_size=4,
    )
)
def test_anything_is_read_or_refused_in_one_sentence(pairs: list[tuple[str, str]]) -> None:
    text = PLAIN + "\n".join(f"{key} = {value}" for key, value in pairs)
    with tempfile.TemporaryDirectory() as name:
        try:
            assert read(written(Path(name), text)).why == "?"
        except UsageError as error:
            assert "expect.toml" in str(error) and "Traceback" not in str(error)


def test_folders_are_found_at_any_depth(tmp_path: Path) -> None:
    for name in ("b", "a/wrong/two", "a/odd/one"):
        (tmp_path / name).mkdir(parents=True)
        written(tmp_path / name, PLAIN)
    assert [expect.name for expect in read_all(tmp_path)] == [
        "odd/one", "wrong/two", f"{tmp_path.name}/b",
    ]  # fmt: skip


def test_one_fault_is_graded_in_its_part_alone(tmp_path: Path) -> None:
    folder = tmp_path / "wrong" / "it"
    folder.mkdir(parents=True)
    expect = read(written(folder, PLAIN + 'parts = ["a", "c"]\nfails = ["a.x", "a.y"]\n'))
    assert expect.parts_to_grade(thoroughly=False) == ("a",)
    assert expect.parts_to_grade(thoroughly=True) == ("a", "c")


def finding(
    line: int | None = 7,
    message: str = "written",
    severity: Severity = "error",
    part: str = "saxpy",
) -> Finding:
    return Finding(severity, "race", part, "a.cu", line, message, "", 1)


@pytest.mark.parametrize(
    ("fault", "told", "same"),
    [
        (Fault("race", 7), finding(), True),
        (Fault("race"), finding(), True),
        (Fault("race", 9), finding(message="written here, and read at a.cu:9 by another"), True),
        (Fault("race", 9), finding(message="written here, and read at a.cu:99 by another"), False),
        (Fault("race", 9), finding(), False),
        (Fault("leak", 7), finding(), False),
        (Fault("race", 7), finding(severity="warning"), False),
        (Fault("race", 7, "warning"), finding(severity="warning"), True),
    ],
)
def test_a_fault_is_known_by_kind_severity_and_line(
    fault: Fault, told: Finding, same: bool
) -> None:
    assert fault.is_told_by(told) is same


def scored(base: bool | None = True, general: bool | None = True, *found: Finding) -> Score:
    """A score of saxpy, whose general needs base."""
    results = [
        scores.TestResult(name, name, passed, 0.0, 1.0, [], "told by the test")
        for name, passed in (("base", base), ("general", general))
    ]
    return Score(
        status="graded",
        score=0.0,
        max_score=2.0,
        message="",
        assignment=AssignmentInfo("saxpy", "", "1"),
        submission=SubmissionInfo("it", None, ["saxpy.cu"]),
        parts=[PartResult("saxpy", "", 0.0, 2.0, results)],
        findings=list(found),
        environment=Environment("", "cpu", "", "process", "public", "", 0.0),
    )


RIGHT = Expectation(folder=Path("odd/it"), why="", status="graded")
WRONG = msgspec.structs.replace(RIGHT, cpu_fails=("saxpy.base",))


@pytest.mark.parametrize(
    ("expect", "score"),
    [
        (RIGHT, scored()),
        (RIGHT, scored(True, True, finding(severity="warning"))),
        (WRONG, scored(False, None, finding())),
        (msgspec.structs.replace(WRONG, message="told by"), scored(False, None)),
        (msgspec.structs.replace(WRONG, kind="race"), scored(False, None, finding())),
        (
            msgspec.structs.replace(WRONG, findings=(Fault("race", 7),)),
            scored(False, None, finding()),
        ),
    ],
)
def test_a_score_as_expected(saxpy: Assignment, expect: Expectation, score: Score) -> None:
    assert disagreements(expect, score, saxpy) == []


@pytest.mark.parametrize(
    ("expect", "score", "said"),
    [
        (msgspec.structs.replace(RIGHT, status="rejected"), scored(), "the status is graded"),
        (RIGHT, scored(False, None), "saxpy.base failed, not nothing"),
        (WRONG, scored(), "nothing failed, not saxpy.base"),
        (RIGHT, scored(True, None), "saxpy.general was not run"),
        (RIGHT, scored(True, True, finding()), "an error in a part without a fault: saxpy: race"),
        (msgspec.structs.replace(WRONG, message="luck"), scored(False, None), "is like 'luck'"),
        (msgspec.structs.replace(WRONG, kind="leak"), scored(False, None), "of the kind leak"),
        (
            msgspec.structs.replace(WRONG, findings=(Fault("race", 8),)),
            scored(False, None, finding()),
            "no finding tells the error race at line 8",
        ),
        (
            msgspec.structs.replace(RIGHT, status="build_failed"),
            msgspec.structs.replace(scored(), status="build_failed"),
            "it is not graded, and has marks or parts",
        ),
    ],
)
def test_a_score_that_is_not_as_expected(
    saxpy: Assignment, expect: Expectation, score: Score, said: str
) -> None:
    assert said in disagreements(expect, score, saxpy)[0]
