"""Batches on pools of device memory: both sides of the protocol, the untrusted one in a thread."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from grader import sandbox, worker
from grader.build import Module
from grader.sandbox import Sandbox
from grader.session import Fault, Kept, NoDevice, Placed, Pool, Session, Timed
from grader.worker import Worker
from tests.test_worker import UNMAPPABLE, Device

CALLS: list[list[Placed | int]] = [
    [Placed(1, 4096), Placed(0, 512), 7],
    [Placed(1, 8192), Placed(0, 1024), 7],
]


class Process:
    """A process that has ended in some way, or not at all."""

    def __init__(self, code: int | None = None) -> None:
        self.code = code

    def wait(self, _: float) -> None:
        pass

    def poll(self) -> int | None:
        return self.code


class Threaded(Worker):
    """The real worker, but its end is the end of a thread."""

    def receive(self) -> bytes:
        record = self.control.recv(worker.COMMAND_BYTES, socket.MSG_WAITALL)
        if len(record) < worker.COMMAND_BYTES:
            raise SystemExit
        return record


class ThreadSession(Session):
    """A session whose workers are threads that run `serve` on the other end of the channel."""

    def __init__(self, serve: Callable[[socket.socket], None], code: int | None = None) -> None:
        super().__init__(Module(Path("none.so"), "0", "cuda"), Sandbox("process"), 5.0)
        self.serve, self.code = serve, code
        self.started = 0
        self.threads: list[threading.Thread] = []

    def _start(self) -> Fault | None:
        ours, theirs = socket.socketpair()
        self.started += 1
        self._control = ours
        self._process = cast(Any, Process(self.code))
        self._mapped = not self._pools

        def run() -> None:
            with theirs:
                self.serve(theirs)

        self.threads.append(threading.Thread(target=run, daemon=True))
        self.threads[-1].start()
        return None


def obeying(device: Device) -> Callable[[socket.socket], None]:
    """What a worker with this module does."""

    def serve(control: socket.socket) -> None:
        made = Threaded(device.module, control, -1)
        while True:
            try:
                status, code, kind, text, done, settled = made.obey(made.receive())
                control.sendall(
                    worker.REPLY.pack(status, code, kind.encode(), text.encode(), done, settled)
                )
            except (SystemExit, OSError):
                return

    return serve


def answering(*replies: bytes) -> Callable[[socket.socket], None]:
    """Takes whatever comes, and says this."""

    def serve(control: socket.socket) -> None:
        for reply in replies:
            control.recv(1 << 20)
            control.sendall(reply)
        while control.recv(1 << 20):
            pass

    return serve


def reply(status: int, text: str = "", done: float = 1.0, settled: float = 1.0) -> bytes:
    return worker.REPLY.pack(status, 0, b"", text.encode(), done, settled)


@pytest.fixture
def device() -> Device:
    return Device(lambda *_: None)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ThreadSession]]:
    monkeypatch.setattr(sandbox, "kill", lambda _: None)
    made: list[ThreadSession] = []

    def new(serve: Callable[[socket.socket], None], code: int | None = None) -> ThreadSession:
        made.append(ThreadSession(serve, code))
        return made[-1]

    yield new
    for session in made:
        session.__exit__()
        for thread in session.threads:
            thread.join(5)
            assert not thread.is_alive()


Make = Callable[..., ThreadSession]


@pytest.fixture
def pools() -> Iterator[list[Pool]]:
    fds = [os.memfd_create(name) for name in ("inputs", "outputs")]
    yield [Pool(fds[0], 1 << 21, False), Pool(fds[1], 1 << 22, True)]
    for fd in fds:
        os.close(fd)


# Pools -------------------------------------------------------------------------------------------


def test_pools_are_mapped_once_for_all_batches(
    make: Make, device: Device, pools: list[Pool]
) -> None:
    session = make(obeying(device))
    session.map(pools)
    for _ in range(3):
        assert isinstance(session.batch("launch", CALLS), Timed)
    assert session.started == 1
    assert device.mapped == [(os.fstat(pool.fd).st_ino, pool.size, pool.writable) for pool in pools]


def test_arguments_are_addresses_in_the_pools(
    make: Make, device: Device, pools: list[Pool]
) -> None:
    session = make(obeying(device))
    session.map(pools)
    session.batch("launch", CALLS, [Kept(1, 8192, 64, 1 << 20)])
    first, second = 1_000_000, 2_000_000
    ((calls, keep),) = device.batches
    assert calls == [(second + 4096, first + 512, 7), (second + 8192, first + 1024, 7)]
    assert keep == [(second + (1 << 20), second + 8192, 64)]


def test_a_running_worker_gives_memory_up_at_once(
    make: Make, device: Device, pools: list[Pool]
) -> None:
    session = make(obeying(device))
    session.map(pools)
    session.batch("launch", CALLS)
    assert device.unmapped == []
    session.map(())
    assert device.unmapped == [(1_000_000, 1 << 21), (2_000_000, 1 << 22)]


def test_other_pools_take_the_place_of_those_before(
    make: Make, device: Device, pools: list[Pool]
) -> None:
    session = make(obeying(device))
    session.map(pools)
    session.batch("launch", CALLS)
    session.map(pools[::-1])
    session.batch("launch", CALLS)
    assert len(device.unmapped) == 2
    assert [size for _, size, _ in device.mapped] == [1 << 21, 1 << 22, 1 << 22, 1 << 21]


def test_a_new_worker_maps_the_pools_anew(make: Make, device: Device, pools: list[Pool]) -> None:
    session = make(obeying(device))
    session.map(pools)
    session.batch("launch", CALLS)
    session.stop()
    assert isinstance(session.batch("launch", CALLS), Timed)
    assert session.started == 2
    assert len(device.mapped) == 4


def test_nothing_is_mapped_before_there_is_a_worker(
    make: Make, device: Device, pools: list[Pool]
) -> None:
    session = make(obeying(device))
    session.map(pools)
    session.map(())
    assert session.started == 0


def test_memory_that_cannot_be_mapped_is_for_the_parent_to_judge(
    make: Make, device: Device, pools: list[Pool]
) -> None:
    session = make(obeying(device))
    session.map([pools[0], Pool(pools[1].fd, UNMAPPABLE, True)])
    with pytest.raises(NoDevice, match="cannot map the grader's device memory: mapping failed"):
        session.batch("launch", CALLS)
    assert session._process is None


# Times -------------------------------------------------------------------------------------------


def test_times_are_seconds(make: Make, device: Device, pools: list[Pool]) -> None:
    session = make(obeying(device))
    session.map(pools)
    timed = session.batch("launch", CALLS)
    assert isinstance(timed, Timed)
    assert (timed.done, timed.settled) == (0.0015, 0.0025)
    assert timed.launches == "ker\t32"


def test_our_clock_runs_from_the_word_to_go(
    make: Make, device: Device, pools: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking the command apart is not counted, launching is."""

    def slowly(what: str) -> None:
        method = getattr(type(device), what)

        def slow(*arguments: Any) -> Any:
            time.sleep(0.2)
            return method(*arguments)

        monkeypatch.setattr(type(device), what, slow)

    slowly("map_shared")
    session = make(obeying(device))
    session.map(pools)
    timed = session.batch("launch", CALLS)
    assert isinstance(timed, Timed) and timed.wall < 0.2
    slowly("launch_batch")
    timed = session.batch("launch", CALLS)
    assert isinstance(timed, Timed) and timed.wall >= 0.2


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("which", ["done", "settled"])
def test_times_that_are_none_are_tampering(make: Make, wrong: float, which: str) -> None:
    session = make(
        answering(worker.READY_BYTE, reply(worker.RETURNED, **{which: wrong}))  # type: ignore[arg-type]
    )
    answer = session.batch("launch", CALLS)
    assert isinstance(answer, Fault) and answer.kind == "garbage"
    assert session._process is None


