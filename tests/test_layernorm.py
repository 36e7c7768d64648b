"""The LayerNorm assignment: its float64 reference is right, and its error bound separates.

Right kernels are simulated in float32 numpy, in every order of summation and with every algorithm a
student may choose; they may use half of the bound at most. Wrong ones must exceed it in the input
family that is meant to expose them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import grader
from grader.assignment import Expected

F = NDArray[Any]  # of float32: numpy's annotations widen arithmetic on it
D = NDArray[np.float64]
f32 = np.float32

LAYERNORM = grader.assignment("layernorm")
REFERENCE = LAYERNORM.reference
PARTS = {part.id: part for part in LAYERNORM.parts}
EPSILON = f32(1e-5)
ROUNDOFF = 2.0**-24


class Case:
    """One pinned case (or a made-up one) with its inputs and its expected outputs."""

    def __init__(
        self, part: str, test: str, rows: int, hidden_dim: int, family: str, scale: float, seed: int
    ) -> None:
        self.part, self.test, self.family, self.scale = part, test, family, scale
        self.dims = {"rows": rows, "hidden_dim": hidden_dim}
        rng = np.random.default_rng([seed, rows, hidden_dim])
        self.inputs = LAYERNORM.inputs(PARTS[part], family, self.dims, scale, rng)
        self.bound = LAYERNORM.test(test).bound
        self.expected = LAYERNORM.expected(PARTS[part], self.dims, self.inputs, self.bound)

    def __str__(self) -> str:
        rows, hidden_dim = self.dims.values()
        return f"{self.part}.{self.test} {rows}x{hidden_dim} {self.family} {self.scale:g}"

    __repr__ = __str__

    def used(self, outputs: dict[str, Any]) -> dict[str, float]:
        """The largest fraction of the bound that each output uses; infinite if not finite."""
        return {name: used(self.expected[name], got) for name, got in outputs.items()}


def used(expected: Expected, got: NDArray[Any]) -> float:
    if not np.isfinite(got).all():
        return float("inf")
    allowed = (16.0 + np.sqrt(expected.terms)) * ROUNDOFF * expected.scale
    return float(np.max(np.abs(got.astype(np.float64) - expected.value) / allowed))


def pinned(part: str, seed: int = 0) -> Iterator[Case]:
    for name in LAYERNORM.tests_of(PARTS[part]):
        test = LAYERNORM.test(name)
        for corner in test.pinned:
            if part in corner.get("parts", [part]):
                family = corner.get("family", test.families[0])
                scale = corner.get("scale", 1.0)
                yield Case(part, name, corner["rows"], corner["hidden_dim"], family, scale, seed)


# Float32 kernels ---------------------------------------------------------------------------------

Sum = Callable[[F], F]  # sums over the last axis


def sequential(a: F) -> F:
    return np.add.accumulate(a, axis=-1, dtype=f32)[..., -1]


def backwards(a: F) -> F:
    return sequential(a[..., ::-1])


def any_order(a: F) -> F:
    """An atomicAdd per element: the order is arbitrary."""
    order = np.random.default_rng(a.shape[-1]).permutation(a.shape[-1])
    return sequential(a[..., order])


def lanes(a: F, width: int = 32) -> F:
    """Strided partial sums, then a tree: what a warp or a block does."""
    padded = np.zeros((*a.shape[:-1], -(-a.shape[-1] // width) * width), f32)
    padded[..., : a.shape[-1]] = a
    part = np.add.accumulate(padded.reshape(*a.shape[:-1], -1, width), axis=-2, dtype=f32)[
        ..., -1, :
    ]
    while part.shape[-1] > 1:
        half = part.shape[-1] // 2
        part = part[..., :half] + part[..., half:]
    return part[..., 0]


def block(a: F) -> F:
    return lanes(a, 1024)


def chunks(a: F) -> F:
    """Blocks of 256 elements one after another, their sums added in order."""
    parts = [sequential(a[..., i : i + 256]) for i in range(0, a.shape[-1], 256)]
    return sequential(np.stack(parts, axis=-1))


SUMS: list[Sum] = [sequential, backwards, any_order, lanes, block, chunks]


def fma(a: F, b: F, c: F) -> F:
    return (a.astype(np.float64) * b + c).astype(f32)


Statistics = tuple[F, F]  # mean and variance of each row, as columns
Algorithm = Callable[[F, Sum], Statistics]


def mean_of(x: F, total: Sum) -> F:
    return (total(x) / f32(x.shape[1]))[:, None]


def two_pass(x: F, total: Sum) -> Statistics:
    mean = mean_of(x, total)
    centred = x - mean
    return mean, mean_of(centred * centred, total)


def reciprocal(x: F, total: Sum) -> Statistics:
    """Two passes, multiplying by 1/hidden_dim instead of dividing."""
    inverse = f32(1) / f32(x.shape[1])
    mean = (total(x) * inverse)[:, None]
    centred = x - mean
    return mean, (total(centred * centred) * inverse)[:, None]


def one_pass(x: F, total: Sum) -> Statistics:
    mean = mean_of(x, total)
    return mean, mean_of(x * x, total) - mean * mean


def one_pass_fused(x: F, total: Sum) -> Statistics:
    """As nvcc contracts it: the square of the mean is not rounded before it is subtracted."""
    mean = mean_of(x, total)
    return mean, fma(-mean, mean, mean_of(x * x, total))


def shifted(x: F, total: Sum) -> Statistics:
    """One pass over the distances from the row's first element."""
    first = x[:, :1]
    mean, var = one_pass(x - first, total)
    return first + mean, np.maximum(var, f32(0))


