"""A GPU made of numpy, and a session whose launchers are Python functions.

FakeGpu has the memory, the kernels and the clock of `grader.gpu.Gpu`: what it launches does to its
memory what arrays.cu and probe.cu do. (tests/test_arrays.py holds the real ones to the same rules.)
FakeSession works on that memory as a worker does that has mapped it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.assignment import Assignment
from grader.ceiling import MOST_STREAMS
from grader.gpu import Gpu, Kernel, Memory, OutOfMemory
from grader.manifest import Part
from grader.records import Kept, Placed, Pool
from grader.session import Fault, Session, Timed
from grader.trial import _VERDICT
from grader.variation import Rule, Vector

F = NDArray[np.float32]
GRAIN = 1 << 21  # of shared memory, as on a real device
SLOT = 512  # of memory that is not shared


class FakeGpu(Gpu):
    """One GPU of `memory_bytes` bytes. `probe` gives the seconds that a launch of the ceiling's
    probe takes, from its macros and the bytes that it moves."""

    def __init__(self, memory_bytes: int = 1 << 30, l2_bytes: int = 1 << 16) -> None:
        super().__init__(
            index=0, name="Fake GPU", uuid="fake", arch="sm_90", driver="1.2",
            multiprocessors=4, threads_per_multiprocessor=2048,
            l2_bytes=l2_bytes, memory_bytes=memory_bytes,
        )  # fmt: skip
        self.blocks: dict[int, NDArray[np.uint8]] = {}
        self.shared: dict[int, int] = {}  # file descriptor -> address
        self.now = 0.0
        self.probe: Callable[[dict[str, object], int], float] = lambda _, moved: moved / 1e9
        self.launched: list[str] = []
        self.locked = 0
        self.unshareable = ""
        self.pending: list[Callable[[], None]] = []  # what others do before our next launch
        self._next = 1 << 40

    # Memory -------------------------------------------------------------------------------------

    @contextmanager
    def alone(self) -> Iterator[None]:
        assert self.locked == 0, "a grader must not wait for itself"
        self.locked += 1
        try:
            yield
        finally:
            self.locked -= 1

    def free_bytes(self) -> int:
        return self.memory_bytes - sum(block.size for block in self.blocks.values())

    def allocate(self, size: int) -> Memory:
        return Memory(self._take(max(size, 1), SLOT), size)

    def share(self, size: int) -> Memory:
        size += -size % GRAIN
        address = self._take(size, GRAIN)
        fd = 1000 + len(self.shared)
        self.shared[fd] = address
        return Memory(address, size, fd, object())

    def release(self, memory: Memory) -> None:
        del self.blocks[memory.address]

    def why_not_shared(self) -> str:
        return self.unshareable

    def _take(self, size: int, grain: int) -> int:
        if size > self.free_bytes():
            raise OutOfMemory("not enough memory on the GPU")
        address = self._next + -self._next % grain
        self._next = address + size
        self.blocks[address] = np.full(size, 0xCD, np.uint8)
        return address

    def view(self, address: int, count: int, dtype: Any) -> NDArray[Any]:
        """The memory itself; fails for an address that is not allocated."""
        size = count * np.dtype(dtype).itemsize
        for start, block in self.blocks.items():
            if start <= address and address + size <= start + block.size:
                return block[address - start : address - start + size].view(dtype)
        raise AssertionError(f"{size} bytes at {address:#x} are not allocated")

    def write(self, address: int, array: NDArray[Any]) -> None:
        data = np.ascontiguousarray(array)
        self.view(address, data.nbytes, np.uint8)[:] = data.ravel().view(np.uint8)

    def read(self, address: int, count: int, dtype: Any) -> NDArray[Any]:
        return self.view(address, count, dtype).copy()

    def fill(self, address: int, words: int, pattern: int) -> None:
        self.view(address, words, np.uint32)[:] = pattern

    # Kernels ------------------------------------------------------------------------------------

    def kernel(self, source: str, name: str, **macros: object) -> Kernel:
        return Kernel(name, macros)

    def launch(
        self, kernel: Kernel, grid: int | tuple[int, int], threads: int, arguments: Sequence[Any]
    ) -> None:
        assert isinstance(grid, int) and grid >= 1 and 1 <= threads <= 1024
        while self.pending:
            self.pending.pop(0)()
        self.launched.append(kernel.name)
        getattr(self, f"_{kernel.name}")(kernel.handle, grid * threads, *arguments)

    def _vary(self, _: object, __: int, to: Any, base: Any, count: Any, how: Any) -> None:
        rule = self._rule(how)
        index = np.arange(count.value)
        source = rule.base_index(index)
        data = self.view(base.value, int(source.max()) + 1, np.float32)
        made = data[source] * rule.factor(index).astype(np.float32)
        self.view(to.value, count.value, np.float32)[:] = made

    def _compare(
        self, _: object, __: int,
        got: Any, value: Any, allowed: Any, count: Any, poison: Any, how: Any, verdict: Any,
    ) -> None:  # fmt: skip
        rule = self._rule(how)
        index = np.arange(count.value)
        source, factor = rule.base_index(index), rule.factor(index)
        elements = self.view(got.value, count.value, np.float32)
        last = int(source.max()) + 1
        expected = factor * self.view(value.value, last, np.float64)[source]
        bound = np.abs(factor) * self.view(allowed.value, last, np.float64)[source]
        with np.errstate(all="ignore"):
            error = np.abs(elements.astype(np.float64) - expected)
            wrong = ~(error <= bound) | np.isinf(elements)
            used = np.nan_to_num((error / bound).astype(np.float32), nan=0.0, posinf=np.inf)
        record = self.view(verdict.value, 1, _VERDICT)
        record["wrong"] += np.uint64(wrong.sum())
        if wrong.any():
            record["first"] = min(int(record["first"][0]), int(np.argmax(wrong)))
        unwritten = wrong & (elements.view(np.uint32) == poison.value)
        record["unwritten"] += np.uint64(unwritten.sum())
        worst = max(record["worst"].view(np.float32)[0], used.max(initial=np.float32(0)))
        record["worst"] = np.float32(worst).view(np.uint32)

    def _guards(
        self, _: object, covered: int, where: Any, words: Any, pattern: Any, to: Any
    ) -> None:
        count = covered // 256
        damaged = self.view(to.value, count, np.uint32)
        for number, address in enumerate(self.view(where.value, count, np.uint64)):
            bad = np.flatnonzero(self.view(int(address), words.value, np.uint32) != pattern.value)
            before = number % 2 == 0
            damaged[number] = 0 if bad.size == 0 else 1 + bad[-1 if before else 0]

    def _probe(self, macros: dict[str, Any], covered: int, streams: Any, vectors: Any) -> None:
        reads, writes = macros["READS"], macros["WRITES"]
        assert 1 <= reads <= MOST_STREAMS and 0 <= writes <= MOST_STREAMS
        assert covered * macros["UNROLL"] >= vectors.value, "some vectors are left out"
        count = 4 * vectors.value
        with np.errstate(all="ignore"):
            total = sum(self.view(streams.inputs[s], count, np.float32) for s in range(reads))
        for s in range(writes):
            self.view(streams.outputs[s], count, np.float32)[:] = total
        self.now += self.probe(macros, 16 * vectors.value * (reads + writes))

    def _pause(self, _: object, __: int, nanoseconds: Any) -> None:
        self.now += nanoseconds.value / 1e9

    def _rule(self, how: Any) -> Rule:
        """What the fields of arrays.cu's Variation say."""
        vectors = tuple(
            Vector(one.stride, one.extent, one.key, one.exponent)
            for one in how.factor[: how.factors]
        )
        order = self.read(how.order, how.rows, np.uint32)
        return Rule(how.rows, how.base_rows, how.inner, how.multiplier, how.shift, order, vectors)

    # Clock --------------------------------------------------------------------------------------

    def synchronize(self) -> None:
        pass

    def reset_persisting_l2(self) -> None:
        self.launched.append("reset")

    def mark(self) -> float:
        return self.now

    def between(self, first: float, second: float) -> float:
        return second - first


