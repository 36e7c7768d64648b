"""Buffers as they lie in memory: guard | data | guard, in one arena that the worker shares.

Inputs are filled with the case's data, outputs with a NaN pattern, guards with another. After a
call the arena tells what was written, and where it should not have been.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GUARD_BYTES = 4096
POISON = 0x7FC0_BEEF  # a quiet NaN whose bits no computation makes by accident
GUARD = 0x7FA5_5AA5  # a NaN too, so that a value read out of bounds spoils the result
ALIGNMENT = 256  # of every buffer, as cudaMalloc has it

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Buffer:
    """An array argument. `data` is None for an output; `room` is the most elements that any call
    of the same case needs, so that all of them get the same address."""

    name: str
    shape: tuple[int, ...]
    data: Float32 | None
    room: int

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


class Arena:
    """Memory shared with the worker: it can neither be shrunk nor found by a name."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.fd = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            # without this seal a worker could shrink the file and crash its parent
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        else:  # macOS
            with tempfile.NamedTemporaryFile(delete=True) as file:
                self.fd = os.dup(file.fileno())
        self.size = 0
        self._words: NDArray[np.uint32] = np.zeros(0, np.uint32)

    def grow(self, size: int) -> None:
        if size <= self.size:
            return
        size = max(size, 2 * self.size, 1 << 20)
        size += -size % mmap.PAGESIZE
        os.ftruncate(self.fd, size)
        self._words = np.frombuffer(mmap.mmap(self.fd, size), np.uint32)
        self.size = size

    def words(self, offset: int, size: int) -> NDArray[np.uint32]:
        """A view of `size` bytes from `offset` on, as 32-bit words."""
        return self._words[offset // 4 : (offset + size) // 4]

    def close(self) -> None:
        os.close(self.fd)


def offsets(arguments: Sequence[Buffer | int]) -> tuple[list[int], int]:
    """Where each argument's slot starts in the arena, and how large the arena must be."""
    found, total = [], 0
    for argument in arguments:
        found.append(total)
        if not isinstance(argument, int):
            total += slot_bytes(argument.size)
    return found, total


def slot_bytes(size: int) -> int:
    """Bytes of a buffer of so many elements with its guards, up to where the next one starts."""
    used = 2 * GUARD_BYTES + 4 * size
    return used + -used % ALIGNMENT


def guard_damage(
    name: str, size: int, before: NDArray[np.uint32], after: NDArray[np.uint32]
) -> list[str]:
    """What was written beside an array, as sentences."""
    found = []
    wrong = np.flatnonzero(before != GUARD)
    if wrong.size:
        found.append(written_before(name, len(before) - int(wrong[-1])))
    wrong = np.flatnonzero(after != GUARD)
    if wrong.size:
        found.append(written_after(name, size, int(wrong[0])))
    return found


def written_before(name: str, distance: int) -> str:
    return f"out-of-bounds write: {distance} elements before the start of `{name}`"


def written_after(name: str, size: int, distance: int) -> str:
    return (
        f"out-of-bounds write: element {size + distance} of `{name}`, "
        f"which has {size} element{'s' if size > 1 else ''}"
    )
