"""Variations are exact: the reference agrees with them, whatever is drawn."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader import variation
from grader.assignment import Assignment, load, names
from grader.manifest import Part
from grader.variation import Rule, Variation, Vector

HERE = Path(__file__).parent / "assignments"
LAYERNORM = load("layernorm")
SAXPY = load(HERE / "saxpy")
ASSIGNMENTS = [SAXPY, load(HERE / "tensor"), *map(load, names())]
PARTS = [
    pytest.param(assignment, part, id=f"{assignment.id}.{part.id}")
    for assignment in ASSIGNMENTS
    for part in assignment.parts
]


ONE_ROW = np.zeros(1, np.uint32)


def drawn(rows: int, base_rows: int, seed: int) -> Rule:
    """A random rule for an array of saxpy's."""
    rng = np.random.default_rng(seed)
    dims, base = {"n": rows}, {"n": base_rows}
    order = variation.order(SAXPY, dims, base, rng)
    chosen = variation.draw(SAXPY, SAXPY.parts[0], dims, rng)
    return variation.rule(chosen, SAXPY, SAXPY.parts[0], "x", dims, base, order)


def bound_of(assignment: Assignment) -> str:
    return next(test.bound for test in assignment.tests.values() if test.families)


# The reference agrees ----------------------------------------------------------------------------


@pytest.mark.parametrize(("assignment", "part"), PARTS)
@settings(max_examples=25)
@given(st.data())
def test_varied_inputs_have_the_varied_answer(
    assignment: Assignment, part: Part, data: st.DataObject
) -> None:
    base = {name: data.draw(st.integers(1, 9), name) for name in assignment.dimensions}
    dims = dict(base)
    if assignment.batch is not None:
        dims[assignment.batch] *= data.draw(st.integers(1, 6), "repeats")
    seed = data.draw(st.integers(0, 1 << 32), "seed")
    check_variation(assignment, part, dims, base, seed)


