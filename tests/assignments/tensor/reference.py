"""Row sums and a bias in float64."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from grader.assignment import Expected, Factor, Family

ARRAYS = {
    "a": ("batch", "rows", "cols"),
    "bias": ("cols",),
    "sums": ("batch", "rows"),
    "shifted": ("batch", "rows", "cols"),
}

FAMILIES = {"normal": Family("everything is normal")}

BATCH = "batch"
FACTORS = {
    "row_sums": (Factor(("a", "sums"), "rows", exponent=1), Factor(("a", "sums"), None)),
    "add_bias": (Factor(("a", "bias", "shifted"), "cols", exponent=2),),
}


def inputs(
    part: str, family: str, dims: Mapping[str, int], scale: float, rng: np.random.Generator
) -> dict[str, NDArray[np.float32]]:
    made = {"a": rng.normal(size=(dims["batch"], dims["rows"], dims["cols"]))}
    if part == "add_bias":
        made["bias"] = rng.normal(size=dims["cols"])
    return {name: (scale * array).astype(np.float32) for name, array in made.items()}


def row_sums(
    dims: Mapping[str, int], inputs: Mapping[str, NDArray[np.float32]], bound: str
) -> dict[str, Expected]:
    a = inputs["a"].astype(np.float64)
    return {"sums": Expected(a.sum(axis=2), np.abs(a).sum(axis=2), dims["cols"])}


def add_bias(
    dims: Mapping[str, int], inputs: Mapping[str, NDArray[np.float32]], bound: str
) -> dict[str, Expected]:
    a, bias = inputs["a"].astype(np.float64), inputs["bias"].astype(np.float64)
    return {"shifted": Expected(a + bias, np.abs(a) + np.abs(bias), 2)}
