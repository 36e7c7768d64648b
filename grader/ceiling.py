"""The memory ceiling: how fast this GPU moves a part's minimum bytes, measured beside the student.

A kernel that is limited by memory can be no faster than one that only reads its inputs once and
writes its outputs once. The probe (grader/native/gpu/probe.cu) does just that, with the same number
of large streams read and written, over the very buffers of the trial. Copying, reading and adding
reach different bandwidths, and small arrays lower ones than large: so it is measured for each part
and shape, never looked up.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from grader.gpu import Gpu, Kernel

THREADS = 256
MOST_STREAMS = 4
VARIANTS = tuple((unroll, hint) for hint in (0, 1, 2) for unroll in (1, 2, 4, 8))
LAUNCH_SECONDS = 20e-6  # more than our own process needs to start one kernel

Buffers = list[tuple[int, int]]  # (address, bytes)


@dataclass(frozen=True)
class Mix:
    """The streams of a part: how many are read and written, vectors of 16 bytes in each, and what
    to multiply a time by because small arrays are left out."""

    reads: int
    writes: int
    vectors: int
    correction: float


def mix(inputs: Buffers, outputs: Buffers) -> Mix:
    """The streams of one set of arrays: those that are at least an eighth of the largest."""
    largest = max(size for _, size in [*inputs, *outputs])
    reads = min(MOST_STREAMS, len(_large(inputs, largest)))
    writes = min(MOST_STREAMS, len(_large(outputs, largest)))
    if reads == 0:  # nothing but output: reading as much as is written is near enough
        reads = writes
    large = [*_large(inputs, largest)[:reads], *_large(outputs, largest)[:writes]]
    vectors = max(1, min(size for _, size in large) // 16)
    moved = 16 * vectors * (reads + writes)
    total = sum(size for _, size in [*inputs, *outputs])
    return Mix(reads, writes, vectors, total / moved)


def _large(buffers: Buffers, largest: int) -> Buffers:
    found = [buffer for buffer in buffers if 8 * buffer[1] >= largest]
    return sorted(found, key=lambda buffer: -buffer[1])


class _Streams(ctypes.Structure):
    """`Streams` of probe.cu."""

    _fields_ = (
        ("inputs", ctypes.c_void_p * MOST_STREAMS),
        ("outputs", ctypes.c_void_p * MOST_STREAMS),
    )


class Ceiling:
    """The fastest variant of the probe on these sets of buffers."""

    def __init__(self, gpu: Gpu, sets: list[tuple[Buffers, Buffers]]) -> None:
        self.gpu = gpu
        self.mix = mix(*sets[0])
        self._arguments = [self._prepared(inputs, outputs) for inputs, outputs in sets]
        times = {variant: min(self._time(variant) for _ in range(3)) for variant in VARIANTS}
        self.variant = min(times, key=lambda variant: times[variant])
        self.best = times[self.variant]

    def seconds(self) -> float:
        """Time per call of one run over all sets, back to back; overwrites the outputs."""
        return self._time(self.variant)

    def _time(self, variant: tuple[int, int]) -> float:
        unroll, hint = variant
        kernel = self._kernel(unroll, hint)
        blocks = -(-self.mix.vectors // (THREADS * unroll))
        count = len(self._arguments)
        nanoseconds = ctypes.c_ulonglong(int(1e9 * LAUNCH_SECONDS * (count + 4)))
        self.gpu.launch(self.gpu.kernel("pause.cu", "pause"), 1, 1, [nanoseconds])
        begin = self.gpu.mark()
        for arguments in self._arguments:
            self.gpu.launch(kernel, blocks, THREADS, arguments)
        took = self.gpu.between(begin, self.gpu.mark())
        return took / count * self.mix.correction

    def _kernel(self, unroll: int, hint: int) -> Kernel:
        return self.gpu.kernel(
            "probe.cu",
            "probe",
            READS=self.mix.reads,
            WRITES=self.mix.writes,
            UNROLL=unroll,
            HINT=hint,
        )

    def _prepared(self, inputs: Buffers, outputs: Buffers) -> list[_Streams | ctypes.c_ulonglong]:
        largest = max(size for _, size in [*inputs, *outputs])
        reads = (_large(inputs, largest) or _large(outputs, largest))[: self.mix.reads]
        writes = _large(outputs, largest)[: self.mix.writes]
        streams = _Streams(_pointers(reads), _pointers(writes))
        return [streams, ctypes.c_ulonglong(self.mix.vectors)]


def _pointers(buffers: Buffers) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * MOST_STREAMS)(*(address for address, _ in buffers))
