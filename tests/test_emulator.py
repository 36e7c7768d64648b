"""The emulator: its front end on its own, and plain CUDA programs that it builds and runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.emulator import frontend
from grader.emulator.frontend import Unsupported, translate
from grader.emulator.program import BuildError, build, runtime_library
from tests.test_checkers import check, expected

PROGRAMS = Path(__file__).parent / "emulator"
COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]
SCHEDULES = (0, 1, 7)


@pytest.fixture(scope="session")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The runtime library, built once for every compiler."""
    folder = tmp_path_factory.mktemp("emulator")
    return {cxx: runtime_library(cxx, folder / cxx) for cxx in COMPILERS}


def sources(program: Path) -> list[Path]:
    """The .cu files of a program: one file, or all those of a folder."""
    return sorted(program.glob("*.cu")) if program.is_dir() else [program]


def names(folder: Path) -> list[str]:
    """Programs in a folder."""
    return sorted(
        path.name for path in folder.iterdir() if path.suffix == ".cu" or any(path.glob("*.cu"))
    )


NO_FEATURES = ("checks", "faults", "meter", "refused")
FEATURES = [name for name in names(PROGRAMS) if name not in NO_FEATURES]


def run(program: Path, **settings: int) -> subprocess.CompletedProcess[str]:
    """Run a built program with the emulator's settings."""
    environment = os.environ | {f"EMULATOR_{key.upper()}": str(x) for key, x in settings.items()}
    return subprocess.run(
        [program], capture_output=True, text=True, timeout=60, env=environment, check=False
    )


def comment(source: Path, key: str) -> str:
    """What the program's own comment says: `// key: value`."""
    match = re.search(rf"^// {key}: (.*)$", source.read_text(), re.MULTILINE)
    assert match is not None, f"{source.name} has no comment `// {key}:`"
    return match.group(1)


# ------------------------------------------------------------------------------------- programs


