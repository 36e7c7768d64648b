"""Fits the constants of the model of time to what was measured on a card.

    python -m tests.calibration.fit          count, fit, and write machine file, page and plot
    python -m tests.calibration.fit --again  without counting: counted.json is there

The constants minimise the squared logarithm of modelled / measured time over all kernels and
shapes of times.json (Levenberg-Marquardt; every constant stays positive, and is drawn a little to
where it starts from). How well the model predicts a kernel that it does not know is found by
leaving out one kernel at a time, with all its shapes: fit to the others, model that one.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from grader import machine, model
from tests.calibration import counters_report, fit_report, kernels
from tests.calibration.fit_data import DEMANDS, Array, Data, count_all, join, moved

HERE = Path(__file__).parent

# Where each constant starts, and how firmly it is held there (in units of a logarithm's spread):
# what the hardware is known to do in one cycle may hardly move.
START: dict[str, tuple[float, float]] = {
    "dram": (1 / 4.2e12, 0.3),
    "l2": (1 / 7e12, 0.1),
    "request": (1.0, 0.5),
    "wave": (1.0, 0.5),
    "shared_atomic": (10.0, 0.03),
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
    "q": (2.5, 0.1),
}
CLOCK = 1.755e9  # of the H200 under load


# Fitting -----------------------------------------------------------------------------------------


def times(data: Data, logs: Array) -> Array:
    """Modelled times of all rows: what model.seconds does, for many launches at once."""
    constants = dict(zip(START, np.exp(logs), strict=True))
    scale = [1.0 if name in model.IN_BYTES else 1 / CLOCK for name in DEMANDS]
    weights = np.array([constants[name] for name in DEMANDS]) * np.array(scale)
    priced = data.demands * weights
    first = np.cumsum([0, *map(len, model.RESOURCES.values())])
    parts = np.add.reduceat(priced, first[:-1], axis=1)
    latency = list(model.RESOURCES).index(model.LATENCY)
    busy = _norm(np.delete(parts, latency, axis=1), constants["p"])
    alone = parts[:, latency] + busy / data.resident
    together = _norm(np.stack([busy, alone], axis=1), constants["q"])
    total: Array = np.zeros(len(data.keys))
    np.add.at(total, data.owner, together)
    total += constants["launch"] + constants["next_launch"] * data.further
    total += constants["dram"] * data.filled
    return total


def _norm(times: Array, p: float) -> Array:
    """model.norm of each row."""
    longest = np.maximum(times.max(axis=1), 1e-12)
    norms: Array = longest * ((times / longest[:, None]) ** p).sum(axis=1) ** (1 / p)
    return norms


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
    """The time of each row, by constants that its kernel had no part in, at whatever shape."""
    predicted = np.empty(len(data.keys))
    for name, part in dict.fromkeys(key[:2] for key in data.keys):
        own = data.where(submission=name, part=part)
        predicted[own] = times(data, fit(data, ~own, start))[own]
    return predicted


def fit_ceiling(data: Data) -> dict[str, float]:
    """The constants of model.ceiling: the probe's time is linear in what it reads and writes."""
    used = kernels.assignment()
    rows: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for key, seconds in zip(data.keys, data.ceilings, strict=True):
        if key[1:] not in rows:
            rows[key[1:]] = (moved(used, *key[1:]), [])
        rows[key[1:]][1].append(seconds)
    sides = np.array([[1.0, *both] for both, _ in rows.values()])
    medians = np.array([np.median(seen) for _, seen in rows.values()])
    # relative errors count
    found, *_ = np.linalg.lstsq(sides / medians[:, None], np.ones(len(medians)), rcond=None)
    names = ("ceiling_launch", "ceiling_read", "ceiling_write")
    return {name: float(value) for name, value in zip(names, found, strict=True)}


def host_copy() -> float:
    """Seconds per byte of a copy from or to the host, as fast as it gets."""
    measured = json.loads((HERE / "host_copies.json").read_text())
    return float(1 / max(measured["bytes_per_second"].values()))


# Writing -----------------------------------------------------------------------------------------

MACHINE = machine.FOLDER / f"{machine.DEFAULT}.toml"


def write_constants(constants: dict[str, float]) -> None:
    """Into the machine's file, in place of those that are there."""
    text = MACHINE.read_text(encoding="utf-8")
    table = "".join(f"{name} = {value:.4g}\n" for name, value in constants.items())
    MACHINE.write_text(re.sub(r"(?s)\[model\]\n.*", "[model]\n" + table, text), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--again", action="store_true", help="do not count, counted.json is there")
    parser.add_argument("--names", nargs="+", default=list(kernels.KERNELS))
    parser.add_argument("--counted", type=Path, default=HERE / "counted.json")
    given = parser.parse_args()
    began = time.monotonic()
    if not given.again:
        known = json.loads(given.counted.read_text()) if given.counted.is_file() else {}
        counted = {**known, **count_all(given.names)}
        given.counted.write_text(json.dumps(counted, separators=(",", ":")) + "\n")
        print(f"counted in {time.monotonic() - began:.0f} s")
    counted = json.loads(given.counted.read_text())
    measured = json.loads((HERE / "counters.json").read_text())["rows"]
    counters_report.write(counted, measured, HERE)
    data = join(
        counted,
        json.loads((HERE / "times.json").read_text()),
        machine.load().limits,
    )
    logs = fit(data, np.ones(len(data.keys), bool))
    constants = dict(zip(START, map(float, np.exp(logs)), strict=True))
    write_constants({"clock": CLOCK, **constants, "host": host_copy(), **fit_ceiling(data)})
    machine.load.cache_clear()
    predicted = leave_one_out(data, logs)
    fit_report.write(data, predicted, HERE)
    print((HERE / "model.md").read_text())


if __name__ == "__main__":
    main()
