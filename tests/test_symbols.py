"""What a submission must not define or use, found in what the compiler made of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import build, places, submission, symbols
from grader.assignment import Assignment
from grader.errors import BuildFailed
from grader.symbols import FORBIDDEN, Symbol, read

pytestmark = pytest.mark.usefixtures("saxpy_native")

RIGHT = """
__global__ void saxpy(float* out, const float* x, const float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = SAXPY_A * x[i] + y[i];
}
void launch_saxpy(float* out, const float* x, const float* y, int n, cudaStream_t stream) {
  saxpy<<<(n + 255) / 256, 256, 0, stream>>>(out, x, y, n);
  extra();
}
"""

Built = Callable[[str], None]


@pytest.fixture
def built(saxpy: Assignment, tmp_path: Path) -> Built:
    """Builds a submission that begins so, and has a function extra()."""

    def make(text: str) -> None:
        (tmp_path / saxpy.source).write_text(text + RIGHT)
        build.build(submission.read(tmp_path, saxpy), saxpy)

    return make


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "#include <unistd.h>\nstatic void extra() { fork(); }",
            "uses fork(), which starts or ends",
        ),
        ('#include <dlfcn.h>\nvoid extra() { dlsym(nullptr, "x"); }', "dlsym(), which looks up"),
        ("#include <unistd.h>\nvoid extra() { syscall(39); }", "asks the system directly"),
        ('#include <unistd.h>\nvoid extra() { write(3, "x", 1); }', "works on descriptors"),
        ("#include <sys/mman.h>\nvoid extra() { munmap(nullptr, 1); }", "how memory is mapped"),
        (
            'extern "C" int fork(); using F = int (*)(); F held = &fork; void extra() { held(); }',
            "uses fork()",
        ),
        (
            'extern "C" int PyRun_SimpleString(const char*);\n'
            'void extra() { PyRun_SimpleString("1"); }',
            "PyRun_SimpleString(), which belongs to Python",
        ),
        (
            'extern "C" void emu_watch(unsigned);\nvoid extra() { emu_watch(0); }',
            "emu_watch, which",
        ),
        ("#include <emulator/control.h>\nvoid extra() { emu_clear_findings(); }", "grader's own"),
        (
            "namespace emulator { void watch_block(); }\nvoid extra() { emulator::watch_block(); }",
            "uses emulator::watch_block, which is the grader's own",
        ),
        (
            'extern "C" void* memcpy(void* to, const void*, unsigned long) { return to; }\n'
            "void extra() {}",
            "is a function of the CUDA runtime or of the grader",
        ),
        (
            "static void nothing() {}\n"
            'extern "C" void (*pick())() { return nothing; }\n'
            'extern "C" void __tsan_write4(void*) __attribute__((ifunc("pick")));\n'
            "void extra() {}",
            "__tsan_write4 is a function",
        ),
        (
            '#define P(a, b) a##b\nvoid extra() { P(__as, m__)("syscall"); }',
            "asks the system directly, by assembler",
        ),
        (
            '__attribute__((no_sanitize("thread"))) void extra() {}',
            "`no_sanitize` is not allowed: it would hide accesses",
        ),
        (
            "#define P(a, b) a##b\n__attribute__((P(no_sanitize_, thread))) void extra() {}",
            "is not allowed: it would hide accesses",
        ),
    ],
)
def test_what_is_not_allowed(built: Built, text: str, why: str) -> None:
    with pytest.raises(BuildFailed, match=re.escape(why)):
        built(text)


@pytest.mark.parametrize(
    "text",
    [
        "#include <cstdio>\n#include <cstdlib>\n"
        'void extra() { if (getenv("X")) { puts("x"); exit(1); } }',
        "#include <thread>\n#include <mutex>\nstd::mutex m; void extra() "
        "{ std::thread([] { std::lock_guard<std::mutex> l(m); }).join(); }",
        "#include <chrono>\n#include <vector>\n#include <map>\n#include <string>\nvoid extra() "
        '{ std::map<std::string, std::vector<float>> m; m["x"].push_back(1); '
        "(void)std::chrono::steady_clock::now(); }",
        "#include <fstream>\n#include <iostream>\nvoid extra() "
        '{ std::ifstream f("x"); std::cout << f.good() << std::endl; }',
        "#include <cooperative_groups.h>\n#include <cub/cub.cuh>\nvoid extra() {}",
        "#include <cassert>\n#include <csetjmp>\n#include <random>\nvoid extra() "
        "{ std::mt19937 g; assert(g() > 0); }",
        "namespace emulator_of_mine { void watch() {} }\nint open_file() { return 1; }\n"
        "void read(int) {}\nvoid extra() { emulator_of_mine::watch(); read(open_file()); }",
        "int main() { return 0; }\nvoid extra() {}",
    ],
)
def test_what_programs_use_is_allowed(built: Built, text: str) -> None:
    built(text)


def test_a_line_of_nm_is_a_symbol(tmp_path: Path) -> None:
    (tmp_path / "list").write_text(
        "./cpp/a b.cu.cpp.o:0000000000000010 T launch\n"
        "./cpp/a.cu.cpp.o:                 U memcpy@GLIBC_2.14\n"
        "\nbinding.o:\n0000000000000020 W _ZN3fooEv\n                 U free\n"
    )
    assert read(tmp_path / "list") == [
        Symbol("./cpp/a b.cu.cpp.o", "T", "launch"),
        Symbol("./cpp/a.cu.cpp.o", "U", "memcpy"),
        Symbol("", "W", "_ZN3fooEv"),
        Symbol("", "U", "free"),
    ]
    assert read(tmp_path / "no list") == []


def test_a_list_that_is_too_long_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbols, "MOST_BYTES", 10)
    (tmp_path / "list").write_text("x" * 11)
    with pytest.raises(BuildFailed, match="too many names"):
        read(tmp_path / "list")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("_ZN8emulator5watchEj", ["emulator", "watch"]),
        ("_ZNK8emulator10DeviceHeap4findEPKv", ["emulator", "DeviceHeap", "find"]),
        ("_ZN8emulator4packIfEEvT_", ["emulator", "pack"]),
        ("emu_watch", ["emu_watch"]),
        ("_Z8emulatorv", []),
        ("memcpy", []),
    ],
)
def test_names_of_the_emulator(name: str, parts: list[str]) -> None:
    assert symbols._own_names(name) == parts


def test_the_control_functions_are_not_offered() -> None:
    words = symbols._words(places.EMULATOR / "include")
    assert "emu_watch" not in words and "emu_sample" not in words
    assert {"cudaMalloc", "__shfl_down_sync", "__emulator_steps"} <= words


def test_nothing_is_forbidden_that_a_kernel_calls() -> None:
    for name in ("malloc", "free", "memcpy", "printf", "expf", "exit", "abort", "pthread_create"):
        assert name not in FORBIDDEN
