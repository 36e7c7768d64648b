"""Batches between a session and a worker, each in a process of its own; only the GPU is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from grader import session
from grader.answers import TAMPERED
from grader.build import Module
from grader.records import Kept, Placed, Pool
from grader.sandbox import Sandbox
from grader.session import Fault, NoDevice, Session, Timed

WORKER = Path(__file__).parent / "fake_worker.py"
LAUNCHER = "launch_saxpy"
CALLS: list[list[Placed | int]] = [
    [Placed(1, 8), Placed(0, 16), -7],
    [Placed(1, 24), Placed(0, 0), 5],
]
KEEP = [Kept(1, 24, 4, 28), Kept(0, 8, 16, 32)]
SAID = "batch [(2008, 1016, -7), (2024, 1000, 5)] [(2028, 2024, 4), (1032, 1008, 16)]\n"


class Box:
    """A sandbox that starts the fake worker instead."""

    kind = "process"

    def start(
        self, command: Sequence[str], *, pass_fds: Sequence[int], stdout: Any, **_: object
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, str(WORKER), *command[4:]],
            pass_fds=pass_fds,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


Open = Callable[[str], Session]


@pytest.fixture
def opened(pools: list[Pool]) -> Iterator[Open]:
    """Opens a session whose worker behaves as it is told, and gives it the pools."""
    with ExitStack() as stack:

        def make(behaviour: str = "honest") -> Session:
            module = Module(Path("/") / behaviour, "0", "cuda")
            made = Session(module, cast(Sandbox, Box()), call_seconds=20.0)
            stack.enter_context(made)
            made.map(pools)
            return made

        yield make


@pytest.fixture
def pools() -> Iterator[list[Pool]]:
    with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as second:
        first.truncate(111)
        second.truncate(222)
        yield [Pool(first.fileno(), 64, False), Pool(second.fileno(), 32, True)]


def fault(answer: Timed | Fault) -> Fault:
    assert isinstance(answer, Fault), answer
    return answer


# A GPU that fails --------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [46, 214])
def test_a_gpu_that_fails_twice_is_the_machines_fault(opened: Open, code: int) -> None:
    with pytest.raises(NoDevice, match="the GPU fails: beyond"):
        opened(f"broken {code}").batch(LAUNCHER, CALLS)


def test_a_gpu_that_fails_once_is_asked_again(opened: Open, tmp_path: Path) -> None:
    made = opened("honest")
    real = made._batch
    answers = [Fault("cuda_error", "uncorrectable memory", False, "", True, True)]
    made._batch = lambda *_: answers.pop() if answers else real(*_)  # type: ignore[method-assign]
    assert isinstance(made.batch(LAUNCHER, CALLS), Timed)
    assert made.repeated == "uncorrectable memory"


def test_other_errors_are_the_submissions(opened: Open) -> None:
    assert fault(opened("broken 700").batch(LAUNCHER, CALLS)).kind == "illegal_address"


# Batches -----------------------------------------------------------------------------------------


def test_a_batch_gets_addresses_and_comes_back_with_times(opened: Open) -> None:
    made = opened("honest")
    answer = made.batch(LAUNCHER, CALLS, KEEP)
    assert isinstance(answer, Timed)
    assert (answer.done, answer.settled, answer.launches) == (1.5e-3, 2.5e-3, "saxpy\t16")
    assert 0 < answer.wall < 20
    assert made.log == "map 111 64 False\nmap 222 32 True\n" + SAID


def test_pools_are_given_once_to_every_worker(opened: Open) -> None:
    made = opened("honest")
    for _ in range(2):
        assert isinstance(made.batch(LAUNCHER, CALLS, KEEP), Timed)
    assert made.log == "map 111 64 False\nmap 222 32 True\n" + 2 * SAID
    made.stop()
    assert isinstance(made.batch(LAUNCHER, CALLS, KEEP), Timed)
    assert made.log == "map 111 64 False\nmap 222 32 True\n" + SAID, "a new one, and its log"


def test_memory_is_given_up_at_once(opened: Open) -> None:
    made = opened("honest")
    made.batch(LAUNCHER, CALLS)
    made.map(())
    assert made.log.endswith("unmap 1000 64\nunmap 2000 32\n")


def test_as_many_calls_as_a_batch_may_have(opened: Open) -> None:
    """More than a socket holds at a time."""
    made = opened("honest")
    for count in (1, 500):
        assert isinstance(made.batch(LAUNCHER, CALLS[:1] * count, KEEP), Timed)


def test_our_clock_runs_from_the_word_to_go(opened: Open) -> None:
    made = opened("sleeps")
    answer = made.batch(LAUNCHER, CALLS)
    assert isinstance(answer, Timed) and answer.wall >= 0.3
    made = opened("dawdles")  # before it is ready
    answer = made.batch(LAUNCHER, CALLS)
    assert isinstance(answer, Timed) and answer.wall < 1
    assert made.seconds_left < session.ALL_CALLS_SECONDS - 1, "but that costs it time as well"


# Faults ------------------------------------------------------------------------------------------


def test_a_launcher_that_is_missing(opened: Open) -> None:
    made = opened("missing")
    wrong = Fault("missing", "launch_saxpy is not defined in the submission")
    assert made.batch(LAUNCHER, CALLS, KEEP) == wrong
    assert made.batch(LAUNCHER, CALLS, KEEP) == wrong, "and again, by a new worker"


@pytest.mark.parametrize(("behaviour", "code"), [("leaves", 4), ("dies", 3)])
def test_a_worker_that_ends_before_or_after_it_is_ready(
    opened: Open, behaviour: str, code: int
) -> None:
    wrong = fault(opened(behaviour).batch(LAUNCHER, CALLS))
    assert wrong.kind == "exited" and f"exit code {code}" in wrong.sentence


@pytest.mark.parametrize("behaviour", ["faulty", "faulty before"])
def test_an_error_of_the_device_is_a_fault(opened: Open, behaviour: str) -> None:
    """During the batch, or when the worker waits for what came before it."""
    assert opened(behaviour).batch(LAUNCHER, CALLS) == Fault("illegal_address", "beyond")


def test_a_worker_that_never_gets_ready_is_ended(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = opened("hangs")
    assert made.open() is None and made._map() is None
    process = made._process
    monkeypatch.setattr(session, "START_SECONDS", 0.2)
    wrong = fault(made.batch(LAUNCHER, CALLS))
    assert wrong.kind == "timeout" and "it was not ready within" in wrong.sentence
    assert process is not None and process.poll() is not None


@pytest.mark.parametrize("behaviour", ["babbles", "nan", "inf", "negative", "ages"])
def test_nonsense_is_tampering(opened: Open, behaviour: str) -> None:
    """A byte that is no readiness, and times that are none or more than there was."""
    made = opened(behaviour)
    assert made.batch(LAUNCHER, CALLS, KEEP) == TAMPERED
    assert made._process is None


def test_memory_that_cannot_be_mapped_is_the_machines_trouble(opened: Open) -> None:
    with pytest.raises(NoDevice, match="cannot map the grader's device memory: mapping failed"):
        opened("unmappable").batch(LAUNCHER, CALLS)


def test_a_session_without_time_makes_no_batch(opened: Open) -> None:
    made = opened("honest")
    made.seconds_left = 0
    assert fault(made.batch(LAUNCHER, CALLS)).kind == "timeout"
    assert made.log == ""


def test_descriptors_stay_the_graders(opened: Open, pools: list[Pool]) -> None:
    made = opened("honest")
    made.batch(LAUNCHER, CALLS)
    made.stop()
    assert [os.fstat(pool.fd).st_size for pool in pools] == [111, 222]
