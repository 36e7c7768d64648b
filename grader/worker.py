"""The untrusted side: a process that loads a submission's module and calls its launchers.

Started by grader.session inside the sandbox as `python -I -S worker.py MODULE CONTROL ARENA
PROCESSES BYTES`; standard library only, nothing of the grader is visible here. It gets raw input
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
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

MAX_ARGUMENTS = 24
TEXT_BYTES = 2000
LOG_BYTES = 8 << 20
PR_SET_PDEATHSIG = 1
UNKNOWN = "Caught an unknown exception!"  # pybind11's words

# A command: what to do, who watches (WATCH_*), schedule, step budget, bytes of the arena, launcher,
# number of arguments; then MAX_ARGUMENTS argument records.
#   CALL   one call of the launcher
#   MODEL  one call for what it costs, told by the emulator; MACHINE_BYTES of settings follow, and
#          the descriptor of a file with the arrays if its size, in the place of the schedule, is
#          not 0. An array's offset there is that of a table: from where on its pieces lie, one
#          after another, in 64-bit numbers. Without a file arrays are zeros that nobody looks at.
#   MAP    the argument records are pools of device memory, whose descriptors follow in a message
#   BATCH  as many CALL commands as there are arguments follow, and one whose arguments are arrays
#          to copy in the end. Say READY_BYTE, wait for GO_BYTE, then call them back to back, timed
COMMAND = struct.Struct("<IIQQQ64sI")
CALL, MAP, BATCH, MODEL = range(4)
WATCH_CHECKS, WATCH_COUNTS = 1, 2
EVERY_BLOCK = 256  # beside WATCH_COUNTS: no sample
MACHINE_BYTES = 1000
SAMPLED_BLOCKS = 96  # of a modelled launch: enough for all that a few multiprocessors hold
SAMPLED_ACCESSES = 3_000_000
READY_BYTE, GO_BYTE = b"r", b"g"
# An argument: kind, value of a number (of a buffer: is it an output? of a pool: its number; when it
# is mapped: may it be written?), offset of the slot in the arena or pool, bytes in use, bytes of
# the largest use in this case (of an array to copy: offset of the copy; of a MODEL: of a piece),
# bytes before and after, name.
ARGUMENT = struct.Struct("<IqQQQQ32s")
# A reply: status, error code, kind of fault, sentence, two times in milliseconds, and the bytes of
# what those who watched have to tell, which follow.
REPLY = struct.Struct(f"<Ii32s{TEXT_BYTES}sddI")
REPORT_BYTES = 1 << 20
COUNTS_BYTES = 16 << 20  # of a call for what it costs: a few thousand launches

COMMAND_BYTES = COMMAND.size + MAX_ARGUMENTS * ARGUMENT.size

NUMBER, BUFFER, POOL = range(3)
STARTED, READY, RETURNED, CUDA_ERROR, EXCEPTION, MISSING, NOT_LOADED, NO_DEVICE = range(8)


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


class Sheet:
    """A file with the arrays of one call: `grader.sheet` lays them out."""

    def __init__(self, fd: int, data: memoryview) -> None:
        self.fd = fd
        self.data = data

    def lay(
        self, module: ModuleType, address: int, used: int, table: int, piece: int, output: bool
    ) -> int | None:
        """Make the array at an address what the sheet says; the offset of its data when they had to
        be copied, because they are no whole pages."""
        offsets = struct.unpack_from(f"<{used // piece}Q", self.data, table)
        if piece % mmap.PAGESIZE == 0:
            module.lay(address, used, self.fd, offsets, piece, output)
            return None
        for number, offset in enumerate(offsets):
            module.copy_in(address + number * piece, self.data[offset : offset + piece])
        return int(offsets[0])

    def close(self) -> None:
        os.close(self.fd)


Reply = tuple[int, int, str, str, float, float]


class Worker:
    """The module, its buffers, and the memory that both processes see."""

    def __init__(self, module: ModuleType, control: socket.socket, arena_fd: int) -> None:
        self.module = module
        self.control = control
        self.arena_fd = arena_fd
        self.arena = memoryview(b"")
        self.buffers = Buffers(module)
        self.pools: list[tuple[int, int]] = []

    def obey(self, record: bytes) -> Reply:
        """Run one command."""
        what, _, _, _, size, name, count = COMMAND.unpack_from(record)
        if len(self.arena) < size:
            self.arena = memoryview(mmap.mmap(self.arena_fd, size))
        if what == MAP:
            return self.map(record, count)
        if what == BATCH:
            return self.batch(name, [self.receive() for _ in range(count)], self.receive())
        if what == MODEL:
            settings = self.control.recv(MACHINE_BYTES, socket.MSG_WAITALL)
            return self.model(record, settings.rstrip(b"\0").decode(), self.sheet(record))
        return self.call(record)

    def receive(self) -> bytes:
        record = self.control.recv(COMMAND_BYTES, socket.MSG_WAITALL)
        if len(record) < COMMAND_BYTES:
            os._exit(0)  # the parent is done with us
        return record

    def call(self, record: bytes) -> Reply:
        module = self.module
        _, watch, schedule, steps, _, name, count = COMMAND.unpack_from(record)
        launcher = name.rstrip(b"\0").decode()
        if launcher not in module.launchers:
            return MISSING, 0, "missing", "", 0.0, 0.0
        module.schedule(schedule, steps)
        module.watch(watch)
        values: list[int] = []
        copies: list[tuple[memoryview, int]] = []
        for position in range(count):
            kind, value, offset, used, capacity, guard, label = ARGUMENT.unpack_from(
                record, COMMAND.size + position * ARGUMENT.size
            )
            if kind == NUMBER:
                values.append(value)
                continue
            address = self.buffers.address(launcher, position, capacity + 2 * guard)
            slot = self.arena[offset : offset + used + 2 * guard]
            module.copy_in(address, slot)
            module.name(address + guard, used, label.rstrip(b"\0").decode())
            if value:
                module.uninitialised(address + guard, used)
            copies.append((slot, address))
            values.append(address + guard)
        module.produce()

        def launch() -> None:
            getattr(module, launcher)(*values)
            module.collect()

        failed = self.run(launch)
        module.watch(0)
        if failed is not None:
            return failed
        for slot, address in copies:
            module.copy_out(slot, address)
        return RETURNED, 0, "", module.note(), 0.0, 0.0

    def sheet(self, record: bytes) -> Sheet | None:
        """The file with the arrays of a modelled call, if there is one."""
        size = COMMAND.unpack_from(record)[2]
        if not size:
            return None
        _, fds, _, _ = socket.recv_fds(self.control, 1, 1)
        return Sheet(fds[0], memoryview(mmap.mmap(fds[0], size)))

    def model(self, record: bytes, machine: str, sheet: Sheet | None) -> Reply:
        """Call a launcher for what it costs: some of its blocks, or all."""
        module = self.module
        _, watch, _, steps, _, name, count = COMMAND.unpack_from(record)
        launcher = name.rstrip(b"\0").decode()
        if launcher not in module.launchers:
            return MISSING, 0, "missing", "", 0.0, 0.0
        values: list[int] = []
        arrays: list[tuple[int, int, int]] = []
        for position in range(count):
            kind, value, offset, used, piece, _, label = ARGUMENT.unpack_from(
                record, COMMAND.size + position * ARGUMENT.size
            )
            if kind == BUFFER:
                output, value = bool(value), module.reserve(used)
                module.name(value, used, label.rstrip(b"\0").decode())
                copied = sheet.lay(module, value, used, offset, piece, output) if sheet else None
                arrays.append((value, used, copied if output and copied is not None else -1))
            values.append(value)
        module.schedule(0, steps)
        every = watch & EVERY_BLOCK
        module.sample(*((0, 0) if every else (SAMPLED_BLOCKS, SAMPLED_ACCESSES)), machine)
        module.watch(watch & ~EVERY_BLOCK)
        failed = self.run(lambda: getattr(module, launcher)(*values))
        module.watch(0)
        module.sample(0, 0, "")
        for address, used, copied in arrays:
            if sheet and copied >= 0 and not failed:
                module.copy_out(sheet.data[copied : copied + used], address)
            module.release(address)
        if sheet:
            sheet.close()
        return failed or (RETURNED, 0, "", "", 0.0, 0.0)

    def run(self, launch: Callable[[], None]) -> Reply | None:
        """Launch something and wait for it: what went wrong, None if nothing did."""
        module = self.module
        try:
            launch()
        except Exception as error:
            code, kind, sentence = module.synchronize()
            if kind:  # the emulator ends an endless loop of host code by an exception
                return CUDA_ERROR, code, kind, sentence, 0.0, 0.0
            said = str(error).replace(UNKNOWN, "one that is no std::exception")
            return EXCEPTION, 0, "exception", said, 0.0, 0.0
        code, kind, sentence = module.synchronize()
        return (CUDA_ERROR, code, kind, sentence, 0.0, 0.0) if code else None

    def map(self, record: bytes, count: int) -> Reply:
        """Map the grader's pools of device memory in place of those before."""
        _, fds, _, _ = socket.recv_fds(self.control, 1, count)
        for address, size in self.pools:
            self.module.unmap_shared(address, size)
        self.pools = []
        for position, fd in enumerate(fds):
            _, writable, _, size, *_ = ARGUMENT.unpack_from(
                record, COMMAND.size + position * ARGUMENT.size
            )
            try:
                self.pools.append((self.module.map_shared(fd, size, bool(writable)), size))
            except RuntimeError as error:
                return NOT_LOADED, 0, "map", str(error), 0.0, 0.0
            finally:
                os.close(fd)
        return RETURNED, 0, "", "", 0.0, 0.0

    def batch(self, name: bytes, records: list[bytes], kept: bytes) -> Reply:
        """Call a launcher on several sets of arguments in the pools, back to back."""
        launcher = name.rstrip(b"\0").decode()
        if launcher not in self.module.launchers:
            return MISSING, 0, "missing", "", 0.0, 0.0
        calls = [self.placed(record) for record in records]
        keep = self.copies(kept)
        times = [0.0, 0.0]

        def launch() -> None:
            times[:] = getattr(self.module, f"{launcher}_batch")(calls, keep)

        launches = self.module.launches()  # of the batch before: to ask takes a while
        failed = self.run(self.module.settle)
        if failed is not None:
            return failed
        self.control.sendall(READY_BYTE)
        self.control.recv(1)  # the parent's clock runs from here on
        failed = self.run(launch)
        if failed is not None:
            return failed
        return RETURNED, 0, "", launches, times[0], times[1]

    def copies(self, record: bytes) -> list[tuple[int, int, int]]:
        """(to, from, bytes) of the arrays to copy when a batch is done."""
        count = COMMAND.unpack_from(record)[6]
        made = []
        for position in range(count):
            _, pool, offset, size, copy, *_ = ARGUMENT.unpack_from(
                record, COMMAND.size + position * ARGUMENT.size
            )
            made.append((self.pools[pool][0] + copy, self.pools[pool][0] + offset, size))
        return made

    def placed(self, record: bytes) -> tuple[int, ...]:
        """The arguments of one call of a batch."""
        count = COMMAND.unpack_from(record)[6]
        values = []
        for position in range(count):
            kind, value, offset, *_ = ARGUMENT.unpack_from(
                record, COMMAND.size + position * ARGUMENT.size
            )
            values.append(self.pools[value][0] + offset if kind == POOL else value)
        return tuple(values)


