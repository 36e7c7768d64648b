"""From a folder to a score: every test submission gets exactly the verdict that it should."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import numpy as np
import pytest

import grader
from grader import build, checks, grading, job, sandbox, submission, toolkit
from grader.assignment import Assignment
from grader.build import Module
from grader.cases import parse_token
from grader.errors import AssignmentError, BuildFailed, InfrastructureError, Rejected, UsageError
from grader.sandbox import Sandbox
from grader.score import Score, encode, schema
from grader.session import Session
from grader.target import Target
from tests.fake_gpu import FakeGpu

SUBMISSIONS = Path(__file__).parent / "submissions"
OURS = [
    f"{assignment}/{folder.name}"
    for assignment in ("saxpy", "tensor")
    for folder in sorted((SUBMISSIONS / assignment).iterdir())
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not end is counted out soon."""
    monkeypatch.setattr(job, "Session", functools.partial(Session, call_seconds=20.0))
    monkeypatch.setattr(checks, "STEPS", 1_000_000)
    monkeypatch.setattr(checks, "STEPS_PER_ELEMENT", 1_000)


@pytest.fixture
def grade(saxpy_native: Assignment, request: pytest.FixtureRequest) -> Callable[..., Score]:
    """Grades one of the test submissions (`assignment/name`) or a folder for saxpy."""

    def run(which: str | Path, **options: Any) -> Score:
        if isinstance(which, Path):
            return grading.grade(which, assignment=saxpy_native, **options)
        name = which.partition("/")[0]
        used: Assignment = request.getfixturevalue(f"{name}_native")
        return grading.grade(SUBMISSIONS / which, assignment=used, **options)

    return run


Grade = Callable[..., Score]


def verdicts(score: Score) -> dict[str, bool | None]:
    return {f"{part.id}.{test.id}": test.passed for part, test in score.tests()}


def without_times(score: Score) -> bytes:
    timeless = msgspec.structs.replace(score.environment, started_at="", duration_seconds=0.0)
    return encode(msgspec.structs.replace(score, environment=timeless))


# Test submissions --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OURS)
def test_every_submission_gets_its_verdict(grade: Grade, name: str) -> None:
    expected = tomllib.loads((SUBMISSIONS / name / "expect.toml").read_text())
    score = grade(name)
    used = grading.resolve(
        SUBMISSIONS / name, Path(__file__).parent / "assignments" / name.split("/")[0]
    )

    assert score.status == expected["status"]
    messages = [score.message, *(test.message for _, test in score.tests() if test.passed is False)]
    if score.status == "graded":
        wanted: dict[str, bool | None] = {}
        for part in used.parts:
            for test in used.tests_of(part):
                full = f"{part.id}.{test}"
                needs = used.test(test).needs
                if used.test(test).kind == "speed" or any(
                    wanted.get(f"{part.id}.{need}", True) is not True for need in needs
                ):
                    wanted[full] = None
                else:
                    wanted[full] = full not in expected["fails"]
        assert verdicts(score) == wanted, messages
    else:
        assert score.parts == []
    if "message" in expected:
        assert [text for text in messages if re.search(expected["message"], text)], messages
    kinds = {finding.kind for finding in score.findings if finding.severity == "error"}
    assert kinds == ({expected["kind"]} if "kind" in expected else set())

    assert score.max_score == 10.0 if used.id == "saxpy" else 6.0
    earned = sum(test.max_score for _, test in score.tests() if test.passed)
    assert score.score == pytest.approx(earned, abs=1e-9)
    assert score.score == round(earned, 1)
    for result in score.parts:
        assert result.score == round(sum(test.score for test in result.tests), 1)
    jsonschema.Draft202012Validator(schema()).validate(json.loads(encode(score)))


@pytest.mark.parametrize("name", ["saxpy/right", "saxpy/racy", "saxpy/writes_out_of_bounds"])
def test_grading_twice_gives_the_same_bytes(grade: Grade, name: str) -> None:
    assert without_times(grade(name)) == without_times(grade(name))


