"""The command `grader`.

Exit codes: 0 done, 1 a test failed (`check`, `repro`), 2 the command or a configuration is wrong
(nothing was written), 3 this machine cannot do it.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from grader.cli_author import author
from grader.cli_options import (
    EXIT_FAILED,
    EXIT_INFRASTRUCTURE,
    assignment_option,
    backend_option,
    isolation_option,
    json_option,
    nvcc_option,
    part_option,
    seed_file_option,
    seed_option,
    sentences,
    timed_option,
)
from grader.errors import UsageError, did_you_mean


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kernel-grader", prog_name="grader")
def main() -> None:
    """Grades CUDA kernels, with or without a GPU."""


@main.command()
@click.argument("submission", type=click.Path())
@assignment_option
@backend_option
@part_option
@timed_option
@nvcc_option
@json_option
@seed_option
@seed_file_option
@isolation_option
@sentences
def grade(
    submission: str,
    assignment: str | None,
    backend: str,
    parts: tuple[str, ...],
    timed: bool,
    nvcc: bool,
    json_path: Path | None,
    seed: str | None,
    seed_file: Path | None,
    require_isolation: bool,
) -> None:
    """Grade the folder SUBMISSION and print its score.

    Ends with 0 whenever there is a score, whatever the marks.
    """
    from grader import terminal
    from grader.grading import grade as run
    from grader.score import check_writable, write

    if json_path is not None:
        check_writable(json_path)
    master = _master(seed, seed_file)
    with terminal.progress() as progress:
        score = run(
            submission,
            assignment=assignment,
            backend=backend,
            master=master,
            parts=parts,
            timed=timed,
            nvcc=nvcc,
            require_isolation=require_isolation,
            progress=progress,
        )
    if json_path is not None:
        write(score, json_path)
    click.echo(terminal.show(score, _arguments(submission, assignment), Path(submission)))
    if score.status == "infrastructure_error":
        sys.exit(EXIT_INFRASTRUCTURE)


@main.command()
@click.argument("submission", type=click.Path(), default=".")
@assignment_option
@backend_option
@part_option
@timed_option
@nvcc_option
@json_option
@sentences
def check(
    submission: str,
    assignment: str | None,
    backend: str,
    parts: tuple[str, ...],
    timed: bool,
    nvcc: bool,
    json_path: Path | None,
) -> None:
    """Check your own work in the folder SUBMISSION (default: here).

    The same tests as the real grading, on public cases. Ends with 1 if a test fails.
    """
    from grader import terminal
    from grader.grading import grade as run
    from grader.score import check_writable, write

    if json_path is not None:
        check_writable(json_path)
    with terminal.progress() as progress:
        score = run(
            submission,
            assignment=assignment,
            backend=backend,
            parts=parts,
            timed=timed,
            nvcc=nvcc,
            progress=progress,
        )
    if json_path is not None:
        write(score, json_path)
    click.echo(terminal.show(score, _arguments(submission, assignment), Path(submission)))
    if score.status == "infrastructure_error":
        sys.exit(EXIT_INFRASTRUCTURE)
    if score.status != "graded" or any(test.passed is False for _, test in score.tests()):
        sys.exit(EXIT_FAILED)


@main.command()
@click.argument("case")
@click.argument("submission", type=click.Path(), default=".")
@assignment_option
@backend_option
@sentences
def repro(case: str, submission: str, assignment: str | None, backend: str) -> None:
    """Run one CASE again, as a failure names it, and show what the kernel printed.

    Ends with 1 if it still fails.
    """
    from grader.cases import parse_token
    from grader.grading import repro as run
    from grader.grading import resolve

    used = resolve(submission, assignment)
    part, test, parsed = parse_token(case, used)
    problem, log = run(submission, part, test, parsed, used, backend)
    if log.strip():
        click.echo(f"The submission printed:\n{log.rstrip()}\n")
    where = f"{part.title}, {test}: {parsed.describe()}"
    if problem is None:
        click.echo(f"{where}: {click.style('right', fg='green')}")
        return
    click.echo(f"{where}: {click.style('wrong', fg='red')}\n  {problem.sentence}")
    if problem.call:
        sizes = " ".join(f"{name}={value}" for name, value in problem.dims.items())
        click.echo(
            f"  in call {problem.call + 1} of the case ({sizes}); the calls before were right"
        )
    sys.exit(EXIT_FAILED)


@main.command()
@click.argument("score", type=click.Path(path_type=Path))
@click.option("--accept", is_flag=True, help="Give the withheld marks.")
@click.option("--deny", is_flag=True, help="Refuse them.")
@click.option("--part", metavar="ID", help="Only those of this part.")
@click.option("--reason", default="", metavar="TEXT", help="Why; recorded in the score.")
@sentences
def review(score: Path, accept: bool, deny: bool, part: str | None, reason: str) -> None:
    """Show, accept or deny the marks that were withheld in the file SCORE.

    Without --accept or --deny it only shows what waits for a decision.
    """
    from grader import review as reviewing
    from grader.score import check_writable, read, write

    if accept and deny:
        raise UsageError("give --accept or --deny, not both")
    found = read(score)
    if not accept and not deny:
        if reason:
            raise UsageError("a --reason goes with --accept or --deny")
        waiting = [(one, test) for one, test in reviewing.withheld(found) if part in (None, one.id)]
        known = [one.id for one in found.parts]
        if part is not None and part not in known:
            raise UsageError(f"the score has no part {part!r}{did_you_mean(part, known)}")
        for result, test in waiting:
            click.echo(f"{result.id}, {test.id} ({test.max_score:g} points): {test.message}")
        if not waiting:
            click.echo("nothing is withheld")
        return
    check_writable(score)
    chosen: reviewing.Decision = "accepted" if accept else "denied"
    decided = reviewing.decide(found, part, chosen, reason)
    write(decided, score)
    click.echo(f"{chosen}; the score is {decided.score:g} of {decided.max_score:g}")


@main.command()
@click.argument("submission", type=click.Path(), default=".")
@assignment_option
@part_option
@click.option("--shape", metavar="D=N,...", help="Sizes; the first that is timed when left out.")
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write everything there.",
)
@sentences
def profile(
    submission: str,
    assignment: str | None,
    parts: tuple[str, ...],
    shape: str | None,
    json_path: Path | None,
) -> None:
    """Show what each kernel and line of a SUBMISSION costs, and what would make it faster.

    Counted on the emulator, whether there is a GPU or not.
    """
    import msgspec

    from grader import profile as profiling
    from grader.grading import resolve
    from grader.score import check_writable, write_json

    if json_path is not None:
        check_writable(json_path)
    used = resolve(submission, assignment)
    dims = profiling.parse_shape(shape, used) if shape else None
    found = profiling.profile(submission, used, parts, dims)
    if json_path is not None:
        raw = msgspec.json.format(msgspec.json.encode(found), indent=2)
        write_json(raw + b"\n", json_path)
    click.echo(profiling.show(found, Path(submission)))


@main.command()
@sentences
def doctor() -> None:
    """Say what this machine can do, and how to fix what it cannot.

    Ends with 3 if it cannot grade.
    """
    from grader.doctor import examine

    well = True
    for finding in examine():
        mark, colour = {True: ("ok", "green"), False: ("MISSING", "red"), None: ("-", "yellow")}[
            finding.state
        ]
        click.echo(f"{click.style(f'{mark:<8}', fg=colour)}{finding.what}: {finding.says}")
        if finding.fix:
            click.echo(f"        fix: {finding.fix}")
        well = well and finding.state is not False
    if not well:
        sys.exit(EXIT_INFRASTRUCTURE)


main.add_command(author)


def _arguments(submission: str, assignment: str | None) -> str:
    """How to name the same submission on another command line."""
    named = [] if submission == "." else [submission]
    if assignment is not None:
        named += ["--assignment", assignment]
    return shlex.join(named)


def _master(seed: str | None, seed_file: Path | None) -> bytes:
    from grader.cases import PUBLIC_MASTER

    if seed is not None and seed_file is not None:
        raise UsageError("give --seed or --seed-file, not both")
    if seed_file is not None:
        try:
            master = seed_file.read_bytes().strip()
        except OSError as error:
            raise UsageError(f"cannot read the seed file {seed_file}: {error.strerror}") from None
        if not master:
            raise UsageError(f"the seed file {seed_file} is empty")
        return master
    if seed is not None and not seed.strip():
        raise UsageError("--seed is empty")
    return PUBLIC_MASTER if seed is None else seed.encode()
