"""Measures on a real GPU what the emulator's model of speed is fitted to and held against.

    python -m tests.calibration.measure [--only STEP ...] [--names PATTERN ...] [--out FOLDER]

compiled   every submission that later steps need, in parallel
times      the time of each kernel of the table at each shape, beside the memory ceiling: times.json
counters   hardware counters of some of them, by ncu: counters.json
sanitizer  what compute-sanitizer's tools say about the wrong submissions: sanitizer.json

Steps run in order and within --seconds altogether. Whatever one of them has found is written at
once; one that fails leaves the others alone. measure.json says how it went.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader import build, sandbox, submission
from grader.errors import GraderError, InfrastructureError
from grader.gpu import Gpu
from grader.session import Session
from grader.target import choose as choose_target
from tests.calibration import counters, kernels, sanitizer
from tests.calibration.times import Times
from tests.expectations import read_all
from tests.gpu import audit, verdicts
from tests.gpu.accept import _said, _without_places
from tests.gpu.timings import folder_of

HERE = Path(__file__).parent
SECONDS = 480.0  # for everything
MOST = {"compiled": 120.0, "times": 330.0, "counters": 150.0, "sanitizer": 300.0}
COUNTER_SECONDS = 45.0  # of one submission
FAILURES = 2  # of ncu, at the beginning, after which it is not asked again

Row = dict[str, Any]


@dataclass
class Job:
    """What the steps share. `until` is a time of time.monotonic()."""

    out: Path
    processes: int
    names: Sequence[str]
    steps: Sequence[str]
    arch: str
    gpu: Gpu | None
    until: float
    results: dict[str, Any] = field(default_factory=dict)

    def chosen(self, table: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """The submissions of a table that were asked for."""
        return {
            name: parts
            for name, parts in table.items()
            if any(fnmatch.fnmatch(name, pattern) for pattern in self.names)
        }

    def needed(self) -> list[str]:
        """All submissions of the steps that will run; of all steps when only compiling."""
        tables = {
            "times": kernels.KERNELS,
            "counters": kernels.COUNTED,
            "sanitizer": wrong(),
        }
        steps = [step for step in tables if step in self.steps] or list(tables)
        return list(dict.fromkeys(name for step in steps for name in self.chosen(tables[step])))

    def earlier(self, name: str, empty: Any) -> Any:
        """What was measured before, so that a run for some names adds to it."""
        for folder in (self.out, HERE):
            file = folder / f"{name}.json"
            if file.is_file():
                return json.loads(file.read_text(encoding="utf-8"))
        return empty

    def left(self, step: str) -> float:
        """Seconds that a step has from now on."""
        return max(0.0, min(MOST[step], self.until - time.monotonic()))

    def save(self, name: str, content: Any) -> None:
        """Write a file of results; all of it or nothing, since time may run out at any moment."""
        self.results[name] = content
        self.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(audit.finite(content), indent=1, allow_nan=False)
        unfinished = self.out / f"{name}.json.new"
        unfinished.write_text(_without_places(text) + "\n", encoding="utf-8")
        unfinished.replace(self.out / f"{name}.json")


def merged(rows: Sequence[Row], earlier: Iterable[Row], key: Sequence[str]) -> list[Row]:
    """Rows, and those of an earlier run that are not among them."""

    def named(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in key)

    new = {named(row) for row in rows}
    return [*rows, *(row for row in earlier if named(row) not in new)]


def wrong() -> dict[str, Sequence[str]]:
    """Every wrong submission that builds, and the parts that are wrong."""
    every = tuple(part.id for part in kernels.assignment().parts)
    return {
        expect.name: verdicts.parts_of(expect) or every
        for expect in read_all(kernels.ASSIGNMENT, ["wrong"])
        if expect.status == "graded"
    }


# Steps -------------------------------------------------------------------------------------------


def compile_one(name: str, arch: str) -> tuple[float, str]:
    """Seconds that it took, and what the compiler said if that was not well."""
    began = time.monotonic()
    used = kernels.assignment()
    said = ""
    try:
        read = submission.read(folder_of(name), used)
        build.build(read, used, sandbox.choose(), backend="cuda", arch=arch)
    except GraderError as error:
        said = f"{type(error).__name__}: {error}"[:300]
    return time.monotonic() - began, said


def compiled(job: Job) -> Row:
    """Every submission that later steps need, so that they find it built."""
    names = job.needed()
    until = time.monotonic() + job.left("compiled")
    done: dict[str, tuple[float, str]] = {}
    if names:  # the binding, before the crowd wants it
        done[names[0]] = compile_one(names[0], job.arch)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(job.processes, mp_context=context) as pool:
        futures = {pool.submit(compile_one, name, job.arch): name for name in names[1:]}
        try:
            for future in as_completed(futures, timeout=max(1.0, until - time.monotonic())):
                done[futures[future]] = future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return {
        "builds": len(done),
        "compiler_seconds": round(sum(took for took, _ in done.values()), 1),
        "refused": {name: said for name, (_, said) in sorted(done.items()) if said},
    }


def times(job: Job) -> Row:
    """The time of each part of each submission at each shape."""
    if job.gpu is None:
        raise InfrastructureError("timing needs a GPU")
    used = kernels.assignment()
    box = sandbox.choose()
    until = time.monotonic() + job.left("times")
    watch = Times(job.gpu, used, kernels.shapes(used))
    earlier = job.earlier("times", [])
    rows: list[Row] = []
    missing: list[str] = []
    for name, parts in job.chosen(kernels.KERNELS).items():
        if time.monotonic() > until:
            missing += [f"{name} {part}" for part in parts]
            continue
        try:
            module = build.build(
                submission.read(folder_of(name), used), used, box, "cuda", job.arch
            )
            with Session(module, box) as session:
                for part in parts:
                    rows.append({"submission": name, **watch.part(session, used.part(part))})
                    job.save("times", merged(rows, earlier, ("submission", "part")))
                    print(f"  {rows[-1]['seconds']:6.1f} s  {name} {part}", flush=True)
        except GraderError as error:
            missing.append(f"{name}: {type(error).__name__}: {error}"[:300])
    return {"rows": len(rows), "missing": missing}


def read_counters(job: Job) -> Row:
    """Hardware counters, one submission after another, each in one process."""
    command = shutil.which("ncu")
    if command is None:
        raise InfrastructureError("ncu (Nsight Compute) is not installed here")
    until = time.monotonic() + job.left("counters")
    profiler = counters.Profiler(command)
    earlier = job.earlier("counters", {"units": {}, "rows": []})
    rows: list[Row] = []
    missing: dict[str, str] = {}
    for name, parts in job.chosen(kernels.COUNTED).items():
        seconds = min(COUNTER_SECONDS, until - time.monotonic())
        if seconds < 5 or (not rows and len(missing) >= FAILURES):
            missing[name] = "not run"
            continue
        calls = [(part, shape) for part in parts for shape in kernels.COUNTED_SHAPES]
        try:
            found = profiler.profile(folder_of(name), calls, seconds)
        except (ValueError, OSError, subprocess.TimeoutExpired) as error:
            missing[name] = _without_places(f"{type(error).__name__}: {error}"[-600:])
            print(f"  {name}: {missing[name]}", flush=True)
            continue
        rows += [
            {"submission": name, "part": part, **shape, "kernels": launched}
            for (part, shape), launched in zip(calls, found, strict=True)
        ]
        key = ("submission", "part", *kernels.SMALL)
        together = merged(rows, earlier["rows"], key)
        job.save("counters", {"units": {**earlier["units"], **profiler.units}, "rows": together})
        print(f"  {name}", flush=True)
    left_out = [metric for metric in counters.METRICS if metric not in profiler.metrics]
    return {
        "rows": len(rows),
        "missing": missing,
        "metrics_left_out": left_out,
        "said": _without_places(profiler.said),
    }


def sanitize(job: Job) -> Row:
    """The tools of compute-sanitizer on the wrong submissions, many at a time."""
    command = shutil.which("compute-sanitizer")
    if command is None:
        raise InfrastructureError("compute-sanitizer is not installed here")
    until = time.monotonic() + job.left("sanitizer")
    checked = job.chosen(wrong())
    earlier = job.earlier("sanitizer", {})
    found: dict[str, Row] = {
        name: {"parts": list(parts), "tools": {}} for name, parts in checked.items()
    }

    def save() -> None:
        begun = {name: row for name, row in found.items() if row["tools"]}
        job.save("sanitizer", {**earlier, **begun})

    with ThreadPoolExecutor(job.processes) as pool:
        futures = {
            pool.submit(sanitizer.run, command, tool, str(folder_of(name)), checked[name], until): (
                name,
                tool,
            )
            for name, tool in sanitizer.plan(checked)
        }
        for number, future in enumerate(as_completed(futures)):
            name, tool = futures[future]
            try:
                found[name]["tools"][tool] = future.result()
            except Exception as error:
                found[name]["tools"][tool] = {"note": f"{type(error).__name__}: {error}"[:300]}
            if number % 20 == 0:
                save()
    save()
    tools = [row for one in found.values() for row in one["tools"].values()]
    return {
        "runs": len(tools),
        "not_run": sum("not run" in row.get("note", "") for row in tools),
        "with_errors": sum(bool(row.get("errors")) for row in tools),
    }


STEPS: dict[str, Callable[[Job], Row]] = {
    "compiled": compiled,
    "times": times,
    "counters": read_counters,
    "sanitizer": sanitize,
}


# -------------------------------------------------------------------------------------------------


def machine(gpu: Gpu | None) -> Row:
    """What was measured on."""
    row: Row = {
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "card": _said(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm,"
                       "clocks.max.sm,clocks.max.memory,power.limit", "--format=csv"]),
        "ncu": _said(["ncu", "--version"])[-200:],
    }  # fmt: skip
    if gpu is not None:
        row |= {
            "gpu": gpu.describe(),
            "multiprocessors": gpu.multiprocessors,
            "l2_bytes": gpu.l2_bytes,
            "memory_bytes": gpu.memory_bytes,
        }
    return row


def perform(job: Job, chosen: Iterable[str]) -> bool:
    """Run steps one after another; whether all of them came to their end."""
    log: dict[str, Row] = job.earlier("measure", {}).get("steps", {})
    report = {"machine": machine(job.gpu), "steps": log}
    well = True
    for name in chosen:
        began = time.monotonic()
        row: Row = {}
        try:
            row = STEPS[name](job)
        except Exception:
            row = {"error": traceback.format_exc(limit=4)[-1500:]}
            well = False
        log[name] = {
            "seconds": round(time.monotonic() - began, 1),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            **row,
        }
        job.save("measure", report)
        print(_without_places(f"{name:<10}{json.dumps(log[name])[:1500]}"), flush=True)
    return well


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(STEPS), metavar="STEP")
    parser.add_argument("--names", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", HERE)))
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 3) - 2))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for all steps together")
    parser.add_argument("--arch", help="compile for this one, such as sm_90, without a GPU")
    given = parser.parse_args(arguments)
    gpu = None if given.arch else choose_target("cuda").gpu
    arch = given.arch or (gpu.arch if gpu is not None else "")
    steps = given.only or list(STEPS)
    until = time.monotonic() + given.seconds
    job = Job(given.out, given.processes, given.names, steps, arch, gpu, until)
    return 0 if perform(job, steps) else 1


if __name__ == "__main__":
    sys.exit(main())