def test_a_weaker_sandbox_gives_the_same_verdict(
    grade: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = grade("saxpy/wrong_tail")
    monkeypatch.setattr(sandbox, "choose", lambda: Sandbox("process"))
    other = grade("saxpy/wrong_tail")
    assert other.environment.sandbox == "process"
    assert other.environment.sandbox_lacks == sandbox.lacks(Sandbox("process")) != []
    assert other.parts == one.parts
    assert other.findings == one.findings


# What a score says -------------------------------------------------------------------------------


def test_a_score_names_what_was_graded_and_how(grade: Grade) -> None:
    score = grade("saxpy/two_files")
    assert (score.assignment.id, score.assignment.version) == ("saxpy", "1")
    assert score.submission.id == "two_files"
    assert score.submission.files == ["parts/run.cu", "parts/run.cuh", "saxpy.cu"]
    assert re.fullmatch(r"[0-9a-f]{64}", score.submission.sha256 or "")
    assert score.environment.backend == "cpu"
    assert score.environment.seed == "public"
    assert score.environment.sandbox == sandbox.choose().kind
    assert score.environment.duration_seconds >= 0
    assert not score.needs_review


def test_parts_can_be_chosen(grade: Grade) -> None:
    score = grade("tensor/one_launcher", parts=["row_sums"])
    assert [part.id for part in score.parts] == ["row_sums"]
    assert (score.score, score.max_score) == (3.0, 3.5)


def test_a_part_named_twice_is_graded_once(grade: Grade) -> None:
    score = grade("tensor/one_launcher", parts=["row_sums", "row_sums"])
    assert [part.id for part in score.parts] == ["row_sums"]
    assert score.max_score == 3.5


def test_speed_is_not_scored_and_says_so(grade: Grade) -> None:
    (speed,) = [test for _, test in grade("tensor/right").tests() if test.id == "speed"]
    assert (speed.passed, speed.score, speed.max_score) == (None, 0.0, 0.5)
    assert speed.message.startswith("not scored: ")


def test_a_test_whose_needs_failed_says_so(grade: Grade) -> None:
    general = grade("saxpy/wrong_offset").parts[0].tests[1]
    assert general.passed is None
    assert general.message == "not run: it needs base to pass"


def test_a_secret_master_changes_the_cases_and_stays_secret(grade: Grade) -> None:
    master = b"correct horse battery staple"
    public, secret = grade("saxpy/wrong_tail"), grade("saxpy/wrong_tail", master=master)
    assert secret.environment.seed == "secret"
    assert verdicts(public) == verdicts(secret)
    seeds = [
        {case.seed for _, test in score.tests() for case in test.cases}
        for score in (public, secret)
    ]
    assert seeds[0].isdisjoint(seeds[1])
    assert master not in encode(secret)
    assert master.hex().encode() not in encode(secret)


def test_progress_is_told(grade: Grade) -> None:
    told: list[str] = []
    grade("saxpy/right", progress=told.append)
    assert told[0] == "Compiling"
    assert "Saxpy, general: case 2" in told


# On a GPU ----------------------------------------------------------------------------------------


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """Makes this a machine with a GPU on which every submission is as right as `saxpy/right`; only
    what the emulator says about it is its own."""
    found = FakeGpu()
    found.unshareable = "it is made of numpy"

    def build_for_gpu(_: object, used: Assignment, *__: object) -> Module:
        right = submission.read(SUBMISSIONS / used.id / "right", used)
        return build.build(right, used)

    monkeypatch.setattr(grading, "choose_target", lambda _: Target("cuda", "Fake GPU", found))
    monkeypatch.setattr(job, "build_for", build_for_gpu)
    return found


on_gpu = pytest.mark.usefixtures("gpu")


@on_gpu
def test_a_gpu_decides_and_the_emulator_agrees(grade: Grade) -> None:
    told: list[str] = []
    score = grade("saxpy/right", progress=told.append)
    assert (score.score, score.environment.backend) == (10.0, "cuda")
    assert (score.findings, score.environment.notes) == ([], [])
    assert "Compiling for the emulator's checkers" in told
    assert "Saxpy, base: case 2 on the emulator" in told


@on_gpu
def test_large_shapes_that_do_not_fit_are_named(grade: Grade) -> None:
    (_, general) = grade("saxpy/right").parts[0].tests
    assert general.passed is True
    assert general.message.startswith("not run: n=16777217, normal data (1 GB of GPU memory")


@on_gpu
def test_a_race_that_a_gpu_hides_is_seen_by_the_emulator(grade: Grade) -> None:
    score = grade("saxpy/racy")
    assert verdicts(score) == {"saxpy.base": False, "saxpy.general": None}
    assert score.score == 0
    assert "saxpy.cu:10: race on shared memory `tile`" in score.parts[0].tests[0].message


@on_gpu
def test_a_fault_that_a_gpu_forgives_is_a_finding(
    grade: Grade, saxpy_folder: Callable[..., Path]
) -> None:
    text = (
        "__global__ void harm(float* out) { __shared__ float s[1]; out[0] = s[0] + *((float*)8); }"
    )
    score = grade(saxpy_folder("    harm<<<1, 1, 0, stream>>>(out);", text))
    assert verdicts(score)["saxpy.base"] is False
    kinds = [finding.kind for finding in score.findings]
    assert sorted(kinds) == ["illegal_address", "uninitialised_shared"]


@on_gpu
def test_numbers_that_only_a_gpu_gets_right_are_wrong(grade: Grade) -> None:
    score = grade("saxpy/wrong_offset")
    assert verdicts(score) == {"saxpy.base": False, "saxpy.general": None}
    assert checks.RIGHT_BY_LUCK in score.parts[0].tests[0].message


@on_gpu
@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("does_not_compile", r"the emulator cannot run this file \(saxpy\.cu:4"),
        ("undefined_helper", r"the emulator cannot load this file: blocks_for\(int\) is used"),
        ("load_crash", "the emulator cannot load this file: while the module was loaded, it"),
        ("spins", r"the emulator cannot run launch_saxpy in (base|general): saxpy\.cu:10: "),
    ],
)
def test_what_the_emulator_cannot_run_is_a_note_and_no_failure(
    grade: Grade, name: str, note: str
) -> None:
    score = grade(f"saxpy/{name}")
    assert (score.status, score.score, score.findings) == ("graded", 10.0, [])
    assert score.environment.notes
    for said in score.environment.notes:
        assert re.match(f"findings not checked: {note}", said), said


