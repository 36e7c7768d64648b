"""Saxpy in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from grader.assignment import Expected, Factor, Family

A = 2.5

ARRAYS = {"out": ("n",), "x": ("n",), "y": ("n",)}

FAMILIES = {
    "normal": Family("x and y are normal"),
    "scaled": Family("x and y are normal times a power of ten", (-3, 3)),
}

# For a GPU: fresh data follow exactly from data whose answer is known.
BATCH = "n"  # elements are independent
FACTORS = {"saxpy": (Factor(("out", "x", "y"), "n", exponent=3),)}  # of an element, all alike


def inputs(
    part: str, family: str, dims: Mapping[str, int], scale: float, rng: np.random.Generator
) -> dict[str, NDArray[np.float32]]:
    return {name: (scale * rng.normal(size=dims["n"])).astype(np.float32) for name in ("x", "y")}


def saxpy(
    dims: Mapping[str, int], inputs: Mapping[str, NDArray[np.float32]], bound: str
) -> dict[str, Expected]:
    x, y = inputs["x"].astype(np.float64), inputs["y"].astype(np.float64)
    return {
        "out": Expected(
            value=A * x + y,
            scale=np.abs(A * x) + np.abs(y),
            terms=2,
            mistakes={"It looks as if y was not added.": A * x},
        )
    }
