"""Command records: how a worker is told what to do. Their layout is in grader/worker.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader import worker


@dataclass(frozen=True)
class Pool:
    """Device memory of the grader's that a worker maps: a file descriptor and a size in bytes."""

    fd: int
    size: int
    writable: bool


@dataclass(frozen=True)
class Placed:
    """An array argument in a pool."""

    pool: int
    offset: int


@dataclass(frozen=True)
class Kept:
    """An array in a pool, of so many bytes, to be copied to another offset there."""

    pool: int
    offset: int
    size: int
    copy: int


@dataclass(frozen=True)
class Laid:
    """An array of a modelled call, of so many bytes: pieces of a sheet, whose offsets stand in a
    table there."""

    name: str
    size: int
    output: bool = False
    table: int = 0
    piece: int = 0


def number(value: int) -> bytes:
    return worker.ARGUMENT.pack(worker.NUMBER, value, 0, 0, 0, 0, b"")


def buffer(
    name: str, used: int, *, output: bool = False, offset: int = 0, room: int = 0, guard: int = 0
) -> bytes:
    """An array of `used` bytes at an offset of the arena, with room for more, between guards."""
    return worker.ARGUMENT.pack(
        worker.BUFFER, output, offset, used, room, guard, name.encode()[:32]
    )


def laid(one: Laid) -> bytes:
    """An array of a modelled call."""
    return buffer(one.name, one.size, output=one.output, offset=one.table, room=one.piece)


def command(
    what: int,
    launcher: str,
    arguments: Sequence[bytes],
    *,
    count: int | None = None,
    watch: int = 0,
    schedule: int = 0,
    steps: int = 0,
    arena: int = 0,
) -> bytes:
    """A command with its arguments. count: of what follows instead of arguments. arena: its size in
    bytes."""
    number_of = len(arguments) if count is None else count
    head = worker.COMMAND.pack(what, watch, schedule, steps, arena, launcher.encode(), number_of)
    return (head + b"".join(arguments)).ljust(worker.COMMAND_BYTES, b"\0")


def mapping(pools: Sequence[Pool]) -> bytes:
    """The pools to map, whose descriptors follow."""
    return command(
        worker.MAP,
        "",
        [worker.ARGUMENT.pack(worker.POOL, one.writable, 0, one.size, 0, 0, b"") for one in pools],
    )


def batch(launcher: str, calls: Sequence[Sequence[Placed | int]], keep: Sequence[Kept]) -> bytes:
    """A batch: its calls, and what to keep of the last ones."""
    kept = [
        worker.ARGUMENT.pack(worker.POOL, one.pool, one.offset, one.size, one.copy, 0, b"")
        for one in keep
    ]
    return b"".join(
        [
            command(worker.BATCH, launcher, [], count=len(calls)),
            *(command(worker.CALL, launcher, [_placed(one) for one in call]) for call in calls),
            command(worker.CALL, "", kept),
        ]
    )


def _placed(argument: Placed | int) -> bytes:
    if isinstance(argument, int):
        return number(argument)
    return worker.ARGUMENT.pack(worker.POOL, argument.pool, argument.offset, 0, 0, 0, b"")
