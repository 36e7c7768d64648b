"""A worker as grader.worker is, but for its module: a Python object without a GPU that prints what
it is asked. tests/test_batch.py starts it; the name of the module's file says what it does."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import cast

from grader import worker

TIMES = {"nan": float("nan"), "inf": float("inf"), "negative": -1e-3, "ages": 1e9}


class Module:
    """What the extension module of a submission offers."""

    def __init__(self, behaviour: str) -> None:
        self.behaviour = behaviour
        self.launchers = [] if behaviour == "missing" else ["launch_saxpy"]
        self.mapped = 0
        self.faulty = False

    def why_unusable(self) -> str:
        return ""

    def map_shared(self, fd: int, size: int, writable: bool) -> int:
        if self.behaviour == "unmappable":
            raise RuntimeError("mapping failed")
        self.mapped += 1
        print("map", os.fstat(fd).st_size, size, writable)
        return 1000 * self.mapped

    def unmap_shared(self, address: int, size: int) -> None:
        print("unmap", address, size)

    def settle(self) -> None:
        self.faulty = self.behaviour == "faulty before"

    def launch_saxpy_batch(
        self, calls: list[tuple[int, ...]], keep: list[tuple[int, int, int]]
    ) -> tuple[float, float]:
        self.faulty = self.behaviour == "faulty"
        print("batch", calls, keep)
        if self.behaviour == "dies":
            os._exit(3)
        if self.behaviour == "sleeps":
            time.sleep(0.3)
        told = TIMES.get(self.behaviour, 2.5)
        return 1.5, told

    def synchronize(self) -> tuple[int, str, str]:
        if self.behaviour.startswith("broken "):
            return int(self.behaviour.split()[1]), "", "beyond"
        return (700, "", "beyond") if self.faulty else (0, "", "")

    def report(self) -> str:
        return ""

    def launches(self) -> str:
        return "saxpy\t16"


class Worker(worker.Worker):
    """One that need not get ready."""

    def copies(self, record: bytes) -> list[tuple[int, int, int]]:
        behaviour = cast(Module, self.module).behaviour
        if behaviour == "hangs":
            time.sleep(60)
        if behaviour == "dawdles":
            time.sleep(1)
        if behaviour == "leaves":
            os._exit(4)
        if behaviour == "babbles":
            self.control.sendall(b"x")
        return super().copies(record)


def load(path: str) -> ModuleType:
    return cast(ModuleType, Module(Path(path).name))


if __name__ == "__main__":
    worker.load = load
    worker.Worker = Worker  # type: ignore[misc]
    worker.main()
    sys.exit()
