"""The untrusted side: a process that loads a submission's module and calls its launchers.

Started by grader.session inside the sandbox as `python -I -S worker.py MODULE CONTROL ARENA
PROCESSES`; standard library only, nothing of the grader is visible here. It gets raw input
buffers in a shared arena and fixed-size records on the control socket, and gives back raw
buffers and fixed-size replies. It knows no expected value, tolerance, seed or result path.
Whatever it says is data: only the buffers decide, and the parent compares them.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import socket
import struct
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

MAX_ARGUMENTS = 24
TEXT_BYTES = 2000
DATA_BYTES = 2 << 30
LOG_BYTES = 8 << 20
PR_SET_PDEATHSIG = 1
UNKNOWN = "Caught an unknown exception!"  # pybind11's words

# A command: schedule, step budget, bytes of the arena, launcher, number of arguments; then
# MAX_ARGUMENTS argument records.
COMMAND = struct.Struct("<QQQ64sI")
# An argument: kind, value of a number, offset of the slot in the arena, bytes in use, bytes of
# the largest use in this case, bytes before and after, name.
ARGUMENT = struct.Struct("<IqQQQQ32s")
# A reply: status, error code, kind of fault, sentence.
REPLY = struct.Struct(f"<Ii32s{TEXT_BYTES}s")

COMMAND_BYTES = COMMAND.size + MAX_ARGUMENTS * ARGUMENT.size

NUMBER, BUFFER = 0, 1
STARTED, READY, RETURNED, CUDA_ERROR, EXCEPTION, MISSING, NOT_LOADED = range(7)


class Buffers:
    """Device memory per argument position: the same address for every call of a case."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.slots: dict[tuple[str, int], tuple[int, int]] = {}

    def address(self, launcher: str, position: int, size: int) -> int:
        """Start of at least `size` bytes that stay in place until more is asked for."""
        key = (launcher, position)
        address, capacity = self.slots.get(key, (0, 0))
        if capacity < size:
            if address:
                self.module.release(address)
            address = self.module.allocate(size)
            self.slots[key] = (address, size)
        return address


def load(path: str) -> ModuleType:
    loader = ExtensionFileLoader("submission", path)
    spec = spec_from_file_location("submission", path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def obey(
    module: ModuleType, buffers: Buffers, arena: memoryview, record: bytes
) -> tuple[int, int, str, str]:
    """Run one command; (status, error code, kind, sentence)."""
    schedule, steps, _, name, count = COMMAND.unpack_from(record)
    launcher = name.rstrip(b"\0").decode()
    if launcher not in module.launchers:
        return MISSING, 0, "missing", ""
    module.schedule(schedule, steps)
    values: list[int] = []
    copies: list[tuple[memoryview, int]] = []
    for position in range(count):
        kind, value, offset, used, capacity, guard, label = ARGUMENT.unpack_from(
            record, COMMAND.size + position * ARGUMENT.size
        )
        if kind == NUMBER:
            values.append(value)
            continue
        address = buffers.address(launcher, position, capacity + 2 * guard)
        slot = arena[offset : offset + used + 2 * guard]
        module.copy_in(address, slot)
        module.name(address + guard, used, label.rstrip(b"\0").decode())
        copies.append((slot, address))
        values.append(address + guard)
    try:
        getattr(module, launcher)(*values)
    except Exception as error:
        code, kind_of_fault, sentence = module.synchronize()
        if kind_of_fault:  # the emulator ends an endless loop of host code by an exception
            return CUDA_ERROR, code, kind_of_fault, sentence
        return (
            EXCEPTION,
            0,
            "exception",
            str(error).replace(UNKNOWN, "one that is no std::exception"),
        )
    code, kind_of_fault, sentence = module.synchronize()
    if code:
        return CUDA_ERROR, code, kind_of_fault, sentence
    for slot, address in copies:
        module.copy_out(slot, address)
    return RETURNED, 0, "", module.note()


def limit(processes: int) -> None:
    """Bounds that hold whatever the sandbox is; and nobody outlives the process that grades."""
    for what, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, DATA_BYTES),
        (resource.RLIMIT_FSIZE, LOG_BYTES),
    ):
        resource.setrlimit(what, (value, value))
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # bubblewrap does it by itself
    if processes:
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))


def main() -> None:
    path, control_fd, arena_fd, processes = sys.argv[1], *map(int, sys.argv[2:5])
    limit(processes)
    control = socket.socket(fileno=control_fd)

    def reply(status: int, code: int = 0, kind: str = "", text: str = "") -> None:
        sentence = text.encode(errors="replace")[:TEXT_BYTES]
        control.sendall(REPLY.pack(status, code, kind.encode()[:32], sentence))

    reply(STARTED)  # whatever happens from here on is the submission's doing
    try:
        module = load(path)
    except ImportError as error:
        reply(NOT_LOADED, 0, "load", str(error))
        os._exit(0)
    reply(READY)
    buffers = Buffers(module)
    arena = memoryview(b"")
    while True:
        record = control.recv(COMMAND_BYTES, socket.MSG_WAITALL)
        if len(record) < COMMAND_BYTES:
            os._exit(0)  # the parent is done with us
        size = COMMAND.unpack_from(record)[2]
        if len(arena) < size:
            arena = memoryview(mmap.mmap(arena_fd, size))
        status, code, kind, sentence = obey(module, buffers, arena, record)
        sys.stdout.flush()
        reply(status, code, kind, sentence)


if __name__ == "__main__":
    main()
