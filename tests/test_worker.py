"""The untrusted side, driven with a module and device memory made of Python objects."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from grader import worker
from grader.worker import Buffers, obey

GUARD = 8


class Device:
    """A stand-in for a submission's module: memory by address, and one launcher."""

    def __init__(self, launcher: Callable[..., None] | None = None) -> None:
        self.launchers = ["launch"] if launcher else []
        self.memory: dict[int, bytearray] = {}
        self.names: dict[int, str] = {}
        self.asked: list[tuple[int, int]] = []
        self.error: tuple[int, str, str] = (0, "", "")
        self._next = 1000
        if launcher:
            self.launch = launcher

    def allocate(self, size: int) -> int:
        self._next += 10_000
        self.memory[self._next] = bytearray(size)
        return self._next

    def release(self, address: int) -> None:
        del self.memory[address]

    def copy_in(self, address: int, data: memoryview) -> None:
        self.memory[address][: len(data)] = data

    def copy_out(self, data: memoryview, address: int) -> None:
        data[:] = self.memory[address][: len(data)]

    def schedule(self, seed: int, steps: int) -> None:
        self.asked.append((seed, steps))

    def name(self, address: int, size: int, label: str) -> None:
        self.names[address] = label

    def synchronize(self) -> tuple[int, str, str]:
        return self.error

    def note(self) -> str:
        return "lane 3 reads nothing"

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
    head = worker.COMMAND.pack(5, 77, 0, launcher.encode(), len(packed))
    return (head + b"".join(packed)).ljust(worker.COMMAND_BYTES, b"\0")


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
        device.module,
        Buffers(device.module),
        arena(),
        record(("a", 0, 8, 8), (-3,), ("b", 32, 4, 40)),
    )
    assert answer == (worker.RETURNED, 0, "", "lane 3 reads nothing")
    ((first, number, second),) = seen
    assert number == -3
    assert [first - GUARD, second - GUARD] == list(device.memory)
    assert list(device.names.values()) == ["a", "b"]
    assert device.asked == [(5, 77)]


def test_the_guards_travel_with_the_data_both_ways() -> None:
    def launcher(address: int) -> None:
        (memory,) = device.memory.values()
        assert bytes(memory[:24]) == bytes(range(16, 40))
        memory[7:9] = b"\xff\xff"  # the last byte of the guard in front, and the first element

    device = Device(launcher)
    shared = arena()
    obey(device.module, Buffers(device.module), shared, record(("a", 16, 8, 100)))
    assert bytes(shared[16:40]) == bytes([*range(16, 23), 255, 255, *range(25, 40)])
    assert bytes(shared[:16]) == bytes(range(16))
    assert bytes(shared[40:]) == bytes(range(40, 200))


def test_a_launcher_that_is_not_there() -> None:
    device = Device()
    assert obey(device.module, Buffers(device.module), arena(), record())[0] == worker.MISSING
    assert device.asked == []


def test_an_exception_is_reported() -> None:
    def launcher() -> None:
        raise RuntimeError("no")

    device = Device(launcher)
    answer = obey(device.module, Buffers(device.module), arena(), record())
    assert answer == (worker.EXCEPTION, 0, "exception", "no")


def test_an_exception_of_the_emulator_is_the_fault_that_it_found() -> None:
    def launcher() -> None:
        raise RuntimeError("x.cu:3: this loop does not end")

    device = Device(launcher)
    device.error = (702, "endless_loop", "x.cu:3: this loop does not end")
    answer = obey(device.module, Buffers(device.module), arena(), record())
    assert answer == (worker.CUDA_ERROR, *device.error)


def test_a_cuda_error_is_reported_and_nothing_is_copied_back() -> None:
    def launcher(address: int) -> None:
        (memory,) = device.memory.values()
        memory[:] = bytes(len(memory))

    device = Device(launcher)
    device.error = (700, "illegal_address", "x.cu:3: beyond")
    shared = arena()
    answer = obey(device.module, Buffers(device.module), shared, record(("a", 0, 8, 8)))
    assert answer == (worker.CUDA_ERROR, 700, "illegal_address", "x.cu:3: beyond")
    assert bytes(shared) == bytes(range(200))


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


def test_records_have_one_size() -> None:
    most = record(*[(1,)] * worker.MAX_ARGUMENTS)
    assert len(most) == len(record()) == worker.COMMAND_BYTES
    assert worker.REPLY.size == 40 + worker.TEXT_BYTES


def test_limits_hold_in_the_process(tmp_path: Path) -> None:
    import resource
    import subprocess

    program = (
        "import importlib.util, resource, sys\n"
        f"spec = importlib.util.spec_from_file_location('worker', {worker.__file__!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "module.limit(7)\n"
        "for what in ('CORE', 'DATA', 'FSIZE', 'NPROC'):\n"
        "    print(resource.getrlimit(getattr(resource, 'RLIMIT_' + what)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    wanted = [0, worker.DATA_BYTES, worker.LOG_BYTES, 7]
    assert done.stdout.split("\n")[:4] == [str((value, value)) for value in wanted]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != worker.LOG_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has it")
def test_a_worker_ends_with_the_process_that_started_it() -> None:
    import os
    import subprocess
    import time

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
