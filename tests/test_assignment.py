"""Assignments load, broken ones say where and why."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import places
from grader.assignment import Assignment, detect, load, names
from grader.errors import AssignmentError, UsageError
from grader.manifest import Range

BROKEN = Path(__file__).parent / "assignments" / "broken"


@pytest.fixture
def tiny_ones_known(monkeypatch: pytest.MonkeyPatch, assignments: Path) -> None:
    """Makes the tiny assignments the only ones that have a name."""
    monkeypatch.setattr(places, "assignments", lambda: assignments)


# A good one --------------------------------------------------------------------------------------


def test_everything_is_read(tensor: Assignment, assignments: Path) -> None:
    assert tensor.id == "tensor"
    assert tensor.folder == assignments / "tensor"
    assert (tensor.title, tensor.version) == ("Tensors in CUDA", "2")
    assert list(tensor.dimensions) == ["batch", "rows", "cols"]
    assert [part.id for part in tensor.parts] == ["row_sums", "add_bias"]
    assert tensor.part("add_bias").arguments == ("shifted", "a", "bias", "batch", "rows", "cols")
    assert tensor.header_path == assignments / "tensor" / "tensor.h"
    assert tensor.test("base").dimensions["rows"] == Range(1, 40)


def test_only_tests_with_points_belong_to_a_part_in_order(tensor: Assignment) -> None:
    assert tensor.tests_of(tensor.part("row_sums")) == ["base", "speed"]
    assert tensor.tests_of(tensor.part("add_bias")) == ["base", "large"]


def test_shapes_follow_the_dimensions(tensor: Assignment) -> None:
    dims = {"batch": 2, "rows": 3, "cols": 5}
    assert tensor.shape("a", dims) == (2, 3, 5)
    assert tensor.shape("sums", dims) == (2, 3)
    assert tensor.shape("bias", dims) == (5,)


@pytest.mark.parametrize("name", ["saxpy", "tensor"])
def test_inputs_and_expected_outputs_have_their_shapes(assignments: Path, name: str) -> None:
    used = load(assignments / name)
    dims = dict(zip(used.dimensions, (2, 3, 5), strict=False))
    for part in used.parts:
        inputs = used.inputs(part, "normal", dims, 1.0, np.random.default_rng(1))
        assert {*inputs} == {*part.arguments} - {*part.outputs} - {*dims}
        for array, data in inputs.items():
            assert data.dtype == np.float32
            assert data.shape == used.shape(array, dims)
        expected = used.expected(part, dims, inputs, "plain")
        assert {*expected} == {*part.outputs}
        for array, wanted in expected.items():
            assert wanted.value.shape == wanted.scale.shape == used.shape(array, dims)
            assert (wanted.scale >= 0).all()
            assert wanted.terms >= 1


def test_the_reference_waits_until_it_is_needed(assignments: Path) -> None:
    used = load(assignments / "broken" / "reference_raises")
    with pytest.raises(AssignmentError, match="cannot be loaded"):
        _ = used.reference


# Names -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tiny_ones_known")
def test_an_assignment_is_found_by_name() -> None:
    assert names() == ["saxpy", "tensor"]
    assert load("tensor").id == "tensor"


@pytest.mark.usefixtures("tiny_ones_known")
def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"'saxpi' \(did you mean 'saxpy'\?\); known: saxpy, ten"):
        load("saxpi")


def test_a_folder_without_assignment_toml(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not an assignment: it has no assignment\.toml"):
        load(tmp_path)


@pytest.mark.parametrize("given_path", ["saxpy", "saxpy/"])
def test_a_folder_may_be_named_by_text(assignments: Path, given_path: str) -> None:
    assert load(f"{assignments}/{given_path}").id == "saxpy"


@pytest.mark.parametrize(
    ("method", "wrong", "said"),
    [
        ("part", "row_sum", r"no part 'row_sum' \(did you mean 'row_sums'\?\); its parts are row_"),
        ("test", "bass", r"no test 'bass' \(did you mean 'base'\?\); its tests are base, large"),
    ],
)
def test_unknown_parts_and_tests(tensor: Assignment, method: str, wrong: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        getattr(tensor, method)(wrong)


@pytest.mark.usefixtures("tiny_ones_known")
def test_the_assignment_is_told_from_the_files(tmp_path: Path, submissions: Path) -> None:
    assert detect(submissions / "saxpy" / "right") == "saxpy"
    assert detect(submissions / "tensor" / "right") == "tensor"
    with pytest.raises(UsageError, match="name it with --assignment, one of saxpy, tensor"):
        detect(tmp_path)
    (tmp_path / "saxpy.cu").touch()
    (tmp_path / "tensor.cu").touch()
    with pytest.raises(UsageError, match="cannot tell"):
        detect(tmp_path)


def test_a_single_assignment_needs_no_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "assignment.toml").touch()
    monkeypatch.setattr(places, "assignments", lambda: tmp_path)
    assert detect(tmp_path) == "only"


# Ranges ------------------------------------------------------------------------------------------

ranges = st.builds(
    lambda low, count, step: Range(low, low + count * step, step),
    st.integers(1, 50),
    st.integers(0, 20),
    st.integers(1, 9),
)


@given(ranges, st.integers(-5, 300))
def test_floor_is_the_largest_legal_value_below(span: Range, value: int) -> None:
    legal = range(span.min, span.max + 1, span.step)
    assert span.floor(value) == max((size for size in legal if size <= value), default=span.min)
    assert (value in span) == (value in legal)


def test_a_range_whose_end_is_off_the_steps() -> None:
    assert Range(4, 10, 4).floor(99) == 8
    assert 10 not in Range(4, 10, 4)


# Broken ones -------------------------------------------------------------------------------------

# folder of assignments/broken -> (file and line, what the sentence says)
SENTENCES = {
    "bad_toml": ("assignment.toml", "is not valid TOML: .*line 2"),
    "not_utf8": ("assignment.toml", "is not UTF-8 text"),
    "unknown_key": ("assignment.toml:19", r"unknown key 'familys' .*did you mean 'families'"),
    "missing_key": ("assignment.toml", r"the key 'launcher' is missing in parts\[0\]"),
    "wrong_type": ("assignment.toml:20", "draws: Expected `int`, got `str`"),
    "no_parts": ("assignment.toml", r"needs at least one \[\[parts\]\]"),
    "source_in_a_folder": ("assignment.toml:3", "source must be a plain file name"),
    "part_no_identifier": ("assignment.toml:10", "part id 'double-it' must be a Python identifier"),
    "two_parts_of_one_id": ("assignment.toml:10", "two parts are called 'double'"),
    "unknown_output": ("assignment.toml:14", r"output 'oud' is not .*did you mean 'out'"),
    "unknown_argument": ("assignment.toml", r"argument 'nn', .*did you mean 'n'"),
    "unknown_test_in_points": ("assignment.toml:15", r"unknown test 'bass' .*did you mean 'base'"),
    "fraction_of_a_tenth": ("assignment.toml:15", "2.25 points are not tenths of a point"),
    "negative_points": ("assignment.toml:15", "-2.0 points are not tenths of a point >= 0"),
    "unknown_kind": ("assignment.toml:19", "kind must be 'correctness' or 'speed'"),
    "needs_later_test": ("assignment.toml:19", r"needs 'more', which is no earlier test$"),
    "no_families": ("assignment.toml:17", "test base names no input families"),
    "could_never_fail": ("assignment.toml:17", "neither pinned cases nor draws: it could never"),
    "missing_range": ("assignment.toml:17", "does not say the range of the dimension 'n'"),
    "empty_range": ("assignment.toml:17", "the range of n is empty"),
    "unknown_dimension": ("assignment.toml:21", r"dimension 'lenght' .*did you mean 'length'"),
    "unknown_family": ("assignment.toml", r"family 'normel' .*did you mean 'normal'"),
    "pinned_unknown_key": ("assignment.toml:20", r"unknown key 'famly' .*did you mean 'family'"),
    "pinned_lacks_dimension": ("assignment.toml:17", r"the pinned case .* lacks n"),
    "pinned_unlisted_family": ("assignment.toml:20", r"'normale', .*did you mean 'normal'"),
    "pinned_size_of_zero": ("assignment.toml:17", "pinned case .* n"),
    "pinned_scale_no_number": ("assignment.toml:20", "scale .*'big'"),
    "pinned_unknown_part": ("assignment.toml:20", r"part 'duoble' .*did you mean 'double'"),
    "never_fails_for_a_part": ("assignment.toml:25", "triple.*could never fail"),
    "large_size_of_zero": ("assignment.toml:17", r"the shape .* has a size below 1"),
    "shape_of_another_dimension": ("assignment.toml:23", r"the shape {'m': 1000} must give a size"),
    "shapes_without_family": ("assignment.toml:23", "times shapes: name one input family for them"),
    "marks_without_shapes": ("assignment.toml:23", "gives marks but names no shapes to time"),
    "marks_unknown_backend": ("assignment.toml:29", r"backend 'cudo' \(did you mean 'cuda'\?\)"),
    "marks_lack_part": ("assignment.toml:29", "test speed: marks.cuda lacks the part double"),
    "marks_unknown_part": ("assignment.toml:31", r"marks.cuda names 'doubel', .*mean 'double'"),
    "marks_upside_down": ("assignment.toml:29", "marks.cuda.double must have 0 <= zero < full"),
    "marks_beyond_the_ceiling": ("assignment.toml:29", "0 <= zero < full <= 1"),
    "speed_with_cases": ("assignment.toml:23", "is a speed test: it times shapes and checks no"),
    "cases_with_marks": ("assignment.toml:23", "test speed is no speed test: it has neither"),
    "batch_unknown_dimension": ("reference.py", r"BATCH is the unknown dimension 'nn' .*mean 'n'"),
    "factors_unknown_part": ("reference.py", r"the unknown part 'duoble' .*did you mean 'double'"),
    "factors_unknown_array": ("reference.py", "FACTORS of double name 'y', which is no array"),
    "factors_no_array": ("reference.py", "FACTORS of double name 'n', which is no array"),
    "factors_unknown_along": ("reference.py", "FACTORS of double: out has no dimension 'm'"),
    "factors_huge": ("reference.py", "have the exponent 31, which is not between 0 and 30"),
    "factors_negative": ("reference.py", "have the exponent -1, which is not between 0 and 30"),
    "factors_too_many": ("reference.py", "FACTORS of double multiply out more than 4 times"),
    "linear_unknown_part": ("reference.py", r"LINEAR has the unknown part 'duoble' .*'double'"),
    "linear_no_input": ("reference.py", "LINEAR of double is 'out', which is no input of that"),
    "linear_no_sum": ("reference.py", "LINEAR of double: not all outputs .* are sums over BATCH"),
    "no_reference": ("no_reference", "has no reference.py: an assignment needs one"),
    "no_header": ("no_header", "has no double.h: an assignment needs one"),
    "no_binding": ("no_binding", "has no binding.cpp: an assignment needs one"),
    "reference_raises": ("reference.py", "cannot be loaded: ZeroDivisionError: division by zero"),
    "reference_lacks_part": ("reference.py", "does not define double"),
    "reference_lacks_families": ("reference.py", "does not define FAMILIES"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_broken_assignment_says_where_and_why(name: str) -> None:
    where, why = SENTENCES[name]
    with pytest.raises(AssignmentError) as caught:
        _ = load(BROKEN / name).reference
    sentence = str(caught.value)
    path = BROKEN / where if where == name else BROKEN / name / where
    assert sentence.startswith((f"{path}:", f"{path} ")), sentence
    assert "\n" not in sentence
    caught.match(why)


@pytest.mark.parametrize("name", ["saxpy.h", "binding.cpp"])
def test_a_launcher_that_the_author_forgot(assignments: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(assignments / "saxpy", tmp_path / "saxpy")
    text = (folder / name).read_text()
    (folder / name).write_text(text.replace("launch_saxpy", "launch_saxpi"))
    with pytest.raises(AssignmentError, match=f"{name} has no launch_saxpy, the launcher of part"):
        load(folder)


def test_a_folder_that_cmake_could_not_name(assignments: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(assignments / "saxpy", tmp_path / "my saxpy")
    with pytest.raises(AssignmentError, match="my saxpy is no usable name of an assignment"):
        load(folder)


def test_a_folder_here_needs_no_slash(
    assignments: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(assignments / "saxpy", tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert load("mine").folder == tmp_path / "mine"


def test_every_broken_folder_is_tried() -> None:
    assert {path.name for path in BROKEN.iterdir()} == {*SENTENCES}
