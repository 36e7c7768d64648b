"""The emulator's counters beside those of the hardware, read by ncu: a page of ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from grader import machine
from grader.counters import Counters
from tests.calibration.fit_data import moved
from tests.calibration.kernels import assignment

CLOSE, NEAR = 0.05, 0.25
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}"
# Title -> counters of ours, and metrics of ncu, that are summed over the launches of a call.
REQUESTS = {
    "loads": (("global_load_requests",), (GLOBAL.format("requests", "ld"),)),
    "stores": (("global_store_requests",), (GLOBAL.format("requests", "st"),)),
    "atomics": (
        ("global_atomic_requests",),
        (GLOBAL.format("requests", "red"), GLOBAL.format("requests", "atom")),
    ),
}
SECTORS = {
    "load sectors": (("global_load_sectors",), (GLOBAL.format("sectors", "ld"),)),
    "store sectors": (("global_store_sectors",), (GLOBAL.format("sectors", "st"),)),
}
# ncu makes the caches cold before every kernel, so these are compared for calls of one kernel only;
# and writes where the output is larger than L2, else most of them stay there.
MEMORY = {
    "memory read": (("dram_read_sectors",), ("dram__sectors_read",)),
    "memory written": (("dram_write_sectors",), ("dram__sectors_write",)),
}
Row = dict[str, float | None]


def rows(counted: Mapping[str, Any], measured: Sequence[Mapping[str, Any]]) -> dict[str, Row]:
    """Emulator / hardware, by "submission part shape"; None where there is nothing to compare."""
    found: dict[str, Row] = {}
    for one in measured:
        shape = f"{one['rows']}x{one['hidden_dim']}"
        key = f"{one['submission']} {one['part']} {shape}"
        if key not in counted:
            continue
        call = msgspec.convert(counted[key], Counters)
        row: Row = {}
        for title, (ours, theirs) in {**REQUESTS, **SECTORS, **MEMORY}.items():
            real = sum(
                float(kernel["metrics"].get(f"{metric}.sum", 0))
                for kernel in one["kernels"]
                for metric in theirs
            )
            made = sum(launch.counters[name] for launch in call.launches for name in ours)
            row[title] = made / real if real else None
        written = moved(assignment(), one["part"], shape)[1]
        if len(one["kernels"]) > 1:
            row["memory read"] = row["memory written"] = None
        if written < machine.load().limits.l2_bytes:
            row["memory written"] = None
        found[key] = row
    return found


def page(found: Mapping[str, Row]) -> str:
    titles = [*REQUESTS, *SECTORS, *MEMORY]
    lines = [
        "# The emulator's counters against ncu",
        "",
        "Emulator / hardware, of `counters.json` (H200). Memory traffic is compared for calls of"
        " one kernel, because ncu makes the caches cold before each; written memory where the"
        " output is larger than L2. Written by `python -m tests.calibration.fit`.",
        "",
        *(_summary(title, found) for title in titles),
        "",
        f"| kernel, part, shape | {' | '.join(titles)} |",
        "|---|" + "---|" * len(titles),
    ]
    for key, row in found.items():
        cells = ["" if (ratio := row[title]) is None else f"{ratio:.3f}" for title in titles]
        lines.append(f"| {key} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _summary(title: str, found: Mapping[str, Row]) -> str:
    allowed = NEAR if title in MEMORY else CLOSE
    ratios = {key: ratio for key, row in found.items() if (ratio := row[title]) is not None}
    exact = sum(round(ratio, 3) == 1 for ratio in ratios.values())
    outside = [key for key, ratio in ratios.items() if abs(ratio - 1) > allowed]
    text = (
        f"- {title}: {exact} of {len(ratios)} equal, {len(ratios) - len(outside)} within "
        f"{allowed:.0%}"
    )
    return text + (f"; outside: {', '.join(outside)}" if outside else "")


def write(counted: Mapping[str, Any], measured: Sequence[Mapping[str, Any]], folder: Path) -> None:
    text = page(rows(counted, measured))
    (folder / "counters.md").write_text(text, encoding="utf-8")
