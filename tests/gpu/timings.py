"""Times parts of submissions with the grader's own speed test, alone on the GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import grader
from grader import build, sandbox, stopwatch, submission
from grader.cases import PUBLIC_MASTER
from grader.errors import InfrastructureError
from grader.session import Session
from grader.speed import SpeedTest
from grader.target import choose as choose_target
from tests.expectations import SUBMISSIONS

ROOT = Path(__file__).resolve().parents[2]
ASSIGNMENT = "layernorm"
TEST = "speed"

# What kernels of the classic exercise earn: the table of the handout, slowest first.
CLASSICS: dict[str, str] = {
    "one thread per row or column": "odd/thread_per_row",
    "one warp per row": "odd/warp_per_row",
    "one block per row, two passes": "classic/block_per_row_two_pass",
    "one block per row, E[x^2] - E[x]^2": "classic/block_per_row_one_pass",
    "the starter's layout: float4 loops, 32 x 32 tile": "odd/starter_layout_float4",
    "rows split, atomicAdd": "classic/rows_split_with_atomics",
    "rows split, partial sums in two stages": "classic/two_stage_partials",
    "float4 kept in registers": "classic/float4_in_registers",
    "the solution": "solution",
}

Row = dict[str, Any]


def folder_of(name: str) -> Path:
    """The folder of a submission by its short name."""
    if name in ("solution", "starter"):
        return ROOT / name / ASSIGNMENT
    return SUBMISSIONS / ASSIGNMENT / name


def time_part(name: str, part_id: str, master: bytes = PUBLIC_MASTER, seconds: float = 0.0) -> Row:
    """The speed test of one part, nothing else. seconds: the most for a shape, if not the usual.

    Raises InfrastructureError without a GPU, and BuildFailed.
    """
    began = time.monotonic()
    target = choose_target("cuda")
    if target.gpu is None:
        raise InfrastructureError("timing needs a GPU")
    assignment = grader.assignment(ASSIGNMENT)
    part = assignment.part(part_id)
    box = sandbox.choose()
    read = submission.read(folder_of(name), assignment)
    module = build.build(read, assignment, box, backend="cuda", arch=target.gpu.arch)
    patience = mock.patch.object(stopwatch, "SHAPE_SECONDS", seconds or stopwatch.SHAPE_SECONDS)
    with patience, Session(module, box) as session:
        speed = SpeedTest(target.gpu, assignment, part, session, master, lambda _: None, [])
        test, timing = speed.run(TEST)
    row: Row = {
        "name": name,
        "part": part_id,
        "passed": test.passed,
        "score": test.score,
        "max_score": test.max_score,
        "message": test.message[:400],
        "fraction": None,
        "seconds": round(time.monotonic() - began, 2),
    }
    if timing is not None:
        row.update(
            fraction=timing.fraction,
            low=timing.low,
            high=timing.high,
            verdict=timing.verdict,
            shapes=[
                {
                    "shape": " x ".join(map(str, case.dims.values())),
                    "fraction": case.fraction,
                    "time_us": case.time_us,
                    "ceiling_us": case.ceiling_us,
                    "samples": case.samples,
                }
                for case in timing.cases
            ],
        )
    return row


def spread(repeats: Sequence[Mapping[str, Row]]) -> Row:
    """How much marks for speed differ between measurements of one submission.

    repeats: one mapping part -> row for each time. Marks are in points of the whole assignment.
    """
    parts: Row = {}
    for part in repeats[0]:
        rows = [one[part] for one in repeats if one[part].get("fraction") is not None]
        fractions = [row["fraction"] for row in rows]
        marks = [row["score"] for row in rows]
        parts[part] = {
            "marks": marks,
            "fractions": fractions,
            "spread_of_marks": round(max(marks) - min(marks), 3) if marks else None,
            "relative_spread_of_fractions": (
                round((max(fractions) - min(fractions)) / statistics.median(fractions), 5)
                if fractions
                else None
            ),
        }
    complete = [
        sum(row["score"] for row in one.values())
        for one in repeats
        if all(row.get("fraction") is not None for row in one.values())
    ]
    return {
        "repeats": len(repeats),
        "complete": len(complete),
        "totals": [round(total, 1) for total in complete],
        "spread_of_total": round(max(complete) - min(complete), 3) if complete else None,
        "parts": parts,
    }
