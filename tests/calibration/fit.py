"""Fits the constants of the model of time to what was measured on a card.

    python -m tests.calibration.fit          count, fit, and write machine file, page and plot
    python -m tests.calibration.fit --again  without counting: counted.json is there

The constants minimise the squared logarithm of modelled / measured time over all kernels and
shapes of times.json (Levenberg-Marquardt; every constant stays positive, and is drawn a little to
where it starts from). How well the model predicts a kernel that it does not know is found by
leaving out one submission at a time: fit to the others, model the one that was left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from grader import build, machine, model, modelled, sandbox, submission
from grader.counters import Counters
from grader.machine import Limits
from grader.session import Fault, Session
from tests.calibration import kernels
from tests.gpu.timings import folder_of

HERE = Path(__file__).parent
Array = NDArray[np.float64]
Key = tuple[str, str, str]  # submission, part, shape

# Where each constant starts, and how firmly it is held there (in units of a logarithm's spread):
# what the hardware is known to do in one cycle may hardly move.
START: dict[str, tuple[float, float]] = {
    "dram": (1 / 4.2e12, 0.3),
    "l2": (1 / 7e12, 0.1),
    "request": (1.0, 0.5),
    "wave": (1.0, 0.5),
    "instruction": (1.0, 0.1),
    "l1_latency": (30.0, 0.03),
    "l2_latency": (150.0, 0.03),
    "dram_latency": (300.0, 0.03),
    "shared_latency": (20.0, 0.1),
    "shuffle": (20.0, 0.1),
    "barrier": (40.0, 0.1),
    "round": (300.0, 0.03),
    "block": (500.0, 0.03),
    "atomic": (0.1, 0.03),
    "turn": (0.1, 0.03),
    "same_address": (2.0, 0.03),
    "launch": (2e-6, 0.1),
    "next_launch": (1.5e-6, 0.1),
    "p": (2.5, 0.1),
}
CLOCK = 1.755e9  # of the H200 under load
DEMANDS = [name for names in model.RESOURCES.values() for name in names]


# What was counted and measured ---------------------------------------------------------------------


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
                shape = modelled.count(session, used, used.part(part), dims, machine.load())
            if isinstance(shape, Fault):
                raise RuntimeError(f"{name} {part} {dims}: {shape.sentence}")
            counted = msgspec.to_builtins(shape.counted)
            for launch in counted["launches"]:
                del launch["lines"]  # nobody prices them
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
    measured, ceilings, demands, owner, further, filled = [], [], [], [], [], []
    for row in times:
        for shape in row["shapes"]:
            key = (row["submission"], row["part"], f"{shape['rows']}x{shape['hidden_dim']}")
            if "time_us" not in shape or " ".join(key) not in counted:
                continue
            call = msgspec.convert(counted[" ".join(key)], Counters)
            for launch in call.launches:
                wanted = model.demands(launch, limits)
                demands.append([wanted[name] for name in DEMANDS])
                owner.append(len(keys))
            further.append(model.further(call))
            filled.append(sum(one.bytes for one in call.api))
            measured.append(1e-6 * shape["time_us"])
            ceilings.append(1e-6 * shape["ceiling_us"])
            keys.append(key)
    return Data(
        keys, np.array(measured), np.array(ceilings), np.array(demands),
        np.array(owner, dtype=np.int64), np.array(further, dtype=float), np.array(filled, float),
    )  # fmt: skip


# Fitting -----------------------------------------------------------------------------------------


def times(data: Data, logs: Array) -> Array:
    """Modelled times of all rows: what model.seconds does, for many launches at once."""
    constants = dict(zip(START, np.exp(logs), strict=True))
    scale = [1.0 if name in model.IN_BYTES else 1 / CLOCK for name in DEMANDS]
    weights = np.array([constants[name] for name in DEMANDS]) * np.array(scale)
    priced = data.demands * weights
    first = np.cumsum([0, *map(len, model.RESOURCES.values())])
    parts = np.add.reduceat(priced, first[:-1], axis=1)
    longest = np.maximum(parts.max(axis=1), 1e-12)
    p = constants["p"]
    together = longest * ((parts / longest[:, None]) ** p).sum(axis=1) ** (1 / p)
    total: Array = np.bincount(data.owner, together, len(data.keys))
    return (
        total
        + constants["launch"]
        + constants["next_launch"] * data.further
        + constants["dram"] * data.filled
    )


def fit(data: Data, rows: NDArray[np.bool_], start: Array | None = None) -> Array:
    """Logarithms of the constants, in the order of START."""
    anchor = np.log([value for value, _ in START.values()])
    firm = np.array([weight for _, weight in START.values()])

    def residuals(logs: Array) -> Array:
        wrong = np.log(times(data, logs) / data.measured)[rows]
        return np.concatenate([wrong, firm * (logs - anchor)])

    logs = anchor if start is None else start
    left = residuals(logs)
    damping = 1e-2
    for _ in range(80):
        slope = np.stack(
            [(residuals(logs + step) - left) / 1e-4 for step in 1e-4 * np.eye(len(logs))], axis=1
        )
        normal, gradient = slope.T @ slope, slope.T @ left
        while damping < 1e6:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -gradient)
            tried = residuals(logs + np.clip(step, -0.7, 0.7))
            if tried @ tried < left @ left:
                break
            damping *= 3
        else:
            break
        gain = left @ left - tried @ tried
        logs, left, damping = logs + np.clip(step, -0.7, 0.7), tried, max(damping / 3, 1e-6)
        if gain < 1e-7 * (left @ left):
            break
    return logs


def leave_one_out(data: Data, start: Array) -> Array:
    """The time of each row, by constants that its submission had no part in."""
    predicted = np.empty(len(data.keys))
    for name in data.submissions():
        own = data.where(submission=name)
        predicted[own] = times(data, fit(data, ~own, start))[own]
    return predicted


def spearman(a: Array, b: Array) -> float:
    ranks = [np.argsort(np.argsort(values)).astype(float) for values in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])
