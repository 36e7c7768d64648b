"""Tasks run when what they need is done, and the first error in their order is the one told."""

from __future__ import annotations

import threading
import time

import pytest

from grader import schedule
from grader.schedule import Schedule, Stopped


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "cores", lambda: 4)


def nothing() -> None:
    pass


def run(tasks: Schedule) -> None:
    tasks.run_side_by_side(nothing, nothing)


def test_side_by_side_means_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=30)
    tasks = Schedule()

    def meet() -> None:
        both.wait()

    tasks.add("a", meet)
    tasks.add("b", meet)
    run(tasks)


def test_needs_come_first() -> None:
    order: list[str] = []

    def slow() -> None:
        time.sleep(0.1)
        order.append("slow")

    tasks = Schedule()
    tasks.add("slow", slow)
    tasks.add("then", lambda: order.append("then"), ["slow"])
    tasks.add("last", lambda: order.append("last"), ["then", "slow"])
    tasks.add("free", lambda: order.append("free"))
    run(tasks)
    assert order == ["free", "slow", "then", "last"]


def test_here_means_in_this_thread_and_in_order() -> None:
    seen: list[tuple[int, int]] = []
    tasks = Schedule()
    for number in range(3):
        tasks.add(str(number), lambda n=number: seen.append((n, threading.get_ident())))  # type: ignore[misc]
    tasks.run_here()
    assert seen == [(n, threading.get_ident()) for n in range(3)]


def test_the_first_error_in_their_order_is_told_whichever_came_first() -> None:
    late = threading.Event()
    tasks = Schedule()

    def first() -> None:
        assert late.wait(30)
        raise ValueError("first")

    def second() -> None:
        raise ValueError("second")

    tasks.add("first", first)
    tasks.add("second", second)
    with pytest.raises(ValueError, match="first"):
        tasks.run_side_by_side(late.set, nothing)


def test_after_an_error_nothing_starts_and_who_stops_is_not_to_blame() -> None:
    stopped = threading.Event()
    started: list[str] = []

    def waits() -> None:
        assert stopped.wait(30)
        raise Stopped

    def fails() -> None:
        raise OSError("the disk")

    tasks = Schedule()
    tasks.add("waits", waits)
    tasks.add("fails", fails)
    tasks.add("never", lambda: started.append("never"), ["fails"])
    with pytest.raises(OSError, match="the disk"):
        tasks.run_side_by_side(stopped.set, nothing)
    assert not started


def test_an_interrupt_abandons_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned = threading.Event()
    tasks = Schedule()

    def long() -> None:
        abandoned.wait(30)

    tasks.add("long", long)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tasks.run_side_by_side(nothing, abandoned.set)
    assert abandoned.is_set()
