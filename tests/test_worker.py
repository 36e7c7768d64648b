"""The untrusted side, driven with a module and device memory made of Python objects."""

from __future__ import annotations

import ast
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from grader import worker
from grader.worker import Buffers, Worker

GUARD = 8
UNMAPPABLE = 13  # a size that the stand-in refuses to map


class Device:
    """A stand-in for a submission's module: memory by address, and one launcher."""

    def __init__(self, launcher: Callable[..., None] | None = None) -> None:
        self.launchers = ["launch"] if launcher else []
        self.memory: dict[int, bytearray] = {}
        self.names: dict[int, str] = {}
        self.asked: list[tuple[int, int]] = []
        self.error: tuple[int, str, str] = (0, "", "")
        self.order: list[str] = []  # what was called, around a launch
        self.mapped: list[tuple[int, int, bool]] = []
        self.unmapped: list[tuple[int, int]] = []
        self.settled = 0
        self.batches: list[tuple[list[tuple[int, ...]], list[tuple[int, int, int]]]] = []
        self.watched: list[int] = []
        self.samples: list[tuple[int, int, str]] = []
        self.outputs: list[tuple[int, int]] = []
        self.laid: list[tuple[int, tuple[int, ...], int, bool]] = []
        self._next = 1000
        self._launcher = launcher

    def launch(self, *values: int) -> None:
        assert self._launcher is not None
        self.order.append("launch")
        self._launcher(*values)

    def allocate(self, size: int) -> int:
        self._next += 10_000
        self.memory[self._next] = bytearray(size)
        return self._next

    def release(self, address: int) -> None:
        del self.memory[address]

    def copy_in(self, address: int, data: memoryview) -> None:
        self.order.append("copy_in")
        self.memory[address][: len(data)] = data

    def copy_out(self, data: memoryview, address: int) -> None:
        self.order.append("copy_out")
        data[:] = self.memory[address][: len(data)]

    def schedule(self, seed: int, steps: int) -> None:
        self.asked.append((seed, steps))

    def name(self, address: int, size: int, label: str) -> None:
        self.names[address] = label

    def synchronize(self) -> tuple[int, str, str]:
        self.order.append("synchronize")
        return self.error

    def produce(self) -> None:
        self.order.append("produce")

    def collect(self) -> None:
        self.order.append("collect")

    def watch(self, who: int) -> None:
        self.watched.append(who)

    def report(self) -> str:
        return "a report"

    def uninitialised(self, address: int, size: int) -> None:
        self.outputs.append((address, size))

    def sample(self, blocks: int, accesses: int, machine: str) -> None:
        self.samples.append((blocks, accesses, machine))

    def reserve(self, size: int) -> int:
        return self.allocate(size)

    def lay(
        self, address: int, size: int, fd: int, offsets: Sequence[int], piece: int, shared: bool
    ) -> None:
        self.laid.append((size, tuple(offsets), piece, shared))

    def note(self) -> str:
        return "lane 3 reads nothing"

    # only a GPU has these

    def map_shared(self, fd: int, size: int, writable: bool) -> int:
        if size == UNMAPPABLE:
            raise RuntimeError("mapping failed")
        self.mapped.append((os.fstat(fd).st_ino, size, writable))
        return 1_000_000 * len(self.mapped)

    def unmap_shared(self, address: int, size: int) -> None:
        self.unmapped.append((address, size))

    def launch_batch(
        self, calls: list[tuple[int, ...]], keep: list[tuple[int, int, int]]
    ) -> tuple[float, float]:
        assert self.settled > len(self.batches), "the device is idle before every batch"
        self.batches.append((calls, keep))
        return 1.5, 2.5

    def settle(self) -> None:
        self.settled += 1

    def launches(self) -> str:
        return "ker\t32"

    @property
    def module(self) -> ModuleType:
        return cast(ModuleType, self)


