"""How fast the grader itself is, against its budgets: `make bench`.

    python tests/bench.py [--cold] [--json FILE]

Every figure is the median of several runs of the real commands, in one session, on this machine.
`--cold` adds the time from nothing: it copies the repository and runs `make grade` there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GRADER = Path(sys.executable).parent / "grader"
SOLUTION = ROOT / "solution" / "layernorm"
TYPICAL = ROOT / "tests" / "submissions" / "layernorm" / "odd" / "starter_layout_float4"
STARTER = ROOT / "starter" / "layernorm"
SLOW = ROOT / "tests" / "submissions" / "layernorm" / "odd" / "thread_per_row"
BLOCK_PER_ROW = ROOT / "tests" / "submissions" / "layernorm" / "classic" / "block_per_row_two_pass"
# Times as long as without anybody watching: one call of 1024 x 1024 in this process, CPU time.
WATCHED = """
import sys, time
import numpy as np
import grader
module = grader.load(sys.argv[1], backend="cpu")
rows, columns = 1024, 1024
x = np.random.default_rng(0).standard_normal((rows, columns), np.float32)
out, vars, means = np.empty_like(x), np.empty(rows, np.float32), np.empty(rows, np.float32)
gamma = np.ones(columns, np.float32)
def took(who):
    module.watch(who)
    began = time.process_time()
    module.launch_layernorm(out, vars, means, x, gamma, gamma, rows, columns)
    took = time.process_time() - began
    module.watch(0)
    return took
took(0)
print(took(int(sys.argv[2])) / took(0))
"""


def seconds(command: list[str], env: dict[str, str], codes: tuple[int, ...] = (0,)) -> float:
    """Wall time of a command that must end with one of these codes."""
    began = time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if done.returncode not in codes:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return took


def median(measure: Callable[[], float], runs: int) -> float:
    return statistics.median(measure() for _ in range(runs))


def peak_megabytes(command: list[str], env: dict[str, str]) -> float:
    """The largest resident size of a command or of any program it starts."""
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *command],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout) / 1024


def cold() -> float:
    """`make grade` in a copy without .venv, build folder or cache."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "repository"
        ignored = shutil.ignore_patterns(".venv", "build", ".git", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, copy, ignore=ignored)
        env = {**os.environ, "KERNEL_GRADER_CACHE": f"{folder}/cache"}
        return seconds(["make", "-C", str(copy), "grade"], env)


def measure(runs: int, with_cold: bool) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []

    def note(what: str, value: float, unit: str, budget: float | None) -> None:
        rows.append({"what": what, "value": round(value, 2), "unit": unit, "budget": budget})
        mark = "" if budget is None else f"of {budget:g}  {'ok' if value <= budget else 'OVER'}"
        print(f"{what:<58}{value:8.2f} {unit:<3} {mark}".rstrip(), flush=True)

    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "KERNEL_GRADER_CACHE": cache}
        grade = [str(GRADER), "grade", "--backend", "cpu", "--assignment", "layernorm"]
        check = [str(GRADER), "check", "--backend", "cpu", str(STARTER)]

        def without_modules() -> None:
            shutil.rmtree(Path(cache) / "modules", ignore_errors=True)

        def first(command: list[str], codes: tuple[int, ...]) -> float:
            without_modules()
            return seconds(command, env, codes)

        build = [
            sys.executable,
            "-c",
            "import sys, time; from grader import assignment, build, native_parts, submission\n"
            "a = assignment(sys.argv[1]); s = submission.read(sys.argv[2], a)\n"
            "native_parts.native(a)\n"
            "t = time.perf_counter(); build.build(s, a); print(time.perf_counter() - t)",
            "layernorm",
        ]

        def rebuild(folder: Path) -> float:
            without_modules()
            done = subprocess.run(
                [*build, str(folder)], env=env, capture_output=True, text=True, check=True
            )
            return float(done.stdout)

        note(
            "check to the first failure (starter, compiled anew)",
            median(lambda: first([*check, "--part", "forward"], (1,)), runs),
            "s",
            5,
        )
        note(
            "grade of a typical submission (compiled anew)",
            median(lambda: first([*grade, str(TYPICAL)], (0,)), runs),
            "s",
            10,
        )
        note(
            "grade of a slow one, a thread per row (compiled anew)",
            median(lambda: first([*grade, str(SLOW)], (0,)), runs),
            "s",
            60,
        )
        note("rebuild of a typical submission", median(lambda: rebuild(TYPICAL), runs), "s", 2)
        note(
            "grade of the reference solution (compiled anew)",
            median(lambda: first([*grade, str(SOLUTION)], (0,)), runs),
            "s",
            None,
        )
        note(
            "rebuild of the reference solution", median(lambda: rebuild(SOLUTION), runs), "s", None
        )
        for who, what, budget in ((1, "checkers", 5.0), (2, "counters", None)):
            watched = [sys.executable, "-c", WATCHED, str(BLOCK_PER_ROW), str(who)]

            def ratio(command: list[str] = watched) -> float:
                done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
                return float(done.stdout)

            note(f"a call with the {what}, times one without", median(ratio, runs), "", budget)
        note("peak memory of grade", peak_megabytes([*grade, str(TYPICAL)], env), "MB", 700)
    if with_cold:
        note("make grade from nothing", cold(), "s", 120)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cold", action="store_true", help="also time `make grade` from nothing")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    rows = measure(given.runs, given.cold)
    if given.json:
        machine = {"cores": os.cpu_count(), "machine": platform.machine()}
        given.json.write_text(json.dumps({"machine": machine, "figures": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
