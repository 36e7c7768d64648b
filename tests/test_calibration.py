"""The measurements for the model of speed, as far as no GPU is needed: every step, with programs
that stand in for NVIDIA's, and what is read from their output."""

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


# Counters ----------------------------------------------------------------------------------------

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","dram__bytes_read.sum","launch__registers_per_thread",'
    '"smsp__inst_executed.sum"'
)
UNITS = '"","","","","","","","","","","","byte","register/thread","inst"'


def launched(number: int, name: str, bytes_read: str, executed: str = "1,024") -> str:
    return (
        f'"{number}","77","python3.12","127.0.0.1","{name}","1","7","(256, 1, 1)",'
        f'"(8192, 1, 1)","0","9.0","{bytes_read}","24","{executed}"'
    )


TABLE = "\n".join(
    [
        "==PROF== Connected to process 77 (/usr/bin/python3.12)",
        '==PROF== Profiling "pause" - 0: 0%....50%....100% - 7 passes',
        "==PROF== Disconnected from process 77",
        HEADER,
        UNITS,
        launched(0, "pause", "0"),
        launched(1, "void rows<(int)4>(float *, int)", "33,554,944"),
        launched(2, "add_up(float *, const float *)", "12.5", "n/a"),
        launched(3, "pause", "0"),
        launched(4, "void rows<(int)4>(float *, int)", "67,109,888"),
    ]
)


def test_a_table_of_ncu_is_read() -> None:
    found = counters.parse(TABLE)
    assert [one["name"] for one in found] == ["pause", "rows<(int)4>", "add_up", "pause",
                                              "rows<(int)4>"]  # fmt: skip
    assert found[1]["block"] == [256, 1, 1] and found[1]["grid"] == [8192, 1, 1]
    assert found[1]["metrics"] == {
        "dram__bytes_read.sum": 33554944,
        "launch__registers_per_thread": 24,
        "smsp__inst_executed.sum": 1024,
    }
    assert found[2]["metrics"]["dram__bytes_read.sum"] == 12.5
    assert "smsp__inst_executed.sum" not in found[2]["metrics"]
    assert counters.units(TABLE)["dram__bytes_read.sum"] == "byte"
    assert "127.0.0.1" not in json.dumps(found)


def test_kernels_belong_to_the_call_behind_their_marker() -> None:
    first, second = counters.split(counters.parse(TABLE), 2)
    assert [one["name"] for one in first] == ["rows<(int)4>", "add_up"]
    assert [one["metrics"]["dram__bytes_read.sum"] for one in second] == [67109888]
    with pytest.raises(ValueError, match="2 markers for 3 calls"):
        counters.split(counters.parse(TABLE), 3)


def test_output_without_a_table_gives_nothing() -> None:
    assert counters.parse("==ERROR== ERR_NVGPUCTRPERM\n") == []
    assert counters.units("") == {}
    assert counters.parse(HEADER) == []


def test_metrics_that_ncu_complains_about_are_named() -> None:
    metrics = ("a__b.sum", "a__b_c.sum", "d__e_pct")
    assert counters.refused("==ERROR== Failed to find metric a__b.sum\n", metrics) == ["a__b.sum"]
    assert counters.refused("==ERROR== Failed to find metric d__e_pct", metrics) == ["d__e_pct"]
    assert counters.refused("a__b.sum is fine", metrics) == []
    assert counters.known("Device NVIDIA H200\n  a__b   Counter   inst   # of\n") == {"a__b"}


def test_no_metric_is_asked_for_twice() -> None:
    assert len(set(counters.METRICS)) == len(counters.METRICS)
    assert set(counters.CORE) <= set(counters.METRICS)


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


# compute-sanitizer -------------------------------------------------------------------------------

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at ker_layer_norm(float *, int)+0x1b0 in /somewhere/submission/layernorm.cu:67
=========     by thread (4,0,0) in block (0,0,0)
=========     Address 0x7f22c2a00410 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f22c2a00400 of size 16 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: launch_layernorm in layernorm.cu:99 [0x1234] in submission.so
=========
========= Invalid __global__ write of size 4 bytes
=========     at ker_layer_norm(float *, int)+0x1b0 in /somewhere/submission/layernorm.cu:67
=========     by thread (5,0,0) in block (0,0,0)
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sums(float *)+0x110 in /a/b/layernorm.cu:43
=========     and Read access at sums(float *)+0x3d0 in /a/b/layernorm.cu:53 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
INITCHECK = """\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at rows(float *)+0x70 in layernorm.cu:12
=========     by thread (0,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
"""
SYNCCHECK = """\
========= Barrier error detected. Divergent thread(s) in block
=========     at sums(float *)+0x70 in layernorm.cu:31
=========     by thread (3,0,0) in block (0,0,0)
========= ERROR SUMMARY: 4 errors
"""


def test_errors_and_their_lines_are_read() -> None:
    row = sanitizer.parse(MEMCHECK)
    assert row["errors"] == 3
    first, second = row["messages"]
    assert first == {
        "said": "Invalid __global__ write of size 4 bytes", "line": "layernorm.cu:67", "count": 2
    }  # fmt: skip
    assert second["said"].startswith("Program hit cudaErrorLaunchFailure")
    assert second["line"] is None


def test_a_race_has_two_lines_and_no_folders() -> None:
    row = sanitizer.parse(RACECHECK)
    assert row["errors"] == 1
    (message,) = row["messages"]
    assert message["line"] == "layernorm.cu:43 layernorm.cu:53"
    assert message["said"] == (
        "Error: Race reported between Write access at sums(float *)+0x in layernorm.cu:43"
    )


def test_a_place_may_have_a_line_of_its_own() -> None:
    text = """\
========= ERROR: Race reported between Write access at
=========     sums(float *)+0xb0 in layernorm.cu:28
=========     and Read access at
=========     sums(float *)+0xc0 in layernorm.cu:30
=========     [1024 hazards]
"""
    (message,) = sanitizer.parse(text)["messages"]
    assert message["line"] == "layernorm.cu:28 layernorm.cu:30"


@pytest.mark.parametrize(
    ("text", "errors", "said", "line"),
    [
        (INITCHECK, 1, "Uninitialized __global__", "layernorm.cu:12"),
        (SYNCCHECK, 4, "Barrier error detected", "layernorm.cu:31"),
    ],
)
def test_what_other_tools_say(text: str, errors: int, said: str, line: str) -> None:
    row = sanitizer.parse(text)
    (message,) = row["messages"]
    assert (row["errors"], message["line"]) == (errors, line)
    assert message["said"].startswith(said)


def test_a_clean_report_and_none_at_all() -> None:
    assert sanitizer.parse("========= ERROR SUMMARY: 0 errors\n") == {"errors": 0, "messages": []}
    assert sanitizer.parse("") == {"errors": None, "messages": []}


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
    found = results("--only", "compiled", "sanitizer", "--names", "wrong/dinp_g*", "wrong/dinp_e*",
                    code=0)  # fmt: skip
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