def record(*arguments: tuple[Any, ...], launcher: str = "launch") -> bytes:
    """A command: numbers are (value,), buffers are (name, offset, used, room)."""
    packed = [
        worker.ARGUMENT.pack(worker.NUMBER, argument[0], 0, 0, 0, 0, b"")
        if len(argument) == 1
        else worker.ARGUMENT.pack(worker.BUFFER, 0, *argument[1:], GUARD, argument[0].encode())
        for argument in arguments
    ]
    head = worker.COMMAND.pack(worker.CALL, 0, 5, 77, 0, launcher.encode(), len(packed))
    return (head + b"".join(packed)).ljust(worker.COMMAND_BYTES, b"\0")


def obey(device: Device, shared: memoryview, command: bytes) -> tuple[Any, ...]:
    """What a worker answers to a command, without the times."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        made = Worker(device.module, theirs, -1)
        made.arena = shared
        return made.obey(command)[:4]


def arena(size: int = 200) -> memoryview:
    return memoryview(bytearray(range(size)))


# Buffers -----------------------------------------------------------------------------------------


def test_a_buffer_stays_in_place_until_more_is_needed() -> None:
    device = Device()
    buffers = Buffers(device.module)
    first = buffers.address("launch", 0, 100)
    assert buffers.address("launch", 0, 60) == first
    assert buffers.address("launch", 0, 100) == first
    larger = buffers.address("launch", 0, 101)
    assert larger != first
    assert list(device.memory) == [larger], "the smaller one is released"


def test_arguments_do_not_share_a_buffer() -> None:
    buffers = Buffers(Device().module)
    places = [("launch", 0), ("launch", 1), ("other", 0)]
    assert len({buffers.address(name, position, 8) for name, position in places}) == 3


# Commands ----------------------------------------------------------------------------------------


def test_numbers_and_addresses_are_passed_in_order() -> None:
    seen: list[tuple[int, ...]] = []
    device = Device(lambda *values: seen.append(values))
    answer = obey(
        device,
        arena(),
        record(("a", 0, 8, 8), (-3,), ("b", 32, 4, 40)),
    )
    assert answer == (worker.RETURNED, 0, "", "lane 3 reads nothing")
    ((first, number, second),) = seen
    assert number == -3
    assert [first - GUARD, second - GUARD] == list(device.memory)
    assert list(device.names.values()) == ["a", "b"]
    assert device.asked == [(5, 77)]


def test_inputs_are_produced_before_and_outputs_collected_right_behind_the_launch() -> None:
    """Nothing waits in between, so that the stream alone decides what is there."""
    device = Device(lambda *_: None)
    obey(device, arena(), record(("a", 0, 8, 8), ("b", 32, 4, 40)))
    assert device.order == [
        "copy_in", "copy_in", "produce", "launch", "collect", "synchronize", "copy_out", "copy_out",
    ]  # fmt: skip


def test_nothing_is_collected_after_an_exception() -> None:
    def launcher() -> None:
        raise RuntimeError("no")

    device = Device(launcher)
    obey(device, arena(), record())
    assert device.order == ["produce", "launch", "synchronize"]


def test_the_guards_travel_with_the_data_both_ways() -> None:
    def launcher(address: int) -> None:
        (memory,) = device.memory.values()
        assert bytes(memory[:24]) == bytes(range(16, 40))
        memory[7:9] = b"\xff\xff"  # the last byte of the guard in front, and the first element

    device = Device(launcher)
    shared = arena()
    obey(device, shared, record(("a", 16, 8, 100)))
    assert bytes(shared[16:40]) == bytes([*range(16, 23), 255, 255, *range(25, 40)])
    assert bytes(shared[:16]) == bytes(range(16))
    assert bytes(shared[40:]) == bytes(range(40, 200))


def test_a_launcher_that_is_not_there() -> None:
    device = Device()
    assert obey(device, arena(), record())[0] == worker.MISSING
    assert device.asked == []


def test_an_exception_is_reported() -> None:
    def launcher() -> None:
        raise RuntimeError("no")

    device = Device(launcher)
    answer = obey(device, arena(), record())
    assert answer == (worker.EXCEPTION, 0, "exception", "no")


def test_an_exception_of_the_emulator_is_the_fault_that_it_found() -> None:
    def launcher() -> None:
        raise RuntimeError("x.cu:3: this loop does not end")

    device = Device(launcher)
    device.error = (702, "endless_loop", "x.cu:3: this loop does not end")
    answer = obey(device, arena(), record())
    assert answer == (worker.CUDA_ERROR, *device.error)


def test_a_cuda_error_is_reported_and_nothing_is_copied_back() -> None:
    def launcher(address: int) -> None:
        (memory,) = device.memory.values()
        memory[:] = bytes(len(memory))

    device = Device(launcher)
    device.error = (700, "illegal_address", "x.cu:3: beyond")
    shared = arena()
    answer = obey(device, shared, record(("a", 0, 8, 8)))
    assert answer == (worker.CUDA_ERROR, 700, "illegal_address", "x.cu:3: beyond")
    assert bytes(shared) == bytes(range(200))


# Pools and batches -------------------------------------------------------------------------------


def pooled(*pools: tuple[int, bool]) -> bytes:
    """The command that gives pools of (size, writable)."""
    packed = [worker.ARGUMENT.pack(worker.POOL, can, 0, size, 0, 0, b"") for size, can in pools]
    head = worker.COMMAND.pack(worker.MAP, 0, 0, 0, 0, b"", len(pools))
    return (head + b"".join(packed)).ljust(worker.COMMAND_BYTES, b"\0")


def placed(*arguments: tuple[int, int] | int) -> bytes:
    """One call of a batch: (pool, offset) or a number."""
    packed = [
        worker.ARGUMENT.pack(worker.NUMBER, argument, 0, 0, 0, 0, b"")
        if isinstance(argument, int)
        else worker.ARGUMENT.pack(worker.POOL, *argument, 0, 0, 0, b"")
        for argument in arguments
    ]
    head = worker.COMMAND.pack(worker.CALL, 0, 0, 0, 0, b"launch", len(packed))
    return (head + b"".join(packed)).ljust(worker.COMMAND_BYTES, b"\0")


def batch(count: int, launcher: bytes = b"launch") -> bytes:
    head = worker.COMMAND.pack(worker.BATCH, 0, 0, 0, 0, launcher, count)
    return head.ljust(worker.COMMAND_BYTES, b"\0")


def kept(*copies: tuple[int, int, int, int]) -> bytes:
    """The last record of a batch: (pool, offset, size, offset of the copy)."""
    packed = [worker.ARGUMENT.pack(worker.POOL, *copy, 0, b"") for copy in copies]
    head = worker.COMMAND.pack(worker.CALL, 0, 0, 0, 0, b"", len(packed))
    return (head + b"".join(packed)).ljust(worker.COMMAND_BYTES, b"\0")


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    made = [os.open(tmp_path / str(n), os.O_CREAT | os.O_RDWR) for n in range(2)]
    yield made
    for fd in made:
        os.close(fd)


def test_pools_are_mapped_and_batches_run_in_them(files: list[int]) -> None:
    device = Device(lambda *_: None)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        made = Worker(device.module, theirs, -1)
        socket.send_fds(ours, [b"p"], files)
        answer = made.obey(pooled((64, False), (32, True)))
        assert answer == (worker.RETURNED, 0, "", "", 0.0, 0.0)
        assert device.mapped == [
            (os.fstat(files[0]).st_ino, 64, False),
            (os.fstat(files[1]).st_ino, 32, True),
        ]
        ours.sendall(placed((1, 8), (0, 16), -7) + placed((1, 24), (0, 0), 5))
        ours.sendall(kept((1, 24, 4, 28), (0, 8, 16, 32)) + worker.GO_BYTE)
        answer = made.obey(batch(2))
        assert ours.recv(8) == worker.READY_BYTE
        assert answer == (worker.RETURNED, 0, "", "ker\t32", 1.5, 2.5)
        wanted = [(2_000_008, 1_000_016, -7), (2_000_024, 1_000_000, 5)]
        copies = [(2_000_028, 2_000_024, 4), (1_000_032, 1_000_008, 16)]
        assert device.batches == [(wanted, copies)]
        # new pools take the place of the old ones; none at all just gives them up
        socket.send_fds(ours, [b"p"], [])
        made.obey(pooled())
        assert device.unmapped == [(1_000_000, 64), (2_000_000, 32)]
        assert made.pools == []


def test_memory_that_cannot_be_mapped_is_said(files: list[int]) -> None:
    device = Device()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(ours, [b"p"], files[:1])
        answer = Worker(device.module, theirs, -1).obey(pooled((UNMAPPABLE, True)))
    assert answer[:4] == (worker.NOT_LOADED, 0, "map", "mapping failed")


def test_a_batch_that_fails_reports_the_error_and_no_times() -> None:
    device = Device(lambda *_: None)
    device.error = (700, "illegal_address", "x.cu:3: beyond")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(placed(1) + kept() + worker.GO_BYTE)
        answer = Worker(device.module, theirs, -1).obey(batch(1))
        assert answer == (worker.CUDA_ERROR, 700, "illegal_address", "x.cu:3: beyond", 0.0, 0.0)


def test_a_launcher_that_is_not_there_is_never_ready() -> None:
    """Its whole command is read, so that the next one is understood."""
    device = Device(lambda *_: None)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        made = Worker(device.module, theirs, -1)
        ours.sendall(placed(1) + kept())
        assert made.obey(batch(1, launcher=b"another"))[0] == worker.MISSING
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.recv(1)
        ours.sendall(placed(1) + kept() + worker.GO_BYTE)
        assert made.obey(batch(1))[0] == worker.RETURNED


def test_no_call_is_made_before_the_word_to_go() -> None:
    device = Device(lambda *_: None)
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor() as pool:
        ours.sendall(placed(1) + kept())
        answer = pool.submit(Worker(device.module, theirs, -1).obey, batch(1))
        assert ours.recv(8) == worker.READY_BYTE
        time.sleep(0.05)
        assert device.batches == [] and not answer.done()
        ours.sendall(worker.GO_BYTE)
        assert answer.result(10)[0] == worker.RETURNED
    assert device.batches == [([(1,)], [])]


# The file itself ---------------------------------------------------------------------------------


def test_the_worker_needs_the_standard_library_only() -> None:
    tree = ast.parse(Path(worker.__file__).read_text())
    modules = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert {name.partition(".")[0] for name in modules} <= sys.stdlib_module_names


def test_limits_hold_in_the_process(tmp_path: Path) -> None:
    import resource
    import subprocess

    program = (
        "import importlib.util, resource, sys\n"
        f"spec = importlib.util.spec_from_file_location('worker', {worker.__file__!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "module.limit(7, 1 << 33)\n"
        "for what in ('CORE', 'DATA', 'FSIZE', 'NPROC'):\n"
        "    print(resource.getrlimit(getattr(resource, 'RLIMIT_' + what)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    wanted = [0, 1 << 33, worker.LOG_BYTES, 7]
    assert done.stdout.split("\n")[:4] == [str((value, value)) for value in wanted]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != worker.LOG_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has it")
def test_a_worker_ends_with_the_process_that_started_it() -> None:
    import subprocess

    child = (
        "import importlib.util, time\n"
        f"spec = importlib.util.spec_from_file_location('worker', {worker.__file__!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "module.limit(0)\n"
        "print('limited', flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        pid = int(started.stdout.readline())
        started.kill()
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return
        if state == "Z":  # ended; nobody reaps it in this container
            return
        time.sleep(0.05)
    os.kill(pid, 9)
    pytest.fail("the worker lives on")


@pytest.mark.parametrize("data", [b"", b"not an ELF file", b"\x7fELF"])
def test_what_is_no_module_is_an_import_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "submission.so"
    path.write_bytes(data)
    with pytest.raises(ImportError):
        worker.load(str(path))
