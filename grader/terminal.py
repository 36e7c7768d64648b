"""How a score looks on a terminal: a table, then each failure in its own paragraph."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from grader import quote
from grader.findings import sentence
from grader.score import PartResult, Score, TestResult

WIDTH = 100
PARTLY = ("part", "yellow")
COLOURS = {"error": "red", "warning": "yellow", "advice": "cyan"}
MARKS = {True: ("pass", "green"), False: ("FAIL", "red"), None: ("-", "yellow")}


def show(score: Score, arguments: str, folder: Path | None = None) -> str:
    """The whole score as text; click drops the colours where they do not belong.

    arguments: what to add to a `grader repro` line, as the user named it.
    folder: the submission, to show the lines of source that messages speak of.
    """
    lines = [f"{score.assignment.title}: {score.submission.id}", ""]
    if score.status != "graded":
        lines += [click.style(HEADLINES[score.status], fg="red", bold=True), *_wrap(score.message)]
    else:
        lines += _table(score)
        if score.message:
            lines += ["", *_wrap(score.message)]
        explained: set[str] = set()
        lines += _paragraphs(score, arguments, folder, explained)
        lines += _findings(score, folder, explained)
        lines += _left_out(score)
        lines += _speed(score)
    if score.score is not None:
        lines += [
            "",
            click.style(f"Score: {_number(score.score)} of {_number(score.max_score)}", bold=True),
        ]
        note = _unscored(score)
        if note:
            lines += [note]
    if score.needs_review:
        lines += [click.style(REVIEW, fg="yellow")]
    lines += [f"Note: {note}" for note in score.environment.notes]
    return "\n".join(lines)


REVIEW = "Marks are withheld: `grader review` accepts or denies them."
HEADLINES = {
    "build_failed": "The submission does not build.",
    "rejected": "The submission cannot be graded.",
    "infrastructure_error": "This machine could not grade it (the submission is not at fault).",
}


def _table(score: Score) -> Iterator[str]:
    width = max(len(test.id) for _, test in score.tests())
    for part in score.parts:
        yield f"{part.title:<{width + 24}}{_points(part.score, part.max_score)}"
        for test in part.tests:
            mark, colour = MARKS[test.passed]
            if test.passed and test.score < test.max_score:
                mark, colour = PARTLY
            tried = len(test.cases)
            count = f"{tried} case{'s' if tried > 1 else ''}" if tried else ""
            name = f"  {test.id:<{width}}  {click.style(f'{mark:<4}', fg=colour)}  {count:<10}"
            yield f"{name:<{width + 24}}    {_points(test.score, test.max_score)}"


def _points(score: float, maximum: float) -> str:
    return f"{_number(score):>6} / {_number(maximum)}"


def _number(value: float) -> str:
    return f"{value:g}"


def _paragraphs(
    score: Score, arguments: str, folder: Path | None, explained: set[str]
) -> Iterator[str]:
    """Why each failed test failed, and how to see it again."""
    for part, test in score.tests():
        if test.passed is False:
            yield ""
            yield click.style(f"{part.title}, {test.id}", bold=True) + f" ({test.title})"
            yield from _wrap(test.message)
            yield from _quoted(test.message, folder)
            yield from _explanation(_rationale(score, part, test), explained)
            if test.failure is not None:
                yield f"  run it alone: {test.failure.repro} {arguments}".rstrip()


def _findings(score: Score, folder: Path | None, explained: set[str]) -> Iterator[str]:
    """What was seen beside the failures: other errors of the same calls, warnings, advice."""
    told = [test.message for _, test in score.tests() if test.passed is False]
    seen: set[tuple[str, str, int | None]] = set()
    for finding in score.findings:
        place = (finding.kind, finding.message, finding.line)
        if place in seen or any(finding.message in message for message in told):
            continue
        seen.add(place)
        yield ""
        colour = COLOURS[finding.severity]
        times = f" ({finding.count} times)" if finding.count > 1 else ""
        yield click.style(f"{finding.severity.capitalize()}", fg=colour, bold=True) + times
        yield from _wrap(sentence(finding))
        yield from _quoted(sentence(finding), folder)
        yield from _explanation(finding.rationale, explained)


def _explanation(rationale: str, explained: set[str]) -> Iterator[str]:
    """Why a kind of finding is a fault: at the first one, for the next say nothing new."""
    if rationale and rationale not in explained:
        explained.add(rationale)
        yield from _wrap(rationale)


def _quoted(message: str, folder: Path | None) -> Iterator[str]:
    for line in quote.lines(message, folder):
        yield f"    {line}"


def _left_out(score: Score) -> Iterator[str]:
    """What was not run, or only in part, although nothing failed; and why."""
    for part, test in score.tests():
        silent = test.passed is False or test.message.startswith(
            ("not scored", "not run: it needs")
        )
        told = part.timing is not None and part.timing.test == test.id
        if test.message and not silent and not told:
            yield from _wrap(f"{part.title}, {test.id}: {test.message}")


def _speed(score: Score) -> Iterator[str]:
    """How fast each part is, shape by shape, and what its kernels take of the GPU."""
    for part in score.parts:
        timing = part.timing
        if timing is None:
            continue
        yield ""
        doubt = "" if timing.verdict == "scored" else f" ({timing.verdict})"
        yield click.style(f"{part.title}: speed{doubt}", bold=True)
        yield from _wrap(next(test.message for test in part.tests if test.id == timing.test))
        for case in timing.cases:
            sizes = " x ".join(map(str, case.dims.values()))
            yield (
                f"  {sizes:<16} {case.time_us:9.1f} us, memory ceiling {case.ceiling_us:9.1f} us"
                f"  {case.fraction:.3f}"
            )
        for kernel in timing.kernels:
            spilled = f", {kernel.spill_bytes} bytes spilled" if kernel.spill_bytes else ""
            yield from _wrap(
                f"{kernel.name}: {kernel.threads} threads a block, {kernel.registers} registers"
                f"{spilled}, {kernel.shared_bytes} bytes of shared memory, "
                f"occupancy {kernel.occupancy:.0%}"
            )


def _rationale(score: Score, part: PartResult, test: TestResult) -> str:
    """Of the finding that a failed test tells."""
    for finding in score.findings:
        if finding.part == part.id and finding.message in test.message and finding.rationale:
            return finding.rationale
    return ""


def _unscored(score: Score) -> str:
    """The points that no test could give, and why."""
    speed = [test for _, test in score.tests() if test.message.startswith("not scored")]
    if not speed:
        return ""
    lost = sum(test.max_score for test in speed)
    return f"({_number(lost)} points for {speed[0].id} are {speed[0].message})"


def _wrap(text: str) -> Iterator[str]:
    for line in text.splitlines():
        # compiler output keeps its shape, sentences are wrapped
        if line.startswith((" ", "\t")) or len(line) <= WIDTH:
            yield f"  {line}"
        else:
            yield textwrap.fill(
                line,
                WIDTH,
                initial_indent="  ",
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Says what is going on, on a terminal only: on standard error, so that output stays clean."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("Starting") as status:
        yield status.update
