"""The results as text for people: accept.md and a short summary, made from the JSON alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grader import timing
from grader.assignment import Assignment
from tests.gpu import timings, verdicts

GOAL = 2.0  # points of 100 by which repeated measurements of one submission may differ
Row = dict[str, Any]


def rows(results: dict[str, Row]) -> list[Row]:
    """One judged row for every submission that was graded."""
    graded = results["grading"].get("verdicts", {})
    timed = results["speed"].get("hostile", {})
    found = []
    for expect in verdicts.everything():
        seen = graded.get(expect.name)
        if seen is None:
            continue
        part = expect.parts[0] if expect.parts else ""
        hostile = expect.folder.parent.name == "hostile"
        speed = timed.get(expect.name, {}) if hostile else {}
        twin = timed.get(expect.twin, {}).get(part)
        found.append(verdicts.judge(expect, seen.get("cpu"), seen.get("cuda"), speed, twin))
    return found


def page(results: dict[str, Row]) -> str:
    """accept.md."""
    lines = ["# Acceptance on a GPU", ""]
    lines += _machine(results["accept"])
    lines += _grading(rows(results))
    lines += _repeats(results["speed"].get("repeats"))
    lines += _classics(results["speed"].get("classics"))
    lines += _sanitizer(results["accept"].get("sanitizer"))
    lines += _steps(results["accept"].get("steps", {}))
    return "\n".join(lines) + "\n"


def summary(results: dict[str, Row]) -> str:
    """The same in few words: what is wrong, and the numbers that matter."""
    judged = rows(results)
    problems = [f"{row['name']}: {'; '.join(row['problems'])}" for row in judged if row["problems"]]
    lines = [f"{len(judged) - len(problems)} of {len(judged)} submissions as expected"]
    lines += [line[:260] for line in problems]
    for name, found in results["speed"].get("hostile", {}).items():
        for part, row in found.items():
            said = row.get("message", row.get("error", ""))[:90]
            reached = f"{verdicts.outcome(row)} {row.get('fraction') or ''}"
            lines.append(f"  {name} {part}: {reached} {row.get('seconds', '')} s | {said}")
    repeated = results["speed"].get("repeats")
    if repeated:
        lines.append(
            f"totals {repeated['totals']}, spread {repeated['spread_of_total']} (goal {GOAL})"
        )
    for title, parts in results["speed"].get("classics", {}).items():
        lines.append(f"  {title}: " + ", ".join(f"{p} {_reached(r)}" for p, r in parts.items()))
    for key in ("audit", "sanitizer", "compiled", "bench"):
        if key in results["accept"]:
            lines.append(f"{key}: {str(results['accept'][key])[:700]}")
    return "\n".join(lines)


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    return [
        f"| {' | '.join(head)} |",
        "|" + "---|" * len(head),
        *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in body),
        "",
    ]


def _machine(accept: Row) -> list[str]:
    machine = accept.get("machine")
    if not machine:
        return []
    return [
        f"{machine['device']}; {machine['host']}; commit {machine['commit']}.",
        "",
        f"Command: `{accept.get('command', '')}`",
        "",
        "```text",
        machine["card"],
        "",
        machine["doctor"],
        "```",
        "",
    ]


def _grading(judged: list[Row]) -> list[str]:
    if not judged:
        return []
    good = sum(not row["problems"] for row in judged)
    body = [
        (
            row["name"], row["why"], row["cpu"], row["cuda"],
            ", ".join(f"{part} {what}" for part, what in row["speed"].items()),
            "; ".join(row["problems"]) if row["problems"] else row["difference"] or "as expected",
        )
        for row in judged
    ]  # fmt: skip
    return [
        "## Verdicts on both backends",
        "",
        f"{good} of {len(judged)} submissions are graded as expected. The columns say which tests "
        "failed; large shapes were run where a submission needs them, and for right kernels.",
        "",
        *_table(("submission", "what about it", "cpu: failed", "cuda: failed", "speed", ""), body),
    ]


def _repeats(found: Row | None) -> list[str]:
    if not found or found["spread_of_total"] is None:
        return []
    body = [
        (
            part,
            " ".join(f"{mark:g}" for mark in row["marks"]),
            f"{row['spread_of_marks']:g}",
            f"{min(row['fractions']):.4f} to {max(row['fractions']):.4f}",
            f"{100 * row['relative_spread_of_fractions']:.2f} %",
        )
        for part, row in found["parts"].items()
    ]
    met = "met" if found["spread_of_total"] <= GOAL else "missed"
    return [
        "## The same submission, timed again and again",
        "",
        f"{found['repeats']} measurements of {timings.REPEATED}. Their marks for speed are within "
        f"{found['spread_of_total']:g} of 100 points (goal {GOAL:g}: {met}).",
        "",
        *_table(("part", "marks", "spread", "fraction of the ceiling", "relative"), body),
    ]


def _classics(found: Row | None) -> list[str]:
    if not found:
        return []
    parts = list(dict.fromkeys(part for row in found.values() for part in row))
    body = [
        (title, *(_reached(row[part]) if part in row else "" for part in parts))
        for title, row in found.items()
    ]
    lines = [
        "## What kernels of the classic exercise reach",
        "",
        "Fraction of the memory ceiling, geometric mean over the timed shapes; marks for speed.",
        "",
        *_table(("kernels", *parts), body),
    ]
    for part in parts:
        timed = {
            title: row[part] for title, row in found.items() if row.get(part, {}).get("shapes")
        }
        if not timed:
            continue
        shapes = [one["shape"] for one in next(iter(timed.values()))["shapes"]]
        detail = [
            (title, *(f"{one['fraction']:.3f}" for one in row["shapes"]))
            for title, row in timed.items()
        ]
        lines += [f"### {part}, by shape", "", *_table(("kernels", *shapes), detail)]
    return lines


def _reached(row: Row) -> str:
    if row.get("fraction") is None:
        return str(row.get("error", verdicts.outcome(row)))
    if row.get("verdict") == "withheld":
        return f"{row['fraction']:.3f} (withheld)"
    return f"{row['fraction']:.3f} ({row['score']:g} of {row['max_score']:g})"


def _sanitizer(found: Row | None) -> list[str]:
    if not found:
        return []
    lines = ["## compute-sanitizer on the solution", ""]
    for tool, row in found.items():
        said = row if isinstance(row, str) else "; ".join(row["says"])
        lines.append(f"- {tool}: {said}")
    return [*lines, ""]


def _steps(steps: Row) -> list[str]:
    body = [
        (name, f"{row['seconds']:.0f} s", row["date"], "failed" if row["error"] else "done")
        for name, row in steps.items()
    ]
    return ["## Steps", "", *_table(("step", "time", "when", ""), body)] if body else []


def handout(results: dict[str, Row], assignment: Assignment) -> str:
    """The table of a handout: what kernels reach, and the marks for speed that it earns."""
    parts = {part.id: part for part in assignment.parts}
    slopes = assignment.test("speed").marks["cuda"]

    def cell(part: str, row: Row) -> str:
        if part not in row or row[part].get("fraction") is None:
            return ""
        fraction, points = row[part]["fraction"], float(parts[part].points["speed"])
        return f"{fraction:.2f}: {timing.marks(fraction, slopes[part], points):g} of {points:g}"

    found = results["speed"]["classics"]
    body = [(title, *(cell(part, row) for part in parts)) for title, row in found.items()]
    return "\n".join(_table(("kernels", *(f"`{part}`" for part in parts)), body)).rstrip()
