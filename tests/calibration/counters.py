"""Reads hardware counters of launchers with Nsight Compute (`ncu`), which must be installed.

Every call is profiled with cold caches: ncu flushes them before each kernel, and repeats a kernel
until all counters are read. The clocks are left as they are.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.usage import kernel_name
from tests.calibration import kernels

ROOT = Path(__file__).resolve().parents[2]
MARKER = "pause"
CHIP = "gh100"
LAUNCHES = 100  # of one submission: more would take too long

METRICS = (
    "gpu__time_duration.sum",
    *(
        f"l1tex__t_{what}_pipe_lsu_mem_global_op_{how}.sum"
        for what in ("requests", "sectors")
        for how in ("ld", "st", "red", "atom")
    ),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    *(f"lts__t_sectors_op_{how}.sum" for how in ("read", "write", "red", "atom")),
    *(f"dram__{what}_{how}.sum" for what in ("sectors", "bytes") for how in ("read", "write")),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "smsp__inst_executed.sum",
    "smsp__inst_executed_op_shared_ld.sum",
    "smsp__inst_executed_op_shared_st.sum",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    "launch__registers_per_thread",
)
# What ncu has been seen to know on this chip: the last resort.
CORE = (
    "gpu__time_duration.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "smsp__inst_executed.sum",
)

Row = dict[str, Any]


# What ncu says -----------------------------------------------------------------------------------


def parse(text: str) -> list[Row]:
    """The kernels in the output of `ncu --csv --page raw`, in order: a row of names, a row of units
    and a row for each launch, with whatever else was printed around them. The page has many
    attributes of the device beside what was asked for."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith('"ID",')]
    if not starts:
        return []
    table = [line for line in lines[starts[0] :] if line.startswith('"')]
    header, *rows = csv.reader(table)
    found: list[Row] = []
    for row in rows:
        if len(row) != len(header) or not row[0].isdigit():
            continue  # the units, or something that the submission printed
        named = dict(zip(header, row, strict=True))
        metrics = {
            name: value
            for name, cell in named.items()
            if name in METRICS and (value := number_in(cell)) is not None
        }
        found.append(
            {
                "name": kernel_name(named.get("Kernel Name", "")),
                "block": sizes_in(named.get("Block Size", "")),
                "grid": sizes_in(named.get("Grid Size", "")),
                "metrics": metrics,
            }
        )
    return found


def units(text: str) -> dict[str, str]:
    """The units of the metrics, by name, from the second row."""
    table = [line for line in text.splitlines() if line.startswith('"')]
    for number, line in enumerate(table[:-1]):
        if line.startswith('"ID",'):
            header, below = csv.reader(table[number : number + 2])
            named = zip(header, below, strict=False)
            return {name: unit for name, unit in named if name in METRICS}
    return {}


def number_in(cell: str) -> float | int | None:
    """`4,194,304` -> 4194304; None for what is no number, such as n/a."""
    text = cell.replace(",", "").strip()
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else value


def sizes_in(cell: str) -> list[int]:
    """`(256, 1, 1)` -> 256, 1, 1."""
    return [int(word) for word in re.findall(r"\d+", cell)]


def split(found: Sequence[Row], jobs: int) -> list[list[Row]]:
    """The kernels of each call: those between two markers. Raises ValueError when the markers are
    not as many as the calls."""
    calls: list[list[Row]] = []
    for one in found:
        if one["name"] == MARKER:
            calls.append([])
        elif calls:
            calls[-1].append(one)
    if len(calls) != jobs:
        raise ValueError(f"{len(calls)} markers for {jobs} calls")
    return calls


def refused(text: str, metrics: Sequence[str]) -> list[str]:
    """The metrics that ncu names where it complains."""
    complaints = [line for line in text.splitlines() if re.search("==(ERROR|WARNING)==", line)]
    return [
        metric
        for metric in metrics
        for line in complaints
        if re.search(rf"(?<![\w.]){re.escape(metric.split('.')[0])}(?!\w)", line)
    ]


def known(text: str) -> set[str]:
    """The names in the output of `ncu --query-metrics`, without suffixes."""
    return set(re.findall(r"^\s*(\w+__\w+)", text, re.M))


# Running it --------------------------------------------------------------------------------------


@dataclass
class Profiler:
    """Runs ncu. `metrics` shrinks when ncu does not know some; `said` is its last complaint."""

    command: str
    metrics: Sequence[str] = METRICS
    settled: bool = False  # a run with these metrics has gone well
    units: dict[str, str] = field(default_factory=dict)
    said: str = ""

    def profile(
        self, folder: Path, calls: Sequence[tuple[str, Mapping[str, int]]], seconds: float
    ) -> list[list[Row]]:
        """The kernels of each call (part, sizes) of a submission.

        Raises subprocess.TimeoutExpired, and ValueError when ncu gives nothing to read.
        """
        jobs = [f"{part}:{kernels.word(dims)}" for part, dims in calls]
        text = self._run(folder, jobs, seconds)
        found = parse(text)
        while not found and not self.settled and self._with_fewer_metrics(text):
            text = self._run(folder, jobs, seconds)
            found = parse(text)
        if not found:
            raise ValueError(f"ncu gave no table: {text[-600:]}")
        self.settled = True
        self.units = self.units or units(text)
        return split(found, len(jobs))

    def _run(self, folder: Path, jobs: Sequence[str], seconds: float) -> str:
        done = subprocess.run(
            [
                self.command, "--csv", "--page", "raw", "--print-units", "base",
                "--clock-control", "none", "--target-processes", "application-only",
                "--launch-count", str(LAUNCHES), "--metrics", ",".join(self.metrics),
                sys.executable, "-m", "tests.calibration.run_once", "--marked", str(folder), *jobs,
            ],
            cwd=ROOT, text=True, errors="replace", check=False, timeout=seconds,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.stdout

    def _with_fewer_metrics(self, text: str) -> bool:
        """Leave out what ncu does not know; False when nothing is left to try."""
        self.said = text[-600:]
        without = set(refused(text, self.metrics))
        if not without and len(self.metrics) > len(CORE):
            there = self._known()
            named = {metric for metric in self.metrics if not metric.startswith("launch__")}
            without = {metric for metric in named if there and metric.split(".")[0] not in there}
        fewer = tuple(metric for metric in self.metrics if metric not in without)
        if not without or not fewer:
            fewer = CORE
        smaller = len(fewer) < len(self.metrics)
        self.metrics = fewer
        return smaller

    def _known(self) -> set[str]:
        done = subprocess.run(
            [self.command, "--query-metrics", "--chip", CHIP],
            text=True, errors="replace", check=False, timeout=30,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return known(done.stdout)
