"""Float32 simulations of LayerNorm kernels: all algorithms for the statistics, all orders of sums.

What tests/test_layernorm.py holds against the error bound of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
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
