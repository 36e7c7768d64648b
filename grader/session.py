"""The trusted side of a worker: starts it, feeds it, times it out, and reads what it left.

A call goes through the arena (grader/arena.py); a batch of calls works on pools of device memory
that the grader owns (grader/trial.py). The worker's words are only shown to people.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import TypeVar

import numpy as np

from grader import records, sandbox, words, worker
from grader.answers import TAMPERED, Call, Fault, NoDevice, Reply, Returned, Timed
from grader.arena import GUARD, GUARD_BYTES, POISON, Arena, Float32, guard_damage, offsets
from grader.build import Module
from grader.errors import InfrastructureError
from grader.records import Kept, Laid, Placed, Pool
from grader.sandbox import Limits, Sandbox
from grader.schedule import cores

Answer = TypeVar("Answer")

CALL_SECONDS = 30.0
WHOLE = 4  # times as long for a call at a large size of which every block runs
ALL_CALLS_SECONDS = 240.0  # of one session: a launcher that sleeps a while each time ends as well
START_SECONDS = 30.0
PROCESSES = 64
LOG_SHOWN = 2000
# every core may be busy for as long as the calls may take
LIMITS = Limits(PROCESSES, int(ALL_CALLS_SECONDS + 60) * cores(), worker.LOG_BYTES)
DATA_BYTES = {"cpu": 2 << 30, "cuda": 16 << 30}  # a worker's memory; CUDA itself needs some


__all__ = ["Call", "Fault", "NoDevice", "Returned", "Session", "Timed"]


class Session:
    """A worker for one submission, respawned as often as needed. Use as a context manager."""

    def __init__(self, module: Module, box: Sandbox, call_seconds: float = CALL_SECONDS) -> None:
        self.module = module
        self.box = box
        self.call_seconds = call_seconds
        self.seconds_left = ALL_CALLS_SECONDS
        self.repeated = ""  # why a call was made once more
        self._process: Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._arena = Arena()
        self._pools: tuple[Pool, ...] = ()
        self._mapped = False
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

    def abandon(self) -> None:
        """From another thread: the call that runs ends, and no more are made."""
        self.seconds_left = 0.0
        if self._process is not None:
            sandbox.kill(self._process)

    @property
    def log(self) -> str:
        """What the submission printed since its worker started, the middle left out if long."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(0)
        if size <= LOG_SHOWN:
            return words.printable(self._log.read())
        head = self._log.read(LOG_SHOWN // 2)
        self._log.seek(size - LOG_SHOWN // 2)
        tail = words.printable(self._log.read())
        return f"{words.printable(head)}\n[... {size} bytes in all ...]\n{tail}"

    def open(self) -> Fault | None:
        """Start a worker if none is running; a Fault when the module cannot be loaded."""
        if self._process is not None:
            return None
        return self._once_more(self._start)

    def call(self, call: Call) -> Returned | Fault:
        """Run one call. Any trouble of the submission's is a Fault, never an exception.

        Raises InfrastructureError when a worker cannot be started at all.
        """
        return self._once_more(lambda: self._call(call))

    def _once_more(self, attempt: Callable[[], Answer | Fault]) -> Answer | Fault:
        """Whoever kills a worker leaves the same traces, the submission or somebody outside, and
        so does a GPU that fails: blame nobody for the first time. Once per session, so that a
        submission that kills itself gains nothing. Raises NoDevice when the GPU fails again."""
        answer = attempt()
        if isinstance(answer, Fault) and answer.outside and not self.repeated:
            self.repeated = answer.sentence
            answer = attempt()
        if isinstance(answer, Fault) and answer.machine:
            raise NoDevice(f"the GPU fails: {answer.sentence}")
        return answer

    def _call(self, call: Call) -> Returned | Fault:
        fault = self._spent() or self.open()
        if fault is not None:
            return fault
        record = self._lay_out(call)
        assert self._control is not None
        try:
            self._control.sendall(record)
        except OSError:
            return self._lost(2.0)
        answer = self._answer(call.launcher)
        if isinstance(answer, Fault):
            return answer
        return replace(self._read(call), note=answer.sentence, report=answer.report)

    def model(
        self,
        launcher: str,
        arguments: Sequence[Laid | int],
        steps: int,
        machine: str,
        sheet: tuple[int, int] = (-1, 0),
        every_block: bool = False,
    ) -> str | Fault:
        """Call a launcher for what it costs, on the emulator; the report of its counters.

        sheet: descriptor and bytes of a file with the arrays (grader/sheet.py); without one they
        are zeros. machine: settings of the emulator. every_block: run all, not only some.
        """
        fd, size = sheet
        command = records.command(
            worker.MODEL,
            launcher,
            [records.number(one) if isinstance(one, int) else records.laid(one)
             for one in arguments],
            watch=worker.WATCH_COUNTS | (worker.EVERY_BLOCK if every_block else 0),
            schedule=size,
            steps=steps,
        )  # fmt: skip
        settings = machine.encode().ljust(worker.MACHINE_BYTES, b"\0")
        seconds = self.call_seconds * (WHOLE if every_block else 1)
        return self._once_more(lambda: self._model(launcher, command + settings, fd, seconds))

    def _model(self, launcher: str, command: bytes, sheet: int, seconds: float) -> str | Fault:
        fault = self._spent() or self.open()
        if fault is not None:
            return fault
        assert self._control is not None
        try:
            self._control.sendall(command)
            if sheet >= 0:
                socket.send_fds(self._control, [b"s"], [sheet])
        except OSError:
            return self._lost(2.0)
        answer = self._answer(launcher, most=worker.COUNTS_BYTES, seconds=seconds)
        return answer if isinstance(answer, Fault) else answer.report

    def map(self, pools: Sequence[Pool]) -> None:
        """Device memory that batches work on from now on, in this worker and in later ones.

        The memory before is given up at once by a running worker.
        """
        self._pools = tuple(pools)
        self._mapped = False
        if self._process is not None and not self._pools:
            self._map()

    def batch(
        self,
        launcher: str,
        calls: Sequence[Sequence[Placed | int]],
        keep: Sequence[Kept] = (),
    ) -> Timed | Fault:
        """Call a launcher back to back on sets of arguments in the pools, and time that.

        keep: arrays to copy, in the order of the launcher's stream, when all of it is done.
        """
        return self._once_more(lambda: self._batch(launcher, calls, keep))

    def _batch(
        self, launcher: str, calls: Sequence[Sequence[Placed | int]], keep: Sequence[Kept]
    ) -> Timed | Fault:
        fault = self._spent() or self.open() or self._map()
        if fault is not None:
            return fault
        assert self._control is not None
        try:
            self._control.sendall(records.batch(launcher, calls, keep))
            fault = self._readiness(launcher)
            if fault is not None:
                return fault
            began = time.perf_counter()
            self._control.sendall(worker.GO_BYTE)
        except OSError:
            return self._lost(2.0)
        answer = self._answer(launcher)
        wall = time.perf_counter() - began
        if isinstance(answer, Fault):
            return answer
        most = 1e3 * self.call_seconds  # NaN is not in between, either
        if not all(0 <= told <= most for told in (answer.done, answer.settled)):
            self.stop()
            return TAMPERED
        return Timed(answer.done / 1e3, answer.settled / 1e3, wall, answer.sentence)

    def _readiness(self, launcher: str) -> Fault | None:
        """Wait for the worker to be ready for a batch. Raises OSError when the channel is gone."""
        assert self._control is not None
        began = time.monotonic()
        self._control.settimeout(START_SECONDS)
        try:
            said = self._control.recv(1)
        except TimeoutError:
            self.stop()
            return Fault(
                "timeout", f"it was not ready within {START_SECONDS:.0f} seconds and was ended"
            )
        finally:
            self.seconds_left -= time.monotonic() - began
        if said == worker.READY_BYTE:
            return None
        if not said:
            return self._lost(2.0)
        if said[0] in (worker.MISSING, worker.CUDA_ERROR, worker.EXCEPTION):
            early = self._answer(launcher, said)  # it did not get so far, and says why
            return early if isinstance(early, Fault) else TAMPERED
        self.stop()
        return TAMPERED

    def _spent(self) -> Fault | None:
        """A Fault when the calls of this session have taken all the time that there is."""
        if self.seconds_left > 0:
            return None
        self.stop()
        spent = f"the calls of this submission took more than {ALL_CALLS_SECONDS / 60:.0f} minutes"
        return Fault("timeout", f"{spent} altogether, so no more are made")

    def _map(self) -> Fault | None:
        """Give the running worker the pools, once."""
        if self._mapped:
            return None
        assert self._control is not None
        try:
            self._control.sendall(records.mapping(self._pools))
            socket.send_fds(self._control, [b"p"], [pool.fd for pool in self._pools])
        except OSError:
            return self._lost(2.0)
        answer = self._receive(START_SECONDS)
        if isinstance(answer, Fault):
            return answer
        if answer.status == worker.NOT_LOADED:
            self.stop()
            raise NoDevice(f"a worker cannot map the grader's device memory: {answer.sentence}")
        if answer.status != worker.RETURNED:
            self.stop()
            return TAMPERED
        self._mapped = True
        return None

    def _answer(
        self,
        launcher: str,
        received: bytes = b"",
        most: int = worker.REPORT_BYTES,
        seconds: float | None = None,
    ) -> Reply | Fault:
        """What the worker says after a command, within the time it has; `received` came already.

        most: bytes of its report.
        """
        began = time.monotonic()
        reply = self._receive(seconds or self.call_seconds, received, most)
        self.seconds_left -= time.monotonic() - began
        if isinstance(reply, Fault) or reply.status == worker.RETURNED:
            return reply
        self.stop()  # a CUDA error is sticky; after an exception nothing is certain
        if reply.status == worker.MISSING:
            return Fault("missing", f"{launcher} is not defined in the submission")
        if reply.status == worker.EXCEPTION:
            return Fault("exception", f"{launcher} threw an exception: {reply.sentence}")
        if reply.status == worker.CUDA_ERROR:
            kind = reply.kind or words.CUDA_KINDS.get(reply.code, "cuda_error")
            machine = self.module.backend == "cuda" and reply.code in words.GPU_FAILURES
            return Fault(kind, reply.sentence, False, reply.report, machine, machine)
        return TAMPERED

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
                 str(fds[0]), str(fds[1]), str(processes), str(DATA_BYTES[self.module.backend])],
                readable=[script, self.module.path, *folders],
                pass_fds=fds,
                stdout=self._log,
                devices=self.module.backend == "cuda",
                limits=LIMITS,
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
            sentence = f"while the module was loaded, {reply.sentence}"
            return replace(reply, sentence=sentence, loading=True)
        if reply.status == worker.READY:
            self._mapped = not self._pools
            return None
        self.stop()
        if reply.status == worker.NO_DEVICE:
            raise NoDevice(f"a worker cannot use the GPU: {reply.sentence}")
        sentence = reply.sentence
        missing = re.search(r"undefined symbol: (\S+)", sentence)
        if missing:
            return Fault(
                "undefined",
                f"{words.demangle(missing[1])} is used but no file of the submission defines it",
            )
        sentence = sentence.replace(str(self.module.path), "the module")
        return Fault("load", f"the module cannot be loaded: {sentence}")

    def _receive(
        self, seconds: float, received: bytes = b"", most: int = worker.REPORT_BYTES
    ) -> Reply | Fault:
        until = time.monotonic() + seconds
        raw = self._read_exactly(worker.REPLY.size, until, received)
        if isinstance(raw, Fault):
            return raw
        status, code, kind, sentence, done, settled, more = worker.REPLY.unpack(raw)
        if more > most:
            self.stop()
            return TAMPERED
        report = self._read_exactly(more, until)
        if isinstance(report, Fault):
            return report
        told = words.printable(report)
        return Reply(status, code, words.text(kind), words.text(sentence), done, settled, told)

    def _read_exactly(self, size: int, until: float, received: bytes = b"") -> bytes | Fault:
        """So many bytes from the worker, by a time of time.monotonic()."""
        assert self._control is not None
        began = time.monotonic()
        while len(received) < size:
            left = until - time.monotonic()
            if left <= 0:
                self.stop()
                return Fault(
                    "timeout",
                    f"it did not come back within {until - began:.0f} seconds and was ended",
                )
            self._control.settimeout(left)
            try:
                chunk = self._control.recv(size - len(received))
            except TimeoutError:
                continue
            except OSError:
                chunk = b""
            if not chunk:
                return self._lost(2.0)
            received += chunk
        return received

    def _lost(self, patience: float) -> Fault:
        """The worker is gone: say how it went."""
        process = self._process
        assert process is not None
        with suppress(Exception):
            process.wait(patience)
        code = process.poll()
        self.stop()
        killed = code in (-signal.SIGKILL, 128 + signal.SIGKILL)
        return Fault(*words.ending(code), outside=killed)

    # Buffers ------------------------------------------------------------------------------------

    def _lay_out(self, call: Call) -> bytes:
        """Fill the arena for a call and describe it in a command record."""
        starts, total = offsets(call.arguments)
        self._arena.grow(total)
        packed = []
        for argument, offset in zip(call.arguments, starts, strict=True):
            if isinstance(argument, int):
                packed.append(records.number(argument))
                continue
            used = 4 * argument.size
            self._arena.words(offset, GUARD_BYTES)[:] = GUARD
            self._arena.words(offset + GUARD_BYTES + used, GUARD_BYTES)[:] = GUARD
            data = self._arena.words(offset + GUARD_BYTES, used)
            if argument.data is None:
                data[:] = POISON
            else:
                data[:] = np.ascontiguousarray(argument.data, np.float32).view(np.uint32).ravel()
            packed.append(
                records.buffer(
                    argument.name,
                    used,
                    output=argument.data is None,
                    offset=offset,
                    room=4 * argument.room,
                    guard=GUARD_BYTES,
                )
            )
        return records.command(
            worker.CALL,
            call.launcher,
            packed,
            watch=worker.WATCH_CHECKS if call.checked else 0,
            schedule=call.schedule,
            steps=call.steps,
            arena=self._arena.size,
        )

    def _read(self, call: Call) -> Returned:
        """Copy the outputs out of the arena, and see what was written outside of them."""
        outputs: dict[str, Float32] = {}
        damage: list[str] = []
        starts, _ = offsets(call.arguments)
        for argument, offset in zip(call.arguments, starts, strict=True):
            if isinstance(argument, int):
                continue
            used = 4 * argument.size
            data = self._arena.words(offset + GUARD_BYTES, used)
            before = self._arena.words(offset, GUARD_BYTES)
            after = self._arena.words(offset + GUARD_BYTES + used, GUARD_BYTES)
            damage += guard_damage(argument.name, argument.size, before, after)
            if argument.data is None:
                outputs[argument.name] = data.copy().view(np.float32).reshape(argument.shape)
            elif not np.array_equal(data, argument.data.view(np.uint32).ravel()):
                wrong = np.flatnonzero(data != argument.data.view(np.uint32).ravel())
                damage.append(
                    f"the input `{argument.name}` was written (first at element {wrong[0]}): "
                    "inputs must come back unchanged"
                )
        return Returned(outputs, tuple(damage))
