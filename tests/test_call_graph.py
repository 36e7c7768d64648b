"""Which launchers reach a line, in the ways in which one piece of a source may lead to another."""

from __future__ import annotations

import pytest

from grader.call_graph import CallGraph

TEXT = """\
constexpr int WIDTH = 32;
#define HELP(x) helper(x)
__device__ float helper(float x) { return x * WIDTH; }
template <typename F, int N = (4)>
__global__ void __launch_bounds__(256) first_kernel(float* x, F f) { *x = f(HELP(*x)); }
struct Functor {
    float scale;
    __device__ float operator()(float x) const { return x * scale; }
};
namespace inner {
__global__ void second_kernel(float* x) { *x = 1; }
using Kernel = void (*)(float*);
static Kernel table[] = {second_kernel};
}  // namespace inner
__device__ float unused(float x) { return x; }
extern "C" void launch_first(float* x) {
    first_kernel<<<1, 1>>>(x, Functor{2});
}
extern "C" {
void launch_second(float* x) { inner::table[0]<<<1, WIDTH>>>(x); }
}
"""
FIRST, SECOND = {"launch_first"}, {"launch_second"}


@pytest.fixture(scope="module")
def graph() -> CallGraph:
    return CallGraph({"x.cu": TEXT}, FIRST | SECOND)


@pytest.mark.parametrize(
    ("line", "launchers"),
    [
        (1, FIRST | SECOND),
        (2, FIRST),
        (3, FIRST),
        (4, FIRST),
        (5, FIRST),
        (8, FIRST),
        (11, SECOND),
        (13, SECOND),
        (15, FIRST | SECOND),  # nobody calls it: all, as that is not clear
        (17, FIRST),
        (20, SECOND),
    ],
)
def test_a_line_is_reached_by_launchers(graph: CallGraph, line: int, launchers: set[str]) -> None:
    assert graph.launchers_of("x.cu", line) == launchers


def test_other_files_are_followed() -> None:
    texts = {
        "kernel.cuh": "__global__ void kernel(float* x) { *x = 1; }\n",
        "x.cu": '#include "kernel.cuh"\nvoid a(float* x) { kernel<<<1, 1>>>(x); }\nvoid b() {}\n',
    }
    assert CallGraph(texts, ["a", "b"]).launchers_of("kernel.cuh", 1) == {"a"}


def test_common_names_of_arguments_lead_nowhere() -> None:
    text = "void a(float* x, int rows) { f(x); }\nvoid b(float* x, int rows) { g(rows); }\n"
    assert CallGraph({"x.cu": text}, ["a", "b"]).launchers_of("x.cu", 2) == {"b"}
