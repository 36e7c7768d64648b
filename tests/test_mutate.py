"""Each operator makes the fault that it is named after, and nothing else is touched."""

from __future__ import annotations

import pytest

from grader.mutate import OPERATORS, Mutant, mutants, sample

LINES = [
    ("barrier_dropped", "__syncthreads();", {";"}),
    ("barrier_dropped", "tile.sync();", {";"}),
    ("barrier_dropped", "x = lane; __threadfence();", {"x = lane; ;"}),
    ("relation", "if (a < b) f();", {"if (a <= b) f();"}),
    ("relation", "x = f<int>(a) >= b;", {"x = f<int>(a) > b;"}),
    ("relation", "if (a == b) f();", {"if (a != b) f();"}),
    ("index_off_by_one", "x = a[i];", {"x = a[(i) + 1];", "x = a[(i) - 1];"}),
    ("index_off_by_one", "float a[32];", set()),
    ("index_off_by_one", "__shared__ float a[32][33];", set()),
    ("index_off_by_one", "auto f = [=](int x) { return x; };", set()),
    ("operator", "x = a + b;", {"x = a - b;"}),
    ("operator", "x = a % b;", {"x = a / b;"}),
    ("operator", "float* p = q;", set()),
    ("operator", "return -a;", set()),
    ("constant", "x = 0.0f;", {"x = 1.0f;"}),
    ("constant", "x = 0.5;", {"x = 1.0;"}),
    ("constant", "x = 32u;", {"x = 16u;", "x = 64u;"}),
    ("constant", "x = 0;", {"x = 1;"}),
    ("constant", "x = 33;", set()),
    ("mask", "x = f(0xffffffffu, y);", {"x = f(0x7fffffffu, y);"}),
    (
        "shuffle_distance",
        "x += __shfl_down_sync(m, x, d / 2);",
        {"x += __shfl_down_sync(m, x, (d / 2) + 1);"},
    ),
    ("shuffle_distance", "x += g.shfl_xor(x, d);", {"x += g.shfl_xor(x, (d) + 1);"}),
    ("guard_dropped", "if (a[f(i)] < b) g();", {"if (true) g();"}),
    ("guard_dropped", "if (i >= n) return;", {"if (false) return;"}),
    ("guard_dropped", "if (i >= n) { return; }", {"if (false) { return; }"}),
    ("type", "double x;", {"float x;"}),
    ("type", "y = (size_t)i * n;", {"y = (int)i * n;"}),
    ("type", "unsigned long long x;", {"int x;"}),
    ("statements_swapped", "a = b; c = a;", {"c = a; a = b;"}),
    ("statements_swapped", "a += x; b += x;", set()),
    ("statements_swapped", "int a = 1; int b = a;", set()),
    ("statements_swapped", "s[i] = a; __syncthreads();", {"__syncthreads(); s[i] = a;"}),
    ("assigns_only", "sum += x;", {"sum = x;"}),
    ("atomic_dropped", "atomicAdd(&a[i], b);", {"*(&a[i]) += b;"}),
    (
        "atomic_dropped",
        "last = atomicAdd(&n, 1) == m;",
        {"last = ((*(&n) += (1)) - (1)) == m;"},
    ),
    ("arguments_swapped", "f(a, b, c + 1);", {"f(b, a, c + 1);"}),
    ("arguments_swapped", "k<<<1, 32>>>(a, b);", {"k<<<1, 32>>>(b, a);"}),
    ("arguments_swapped", "float f(float a, float b);", set()),
    ("root", "x = rsqrtf(v);", {"x = sqrtf(v);"}),
    ("root", "x = sqrt(v);", {"x = rsqrt(v);"}),
    ("statement_deleted", "x = 1;", {";"}),
    ("statement_deleted", "if (i == 0) x[i] = 1;", {"if (i == 0) ;"}),
    ("statement_deleted", "for (int i = 0; i < n; i++) x += i;", {"for (int i = 0; i < n; i++) ;"}),
    ("statement_deleted", "const Vec* x = row_of<Vec>(p);", set()),
    ("statement_deleted", "return x;", set()),
]


def within(line: str) -> str:
    return f"void kernel() {{\n    {line}\n}}\n"


def by(name: str, text: str) -> list[Mutant]:
    return [mutant for mutant in mutants(text) if mutant.name == name]


@pytest.mark.parametrize(("name", "line", "wanted"), LINES)
def test_an_operator_makes_its_fault(name: str, line: str, wanted: set[str]) -> None:
    found = by(name, within(line))
    assert {mutant.text for mutant in found} == {within(each) for each in wanted}
    assert all(mutant.line == 2 for mutant in found)


def test_every_operator_is_tested() -> None:
    assert {name for name, _, wanted in LINES if wanted} == set(OPERATORS)


@pytest.mark.parametrize(
    "text",
    [
        "// if (a < b) x = 1;\n",
        "/* x = a + b;\n x += 1; */\n",
        'void f() { return "x = a + 0.5"; }\n',
        "#define N 32\n#define F(x) ((x) + 1)\n",
        "#if __CUDA_ARCH__ >= 900\nvoid f() { x = a + b; }\n#endif\n",
        "#if 0\nvoid f() { x = a + b; }\n#else\n#endif\n",
        "#if __CUDA_ARCH__ < 900\n#else\nvoid f() { x = a + b; }\n#endif\n",
    ],
)
def test_what_never_runs_is_left_alone(text: str) -> None:
    assert mutants(text) == []


@pytest.mark.parametrize(
    "head", ["#if __CUDA_ARCH__ >= 700", "#ifdef X", "#if X > 3", "#if 0\n#else", "#if 0\n#elif X"]
)
def test_what_may_run_is_not(head: str) -> None:
    assert by("operator", f"{head}\nvoid f() {{ x = a + b; }}\n#endif\n")


def test_a_mutant_over_several_lines_moves_no_other_line() -> None:
    text = "void f() {\n    g(a,\n      1.5f);\n    x = 2;\n}\n"
    (deleted,) = [each for each in by("statement_deleted", text) if each.line == 2]
    assert deleted.text == "void f() {\n    \n;\n    x = 2;\n}\n"


def test_no_two_mutants_are_the_same() -> None:
    text = within("x[i] += a[i] < b ? 1.0f : sqrtf(a[i + 1]); __syncthreads(); f(a, b);")
    texts = [mutant.text for mutant in mutants(text)]
    assert len(texts) == len(set(texts)) and text not in texts


def test_a_sample_follows_from_its_seed_and_holds_every_operator() -> None:
    every = mutants(within(" ".join(line for _, line, wanted in LINES if wanted)))
    chosen = sample(every, len(OPERATORS), 1)
    assert {mutant.name for mutant in chosen} == set(OPERATORS)
    assert chosen == sample(every, len(OPERATORS), 1) != sample(every, len(OPERATORS), 2)
    everything = sample(every, 10_000, 1)
    assert len(everything) == len(every) and set(everything) == set(every)
