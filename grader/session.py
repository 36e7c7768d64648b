"""The trusted side of a worker: starts it, feeds it, times it out, and reads what it left.

Every buffer is laid out here, in one shared arena: guard | data | guard, inputs filled with the
case's data, outputs with a NaN pattern, guards with another. After a call the arena tells what
was written; the worker's words are only shown to people.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import signal
import socket
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen

import numpy as np
from numpy.typing import NDArray

from grader import sandbox, worker
from grader.build import Module
from grader.errors import InfrastructureError
from grader.sandbox import Sandbox

GUARD_BYTES = 4096
POISON = 0x7FC0_BEEF  # a quiet NaN whose bits no computation makes by accident
GUARD = 0x7FA5_5AA5  # a NaN too, so that a value read out of bounds spoils the result
CALL_SECONDS = 30.0
ALL_CALLS_SECONDS = 240.0  # of one session: a launcher that sleeps a while each time ends as well
START_SECONDS = 30.0
PROCESSES = 64
LOG_SHOWN = 2000

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


@dataclass(frozen=True)
class Call:
    """One call of a launcher, arguments in C order with the stream left out."""

    launcher: str
    arguments: Sequence[Buffer | int]
    schedule: int = 0
    steps: int = 0


@dataclass(frozen=True)
class Returned:
    """The call came back. `damage` names what was written that must not be, as sentences; `note` is
    something doubtful that the emulator saw and that may explain a wrong result."""

    outputs: dict[str, Float32]
    damage: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Fault:
    """The call did not come back well; the next one starts with a clean worker."""

    kind: str
    sentence: str
    loading: bool = False  # before any call: it has nothing to do with a case


class Session:
    """A worker for one submission, respawned as often as needed. Use as a context manager."""

    def __init__(self, module: Module, box: Sandbox, call_seconds: float = CALL_SECONDS) -> None:
        self.module = module
        self.box = box
        self.call_seconds = call_seconds
        self.seconds_left = ALL_CALLS_SECONDS
        self._process: Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._arena = _Arena()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the session)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._arena.close()
        self._log.close()

    def stop(self) -> None:
        """End the worker; the next call starts a clean one."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            sandbox.kill(self._process)
            self._process = None

    @property
    def log(self) -> str:
        """What the submission printed since its worker started, the middle left out if long."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(0)
        if size <= LOG_SHOWN:
            return _printable(self._log.read())
        head = self._log.read(LOG_SHOWN // 2)
        self._log.seek(size - LOG_SHOWN // 2)
        return f"{_printable(head)}\n[... {size} bytes in all ...]\n{_printable(self._log.read())}"

    def open(self) -> Fault | None:
        """Start a worker if none is running; a Fault when the module cannot be loaded."""
        return self._start() if self._process is None else None

    def call(self, call: Call) -> Returned | Fault:
        """Run one call. Any trouble of the submission's is a Fault, never an exception.

        Raises InfrastructureError when a worker cannot be started at all.
        """
        if self.seconds_left <= 0:
            self.stop()
            spent = (
                f"the calls of this submission took more than {ALL_CALLS_SECONDS / 60:.0f} minutes"
            )
            return Fault("timeout", f"{spent} altogether, so no more are made")
        fault = self.open()
        if fault is not None:
            return fault
        record = self._lay_out(call)
        assert self._control is not None
        try:
            self._control.sendall(record)
        except OSError:
            return self._lost(2.0)
        began = time.monotonic()
        reply = self._receive(self.call_seconds)
        self.seconds_left -= time.monotonic() - began
        if isinstance(reply, Fault):
            return reply
        status, kind, sentence = reply
        if status == worker.RETURNED:
            return replace(self._read(call), note=sentence)
        self.stop()  # a CUDA error is sticky; after an exception nothing is certain
        if status == worker.MISSING:
            return Fault("missing", f"{call.launcher} is not defined in the submission")
        if status == worker.EXCEPTION:
            return Fault("exception", f"{call.launcher} threw an exception: {sentence}")
        if status == worker.CUDA_ERROR:
            return Fault(kind or "cuda_error", sentence)
        return Fault("garbage", "the submission tampered with the grader's control channel")

    # Starting and listening ---------------------------------------------------------------------

    def _start(self) -> Fault | None:
        ours, theirs = socket.socketpair()
        self._log.seek(0)
        self._log.truncate()
        python, folders = sandbox.python()
        script = Path(worker.__file__)
        processes = PROCESSES if self.box.kind == "bubblewrap" else 0
        fds = (theirs.fileno(), self._arena.fd)
        try:
            self._process = self.box.start(
                [python, "-I", "-S", str(script), str(self.module.path),
                 str(fds[0]), str(fds[1]), str(processes)],
                readable=[script, self.module.path, *folders],
                pass_fds=fds,
                stdout=self._log,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            raise InfrastructureError(f"cannot start a worker: {error}") from error
        finally:
            theirs.close()
        self._control = ours
        reply = self._receive(START_SECONDS)
        if isinstance(reply, Fault):  # nothing of the submission has run yet
            said = self.log.strip() or reply.sentence
            raise InfrastructureError(f"cannot start a worker: {said.splitlines()[0]}")
        reply = self._receive(START_SECONDS)
        if isinstance(reply, Fault):
            return Fault(reply.kind, f"while the module was loaded, {reply.sentence}", loading=True)
        status, _, sentence = reply
        if status == worker.READY:
            return None
        self.stop()
        missing = re.search(r"undefined symbol: (\S+)", sentence)
        if missing:
            return Fault(
                "undefined",
                f"{_demangle(missing[1])} is used but no file of the submission defines it",
            )
        sentence = sentence.replace(str(self.module.path), "the module")
        return Fault("load", f"the module cannot be loaded: {sentence}")

    def _receive(self, seconds: float) -> tuple[int, str, str] | Fault:
        assert self._control is not None
        began = time.monotonic()
        received = b""
        while len(received) < worker.REPLY.size:
            left = seconds - (time.monotonic() - began)
            if left <= 0:
                self.stop()
                return Fault(
                    "timeout",
                    f"it did not come back within {seconds:.0f} seconds and was ended",
                )
            self._control.settimeout(left)
            try:
                chunk = self._control.recv(worker.REPLY.size - len(received))
            except TimeoutError:
                continue
            except OSError:
                chunk = b""
            if not chunk:
                return self._lost(2.0)
            received += chunk
        status, _, kind, sentence = worker.REPLY.unpack(received)
        return status, _text(kind), _text(sentence)

    def _lost(self, patience: float) -> Fault:
        """The worker is gone: say how it went."""
        process = self._process
        assert process is not None
        with suppress(Exception):
            process.wait(patience)
        code = process.poll()
        self.stop()
        return Fault(*_ending(code))

    # Buffers ------------------------------------------------------------------------------------

    def _lay_out(self, call: Call) -> bytes:
        """Fill the arena for a call and describe it in a command record."""
        offsets, total = _offsets(call)
        self._arena.grow(total)
        records = []
        for argument, offset in zip(call.arguments, offsets, strict=True):
            if isinstance(argument, int):
                records.append(worker.ARGUMENT.pack(worker.NUMBER, argument, 0, 0, 0, 0, b""))
                continue
            used = 4 * argument.size
            self._arena.words(offset, GUARD_BYTES)[:] = GUARD
            self._arena.words(offset + GUARD_BYTES + used, GUARD_BYTES)[:] = GUARD
            data = self._arena.words(offset + GUARD_BYTES, used)
            if argument.data is None:
                data[:] = POISON
            else:
                data[:] = np.ascontiguousarray(argument.data, np.float32).view(np.uint32).ravel()
            records.append(
                worker.ARGUMENT.pack(
                    worker.BUFFER, 0, offset, used, 4 * argument.room, GUARD_BYTES,
                    argument.name.encode()[:32],
                )
            )  # fmt: skip
        head = worker.COMMAND.pack(
            call.schedule, call.steps, self._arena.size, call.launcher.encode(), len(records)
        )
        return (head + b"".join(records)).ljust(worker.COMMAND_BYTES, b"\0")

    def _read(self, call: Call) -> Returned:
        """Copy the outputs out of the arena, and see what was written outside of them."""
        outputs: dict[str, Float32] = {}
        damage: list[str] = []
        offsets, _ = _offsets(call)
        for argument, offset in zip(call.arguments, offsets, strict=True):
            if isinstance(argument, int):
                continue
            used = 4 * argument.size
            data = self._arena.words(offset + GUARD_BYTES, used)
            before = self._arena.words(offset, GUARD_BYTES)
            after = self._arena.words(offset + GUARD_BYTES + used, GUARD_BYTES)
            damage += _guard_damage(argument.name, argument.size, before, after)
            if argument.data is None:
                outputs[argument.name] = data.copy().view(np.float32).reshape(argument.shape)
            elif not np.array_equal(data, argument.data.view(np.uint32).ravel()):
                wrong = np.flatnonzero(data != argument.data.view(np.uint32).ravel())
                damage.append(
                    f"the input `{argument.name}` was written (first at element {wrong[0]}): "
                    "inputs must come back unchanged"
                )
        return Returned(outputs, tuple(damage))


class _Arena:
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


def _offsets(call: Call) -> tuple[list[int], int]:
    """Where each argument's slot starts in the arena, and how large the arena must be."""
    offsets, total = [], 0
    for argument in call.arguments:
        offsets.append(total)
        if not isinstance(argument, int):
            total += 2 * GUARD_BYTES + 4 * argument.size
            total += -total % 256
    return offsets, total


