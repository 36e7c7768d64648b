"""LayerNorm in float64: inputs, right answers, and how far float32 arithmetic may be from them.

A kernel's element `got` is accepted iff it is finite and

    |got - value| <= K(N) * u * scale      u = 2**-24, float32's unit roundoff; K(N) = 16 + sqrt(N)

so every function here returns a value and a scale per element. A scale is a first-order forward
error bound with its constants left to K(N): each rounding, and each sum of N terms, contributes the
sum of the absolute values it works on (Higham, Accuracy and Stability of Numerical Algorithms,
chapters 3 and 4: |fl(sum x) - sum x| <= c u sum |x|, with c from log2 N for a tree to N - 1 in the
worst order; errors of independent sign bring it down to about sqrt N in any order, atomics
included). Error scales with the terms that were added, not with the result, which may have
cancelled to almost nothing: that is why a relative tolerance on the result fails right kernels and
an absolute one passes wrong ones.

Notation, per row of H elements: mu = mean x, A = max |x|, xc = x - mu, v = mean xc**2,
rho = 1 / sqrt(v + epsilon), xhat = xc * rho, kappa = A * rho (how far the row lies from zero,
measured in its own spread). Errors are written in units of u.

Mean.      A sum of H terms, divided: c mean |x|. Running means (Welford) and distances from the
           row's first element are not bounded by mean |x|, but by the largest element:
               S_mean = A

Variance.  An algorithm that is right for data rounded once (x (1 + d), |d| <= 1) makes the error
           2 mean(|xc| |x|); working against a running mean (Welford, merging of chunks) adds
           2 A mean |xc| for the roundings of that mean, and the sum of the squares itself v. Two
           passes centre around a mean that is off by K A, which costs the second-order term
           K**2 A**2 u (Chan, Golub, LeVeque 1983; Higham, problem 1.10), so with K taken out
               S_var = v + 2 mean(|xc| (|x| + A)) + K u A**2                     bound "plain"
           The one-pass formula mean(x**2) - mu**2 cancels and keeps the errors of both terms:
               S_var + mean(x**2) + 2 A |mu|                                     bound "one_pass"
           Relative to v + epsilon that is about 3 kappa2 more, kappa2 = mean(x**2) rho**2: harmless
           for kappa up to 10, which the families of `base` and `general` keep to; ruinous at 1000.

rho.       d rho / rho = -1/2 dv / (v + epsilon), and a few roundings (an approximate reciprocal
           square root is good to two or three of them):
               E_rho = 1 + S_var rho**2 / 2                                      relative

xhat.      (x - mu) rho, or x rho - mu rho, which rounds both products:
               E_xhat = (|x| + A) rho + |xhat| E_rho

The backward parts receive means and vars, rounded to float32. A kernel may use them (that is the
contract) or compute them again from inp; E_xhat covers both, since it holds the errors of the
statistics themselves. Regrouped formulas need no further term: what sum(dy x) - mu sum(dy) loses
per element is |dy| (|x| + |mu|) rho, which is part of |dy| E_xhat.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from grader.assignment import Expected, Factor, Family

Array = NDArray[np.float64]
Inputs = Mapping[str, NDArray[np.float32]]
Dims = Mapping[str, int]

ARRAYS: dict[str, tuple[str, ...]] = {
    "inp": ("rows", "hidden_dim"),
    "gamma": ("hidden_dim",),
    "beta": ("hidden_dim",),
    "ln_res": ("rows", "hidden_dim"),
    "means": ("rows",),
    "vars": ("rows",),
    "out_grad": ("rows", "hidden_dim"),
    "gamma_grad": ("hidden_dim",),
    "beta_grad": ("hidden_dim",),
    "inp_grad": ("rows", "hidden_dim"),
}

FAMILIES: dict[str, Family] = {
    "normal": Family("inp is normal with mean 0 and standard deviation 1"),
    "uniform": Family("inp is uniform between 0 and 1"),
    "shifted": Family("inp is normal with standard deviation 1 and mean 4 or -4"),
    "mixed": Family("every row of inp has its own mean and standard deviation"),
    "narrow": Family("inp is normal with standard deviation 0.01: its variance is 10 epsilon"),
    "offset": Family("the mean of inp is 100 to 10000 times its standard deviation", (2, 4)),
    "tiny_variance": Family("the variance of inp is around or below epsilon", (-5, -2)),
    "constant": Family("every other row of inp is constant: its variance is 0"),
    "scaled": Family("inp is very small or very large", (-15, 15)),
    "tiny_gradient": Family("out_grad is tiny", (-15, -3)),
}

# Symmetries, exact in floating point: with them timing makes fresh data from one verified case.
BATCH = "rows"  # rows are independent; gamma_grad and beta_grad are sums over them
LINEAR = {"dgamma_dbeta": "out_grad"}
FACTORS: dict[str, tuple[Factor, ...]] = {
    "forward": (
        Factor(("gamma", "beta", "ln_res"), "hidden_dim", exponent=2),
        Factor(("inp", "means", "gamma"), None),  # xhat and gamma change their signs together
    ),
    "dgamma_dbeta": (
        Factor(("out_grad", "gamma_grad", "beta_grad"), "hidden_dim", exponent=2),
        Factor(("inp", "means", "gamma_grad"), None),
    ),
    "dinp": (
        Factor(("out_grad", "inp_grad"), "rows", exponent=2),
        Factor(("out_grad", "gamma"), "hidden_dim"),  # dxhat, their product, stays
        Factor(("inp", "means"), None),  # xhat occurs twice in the projection
    ),
}

EPSILON = float(np.float32(1e-5))  # LN_EPSILON as the C compiler sees it
ROUNDOFF = 2.0**-24
UNDERFLOW = 2.0**-102  # K u times this is about the smallest normal float32: that may flush to 0


# Inputs ------------------------------------------------------------------------------------------


def inputs(
    part: str, family: str, dims: Dims, scale: float, rng: np.random.Generator
) -> dict[str, NDArray[np.float32]]:
    """The input arrays of a part. No answer is trivial: gamma is far from 0 and 1, beta from 0."""
    rows, hidden_dim = dims["rows"], dims["hidden_dim"]
    x = _data(family, rows, hidden_dim, scale, rng).astype(np.float32).astype(np.float64)
    spread = float(np.sqrt(np.mean(np.var(x, axis=1))))
    if spread == 0.0:
        spread = 1.0  # a constant row has only beta to show
    # beta is as large as a typical xhat, so that neither hides the other when epsilon damps xhat.
    damped = spread / np.sqrt(spread**2 + EPSILON)
    gamma = _away_from_zero(hidden_dim, 1.25, 2.25, rng)
    beta = _away_from_zero(hidden_dim, 0.25, 1.0, rng) * damped
    gradient = rng.standard_normal((rows, hidden_dim))
    if part == "dinp":  # else both sums over a row would be about 0, and so would be their errors
        centred = x - x.mean(axis=1, keepdims=True)
        xhat = centred / np.sqrt(x.var(axis=1, keepdims=True) + EPSILON)
        along = 0.5 * rng.choice([-1.0, 1.0], (2, rows, 1))
        gradient = (gradient + along[0] + along[1] * xhat) * np.sign(gamma)
    if family == "tiny_gradient":
        gradient *= scale
    made: dict[str, Array] = {"inp": x, "gamma": gamma}
    if part == "forward":
        made["beta"] = beta
    else:
        made["means"] = np.mean(x, axis=1)
        made["vars"] = np.var(x, axis=1)
        made["out_grad"] = gradient
    if part == "dgamma_dbeta":
        del made["gamma"]
    return {name: np.ascontiguousarray(value, dtype=np.float32) for name, value in made.items()}


def _data(family: str, rows: int, hidden_dim: int, scale: float, rng: np.random.Generator) -> Array:
    x = rng.standard_normal((rows, hidden_dim))
    sign = rng.choice([-1.0, 1.0], (rows, 1))
    match family:
        case "normal" | "tiny_gradient":
            return _spread_out(x, 0.6)
        case "uniform":
            return _spread_out(rng.uniform(0.0, 1.0, (rows, hidden_dim)), 0.2)
        case "shifted":
            return _spread_out(x + 4.0 * sign, 0.6)
        case "mixed":
            size = 10.0 ** rng.uniform(-1.0, 1.0, (rows, 1))
            return _spread_out((x + rng.uniform(-4.0, 4.0, (rows, 1))) * size, 0.6 * size)
        case "narrow":
            return _spread_out(x * 0.01, 0.006)
        case "offset":
            return x + scale * sign
        case "tiny_variance" | "scaled":
            return x * scale
        case "constant":
            # Quarters: the sum of equal elements is exact, so a right kernel's variance is 0.
            x[::2] = sign[::2] * rng.integers(1, 16, (rows, 1))[::2] / 4.0
            return x
    raise ValueError(f"unknown input family {family!r}")


def _spread_out(x: Array, least: float | Array) -> Array:
    """Rows that happen to lie close together (a few elements may) are stretched to a spread.

    With a mean of 8 spreads at most, kappa is moderate (10 or so), and the one-pass variance is
    right wherever it is allowed.
    """
    if x.shape[1] == 1:  # no spread: kappa is |x| / sqrt(epsilon), so the row itself must be small
        small: Array = x / (1.0 + np.abs(x))
        return small
    mean = x.mean(axis=1, keepdims=True)
    spread = np.maximum(x.std(axis=1, keepdims=True), 1e-9)
    least = np.maximum(least, np.abs(mean) / 8.0)
    wide: Array = mean + (x - mean) * np.maximum(1.0, least / spread)
    return wide


def _away_from_zero(n: int, low: float, high: float, rng: np.random.Generator) -> Array:
    values: Array = rng.uniform(low, high, n) * rng.choice([-1.0, 1.0], n)
    return values


# Statistics of the rows, with their error scales -------------------------------------------------


class _Rows:
    """Statistics of each row as columns (rows, 1), normalised rows, and their error scales.

    The backward parts hand in the means and variances that the kernel is given.
    """

    def __init__(self, inputs: Inputs, bound: str) -> None:
        if bound not in ("plain", "one_pass"):
            raise ValueError(f"unknown bound {bound!r}")
        self.x: Array = inputs["inp"].astype(np.float64)
        given = "means" in inputs
        true_mean: Array = self.x.mean(axis=1, keepdims=True)
        self.mean: Array = inputs["means"].astype(np.float64)[:, None] if given else true_mean
        self.centred: Array = self.x - self.mean
        true_var: Array = np.mean(self.centred**2, axis=1, keepdims=True)
        self.var: Array = inputs["vars"].astype(np.float64)[:, None] if given else true_var
        self.rho: Array = 1.0 / np.sqrt(self.var + EPSILON)
        self.xhat: Array = self.centred * self.rho

        size = np.abs(self.x)
        largest: Array = size.max(axis=1, keepdims=True)
        self.mean_scale = largest
        self.var_scale: Array = (
            self.var
            + 2.0 * np.mean(np.abs(self.centred) * (size + largest), axis=1, keepdims=True)
            + (16.0 + np.sqrt(self.x.shape[1])) * ROUNDOFF * largest**2
        )
        if bound == "one_pass":
            mean_square = np.mean(self.x**2, axis=1, keepdims=True)
            self.var_scale = self.var_scale + mean_square + 2.0 * largest * np.abs(self.mean)
        self.rho_scale: Array = 1.0 + 0.5 * self.var_scale * self.rho**2
        self.xhat_scale: Array = (size + largest) * self.rho + np.abs(self.xhat) * self.rho_scale

    def other_rho(self) -> dict[str, Array]:
        """Well-known wrong 1/sqrt(vars + epsilon): what the kernel seems to do -> its value."""
        n = self.x.shape[1]
        var = self.var
        found = {
            "leaves epsilon out (or expects vars to hold it): the contract is"
            " sqrt(vars + LN_EPSILON), and vars is the plain variance": 1.0 / np.sqrt(var),
            "adds epsilon twice: vars is the plain variance, and LN_EPSILON is added once,"
            " under the square root": 1.0 / np.sqrt(var + 2.0 * EPSILON),
            "adds epsilon outside the square root: the contract is sqrt(vars + LN_EPSILON)": 1.0
            / (np.sqrt(var) + EPSILON),
            "divides by vars + epsilon without the square root": 1.0 / (var + EPSILON),
            "multiplies by vars: the contract divides by sqrt(vars + LN_EPSILON)": var,
            "multiplies by the standard deviation instead of dividing by it": np.sqrt(
                var + EPSILON
            ),
            "does not divide by sqrt(vars + LN_EPSILON)": np.ones_like(var),
            "takes vars for the standard deviation: it is the variance, so take"
            " sqrt(vars + LN_EPSILON)": 1.0 / var,
        }
        for wrong in (1e-3, 1e-4, 1e-6, 1e-7, 1e-8):
            sentence = f"uses {wrong:.0e} as epsilon: LN_EPSILON is 1e-5"
            found[sentence] = 1.0 / np.sqrt(var + wrong)
        if n > 1:
            found[
                "divides the sum of squares by hidden_dim - 1: the contract wants the population"
                " variance, divided by hidden_dim"
            ] = 1.0 / np.sqrt(var * n / (n - 1) + EPSILON)
        return found


# The three parts ---------------------------------------------------------------------------------


def forward(dims: Dims, inputs: Inputs, bound: str) -> dict[str, Expected]:
    """ln_res = xhat * gamma + beta, with error |gamma| E_xhat + |gamma xhat| + |beta|.

    The regrouped form inp * (rho gamma) + (beta - mu rho gamma) is covered as well: its products
    are |gamma| (|x| + |mu|) rho, part of the first term.
    """
    with np.errstate(all="ignore"):
        rows = _Rows(inputs, bound)
        gamma = inputs["gamma"].astype(np.float64)
        beta = inputs["beta"].astype(np.float64)
        n = dims["hidden_dim"]
        value = rows.xhat * gamma + beta
        scale = np.abs(gamma) * (rows.xhat_scale + np.abs(rows.xhat)) + np.abs(beta)

        wrong_result: dict[str, Array] = {
            "swaps gamma and beta": rows.xhat * beta + gamma,
            "forgets gamma": rows.xhat + beta,
            "forgets beta": rows.xhat * gamma,
            "forgets gamma and beta": rows.xhat,
            "does not subtract the mean": rows.x * rows.rho * gamma + beta,
            "copies inp": rows.x,
            "takes mean(x*x) for the variance: subtract the mean first": rows.centred
            / np.sqrt(np.mean(rows.x**2, axis=1, keepdims=True) + EPSILON)
            * gamma
            + beta,
        }
        for sentence, rho in rows.other_rho().items():
            wrong_result[sentence] = rows.centred * rho * gamma + beta
        var, mean = rows.var[:, 0], rows.mean[:, 0]
        wrong_var: dict[str, Array] = {
            "stores the variance plus epsilon: the contract wants the plain variance, and epsilon"
            " is added only under the square root": var + EPSILON,
            "stores the standard deviation: the contract wants the variance": np.sqrt(var),
            "stores sqrt(variance + epsilon): the contract wants the variance": np.sqrt(
                var + EPSILON
            ),
            "stores 1/sqrt(variance + epsilon): the contract wants the variance": rows.rho[:, 0],
            "stores the sum of squares: divide it by hidden_dim": var * n,
            "stores mean(x*x): the mean of inp must be subtracted first": np.mean(
                rows.x**2, axis=1
            ),
            "stores the means here: vars comes before means in the argument list": mean,
        }
        if n > 1:
            wrong_var[
                "divides by hidden_dim - 1: the contract wants the population variance,"
                " divided by hidden_dim"
            ] = var * n / (n - 1)
        wrong_mean: dict[str, Array] = {
            "stores the sum: divide it by hidden_dim": mean * n,
            "stores the variances here: vars comes before means in the argument list": var,
        }
    return {
        "ln_res": _expected(value, scale, n, wrong_result),
        "vars": _expected(var, rows.var_scale[:, 0], n, wrong_var),
        "means": _expected(mean, rows.mean_scale[:, 0], n, wrong_mean),
    }


def dgamma_dbeta(dims: Dims, inputs: Inputs, bound: str) -> dict[str, Expected]:
    """gamma_grad = sum dy xhat, with error sum |dy| E_xhat; beta_grad = sum dy, with sum |dy|.

    The sums run over the rows, in any order; |dy xhat| <= |dy| E_xhat covers their own roundings.
    Recomputed statistics are sums over hidden_dim, so gamma_grad counts the longer of the two.
    """
    with np.errstate(all="ignore"):
        rows = _Rows(inputs, bound)
        dy = inputs["out_grad"].astype(np.float64)
        n = dims["rows"]
        gamma_grad = np.sum(dy * rows.xhat, axis=0)
        beta_grad = np.sum(dy, axis=0)
        gamma_scale = np.sum(np.abs(dy) * rows.xhat_scale, axis=0)
        beta_scale = np.sum(np.abs(dy), axis=0)

        wrong_gamma: dict[str, Array] = {
            "forgets xhat, or swaps gamma_grad and beta_grad: this is the sum of out_grad": (
                beta_grad
            ),
            "does not subtract the mean: xhat is (inp - means) / sqrt(vars + LN_EPSILON)": np.sum(
                dy * rows.x * rows.rho, axis=0
            ),
        }
        for sentence, rho in rows.other_rho().items():
            wrong_gamma[sentence] = np.sum(dy * rows.centred * rho, axis=0)
        wrong_beta: dict[str, Array] = {
            "multiplies by xhat, or swaps gamma_grad and beta_grad: this is the sum of"
            " out_grad * xhat": gamma_grad
        }
        for wrong, terms in ((wrong_gamma, dy * rows.xhat), (wrong_beta, dy)):
            for sentence, few in _incomplete_sums(terms).items():
                wrong[sentence] = few
    return {
        "gamma_grad": _expected(gamma_grad, gamma_scale, max(n, dims["hidden_dim"]), wrong_gamma),
        "beta_grad": _expected(beta_grad, beta_scale, n, wrong_beta),
    }


def _incomplete_sums(terms: Array) -> dict[str, Array]:
    """What a sum over the rows becomes when some of them are lost."""
    n = len(terms)
    if n == 1:
        return {}
    found = {
        "takes the mean over the rows: the contract wants the sum": terms.mean(axis=0),
        "keeps only the last row: add the rows up": terms[-1],
        "keeps only the first row: add the rows up": terms[0],
        "leaves out the last row": np.sum(terms[:-1], axis=0),
        "leaves out the first row": np.sum(terms[1:], axis=0),
    }
    for block in (32, 256, 1024):
        if n > block:
            found[f"adds up only the first {block} rows"] = np.sum(terms[:block], axis=0)
    if n > 32 and n % 32:
        found["leaves out the last rows % 32 rows"] = np.sum(terms[: n - n % 32], axis=0)
    return found


def dinp(dims: Dims, inputs: Inputs, bound: str) -> dict[str, Expected]:
    """inp_grad = rho (g - mean g - xhat mean(g xhat)) with g = dy gamma, a = |g|.

    Errors, before the factor rho: g and mean g make a + mean a; the second mean makes
    m2 = mean(a |xhat|) for its sum and its products and m2e = mean(a E_xhat) for the error of xhat
    in it, both multiplied by |xhat|; the factor xhat itself makes E_xhat |mean(g xhat)|. The error
    of the common factor rho is relative: E_rho times the result. So
        S = rho (a + mean a + |xhat| (m2 + m2e) + E_xhat |mean(g xhat)|) + |inp_grad| E_rho
    The forms (H g - s1 - xhat s2) rho / H and a g + b x + c with
    b = rho**3 (mu sum g - sum g x) / H stay within the same terms.
    """
    with np.errstate(all="ignore"):
        rows = _Rows(inputs, bound)
        dy = inputs["out_grad"].astype(np.float64)
        gamma = inputs["gamma"].astype(np.float64)

        def mean(terms: Array) -> Array:
            averaged: Array = np.mean(terms, axis=1, keepdims=True)
            return averaged

        g = dy * gamma
        projection = mean(g * rows.xhat)
        value = rows.rho * (g - mean(g) - rows.xhat * projection)
        a, size = np.abs(g), np.abs(rows.xhat)
        scale = (
            rows.rho
            * (
                a
                + mean(a)
                + size * (mean(a * size) + mean(a * rows.xhat_scale))
                + rows.xhat_scale * np.abs(projection)
            )
            + np.abs(value) * rows.rho_scale
        )

        inner = g - mean(g) - rows.xhat * projection
        plain = dy - mean(dy) - rows.xhat * mean(dy * rows.xhat)
        n = dims["hidden_dim"]
        wrong: dict[str, Array] = {
            "forgets the term mean(dxhat)": rows.rho * (g - rows.xhat * projection),
            "forgets the term xhat * mean(dxhat * xhat)": rows.rho * (g - mean(g)),
            "forgets both sums: this is dxhat / sqrt(vars + LN_EPSILON)": rows.rho * g,
            "forgets gamma: dxhat is out_grad * gamma": rows.rho * plain,
            "multiplies by gamma only at the end: dxhat = out_grad * gamma belongs in the sums": (
                rows.rho * plain * gamma
            ),
            "forgets the last division by sqrt(vars + LN_EPSILON)": inner,
            "does not divide its sums by hidden_dim": rows.rho
            * (g - n * mean(g) - n * rows.xhat * projection),
            "adds the term xhat * mean(dxhat * xhat) instead of subtracting it": rows.rho
            * (g - mean(g) + rows.xhat * projection),
            "multiplies mean(dxhat * xhat) by inp instead of xhat": rows.rho
            * (g - mean(g) - rows.x * projection),
            "forgets xhat in the last term": rows.rho * (g - mean(g) - projection),
            "does not subtract the mean in xhat": rows.rho
            * (g - mean(g) - rows.x * rows.rho * mean(g * rows.x * rows.rho)),
            "copies out_grad": dy,
        }
        for sentence, rho in rows.other_rho().items():
            xhat = rows.centred * rho
            wrong[sentence] = rho * (g - mean(g) - xhat * mean(g * xhat))
    return {"inp_grad": _expected(value, scale, n, wrong)}


def _expected(value: Array, scale: Array, terms: int, wrong: Mapping[str, Array]) -> Expected:
    """All zeros is a mistake of every output."""
    mistakes = {
        f"It looks as if your kernel {sentence}": array for sentence, array in wrong.items()
    }
    mistakes["Every element is 0, as if nothing had been computed"] = np.zeros_like(value)
    return Expected(value, scale + UNDERFLOW, terms, mistakes)
