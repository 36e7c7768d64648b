"""How well the model does: a page and a plot, from predictions that left each kernel out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from grader import timing
from grader.manifest import Slope
from tests.calibration import kernels
from tests.calibration.fit_data import Array, Data

COLOURS = {"forward": "#1f77b4", "dgamma_dbeta": "#d62728", "dinp": "#2ca02c"}
POINTS = 2.0  # that nobody may lose


def write(data: Data, predicted: Array, folder: Path) -> None:
    (folder / "model.md").write_text(page(data, predicted), encoding="utf-8")
    (folder / "model.svg").write_text(plot(data, predicted), encoding="utf-8")


# Figures -----------------------------------------------------------------------------------------


def spearman(a: Array, b: Array) -> float:
    """Rank correlation."""
    ranks = [np.argsort(np.argsort(values)).astype(np.float64) for values in (a, b)]
    first, second = (rank - rank.mean() for rank in ranks)
    return float(first @ second / np.sqrt((first @ first) * (second @ second)))


def fractions(data: Data, times: Array) -> Array:
    """Of the memory ceiling."""
    found: Array = np.minimum(1.0, data.ceilings / times)
    return found


def marks(fraction: float, slope: Slope, points: float) -> tuple[float, str]:
    """Points, and whether they are none, some or all."""
    earned = timing.marks(fraction, slope, points)
    return earned, "zero" if earned == 0 else "full" if earned == points else "partial"


def figures(data: Data, predicted: Array) -> dict[str, dict[str, float]]:
    """Per part: rank correlation of the fractions, median and 90th percentile of the error of the
    time (its ratio, whichever way, less 1)."""
    found: dict[str, dict[str, float]] = {}
    for part in kernels.ALL:
        rows = data.where(part=part)
        error = np.exp(np.abs(np.log(predicted[rows] / data.measured[rows]))) - 1
        modelled, measured = data.ceilings[rows] / predicted[rows], data.ceilings[rows]
        found[part] = {
            "kernels": len({key[0] for key in data.keys if key[1] == part}),
            "rank correlation": spearman(modelled, measured / data.measured[rows]),
            "median error": float(np.median(error)),
            "90 % below": float(np.percentile(error, 90)),
        }
    return found


def agreement(data: Data, predicted: Array) -> tuple[float, list[tuple[str, str, float, float]]]:
    """Of all (kernel, shape): the share whose marks are none, some or all on both backends; and
    what each kernel earns over the scored shapes: (submission, part, measured, modelled), in
    points."""
    test = kernels.assignment().test("speed")
    modelled, measured = fractions(data, predicted), fractions(data, data.measured)
    same = []
    earned = []
    for part in kernels.assignment().parts:
        points = float(part.points["speed"])
        cpu, cuda = test.marks["cpu"][part.id], test.marks["cuda"][part.id]
        for name in data.submissions():
            rows = np.flatnonzero(data.where(submission=name, part=part.id))
            for row in rows:
                on_gpu = marks(float(measured[row]), cuda, points)[1]
                same.append(on_gpu == marks(float(modelled[row]), cpu, points)[1])
            scored = [row for row in rows if data.keys[row][2] in SCORED]
            if scored:
                real = marks(float(np.exp(np.log(measured[scored]).mean())), cuda, points)[0]
                made = marks(float(np.exp(np.log(modelled[scored]).mean())), cpu, points)[0]
                earned.append((name, part.id, real, made))
    return float(np.mean(same)), earned


SCORED = {
    f"{shape['rows']}x{shape['hidden_dim']}" for shape in kernels.assignment().test("speed").shapes
}


# The page ----------------------------------------------------------------------------------------


def page(data: Data, predicted: Array) -> str:
    share, earned = agreement(data, predicted)
    robbed = [row for row in earned if row[2] - row[3] > POINTS]
    lines = [
        "# The model of time against an H200",
        "",
        "Every figure is of kernels that the constants were not fitted to: one kernel at a time was"
        " left out, with all its shapes, and modelled by constants fitted to the others. Times are"
        " those of `times.json`; counts come from the emulator. Written by"
        " `python -m tests.calibration.fit`.",
        "",
        "![modelled against measured fraction of the ceiling](model.svg)",
        "",
        *_table(
            ("part", "kernels", "rank correlation", "median error of the time", "90 % are below"),
            (
                (
                    part,
                    f"{row['kernels']:.0f}",
                    f"{row['rank correlation']:.3f}",
                    f"{row['median error']:.0%}",
                    f"{row['90 % below']:.0%}",
                )
                for part, row in figures(data, predicted).items()
            ),
        ),
        "",
        f"Marks for speed are none, some or all of them on both backends in {share:.0%} of all"
        f" (kernel, shape). Kernels that lose more than {POINTS:g} points by being modelled:"
        f" {', '.join(f'{name} {part}' for name, part, *_ in robbed) or 'none'}.",
        "",
        "## Marks over the scored shapes",
        "",
        *_table(
            ("kernel", "part", "measured", "modelled"),
            (
                (name, part, f"{real:g}", f"{made:g}")
                for name, part, real, made in sorted(earned, key=lambda row: (row[1], -row[2]))
            ),
        ),
        "",
        "## Modelled / measured time",
        "",
        *_ratios(data, predicted),
    ]
    return "\n".join(lines) + "\n"


def _ratios(data: Data, predicted: Array) -> Iterable[str]:
    shapes = list(dict.fromkeys(key[2] for key in data.keys))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for key, made, real in zip(data.keys, predicted, data.measured, strict=True):
        rows.setdefault((key[1], key[0]), {})[key[2]] = f"{made / real:.2f}"
    yield from _table(
        ("part", "kernel", *shapes),
        (
            (*names, *(row.get(shape, "") for shape in shapes))
            for names, row in sorted(rows.items())
        ),
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterable[str]:
    head = list(head)
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(row)} |"


# The plot ----------------------------------------------------------------------------------------

SIZE, MARGIN, LEAST = 480, 46, 1e-3


def plot(data: Data, predicted: Array) -> str:
    """Modelled against measured fraction of the ceiling, both logarithmic."""
    marks_of: Mapping[str, list[str]] = {part: [] for part in kernels.ALL}
    for key, real, made in zip(
        data.keys, fractions(data, data.measured), fractions(data, predicted), strict=True
    ):
        title = f"{' '.join(key)}: measured {real:.3f}, modelled {made:.3f}"
        marks_of[key[1]].append(
            f'<circle cx="{_at(real):.1f}" cy="{SIZE - _at(made):.1f}" r="3">'
            f"<title>{title}</title></circle>"
        )
    ticks = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
    grid = [
        f'<path d="M{_at(tick):.1f} {SIZE - MARGIN}V{SIZE - _at(1):.1f}'
        f'M{MARGIN} {SIZE - _at(tick):.1f}H{_at(1):.1f}" stroke="#ddd"/>'
        f'<text x="{_at(tick):.1f}" y="{SIZE - MARGIN + 14}" text-anchor="middle">{tick:g}</text>'
        f'<text x="{MARGIN - 6}" y="{SIZE - _at(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in ticks
    ]
    legend = [
        f'<text x="{MARGIN + 12}" y="{40 + 16 * number}" fill="{COLOURS[part]}">{part}</text>'
        for number, part in enumerate(kernels.ALL)
    ]
    points = [
        f'<g fill="{COLOURS[part]}" fill-opacity="0.6">{"".join(found)}</g>'
        for part, found in marks_of.items()
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" '
            'font-family="sans-serif" font-size="11">',
            f'<rect width="{SIZE}" height="{SIZE}" fill="white"/>',
            *grid,
            f'<path d="M{_at(LEAST):.1f} {SIZE - _at(LEAST):.1f}L{_at(1):.1f} {SIZE - _at(1):.1f}" '
            'stroke="#888"/>',
            *points,
            *legend,
            f'<text x="{SIZE / 2}" y="{SIZE - 8}" text-anchor="middle">'
            "measured fraction of the memory ceiling</text>",
            f'<text transform="translate(12 {SIZE / 2}) rotate(-90)" text-anchor="middle">'
            "modelled</text>",
            "</svg>",
            "",
        ]
    )


def _at(fraction: float) -> float:
    """Distance from the left, or from below."""
    share = np.log(max(fraction, LEAST) / LEAST) / np.log(1 / LEAST)
    return float(MARGIN + share * (SIZE - 2 * MARGIN))