def _guard_damage(
    name: str, size: int, before: NDArray[np.uint32], after: NDArray[np.uint32]
) -> list[str]:
    found = []
    wrong = np.flatnonzero(before != GUARD)
    if wrong.size:
        found.append(
            f"out-of-bounds write: {len(before) - wrong[-1]} elements before the start of `{name}`"
        )
    wrong = np.flatnonzero(after != GUARD)
    if wrong.size:
        found.append(
            f"out-of-bounds write: element {size + wrong[0]} of `{name}`, "
            f"which has {size} element{'s' if size > 1 else ''}"
        )
    return found


def _ending(code: int | None) -> tuple[str, str]:
    """(kind, sentence) for the way a worker ended; a shell-like 128 + n is a signal too."""
    if code is None:
        return "garbage", "the submission closed the grader's control channel"
    number = -code if code < 0 else code - 128 if 128 < code < 160 else 0
    if number == 0:
        return "exited", (
            f"the submission ended the process (exit code {code}): a launcher must return"
        )
    reasons = {
        signal.SIGSEGV: "segmentation fault in host code: it used an invalid or a device pointer",
        signal.SIGBUS: "bus error in host code: it used an invalid pointer",
        signal.SIGABRT: "it aborted: abort(), a failed assert, an exception nobody catches, "
        "or a damaged heap",
        signal.SIGFPE: "arithmetic error in host code: an integer division by zero",
        signal.SIGILL: "illegal instruction in host code: a division by zero or a null pointer "
        "that the compiler foresaw, the end of a function without a return, or a trap",
        signal.SIGKILL: "it was killed, most likely for using too much memory",
        signal.SIGTERM: "it was ended by SIGTERM",
    }
    try:
        known = signal.Signals(number)
    except ValueError:
        return "crashed", f"it was ended by signal {number}"
    return "crashed", f"{reasons.get(known, 'it was ended by a signal')} ({known.name})"


def _text(raw: bytes) -> str:
    """Text out of a fixed-size field that the worker filled."""
    return _printable(raw.split(b"\0", 1)[0])


def _printable(raw: bytes) -> str:
    """Text that can do no harm to a terminal or a report."""
    text = raw.decode(errors="replace")
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


def _demangle(symbol: str) -> str:
    from subprocess import run

    with suppress(OSError):
        done = run(["c++filt", symbol], capture_output=True, text=True, check=False)
        return done.stdout.strip() or symbol
    return symbol