@pytest.mark.parametrize("cxx", COMPILERS)
@pytest.mark.parametrize("name", FEATURES)
def test_program_runs(name: str, cxx: str, tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """Every feature program finds its results right, in whatever order its threads run, and the
    checkers find nothing but what its comments say."""
    program = tmp_path / "program"
    messages = build(sources(PROGRAMS / name), program, cxx=cxx, runtime=runtimes[cxx])
    assert messages == ""
    for schedule in SCHEDULES:
        done = run(program, schedule=schedule, steps=100_000_000)
        assert done.returncode == 0, f"schedule {schedule}: {done.stdout}{done.stderr}"
        assert done.stdout.rstrip().endswith("ok")
    found, told = check(program)
    assert found == set().union(*map(expected, sources(PROGRAMS / name))), told


@pytest.mark.parametrize("name", names(PROGRAMS / "faults"))
def test_fault_is_told(name: str, tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """A wrong program gets the right CUDA error, and one sentence that says what and where."""
    source = PROGRAMS / "faults" / name
    program = tmp_path / "program"
    build([source], program, runtime=runtimes["g++"])
    done = run(program, steps=1_000_000)
    assert done.returncode == 0, done.stderr
    assert re.search(comment(source, "expect"), done.stderr), done.stderr
    assert f"[{comment(source, 'kind')}]" in done.stderr


@pytest.mark.parametrize("cxx", COMPILERS)
@pytest.mark.parametrize("name", names(PROGRAMS / "refused"))
def test_refused(name: str, cxx: str, tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """What cannot run is refused with file, line, column and a sentence."""
    source = PROGRAMS / "refused" / name
    with pytest.raises(BuildError) as error:
        build([source], tmp_path / "program", cxx=cxx, runtime=runtimes[cxx])
    assert re.search(comment(source, "expect"), str(error.value)), str(error.value)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("name", FEATURES)
def test_nvcc_accepts(name: str, tmp_path: Path) -> None:
    """The feature programs are plain CUDA: nvcc compiles them unchanged."""
    for source in sources(PROGRAMS / name):
        flags = "-std=c++17 -arch=sm_80 -rdc=true --extended-lambda"
        command = ["nvcc", *flags.split(), "-c", str(source), "-o", str(tmp_path / "out.o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_race_shows_under_some_schedule(tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """A missing barrier is right in one order of threads and wrong in another."""
    source = tmp_path / "race.cu"
    source.write_text(
        "#include <cstdio>\n"
        "__global__ void k(float* out) {\n"
        "    __shared__ float s;\n"
        "    if (threadIdx.x == 0) s = 1;\n"  # no __syncthreads()
        "    out[threadIdx.x] = s;\n"
        "}\n"
        "int main() {\n"
        "    float *out, host[64], sum = 0; cudaMalloc(&out, 256); k<<<1, 64>>>(out);\n"
        "    cudaMemcpy(host, out, 256, cudaMemcpyDeviceToHost);\n"
        "    for (float x : host) sum += x;\n"
        '    puts(sum == 64 ? "right" : "wrong");\n'
        "}\n"
    )
    program = tmp_path / "race"
    build([source], program, runtime=runtimes["g++"])
    assert run(program, schedule=0).stdout == "right\n"
    assert run(program, schedule=1).stdout == "wrong\n"
    assert run(program, schedule=1).stdout == run(program, schedule=1).stdout


def test_output_of_kernels_is_capped(tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """A kernel that prints without end fills a megabyte and no more; the host prints on."""
    source = tmp_path / "loud.cu"
    source.write_text(
        "#include <cstdio>\n"
        '__global__ void k() { for (int i = 0; i < 1000; i++) printf("line %d\\n", i); }\n'
        'int main() { k<<<10, 256>>>(); puts("end"); return cudaDeviceSynchronize(); }\n'
    )
    build([source], tmp_path / "loud", runtime=runtimes["g++"])
    done = run(tmp_path / "loud")
    assert done.returncode == 0
    assert len(done.stdout) < 1_100_000
    assert done.stdout.count("capped") == 1
    assert done.stdout.endswith("end\n")


def test_student_error_is_in_the_students_file(
    tmp_path: Path, runtimes: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiler errors name the file as the student knows it, with the right line and column."""
    monkeypatch.chdir(tmp_path)
    Path("layernorm.cu").write_text(
        "__global__ void k(float* x) {\n    x[0] = undefined_name;\n}\n"
    )
    with pytest.raises(BuildError) as error:
        build([Path("layernorm.cu")], tmp_path / "program", runtime=runtimes["g++"])
    first = next(line for line in str(error.value).splitlines() if "error:" in line)
    assert re.match(r"layernorm\.cu:2:12: error: .undefined_name. was not declared", first)
    assert str(tmp_path) not in str(error.value)


# ------------------------------------------------------------------------------------- front end


def only_line(code: str) -> str:
    """The translation of one line, without the #line in front."""
    first, rest = translate(code, "x.cu").split("\n", 1)
    assert first == '#line 1 "x.cu"'
    return rest


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("k<<<g, b>>>(x);", "(::__emulator::configure(g, b), k(x));"),
        (
            "a::k<float, 3><<<g, b, n>>>(x);",
            "(::__emulator::configure(g, b, n), a::k<float, 3>(x));",
        ),
        ("p->k[i]<<<1, n>>5>>>();", "(::__emulator::configure(1, n>>5), p->k[i]());"),
        ("(*f)<<<1, 2>>>(x);", "(::__emulator::configure(1, 2), (*f)(x));"),
        (
            "return k<<<f<2>(), g<v<3>>()>>>(x);",
            "return (::__emulator::configure(f<2>(), g<v<3>>()), k(x));",
        ),
        (
            "#define L(k, ...) k<<<1, 2>>>(__VA_ARGS__)",
            "#define L(k, ...) (::__emulator::configure(1, 2), k(__VA_ARGS__))",
        ),
        (
            "#define L(k) k##_kernel<<<1, 2>>>",
            "#define L(k) ::__emulator::configure(1, 2), k##_kernel",
        ),
        ("k<< <1, 2>> >(x);", "(::__emulator::configure(1, 2), k(x));"),
    ],
)
def test_launch_forms(source: str, wanted: str) -> None:
    """A launch becomes an expression, wherever it stands."""
    squeezed = only_line(source).replace(" ", "")
    assert squeezed == wanted.replace(" ", "")


@pytest.mark.parametrize(
    "source",
    [
        'const char* s = "k<<<1, 2>>>(x) asm(1) __shared__ for (;;)";',
        '// k<<<1, 2>>>(x); asm("bar");',
        "/* tex2D(a) <<< >>> \n while (1) */",
        'auto s = R"(k<<<1,2>>>(x) " asm("") )";',
        'auto s = R"x(for (;;) )" asm("ret;") )x";',
        "char c = '\"'; int x = a << b >> c; // '",
        "std::vector<std::vector<std::vector<int>>> v; x <<= 2; y >>= 3;",
        "int n = 1'000'000;",
        "struct S { int texture, surface, pipeline, barrier; };",
        'asm volatile("" ::: "memory");',
        "// ends in a backslash \\\n asm still comment",
    ],
)
def test_left_alone(source: str) -> None:
    """Strings, comments and plain C++ are not touched."""
    assert only_line(source) == source


@pytest.mark.parametrize(
    "program",
    [path for path in sorted(PROGRAMS.rglob("*.cu*")) if path.parent.name != "refused"],
    ids=lambda path: path.name,
)
def test_lines_are_kept(program: Path) -> None:
    """Nothing moves to another line."""
    text = program.read_text()
    translated = only_line(text)
    assert translated.count("\n") == text.count("\n")
    # every line still begins with the word it began with, unless the word itself is translated
    for old, new in zip(text.split("\n"), translated.split("\n"), strict=True):
        first = re.match(r"\s*([a-z]\w+) \w+ =", old)
        assert first is None or first.group(1) in new


def test_crlf_is_kept() -> None:
    """Files from Windows keep their line ends."""
    text = "__global__ void k() {\r\n  for (;;) {}\r\n}\r\n#define A \\\r\n  1\r\n"
    assert only_line(text).count("\r\n") == text.count("\r\n")


@pytest.mark.parametrize(
    ("source", "line", "column", "word"),
    [
        ('int x;\n  asm("bar;");', 2, 3, "PTX"),
        ("#include <thrust/sort.h>", 1, 1, "Thrust"),
        (
            "__global__ void k() {}\n__global__ void p() { k<<<1, 1>>>(); }",
            2,
            24,
            "dynamic parallelism",
        ),
        ("__device__ void f() { k<<<1, 1>>>(); }", 1, 24, "dynamic parallelism"),
        ("void f() { __pipeline_commit(); }", 1, 12, "asynchronous copies"),
        ("auto p = cuda::make_pipeline();", 1, 16, "asynchronous copies"),
        ("__global__ void __cluster_dims__(2) k() {}", 1, 17, "clusters"),
    ],
)
def test_refusals(source: str, line: int, column: int, word: str) -> None:
    """Refusals know where they stand."""
    with pytest.raises(Unsupported) as error:
        translate(source, "x.cu")
    (diagnostic,) = error.value.diagnostics
    assert (diagnostic.line, diagnostic.column) == (line, column)
    assert word in diagnostic.message
    assert str(error.value).startswith(f"x.cu:{line}:{column}: error: ")


@pytest.mark.parametrize(
    "source",
    [
        '#if __CUDA_ARCH__ >= 900\nasm("x;");\n#endif',
        "#ifndef __CUDA_EMULATOR__\n#include <mma.h>\nusing namespace nvcuda;\n#endif",
        '#define LANE(x) asm("mov;" : "=r"(x))',
    ],
)
def test_conditional_code_is_left_to_the_preprocessor(source: str) -> None:
    """Code that an #if may hide, or a macro nobody uses, is not refused by the front end."""
    assert "error" in translate(source, "x.cu")


def test_inactive_code_compiles(tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """Newer-architecture paths and code kept from the emulator do not get in the way."""
    source = tmp_path / "paths.cu"
    source.write_text(
        "#ifndef __CUDA_EMULATOR__\n#include <cuda/pipeline>\n#endif\n"
        '#define LANE(x) asm("mov.u32 %0, %%laneid;" : "=r"(x))\n'
        "__global__ void k(int* x) {\n"
        '#if __CUDA_ARCH__ >= 900\n    asm volatile("nothing;");\n'
        "#else\n    *x = 1;\n#endif\n}\n"
        "int main() { int* x; cudaMalloc(&x, 4); k<<<1, 1>>>(x);\n"
        "return cudaDeviceSynchronize(); }\n"
    )
    build([source], tmp_path / "paths", runtime=runtimes["g++"])
    assert run(tmp_path / "paths").returncode == 0


def test_script_needs_nothing_but_python(tmp_path: Path) -> None:
    """frontend.py runs on its own, keeps folders, and reports refusals like a compiler."""
    (tmp_path / "detail").mkdir()
    (tmp_path / "x.cu").write_text('#include "detail/y.cuh"\n__global__ void k() {}\n')
    (tmp_path / "detail" / "y.cuh").write_text(
        '#include "z.h"\ninline void f() { g<<<1, 2>>>(); }\n'
    )
    (tmp_path / "detail" / "z.h").write_text("#pragma once\n")
    script = [sys.executable, "-E", "-s", "-S", frontend.__file__]
    command = [*script, "--out", "out", "x.cu"]
    subprocess.run(command, cwd=tmp_path, check=True)
    written = sorted(
        path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")
    )
    assert written == ["detail/y.cuh", "detail/z.h", "x.cu.cpp"]
    assert (tmp_path / "out/detail/y.cuh").read_text().startswith('#line 1 "detail/y.cuh"\n')
    (tmp_path / "x.cu").write_text('\n  asm("x");\n')
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert failed.stderr.startswith("x.cu:2:3: error: inline PTX")


@pytest.fixture
def unusual() -> Iterator[list[str]]:
    """Sources that are not C++ at all."""
    yield [
        '"',
        "'",
        "/*",
        "#",
        "#define",
        "<<<",
        ">>>",
        "k<<<",
        "(",
        ")",
        "}{",
        "\\",
        'R"(',
        "__shared__",
        "__global__ void k(",
        "extern __shared__",
        "__device__",
        "do",
        "for",
        "\x00\xff",
        "#if",
        "#endif\n#else",
        "__global__",
        "asm",
        "asm(",
        "k<<<1,2>>>",
        "<<<>>>",
        "cudaLaunchKernel((",
        "__shared__ int a",
    ]


def test_anything_can_be_translated(unusual: list[str]) -> None:
    """Broken sources are the compiler's business, not a crash of the front end."""
    for text in unusual:
        for source in (text, f"void f() {{ {text}", f"#define X {text}\n"):
            try:
                translate(source, "x.cu")
            except Unsupported:
                continue


def test_host_code_cannot_touch_device_memory(tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """It ends the process, as on a GPU, and the last words say where; managed memory is shared."""
    source = tmp_path / "touch.cu"
    source.write_text(
        "#include <cstdio>\n"
        "__global__ void fill(float* out) { out[threadIdx.x] = 1; }\n"
        "int main() {\n"
        "    float *device, *managed;\n"
        "    cudaMalloc(&device, 128);\n"
        "    cudaMallocManaged(&managed, 128);\n"
        "    fill<<<1, 32>>>(device);\n"
        "    fill<<<1, 32>>>(managed);\n"
        "    cudaDeviceSynchronize();\n"
        '    printf("%g\\n", managed[31]);\n'
        '    printf("%g\\n", device[31]);\n'
        "}\n"
    )
    build([source], tmp_path / "program", runtime=runtimes["g++"])
    done = run(tmp_path / "program")
    assert done.returncode == -signal.SIGSEGV
    assert done.stdout == "1\n"
    assert "touch.cu:11: host code touches device memory, inside `out` (128 bytes)" in done.stderr
