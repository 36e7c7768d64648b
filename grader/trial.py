"""Sets of a part's arrays in the GPU's memory: filled, run by the worker, and compared there.

One case is verified in float64 on the CPU: the base. On the device it becomes arrays of any size
and any number of fresh variations (`grader.variation`), in memory that this process owns: the
worker maps inputs read-only and outputs read-write, and never sees an expected value. Nothing but
verdicts comes back to the CPU, so that shapes of many gigabytes, and every output of every timed
call, are compared in full.

The pools: inputs of set 0, of set 1, ...; outputs likewise, and a spare set for copies. Every array
is guarded on both sides.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader import variation
from grader.arena import (
    ALIGNMENT,
    GUARD,
    GUARD_BYTES,
    POISON,
    slot_bytes,
    written_after,
    written_before,
)
from grader.assignment import MAX_FACTORS, Assignment, Dims, Expected
from grader.compare import Mismatch, allowance
from grader.gpu import Gpu, Memory
from grader.manifest import Part
from grader.records import Kept, Placed, Pool
from grader.variation import Rule, Variation

THREADS = 256
INPUTS, OUTPUTS = 0, 1
GUARD_WORDS = GUARD_BYTES // 4


@dataclass(frozen=True)
class Base:
    """One case with its float64 answers, from which all data of a trial follow, and the order in
    which its rows are repeated there; `signed` is that of the array in which the part is linear."""

    dims: dict[str, int]
    inputs: dict[str, NDArray[np.float32]]
    expected: dict[str, Expected]
    order: NDArray[np.uint32]
    signed: NDArray[np.uint32]


def base_case(
    assignment: Assignment,
    part: Part,
    dims: Dims,
    family: str,
    bound: str,
    seed: int,
    elements: int = variation.BASE_ELEMENTS,
) -> Base:
    """The base of trials at these dimensions, of about so many elements at most."""
    small = variation.base_dims(assignment, dims, elements)
    rng = np.random.Generator(np.random.PCG64([seed, 0]))
    inputs = assignment.inputs(part, family, small, 1.0, rng)
    expected = assignment.expected(part, small, inputs, bound)
    order = variation.order(assignment, dims, small, rng)
    linear = assignment.linear(part)
    if linear is None or assignment.batch is None:
        return Base(small, inputs, expected, order, order)
    signed = variation.with_signs(order, rng)
    axis = assignment.arrays[linear].index(assignment.batch)
    weights = variation.weights(signed, small[assignment.batch])
    weighted = inputs[linear] * np.expand_dims(weights, _others(inputs[linear].ndim, axis))
    sums = assignment.expected(part, small, {**inputs, linear: weighted}, bound)
    expected = {name: replace(one, value=sums[name].value) for name, one in expected.items()}
    return Base(small, inputs, expected, order, signed)


def _others(dimensions: int, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(dimensions) if other != axis)


@dataclass(frozen=True)
class Wrong:
    """What is wrong after a call: a kind and a sentence, and the element if there is one."""

    kind: str
    sentence: str
    output: str | None = None
    mismatch: Mismatch | None = None


class Trial:
    """`sets` sets of the arrays of a part at some dimensions. Use as a context manager.

    Raises gpu.OutOfMemory when the GPU is too small for them.
    """

    def __init__(
        self, gpu: Gpu, assignment: Assignment, part: Part, dims: Dims, base: Base, sets: int
    ) -> None:
        self.gpu = gpu
        self.assignment = assignment
        self.part = part
        self.dims = dict(dims)
        self.base = base
        self.sets = sets
        self.variations: list[Variation] = []
        self._kept_from = sets - 1
        self.worst = 0.0  # largest error that was seen, in units of the allowed one
        self._owned: list[Memory] = []
        self._layouts = (
            _Layout([(name, self._sized(name)[1]) for name in self.input_names], sets),
            _Layout([(name, self._sized(name)[1]) for name in part.outputs], sets + 1),
        )
        try:
            self._memory = [self._keep(gpu.share(layout.bytes)) for layout in self._layouts]
            self._upload()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._owned:
            self.gpu.release(self._owned.pop())

    @property
    def input_names(self) -> list[str]:
        """The part's input arrays, in C order."""
        arrays = self.assignment.arrays
        return [
            name for name in self.part.arguments if name in arrays and name not in self.part.outputs
        ]

    @property
    def pools(self) -> list[Pool]:
        """What the worker maps."""
        return [
            Pool(memory.fd, memory.size, writable)
            for memory, writable in zip(self._memory, (False, True), strict=True)
        ]

    @property
    def bytes_per_set(self) -> int:
        """Bytes that a call must move: every input read once, every output written once."""
        return sum(4 * self._sized(name)[1] for name in [*self.input_names, *self.part.outputs])

    def arguments(self, number: int) -> list[Placed | int]:
        """The arguments of the launcher on one set."""
        made: list[Placed | int] = []
        for name in self.part.arguments:
            if name in self.dims:
                made.append(self.dims[name])
            elif name in self.part.outputs:
                made.append(Placed(OUTPUTS, self._layouts[OUTPUTS].offset(number, name)))
            else:
                made.append(Placed(INPUTS, self._layouts[INPUTS].offset(number, name)))
        return made

    def keep(self, calls: int) -> list[Kept]:
        """The outputs of the last of so many calls, to be copied into the spare set."""
        layout = self._layouts[OUTPUTS]
        return [
            Kept(
                OUTPUTS,
                layout.offset(calls - 1, name),
                4 * size,
                layout.offset(self.sets, name),
            )
            for name, size in layout.arrays
        ]

    def addresses(self, number: int, which: int) -> list[tuple[int, int]]:
        """(address, bytes) of the input (0) or output (1) arrays of a set, in our own mapping."""
        layout = self._layouts[which]
        return [
            (self._memory[which].address + layout.offset(number, name), 4 * size)
            for name, size in layout.arrays
        ]

    def prepare(self, rng: np.random.Generator) -> None:
        """Fresh data in the inputs of all sets, poison in their outputs."""
        self.variations = [
            variation.draw(self.assignment, self.part, self.dims, rng) for _ in range(self.sets)
        ]
        for number, chosen in enumerate(self.variations):
            for name in self.input_names:
                rule = self._rule(chosen, name)
                to = self._address(INPUTS, number, name)
                size = self._sized(name)[1]
                self.gpu.launch(
                    self._kernel("vary", size),
                    self._grid(size),
                    THREADS,
                    [
                        ctypes.c_void_p(to),
                        ctypes.c_void_p(self._base_inputs[name].address),
                        ctypes.c_ulonglong(size),
                        self._record(rule),
                    ],
                )
        for number in range(self.sets + 1):
            for name in self.part.outputs:
                self.gpu.fill(self._address(OUTPUTS, number, name), self._sized(name)[1], POISON)
        self.gpu.reset_persisting_l2()
        self.gpu.synchronize()

    def judge(self, calls: int) -> Wrong | None:
        """Look at every output of the first `calls` sets, and at all guards.

        Of the last one the copy counts (`keep`): it was made in the order of the launcher's stream.
        """
        damage = self._damage()
        if damage is not None:
            return damage
        names = self.part.outputs
        judged = self.variations[:calls]
        self._kept_from = calls - 1
        blank = np.zeros(len(judged) * len(names), _VERDICT)
        blank["first"] = np.iinfo(np.uint64).max
        self.gpu.write(self._verdicts.address, blank)
        for number, chosen in enumerate(judged):
            for position, name in enumerate(names):
                self._compare(chosen, number, name, number * len(names) + position)
        found = self.gpu.read(self._verdicts.address, len(blank), _VERDICT)
        self.worst = max(self.worst, float(found["worst"].view(np.float32).max(initial=0.0)))
        for at in np.flatnonzero(found["wrong"]):
            number, position = divmod(int(at), len(names))
            return self._wrong(number, names[position], found[at])
        return None

    # On the device ------------------------------------------------------------------------------

    def _upload(self) -> None:
        """Base inputs, expected values and bounds, into memory of our own; guards into all."""
        gpu = self.gpu
        self._base_inputs = {
            name: self._keep(gpu.upload(np.ascontiguousarray(self.base.inputs[name])))
            for name in self.input_names
        }
        orders = {id(order): order for order in (self.base.order, self.base.signed)}
        self._orders = {key: self._keep(gpu.upload(order)) for key, order in orders.items()}
        self._nothing = self._keep(gpu.upload(np.zeros(1, np.uint32)))  # for arrays without rows
        self._values: dict[str, Memory] = {}
        self._allowed: dict[str, Memory] = {}
        for name in self.part.outputs:
            expected = self._scaled(name)
            self._values[name] = self._keep(gpu.upload(expected.value))
            self._allowed[name] = self._keep(gpu.upload(allowance(expected)))
        count = self.sets * max(1, len(self.part.outputs))
        self._verdicts = self._keep(gpu.allocate(count * _VERDICT.itemsize))
        where = []
        for memory, layout in zip(self._memory, self._layouts, strict=True):
            for number in range(layout.sets):
                for name, size in layout.arrays:
                    at = memory.address + layout.offset(number, name)
                    where += [at - GUARD_BYTES, at + 4 * size]
            gpu.fill(memory.address, memory.size // 4, GUARD)
        self._guards = self._keep(gpu.upload(np.array(where, np.uint64)))
        self._damaged = self._keep(gpu.allocate(4 * len(where)))
        gpu.synchronize()

    def _scaled(self, name: str) -> Expected:
        """Expected values of an output, for as many repetitions of the base as there are."""
        expected = self.base.expected[name]
        batch = self.assignment.batch
        if batch is None or batch in self.assignment.arrays[name]:
            return expected
        repeats = self.dims[batch] // self.base.dims[batch]
        weighted = self.assignment.linear(self.part) is not None  # `base_case` did that
        return replace(
            expected,
            value=expected.value if weighted else expected.value * repeats,
            scale=expected.scale * repeats,
            terms=expected.terms * repeats,
        )

    def _compare(self, chosen: Variation, number: int, name: str, slot: int) -> None:
        size = self._sized(name)[1]
        self.gpu.launch(
            self._kernel("compare", size),
            self._grid(size),
            THREADS,
            [
                ctypes.c_void_p(self._judged(number, name)),
                ctypes.c_void_p(self._values[name].address),
                ctypes.c_void_p(self._allowed[name].address),
                ctypes.c_ulonglong(size),
                ctypes.c_uint(POISON),
                self._record(self._rule(chosen, name)),
                ctypes.c_void_p(self._verdicts.address + slot * _VERDICT.itemsize),
            ],
        )

    def _damage(self) -> Wrong | None:
        """The first damaged guard. (Inputs are mapped read-only: writing them is an error.)"""
        count = self._guards.size // 8
        self.gpu.launch(
            self.gpu.kernel("arrays.cu", "guards", INDEX="unsigned"),
            count,
            THREADS,
            [
                ctypes.c_void_p(self._guards.address),
                ctypes.c_uint(GUARD_WORDS),
                ctypes.c_uint(GUARD),
                ctypes.c_void_p(self._damaged.address),
            ],
        )
        found = self.gpu.read(self._damaged.address, count, np.uint32)
        for at in np.flatnonzero(found):
            guards = [
                (name, size)
                for layout in self._layouts
                for _ in range(layout.sets)
                for name, size in layout.arrays
            ]
            name, size = guards[int(at) // 2]
            word = int(found[at]) - 1
            sentence = (
                written_before(name, GUARD_WORDS - word)
                if at % 2 == 0
                else written_after(name, size, word)
            )
            return Wrong("out_of_bounds", sentence)
        return None

    def _wrong(self, number: int, name: str, verdict: Any) -> Wrong:
        """Describe the first wrong element of an output."""
        first = int(verdict["first"])
        rule = self._rule(self.variations[number], name)
        at = np.array([first], np.int64)
        expected = self._scaled(name)
        factor = float(rule.factor(at)[0])
        source = int(rule.base_index(at)[0])
        value = factor * float(expected.value.ravel()[source])
        allowed = abs(factor) * float(allowance(expected).ravel()[source])
        got = self.gpu.read(self._judged(number, name) + 4 * first, 1, np.float32)
        shape, size = self._sized(name)
        wrong, unwritten = int(verdict["wrong"]), int(verdict["unwritten"])
        mismatch = Mismatch.of_element(
            index=tuple(int(i) for i in np.unravel_index(first, shape)),
            got=got,
            expected=value,
            allowed=allowed,
            wrong=wrong,
            size=size,
            pattern="nothing was written to it" if unwritten == size else "",
        )
        return Wrong("wrong_result", mismatch.sentence(name), name, mismatch)

    # Sizes --------------------------------------------------------------------------------------

    def _sized(self, name: str) -> tuple[Any, int]:
        shape = self.assignment.shape(name, self.dims)
        return shape, math.prod(shape)

    def _address(self, pool: int, number: int, name: str) -> int:
        return self._memory[pool].address + self._layouts[pool].offset(number, name)

    def _judged(self, number: int, name: str) -> int:
        return self._address(OUTPUTS, self.sets if number == self._kept_from else number, name)

    def _rule(self, chosen: Variation, name: str) -> Rule:
        return variation.rule(
            chosen,
            self.assignment,
            self.part,
            name,
            self.dims,
            self.base.dims,
            self.base.signed if name == self.assignment.linear(self.part) else self.base.order,
        )

    def _record(self, rule: Rule) -> _Variation:
        order = self._orders[id(rule.order)] if rule.rows > 1 else self._nothing
        return _record(rule, order.address)

    def _kernel(self, name: str, size: int) -> Any:
        index = "unsigned" if size < 1 << 32 else "unsigned long long"
        return self.gpu.kernel("arrays.cu", name, INDEX=index)

    def _grid(self, size: int) -> int:
        return max(1, min(-(-size // THREADS), 16 * self.gpu.multiprocessors))

    def _keep(self, memory: Memory) -> Memory:
        self._owned.append(memory)
        return memory


class _Layout:
    """Where the arrays of each set lie in a pool."""

    def __init__(self, sizes: Sequence[tuple[str, int]], sets: int) -> None:
        self.arrays = list(sizes)
        self.sets = sets
        self.set_bytes = sum(slot_bytes(size) for _, size in sizes)
        self.set_bytes += -self.set_bytes % ALIGNMENT
        self.bytes = max(1, self.set_bytes * sets)
        self._within: dict[str, int] = {}
        at = GUARD_BYTES
        for name, size in sizes:
            self._within[name] = at
            at += slot_bytes(size)

    def offset(self, number: int, name: str) -> int:
        return number * self.set_bytes + self._within[name]


class _Factor(ctypes.Structure):
    """`Factor` of arrays.cu."""

    _fields_ = (
        ("stride", ctypes.c_ulonglong),
        ("extent", ctypes.c_ulonglong),
        ("key", ctypes.c_uint),
        ("exponent", ctypes.c_int),
    )


class _Variation(ctypes.Structure):
    """`Variation` of arrays.cu."""

    _fields_ = (
        ("rows", ctypes.c_ulonglong),
        ("base_rows", ctypes.c_ulonglong),
        ("inner", ctypes.c_ulonglong),
        ("multiplier", ctypes.c_ulonglong),
        ("shift", ctypes.c_ulonglong),
        ("order", ctypes.c_void_p),
        ("factors", ctypes.c_int),
        ("factor", _Factor * MAX_FACTORS),
    )


def _record(rule: Rule, order: int) -> _Variation:
    """A rule for arrays.cu; its order of rows lies at this address."""
    vectors = [_Factor(v.stride, v.extent, v.key, v.exponent) for v in rule.vectors]
    return _Variation(
        rule.rows, rule.base_rows, rule.inner, rule.multiplier, rule.shift, order,
        len(vectors), (_Factor * MAX_FACTORS)(*vectors),
    )  # fmt: skip


_VERDICT = np.dtype(
    [("wrong", "u8"), ("first", "u8"), ("unwritten", "u8"), ("worst", "u4"), ("_", "u4")]
)
