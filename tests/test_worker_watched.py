"""Calls that the emulator's checkers or counters watch, seen from the worker."""

from __future__ import annotations

import socket
import struct
from typing import cast

from grader import worker
from grader.worker import Worker
from tests.test_worker import GUARD, Device, record


def test_a_checked_call_is_watched_until_it_is_done() -> None:
    device = Device(lambda *_: None)
    command = bytearray(record(("x", 0, 8, 8)))
    struct.pack_into("<I", command, 4, worker.WATCH_CHECKS)
    made = Worker(device.module, cast(socket.socket, None), 0)
    made.arena = memoryview(bytearray(64))
    assert made.obey(bytes(command))[0] == worker.RETURNED
    assert device.watched == [worker.WATCH_CHECKS, 0]


def test_outputs_are_told_to_be_unwritten() -> None:
    device = Device(lambda *_: None)
    arguments = b"".join(
        worker.ARGUMENT.pack(worker.BUFFER, output, 0, 8, 8, GUARD, b"x") for output in (0, 1)
    )
    head = worker.COMMAND.pack(worker.CALL, 0, 0, 0, 0, b"launch", 2)
    made = Worker(device.module, cast(socket.socket, None), 0)
    made.arena = memoryview(bytearray(64))
    made.obey((head + arguments).ljust(worker.COMMAND_BYTES, b"\0"))
    (address, size), *others = device.outputs
    assert not others and size == 8
    assert address == max(device.memory) + GUARD


def test_a_modelled_call_gets_arrays_of_its_own_and_gives_them_back() -> None:
    given: list[tuple[int, ...]] = []
    device = Device(lambda *values: given.append(values))
    arguments = worker.ARGUMENT.pack(worker.BUFFER, 0, 0, 4096, 0, 0, b"x")
    arguments += worker.ARGUMENT.pack(worker.NUMBER, 7, 0, 0, 0, 0, b"")
    head = worker.COMMAND.pack(worker.MODEL, worker.WATCH_COUNTS, 0, 5, 0, b"launch", 2)
    ours, theirs = socket.socketpair()
    made = Worker(device.module, ours, 0)
    theirs.sendall(b"sms=3".ljust(worker.MACHINE_BYTES, b"\0"))
    answer = made.obey((head + arguments).ljust(worker.COMMAND_BYTES, b"\0"))
    assert answer[0] == worker.RETURNED
    assert device.samples == [
        (worker.SAMPLED_BLOCKS, worker.SAMPLED_ACCESSES, "sms=3"),
        (0, 0, ""),
    ]
    assert given[0][1] == 7 and device.names[given[0][0]] == "x"
    assert device.memory == {} and device.watched == [worker.WATCH_COUNTS, 0]
    assert device.order.count("copy_in") == 0
    ours.close()
    theirs.close()
