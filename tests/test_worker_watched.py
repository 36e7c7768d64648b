"""Calls that the emulator's checkers or counters watch, seen from the worker."""

from __future__ import annotations

import mmap
import os
import socket
import struct
import tempfile
from typing import cast

import pytest

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


@pytest.mark.parametrize("every", [False, True])
def test_a_modelled_call_works_on_a_sheet(every: bool) -> None:
    """Whole pages are mapped, again and again; other arrays are copied, outputs back as well."""
    page, seen = mmap.PAGESIZE, []
    device = Device(lambda *values: seen.append(bytes(device.memory[values[1]])))
    with tempfile.TemporaryFile() as file:
        file.write(struct.pack("<2Q", page, page).ljust(page, b"\0"))
        file.write(b"x" * page + b"abcd" + struct.pack("<2Q", 2 * page, 2 * page + 20))
        file.write(b"....")
        file.flush()
        given = [(0, 0, 2 * page, page), (0, 2 * page + 4, 4, 4), (1, 2 * page + 12, 4, 4)]
        arguments = b"".join(
            worker.ARGUMENT.pack(worker.BUFFER, output, table, used, piece, 0, b"x")
            for output, table, used, piece in given
        )
        watch = worker.WATCH_COUNTS | (worker.EVERY_BLOCK if every else 0)
        size = os.fstat(file.fileno()).st_size
        head = worker.COMMAND.pack(worker.MODEL, watch, size, 5, 0, b"launch", 3)
        ours, theirs = socket.socketpair()
        made = Worker(device.module, ours, 0)
        theirs.sendall(b"sms=3".ljust(worker.MACHINE_BYTES, b"\0"))
        socket.send_fds(theirs, [b"s"], [file.fileno()])
        answer = made.obey((head + arguments).ljust(worker.COMMAND_BYTES, b"\0"))
        assert answer[0] == worker.RETURNED
        (size, offsets, piece, shared), *others = device.laid
        assert not others and (size, offsets, piece, shared) == (
            2 * page,
            (page, page),
            page,
            False,
        )
        assert seen == [b"abcd"]
        assert device.samples[0][:2] == (
            (0, 0) if every else (worker.SAMPLED_BLOCKS, worker.SAMPLED_ACCESSES)
        )
        assert device.watched == [worker.WATCH_COUNTS, 0]
        assert device.memory == {} and device.order.count("copy_out") == 1
        ours.close()
        theirs.close()
