"""The starter is the solution without its answers; the handout holds no solution."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import author, places
from grader.errors import UsageError

SOLUTION = """\
__global__ void kernel(int n) {
    int before = 0;
    // BEGIN SOLUTION
    // STEP 1: load the element,
    //   and keep it in a register.
    int secret = 1;
    // a comment that gives it away
    if (secret) {
        // STEP 2: store it.
        before = secret;  // STEP of nothing
    }
    // END SOLUTION
    int after = 0;
}
"""
STARTER = """\
__global__ void kernel(int n) {
    int before = 0;
    // STEP 1: load the element,
    //   and keep it in a register.
        // STEP 2: store it.
    // YOUR CODE HERE
    int after = 0;
}
"""


def test_hints_stay_and_answers_go() -> None:
    assert author.strip_text(SOLUTION, "x.cu") == STARTER


def test_a_block_without_hints_vanishes() -> None:
    text = "a\n// BEGIN SOLUTION\nb\n// END SOLUTION\nc\n  // BEGIN SOLUTION\n  // END SOLUTION\n"
    assert author.strip_text(text, "x.cu") == "a\nc\n"


def test_the_place_is_indented_like_its_block() -> None:
    text = "  // BEGIN SOLUTION\n  // STEP 1\n      x();\n    // END SOLUTION\n"
    assert author.strip_text(text, "x.cu") == "  // STEP 1\n  // YOUR CODE HERE\n"


def test_a_hint_does_not_reach_into_the_next_block() -> None:
    text = (
        "// BEGIN SOLUTION\n// STEP 1\n// END SOLUTION\n"
        "// BEGIN SOLUTION\n//   no hint\nx();\n// END SOLUTION\n"
    )
    assert author.strip_text(text, "x.cu") == "// STEP 1\n// YOUR CODE HERE\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n// BEGIN SOLUTION\nb\n", r"^x\.cu:2: BEGIN SOLUTION without END SOLUTION$"),
        ("a\n\n// END SOLUTION\n", r"^x\.cu:3: END SOLUTION without BEGIN SOLUTION$"),
        (
            "// BEGIN SOLUTION\n// BEGIN SOLUTION\n// END SOLUTION\n",
            r"^x\.cu:2: BEGIN SOLUTION within the block of line 1$",
        ),
    ],
)
def test_markers_that_do_not_pair(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        author.strip_text(text, "x.cu")


lines = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=20).filter(
    lambda line: "SOLUTION" not in line and "YOUR CODE" not in line
)
answers = lines.map(lambda line: f"    answer({line})")


@given(st.lists(st.one_of(lines, st.lists(answers))))
def test_all_but_the_answers_stays(pieces: list[str | list[str]]) -> None:
    solution, kept = [], []
    for piece in pieces:
        if isinstance(piece, str):
            solution.append(piece)
            kept.append(piece)
        else:
            solution += ["// BEGIN SOLUTION", "// STEP", *piece, "// END SOLUTION"]
            kept += ["// STEP", "// YOUR CODE HERE"]
    text = "".join(f"{line}\n" for line in solution)
    stripped = author.strip_text(text, "x.cu")
    assert stripped == "".join(f"{line}\n" for line in kept)
    assert author.strip_text(stripped, "x.cu") == stripped


# Folders -----------------------------------------------------------------------------------------


@pytest.fixture
def solution(tmp_path: Path) -> Path:
    folder = tmp_path / "solution"
    (folder / "parts").mkdir(parents=True)
    (folder / "x.cu").write_text(SOLUTION)
    (folder / "parts" / "y.cuh").write_text("// plain\n")
    (folder / "notes.txt").write_text("the answer is 42\n")
    return folder


def test_the_starter_holds_every_source_file(solution: Path, tmp_path: Path) -> None:
    starter = tmp_path / "starter"
    written = author.strip(solution, starter)
    assert {path.relative_to(starter).as_posix() for path in written} == {"x.cu", "parts/y.cuh"}
    assert {path for path in starter.rglob("*") if path.is_file()} == {*written}
    assert (starter / "x.cu").read_text() == STARTER
    assert author.out_of_step(solution, starter) == []


def test_a_starter_out_of_step_is_noticed(solution: Path, tmp_path: Path) -> None:
    starter = tmp_path / "starter"
    assert sorted(author.out_of_step(solution, starter)) == ["parts/y.cuh", "x.cu"]
    author.strip(solution, starter)
    (starter / "x.cu").write_text(SOLUTION)
    assert author.out_of_step(solution, starter) == ["x.cu"]


def test_a_solution_is_never_overwritten(solution: Path) -> None:
    with pytest.raises(UsageError, match="would overwrite the solution"):
        author.strip(solution, solution / "parts" / "..")
    assert (solution / "x.cu").read_text() == SOLUTION


def test_nothing_is_written_when_a_marker_is_wrong(solution: Path, tmp_path: Path) -> None:
    (solution / "z.cu").write_text("// BEGIN SOLUTION\n")
    with pytest.raises(UsageError, match=r"z\.cu:1:"):
        author.strip(solution, tmp_path / "starter")
    assert not (tmp_path / "starter").exists()


def test_a_solution_without_markers_is_no_starter(solution: Path, tmp_path: Path) -> None:
    (solution / "x.cu").write_text("int everything;\n")
    with pytest.raises(UsageError, match=r"nothing in .* is marked with BEGIN SOLUTION"):
        author.strip(solution, tmp_path / "starter")


def test_no_such_solution(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        author.strip(tmp_path / "nowhere", tmp_path / "starter")


# Handout -----------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assignments: Path) -> Path:
    """A small repository with the saxpy assignment, a starter, a solution and secrets."""
    repository = tmp_path / "repository"
    for name in (
        "CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md", "seed.txt",
        "grader/cli.py", "grader/native/binding.h", "grader/__pycache__/cli.pyc",
        "starter/saxpy/saxpy.cu", "solution/saxpy/saxpy.cu", "tests/submissions/saxpy/x/saxpy.cu",
    ):  # fmt: skip
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    (repository / "assignment" / "saxpy").mkdir(parents=True)
    for path in (assignments / "saxpy").iterdir():
        if path.is_file():
            (repository / "assignment" / "saxpy" / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(places, "checkout", lambda: repository)
    return repository


def test_a_handout_holds_what_students_need_and_no_answers(checkout: Path, tmp_path: Path) -> None:
    path = author.handout("saxpy", tmp_path / "out.zip")
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        starter = archive.read("saxpy-handout/saxpy/saxpy.cu")
        start = archive.read("saxpy-handout/START.md").decode()
    assert starter == b"starter/saxpy/saxpy.cu\n"
    assert "pip install ./kernel-grader\n    cd saxpy\n    grader check\n" in start
    package = "saxpy-handout/kernel-grader"
    assert {
        "saxpy-handout/README.md",
        f"{package}/pyproject.toml",
        f"{package}/grader/native/binding.h",
        f"{package}/assignment/saxpy/reference.py",
    } <= names
    for secret in ("solution", "tests", "seed", "__pycache__"):
        assert not [name for name in names if secret in name]


def test_the_same_handout_is_the_same_file(checkout: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.zip", tmp_path / "other.zip"
    author.handout("saxpy", one)
    for path in checkout.rglob("*"):
        path.touch()
    author.handout("saxpy", other)
    assert one.read_bytes() == other.read_bytes()


def test_a_handout_needs_a_starter(checkout: Path, tmp_path: Path) -> None:
    (checkout / "starter" / "saxpy").rename(checkout / "gone")
    with pytest.raises(UsageError, match=r"there is no starter .*grader author strip"):
        author.handout("saxpy", tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()


@pytest.mark.usefixtures("checkout")
def test_a_handout_needs_a_folder_to_go_to(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        author.handout("saxpy", tmp_path / "no" / "out.zip")


def test_a_wheel_makes_no_handout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "checkout", lambda: None)
    with pytest.raises(UsageError, match="in a checkout of the repository"):
        author.handout("saxpy", tmp_path / "out.zip")