def welford(x: F, total: Sum) -> Statistics:
    """Welford's updates by 32 lanes, their results merged by a tree (Chan, Golub, LeVeque)."""
    rows, n = x.shape
    width = 1 if total is sequential else 32
    count = np.zeros((rows, width), f32)
    mean = np.zeros((rows, width), f32)
    m2 = np.zeros((rows, width), f32)
    for start in range(0, n, width):
        piece = x[:, start : start + width]
        w = piece.shape[1]
        count[:, :w] += f32(1)
        delta = piece - mean[:, :w]
        mean[:, :w] += delta / count[:, :w]
        m2[:, :w] += delta * (piece - mean[:, :w])
    while width > 1:
        width //= 2
        na, nb = count[:, :width], count[:, width:]
        both = np.maximum(na + nb, f32(1))
        delta = mean[:, width:] - mean[:, :width]
        mean = mean[:, :width] + delta * nb / both
        m2 = m2[:, :width] + m2[:, width:] + delta * delta * na * nb / both
        count = na + nb
    return mean, m2 / f32(n)


def statistics_for(bound: str) -> list[Algorithm]:
    stable: list[Algorithm] = [two_pass, reciprocal, shifted, welford]
    return [*stable, one_pass, one_pass_fused] if bound == "one_pass" else stable


def inverse_root(var: F, epsilon: np.float32 = EPSILON) -> F:
    return f32(1) / np.sqrt(var + epsilon)


def approximate_root(var: F) -> F:
    """A reciprocal square root that is 2 units in the last place off, as rsqrt.approx may be."""
    return inverse_root(var) * f32(1 + 2 * 2.0**-23)


def forwards(case: Case, mean: F, var: F) -> Iterator[dict[str, F]]:
    """The last step of the forward pass in the forms that students write it in."""
    x, gamma, beta = case.inputs["inp"], case.inputs["gamma"], case.inputs["beta"]
    stored = {"vars": var[:, 0], "means": mean[:, 0]}
    rho = inverse_root(var)
    yield {"ln_res": (x - mean) * rho * gamma + beta, **stored}
    yield {"ln_res": (x - mean) / np.sqrt(var + EPSILON) * gamma + beta}
    yield {"ln_res": fma((x - mean) * approximate_root(var), gamma, beta)}
    yield {"ln_res": fma(x, rho * gamma, fma(-mean, rho * gamma, beta))}
    yield {"ln_res": (x * rho - mean * rho) * gamma + beta}


def dgammas(case: Case, mean: F, var: F, total: Sum) -> Iterator[dict[str, F]]:
    x, dy = case.inputs["inp"], case.inputs["out_grad"]
    rho = inverse_root(var)
    yield {
        "gamma_grad": total((dy * ((x - mean) * rho)).T),
        "beta_grad": total(dy.T),
    }
    yield {"gamma_grad": total((dy * (x - mean) / np.sqrt(var + EPSILON)).T)}
    yield {"gamma_grad": total((dy * (x - mean) * approximate_root(var)).T)}
    yield {"gamma_grad": total((dy * x * rho).T) - total((dy * (mean * rho)).T)}


def dinps(case: Case, mean: F, var: F, total: Sum) -> Iterator[dict[str, F]]:
    x, dy, gamma = case.inputs["inp"], case.inputs["out_grad"], case.inputs["gamma"]
    n = f32(x.shape[1])
    rho = inverse_root(var)
    g = dy * gamma
    xhat = (x - mean) * rho
    s1, s2 = total(g)[:, None], total(g * xhat)[:, None]
    yield {"inp_grad": rho * (g - s1 / n - xhat * (s2 / n))}
    yield {"inp_grad": (n * g - s1 - xhat * s2) / n * rho}
    yield {"inp_grad": fma(-xhat, s2 / n, g - s1 / n) * approximate_root(var)}
    s2 = (total(g * x)[:, None] - mean * s1) * rho
    yield {"inp_grad": rho * (g - (s1 + xhat * s2) / n)}
    b = -s2 / n * rho * rho
    yield {"inp_grad": rho * g + (b * x + (-b * mean - s1 / n * rho))}


def right_kernels(case: Case) -> Iterator[tuple[str, dict[str, F]]]:
    """Outputs of right kernels, with a name for the report."""
    x = case.inputs["inp"]
    for total in SUMS:
        choices = []
        for algorithm in statistics_for(case.bound):
            extreme = total in (sequential, lanes)
            if not extreme and (algorithm is welford or case.part != "forward"):
                continue
            choices.append((f"{algorithm.__name__} {total.__name__}", algorithm(x, total)))
        if case.part == "forward":
            for name, (mean, var) in choices:
                for made in forwards(case, mean, var):
                    yield name, made
            continue
        given = case.inputs["means"][:, None], case.inputs["vars"][:, None]
        kernels = dgammas if case.part == "dgamma_dbeta" else dinps
        for name, (mean, var) in [(f"given {total.__name__}", given), *choices]:
            for made in kernels(case, mean, var, total):
                yield name, made


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
