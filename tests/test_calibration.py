"""The measurements for the model of speed, as far as no GPU is needed: every step, with programs
that stand in for NVIDIA's (what is read from their output: test_calibration_reports.py)."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from grader import build, stopwatch
from grader.assignment import Assignment
from grader.errors import BuildFailed
from grader.session import Fault
from grader.submission import Submission
from grader.usage import Usage
from tests.calibration import counters, kernels, measure, run_once, sanitizer
from tests.calibration import times as calibration_times
from tests.calibration.times import Times
from tests.expectations import SUBMISSIONS
from tests.fake_gpu import FakeGpu, FakeSession, reference, steady
from tests.gpu.timings import folder_of

Row = dict[str, Any]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine makes no difference."""
    monkeypatch.setattr(calibration_times, "SHAPE_SECONDS", 600.0)
    monkeypatch.setattr(calibration_times, "PART_SECONDS", 600.0)


# The table ---------------------------------------------------------------------------------------


def test_every_part_has_a_dozen_kernels_and_more() -> None:
    for part in kernels.assignment().parts:
        assert sum(part.id in parts for parts in kernels.KERNELS.values()) >= 12, part.id
        assert sum(part.id in parts for parts in kernels.COUNTED.values()) >= 6, part.id


def test_what_is_counted_is_timed_too() -> None:
    for name, parts in kernels.COUNTED.items():
        assert set(parts) <= set(kernels.KERNELS[name]), name


def test_the_kernels_of_the_table_are_there() -> None:
    known = {part.id for part in kernels.assignment().parts}
    for name, parts in kernels.KERNELS.items():
        assert (folder_of(name) / "layernorm.cu").is_file(), name
        assert set(parts) <= known, name


def test_six_shapes_are_timed_and_all_of_them_once() -> None:
    shapes = kernels.shapes(kernels.assignment())
    assert [kernels.word(dims) for dims in shapes] == [
        "8192x1024", "8192x4096", "16384x768", "4096x4096", "65536x512", "1024x1024",
    ]  # fmt: skip
    assert all(dims in shapes for dims in kernels.COUNTED_SHAPES)


# Times -------------------------------------------------------------------------------------------


@pytest.fixture
def session(tensor: Assignment) -> FakeSession:
    part = tensor.part("row_sums")
    launches = "sums(float*, int)\t16\t0\t1024\t128\t8\t256\t8\n"
    made = FakeSession(FakeGpu(), tensor, part, reference(tensor, part, "plain"), steady(1e-4))
    made.launches = launches
    made.module.usage = (Usage("sums", registers=16, spill_stores=4),)
    made.gpu.probe = lambda *_: 5e-5
    return made


@pytest.fixture
def watch(session: FakeSession, tensor: Assignment, monkeypatch: pytest.MonkeyPatch) -> Times:
    monkeypatch.setattr(stopwatch, "MOST_SETS", 4)
    return Times(session.gpu, tensor, tensor.test("speed").shapes)


def test_a_row_has_every_shape_and_its_kernels(watch: Times, session: FakeSession) -> None:
    row = watch.part(session, session.part)
    assert row["part"] == "row_sums" and len(row["shapes"]) == len(watch.shapes)
    for dims, shape in zip(watch.shapes, row["shapes"], strict=True):
        assert {name: shape[name] for name in dims} == dims
        assert shape["time_us"] == pytest.approx(100)
        assert 0.45 < shape["fraction"] < 0.6
        assert (shape["samples"], shape["doubt"]) == (calibration_times.SAMPLES, "")
        (kernel,) = shape["kernels"]
        assert (kernel["name"], kernel["registers"], kernel["shared_bytes"]) == ("sums", 16, 1152)
        assert (kernel["spill_bytes"], kernel["threads"], kernel["occupancy"]) == (4, 256, 1.0)
    json.dumps(row)
    assert session.gpu.locked == 0 and session.gpu.blocks == {}
    assert stopwatch.SAMPLES == 30, "the usual number afterwards"


def test_a_shape_that_goes_wrong_leaves_the_others(watch: Times, session: FakeSession) -> None:
    session.faults = {0: Fault("cuda_error", "it broke")}
    first, second = watch.part(session, session.part)["shapes"]
    assert first["note"] == "wrong: it broke" and "time_us" not in first
    assert second["time_us"] == pytest.approx(100)


def test_a_shape_for_which_memory_is_too_small_is_left_out(tensor: Assignment) -> None:
    gpu = FakeGpu(memory_bytes=1 << 16)
    part = tensor.part("row_sums")
    session = FakeSession(gpu, tensor, part, reference(tensor, part, "plain"))
    row = Times(gpu, tensor, tensor.test("speed").shapes).part(session, part)
    assert all("memory is too small" in shape["note"] for shape in row["shapes"])


