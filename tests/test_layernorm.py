"""The LayerNorm assignment: its float64 reference is right, and its error bound separates.

Right kernels are simulated in float32 numpy, in every order of summation and with every algorithm a
student may choose; they may use half of the bound at most. Wrong ones must exceed it in the input
family that is meant to expose them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.layernorm_simulation import (
    EPSILON,
    LAYERNORM,
    PARTS,
    REFERENCE,
    SUMS,
    Case,
    D,
    F,
    Sum,
    block,
    f32,
    forwards,
    inverse_root,
    lanes,
    one_pass,
    pinned,
    right_kernels,
    sequential,
    two_pass,
    used,
)


@pytest.mark.parametrize("part", PARTS)
def test_right_kernels_use_at_most_half_of_the_bound(part: str) -> None:
    check_right_kernels(part, range(1))


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_right_kernels_use_at_most_half_of_the_bound_in_many_draws(part: str) -> None:
    check_right_kernels(part, range(1, 11))


def check_right_kernels(part: str, seeds: range) -> None:
    for seed in seeds:
        for case in pinned(part, seed):
            for name, outputs in right_kernels(case):
                assert all(array.dtype == f32 for array in outputs.values())
                for output, fraction in case.used(outputs).items():
                    assert fraction <= 0.5, f"{case}: {name}: {output}"


# The reference -----------------------------------------------------------------------------------


def small_inputs(rows: int = 3, hidden_dim: int = 7) -> dict[str, D]:
    """Float64 inputs of all parts, with exact statistics: the reference works on them as well."""
    rng = np.random.default_rng(5)
    made = {
        "inp": rng.standard_normal((rows, hidden_dim)) * 0.01 + 0.02,
        "gamma": rng.uniform(0.5, 2.0, hidden_dim),
        "beta": rng.standard_normal(hidden_dim),
        "out_grad": rng.standard_normal((rows, hidden_dim)),
    }
    return made | {"means": made["inp"].mean(axis=1), "vars": made["inp"].var(axis=1)}


def values(part: str, inputs: dict[str, D]) -> dict[str, D]:
    """Float64 outputs of the reference. Only the backward parts are given the statistics."""
    rows, hidden_dim = inputs["inp"].shape
    names = LAYERNORM.part(part).arguments
    given: Any = {name: inputs[name] for name in names if name in inputs}
    if part == "forward":
        del given["means"], given["vars"]
    dims = {"rows": rows, "hidden_dim": hidden_dim}
    expected = LAYERNORM.expected(PARTS[part], dims, given, "plain")
    return {name: entry.value for name, entry in expected.items()}


@pytest.mark.parametrize(
    ("part", "output", "variable"),
    [
        ("dinp", "inp_grad", "inp"),
        ("dgamma_dbeta", "gamma_grad", "gamma"),
        ("dgamma_dbeta", "beta_grad", "beta"),
    ],
)
def test_gradients_agree_with_finite_differences(part: str, output: str, variable: str) -> None:
    inputs = small_inputs()

    def loss(moved: D) -> float:
        return float(np.sum(values("forward", inputs | {variable: moved})["ln_res"] * dy))

    dy, at, step = inputs["out_grad"], inputs[variable], 1e-6
    numeric = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        delta = np.zeros_like(at)
        delta[index] = step
        numeric[index] = (loss(at + delta) - loss(at - delta)) / (2 * step)
    exact = values(part, inputs)[output]
    np.testing.assert_allclose(numeric, exact, rtol=1e-5, atol=1e-6 * np.abs(exact).max())


def test_statistics_are_the_population_mean_and_variance() -> None:
    inputs = small_inputs()
    made = values("forward", inputs)
    rows, n = inputs["inp"].shape
    for r in range(rows):
        mean = sum(inputs["inp"][r]) / n
        np.testing.assert_allclose(made["means"][r], mean, rtol=1e-14)
        variance = sum((x - mean) ** 2 for x in inputs["inp"][r]) / n
        np.testing.assert_allclose(made["vars"][r], variance, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_reference_agrees_with_torch(seed: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    inputs = small_inputs(rows=int(rng.integers(1, 40)), hidden_dim=int(rng.integers(2, 300)))
    names = ("inp", "gamma", "beta")
    x, gamma, beta = (torch.tensor(inputs[name], requires_grad=True) for name in names)
    y = torch.nn.functional.layer_norm(x, (x.shape[1],), gamma, beta, float(EPSILON))
    y.backward(torch.tensor(inputs["out_grad"]))
    wanted = {
        "ln_res": y.detach(),
        "inp_grad": x.grad,
        "gamma_grad": gamma.grad,
        "beta_grad": beta.grad,
    }
    made: dict[str, D] = {}
    for part in PARTS:
        made |= values(part, inputs)
    for name, tensor in wanted.items():
        exact = tensor.numpy()
        np.testing.assert_allclose(made[name], exact, rtol=1e-9, atol=1e-11 * np.abs(exact).max())


@pytest.mark.parametrize("part", PARTS)
def test_reference_is_finite_and_every_scale_positive(part: str) -> None:
    cases = list(pinned(part))
    for name in LAYERNORM.tests_of(PARTS[part]):
        for family in LAYERNORM.test(name).families:
            for exponent in LAYERNORM.families[family].exponents:
                for rows, hidden_dim in ((1, 4), (7, 12), (1, 65536)):
                    cases.append(Case(part, name, rows, hidden_dim, family, 10.0**exponent, 3))
    for case in cases:
        for output, expected in case.expected.items():
            assert np.isfinite(expected.value).all(), f"{case}: {output}"
            assert np.isfinite(expected.scale).all(), f"{case}: {output}"
            assert (expected.scale > 0).all(), f"{case}: {output}"
            assert np.abs(expected.value).max() < 1e36, f"{case}: {output}"
        squares = np.sum(case.inputs["inp"].astype(np.float64) ** 2, axis=1)
        assert squares.max() < 3e38, f"{case}: a float32 sum of squares overflows"


@pytest.mark.parametrize("part", PARTS)
def test_inputs_are_what_the_launcher_takes(part: str) -> None:
    for case in pinned(part):
        arguments = set(PARTS[part].arguments) - set(PARTS[part].outputs) - set(case.dims)
        assert set(case.inputs) == arguments
        assert set(case.expected) == set(PARTS[part].outputs)
        for name, array in case.inputs.items():
            assert array.dtype == np.float32 and array.flags.c_contiguous
            assert array.shape == LAYERNORM.shape(name, case.dims)
        for name, expected in case.expected.items():
            assert expected.value.shape == LAYERNORM.shape(name, case.dims)
            assert expected.scale.shape == expected.value.shape


# The families ------------------------------------------------------------------------------------


def rows_of(family: str, rows: int, hidden_dim: int, scale: float = 1.0) -> D:
    rng = np.random.default_rng([rows, hidden_dim])
    dims = {"rows": rows, "hidden_dim": hidden_dim}
    made = REFERENCE.inputs("forward", family, dims, scale, rng)
    wide: D = made["inp"].astype(np.float64)
    return wide


@pytest.mark.parametrize("hidden_dim", [2, 3, 4, 8, 100, 4096])
@pytest.mark.parametrize("family", LAYERNORM.test("general").families)
def test_base_and_general_data_are_well_conditioned(family: str, hidden_dim: int) -> None:
    """The one-pass variance errs by about kappa**2 u: it must not decide these tests."""
    x = rows_of(family, 200_000 // hidden_dim, hidden_dim)
    kappa = np.abs(x).mean(axis=1) / np.sqrt(x.var(axis=1) + 1e-5)
    assert kappa.max() < 10
    assert set(LAYERNORM.test("base").families) <= set(LAYERNORM.test("general").families)


def test_rows_of_one_element_are_small() -> None:
    for family in LAYERNORM.test("general").families:
        assert np.abs(rows_of(family, 1000, 1)).max() < 1.0


def test_families_are_what_their_titles_say() -> None:
    variance = {name: rows_of(name, 64, 1000).var(axis=1) for name in LAYERNORM.families}
    assert np.allclose(variance["narrow"], 10 * 1e-5, rtol=0.3)
    assert np.all(variance["constant"][::2] == 0) and np.all(variance["constant"][1::2] > 0.5)
    for exponent in (2, 3, 4):
        x = rows_of("offset", 64, 1000, 10.0**exponent)
        ratio = np.abs(x.mean(axis=1)) / x.std(axis=1)
        assert np.allclose(ratio, 10.0**exponent, rtol=0.2)
    assert np.all(rows_of("tiny_variance", 64, 1000, 1e-2).var(axis=1) < 15e-5)
    assert np.all(rows_of("tiny_variance", 64, 1000, 1e-5).var(axis=1) < 1e-9)
    shifted = np.abs(rows_of("shifted", 64, 1000).mean(axis=1))
    assert np.all((shifted > 3) & (shifted < 5))
    mixed = rows_of("mixed", 64, 1000)
    assert mixed.std(axis=1).max() > 20 * mixed.std(axis=1).min()
    uniform = rows_of("uniform", 64, 1000)
    assert uniform.min() >= 0 and uniform.max() <= 1


def test_constant_rows_are_exact_in_every_order() -> None:
    x = rows_of("constant", 9, 4096).astype(np.float32)[::2]
    for total in SUMS:
        mean, var = two_pass(x, total)
        assert np.all(mean == x[:, :1]) and np.all(var == 0)


@pytest.mark.parametrize("part", PARTS)
def test_gamma_and_beta_are_never_trivial(part: str) -> None:
    for case in pinned(part):
        for name in {"gamma", "beta"} & set(case.inputs):
            size = np.abs(case.inputs[name])
            assert size.min() > (1.2 if name == "gamma" else 0)


# Wrong kernels -----------------------------------------------------------------------------------


def half(a: F) -> F:
    return np.clip(a, -65504, 65504).astype(np.float16).astype(f32)


def rounded_to(bits: int) -> Callable[[F], F]:
    """Rounding to a shorter significand: 8 bits make bfloat16, 11 make tf32."""

    def round_off(a: F) -> F:
        drop = 24 - bits
        whole = np.ascontiguousarray(a).view(np.uint32)
        return ((whole + (1 << (drop - 1))) >> drop << drop).view(f32)

    return round_off


LOW_PRECISION = {"half": half, "bfloat16": rounded_to(8), "tf32": rounded_to(11)}


def simple(case: Case, inputs: dict[str, F], rho_of: Callable[[F, F], F]) -> dict[str, F]:
    """A two-pass kernel of any part, with its own idea of 1/sqrt(vars + epsilon)."""
    x = inputs["inp"]
    mean, var = two_pass(x, lanes)
    if case.part == "forward":
        rho = rho_of(x, var)
        result = (x - mean) * rho * inputs["gamma"] + inputs["beta"]
        return {"ln_res": result, "vars": var[:, 0], "means": mean[:, 0]}
    mean, var = inputs["means"][:, None], inputs["vars"][:, None]
    rho, dy, n = rho_of(x, var), inputs["out_grad"], f32(x.shape[1])
    xhat = (x - mean) * rho
    if case.part == "dgamma_dbeta":
        return {"gamma_grad": lanes((dy * xhat).T), "beta_grad": lanes(dy.T)}
    g = dy * inputs["gamma"]
    s1, s2 = lanes(g)[:, None], lanes(g * xhat)[:, None]
    return {"inp_grad": rho * (g - s1 / n - xhat * s2 / n)}


def right_rho(x: F, var: F) -> F:
    return inverse_root(var)


WRONG_RHO: dict[str, Callable[[F, F], F]] = {
    "epsilon forgotten": lambda x, var: f32(1) / np.sqrt(np.maximum(var, f32(1e-37))),
    "epsilon twice": lambda x, var: inverse_root(var, f32(2e-5)),
    "epsilon outside": lambda x, var: f32(1) / (np.sqrt(var) + EPSILON),
    "epsilon 1e-6": lambda x, var: inverse_root(var, f32(1e-6)),
    "epsilon 1e-8": lambda x, var: inverse_root(var, f32(1e-8)),
    "epsilon 1e-3": lambda x, var: inverse_root(var, f32(1e-3)),
    "unbiased": lambda x, var: inverse_root(var * f32(x.shape[1] / max(1, x.shape[1] - 1))),
}


def rejected(case: Case, outputs: dict[str, F]) -> bool:
    return max(case.used(outputs).values()) > 1


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("mistake", WRONG_RHO)
def test_wrong_epsilon_or_variance_is_rejected(mistake: str, part: str) -> None:
    """In every case made for it, so in `base` already."""
    seen = set()
    for case in pinned(part):
        exposed = case.family in ("narrow", "tiny_variance")
        if mistake == "unbiased":
            exposed = case.test != "stability" and case.dims["hidden_dim"] <= 1028
        if exposed and case.dims["hidden_dim"] > 1:
            outputs = simple(case, case.inputs, WRONG_RHO[mistake])
            if case.part == "dinp" and case.dims["hidden_dim"] == 2:
                continue  # inp_grad is close to 0 whatever rho is
            assert rejected(case, outputs), case
            seen.add(case.test)
    assert {"base", "general"} <= seen


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("precision", LOW_PRECISION)
def test_low_precision_is_rejected(precision: str, part: str) -> None:
    for case in pinned(part):
        if case.dims["rows"] > 10_000 or case.dims["hidden_dim"] == 1:
            continue  # so many terms that their roundings cancel; or a gradient of 0
        if case.family == "offset" and case.scale == 1e4:
            continue  # a mean in float32 is uncertain by 1e-3 standard deviations there
        inputs = {name: LOW_PRECISION[precision](array) for name, array in case.inputs.items()}
        with np.errstate(all="ignore"):
            assert rejected(case, simple(case, inputs, right_rho)), case


def test_stored_variance_with_epsilon_is_rejected_in_base() -> None:
    for case in pinned("forward"):
        if case.family in ("narrow", "tiny_variance"):
            wrong = simple(case, case.inputs, right_rho)
            wrong["vars"] = wrong["vars"] + EPSILON
            assert rejected(case, wrong), case


@pytest.mark.parametrize("total", [sequential, lanes, block])
def test_one_pass_variance_fails_the_stability_test_alone(total: Sum) -> None:
    with np.errstate(invalid="ignore"):
        for case in pinned("forward"):
            mean, var = one_pass(case.inputs["inp"], total)
            outputs = {"ln_res": next(forwards(case, mean, var))["ln_res"], "vars": var[:, 0]}
            assert case.test == "stability" or not rejected(case, outputs), case
            if case.family == "offset":
                assert rejected(case, outputs), case


def test_each_term_of_the_input_gradient_matters() -> None:
    for case in pinned("dinp"):
        if case.dims["hidden_dim"] < 3 or case.scale == 1e4:
            continue
        expected = case.expected["inp_grad"]
        for sentence, wrong in expected.mistakes.items():
            if "epsilon" in sentence or "hidden_dim - 1" in sentence:
                continue
            forgets_xhat = "xhat" in sentence or "mean(x*x)" in sentence
            if case.family == "constant" and case.dims["rows"] == 1 and forgets_xhat:
                continue
            if case.family == "scaled" or "subtract the mean" in sentence:
                continue
            assert used(expected, wrong) > 1, f"{case}: {sentence}"


@pytest.mark.parametrize("part", PARTS)
def test_trivial_answers_fail_every_case(part: str) -> None:
    for case in pinned(part):
        if part == "dinp" and case.dims["hidden_dim"] == 1:
            continue  # the gradient of a row of one element is 0
        shapes = {name: expected.value.shape for name, expected in case.expected.items()}
        for constant in (0.0, 1.0, float("nan")):
            answer = {name: np.full(shape, constant, f32) for name, shape in shapes.items()}
            assert rejected(case, answer), f"{case}: all {constant}"
        for name, shape in shapes.items():
            for source, array in case.inputs.items():
                if array.shape == shape and case.dims["hidden_dim"] > 1:
                    assert used(case.expected[name], array) > 1, f"{case}: {name} copies {source}"


def test_mistakes_are_recognised() -> None:
    """The sentence for a student names the mistake that was made, and no other."""
    from grader.compare import compare

    for part in PARTS:
        named = set()
        every = set()
        for case in pinned(part):
            for output, expected in case.expected.items():
                for sentence, wrong in expected.mistakes.items():
                    every.add(sentence)
                    with np.errstate(over="ignore"):
                        found = compare(wrong.astype(f32), expected, LAYERNORM.arrays[output])
                    if found is not None and found.mistake == sentence:
                        named.add(sentence)
        assert named == every, every - named
