"""Buffers in memory: guards, slots, and an arena that a worker cannot shrink."""

from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.typing import NDArray

from grader.arena import GUARD, GUARD_BYTES, Arena, Buffer, guard_damage, offsets

F = NDArray[np.float32]


def buffer(name: str, size: int, data: F | None = None, room: int | None = None) -> Buffer:
    return Buffer(name, (size,), data, room or size)


def test_slots_do_not_overlap_and_are_aligned() -> None:
    arguments: list[Buffer | int] = [buffer("a", 3), 7, buffer("b", 100), buffer("c", 1), 8]
    starts, total = offsets(arguments)
    ends = [
        start + (2 * GUARD_BYTES + 4 * a.size if isinstance(a, Buffer) else 0)
        for start, a in zip(starts, arguments, strict=True)
    ]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    assert ends[-1] <= total
    assert all(start % 256 == 0 for start in starts)


def test_an_arena_keeps_its_content_as_it_grows_and_cannot_shrink() -> None:
    arena = Arena()
    try:
        arena.grow(100)
        arena.words(0, 8)[:] = [1, 2]
        arena.grow(5 << 20)
        assert arena.size >= 5 << 20
        assert list(arena.words(0, 8)) == [1, 2]
        arena.grow(10)
        assert arena.size >= 5 << 20
        with pytest.raises(PermissionError):
            os.ftruncate(arena.fd, 0)
    finally:
        arena.close()


def test_damage_is_counted_from_the_array() -> None:
    def guard(*damaged: int) -> NDArray[np.uint32]:
        words = np.full(16, GUARD, np.uint32)
        words[list(damaged)] = 0
        return words

    assert guard_damage("a", 5, guard(), guard()) == []
    assert guard_damage("a", 5, guard(3, 14), guard()) == [
        "out-of-bounds write: 2 elements before the start of `a`"
    ]
    assert guard_damage("a", 1, guard(), guard(1, 9)) == [
        "out-of-bounds write: element 2 of `a`, which has 1 element"
    ]
