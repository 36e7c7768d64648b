"""What the model is fitted to: counts and times of the same kernels at the same shapes."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from grader import build, machine, model, modelled, sandbox, submission
from grader.assignment import Assignment
from grader.counters import Counters
from grader.machine import Limits
from grader.session import Fault, Session
from tests.calibration import kernels
from tests.gpu.timings import folder_of

Array = NDArray[np.float64]
Key = tuple[str, str, str]  # submission, part, shape
DEMANDS = [name for names in model.RESOURCES.values() for name in names]


def count_all(names: Sequence[str]) -> dict[str, Any]:
    """What the emulator counts, by "submission part shape"."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return {key: row for found in pool.map(count_one, names) for key, row in found.items()}


def count_one(name: str) -> dict[str, Any]:
    """All parts and shapes of one submission."""
    used = kernels.assignment()
    box = sandbox.choose()
    module = build.build(submission.read(folder_of(name), used), used, box)
    found: dict[str, Any] = {}
    for part in kernels.KERNELS[name]:
        for dims in kernels.shapes(used):
            with Session(module, box) as session:
                call = modelled.count(session, used, used.part(part), dims, machine.load())
            if isinstance(call, Fault):
                raise RuntimeError(f"{name} {part} {dims}: {call.sentence}")
            counted = msgspec.to_builtins(call)
            for launch in counted["launches"]:
                launch["lines"] = []  # nobody prices them
            found[f"{name} {part} {dims['rows']}x{dims['hidden_dim']}"] = counted
    return found


@dataclass(frozen=True)
class Data:
    """Rows of both tables that belong together: one for each kernel and shape, seconds; and the
    demands of all their launches, each with the row that it belongs to."""

    keys: list[Key]
    measured: Array
    ceilings: Array
    demands: Array
    resident: Array  # blocks on a multiprocessor
    owner: NDArray[np.int64]
    further: Array
    filled: Array

    def submissions(self) -> list[str]:
        return list(dict.fromkeys(key[0] for key in self.keys))

    def where(self, **wanted: str) -> NDArray[np.bool_]:
        """The rows of a submission, a part, a shape."""
        names = ("submission", "part", "shape")
        chosen = [(names.index(name), value) for name, value in wanted.items()]
        return np.array([all(key[at] == value for at, value in chosen) for key in self.keys])


def join(counted: dict[str, Any], times: Sequence[dict[str, Any]], limits: Limits) -> Data:
    keys: list[Key] = []
    measured, ceilings, further, filled = [], [], [], []
    demands, resident, owner = [], [], []
    for row in times:
        for shape in row["shapes"]:
            key = (row["submission"], row["part"], f"{shape['rows']}x{shape['hidden_dim']}")
            if "time_us" not in shape or " ".join(key) not in counted:
                continue
            call = msgspec.convert(counted[" ".join(key)], Counters)
            for launch in call.launches:
                wanted = model.demands(launch, limits)
                demands.append([wanted[name] for name in DEMANDS])
                resident.append(model.resident(launch, limits))
                owner.append(len(keys))
            further.append(model.further(call))
            filled.append(sum(one.bytes for one in call.api))
            measured.append(1e-6 * shape["time_us"])
            ceilings.append(1e-6 * shape["ceiling_us"])
            keys.append(key)
    return Data(
        keys, np.array(measured), np.array(ceilings), np.array(demands), np.array(resident),
        np.array(owner, dtype=np.int64), np.array(further, dtype=float), np.array(filled, float),
    )  # fmt: skip


def moved(used: Assignment, part: str, shape: str) -> list[float]:
    """Bytes that a part reads and writes at least."""
    rows, hidden_dim = map(int, shape.split("x"))
    dims = {"rows": rows, "hidden_dim": hidden_dim}
    names = [name for name in used.part(part).arguments if name not in dims]
    sizes = {name: 4 * math.prod(used.shape(name, dims)) for name in names}
    written = sum(sizes[name] for name in used.part(part).outputs)
    return [float(sum(sizes.values()) - written), float(written)]
