"""Acceptance on a real GPU: one command that produces all results in this folder.

    python -m tests.gpu.accept --backend cpu --only graded        (on any machine, before)
    python -m tests.gpu.accept [--only STEP ...] [--names PATTERN ...] [--quick] [--out FOLDER]
    python -m tests.gpu.accept --steps

Steps run in order; one that fails does not take the others with it, and leaves earlier results as
they were. What is compiled and checked runs in parallel first; what is timed has the GPU for
itself. Each step fills one key of accept.json, grading.json or speed.json; accept.md is made from
these, whatever they hold. With `--backend cpu`, steps that need a GPU are left out; the verdicts of
both backends are kept side by side. `--names` does a step again for some submissions only.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import json
import multiprocessing
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.expectations import Expectation
from grader.target import choose as choose_target
from tests.gpu import audit, pages, timings, verdicts

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PARTS = ("forward", "dgamma_dbeta", "dinp")
SLOW_SHAPE_SECONDS = 1.0  # of a classic: its time need not be exact to a hundredth
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
SANITIZER_SECONDS = 120
BENCH_SECONDS = 240
SUMMARY = 8500  # characters

Row = dict[str, Any]


@dataclass
class Job:
    """What the steps share: how to run, and the results so far, by file."""

    backend: str
    out: Path
    quick: bool
    processes: int
    repeats: int
    results: dict[str, Row]
    names: Sequence[str] = ("*",)

    def submissions(self) -> list[Expectation]:
        """What is graded; a few of each kind when quick."""
        found = verdicts.everything()
        if self.quick:
            found = found[:2] + found[2::9]
        return [e for e in found if any(fnmatch.fnmatch(e.name, name) for name in self.names)]

    def save(self) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        for name, content in self.results.items():
            text = json.dumps(audit.finite(content), indent=1, allow_nan=False)
            (self.out / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        page = pages.page(self.results)
        (self.out / "accept.md").write_text(page, encoding="utf-8")


# Steps -------------------------------------------------------------------------------------------


def machine(job: Job) -> None:
    """The card, the driver, the tools, and what the doctor says."""
    job.results["accept"]["machine"] = {
        "device": choose_target(job.backend).device,
        "card": _said(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,"
                       "clocks.max.memory,power.limit", "--format=csv"]),
        "host": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}",
        "commit": _said(["git", "-C", str(ROOT), "rev-parse", "HEAD"]),
        "doctor": _said([sys.executable, "-m", "grader", "doctor"]),
    }  # fmt: skip


def compiled(job: Job) -> None:
    """Every submission, for the emulator too: its checkers are asked whatever the backend."""
    first = str(timings.folder_of("solution"))
    others = [folder for e in job.submissions() if (folder := str(e.folder)) != first]
    with _pool(job) as pool:

        def built(folders: list[str]) -> list[Row]:
            backends = ("cuda", "cpu") if job.backend == "cuda" else ("cpu",)
            tasks = [(folder, backend) for folder in folders for backend in backends]
            futures = [pool.submit(verdicts.compile_one, *task) for task in tasks]
            return [_result(future) for future in futures]

        rows = built([first])  # and the binding of each backend, before the crowd wants it
        rows += built(others)
    job.results["accept"]["compiled"] = {
        "builds": len(rows),
        "compiler_seconds": round(sum(row.get("seconds", 0.0) for row in rows), 1),
        "refused": sorted({row["folder"].split("/")[-1] for row in rows if row.get("said")}),
    }


def graded(job: Job) -> None:
    """All verdicts but those on speed, in parallel on the one GPU."""
    found: dict[str, Row] = job.results["grading"].setdefault("verdicts", {})
    with _pool(job) as pool:
        futures = {}
        # the longest first, so that they do not end last
        order = sorted(job.submissions(), key=lambda e: not verdicts.with_large_shapes(e))
        for expect in order:
            large = job.backend == "cuda" and verdicts.with_large_shapes(expect)
            parts = verdicts.parts_of(expect)
            futures[expect.name] = pool.submit(
                verdicts.verdict, str(expect.folder), job.backend, parts, large
            )
        for name, future in futures.items():
            found.setdefault(name, {})[job.backend] = _result(future)


def audited(job: Job) -> None:
    """The bound on errors against right kernels and short-cuts: audit.json and audit.md."""
    report = audit.run(job.backend, job.processes, job.quick)
    audit.write(report, job.out)
    brief = {**report["conclusion"], "short-cuts": len(report["conclusion"]["short-cuts"])}
    job.results["accept"]["audit"] = {
        **brief, "failures": report["failures"], "seconds": report["seconds"]
    }  # fmt: skip


def hostile(job: Job) -> None:
    """Cheats against the clock, and their honest twins."""
    found: dict[str, dict[str, Row]] = job.results["speed"].setdefault("hostile", {})
    done: set[tuple[str, str]] = set()
    for expect in job.submissions():
        if expect.folder.parent.name == "hostile" and expect.cuda_status == "graded":
            for part in expect.parts:
                for name in filter(None, (expect.twin, expect.name)):
                    if (name, part) not in done:
                        done.add((name, part))
                        found.setdefault(name, {})[part] = _tried(
                            functools.partial(timings.time_part, name, part)
                        )
                        job.save()


def repeats(job: Job) -> None:
    """The speed of one submission, measured again and again: how much do its marks scatter?"""
    measured: list[dict[str, Row]] = []
    for _ in range(2 if job.quick else job.repeats):
        time_one = functools.partial(timings.time_part, timings.REPEATED)
        measured.append({part: _tried(functools.partial(time_one, part)) for part in PARTS})
        job.results["speed"]["repeats"] = {**timings.spread(measured), "runs": measured}
        job.save()


def classics(job: Job) -> None:
    """What the kernels of the classic exercise reach, part by part."""
    found: dict[str, Row] = {}
    chosen = list(timings.CLASSICS.items())
    for title, (name, parts) in chosen[-2:] if job.quick else chosen:
        found[title] = {
            part: _tried(
                functools.partial(timings.time_part, name, part, seconds=SLOW_SHAPE_SECONDS)
            )
            for part in parts
        }
        job.results["speed"]["classics"] = found
        job.save()


def sanitized(job: Job) -> None:
    """compute-sanitizer's four tools on the solution."""
    command = shutil.which("compute-sanitizer")
    if command is None:
        job.results["accept"]["sanitizer"] = {"note": "compute-sanitizer is not installed here"}
        return
    run = [sys.executable, "-m", "tests.gpu.sanitized", str(timings.folder_of("solution"))]
    started = {
        tool: subprocess.Popen(
            [command, "--tool", tool, *run], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for tool in TOOLS
    }  # fmt: skip
    found: dict[str, Row] = {}
    until = time.monotonic() + SANITIZER_SECONDS
    for tool, process in started.items():
        try:
            said, _ = process.communicate(timeout=max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            said = f"{process.communicate()[0]}\nended after {SANITIZER_SECONDS} seconds"
        lines = [line for line in said.splitlines() if "SUMMARY" in line or "were run" in line]
        found[tool] = {"code": process.returncode, "says": lines or said.splitlines()[-6:]}
    job.results["accept"]["sanitizer"] = found


def bench(job: Job) -> None:
    """The solution against other implementations, if that benchmark is here."""
    script = ROOT / "tests" / "bench_gpu.py"
    if not script.is_file():
        job.results["accept"]["bench"] = {"note": "there is no tests/bench_gpu.py"}
        return
    done = subprocess.run(
        [sys.executable, str(script), "--out", str(job.out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=BENCH_SECONDS,
    )
    job.results["accept"]["bench"] = {
        "code": done.returncode, "says": (done.stdout + done.stderr).splitlines()[-5:]
    }  # fmt: skip


STEPS: dict[str, Callable[[Job], None]] = {
    "machine": machine,
    "compiled": compiled,
    "graded": graded,
    "audited": audited,
    "hostile": hostile,
    "repeats": repeats,
    "classics": classics,
    "sanitized": sanitized,
    "bench": bench,
}
NEED_A_GPU = ("hostile", "repeats", "classics", "sanitized", "bench")


# Helpers -----------------------------------------------------------------------------------------


def _pool(job: Job) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")  # a CUDA context does not survive a fork
    return ProcessPoolExecutor(job.processes, mp_context=context)


def _result(future: Future[Row]) -> Row:
    return _tried(future.result)


def _tried(make: Callable[[], Row]) -> Row:
    """The result, or what went wrong instead of it."""
    try:
        return make()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:400]}


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return _without_places((done.stdout + done.stderr).strip()[:3000])


def _without_places(text: str) -> str:
    """Where things lie on the machine that measured is nobody's business."""
    for folder, name in ((str(ROOT), "."), (sys.prefix, "<python>"), (str(Path.home()), "~")):
        text = text.replace(folder, name)
    return text


def load(out: Path) -> dict[str, Row]:
    """Earlier results, so that a run of some steps adds to them."""
    results: dict[str, Row] = {}
    for name in ("accept", "grading", "speed"):
        file = out / f"{name}.json"
        results[name] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return results


def perform(job: Job, chosen: Iterable[str]) -> bool:
    """Run steps one after another; whether all of them came to their end."""
    log = job.results["accept"].setdefault("steps", {})
    well = True
    for name in chosen:
        began = time.monotonic()
        note = ""
        try:
            STEPS[name](job)
        except Exception:
            note = _without_places(traceback.format_exc(limit=4)[-1500:])
            well = False
        log[name] = {
            "seconds": round(time.monotonic() - began, 1),
            "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "error": note,
        }
        print(f"{name:<10}{log[name]['seconds']:8.1f} s  {note or 'done'}", flush=True)
        job.save()
    return well


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--only", nargs="+", choices=list(STEPS), metavar="STEP")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", HERE)))
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 3) - 2))
    parser.add_argument("--names", nargs="+", default=["*"], help="such as 'hostile/*'")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="little of everything: a rehearsal")
    parser.add_argument("--steps", action="store_true", help="say what the steps are, and end")
    given = parser.parse_args()
    results = load(given.out if (given.out / "accept.json").is_file() else HERE)
    if given.steps:
        for name, step in STEPS.items():
            took = results["accept"].get("steps", {}).get(name, {}).get("seconds")
            last = f"  ({took:.0f} s the last time)" if took is not None else ""
            print(f"{name:<10}{(step.__doc__ or '').splitlines()[0]}{last}")
        return
    chosen = given.only or list(STEPS)
    if given.backend == "cpu":
        chosen = [name for name in chosen if name not in NEED_A_GPU]
    job = Job(
        given.backend, given.out, given.quick, given.processes, given.repeats, results, given.names
    )
    results["accept"]["command"] = shlex.join(["python", "-m", "tests.gpu.accept", *sys.argv[1:]])
    well = perform(job, chosen)
    print(pages.summary(results)[:SUMMARY])
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
