"""What nvcc says, as a C++ compiler would say it: on words of real compilers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from grader import nvcc_log
from grader.submission import SourceFile, Submission

SOURCE = b"""\
#include "x.cuh"

__global__ void other(float* p);
template <int N>
__global__ void
__launch_bounds__(128)
big(float* p) { p[0] = N; }
"""
MINE = Submission("mine", Path(), (SourceFile("k.cu", SOURCE), SourceFile("x.cuh", b"\n")), "")


def said(*lines: str, folder: Path = Path()) -> list[str]:
    return nvcc_log.translate("\n".join(lines), MINE, folder).splitlines()


def test_an_error_of_the_front_end_loses_the_quotation() -> None:
    assert said(
        "k.cu(7): error: expression must be a modifiable lvalue",
        "  __attribute__((global)) void k(const float* p) { p[0] = 1; }",
        "                                                   ^",
        "",
        'k.cu(9): error #20: identifier "b" is undefined',
    ) == [
        "k.cu:7: error: expression must be a modifiable lvalue",
        'k.cu:9: error: identifier "b" is undefined',
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("k.cu(8): warning #549-D: used before", "k.cu:8: warning: used before"),
        ('x.cuh(8): note #3196-D: to match this "{"', 'x.cuh:8: note: to match this "{"'),
        ("k (1).cu(8): error: odd name", "k (1).cu:8: error: odd name"),
        ("k.cu(8): catastrophic error: too much", "k.cu:8: error: too much"),
        ("k.cu:8:10: fatal error: nowhere.cuh", "k.cu:8:10: fatal error: nowhere.cuh"),
        (
            "ptxas fatal   : Unresolved extern function 'helper(float)'",
            "undefined reference to `helper(float)'",
        ),
        (
            "nvlink error   : Undefined reference to 'helper(float)' in 'objects/.0.cu.o'",
            "undefined reference to `helper(float)'",
        ),
        (
            "nvlink error   : Multiple definition of 'f(float)' in 'b.o', first defined in 'a.o'",
            "device code: error: Multiple definition of 'f(float)'",
        ),
        (
            "ptxas error   : File uses too much global constant data (0x13880 bytes, 0x10000 max)",
            "device code: error: File uses too much global constant data (80000 bytes, 65536 max)",
        ),
        (
            "cuda_bf16.hpp(3): note #1-D: function",
            "cuda_bf16.hpp:3: note: function",
        ),
        ("something else", "something else"),
    ],
)
def test_a_line(line: str, expected: str) -> None:
    assert said(line) == [expected]


def test_a_brace_that_is_never_closed_is_shown_where_it_opens() -> None:
    assert said(
        'At end of source: error: expected a "}"', 'k.cu(7): note #3196-D: to match this "{"'
    ) == [
        'k.cu:7: error: expected a "}" at the end of the file',
        'k.cu:7: note: to match this "{"',
    ]
    assert said('At end of source: error: expected a "}"') == [
        'end of the file: error: expected a "}" at the end of the file'
    ]


def test_a_kernel_that_takes_too_much_is_found_in_the_source() -> None:
    words = "uses too much shared data (0x61a80 bytes, 0xc000 max)"
    assert said(f"ptxas error   : Entry function 'void big<3>(float*)' {words}") == [
        "k.cu:7: error: the kernel big<3> uses too much shared data (400000 bytes, 49152 max)"
    ]
    assert said(f"ptxas error   : Entry function 'unknown(float*)' {words}") == [
        "device code: error: the kernel unknown uses too much shared data (400000 bytes, 49152 max)"
    ]


def test_an_error_in_inline_ptx_is_found_in_the_source(tmp_path: Path) -> None:
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / ".0.ptx").write_text(
        ".loc\t1 3 5\nmov.f32 %f1, %f2;\n.loc\t2 1 5\nfrob.f32 %f1, %f1;\n.loc\t1 9 1\nret;\n"
        '\t.file\t1 "/somewhere/submission/k.cu"\n\t.file\t2 "/somewhere/submission/x.cuh"\n'
        '\t.file\t3 "/usr/include/vector"\n'
    )
    error = "error   : Not a name of any known instruction: 'frob'"
    assert said(
        f"ptxas objects/.0.ptx, line 4; {error}",
        "ptxas fatal   : Ptx assembly aborted due to errors",
        folder=tmp_path,
    ) == [
        "x.cuh:1: error: in inline PTX: Not a name of any known instruction: 'frob'",
        "ptxas fatal   : Ptx assembly aborted due to errors",
    ]
    nowhere = ["device code: error: in inline PTX: Not a name of any known instruction: 'frob'"]
    assert said(f"ptxas objects/.7.ptx, line 4; {error}", folder=tmp_path) == nowhere
    assert said(f"ptxas objects/.0.ptx, line 0; {error}", folder=tmp_path) == nowhere


def test_an_error_inside_of_a_library_is_shown_where_it_was_used() -> None:
    assert (
        said(
            "cub/warp/warp_reduce.cuh(457): error: no instance of function template",
            "            argument types are: (S, S)",
            "cuda/std/operations.h(49): note #3322-D: candidate failed deduction",
            "          detected during:",
            '            instantiation of "T cub::Reduce(T)" at line 518 of cub/block_reduce.cuh',
            '            instantiation of "T cub::Sum(T) [with T=S]" at line 7 of k.cu',
            "k.cu(9): error: another",
        )[0]
        == "k.cu:7: error: no instance of function template (in cub/warp/warp_reduce.cuh:457)"
    )
    assert said("cub/x.cuh(4): error: odd", '   instantiation of "f" at line 9 of cub/y.cuh') == [
        "cub/x.cuh:4: error: odd",
        '   instantiation of "f" at line 9 of cub/y.cuh',
    ]
    assert said("cub/x.cuh(4): error: odd", "k.cu(3): error: at line 7 of k.cu")[0] == (
        "cub/x.cuh:4: error: odd"
    )


@pytest.mark.parametrize(
    ("log", "fault"),
    [
        ("nvcc fatal   : Unsupported gpu architecture 'sm_20'\n", "Unsupported gpu architecture"),
        (
            "In file included from cuda_runtime.h:82:\n"
            "crt/host_config.h:148:2: error: #error -- unsupported GNU version! gcc versions later "
            "than 15 are not supported!\n",
            "unsupported GNU version",
        ),
    ],
)
def test_an_nvcc_that_does_not_fit_this_machine(log: str, fault: str) -> None:
    assert nvcc_log.machine_fault(log).startswith(fault)


@pytest.mark.parametrize(
    "log", ["", "k.cu(7): error: nvcc fatal : no", "k.cu:9:2: error: #error -- unsupported\n"]
)
def test_what_a_submission_says_is_no_fault_of_the_machine(log: str) -> None:
    assert nvcc_log.machine_fault(log) == ""


def test_a_file_of_a_million_kernels_takes_no_time() -> None:
    hostile = Submission("x", Path(), (SourceFile("k.cu", b"__global__ " * 30_000),), "")
    began = time.process_time()
    error = "ptxas error   : Entry function 'k(float*)' uses too much shared data (0x1 bytes)"
    assert nvcc_log.translate(error, hostile, Path()).startswith("device code: error: the kernel k")
    nvcc_log.translate("\n".join(["x.h(1): error: y"] * 5_000), hostile, Path())
    nvcc_log.translate("/" * (1 << 20), hostile, Path())
    assert time.process_time() - began < 20
