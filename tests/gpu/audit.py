"""Is the bound on errors neither too tight nor too loose on real hardware?

    python -m tests.gpu.audit [--backend cuda] [--out FOLDER] [--quick] [--processes N]

Every right kernel among the test submissions, as it is and with --use_fast_math, runs the cases of
all tests (pinned ones, and those that several masters draw), and every short-cut in precision runs
those of `base`. What counts is the largest error in units of the allowed one. A right kernel should
stay below a half; a short-cut must exceed 1 wherever it is taken, and 2 if the bound is ever to be
doubled. Writes audit.json, and audit.md from it.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import grader
from grader import build, sandbox, submission, toolkit
from grader.arena import Buffer
from grader.assignment import Assignment
from grader.cases import PUBLIC_MASTER, Case, cases
from grader.compare import used
from grader.errors import BuildFailed
from grader.gpu import OutOfMemory
from grader.large import large_cases
from grader.manifest import Part
from grader.session import Call, Fault, Session
from grader.target import choose as choose_target
from grader.trial import Trial, base_case
from tests.expectations import read_all

ROOT = Path(__file__).resolve().parents[2]
SHORTCUTS = Path(__file__).with_name("shortcuts.cuh")
MASTERS = (PUBLIC_MASTER, b"audit 1", b"audit 2")
TESTS = ("base", "general", "stability")
LARGEST = 1 << 27  # elements of a large shape that every kernel is tried on
HALF = 0.5
STEPS = 1 << 40
# where precision is lost, and what to
PLACES = ("INPUT", "XHAT", "STATISTIC", "PRODUCT")
FORMATS = ("half", "bfloat16", "tf32")


@dataclass(frozen=True)
class Kernels:
    """A submission that is audited. flags: as it is, or with fast maths; shortcut: empty for right
    kernels; fails: part.test that it is known to fail."""

    name: str
    folder: str
    flags: str = ""
    shortcut: str = ""
    fails: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """The largest share of the allowed error that one output of one submission used, over all cases
    of a family and a size class; infinite for a number that is none."""

    kernels: str
    flags: str
    shortcut: str
    part: str
    test: str
    family: str
    size: str
    output: str
    used: float
    cases: int


# What is audited ---------------------------------------------------------------------------------


def right_kernels() -> list[Kernels]:
    """The solution and all right test submissions."""
    found = [Kernels("solution", str(ROOT / "solution" / "layernorm"))]
    found += [
        Kernels(expect.name, str(expect.folder), fails=expect.cpu_fails)
        for expect in read_all("layernorm", ["odd", "classic"])
    ]
    return found


def shortcuts(folder: Path) -> list[Kernels]:
    """Writes a submission for each short-cut; the first takes none."""
    found = []
    chosen = [
        ("none", ""),
        *((f"{p}_{f}", f"#define {p} to_{f}\n") for p in PLACES for f in FORMATS),
    ]
    for name, text in chosen:
        place = folder / name.lower()
        place.mkdir(parents=True)
        (place / "layernorm.cu").write_text(
            f"{text}#include <cuda_runtime.h>\n{SHORTCUTS.read_text()}"
        )
        what = "" if name == "none" else name.lower().replace("_", " rounded to ")
        found.append(Kernels(f"short-cuts/{name.lower()}", str(place), shortcut=what))
    return found


def size_class(case: Case) -> str:
    elements = case.elements
    for limit, name in ((1 << 10, "up to 1 Ki"), (1 << 14, "up to 16 Ki"), (1 << 20, "up to 1 Mi")):
        if elements <= limit:
            return name
    return "large"


# Measuring ---------------------------------------------------------------------------------------


def audit(
    group: Sequence[Kernels], backend: str, masters: Sequence[bytes], with_large: bool, quick: bool
) -> list[Record]:
    """All cases on some submissions. One reference serves them all, so they run side by side."""
    target = choose_target(backend)
    layernorm = grader.assignment("layernorm")
    box = sandbox.choose()
    found: dict[tuple[str, ...], list[float]] = {}
    with ExitStack() as stack:
        sessions: list[tuple[Kernels, Session]] = []
        broken: set[tuple[Kernels, str]] = set()
        for kernels in group:
            try:
                module = _build(kernels, layernorm, box, backend, target.gpu)
            except BuildFailed as error:
                found[(kernels.name, kernels.flags, "", "", str(error), "", "build")] = [math.inf]
                continue
            session = stack.enter_context(Session(module, box))
            session.seconds_left = math.inf
            sessions.append((kernels, session))
        for part in layernorm.parts:
            for test in TESTS:
                for case in _cases(layernorm, part, test, masters, quick):
                    for kernels, output, share in _errors(
                        layernorm, part, test, case, sessions, broken
                    ):
                        key = (part.id, test, case.family, size_class(case), output)
                        found.setdefault((kernels.name, kernels.flags, *key), []).append(share)
            if with_large and target.gpu is not None:
                for kernels, case, share in _large(layernorm, part, target.gpu, sessions):
                    key = (part.id, "general", case.family, "large", "all outputs")
                    found.setdefault((kernels.name, kernels.flags, *key), []).append(share)
    taken = {kernels.name: kernels.shortcut for kernels in group}
    return [
        Record(name, flags, taken[name], part, test, family, size, output, max(shares), len(shares))
        for (name, flags, part, test, family, size, output), shares in found.items()
    ]


def _cases(
    layernorm: Assignment, part: Part, test: str, masters: Sequence[bytes], quick: bool
) -> Iterator[Case]:
    """Pinned cases once, then what each master draws."""
    if quick:
        yield from list(cases(layernorm, part, test, PUBLIC_MASTER, pinned_only=True))[::3]
        return
    pinned = list(cases(layernorm, part, test, PUBLIC_MASTER, pinned_only=True))
    yield from pinned
    for master in masters:
        yield from list(cases(layernorm, part, test, master))[len(pinned) :]


def _errors(
    layernorm: Assignment,
    part: Part,
    test: str,
    case: Case,
    sessions: Sequence[tuple[Kernels, Session]],
    broken: set[tuple[Kernels, str]],
) -> Iterator[tuple[Kernels, str, float]]:
    """(who, output, largest share of the allowed error) of one case. broken: parts that crashed."""
    inputs = layernorm.inputs(part, case.family, case.dims, case.scale, case.rng(0))
    expected = layernorm.expected(part, case.dims, inputs, layernorm.test(test).bound)
    arguments: list[Buffer | int] = []
    for name in part.arguments:
        if name in case.dims:
            arguments.append(case.dims[name])
            continue
        shape = layernorm.shape(name, case.dims)
        data = None if name in part.outputs else np.ascontiguousarray(inputs[name])
        arguments.append(Buffer(name, shape, data, int(np.prod(shape))))
    for kernels, session in sessions:
        if (kernels.shortcut and test != "base") or f"{part.id}.{test}" in kernels.fails:
            continue
        if (kernels, part.id) in broken:  # a new worker for each case would take for ever
            continue
        answer = session.call(Call(part.launcher, arguments, schedule=0, steps=STEPS))
        for output in part.outputs:
            if isinstance(answer, Fault):
                broken.add((kernels, part.id))
                yield kernels, output, math.inf
            else:
                yield kernels, output, used(answer.outputs[output], expected[output])


def _large(
    layernorm: Assignment, part: Part, gpu: Any, sessions: Sequence[tuple[Kernels, Session]]
) -> Iterator[tuple[Kernels, Case, float]]:
    """The same for large shapes, whose errors are found on the GPU."""
    bound = layernorm.test("general").bound
    for case in large_cases(layernorm, part, "general", PUBLIC_MASTER):
        if case.elements > LARGEST:
            continue
        base = base_case(layernorm, part, case.dims, case.family, bound, case.seed)
        try:
            with Trial(gpu, layernorm, part, case.dims, base, sets=1) as trial:
                for kernels, session in sessions:
                    if kernels.shortcut or kernels.flags:
                        continue
                    session.map(trial.pools)
                    trial.worst = 0.0
                    trial.prepare(case.rng(1))
                    answer = session.batch(part.launcher, [trial.arguments(0)], trial.keep(1))
                    session.map(())
                    wrong = isinstance(answer, Fault) or trial.judge(1) is not None
                    yield kernels, case, math.inf if wrong else trial.worst
        except OutOfMemory:
            continue


# Building ----------------------------------------------------------------------------------------


def _build(
    kernels: Kernels, layernorm: Assignment, box: sandbox.Sandbox, backend: str, gpu: Any
) -> build.Module:
    read = submission.read(kernels.folder, layernorm)
    if backend == "cpu":
        return build.build(read, layernorm, box)
    if not kernels.flags:
        return build.build(read, layernorm, box, backend="cuda", arch=gpu.arch)
    with nvcc_with(kernels.flags):
        return build.build(read, layernorm, box, backend="cuda", arch=gpu.arch)


@contextmanager
def nvcc_with(flags: str) -> Iterator[None]:
    """Builds by an nvcc that always gets these options, from a script in front of the real one."""
    kit = toolkit.find()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "nvcc"
        script.write_text(f'#!/bin/sh\nexec "{kit.nvcc}" {flags} "$@"\n')
        script.chmod(0o755)
        with mock.patch.object(toolkit, "find", lambda: replace(kit, nvcc=script)):
            yield


# What follows ------------------------------------------------------------------------------------


def conclude(records: Sequence[Record]) -> dict[str, Any]:
    """What the records say about the factor K(N) of the bound."""
    right = [r for r in records if not r.shortcut and not r.flags]
    fast = [r for r in records if not r.shortcut and r.flags]
    taken = [r for r in records if r.shortcut]
    worst_right = max((r.used for r in right), default=0.0)
    smallest: dict[str, float] = {}  # per short-cut and part: what its worst output shows in base
    for r in taken:
        key = f"{r.shortcut}, {r.part}"
        smallest[key] = max(smallest.get(key, 0.0), r.used)
    weakest = min(smallest.values(), default=math.inf)
    if worst_right <= HALF:
        sentence = "keep K(N) = 16 + sqrt(N): right kernels stay within half of the bound"
    elif worst_right <= 1 and weakest <= 2:
        sentence = "keep K(N) = 16 + sqrt(N): a bound twice as large would let a short-cut pass"
    elif weakest > 2:
        sentence = "raise K(N) to 32 + 2 sqrt(N): right kernels exceed half of the bound"
    else:
        sentence = "no K(N) serves: right kernels fail, and a larger bound lets a short-cut pass"
    return {
        "right kernels use at most": worst_right,
        "right kernels with --use_fast_math use at most": max((r.used for r in fast), default=0.0),
        "the weakest short-cut shows at": weakest,
        "short-cuts": smallest,
        "so": sentence,
    }


def condensed(records: Sequence[Record]) -> list[Record]:
    """Those that are the worst of their kind, or of their kernels: what the tables are made of."""
    by_kind = _worst(records, ["flags", "shortcut", "part", "test", "family", "size", "output"])
    by_kernels = _worst(records, ["kernels", "flags"])
    return list(dict.fromkeys([*by_kind.values(), *by_kernels.values()]))


def _worst(records: Sequence[Record], keys: Sequence[str]) -> dict[tuple[str, ...], Record]:
    """The record with the largest share for each combination of these fields."""
    worst: dict[tuple[str, ...], Record] = {}
    for record in records:
        key = tuple(str(getattr(record, name)) for name in keys)
        if key not in worst or record.used > worst[key].used:
            worst[key] = record
    return worst


def table(records: Sequence[Record], keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows: values of these fields, the largest share, and who used it; the largest first."""
    ordered = sorted(_worst(records, keys).items(), key=lambda item: -item[1].used)
    return [(*key, f"{record.used:.3f}", record.kernels) for key, record in ordered]