@on_gpu
def test_inline_assembly_is_for_gpus_alone(grade: Grade, saxpy_folder: Callable[..., Path]) -> None:
    text = '__global__ void ptx(int* x) { asm volatile("mov.u32 %0, %laneid;" : "=r"(*x)); }'
    score = grade(saxpy_folder("", text))
    assert score.score == 10.0
    assert len(score.environment.notes) == 1


def test_speed_is_not_measured_where_memory_cannot_be_shared(grade: Grade, gpu: FakeGpu) -> None:
    (row_sums, _) = grade("tensor/right").parts
    assert row_sums.timing is None
    assert row_sums.tests[1].message == f"not measured: {gpu.unshareable}"
    assert (row_sums.tests[1].passed, row_sums.score) == (None, 3.0)


@on_gpu
def test_speed_without_marks_is_not_measured(tensor_native: Assignment, grade: Grade) -> None:
    speed = msgspec.structs.replace(tensor_native.test("speed"), marks={})
    used = dataclasses.replace(tensor_native, tests={**tensor_native.tests, "speed": speed})
    score = grading.grade(SUBMISSIONS / "tensor" / "right", assignment=used)
    assert score.parts[0].tests[1].message == job.NO_MARKS


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_speed_can_be_left_out(grade: Grade, request: pytest.FixtureRequest, backend: str) -> None:
    if backend == "cuda":
        request.getfixturevalue("gpu")
    (row_sums, _) = grade("tensor/right", timed=False).parts
    assert row_sums.tests[1].message == "not scored: speed was left out on request"
    assert (row_sums.tests[1].passed, row_sums.tests[1].score) == (None, 0.0)
    assert row_sums.timing is None


