"""Tests side by side: nothing of one gets into another, and what ends one ends all."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

import grader
from grader import build, job, schedule, score
from grader.cases import PUBLIC_MASTER
from grader.errors import BuildFailed, Forbidden, InfrastructureError
from grader.job import Job
from grader.score import Finding
from grader.session import Fault, NoDevice, Session
from grader.submission import SourceFile, Submission
from grader.target import Target

MODULE = build.Module(Path("none"), "0")
GPU = Target("cuda", "GPU", cast(Any, object()), "")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job whose sessions are never opened."""
    monkeypatch.setattr(job, "build_for", lambda *_: MODULE)
    monkeypatch.setattr(build, "build", lambda *_: MODULE)
    monkeypatch.setattr(Session, "open", lambda _: None)
    read = Submission("x", Path(), (SourceFile("x.cu", b""),), "0")
    target = Target("cpu", "CPU", None, "")
    used = grader.assignment("layernorm")
    return Job(read, used, target, PUBLIC_MASTER, lambda _: None, [], [], False, False)


def result(test_id: str, passed: bool = True) -> score.TestResult:
    return score.TestResult(test_id, test_id, passed, 0.0, 0.0, [], "")


def test_results_and_findings_come_in_the_order_of_parts_and_tests(
    made: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made.used.parts[0]

    def graded(_: Job, one: Any, name: str, *others: Any) -> None:
        if one.part is first:
            time.sleep(0.1)  # the others are done before it
        one.found[name] = [Finding("warning", name, one.part.id, "x.cu", 1, "m", "", 1)]
        one.done[name] = result(name)

    monkeypatch.setattr(Job, "_test", graded)
    results = made.run(list(made.used.parts))
    wanted = [(part.id, test) for part in made.used.parts for test in made.used.tests_of(part)]
    assert [(one.id, test.id) for one in results for test in one.tests] == wanted
    assert [(str(one.part), one.kind) for one in made.findings] == wanted


@pytest.mark.parametrize("backend", ["cpu", "cuda"])
def test_a_test_is_not_run_before_those_it_needs(
    made: Job, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    ran: list[str] = []

    def graded(_: Job, one: Any, name: str, *__: Any) -> None:
        time.sleep(0.05 if name == "base" else 0)
        ran.append(name)
        one.done[name] = result(name, passed=name != "base")

    monkeypatch.setattr(Job, "_correctness", graded)
    made.target = GPU if backend == "cuda" else made.target
    results = made.run(list(made.used.parts))
    assert ran == ["base"] * 3
    for part in results:
        for test in part.tests[1:]:
            assert test.passed is None and test.message == "not run: it needs base to pass"


def test_what_ends_one_test_ends_all(made: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made.used.parts[0]

    def graded(self: Job, one: Any, *_: Any) -> None:
        if one.part is first:
            raise InfrastructureError("the disk is full")
        while True:
            self._say("still here")
            time.sleep(0.01)

    monkeypatch.setattr(Job, "_test", graded)
    with pytest.raises(InfrastructureError, match="the disk is full"):
        made.run(list(made.used.parts))


def test_a_module_that_nvcc_refuses_runs_no_longer(
    made: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvcc compiles while the tests already run on the emulator."""
    running = threading.Event()

    def refused(_: Job, __: Any) -> None:
        assert running.wait(30)
        raise BuildFailed("nvcc refuses: no", "")

    def graded(self: Job, *_: Any) -> None:
        running.set()
        while True:
            self._say("still here")
            time.sleep(0.01)

    monkeypatch.setattr(Job, "_cross_check", refused)
    monkeypatch.setattr(Job, "_test", graded)
    monkeypatch.setattr(schedule, "cores", lambda: 2)
    made.nvcc = True
    with pytest.raises(BuildFailed, match="nvcc refuses"):
        made.run(list(made.used.parts))


def test_ctrl_c_does_not_wait_for_calls(made: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned = threading.Event()
    monkeypatch.setattr(Session, "abandon", lambda _: abandoned.set())
    waiting = threading.Event()

    def graded(self: Job, one: Any, name: str, opener: Any, *_: Any) -> None:
        with opener():
            waiting.set()
            assert abandoned.wait(30), "the call goes on"

    waited = concurrent.futures.wait

    def interrupted(running: Any, **how: Any) -> Any:
        if "build" in running.values():
            return waited(running, **how)
        assert waiting.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "_test", graded)
    monkeypatch.setattr(schedule, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.run(list(made.used.parts))
    assert abandoned.is_set()


def test_a_gpu_is_used_by_the_calling_thread_alone(
    made: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CUDA context belongs to a thread, and takes a while to start: one worker for each part."""
    threads, sessions = [], []

    def graded(_: Job, one: Any, name: str, opener: Any, *__: Any) -> None:
        threads.append(threading.get_ident())
        with opener() as session:
            sessions.append(session)
        one.done[name] = result(name)

    monkeypatch.setattr(Job, "_correctness", graded)
    made.target = GPU
    made.run(list(made.used.parts))
    assert set(threads) == {threading.get_ident()}
    assert len(sessions) == 9 and len(set(map(id, sessions))) == 3


def test_a_test_has_a_worker_of_its_own_without_a_gpu(
    made: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = []

    def graded(_: Job, one: Any, name: str, opener: Any, *__: Any) -> None:
        with opener() as session:
            sessions.append(session)
        one.done[name] = result(name)

    monkeypatch.setattr(Job, "_correctness", graded)
    made.run(list(made.used.parts))
    assert len(set(map(id, sessions))) == 9


def test_a_module_that_cannot_be_loaded_is_no_module(
    made: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "open", lambda _: Fault("undefined", "helper() is not there"))
    with pytest.raises(BuildFailed, match="helper"):
        made.run(list(made.used.parts))


def test_a_missing_gpu_is_somebodys_fault(made: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def graded(*_: Any) -> None:
        raise NoDevice("no")

    monkeypatch.setattr(Job, "_correctness", graded)
    monkeypatch.setattr(Job, "_blame", lambda *_: asked.append(1))
    made.target = GPU
    with pytest.raises(NoDevice):
        made.run(list(made.used.parts))
    assert asked == [1]


@pytest.mark.parametrize("error", [BuildFailed, Forbidden])
def test_who_fights_the_checkers_is_refused_on_a_gpu_too(
    made: Job, monkeypatch: pytest.MonkeyPatch, error: type[BuildFailed]
) -> None:
    """What the emulator only cannot run is graded without its opinion."""

    def refused(*_: Any) -> build.Module:
        raise error("it uses emu_watch", "")

    def graded(_: Job, one: Any, name: str, *__: Any) -> None:
        one.done[name] = result(name)

    monkeypatch.setattr(build, "build", refused)
    monkeypatch.setattr(Job, "_correctness", graded)
    made.target = GPU
    if error is Forbidden:
        with pytest.raises(Forbidden):
            made.run(list(made.used.parts))
        return
    made.run(list(made.used.parts))
    assert made.notes == [
        "findings not checked: the emulator cannot run this file (it uses emu_watch)"
    ]
