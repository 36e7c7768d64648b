"""Calls launchers of a submission once each: what a profiler or a checker is run on.

    python -m tests.calibration.run_once [--marked] [--backend cpu] FOLDER PART:ROWSxWIDTH ...

--marked: a kernel named `pause` is launched before each call, so that whoever lists the kernels of
this process knows which belong to which call. A call that fails does not take the others with it.
"""

from __future__ import annotations

import argparse
import ctypes
import resource
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import grader
from grader.assignment import Assignment
from grader.manifest import Part
from grader.target import choose as choose_target
from tests.calibration import kernels

MEMORY = 24 << 30  # bytes: some of the kernels that are checked take what they can get

Array = NDArray[np.float32]


def limit() -> None:
    """What a submission may take: about as much as in the worker that grades it."""
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, MEMORY)):
        resource.setrlimit(what, (most, most))


def marker() -> Callable[[], None]:
    """Launches the grader's own kernel `pause`."""
    gpu = choose_target("cuda").gpu
    assert gpu is not None
    kernel = gpu.kernel("pause.cu", "pause")

    def mark() -> None:
        gpu.launch(kernel, 1, 1, [ctypes.c_ulonglong(1)])
        gpu.synchronize()

    return mark


class Data:
    """Random arrays by name and shape, made once."""

    def __init__(self, used: Assignment) -> None:
        self.used = used
        self.made: dict[tuple[str, tuple[int, ...]], Array] = {}

    def arguments(self, part: Part, dims: dict[str, int]) -> list[Any]:
        return [
            dims[name]
            if name in dims
            else np.full(self.used.shape(name, dims), np.nan, np.float32)
            if name in part.outputs
            else self.array(name, self.used.shape(name, dims))
            for name in part.arguments
        ]

    def array(self, name: str, shape: tuple[int, ...]) -> Array:
        if (name, shape) not in self.made:
            values = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
            self.made[name, shape] = np.abs(values) + np.float32(0.5) if name == "vars" else values
        return self.made[name, shape]


def parse(job: str) -> tuple[str, dict[str, int]]:
    """`dinp:33x31` -> its part and its sizes."""
    part, _, sizes = job.partition(":")
    rows, _, width = sizes.partition("x")
    return part, {"rows": int(rows), "hidden_dim": int(width)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("jobs", nargs="+", metavar="PART:ROWSxWIDTH")
    parser.add_argument("--marked", action="store_true")
    parser.add_argument("--backend", default="cuda", choices=("cpu", "cuda"))
    given = parser.parse_args()
    used = kernels.assignment()
    module = grader.load(given.folder, assignment=used.id, backend=given.backend)
    mark = marker() if given.marked else lambda: None
    data = Data(used)
    if not given.marked:  # wrong kernels are checked, but only right ones are profiled
        limit()
    failed = 0
    for job in given.jobs:
        name, dims = parse(job)
        part = used.part(name)
        arguments = data.arguments(part, dims)
        try:
            mark()
            getattr(module, part.launcher)(*arguments)
        except Exception as error:
            failed += 1
            print(f"{job} failed: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)  # in the ordinary way: profilers write their reports then


if __name__ == "__main__":
    main()