# A failure can be repeated -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["wrong_tail", "wrong_offset", "writes_input", "exits"])
def test_the_repro_line_shows_the_failure_again(
    grade: Grade, saxpy_native: Assignment, name: str
) -> None:
    (failure,) = [
        test.failure for _, test in grade(f"saxpy/{name}").tests() if test.failure is not None
    ]
    token = failure.repro.removeprefix("grader repro ")
    part, test, case = parse_token(token, saxpy_native)
    problem, _ = grading.repro(SUBMISSIONS / "saxpy" / name, part, test, case, saxpy_native)
    assert problem is not None
    assert problem.dims == failure.dims
    if failure.actual is not None:
        assert problem.mismatch is not None
        assert problem.mismatch.actual == failure.actual


def test_a_case_for_a_gpu_is_no_fault_of_the_submission(
    saxpy_native: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "saxpy.general:n=16777217,family=normal,scale=1.0,seed=5"
    part, test, case = parse_token(token, saxpy_native)
    right = SUBMISSIONS / "saxpy" / "right"
    monkeypatch.setattr(grading, "MAX_ELEMENTS", 1 << 20)
    with pytest.raises(InfrastructureError, match="too large for the emulator: it needs a GPU"):
        grading.repro(right, part, test, case, saxpy_native, "cpu")


@on_gpu
def test_a_case_that_is_too_large_for_this_gpu(saxpy_native: Assignment) -> None:
    token = "saxpy.general:n=16777217,family=normal,scale=1.0,seed=5"
    part, test, case = parse_token(token, saxpy_native)
    with pytest.raises(InfrastructureError, match="the GPU is too small for this case: 1 GB of"):
        grading.repro(SUBMISSIONS / "saxpy" / "right", part, test, case, saxpy_native)


def test_repro_shows_what_was_printed(
    saxpy_native: Assignment, saxpy_folder: Callable[..., Path]
) -> None:
    folder = saxpy_folder('    printf("n is %d\\n", n);', "#include <cstdio>")
    part, test, case = parse_token("saxpy.base:n=4,family=normal,scale=1.0,seed=5", saxpy_native)
    problem, log = grading.repro(folder, part, test, case, saxpy_native)
    assert problem is None
    assert "n is 4" in log


# Not gradable ------------------------------------------------------------------------------------


def test_an_unusable_submission_scores_nothing(grade: Grade, tmp_path: Path) -> None:
    score = grade(tmp_path)
    assert (score.status, score.score, score.max_score, score.parts) == ("rejected", 0.0, 10.0, [])
    assert score.message == "there is no saxpy.cu in the folder"
    assert score.submission.sha256 is None


def test_trouble_of_this_machine_carries_no_score(
    grade: Grade, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Module:
        raise InfrastructureError("the disk is full")

    monkeypatch.setattr(build, "build", broken)
    score = grade("saxpy/right")
    assert (score.status, score.score) == ("infrastructure_error", None)
    assert (score.parts, score.message) == ([], "the disk is full")


def test_a_starter_is_told_that_it_is_not_finished(
    grade: Grade, saxpy_folder: Callable[..., Path]
) -> None:
    folder = saxpy_folder("    // YOUR CODE HERE\n    return;")
    score = grade(folder)
    assert score.score == 0
    assert "YOUR CODE HERE" in score.message
    assert "saxpy.cu:" in score.message


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"backend": "cudo"}, UsageError, "unknown backend 'cudo': known are auto, cpu, cuda"),
        ({"parts": ["saxpi"]}, UsageError, r"no part 'saxpi' \(did you mean 'saxpy'"),
    ],
)
def test_a_wrong_call_raises(
    grade: Grade, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        grade("saxpy/right", **options)


def test_a_broken_assignment_raises_before_any_work(assignments: Path) -> None:
    with pytest.raises(AssignmentError, match="cannot be loaded"):
        grading.grade(
            SUBMISSIONS / "saxpy" / "right", assignment=assignments / "broken" / "reference_raises"
        )


def test_no_such_folder_raises(assignments: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        grading.grade(tmp_path / "nowhere", assignment=assignments / "saxpy")


# In Python ---------------------------------------------------------------------------------------


def test_a_submission_can_be_used_from_python(saxpy_native: Assignment, box: Sandbox) -> None:
    module = grader.load(SUBMISSIONS / "saxpy" / "right", assignment=saxpy_native.folder)
    x, y = np.arange(10, dtype=np.float32), np.ones(10, np.float32)
    out = np.zeros(10, np.float32)
    module.launch_saxpy(out, x, y, 10)
    np.testing.assert_array_equal(out, 2.5 * x + 1)
    with pytest.raises(TypeError, match="float"):
        module.launch_saxpy(out.astype(np.float64), x, y, 10)
    with pytest.raises(TypeError, match="4 arguments"):
        module.launch_saxpy(out, x, y)
    with pytest.raises(TypeError, match="contiguous"):
        module.launch_saxpy(out, x[::2], y, 5)


@pytest.mark.parametrize(
    ("launch", "sentence"),
    [
        ("saxpy<<<1, 2048, 0, stream>>>(out, x, y, n);", "2048"),
        ("saxpy<<<1, 32, 0, stream>>>(nullptr, x, y, n);", "null pointer"),
    ],
)
def test_a_loaded_module_raises_when_a_launch_fails(
    saxpy_native: Assignment, saxpy_folder: Callable[..., Path], launch: str, sentence: str
) -> None:
    folder = saxpy_folder(body=f"    {launch}\n    return;")
    module = grader.load(folder, assignment=saxpy_native.folder)
    x = np.ones(4, np.float32)
    with pytest.raises(RuntimeError, match=sentence):
        module.launch_saxpy(np.empty_like(x), x, x, 4)


@pytest.mark.parametrize(
    ("name", "error"), [("does_not_compile", BuildFailed), ("no_source", Rejected)]
)
def test_loading_raises_what_is_wrong(
    saxpy_native: Assignment, tmp_path: Path, name: str, error: type[Exception]
) -> None:
    folder = SUBMISSIONS / "saxpy" / name
    if name == "no_source":
        folder = tmp_path
    with pytest.raises(error):
        grader.load(folder, assignment=saxpy_native.folder)


def test_grading_leaves_the_submission_alone(grade: Grade, tmp_path: Path) -> None:
    folder = tmp_path / "two_files"
    shutil.copytree(SUBMISSIONS / "saxpy" / "two_files", folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    grade(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_nvcc_is_asked_on_request(
    saxpy_native: Assignment, saxpy_folder: Callable[..., Path]
) -> None:
    right = grading.grade(saxpy_folder(""), assignment=saxpy_native, backend="cpu", nvcc=True)
    assert right.status == "graded", right.message
    assert any(re.match(r"nvcc: \w+: \d+ registers", note) for note in right.environment.notes)
    text = "#ifndef __CUDA_EMULATOR__\n#error of nvcc alone\n#endif\n"
    folder = saxpy_folder("", text, "refused")
    refused = grading.grade(folder, assignment=saxpy_native, backend="cpu", nvcc=True)
    assert refused.status == "build_failed"
    assert refused.message.startswith("nvcc refuses: saxpy.cu:")


def test_without_nvcc_the_request_is_for_another_machine(
    saxpy_native: Assignment, saxpy_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing() -> None:
        raise InfrastructureError("nvcc is missing")

    monkeypatch.setattr(toolkit, "find", nothing)
    score = grading.grade(saxpy_folder(""), assignment=saxpy_native, backend="cpu", nvcc=True)
    assert (score.status, score.message) == ("infrastructure_error", "nvcc is missing")