def markdown(report: dict[str, Any]) -> str:
    """The report for people."""
    records = [Record(**record) for record in report["records"]]
    right = [r for r in records if not r.shortcut and not r.flags]
    fast = [r for r in records if not r.shortcut and r.flags]
    taken = [r for r in records if r.shortcut]
    found = report["conclusion"]
    lines = [
        "# Audit of the bound on errors",
        "",
        f"{report['device']}, {report['date']}. Largest error in units of the allowed one, "
        f"K(N) = 16 + sqrt(N); {report['compared']} outputs were compared.",
        "",
        f"- right kernels use at most **{found['right kernels use at most']:.3f}**,",
        "  with `--use_fast_math` at most "
        f"**{found['right kernels with --use_fast_math use at most']:.3f}**",
        f"- the weakest short-cut shows at **{found['the weakest short-cut shows at']:.2f}**",
        f"- so: {found['so']}",
    ]
    lines += _section("By output and test", right, ["part", "output", "test"])
    lines += _section("By family of data", right, ["test", "family"])
    lines += _section("By size (elements)", right, ["size"])
    lines += _section("By kernels", right, ["kernels"])
    lines += _section("With --use_fast_math", fast, ["part", "output", "test"])
    lines += _section("Short-cuts, in `base`", taken, ["shortcut", "part", "output"])
    return "\n".join(lines) + "\n"