def test_a_slow_kernel_has_few_samples_and_then_no_more_shapes(
    watch: Times, session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration_times, "SHAPE_SECONDS", 0.0)
    monkeypatch.setattr(calibration_times, "PART_SECONDS", 12.0)
    clock = iter(range(0, 1000, 20))
    watch.now = lambda: float(next(clock))
    first, second = watch.part(session, session.part)["shapes"]
    assert "took too long" in first["note"] and "took too long" in second["note"]
    watch.now = lambda: 0.0
    first, second = watch.part(session, session.part)["shapes"]
    assert first["samples"] == second["samples"] == calibration_times.FEWEST


def test_data_are_made_once_for_all_submissions(watch: Times, session: FakeSession) -> None:
    watch.part(session, session.part)
    bases = dict(watch.bases)
    watch.part(session, session.part)
    assert len(bases) == 2 and all(watch.bases[key] is base for key, base in bases.items())


# Counters -----------------------------------------------------------------------------------------


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a Python script by some name in front of PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def write(name: str, body: str) -> None:
        script = folder / name
        script.write_text(f"#!{sys.executable}\nimport sys\n{textwrap.dedent(body)}")
        script.chmod(0o755)

    return write


# Lists one kernel for each call of the command line that it is given; --metrics as they come.
NCU = """
    given = sys.argv[1:]
    unknown = {unknown!r}
    if given == ["--version"]:
        sys.exit(print("NVIDIA (R) Nsight Compute Command Line Profiler"))
    if "--query-metrics" in given:
        sys.exit(print("\\n".join(f"{{name}}  Counter" for name in {there!r})))
    metrics = given[given.index("--metrics") + 1].split(",")
    bad = [metric for metric in metrics if metric.split(".")[0] in unknown]
    if bad:
        sys.exit(print("==ERROR== " + {complaint}))
    assert given[given.index("-m") + 1] == "tests.calibration.run_once"
    print("==PROF== Connected")
    quoted = lambda *cells: print(",".join(f'"{{cell}}"' for cell in cells))
    quoted("ID", "Kernel Name", "Block Size", "Grid Size", *metrics)
    quoted("", "", "", "", *["byte" for metric in metrics])
    for call in given[given.index("--marked") + 2:]:
        quoted(0, "pause(unsigned long long)", "(1, 1, 1)", "(1, 1, 1)", *["0" for _ in metrics])
        quoted(1, call.split(":")[0] + "(float*)", "(32, 1, 1)", "(7, 1, 1)",
               *["1,000" for _ in metrics])
"""
CALLS = [("forward", {"rows": 4, "hidden_dim": 8}), ("dinp", {"rows": 4, "hidden_dim": 8})]


def test_a_call_is_profiled(programs: Callable[[str, str], None]) -> None:
    programs("ncu", NCU.format(unknown=[], there=[], complaint="''"))
    profiler = counters.Profiler("ncu")
    first, second = profiler.profile(Path("anywhere"), CALLS, 30.0)
    assert [first[0]["name"], second[0]["name"]] == ["forward", "dinp"]
    assert first[0]["metrics"] == dict.fromkeys(counters.METRICS, 1000)
    assert profiler.units == dict.fromkeys(counters.METRICS, "byte")


@pytest.mark.parametrize(
    ("complaint", "there", "left"),
    [
        ("'Failed to find metric ' + ' '.join(bad)", [], len(counters.METRICS) - 2),
        (
            "'some metric is unknown'",
            [name.split(".")[0] for name in counters.METRICS if "dram" not in name],
            len(counters.METRICS) - 4,
        ),
        ("'something is unknown'", [], len(counters.CORE)),
    ],
)
def test_a_metric_that_ncu_does_not_know_costs_no_other(
    programs: Callable[[str, str], None], complaint: str, there: list[str], left: int
) -> None:
    unknown = ["dram__sectors_read", "dram__sectors_write"]
    programs("ncu", NCU.format(unknown=unknown, there=there, complaint=complaint))
    profiler = counters.Profiler("ncu")
    first, _ = profiler.profile(Path("anywhere"), CALLS, 30.0)
    assert len(first[0]["metrics"]) == left == len(profiler.metrics)
    assert "unknown" in profiler.said or "Failed" in profiler.said


def test_an_ncu_that_reads_nothing_says_why(programs: Callable[[str, str], None]) -> None:
    programs("ncu", 'print("==ERROR== ERR_NVGPUCTRPERM")')
    with pytest.raises(ValueError, match="ERR_NVGPUCTRPERM"):
        counters.Profiler("ncu").profile(Path("anywhere"), CALLS, 30.0)


# compute-sanitizer --------------------------------------------------------------------------------


