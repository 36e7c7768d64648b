"""Parts side by side: nothing of one gets into another, and what ends one ends all."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

import grader
from grader import build, job
from grader.cases import PUBLIC_MASTER
from grader.errors import InfrastructureError
from grader.job import Job
from grader.manifest import Part
from grader.score import Finding, PartResult
from grader.session import Session
from grader.submission import SourceFile, Submission
from grader.target import Target


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Job:
    """A job whose sessions are never opened."""
    monkeypatch.setattr(job, "build_for", lambda *_: build.Module(Path("none"), "0"))
    monkeypatch.setattr(Session, "open", lambda _: None)
    monkeypatch.setattr(Job, "_at_once", lambda _, parts: parts)
    read = Submission("x", Path(), (SourceFile("x.cu", b""),), "0")
    target = Target("cpu", "CPU", None, "")
    used = grader.assignment("layernorm")
    return Job(read, used, target, PUBLIC_MASTER, lambda _: None, [], [], False, False)


def result(part: Part) -> PartResult:
    return PartResult(part.id, part.title, 0.0, 0.0, [])


def test_findings_come_in_the_order_of_parts(made: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made.used.parts[0]

    def graded(_: Job, part: Part, *others: Any) -> PartResult:
        if part is first:
            time.sleep(0.2)  # the others are done before it
        cast(list[Finding], others[-1]).append(
            Finding("warning", "leak", part.id, "x.cu", 1, "m", "", 1)
        )
        return result(part)

    monkeypatch.setattr(Job, "_part", graded)
    results = made.run(list(made.used.parts))
    wanted = [part.id for part in made.used.parts]
    assert [one.id for one in results] == wanted
    assert [one.part for one in made.findings] == wanted


def test_what_ends_one_part_ends_all(made: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    first = made.used.parts[0]

    def graded(self: Job, part: Part, *_: Any) -> PartResult:
        if part is first:
            raise InfrastructureError("the disk is full")
        while True:
            self._say("still here")
            time.sleep(0.01)

    monkeypatch.setattr(Job, "_part", graded)
    with pytest.raises(InfrastructureError, match="the disk is full"):
        made.run(list(made.used.parts))


def test_ctrl_c_does_not_wait_for_calls(made: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned = threading.Event()
    monkeypatch.setattr(Session, "abandon", lambda _: abandoned.set())
    waiting = threading.Event()

    def graded(_: Job, part: Part, *__: Any) -> PartResult:
        waiting.set()
        assert abandoned.wait(30), "the call goes on"
        return result(part)

    def interrupted(_: Any) -> None:
        waiting.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "_part", graded)
    monkeypatch.setattr(Future, "exception", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.run(list(made.used.parts))
    assert abandoned.is_set()


def test_a_gpu_is_used_by_the_calling_thread_alone(
    made: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CUDA context belongs to a thread."""
    threads = []

    def graded(_: Job, part: Part, *others: Any) -> PartResult:
        threads.append(threading.get_ident())
        return result(part)

    monkeypatch.setattr(Job, "_part", graded)
    monkeypatch.setattr(Job, "_emulated", lambda *_: None)
    made.target = Target("cuda", "GPU", cast(Any, object()), "")
    made.run(list(made.used.parts))
    assert threads == [threading.get_ident()] * len(made.used.parts)