# The worker --------------------------------------------------------------------------------------


@dataclass
class Launch:
    """What a launcher in Python sees of one call: its arrays by name (NaN-poisoned outputs among
    them), the same with `beyond` elements of what lies around, and where it stands."""

    arrays: dict[str, F]
    addresses: dict[str, int]
    gpu: FakeGpu
    batch: int  # number of the batch, warm-ups included
    call: int  # within the batch

    def around(self, name: str, offset: int) -> F:
        """One element, counted from the start of an array, inside or outside of it."""
        found: F = self.gpu.view(self.addresses[name] + 4 * offset, 1, np.float32)
        return found


Launcher = Callable[[Launch], None]
Clock = Callable[[int, int], Timed]


def steady(per_call: float, overhead: float = 1e-4) -> Clock:
    """A clock by which every call takes as long, on a worker that answers after `overhead`."""
    return lambda _, calls: Timed(
        per_call * calls, per_call * calls + 5e-6, per_call * calls + 5e-6 + overhead, ""
    )


@dataclass
class FakeSession(Session):
    """`clock` gives the times of a batch from its number and the number of its calls. `faults` are
    given instead of the answer to the batch of that number.

    unjoined: the last call of a batch works where the copies do not wait for it. late: a batch is
    answered before anything was done; the rest follows if the worker lives on.
    """

    gpu: FakeGpu
    assignment: Assignment
    part: Part
    launcher: Launcher
    clock: Clock = field(default_factory=lambda: steady(1e-4))
    launches: str = ""
    faults: dict[int, Fault] = field(default_factory=dict)
    unjoined: bool = False
    late: bool = False
    sizes: list[int] = field(default_factory=list)  # calls of each batch
    stops: list[int] = field(default_factory=list)  # after how many batches it was ended
    alive: bool = False
    pools: tuple[Pool, ...] = ()
    mapped: int = 0
    module: Any = field(default_factory=lambda: SimpleNamespace(usage=()))

    def stop(self) -> None:
        self.stops.append(len(self.sizes))
        self.alive = False
        self.gpu.pending.clear()

    def map(self, pools: Sequence[Pool]) -> None:
        self.pools = tuple(pools)
        self.mapped += bool(pools)

    def batch(
        self,
        launcher: str,
        calls: Sequence[Sequence[Placed | int]],
        keep: Sequence[Kept] = (),
    ) -> Timed | Fault:
        assert launcher == self.part.launcher
        assert self.pools, "nothing is mapped"
        number = len(self.sizes)
        self.sizes.append(len(calls))
        self.alive = True
        if number in self.faults:
            return self.faults[number]
        launches = [self._launch(arguments, number, at) for at, arguments in enumerate(calls)]
        if self.late:
            self.gpu.pending.append(lambda: self._work(launches, keep))
        else:
            self._work(launches, keep)
        timed = self.clock(number, len(calls))
        return Timed(timed.done, timed.settled, timed.wall, self.launches)

    def _work(self, launches: list[Launch], keep: Sequence[Kept]) -> None:
        joined = len(launches) - self.unjoined
        for launch in launches[:joined]:
            self.launcher(launch)
        for one in keep:
            assert self.pools[one.pool].writable
            start = self.gpu.shared[self.pools[one.pool].fd]
            data = self.gpu.read(start + one.offset, one.size, np.uint8)
            self.gpu.write(start + one.copy, data)
        for launch in launches[joined:]:
            self.launcher(launch)

    def _launch(self, arguments: Sequence[Placed | int], batch: int, call: int) -> Launch:
        named = dict(zip(self.part.arguments, arguments, strict=True))
        dims = {name: value for name, value in named.items() if isinstance(value, int)}
        arrays, addresses = {}, {}
        for name, placed in named.items():
            if isinstance(placed, int):
                continue
            pool = self.pools[placed.pool]
            address = self.gpu.shared[pool.fd] + placed.offset
            shape = self.assignment.shape(name, dims)
            array = self.gpu.view(address, math.prod(shape), np.float32).reshape(shape)
            array.flags.writeable = pool.writable
            arrays[name], addresses[name] = array, address
        return Launch(arrays, addresses, self.gpu, batch, call)


def reference(assignment: Assignment, part: Part, bound: str) -> Launcher:
    """A launcher that is right: the assignment's own reference, rounded to float32."""

    def launch(seen: Launch) -> None:
        dims = dict.fromkeys(assignment.dimensions, 1)
        for name, array in seen.arrays.items():
            dims.update(zip(assignment.arrays[name], array.shape, strict=True))
        inputs = {name: seen.arrays[name] for name in seen.arrays if name not in part.outputs}
        expected = assignment.expected(part, dims, inputs, bound)
        for name in part.outputs:
            seen.arrays[name][...] = expected[name].value

    return launch