# Writes its report where --log-file says, and runs nothing.
CHECKER = """
    import time
    given = sys.argv[1:]
    assert given[given.index("-m") + 1] == "tests.calibration.run_once"
    if "{hangs}" in " ".join(given):
        time.sleep(60)
    errors = 1 if given[given.index("--tool") + 1] == "racecheck" else 0
    with open(given[given.index("--log-file") + 1], "w") as file:
        if errors:
            file.write("========= Error: Race reported between Write access in a.cu:4\\n")
        file.write(f"========= ERROR SUMMARY: {{errors}} errors\\n")
    print("forward:5x36 failed: RuntimeError: cudaErrorAssert")
"""


def test_a_run_gives_a_row(
    programs: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs("compute-sanitizer", CHECKER.format(hangs="slow_one"))
    later = 1e12
    row = sanitizer.run("compute-sanitizer", "racecheck", "quick_one", ["forward"], later)
    assert (row["errors"], row["code"]) == (1, 0)
    assert row["messages"][0]["line"] == "a.cu:4"
    assert row["failed"] == ["forward:5x36 failed: RuntimeError: cudaErrorAssert"]
    monkeypatch.setattr(sanitizer, "SECONDS", 1.5)
    row = sanitizer.run("compute-sanitizer", "memcheck", "slow_one", ["forward"], later)
    assert row["errors"] is None and row["note"] == "ended after 2 seconds"
    row = sanitizer.run("compute-sanitizer", "memcheck", "quick_one", ["forward"], 0.0)
    assert "not run" in row["note"]


def test_what_is_likely_to_hang_comes_last() -> None:
    plan = sanitizer.plan({"wrong/endless_loop": (), "wrong/a": (), "wrong/b": ()})
    assert plan[:2] == [("wrong/a", "memcheck"), ("wrong/b", "memcheck")]
    assert plan[-1] == ("wrong/endless_loop", "memcheck") and len(plan) == 9


# Calls -------------------------------------------------------------------------------------------


def test_launchers_are_called_one_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limited: list[int] = []
    monkeypatch.setattr(run_once, "limit", lambda: limited.append(1))
    folder = str(SUBMISSIONS / "layernorm" / "wrong" / "forward_throws")
    monkeypatch.setattr(
        sys, "argv", ["run_once", "--backend", "cpu", folder, "forward:3x33", "dinp:2x8"]
    )
    with pytest.raises(SystemExit) as ended:
        run_once.main()
    said = capsys.readouterr().out
    assert ended.value.code == 1 and limited == [1]
    assert said.startswith("forward:3x33 failed: RuntimeError") and "dinp" not in said


def test_a_marker_is_launched_before_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[str] = []
    monkeypatch.setattr(run_once, "marker", lambda: lambda: marked.append("pause"))
    folder = str(folder_of("classic/block_per_row_two_pass"))
    command = ["run_once", "--marked", "--backend", "cpu", folder, "forward:3x33", "dinp:2x8"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        run_once.main()
    assert ended.value.code == 0 and marked == ["pause", "pause"]


def test_the_marker_is_a_kernel_that_the_grader_has(monkeypatch: pytest.MonkeyPatch) -> None:
    class Recording(FakeGpu):
        def launch(self, kernel: Any, grid: Any, threads: int, arguments: Any) -> None:
            self.launched.append(kernel.name)

    gpu = Recording()
    target = type("Target", (), {"gpu": gpu})
    monkeypatch.setattr(run_once, "choose_target", lambda _: target)
    run_once.marker()()
    assert gpu.launched == [counters.MARKER]


# The script --------------------------------------------------------------------------------------


@pytest.fixture
def results(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, programs: Callable[[str, str], None]
) -> Callable[..., Row]:
    """Runs the script without a GPU and gives measure.json."""
    programs("ncu", NCU.format(unknown=[], there=[], complaint="''"))
    programs("compute-sanitizer", CHECKER.format(hangs="nothing"))
    monkeypatch.setattr(measure, "HERE", tmp_path / "nowhere")

    def run(*arguments: str, code: int) -> Row:
        out = tmp_path / "out"
        given = [*arguments, "--out", str(out), "--arch", "sm_90", "--processes", "2"]
        assert measure.main(given) == code
        found: Row = json.loads((out / "measure.json").read_text())
        for file in out.iterdir():
            assert str(Path.home()) not in file.read_text(), file.name
            found[file.name] = json.loads(file.read_text())
        return found

    return run


def test_counters_and_reports_are_written(results: Callable[..., Row]) -> None:
    found = results("--only", "counters", "sanitizer", "--names", "*/thread_per_row",
                    "wrong/dinp_gamma_missing", "wrong/forward_aborts", code=0)  # fmt: skip
    rows = found["counters.json"]["rows"]
    assert [(row["part"], row["rows"]) for row in rows] == [
        (part, shape["rows"]) for part in kernels.ALL for shape in kernels.COUNTED_SHAPES
    ]
    assert all(row["kernels"][0]["name"] == row["part"] for row in rows)
    assert found["steps"]["counters"]["missing"] == {}
    checked = found["sanitizer.json"]
    assert set(checked) == {"wrong/dinp_gamma_missing", "wrong/forward_aborts"}
    assert checked["wrong/forward_aborts"]["parts"] == ["forward"]
    assert set(checked["wrong/forward_aborts"]["tools"]) == set(sanitizer.TOOLS)
    assert found["steps"]["sanitizer"]["with_errors"] == 2


def test_a_step_that_fails_leaves_the_others_alone(results: Callable[..., Row]) -> None:
    found = results("--only", "times", "counters", "--names", "solution", code=1)
    assert "timing needs a GPU" in found["steps"]["times"]["error"]
    assert len(found["counters.json"]["rows"]) == 6


def test_no_time_left_is_no_failure(results: Callable[..., Row]) -> None:
    found = results("--only", "counters", "sanitizer", "--names", "solution", "wrong/dinp_g*",
                    "--seconds", "0", code=0)  # fmt: skip
    assert found["steps"]["counters"]["missing"] == {"solution": "not run"}
    assert found["steps"]["sanitizer"]["not_run"] == found["steps"]["sanitizer"]["runs"] == 4


class AtOnce:
    """A pool of processes without any: the work is done when it is submitted."""

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def __enter__(self) -> AtOnce:
        return self

    def __exit__(self, *_: object) -> None: ...
    def shutdown(self, **_: Any) -> None: ...
    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*given))
        return future


