"""Fresh data without a new reference: exact variations of one case whose answer is known.

An assignment's reference names symmetries of its parts: a batch dimension, whose indices are
independent (they may be permuted and repeated; outputs without it are sums over it), and factors
+-2**k that carry right results into right results exactly. A Variation is one random choice among
them. It applies to inputs and to expected outputs alike, here with numpy and on a GPU with the same
arithmetic (grader/native/gpu/arrays.cu).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.assignment import MAX_FACTORS, Assignment, Dims, Factor
from grader.manifest import Part

BASE_ELEMENTS = 1 << 18  # of the arrays that the float64 reference works on


NEGATIVE = np.uint32(1 << 31)  # in an order: the row comes with its sign changed


@dataclass(frozen=True)
class Vector:
    """Factors of one array along one of its dimensions: element i has the factor number
    (i // stride) % extent."""

    stride: int
    extent: int
    key: int
    exponent: int


@dataclass(frozen=True)
class Rule:
    """How one array follows from its base array: row r is row order[(multiplier * r + shift) %
    rows] of the base, times the factors; an entry with NEGATIVE set changes the row's sign. Without
    a batch dimension, rows is 1."""

    rows: int
    base_rows: int
    inner: int
    multiplier: int
    shift: int
    order: NDArray[np.uint32]
    vectors: tuple[Vector, ...]

    def base_index(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Flat index in the base array for flat indices in the varied one."""
        rest, column = np.divmod(index, self.inner)
        slices = rest // self.rows
        base = (self._entries(index) & ~NEGATIVE).astype(np.int64)
        found: NDArray[np.int64] = (slices * self.base_rows + base) * self.inner + column
        return found

    def factor(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """The product of all factors of these elements."""
        product = np.where(self._entries(index) & NEGATIVE, -1.0, 1.0)
        for vector in self.vectors:
            at = (index // vector.stride) % vector.extent
            bits = _mix(at.astype(np.uint32) ^ np.uint32(vector.key))
            power = (bits & np.uint32(0xFFFF)).astype(np.int64) % (2 * vector.exponent + 1)
            sign = np.where(bits >> np.uint32(31), -1.0, 1.0)
            product *= sign * np.exp2(power - vector.exponent)
        return product

    def _entries(self, index: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The entries of the order for these elements."""
        row = index // self.inner % self.rows
        found: NDArray[np.uint32] = self.order[(self.multiplier * row + self.shift) % self.rows]
        return found

    def apply(self, base: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
        """The varied array, on the CPU."""
        index = np.arange(math.prod(shape), dtype=np.int64)
        varied = base.ravel()[self.base_index(index)] * self.factor(index)
        return varied.astype(base.dtype).reshape(shape)


@dataclass(frozen=True)
class Variation:
    """One choice: where in the order of rows to begin and in which steps to go on, and for the
    part's n-th symmetry the key of its factors."""

    multiplier: int
    shift: int
    keys: tuple[int, ...]


def base_dims(assignment: Assignment, dims: Dims, elements: int = BASE_ELEMENTS) -> dict[str, int]:
    """Dimensions of a base case: the batch dimension is halved until the largest array has no more
    than so many elements (or the number is odd: then the base is larger)."""
    small = dict(dims)
    batch = assignment.batch
    if batch is not None:
        while small[batch] % 2 == 0 and math.prod(small.values()) > elements:
            small[batch] //= 2
    return small


def order(
    assignment: Assignment, dims: Dims, base: Dims, rng: np.random.Generator
) -> NDArray[np.uint32]:
    """The rows of the base, each equally often, in a random order: no part of the varied rows tells
    anything about the rest, so a kernel that looks at some of them only is wrong."""
    if assignment.batch is None:
        return np.zeros(1, np.uint32)
    rows, base_rows = dims[assignment.batch], base[assignment.batch]
    return rng.permutation(np.arange(rows, dtype=np.uint32) % np.uint32(base_rows))


def with_signs(order: NDArray[np.uint32], rng: np.random.Generator) -> NDArray[np.uint32]:
    """The same order, with random signs. Without them, the sums over repeated rows would grow and
    grow, and so would the rounding errors of a kernel that adds them up one after the other: equal
    numbers are rounded alike."""
    negative = rng.integers(0, 2, order.shape, np.uint32) << np.uint32(31)
    return order | negative


def weights(order: NDArray[np.uint32], base_rows: int) -> NDArray[np.float64]:
    """How often each row of the base occurs, negative occurrences subtracted."""
    signs = np.where(order & NEGATIVE, -1.0, 1.0)
    counted = np.bincount(order & ~NEGATIVE, weights=signs, minlength=base_rows)
    return counted.astype(np.float64)


def draw(assignment: Assignment, part: Part, dims: Dims, rng: np.random.Generator) -> Variation:
    """A random variation to arrays of these dimensions."""
    rows = dims[assignment.batch] if assignment.batch is not None else 1
    multiplier = int(rng.integers(1, rows + 1))
    while math.gcd(multiplier, rows) != 1:  # else some rows would be left out
        multiplier = multiplier % rows + 1
    factors = assignment.factors(part)
    keys = tuple(int(key) for key in rng.integers(0, 1 << 32, len(factors)))
    return Variation(multiplier, int(rng.integers(0, rows)), keys)


def rule(
    variation: Variation,
    assignment: Assignment,
    part: Part,
    array: str,
    dims: Dims,
    base: Dims,
    order: NDArray[np.uint32],
) -> Rule:
    """What a variation means for one array. `order` has signs only for an array in which the part
    is linear."""
    names = assignment.arrays[array]
    rows, base_rows, inner = 1, 1, math.prod(assignment.shape(array, dims))
    if assignment.batch in names:
        rows, base_rows = dims[assignment.batch], base[assignment.batch]
        inner = _stride(names, assignment.batch, dims)
    factors = zip(assignment.factors(part), variation.keys, strict=True)
    vectors = tuple(
        _vector(factor, key, names, dims) for factor, key in factors if array in factor.arrays
    )
    assert len(vectors) <= MAX_FACTORS
    if rows == 1:
        order = np.zeros(1, np.uint32)
    return Rule(
        rows, base_rows, inner, variation.multiplier, variation.shift % rows, order, vectors
    )


def _vector(factor: Factor, key: int, names: Sequence[str], dims: Dims) -> Vector:
    if factor.along is None:
        return Vector(1, 1, key, factor.exponent)
    return Vector(_stride(names, factor.along, dims), dims[factor.along], key, factor.exponent)


def _stride(names: Sequence[str], dimension: str, dims: Dims) -> int:
    after = names[list(names).index(dimension) + 1 :]
    return math.prod(dims[name] for name in after)


def _mix(x: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The finalizer of MurmurHash3; arrays.cu has the same."""
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x85EBCA6B)
    x = x ^ (x >> np.uint32(13))
    x = x * np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))