def _section(title: str, records: Sequence[Record], keys: list[str]) -> list[str]:
    if not records:
        return []
    head = [*keys, "share of the bound", "used by"]
    rows = [" | ".join(row) for row in table(records, keys)]
    return [
        "",
        f"## {title}",
        "",
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *(f"| {row} |" for row in rows),
    ]


# The command -------------------------------------------------------------------------------------


def run(backend: str, processes: int, quick: bool) -> dict[str, Any]:
    """Audit everything in parallel processes."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        right = right_kernels()
        everything = [*right, *shortcuts(Path(folder))]
        if backend == "cuda":
            everything += [replace(kernels, flags="--use_fast_math") for kernels in right]
        if quick:
            everything = everything[::8]
        groups = [everything[n::processes] for n in range(processes)]
        records: list[Record] = []
        failures: list[str] = []
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            jobs = [
                pool.submit(audit, group, backend, MASTERS, not quick, quick)
                for group in groups
                if group
            ]
            for job in jobs:
                try:
                    records += job.result()
                except Exception as error:
                    failures.append(f"{type(error).__name__}: {error}")
    return {
        "device": choose_target(backend).device,
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "seconds": round(time.monotonic() - began, 1),
        "failures": failures,
        "compared": sum(record.cases for record in records),
        "conclusion": conclude(records),
        "records": [asdict(record) for record in condensed(records)],
    }


def finite(value: Any) -> Any:
    """The same with every infinity as a large number: JSON has none."""
    if isinstance(value, float) and not math.isfinite(value):
        return 1e9
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return value


def write(report: dict[str, Any], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(finite(report), indent=1, allow_nan=False)
    (out / "audit.json").write_text(text + "\n", encoding="utf-8")
    (out / "audit.md").write_text(markdown(finite(report)), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--quick", action="store_true", help="few kernels, few cases: a rehearsal")
    given = parser.parse_args()
    report = run(given.backend, given.processes, given.quick)
    write(report, given.out)
    print(json.dumps(finite({**report, "records": len(report["records"])}), indent=1)[:6000])
    sys.exit(1 if report["failures"] else 0)


if __name__ == "__main__":
    main()