def test_a_submission_that_does_not_compile_is_named(
    results: Callable[..., Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(read: Submission, *_: Any, backend: str, arch: str) -> None:
        assert (backend, arch) == ("cuda", "sm_90")
        if read.id == "dinp_gamma_missing":
            raise BuildFailed("no semicolon", "")

    monkeypatch.setattr(measure, "ProcessPoolExecutor", AtOnce)
    monkeypatch.setattr(build, "build", refuse)
    names = ("wrong/dinp_gamma_missing", "wrong/dinp_epsilon_forgotten")
    found = results("--only", "compiled", "sanitizer", "--names", *names, code=0)
    assert found["steps"]["compiled"]["builds"] == 2
    assert found["steps"]["compiled"]["refused"] == {
        "wrong/dinp_gamma_missing": "BuildFailed: no semicolon"
    }


def test_the_times_are_written_after_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = kernels.assignment()
    part = used.part("forward")
    gpu = FakeGpu()
    session = FakeSession(gpu, used, part, reference(used, part, "one_pass"))
    sizes = [{"rows": 64, "hidden_dim": 32}, {"rows": 8, "hidden_dim": 64}]
    monkeypatch.setattr(stopwatch, "MOST_SETS", 4)
    monkeypatch.setattr(kernels, "shapes", lambda _: sizes)
    monkeypatch.setattr(measure, "Session", lambda *_: nullcontext(session))
    monkeypatch.setattr(measure, "HERE", tmp_path / "nowhere")
    monkeypatch.setattr(build, "build", lambda *_, **__: None)
    one_part = ["odd/welford", "odd/row_in_dynamic_shared_memory"]
    job = measure.Job(tmp_path, 1, one_part, ["times"], "sm_90", gpu, 1e12)
    assert measure.times(job) == {"rows": 2, "missing": []}
    rows = json.loads((tmp_path / "times.json").read_text())
    assert [row["submission"] for row in rows] == one_part[::-1]  # as in the table
    assert [shape["rows"] for shape in rows[0]["shapes"]] == [64, 8]
    assert all(shape["samples"] == calibration_times.SAMPLES for shape in rows[0]["shapes"])
    job.names = ["odd/welford"]
    assert measure.times(job) == {"rows": 1, "missing": []}
    rows = json.loads((tmp_path / "times.json").read_text())
    assert [row["submission"] for row in rows] == one_part, "earlier rows stay"
    job.until = 0.0
    assert measure.times(job) == {"rows": 0, "missing": ["odd/welford forward"]}


def test_what_later_steps_need_is_compiled() -> None:
    job = measure.Job(Path("."), 1, ["*"], list(measure.STEPS), "sm_90", None, 0.0)
    needed = job.needed()
    assert needed[0] == "solution" and len(set(needed)) == len(needed)
    assert set(kernels.KERNELS) <= set(needed)
    assert sum(name.startswith("wrong/") for name in needed) > 60
    assert "wrong/does_not_compile" not in needed
    job.steps = ["compiled"]
    assert job.needed() == needed
    job.steps = ["compiled", "counters"]
    assert set(job.needed()) == set(kernels.COUNTED)