def test_batches_count_against_the_time_of_all_calls(
    make: Make, device: Device, pools: list[Pool]
) -> None:
    session = make(obeying(device))
    session.map(pools)
    left = session.seconds_left
    session.batch("launch", CALLS)
    assert session.seconds_left < left
    session.seconds_left = 0.0
    answer = session.batch("launch", CALLS)
    assert isinstance(answer, Fault)
    assert (answer.kind, "altogether" in answer.sentence) == ("timeout", True)
    assert len(device.batches) == 1


# Faults ------------------------------------------------------------------------------------------


def test_a_launcher_that_is_missing(make: Make, pools: list[Pool]) -> None:
    session = make(obeying(Device()))
    session.map(pools)
    answer = session.batch("launch", CALLS)
    assert answer == Fault("missing", "launch is not defined in the submission")


def test_a_cuda_error_ends_the_worker(make: Make, device: Device, pools: list[Pool]) -> None:
    session = make(obeying(device))
    session.map(pools)
    device.error = (700, "", "cudaErrorIllegalAddress: an illegal memory access")
    answer = session.batch("launch", CALLS)
    assert isinstance(answer, Fault)
    assert (answer.kind, session._process) == ("illegal_address", None)


def test_an_exception_is_told(
    make: Make, device: Device, pools: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def throw(*_: object) -> None:
        raise RuntimeError("no more coffee")

    monkeypatch.setattr(type(device), "launch_batch", throw)
    session = make(obeying(device))
    session.map(pools)
    answer = session.batch("launch", CALLS)
    assert answer == Fault("exception", "launch threw an exception: no more coffee")


@pytest.mark.parametrize(
    "serve",
    [lambda _: None, lambda control: control.recv(1 << 20)],
    ids=["at once", "with the command"],
)
def test_a_worker_that_is_gone_says_how_it_went(
    make: Make, serve: Callable[[socket.socket], None]
) -> None:
    session = make(serve, -signal.SIGSEGV)
    answer = session.batch("launch", CALLS)
    assert isinstance(answer, Fault)
    assert (answer.kind, "SIGSEGV" in answer.sentence) == ("crashed", True)
    assert session._process is None


@pytest.mark.parametrize("status", [worker.STARTED, worker.READY, 77])
def test_nonsense_instead_of_an_answer_is_tampering(
    make: Make, pools: list[Pool], status: int
) -> None:
    for mapped in (False, True):
        session = make(
            answering(reply(status)) if mapped else answering(worker.READY_BYTE, reply(status))
        )
        session.map(pools if mapped else ())
        answer = session.batch("launch", CALLS)
        assert isinstance(answer, Fault) and answer.kind == "garbage"
        assert session._process is None


def test_a_launcher_that_never_comes_back_is_ended(make: Make) -> None:
    session = make(answering(worker.READY_BYTE))
    session.call_seconds = 0.2
    answer = session.batch("launch", CALLS)
    assert isinstance(answer, Fault)
    assert answer.kind == "timeout"
