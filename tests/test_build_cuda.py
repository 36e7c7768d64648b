"""Building with nvcc: needs no GPU. Where there is no nvcc, most of these tests are skipped."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import build, sandbox, submission, toolkit
from grader.assignment import Assignment, load
from grader.build import Module
from grader.errors import BuildFailed, InfrastructureError
from grader.native_parts import Native
from grader.sandbox import Sandbox
from grader.toolkit import Toolkit
from grader.usage import Usage

Make = Callable[[Path], Module]
Write = Callable[..., Path]

LOAD = """
import json, sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
loader = ExtensionFileLoader("submission", sys.argv[1])
module = module_from_spec(spec_from_file_location("submission", sys.argv[1], loader=loader))
loader.exec_module(module)
said = ""
if len(sys.argv) > 2:
    try:
        getattr(module, sys.argv[2])(*json.loads(sys.argv[3]))
    except RuntimeError as error:
        said = str(error)
print(json.dumps([sorted(module.launchers), said]))
"""


def loaded(module: Module, box: Sandbox, *call: str) -> tuple[list[str], str]:
    """What a process like the grading worker sees: (launchers, what was said)."""
    python, folders = sandbox.python()
    process = box.start(
        [python, "-I", "-S", "-c", LOAD, str(module.path), *call],
        readable=[module.path, *folders],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"CUDA_VISIBLE_DEVICES": ""},  # no GPU, on a machine that has one too
    )
    out, err = process.communicate(timeout=60)
    sandbox.kill(process)
    assert process.returncode == 0, err.decode()
    launchers, said = json.loads(out)
    return launchers, said or err.decode()


@pytest.fixture(scope="session")
def saxpy_cuda(nvidia: Toolkit, saxpy: Assignment, native: Callable[..., None]) -> Assignment:
    """The saxpy assignment, ready for submissions that nvcc compiles."""
    native(saxpy, "cuda")
    return saxpy


@pytest.fixture
def made(saxpy_cuda: Assignment, box: Sandbox) -> Make:
    """Builds a submission for saxpy with nvcc."""

    def make(folder: Path) -> Module:
        return build.build(submission.read(folder, saxpy_cuda), saxpy_cuda, box, "cuda")

    return make


# Modules -----------------------------------------------------------------------------------------


def test_a_module_loads_and_knows_its_launchers_without_a_gpu(
    made: Make, submissions: Path, box: Sandbox
) -> None:
    module = made(submissions / "saxpy" / "right")
    assert module.backend == "cuda"
    assert [usage.kernel for usage in module.usage] == ["saxpy"]
    assert 4 <= module.usage[0].registers <= 64
    assert loaded(module, box)[0] == ["launch_saxpy"]


def test_a_call_without_a_gpu_says_so(made: Make, submissions: Path, box: Sandbox) -> None:
    module = made(submissions / "saxpy" / "right")
    launchers, said = loaded(module, box, "launch_saxpy", "[0, 0, 0, 1]")
    assert launchers == ["launch_saxpy"]
    assert said.startswith(("cudaErrorNoDevice: ", "cudaErrorInsufficientDriver: "))


@pytest.mark.parametrize("kind", ["solution", "starter"])
def test_a_real_assignment_builds(
    nvidia: Toolkit,
    root: Path,
    native: Callable[..., None],
    box: Sandbox,
    kind: str,
) -> None:
    for folder in sorted((root / kind).iterdir()):
        assignment = load(folder.name)
        native(assignment, "cuda")
        read = submission.read(folder, assignment)
        module = build.build(read, assignment, box, "cuda", "sm_90")
        launchers = sorted(part.launcher for part in assignment.parts)
        assert loaded(module, box)[0] == launchers
        assert len(module.usage) >= len(launchers)
        assert all(usage.registers > 0 for usage in module.usage)


def test_a_build_is_kept_by_backend_and_architecture(
    made: Make, saxpy_cuda: Assignment, saxpy_native: Assignment, submissions: Path,
    monkeypatch: pytest.MonkeyPatch, box: Sandbox,
) -> None:  # fmt: skip
    folder = submissions / "saxpy" / "right"
    read = submission.read(folder, saxpy_cuda)
    module = made(folder)
    on_cpu = build.build(read, saxpy_native, box)
    assert (on_cpu.backend, on_cpu.usage) == ("cpu", ())
    assert on_cpu.sha256 != module.sha256

    def refuse(*_: object) -> None:
        raise BuildFailed("compiled again", "")

    monkeypatch.setattr(build, "_compile", refuse)
    assert made(folder) == module
    assert build.build(read, saxpy_native, box) == on_cpu
    with pytest.raises(BuildFailed, match="compiled again"):
        build.build(read, saxpy_cuda, box, "cuda", "sm_80")


def test_another_nvcc_is_another_build(
    made: Make, saxpy_cuda: Assignment, submissions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = made(submissions / "saxpy" / "right")
    parts = build.native(saxpy_cuda, "cuda")
    assert kept.path.is_file()
    monkeypatch.setattr(Toolkit, "identity", "another nvcc")
    monkeypatch.setattr(build, "native", lambda *_: parts)
    monkeypatch.setattr(build, "_compile", lambda *_: (_ for _ in ()).throw(BuildFailed("no", "")))
    with pytest.raises(BuildFailed, match=r"^no$"):
        made(submissions / "saxpy" / "right")


def test_the_parts_for_a_gpu_are_kept_beside_those_for_the_cpu(
    nvidia: Toolkit, saxpy_cuda: Assignment, saxpy_native: Assignment
) -> None:
    for_gpu, for_cpu = build.native(saxpy_cuda, "cuda"), build.native(saxpy_native)
    assert for_gpu.runtime == nvidia.libraries / "libcudart_static.a"
    assert for_gpu.binding.parent.parent.name == "cuda"
    assert for_gpu.fingerprint != for_cpu.fingerprint
    assert for_gpu.binding.read_bytes() != for_cpu.binding.read_bytes()


def test_code_for_the_emulator_only_is_left_out(made: Make, saxpy_folder: Write) -> None:
    folder = saxpy_folder(
        "", "#ifdef __CUDA_EMULATOR__\n#error nvcc must not see this\n#endif\n#include <cuda.h>"
    )
    assert made(folder).path.is_file()


def test_templates_and_lambdas_as_on_the_emulator(made: Make, saxpy_folder: Write) -> None:
    folder = saxpy_folder(
        "    apply<3><<<1, 1, 0, stream>>>([=] __device__(int i) { return x[i] + third(); }, out);",
        "constexpr float third() { return 1.0f / 3; }\n"
        "template <int N, class F>\n__global__ void apply(F f, float* out) { out[0] = f(N); }",
    )
    kernels = [usage.kernel for usage in made(folder).usage]
    assert kernels[0].startswith("apply<3, launch_saxpy::{lambda")
    assert kernels[1:] == ["saxpy"]


# Several files -----------------------------------------------------------------------------------


def test_device_code_may_use_that_of_another_file(
    made: Make, saxpy_folder: Write, box: Sandbox
) -> None:
    folder = saxpy_folder(
        "    uses<<<1, 1, 0, stream>>>(out);",
        "extern __constant__ float factor;\n__device__ float helper(float);\n"
        "__global__ void uses(float* out) { out[0] = factor * helper(out[1]); }",
    )
    # a name that a shell would trip over
    (folder / "more' $HOME (50%) \u00e4.cu").write_text(
        "__constant__ float factor = 2;\n__device__ float helper(float x) { return x + 1; }\n"
    )
    module = made(folder)
    assert {"saxpy", "uses"} == {usage.kernel for usage in module.usage}
    assert loaded(module, box)[0] == ["launch_saxpy"]


def test_a_function_in_a_header_may_be_defined_twice(made: Make, saxpy_folder: Write) -> None:
    folder = saxpy_folder("    twice<<<1, 1>>>(out);", '#include "parts/both.cuh"')
    (folder / "parts").mkdir()
    (folder / "parts" / "both.cuh").write_text(
        "#pragma once\n__device__ float one(float x) { return x; }\n"
        "__global__ void twice(float* p) { p[0] = 2 * one(p[0]); }\n"
    )
    (folder / "parts" / "more.cu").write_text('#include "both.cuh"\n')
    assert made(folder).path.is_file()


def test_two_launchers_of_one_name_are_refused(made: Make, saxpy_folder: Write) -> None:
    folder = saxpy_folder()
    (folder / "old.cu").write_text((folder / "saxpy.cu").read_text())
    with pytest.raises(BuildFailed, match=r"^launch_saxpy is defined in old\.cu and in saxpy\.cu"):
        made(folder)


# Errors ------------------------------------------------------------------------------------------

ERRORS = [
    # name, in front of the launcher (line 8), in the launcher, the sentence, the line shown
    ("unknown", "", "    a = 1;", r"saxpy\.cu:10: identifier \"a\" is undefined", "a = 1;"),
    ("header", '#include "no.cuh"', "", r"saxpy\.cu:8: no\.cuh: No such file", '#include "no.cuh"'),
    (
        "semicolon",
        "__device__ int f() {\n    return 1\n}",
        "",
        r"saxpy\.cu:10: expected a \";\"",
        "}",
    ),
    (
        "brace",
        "",
        "    if (n) {",
        r"saxpy\.cu:9: expected a \"}\" at the end",
        "void launch_saxpy(",
    ),
    ("directive", "#error write this", "", r"saxpy\.cu:8: #error write this", "#error write this"),
    (
        "template",
        "template <class T> __device__ int f(T t) { return t.m; }\n"
        "__global__ void k(float* p) { p[0] = f(1.0f); }",
        "    k<<<1, 1>>>(out);",
        r"saxpy\.cu:8: expression must have class type",
        "return t.m;",
    ),
    (
        "assertion",
        'template <int N> __global__ void k(float* p) { static_assert(N > 4, "N > 4"); }',
        "    k<3><<<1, 1>>>(out);",
        r"saxpy\.cu:8: static assertion failed with \"N > 4\"",
        "static_assert",
    ),
    (
        "shared memory",
        "__global__ void k(float* p) {\n    __shared__ float s[100000];\n"
        "    s[threadIdx.x] = p[0];\n    p[1] = s[threadIdx.x ^ 1];\n}",
        "    k<<<1, 1>>>(out);",
        r"saxpy\.cu:8: the kernel k uses too much shared data \(400000 bytes, 49152 max\)",
        "__global__ void k",
    ),
    (
        "constant memory",
        "__constant__ float c[20000];\n__global__ void k(float* p) { p[0] = c[threadIdx.x]; }",
        "    k<<<1, 1>>>(out);",
        r"device code: File uses too much global constant data \(80000 bytes, 65536 max\)",
        "",
    ),
    (
        "inline PTX",
        '__global__ void k(float* p) {\n    p[0] = 1;\n    asm volatile("frob.f32 1;");\n}',
        "    k<<<1, 1>>>(out);",
        r"saxpy\.cu:10: in inline PTX: ",
        'asm volatile("frob.f32 1;");',
    ),
    (
        "host function",
        "int f() { return 1; }\n__global__ void k(float* p) { p[0] = f(); }",
        "    k<<<1, 1>>>(out);",
        r"saxpy\.cu:9: calling a __host__ function\(\"f\(\)\"\) from a __global__ function",
        "p[0] = f();",
    ),
    (
        "device function",
        "__device__ int f() { return 1; }",
        "    int a = f();",
        r"saxpy\.cu:10: calling a __device__ function\(\"f\(\)\"\) from a __host__ function",
        "int a = f();",
    ),
    (
        "undefined",
        "__device__ float helper(float);\n__global__ void k(float* p) { p[0] = helper(p[1]); }",
        "    k<<<1, 1>>>(out);",
        r"helper\(float\) is used but no file of the submission defines it",
        "",
    ),
    (
        "arguments",
        "",
        "    saxpy<<<1, 1>>>(out, x);",
        r"saxpy\.cu:10: too few arguments in function call",
        "saxpy<<<1, 1>>>(out, x);",
    ),
    (
        "value",
        "__global__ int k(float* p) { return 1; }",
        "",
        r"saxpy\.cu:8: a __global__ function must have a void return type",
        "__global__ int k",
    ),
    (
        "initialiser",
        "__global__ void k(float* p) { __shared__ float s = 1.0f; p[0] = s; }",
        "",
        r"saxpy\.cu:8: initializer not allowed for __shared__ variable",
        "__shared__ float s",
    ),
    (
        "constant",
        "__global__ void k(const float* p) { p[0] = 1; }",
        "",
        r"saxpy\.cu:8: expression must be a modifiable lvalue",
        "p[0] = 1;",
    ),
    (
        "length",
        "__global__ void k(float* p, int n) { float a[n]; a[0] = p[0]; p[0] = a[0]; }",
        "",
        r"saxpy\.cu:8: expression must have a constant value",
        "float a[n];",
    ),
    (
        "library",
        "#include <cub/cub.cuh>\nstruct S { int a; };\n__global__ void k(S* p) {\n"
        "    using R = cub::BlockReduce<S, 128>;\n    __shared__ typename R::TempStorage t;\n"
        "    *p = R(t).Sum(*p);\n}",
        "    k<<<1, 128>>>((S*)out);",
        r"saxpy\.cu:13: .*\(in cub/",
        "*p = R(t).Sum(*p);",
    ),
]


@pytest.mark.parametrize(
    ("text", "body", "sentence", "shown"),
    [
        pytest.param(*error[1:], id=error[0], marks=[pytest.mark.slow] * (error[0] == "library"))
        for error in ERRORS
    ],
)
def test_an_error_is_in_the_students_own_file_and_line(
    made: Make, saxpy_folder: Write, cache: Path, text: str, body: str, sentence: str, shown: str
) -> None:
    with pytest.raises(BuildFailed, match=f"^{sentence}") as caught:
        made(saxpy_folder(body, text))
    log = caught.value.log
    assert shown in log
    said = f"{caught.value}\n{log}"
    ours = (str(cache), "/tmp/", ".0.cu", "__attribute__", "ptxas info", "nvcc -", "error detected")
    assert not [word for word in ours if word in said]


def test_an_error_in_a_header_is_found_there(made: Make, saxpy_folder: Write) -> None:
    folder = saxpy_folder("", '#include "parts/x.cuh"')
    (folder / "parts").mkdir()
    (folder / "parts" / "x.cuh").write_text("#pragma once\n\nint broken(\n;\n")
    with pytest.raises(BuildFailed, match=r"^parts/x\.cuh:4: expected "):
        made(folder)


def test_a_wrong_signature_is_a_compile_error(made: Make, saxpy_folder: Write) -> None:
    folder = saxpy_folder()
    text = (folder / "saxpy.cu").read_text().replace("launch_saxpy(float*", "launch_saxpy(double*")
    (folder / "saxpy.cu").write_text(text.replace("void launch", 'extern "C" void launch'))
    with pytest.raises(BuildFailed, match=r"^saxpy\.cu:\d+: .*launch_saxpy"):
        made(folder)


def test_a_warning_is_no_error(made: Make, saxpy_folder: Write) -> None:
    folder = saxpy_folder("    int never_used;", "#warning look at this\n#pragma unknown to all")
    assert made(folder).path.is_file()


def test_build_files_of_a_submission_are_never_run(
    made: Make, saxpy_folder: Write, tmp_path: Path
) -> None:
    folder = saxpy_folder("    // with build files")
    marker = tmp_path / "was-run"
    (folder / "CMakeLists.txt").write_text(f'file(WRITE "{marker}" "x")\n')
    (folder / "nvcc.profile").write_text("PATH = .\n")
    assert made(folder).path.is_file()
    assert not marker.exists()


@pytest.mark.parametrize("trick", ['#include "/etc/passwd"', 'asm(".incbin \\"/etc/passwd\\"");'])
def test_files_of_this_machine_cannot_be_compiled_in(
    made: Make, saxpy_folder: Write, trick: str, box: Sandbox
) -> None:
    if box.kind == "process":
        pytest.skip("nothing is hidden without bubblewrap")
    with pytest.raises(BuildFailed) as caught:
        made(saxpy_folder("", trick))
    assert "root:" not in f"{caught.value}\n{caught.value.log}"


# Only checking -----------------------------------------------------------------------------------


def test_what_nvcc_takes_is_told_and_kept(
    nvidia: Toolkit, saxpy: Assignment, submissions: Path, box: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    read = submission.read(submissions / "saxpy" / "two_files", saxpy)
    told = build.cross_check(read, saxpy, box)
    assert len(told) == 1
    assert isinstance(told[0], Usage)
    monkeypatch.setattr(build, "_compile", None)
    assert build.cross_check(read, saxpy, box) == told


def test_what_only_the_emulator_takes_is_refused(
    nvidia: Toolkit, saxpy: Assignment, saxpy_native: Assignment, saxpy_folder: Write, box: Sandbox
) -> None:
    folder = saxpy_folder(
        "", "int on_the_host() { return 1; }\n__device__ int f() { return on_the_host(); }"
    )
    read = submission.read(folder, saxpy)
    assert build.build(read, saxpy_native, box).path.is_file()
    with pytest.raises(BuildFailed, match=r"^nvcc refuses: saxpy\.cu:9: calling a __host__"):
        build.cross_check(read, saxpy, box)


def test_checking_takes_device_code_of_several_files(
    nvidia: Toolkit, saxpy: Assignment, saxpy_folder: Write, box: Sandbox
) -> None:
    folder = saxpy_folder(
        "    uses<<<1, 1>>>(out);",
        "__device__ float helper(float);\n__global__ void uses(float* p) { p[0] = helper(p[1]); }",
    )
    (folder / "more.cu").write_text("__device__ float helper(float x) { return x + 1; }\n")
    told = build.cross_check(submission.read(folder, saxpy), saxpy, box)
    assert [usage.kernel for usage in told] == ["saxpy", "uses"]


# This machine's own trouble ----------------------------------------------------------------------


def test_without_nvcc_the_machine_is_at_fault(
    saxpy: Assignment, submissions: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolkit, "_places", lambda: iter([("PATH", None)]))
    read = submission.read(submissions / "saxpy" / "right", saxpy)
    for attempt in (
        lambda: build.build(read, saxpy, box, "cuda"),
        lambda: build.cross_check(read, saxpy, box),
    ):
        with pytest.raises(InfrastructureError, match=r"^nvcc is missing: looked in PATH\. Fix: "):
            attempt()


def test_an_architecture_that_nvcc_does_not_know_is_no_fault_of_the_submission(
    nvidia: Toolkit, saxpy: Assignment, submissions: Path, box: Sandbox
) -> None:
    read = submission.read(submissions / "saxpy" / "right", saxpy)
    with pytest.raises(InfrastructureError, match=r"nvcc does not work here: Unsupported gpu arch"):
        build.cross_check(read, saxpy, box, "sm_20")


# The linker --------------------------------------------------------------------------------------


def test_functions_that_the_binding_wraps_are_wrapped(
    made: Make, saxpy_cuda: Assignment, saxpy_folder: Write, tmp_path: Path, box: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    parts = build.native(saxpy_cuda, "cuda")
    (tmp_path / "wrap.c").write_text("int __wrap_who_is_asked(void) { return 42; }\n")
    subprocess.run(["cc", "-fPIC", "-c", "wrap.c"], cwd=tmp_path, check=True)
    subprocess.run(
        ["ld", "-r", parts.binding, "wrap.o", "-o", "binding.o"], cwd=tmp_path, check=True
    )
    wrapping = Native("wrapping", parts.runtime, tmp_path / "binding.o")
    monkeypatch.setattr(build, "native", lambda *_: wrapping)
    folder = saxpy_folder(
        "",
        '#include <cstdio>\nextern "C" int who_is_asked();\n'
        'static int asked = std::fprintf(stderr, "asked %d", who_is_asked());',
    )
    assert loaded(made(folder), box)[1] == "asked 42"
