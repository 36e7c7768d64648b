"""Doubles x."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from grader.assignment import Expected, Family

ARRAYS = {"out": ("n",), "x": ("n",)}
FAMILIES = {"normal": Family("x is normal")}
BATCH = "n"
LINEAR = {"double": "x"}


def inputs(
    part: str, family: str, dims: Mapping[str, int], scale: float, rng: np.random.Generator
) -> dict[str, NDArray[np.float32]]:
    return {"x": rng.normal(size=dims["n"]).astype(np.float32)}


def double(
    dims: Mapping[str, int], inputs: Mapping[str, NDArray[np.float32]], bound: str
) -> dict[str, Expected]:
    x = inputs["x"].astype(np.float64)
    return {"out": Expected(2 * x, np.abs(x), 1)}
