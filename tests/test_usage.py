"""Registers, spills and shared memory, from logs of real compilers."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import usage
from grader.usage import Usage

# nvcc 13.0 for sm_90, through c++filt
LOG = """\
[1/2] Generating objects/.0.cu.o
ptxas info    : 132 bytes gmem, 40 bytes cmem[3]
ptxas info    : Compiling entry function 'void my::pick<float>(float (&) [3])' for 'sm_90'
ptxas info    : Function properties for void my::pick<float>(float (&) [3])
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 4 registers, used 0 barriers
ptxas info    : Compile time = 1.906 ms
ptxas info    : Compiling entry function 'spill' for 'sm_90'
ptxas info    : Function properties for spill
    296 bytes stack frame, 288 bytes spill stores, 292 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 296 bytes cumulative stack size
ptxas info    : Compile time = 43.380 ms
ptxas info    : Compiling entry function 'halves(float*)' for 'sm_90'
ptxas info    : Function properties for halves(float*)
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 400 bytes smem
ptxas info    : Compile time = 2.462 ms
"""


def test_every_kernel_is_told_of() -> None:
    assert usage.parse(LOG) == (
        Usage("halves", registers=10, shared=400),
        Usage("my::pick<float>", registers=4),
        Usage("spill", registers=32, spill_stores=288, spill_loads=292, stack=296),
    )


def test_an_older_ptxas_says_the_same_otherwise() -> None:
    log = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : Compiling entry function 'sum(float*, int)' for 'sm_80'\n"
        "ptxas info    : Function properties for sum(float*, int)\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 18 registers, 128 bytes smem, 364 bytes cmem[0]\n"
    )
    assert usage.parse(log) == (Usage("sum", registers=18, shared=128),)


def test_a_function_that_a_kernel_calls_is_not_the_kernel() -> None:
    log = (
        "ptxas info    : Compiling entry function 'caller(float*)' for 'sm_90'\n"
        "ptxas info    : Function properties for caller(float*)\n"
        "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Used 24 registers, used 0 barriers, 8 bytes cumulative stack size\n"
        "ptxas info    : Function properties for callee(float)\n"
        "    64 bytes stack frame, 60 bytes spill stores, 60 bytes spill loads\n"
    )
    assert usage.parse(log) == (
        Usage("caller", registers=24, spill_stores=4, spill_loads=4, stack=8),
    )


def test_a_kernel_that_cub_only_asks_is_left_out() -> None:
    kernel = "void cub::CUB_300001_SM_900::detail::EmptyKernel<void>()"
    assert usage.parse(f"ptxas info    : Compiling entry function '{kernel}' for 'sm_90'\n") == ()


def test_a_kernel_that_two_files_include_is_told_of_once() -> None:
    assert usage.parse(LOG + LOG) == usage.parse(LOG)


def test_a_log_without_kernels() -> None:
    assert usage.parse("") == ()
    assert usage.parse("ptxas info    : Used 24 registers, used 0 barriers\n") == ()


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("spill", "spill"),
        ("halves(float*)", "halves"),
        ("void scale<float, 4>(float*, int)", "scale<float, 4>"),
        ("my::halves(float*)", "my::halves"),
        ("void my::pick<float>(float const*, float (&) [3])", "my::pick<float>"),
        ("(anonymous namespace)::an(float*)", "an"),
        (
            "void (anonymous namespace)::e<((anonymous namespace)::Op)1, true, 3u>(int (*)(int))",
            "e<(Op)1, true, 3u>",
        ),
        (
            "void apply<5, go::{lambda(int)#1}>(go::{lambda(int)#1}, float*)",
            "apply<5, go::{lambda(int)#1}>",
        ),
        ("void unsigned_too<unsigned int>(unsigned int*)", "unsigned_too<unsigned int>"),
    ],
)
def test_a_kernels_name(signature: str, name: str) -> None:
    assert usage.kernel_name(signature) == name


def test_it_can_be_kept(tmp_path: Path) -> None:
    usage.write(tmp_path / "usage.json", usage.parse(LOG))
    assert usage.read(tmp_path / "usage.json") == usage.parse(LOG)
    usage.write(tmp_path / "usage.json", ())
    assert usage.read(tmp_path / "usage.json") == ()