def check_variation(
    assignment: Assignment, part: Part, dims: dict[str, int], base: dict[str, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    bound, family = bound_of(assignment), next(iter(assignment.families))
    inputs = assignment.inputs(part, family, base, 1.0, rng)
    expected = assignment.expected(part, base, inputs, bound)
    order = variation.order(assignment, dims, base, rng)
    chosen = variation.draw(assignment, part, dims, rng)

    def rule(name: str) -> Rule:
        return variation.rule(chosen, assignment, part, name, dims, base, order)

    varied = {
        name: rule(name).apply(array, assignment.shape(name, dims))
        for name, array in inputs.items()
        if name in part.arguments
    }
    answer = assignment.expected(part, dims, varied, bound)
    for name in part.outputs:
        shape = assignment.shape(name, dims)
        batch = assignment.batch
        summed = batch is not None and batch not in assignment.arrays[name]
        repeats = dims[batch] // base[batch] if batch and summed else 1
        value = repeats * rule(name).apply(expected[name].value, shape)
        scale = repeats * np.abs(rule(name).apply(expected[name].scale, shape))
        assert np.all(np.abs(value - answer[name].value) <= 1e-12 * scale), name
        np.testing.assert_allclose(scale, answer[name].scale, rtol=1e-12, atol=2.0**-90)
        assert expected[name].terms * repeats >= answer[name].terms


@pytest.mark.parametrize(("assignment", "part"), PARTS)
def test_another_variation_gives_other_data(assignment: Assignment, part: Part) -> None:
    """Else a submission could keep its answer from one call to the next."""
    dims = dict.fromkeys(assignment.dimensions, 8)
    rng = np.random.default_rng(3)
    inputs = assignment.inputs(part, next(iter(assignment.families)), dims, 1.0, rng)
    order = variation.order(assignment, dims, dims, rng)
    seen = set()
    for _ in range(8):
        chosen = variation.draw(assignment, part, dims, rng)
        data = b""
        for name in part.arguments:
            if name in inputs:
                rule = variation.rule(chosen, assignment, part, name, dims, dims, order)
                data += rule.apply(inputs[name], inputs[name].shape).tobytes()
        seen.add(data)
    assert len(seen) == 8


# The order of rows -------------------------------------------------------------------------------


@given(st.integers(1, 50), st.integers(1, 9), st.integers(0, 1 << 32))
def test_every_row_of_the_base_has_as_many_places(base: int, repeats: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = variation.order(SAXPY, {"n": base * repeats}, {"n": base}, rng)
    assert order.dtype == np.uint32
    assert (np.bincount(order, minlength=base) == repeats).all()


def test_the_order_tells_nothing_of_the_rest() -> None:
    """Rows do not repeat in a period: one that knew the first ones could not tell the others."""
    order = variation.order(SAXPY, {"n": 1024}, {"n": 64}, np.random.default_rng(2))
    for period in range(1, 512):
        assert np.mean(order[period:] == order[:-period]) < 0.1, period
    assert (order != variation.order(SAXPY, {"n": 1024}, {"n": 64}, np.random.default_rng(3))).any()


# Rules -------------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.integers(0, 1 << 32))
@example(1, 0)
@example(2, 0)
def test_rows_are_permuted(rows: int, seed: int) -> None:
    rule = drawn(rows, rows, seed)
    assert sorted(rule.base_index(np.arange(rows))) == list(range(rows))


@given(st.integers(1, 50), st.integers(1, 9), st.integers(0, 1 << 32))
def test_every_row_of_the_base_is_repeated_alike(base: int, repeats: int, seed: int) -> None:
    rule = drawn(base * repeats, base, seed)
    counts = np.bincount(rule.base_index(np.arange(base * repeats)), minlength=base)
    assert (counts == repeats).all()


def test_an_array_without_the_batch_keeps_its_order() -> None:
    tensor = ASSIGNMENTS[1]
    dims, base = {"batch": 6, "rows": 2, "cols": 5}, {"batch": 3, "rows": 2, "cols": 5}
    chosen = variation.draw(tensor, tensor.part("add_bias"), dims, np.random.default_rng(1))
    rule = variation.rule(
        chosen,
        tensor,
        tensor.part("add_bias"),
        "bias",
        dims,
        base,
        np.arange(6, dtype=np.uint32) % 3,
    )
    assert list(rule.base_index(np.arange(5))) == [0, 1, 2, 3, 4]


def test_rows_in_the_middle_move_within_their_slice() -> None:
    """Rule.rows may be any axis: what comes before it stays, what comes after goes along."""
    order = np.array([1, 1, 0, 0], np.uint32)
    rule = Rule(rows=4, base_rows=2, inner=3, multiplier=3, shift=1, order=order, vectors=())
    base = np.arange(2 * 2 * 3, dtype=np.float32).reshape(2, 2, 3)
    varied = rule.apply(base, (2, 4, 3))
    for slice_ in range(2):
        for row in range(4):
            np.testing.assert_array_equal(
                varied[slice_, row], base[slice_, order[(3 * row + 1) % 4]]
            )


@given(
    st.lists(
        st.builds(Vector, st.integers(1, 7), st.integers(1, 9), st.integers(0, 2**32 - 1),
                  st.integers(0, 30)),
        max_size=4,
    )
)  # fmt: skip
def test_factors_are_signed_powers_of_two(vectors: list[Vector]) -> None:
    factors = Rule(1, 1, 100, 1, 0, ONE_ROW, tuple(vectors)).factor(np.arange(100))
    mantissas, exponents = np.frexp(factors)
    assert (np.abs(mantissas) == 0.5).all()
    assert (np.abs(exponents - 1) <= sum(vector.exponent for vector in vectors)).all()
    assert (np.float32(factors) == factors).all(), "exact in float32, too"


def test_factors_use_all_that_they_may() -> None:
    factors = Rule(1, 1, 1000, 1, 0, ONE_ROW, (Vector(1, 1000, 5, 2),)).factor(np.arange(1000))
    assert {*np.unique(factors)} == {sign * 2.0**k for sign in (-1, 1) for k in range(-2, 3)}


def test_a_factor_depends_on_its_dimension_alone() -> None:
    tensor, dims = ASSIGNMENTS[1], {"batch": 3, "rows": 4, "cols": 5}
    chosen = Variation(1, 0, (99,))
    order = np.arange(3, dtype=np.uint32)
    rule = variation.rule(chosen, tensor, tensor.part("add_bias"), "a", dims, dims, order)
    factors = rule.factor(np.arange(60)).reshape(3, 4, 5)
    assert (factors == factors[0, 0]).all()
    assert len(np.unique(factors[0, 0])) > 1


# Signs -------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 1 << 32))
def test_a_sum_over_signed_rows_is_that_of_their_weights(
    base_rows: int, repeats: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = base_rows * repeats
    order = rng.permutation(np.arange(rows, dtype=np.uint32) % np.uint32(base_rows))
    signs = variation.with_signs(order, rng)
    base = rng.integers(-9, 9, (base_rows, 3)).astype(np.float32)
    varied = Rule(rows, base_rows, 3, 1, 0, signs, ()).apply(base, (rows, 3))
    weights = variation.weights(signs, base_rows)
    np.testing.assert_array_equal(varied.sum(axis=0), weights @ base)
    np.testing.assert_array_equal(np.abs(varied), np.abs(base[order]))


def test_about_half_of_the_rows_change_their_signs() -> None:
    signs = variation.with_signs(np.zeros(4096, np.uint32), np.random.default_rng(1))
    assert 1900 < np.count_nonzero(signs) < 2200


# Base dimensions ---------------------------------------------------------------------------------


@given(st.integers(1, 1 << 20), st.integers(1, 5000), st.integers(1, 1 << 18))
def test_the_base_is_a_divisor_that_is_small_enough(
    rows: int, hidden_dim: int, elements: int
) -> None:
    dims = {"rows": rows, "hidden_dim": hidden_dim}
    base = variation.base_dims(LAYERNORM, dims, elements)
    assert base["hidden_dim"] == hidden_dim
    assert rows % base["rows"] == 0
    assert math.prod(base.values()) <= elements or base["rows"] % 2 == 1
    if base["rows"] < rows:
        assert 2 * math.prod(base.values()) > elements, "no smaller than it must be"


def test_without_a_batch_nothing_gets_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    saxpy = load(HERE / "saxpy")
    monkeypatch.delattr(saxpy.reference, "BATCH")
    assert variation.base_dims(saxpy, {"n": 1 << 22}) == {"n": 1 << 22}
    chosen = variation.draw(saxpy, saxpy.parts[0], {"n": 64}, np.random.default_rng(1))
    assert (chosen.multiplier, chosen.shift) == (1, 0)
    order = variation.order(saxpy, {"n": 64}, {"n": 64}, np.random.default_rng(1))
    assert order.tolist() == [0]
    check_variation(saxpy, saxpy.parts[0], {"n": 64}, {"n": 64}, 5)


@given(st.integers(1, 10_000), st.integers(0, 1 << 32))
def test_what_is_drawn_is_legal(rows: int, seed: int) -> None:
    part = LAYERNORM.parts[0]
    dims = {"rows": rows, "hidden_dim": 4}
    chosen = variation.draw(LAYERNORM, part, dims, np.random.default_rng(seed))
    assert math.gcd(chosen.multiplier, rows) == 1
    assert 1 <= chosen.multiplier <= rows and 0 <= chosen.shift < rows
    assert len(chosen.keys) == len(LAYERNORM.factors(part))
    assert all(0 <= key < 1 << 32 for key in chosen.keys)
