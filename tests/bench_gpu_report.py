"""What the figures of the benchmark on a GPU mean: goals, comparisons, and the table in Markdown.

Pure functions of what tests/bench_gpu.py measured (and wrote as JSON); no GPU is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

PARTS = ("forward", "dgamma_dbeta", "dinp")
TITLES = ("Forward", "Gradients of gamma and beta", "Gradient of the input")
STREAMS = {"forward": (1, 1), "dgamma_dbeta": (2, 0), "dinp": (2, 1)}  # read, written

# Shape -> the fraction of the memory ceiling that each part shall reach on an H200; None where a
# launch takes longer than the memory, or (1000003) where no kernel here is tuned for the shape.
GOALS: dict[tuple[int, int], tuple[float | None, float | None, float | None]] = {
    (4096, 768): (0.88, 0.70, 0.91),
    (8192, 1024): (0.90, 0.82, 0.93),
    (8192, 4096): (0.91, 0.91, 0.93),
    (16384, 4096): (0.91, 0.91, 0.93),
    (4096, 8192): (0.91, 0.91, 0.93),
    (2048, 16384): (0.91, 0.91, 0.93),
    (1024, 65536): (0.88, 0.92, 0.90),
    (262144, 128): (0.91, 0.91, 0.93),
    (65536, 512): (0.91, 0.91, 0.93),
    (8192, 1023): (0.82, 0.72, 0.90),
    (1, 8192): (None, None, None),
    (16, 4096): (None, None, None),
    (32, 1000003): (None, None, None),
}
NEARLY = 1.03  # the time of the best peer, at most, times this
STRICTLY = 30  # in so many cells the solution shall be faster than every peer
ONLY_REPORTED = {
    ("dgamma_dbeta", 1, 8192),
    ("dgamma_dbeta", 16, 4096),
    *((part, 32, 1000003) for part in PARTS),
}


@dataclass
class Cell:
    """One part on one shape. Times are in microseconds a call; None: not offered or not run."""

    part: str
    rows: int
    hidden_dim: int
    ceiling: float
    probe: str
    solution: float
    error: float
    deterministic: bool
    peers: dict[str, float | None] = field(default_factory=dict)

    @property
    def fraction(self) -> float:
        return self.ceiling / self.solution

    @property
    def goal(self) -> float | None:
        return GOALS[self.rows, self.hidden_dim][PARTS.index(self.part)]

    @property
    def bandwidth(self) -> float:
        """GB/s of the ceiling."""
        return 4e-3 * self.rows * self.hidden_dim * sum(STREAMS[self.part]) / self.ceiling

    @property
    def best_peer(self) -> tuple[str, float] | None:
        times = {name: time for name, time in self.peers.items() if time is not None}
        return min(times.items(), key=lambda item: item[1]) if times else None

    @property
    def ratio(self) -> float | None:
        """Time of the solution / time of the best peer."""
        return self.solution / self.best_peer[1] if self.best_peer else None

    @property
    def reported_only(self) -> bool:
        return (self.part, self.rows, self.hidden_dim) in ONLY_REPORTED

    def missed(self) -> Iterator[str]:
        """The goals that this cell does not meet, in words."""
        name = f"{self.part} {self.rows}x{self.hidden_dim}"
        if not self.deterministic:
            yield f"{name}: not the same bits twice"
        if self.goal is not None and self.fraction < self.goal:
            yield f"{name}: {self.fraction:.3f} of the ceiling, the goal is {self.goal:.2f}"
        if self.ratio is not None and self.ratio > NEARLY and not self.reported_only:
            assert self.best_peer
            yield f"{name}: {self.ratio:.3f} times the best peer ({self.best_peer[0]})"


def cells(data: dict[str, Any]) -> list[Cell]:
    return [Cell(**cell) for cell in data["cells"]]


def missed(data: dict[str, Any]) -> list[str]:
    """Every goal that is not met, in words."""
    found = [line for cell in cells(data) for line in cell.missed()]
    found += [f"wrong: {line}" for line in data["checks"]["wrong"]]
    compared = [cell for cell in cells(data) if cell.ratio is not None]
    if compared and faster(data) < STRICTLY:
        found.append(f"faster than every peer in {faster(data)} cells only; goal {STRICTLY}")
    return found


def faster(data: dict[str, Any]) -> int:
    """In how many cells the solution is faster than every peer."""
    return sum(cell.ratio is not None and cell.ratio < 1 for cell in cells(data))


def markdown(data: dict[str, Any]) -> str:
    """The report."""
    lines = [
        "# LayerNorm on a GPU",
        "",
        "Written by `tests/bench_gpu.py` from `bench.json` beside it: "
        f"{data['card']}, driver {data['driver']}, {data['date']}, "
        f"`{data['command']}`, {data['seconds']:.0f} s.",
        "",
        f"Versions: {', '.join(f'{name} {said}' for name, said in data['versions'].items())}.",
        "",
        data["method"],
        "",
    ]
    names = list(data["peers"])
    for part, title in zip(PARTS, TITLES, strict=True):
        lines += [f"## {title}", "", *_table(data, part, names), ""]
    lines += ["Peers:", "", *(f"- {name}: {said}" for name, said in data["peers"].items()), ""]
    compared = sum(cell.ratio is not None for cell in cells(data))
    lines += [
        "## Goals",
        "",
        f"Faster than every peer in {faster(data)} of {compared} cells (goal: {STRICTLY}).",
        f"Besides these, {data['checks']['shapes']} awkward shapes are compared with float64: "
        f"worst relative error {data['checks']['worst_error']:.1e}.",
        "",
    ]
    unmet = missed(data)
    lines += ["All goals are met." if not unmet else "Not met:", ""]
    lines += [f"- {line}" for line in unmet]
    return "\n".join(lines).rstrip() + "\n"


def _table(data: dict[str, Any], part: str, names: list[str]) -> Iterator[str]:
    head = ["shape", "ceiling, us (GB/s)", "solution, us", "of the ceiling", "goal", *names]
    head += ["solution / best peer", "met"]
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for cell in cells(data):
        if cell.part != part:
            continue
        best = cell.best_peer[0] if cell.best_peer else None
        row = [
            f"{cell.rows}x{cell.hidden_dim}",
            f"{cell.ceiling:.2f} ({cell.bandwidth:.0f})",
            f"**{cell.solution:.2f}**",
            f"{cell.fraction:.3f}",
            "-" if cell.goal is None else f"{cell.goal:.2f}",
            *(_time(cell.peers.get(name), name == best) for name in names),
            "-" if cell.ratio is None else f"{cell.ratio:.3f}",
            _mark(cell),
        ]
        yield f"| {' | '.join(row)} |"


def _time(microseconds: float | None, best: bool) -> str:
    if microseconds is None:
        return "-"
    return f"_{microseconds:.2f}_" if best else f"{microseconds:.2f}"


def _mark(cell: Cell) -> str:
    if any(cell.missed()):
        return "missed"
    return "only reported" if cell.reported_only and cell.goal is None else "met"