def limit(processes: int, data_bytes: int) -> None:
    """Bounds that hold whatever the sandbox is; and nobody outlives the process that grades."""
    for what, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, data_bytes),
        (resource.RLIMIT_FSIZE, LOG_BYTES),
    ):
        resource.setrlimit(what, (value, value))
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # bubblewrap does it by itself
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # when memory runs out, rather this process than the one that grades
    if processes:
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))


def main() -> None:
    path, control_fd, arena_fd, processes, data_bytes = sys.argv[1], *map(int, sys.argv[2:6])
    limit(processes, data_bytes)
    control = socket.socket(fileno=control_fd)

    def reply(
        status: int,
        code: int = 0,
        kind: str = "",
        text: str = "",
        done: float = 0.0,
        settled: float = 0.0,
        report: bytes = b"",
    ) -> None:
        sentence = text.encode(errors="replace")[:TEXT_BYTES]
        head = (status, code, kind.encode()[:32], sentence, done, settled, len(report))
        control.sendall(REPLY.pack(*head) + report)

    reply(STARTED)  # whatever happens from here on is the submission's doing
    try:
        module = load(path)
    except ImportError as error:
        reply(NOT_LOADED, 0, "load", str(error))
        os._exit(0)
    unusable = module.why_unusable()
    if unusable:
        reply(NO_DEVICE, 0, "device", unusable)
        os._exit(0)
    reply(READY)
    worker = Worker(module, control, arena_fd)
    while True:
        record = worker.receive()
        answer = worker.obey(record)
        sys.stdout.flush()
        most = COUNTS_BYTES if COMMAND.unpack_from(record)[0] == MODEL else REPORT_BYTES
        reply(*answer, module.report().encode(errors="replace")[:most])


if __name__ == "__main__":
    main()
