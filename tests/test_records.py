"""What is packed for a worker is what it unpacks."""

from __future__ import annotations

from typing import Any

from grader import records, worker
from grader.records import Kept, Placed, Pool


def argument(command: bytes, position: int) -> tuple[Any, ...]:
    found: tuple[Any, ...] = worker.ARGUMENT.unpack_from(
        command, worker.COMMAND.size + position * worker.ARGUMENT.size
    )
    return found


def test_a_call() -> None:
    packed = [records.number(7), records.buffer("x", 8, output=True, offset=64, room=32, guard=4)]
    made = records.command(worker.CALL, "launch", packed, watch=1, schedule=2, steps=3, arena=4096)
    assert worker.COMMAND.unpack_from(made) == (
        worker.CALL, 1, 2, 3, 4096, b"launch".ljust(64, b"\0"), 2
    )  # fmt: skip
    assert argument(made, 0)[:2] == (worker.NUMBER, 7)
    assert argument(made, 1) == (worker.BUFFER, 1, 64, 8, 32, 4, b"x".ljust(32, b"\0"))


def test_pools() -> None:
    made = records.mapping([Pool(3, 4096, True), Pool(4, 8192, False)])
    assert worker.COMMAND.unpack_from(made)[0::6] == (worker.MAP, 2)
    assert [argument(made, n)[1:4:2] for n in (0, 1)] == [(1, 4096), (0, 8192)]


def test_a_batch_is_its_head_its_calls_and_what_to_keep() -> None:
    made = records.batch("launch", [[Placed(1, 256), 5], [Placed(0, 0), 6]], [Kept(1, 2, 3, 4)])
    size = worker.COMMAND_BYTES
    head, first, second, kept = (made[n * size : (n + 1) * size] for n in range(4))
    assert len(made) == 4 * size
    assert worker.COMMAND.unpack_from(head)[0::6] == (worker.BATCH, 2)
    assert worker.COMMAND.unpack_from(first)[0::6] == (worker.CALL, 2)
    assert argument(first, 0)[:3] == (worker.POOL, 1, 256)
    assert argument(second, 1)[:2] == (worker.NUMBER, 6)
    assert argument(kept, 0)[:5] == (worker.POOL, 1, 2, 3, 4)


def test_records_have_one_size() -> None:
    most = records.command(worker.CALL, "f", [records.number(1)] * worker.MAX_ARGUMENTS)
    assert len(most) == len(records.command(worker.CALL, "f", [])) == worker.COMMAND_BYTES
    assert worker.REPLY.size == 40 + worker.TEXT_BYTES + 20
