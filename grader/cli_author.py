"""The commands `grader author ...`; exit codes as in `grader/cli.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from grader.cli_options import (
    EXIT_FAILED,
    assignment_option,
    backend_option,
    json_option,
    part_option,
    sentences,
)
from grader.errors import UsageError, did_you_mean


@click.group()
def author() -> None:
    """For authors of assignments."""


@author.command()
@click.argument("solution", type=click.Path(path_type=Path))
@click.argument("starter", type=click.Path(path_type=Path))
@click.option("--check", "only_check", is_flag=True, help="Only say whether STARTER is in step.")
@sentences
def strip(solution: Path, starter: Path, only_check: bool) -> None:
    """Generate the folder STARTER from the folder SOLUTION.

    Removes what stands between BEGIN SOLUTION and END SOLUTION; the hints stay.
    """
    from grader import author as authoring

    if only_check:
        differing = authoring.out_of_step(solution, starter)
        for name in differing:
            click.echo(f"{name} is out of step", err=True)
        if differing:
            sys.exit(EXIT_FAILED)
        click.echo("in step")
        return
    for path in authoring.strip(solution, starter):
        click.echo(f"wrote {path}")


@author.command()
@click.argument("assignment")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="The zip to write.")
@sentences
def handout(assignment: str, out: Path | None) -> None:
    """Pack what students get for ASSIGNMENT: starter, contract, handout, and the grader itself."""
    from grader import author as authoring

    path = authoring.handout(assignment, out or Path(f"{Path(assignment).name}-handout.zip"))
    click.echo(f"wrote {path}")


@author.command()
@click.argument("submission", type=click.Path())
@assignment_option
@part_option
@click.option("--count", default=30, show_default=True, metavar="N", help="How many mutants.")
@click.option("--seed", default=0, show_default=True, metavar="S", help="Which mutants.")
@click.option(
    "--masters", default=5, show_default=True, metavar="N",
    help="What survives is graded on the cases of so many masters.",
)  # fmt: skip
@click.option(
    "--json", "json_path", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the report there.",
)  # fmt: skip
@sentences
def mutants(
    submission: str,
    assignment: str | None,
    parts: tuple[str, ...],
    count: int,
    seed: int,
    masters: int,
    json_path: Path | None,
) -> None:
    """Grade small faults made in a SUBMISSION that is right, and show which of them survive.

    Runs on the emulator, without timing.
    """
    import msgspec

    from grader import author_mutants as mutating
    from grader import terminal
    from grader.score import check_writable, write_json

    if json_path is not None:
        check_writable(json_path)
    with terminal.progress() as progress:
        report = mutating.try_mutants(
            submission,
            assignment=assignment,
            parts=parts,
            count=count,
            chosen_by=seed,
            masters=masters,
            progress=progress,
        )
    if json_path is not None:
        raw = msgspec.json.format(msgspec.json.encode(report), indent=2)
        write_json(raw + b"\n", json_path)
    click.echo(mutating.show(report))


@author.command("check")
@click.argument("assignment", required=False)
@click.option(
    "--submissions", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Those with an expect.toml; tests/submissions/ASSIGNMENT when left out.",
)  # fmt: skip
@click.option(
    "--solution", type=click.Path(path_type=Path), metavar="FOLDER",
    help="solution/ASSIGNMENT when left out.",
)  # fmt: skip
@click.option(
    "--starter", type=click.Path(path_type=Path), metavar="FOLDER",
    help="starter/ASSIGNMENT when left out.",
)  # fmt: skip
@click.option("--fast", is_flag=True, help="One master, and submissions of every kind only.")
@click.option(
    "--masters",
    type=click.IntRange(min=1),
    metavar="N",
    help="Grade the solution with so many masters (3; 1 with --fast).",
)
@click.option("--only", multiple=True, metavar="STEP", help="Only this step; may be repeated.")
@click.option("--names", multiple=True, metavar="NAME", help="Only this submission; repeatable.")
@backend_option
@json_option
@sentences
def check_assignment(
    assignment: str | None,
    only: tuple[str, ...],
    names: tuple[str, ...],
    json_path: Path | None,
    **options: Any,
) -> None:
    """Check that ASSIGNMENT does what its author means it to do.

    Steps: solution, starter, trivial, submissions, thresholds. The folders are looked for around
    the assignment. Ends with 1 if something does not hold.
    """
    import msgspec

    from grader import author_check, terminal
    from grader.score import check_writable, write_json

    for step in only:
        if step not in author_check.STEPS:
            known = list(author_check.STEPS)
            close = did_you_mean(step, known)
            raise UsageError(f"unknown step {step!r}{close}; the steps are {', '.join(known)}")
    if json_path is not None:
        check_writable(json_path)

    def told(outcome: author_check.Outcome) -> None:
        mark, colour = ("ok", "green") if outcome.holds else ("FAILS", "red")
        click.echo(
            f"{click.style(f'{mark:<7}', fg=colour)}{outcome.step}: {outcome.name}", nl=False
        )
        click.echo(f": {outcome.says}")
        for note in outcome.notes:
            click.echo(f"          {note}")

    with terminal.progress() as progress:
        options["progress"] = progress
        checked = author_check.prepare(assignment, only=only, wanted=names, **options)
        report = author_check.run(checked, only, told)
    click.echo(f"\n{author_check.table(report)}")
    if json_path is not None:
        raw = msgspec.json.format(msgspec.json.encode(report), indent=2)
        write_json(raw + b"\n", json_path)
    if not report.holds:
        sys.exit(EXIT_FAILED)
