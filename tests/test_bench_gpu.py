"""The report of the benchmark on a GPU says what was measured and which goals are met."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.bench_gpu_report import GOALS, PARTS, STRICTLY, Cell, faster, markdown, missed


def cell(part: str = "forward", shape: tuple[int, int] = (8192, 4096), **changed: Any) -> Cell:
    values: dict[str, Any] = {
        "ceiling": 64.0, "probe": "UNROLL=1 HINT=1", "solution": 66.0, "error": 1e-7,
        "deterministic": True, "peers": {"PyTorch": 94.0, "torch.compile": 67.0, "Liger": None},
    }  # fmt: skip
    return Cell(part, *shape, **{**values, **changed})


def data(*cells: Cell, wrong: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "card": "NVIDIA X1", "driver": "1.2", "date": "2030-01-01 00:00 UTC",
        "command": "python tests/bench_gpu.py", "seconds": 7.4, "versions": {"nvcc": "13.0"},
        "method": "By stopwatch.", "peers": {"PyTorch": "torch 2", "Liger": "not installed (x)"},
        "checks": {"shapes": 3, "worst_error": 2e-7, "wrong": list(wrong)},
        "cells": [asdict(each) for each in cells],
    }  # fmt: skip


def everything(**changed: Any) -> list[Cell]:
    return [cell(part, shape, **changed) for part in PARTS for shape in GOALS]


def test_a_cell_compares_with_the_ceiling_and_with_the_best_peer() -> None:
    made = cell()
    assert made.fraction == pytest.approx(64 / 66)
    assert made.goal == 0.91
    assert made.best_peer == ("torch.compile", 67.0)
    assert made.ratio == pytest.approx(66 / 67)
    assert made.bandwidth == pytest.approx(8192 * 4096 * 8 / 64e-6 / 1e9)
    assert list(made.missed()) == []


def test_a_part_moves_its_own_streams() -> None:
    forward, sums, dinp = (cell(part).bandwidth for part in PARTS)
    assert sums == pytest.approx(forward)
    assert dinp == pytest.approx(1.5 * forward)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"solution": 71.0, "peers": {}}, "forward 8192x4096: 0.901 of the ceiling, the goal is"),
        ({"peers": {"quack": 64.0}}, "forward 8192x4096: 1.031 times the best peer (quack)"),
        ({"deterministic": False}, "forward 8192x4096: not the same bits twice"),
    ],
)
def test_what_is_missed_is_said(changed: dict[str, Any], said: str) -> None:
    (line,) = cell(**changed).missed()
    assert line.startswith(said)
    assert "| missed |" in markdown(data(cell(**changed)))
    assert f"- {line}" in markdown(data(cell(**changed)))


def test_a_peer_may_be_a_little_faster() -> None:
    assert list(cell(peers={"quack": 65.0}).missed()) == []
    assert not list(cell("dgamma_dbeta", (1, 8192), peers={"quack": 1.0}).missed())


def test_without_a_peer_nothing_is_compared() -> None:
    made = cell(peers={"Liger": None})
    assert (made.best_peer, made.ratio) == (None, None)
    assert missed(data(made)) == []


def test_enough_cells_must_be_faster_than_every_peer() -> None:
    slower = [cell(part, shape, peers={"x": 65.9}) for part in PARTS for shape in GOALS]
    assert missed(data(*everything())) == []
    assert faster(data(*everything())) == len(PARTS) * len(GOALS)
    assert missed(data(*everything()[: STRICTLY - 1], *slower[STRICTLY - 1 :])) == [
        f"faster than every peer in {STRICTLY - 1} cells only; goal {STRICTLY}"
    ]


def test_what_is_wrong_is_missed() -> None:
    assert missed(data(wrong=("dinp 3x5: 1e-2",))) == ["wrong: dinp 3x5: 1e-2"]


def test_the_report_holds_every_figure() -> None:
    text = markdown(json.loads(json.dumps(data(*everything()))))
    assert text.count("| 8192x4096 | 64.00 (") == len(PARTS)
    assert "| **66.00** | 0.970 | 0.91 | 94.00 | - | 0.985 | met |" in text
    assert "NVIDIA X1, driver 1.2, 2030-01-01 00:00 UTC, `python tests/bench_gpu.py`, 7 s" in text
    assert "- Liger: not installed (x)" in text
    assert "All goals are met." in text
    assert text.count("| only reported |") == 5


def test_without_pytorch_one_sentence_says_so(root: Path) -> None:
    without = "import sys; sys.modules['torch'] = None; sys.argv = ['bench_gpu.py']; import runpy; "
    script = f"{without}runpy.run_path('tests/bench_gpu.py', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "bench_gpu: PyTorch is missing: pip install torch (with CUDA)\n"
