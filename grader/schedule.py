"""Tasks that need each other, side by side in threads or one after another in this one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field


class Stopped(Exception):
    """Raised by a task that notices that another one has ended the whole job."""


@dataclass
class Schedule:
    """Tasks by name, in the order in which they start when several could."""

    _tasks: dict[str, Callable[[], None]] = field(default_factory=dict)
    _needs: dict[str, set[str]] = field(default_factory=dict)

    def add(self, name: str, task: Callable[[], None], needs: Collection[str] = ()) -> None:
        """needs: names of tasks, added before this one, that must be done before it starts."""
        self._tasks[name] = task
        self._needs[name] = set(needs)

    def run_here(self) -> None:
        """All tasks in the order in which they were added, in the calling thread."""
        for task in self._tasks.values():
            task()

    def run_side_by_side(self, stop: Callable[[], None], abandon: Callable[[], None]) -> None:
        """All tasks, as many at once as there are cores.

        stop: called when one has failed; those that run may raise Stopped then, or go on to their
        end. abandon: called, as well, when nobody waits for them (Ctrl-C, say). Raises the error of
        the first task, in the order in which they were added, that has one.
        """
        running: dict[Future[None], str] = {}
        failed: dict[str, BaseException] = {}
        left = dict(self._needs)
        with ThreadPoolExecutor(max(1, min(cores(), len(self._tasks)))) as pool:
            try:
                while left or running:
                    for name in [] if failed else [one for one, needs in left.items() if not needs]:
                        running[pool.submit(self._tasks[name])] = name
                        del left[name]
                    if not running:
                        break
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        name = running.pop(future)
                        error = future.exception()
                        if error is not None:
                            failed[name] = error
                            stop()
                        left = {one: needs - {name} for one, needs in left.items()}
            except BaseException:
                stop()
                abandon()
                raise
        order = list(self._tasks)
        told = [name for name, error in failed.items() if not isinstance(error, Stopped)]
        if failed:
            raise failed[min(told or failed, key=order.index)]


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
