"""Which inputs are tried: pinned corners, then legal draws, all from one master."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.assignment import Assignment
from grader.cases import Case, cases, parse_token, seed, shrink, smaller, token
from grader.errors import UsageError
from grader.manifest import Range
from grader.manifest import Test as Spec  # pytest collects what is called Test...

MASTER = b"a master"
# cases are drawn by hypothesis themselves
NESTED = settings(suppress_health_check=[HealthCheck.nested_given])

seeds = st.integers(0, (1 << 53) - 1)


def made(assignment: Assignment, part: str, test: str, master: bytes = MASTER) -> list[Case]:
    return list(cases(assignment, assignment.part(part), test, master))


# Cases of a test ---------------------------------------------------------------------------------


def test_pinned_corners_come_first_in_their_order(saxpy: Assignment) -> None:
    first, second, *drawn = made(saxpy, "saxpy", "base")
    assert (first.dims, first.family, first.scale) == ({"n": 4}, "normal", 1.0)
    assert (second.dims, second.family, second.scale) == ({"n": 1024}, "scaled", 1000.0)
    assert len(drawn) == saxpy.test("base").draws


def test_a_corner_may_belong_to_some_parts_only(tensor: Assignment) -> None:
    corner = {"batch": 1, "rows": 2, "cols": 70}
    assert corner in [case.dims for case in made(tensor, "row_sums", "base")[:3]]
    assert corner not in [case.dims for case in made(tensor, "add_bias", "base")[:3]]


def test_the_same_master_gives_the_same_cases(saxpy: Assignment) -> None:
    assert made(saxpy, "saxpy", "base") == made(saxpy, "saxpy", "base")


def test_another_master_gives_other_data_and_other_draws(saxpy: Assignment) -> None:
    one, other = made(saxpy, "saxpy", "base"), made(saxpy, "saxpy", "base", b"another")
    assert [case.dims for case in one[:2]] == [case.dims for case in other[:2]]
    assert [case.dims for case in one] != [case.dims for case in other]
    assert {case.seed for case in one}.isdisjoint(case.seed for case in other)


def test_every_case_has_a_seed_of_its_own(tensor: Assignment) -> None:
    all_seeds = [
        case.seed
        for part in tensor.parts
        for test in part.points
        if test != "speed"
        for case in made(tensor, part.id, test)
    ]
    assert len({*all_seeds}) == len(all_seeds)


def test_cases_are_made_one_by_one(saxpy: Assignment) -> None:
    assert len(list(islice(cases(saxpy, saxpy.part("saxpy"), "base", MASTER), 1))) == 1


@settings(NESTED, max_examples=10)
@given(st.binary(min_size=1))
def test_draws_are_legal(tensor: Assignment, master: bytes) -> None:
    test = tensor.test("base")
    for case in made(tensor, "add_bias", "base", master)[2:]:
        assert all(case.dims[name] in legal for name, legal in test.dimensions.items())
        assert case.elements <= test.max_elements
        assert case.family in test.families


@settings(NESTED, max_examples=10)
@given(st.binary(min_size=1))
def test_the_scale_is_a_power_of_ten_of_its_family(saxpy: Assignment, master: bytes) -> None:
    for case in made(saxpy, "saxpy", "base", master)[2:]:
        low, high = saxpy.families[case.family].exponents
        assert case.scale in [10.0**k for k in range(low, high + 1)]


@given(st.binary(), st.text())
def test_seeds_are_exact_in_json(master: bytes, name: str) -> None:
    number = seed(master, name, 7)
    assert 0 <= number < 1 << 53
    assert number == int(float(number))
    assert number != seed(master, name, 8)


def test_data_follow_from_the_seed_and_the_call() -> None:
    case = Case({"n": 4}, "normal", 1.0, 12)
    first = case.rng(0).normal(size=4)
    assert np.array_equal(first, case.rng(0).normal(size=4))
    assert not np.array_equal(first, case.rng(1).normal(size=4))
    assert not np.array_equal(first, Case({"n": 4}, "normal", 1.0, 13).rng(0).normal(size=4))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case({"n": 4}, "normal", 1.0, 1), "n=4, normal data"),
        (Case({"rows": 2, "cols": 3}, "scaled", 1e-3, 1), "rows=2 cols=3, scaled data scale=0.001"),
    ],
)
def test_a_case_describes_itself(case: Case, said: str) -> None:
    assert case.describe() == said


# Tokens ------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 100), min_size=3, max_size=3),
    scale=st.floats(allow_nan=False, allow_infinity=False),
    number=seeds,
)
def test_a_token_round_trips(
    tensor: Assignment, sizes: list[int], scale: float, number: int
) -> None:
    case = Case(dict(zip(tensor.dimensions, sizes, strict=True)), "normal", scale, number)
    text = token("add_bias", "large", case)
    assert not any(char.isspace() or char in "'\"$;&|<>()" for char in text), "needs no quoting"
    part, test, parsed = parse_token(text, tensor)
    assert (part.id, test, parsed) == ("add_bias", "large", case)


GOOD = "saxpy.base:n=4,family=normal,scale=1.0,seed=5"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a case"),
        ("saxpy:n=4", "is not a case"),
        ("saxpy.base", "is not a case: copy the one"),
        (GOOD.replace("saxpy.", "saxpi."), "no part 'saxpi' .*did you mean 'saxpy'"),
        (GOOD.replace(".base", ".bass"), "no test 'bass' .*did you mean 'base'"),
        (GOOD.replace("n=4,", ""), "does not say n="),
        (GOOD.replace("seed=5", ""), "does not say seed="),
        (GOOD.replace("scale", "scael"), "unknown 'scael' .*did you mean 'scale'"),
        (GOOD.replace("normal", "normel"), "unknown input family 'normel' .*mean 'normal'"),
        (GOOD.replace("n=4", "n=four"), "a number in the case is wrong"),
        (GOOD.replace("n=4", "n=0"), "out of range"),
        (GOOD.replace("n=4", "n=-4"), "out of range"),
        (GOOD.replace("n=4", "n=99999999999"), "out of range"),
        (GOOD.replace("seed=5", "seed=-5"), "out of range"),
        (GOOD.replace("seed=5", f"seed={1 << 53}"), "out of range"),
        (GOOD.replace("1.0", "nan"), "out of range"),
        (GOOD.replace("1.0", "inf"), "out of range"),
    ],
)
def test_a_wrong_token_says_what_is_wrong(saxpy: Assignment, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_token(text, saxpy)


def test_a_test_without_points_or_cases_has_no_token(tensor: Assignment) -> None:
    sizes = "batch=1,rows=1,cols=1,family=normal,scale=1.0,seed=5"
    for name in ("row_sums.speed", "row_sums.large"):
        with pytest.raises(UsageError, match="has no correctness test"):
            parse_token(f"{name}:{sizes}", tensor)


def test_the_good_token_is_good(saxpy: Assignment) -> None:
    assert parse_token(GOOD, saxpy)[2] == Case({"n": 4}, "normal", 1.0, 5)


# Smaller shapes ----------------------------------------------------------------------------------

spans = st.builds(
    lambda low, count, step: Range(low, low + count * step, step),
    st.integers(1, 20),
    st.integers(0, 30),
    st.integers(1, 5),
)


def spec(**dimensions: Range) -> Spec:
    return Spec(title="", families=("normal",), dimensions=dimensions, draws=1)


@st.composite
def legal_cases(draw: st.DrawFn) -> tuple[Spec, Case]:
    dims, legal = {}, {}
    for name in ("rows", "cols"):
        span = legal[name] = draw(spans)
        dims[name] = draw(st.sampled_from(range(span.min, span.max + 1, span.step)))
    return spec(**legal), Case(dims, "normal", 1.0, draw(seeds))


@given(legal_cases())
def test_smaller_is_legal_and_not_larger(drawn: tuple[Spec, Case]) -> None:
    test, case = drawn
    for name, size in smaller(case.dims, test).items():
        assert size in test.dimensions[name]
        assert size <= case.dims[name]
        assert size == test.dimensions[name].min or 2 * size <= case.dims[name]


def test_smaller_of_a_corner_beyond_the_range() -> None:
    assert smaller({"n": 9999}, spec(n=Range(1, 100))) == {"n": 100}


# Shrinking ---------------------------------------------------------------------------------------


@settings(NESTED, max_examples=20)
@given(legal_cases(), st.data())
def test_what_shrinking_finds_fails_too(drawn: tuple[Spec, Case], data: Any) -> None:
    test, case = drawn
    least = {name: data.draw(st.integers(1, size)) for name, size in case.dims.items()}

    def fails(candidate: Case) -> bool:
        assert all(candidate.dims[name] in legal for name, legal in test.dimensions.items())
        return all(candidate.dims[name] >= size for name, size in least.items())

    found = shrink(case, test, fails, max_tries=40, max_elements=10**6)
    assert fails(found)
    assert found.elements <= case.elements
    assert msgspec.structs.replace(found, dims=case.dims) == case


@pytest.mark.parametrize(
    ("size", "least"),
    [
        ((100, 1000), (3, 33)),
        ((64, 512), (1, 129)),
        ((5, 132), (1, 129)),
        ((300, 16), (257, 1)),
        ((7, 7), (1, 1)),
        ((2050, 64), (1, 1)),  # a corner beyond the range
    ],
)
def test_shrinking_finds_the_smallest_failing_shape(
    size: tuple[int, int], least: tuple[int, int]
) -> None:
    test = spec(rows=Range(1, 2000), cols=Range(1, 1000))
    case = Case({"rows": size[0], "cols": size[1]}, "normal", 1.0, 3)

    def fails(candidate: Case) -> bool:
        return candidate.dims["rows"] >= least[0] and candidate.dims["cols"] >= least[1]

    assert tuple(shrink(case, test, fails, 40, 10**6).dims.values()) == least


def test_shrinking_reaches_sizes_that_are_no_multiple_of_the_smallest() -> None:
    test = spec(rows=Range(1, 1), cols=Range(3, 5))
    case = Case({"rows": 1, "cols": 5}, "normal", 1.0, 3)
    assert shrink(case, test, lambda c: c.dims["cols"] >= 4, 40, 100).dims["cols"] == 4


@pytest.mark.parametrize("modulus", [2, 7, 32])
def test_shrinking_something_that_is_not_monotonic(modulus: int) -> None:
    def fails(case: Case) -> bool:
        return case.dims["n"] % modulus != 0

    case = Case({"n": 1003}, "normal", 1.0, 3)
    assert shrink(case, spec(n=Range(1, 2000)), fails, 40, 10**6).dims == {"n": 1}


def test_shrinking_what_fails_nowhere_else_keeps_the_case() -> None:
    case = Case({"n": 77}, "normal", 1.0, 3)
    assert shrink(case, spec(n=Range(1, 100)), lambda _: False, 40, 10**6) == case


@pytest.mark.parametrize(("tries", "elements"), [(5, 10**9), (1000, 300), (0, 10**9), (1000, 0)])
def test_shrinking_keeps_to_its_budget(tries: int, elements: int) -> None:
    asked: list[Case] = []

    def fails(case: Case) -> bool:
        asked.append(case)
        return case.dims["n"] >= 13

    case = Case({"n": 1000}, "normal", 1.0, 3)
    found = shrink(case, spec(n=Range(1, 2000)), fails, tries, elements)
    assert len(asked) <= tries
    assert sum(case.elements for case in asked) <= elements
    assert len({case.dims["n"] for case in asked}) == len(asked), "no shape is tried twice"
    assert found.dims["n"] >= 13
    assert fails(found)


def test_shrinking_is_repeatable() -> None:
    def run() -> tuple[Case, list[Case]]:
        asked: list[Case] = []

        def fails(case: Case) -> bool:
            asked.append(case)
            return case.elements >= 500

        start = Case({"rows": 100, "cols": 100}, "normal", 1.0, 3)
        test = spec(rows=Range(1, 100), cols=Range(1, 100))
        return shrink(start, test, fails, 40, 10**6), asked

    assert run() == run()


def test_draws_do_not_depend_on_the_program_around(
    saxpy: Assignment, tmp_path: Path, root: Path
) -> None:
    """Hypothesis collects numbers from local modules, and would leave files in the folder."""
    (tmp_path / "local.py").write_text(f"NUMBERS = {list(range(1000))}\n")
    script = (
        "import local, sys; from grader.assignment import load; from grader.cases import cases\n"
        "a = load(sys.argv[1]); print(list(cases(a, a.part('saxpy'), 'general', b'a master')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(saxpy.folder)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(made(saxpy, "saxpy", "general"))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] == ".") == []
