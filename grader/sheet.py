"""The arrays of a call at a large size, in a file that is small: for the speed test without a GPU.

The inputs of a base case with few rows are repeated by mapping the same pages again and again, the
outputs are a hole in the file of which only what is written takes memory. So a call on arrays of
gigabytes costs no more than the blocks that run; and what they have written can be compared with
the float64 reference of the base case.

Where a part is linear in an input whose sums are its outputs, each repetition has a random sign:
equal numbers are rounded alike, and the sums would drift.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from grader import variation
from grader.assignment import Assignment, Dims, Expected
from grader.compare import Mismatch, allowance
from grader.manifest import Part
from grader.records import Laid

BASE_ELEMENTS = 1 << 16  # of the arrays that the reference works on
WHOLE_BYTES = 16 << 20  # of an array that is written into the file as a whole
WINDOW = 1 << 20  # elements that are compared at once


@dataclass(frozen=True)
class Look:
    """What was seen of an output: elements that were written (a zero looks like none), elements
    that are wrong, and the first of these."""

    written: int
    wrong: int
    first: Mismatch | None


class Sheet:
    """The arrays of a part at some dimensions. Use as a context manager."""

    def __init__(self, assignment: Assignment, part: Part, dims: Dims, family: str, bound: str,
                 seed: int) -> None:  # fmt: skip
        self.assignment, self.part, self.dims = assignment, part, dict(dims)
        self._base = variation.base_dims(assignment, dims, BASE_ELEMENTS)
        rng = np.random.Generator(np.random.PCG64([seed, 0]))
        inputs = assignment.inputs(part, family, self._base, 1.0, rng)
        self._expected = assignment.expected(part, self._base, inputs, bound)
        batch = assignment.batch
        self._repeats = 1 if batch is None else dims[batch] // self._base[batch]
        self._signs = rng.integers(0, 2, self._repeats) * 2 - 1
        self._fd = _anonymous()
        self._end = 0
        self.arguments: list[Laid | int] = []
        self._outputs: dict[str, tuple[int, int]] = {}  # offset and elements
        try:
            for name in part.arguments:
                if name in dims:
                    self.arguments.append(self.dims[name])
                elif name in part.outputs:
                    self.arguments.append(self._hole(name))
                else:
                    self.arguments.append(self._input(name, inputs[name]))
            os.ftruncate(self._fd, self._end)
            if hasattr(fcntl, "F_ADD_SEALS"):  # else a worker could make it shorter than we think
                fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Sheet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._fd)

    @property
    def file(self) -> tuple[int, int]:
        """Descriptor and bytes, for the worker."""
        return self._fd, self._end

    # What is in it ------------------------------------------------------------------------------

    def _input(self, name: str, base: NDArray[np.float32]) -> Laid:
        size = 4 * self._elements(name)
        array = np.ascontiguousarray(base, np.float32)
        linear = name == self.assignment.linear(self.part)
        data = [array, -array] if linear else [array]
        which = (self._signs < 0).astype(int) if linear else np.zeros(self._repeats, int)
        if not self._repeated(name) or (self._leading(name) and array.nbytes % mmap.PAGESIZE == 0):
            starts = np.array([self._append(one) for one in data], np.uint64)
            offsets = starts[which] if self._repeated(name) else starts[:1]
            return Laid(name, size, False, self._append(offsets), array.nbytes)
        if size > WHOLE_BYTES:
            raise Unmade(f"`{name}` cannot be repeated page by page")
        axis = self.assignment.arrays[name].index(str(self.assignment.batch))
        whole = np.concatenate([data[one] for one in which], axis=axis)
        return Laid(name, size, False, self._append(np.array([self._append(whole)], "<u8")), size)

    def _hole(self, name: str) -> Laid:
        elements = self._elements(name)
        self._align()
        start = self._end
        self._end += 4 * elements
        self._outputs[name] = start, elements
        return Laid(name, 4 * elements, True, self._append(np.array([start], "<u8")), 4 * elements)

    def _append(self, data: NDArray[np.generic]) -> int:
        """Write data from the next page on; where that is."""
        self._align()
        start = self._end
        with mmap.mmap(self._fd, self._grown(data.nbytes)) as file:
            file[start : start + data.nbytes] = data.tobytes()
        return start

    def _grown(self, size: int) -> int:
        self._end += size
        os.ftruncate(self._fd, self._end)
        return self._end

    def _align(self) -> None:
        self._end += -self._end % mmap.PAGESIZE

    def _repeated(self, name: str) -> bool:
        return self._repeats > 1 and self.assignment.batch in self.assignment.arrays[name]

    def _leading(self, name: str) -> bool:
        """Whether repetitions of a base array lie one behind another."""
        return self.assignment.arrays[name][0] == self.assignment.batch

    def _elements(self, name: str) -> int:
        return math.prod(self.assignment.shape(name, self.dims))

    # What came out ------------------------------------------------------------------------------

    def look(self, every_element: bool) -> Mapping[str, Look]:
        """Compare the outputs. every_element: what was not written is wrong; else it is no matter.

        Forgets what was written.
        """
        return {name: self._look(name, every_element) for name in self._outputs}

    def _look(self, name: str, every_element: bool) -> Look:
        start, elements = self._outputs[name]
        expected = self._scaled(name)
        values, allowed = expected.value.ravel(), allowance(expected).ravel()
        written = wrong = 0
        first: Mismatch | None = None
        windows = [(0, elements)] if every_element else self._written(start, elements)
        for begin, end in ((at, min(at + WINDOW, stop)) for b, stop in windows
                           for at in range(b, stop, WINDOW)):  # fmt: skip
            got = np.frombuffer(os.pread(self._fd, 4 * (end - begin), start + 4 * begin), "<f4")
            index = self._base_index(name, np.arange(begin, end, dtype=np.int64))
            seen = got != 0
            with np.errstate(invalid="ignore", over="ignore"):
                error = np.abs(got.astype(np.float64) - values[index])
            bad = ~(error <= allowed[index])  # NaN is bad
            if not every_element:
                bad &= seen
            written += int(np.count_nonzero(seen))
            wrong += int(np.count_nonzero(bad))
            if first is None and bad.any():
                at = int(np.argmax(bad))
                shape = self.assignment.shape(name, self.dims)
                first = Mismatch.of_element(
                    tuple(int(i) for i in np.unravel_index(begin + at, shape)),
                    got[at : at + 1], float(values[index[at]]), float(allowed[index[at]]),
                    0, elements, "",
                )  # fmt: skip
        if first is not None:
            first = replace(first, wrong=wrong)
        return Look(written, wrong, first)

    def _written(self, start: int, elements: int) -> Iterator[tuple[int, int]]:
        """Runs of elements on pages that were touched."""
        at, end = start, start + 4 * elements
        while at < end:
            try:
                data = os.lseek(self._fd, at, os.SEEK_DATA)
            except OSError:  # no more
                return
            if data >= end:
                return
            at = min(end, os.lseek(self._fd, data, os.SEEK_HOLE))
            yield (max(data, start) - start) // 4, (at - start) // 4

    def _base_index(self, name: str, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the expected values of these elements of an output stand."""
        if not self._repeated(name):
            return index
        names, batch = self.assignment.arrays[name], str(self.assignment.batch)
        inner = math.prod(self.dims[one] for one in names[names.index(batch) + 1 :])
        rest, column = np.divmod(index, inner)
        outer, row = np.divmod(rest, self.dims[batch])
        found: NDArray[np.int64] = (
            outer * self._base[batch] + row % self._base[batch]
        ) * inner + column
        return found

    def _scaled(self, name: str) -> Expected:
        """Expected values of an output; sums are over all repetitions."""
        expected = self._expected[name]
        if self._repeats == 1 or self.assignment.batch in self.assignment.arrays[name]:
            return expected
        linear = self.assignment.linear(self.part) is not None
        times = float(self._signs.sum()) if linear else float(self._repeats)
        return replace(
            expected,
            value=expected.value * times,
            scale=expected.scale * self._repeats,
            terms=expected.terms * self._repeats,
        )


class Unmade(Exception):
    """The arrays cannot be laid out so."""


def _anonymous() -> int:
    """A file that has no name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("sheet", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with tempfile.TemporaryFile() as file:  # macOS
        return os.dup(file.fileno())
