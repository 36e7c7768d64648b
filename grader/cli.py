"""The command `grader`.

Exit codes: 0 done, 1 a test failed (`check`, `repro`), 2 the command or a configuration is wrong
(nothing was written), 3 this machine cannot do it.
"""

from __future__ import annotations

import functools
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from grader.errors import GraderError, InfrastructureError, UsageError, did_you_mean

EXIT_FAILED, EXIT_USAGE, EXIT_INFRASTRUCTURE = 1, 2, 3

assignment_option = click.option(
    "--assignment", metavar="NAME", help="Name or folder of the assignment; found by itself."
)
backend_option = click.option(
    "--backend", default="auto", show_default=True, metavar="NAME",
    help="auto, cpu or cuda: where the kernels run. auto is a GPU if one can be used.",
)  # fmt: skip
json_option = click.option(
    "--json", "json_path", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the score there.",
)  # fmt: skip
seed_option = click.option(
    "--seed", metavar="TEXT", help="Master that all cases follow from; public when left out."
)
seed_file_option = click.option(
    "--seed-file", type=click.Path(path_type=Path), metavar="FILE",
    help="File that holds the secret master.",
)  # fmt: skip
part_option = click.option(
    "--part", "parts", multiple=True, metavar="ID", help="Only this part; may be repeated."
)


nvcc_option = click.option(
    "--nvcc", is_flag=True, help="Also compile with nvcc (needs no GPU) and say what kernels take."
)
isolation_option = click.option(
    "--require-isolation", is_flag=True, help="Refuse to grade without the strong sandbox."
)
timed_option = click.option(
    "--no-speed", "timed", flag_value=False, default=True, help="Leave the timing out."
)


def _terminated(*_: object) -> None:
    click.echo("grader: terminated, nothing was written", err=True)
    sys.exit(128 + signal.SIGTERM)


def sentences(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the grader's own errors into one sentence and the exit code they stand for."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            # `timeout` and batch systems send it: end the submission and clean up, too
            signal.signal(signal.SIGTERM, _terminated)
            command(*args, **kwargs)
        except InfrastructureError as error:
            click.echo(f"grader: {error}", err=True)
            sys.exit(EXIT_INFRASTRUCTURE)
        except UsageError as error:
            click.echo(f"grader: {error}", err=True)
            sys.exit(EXIT_USAGE)
        except GraderError as error:
            click.echo(f"grader: {error}", err=True)
            sys.exit(EXIT_FAILED)
        except BrokenPipeError:  # `grader check | head`: click ends quietly
            raise
        except OSError as error:  # standard output, above all: a full disk
            click.echo(f"grader: {error.strerror or error}", err=True)
            sys.exit(EXIT_INFRASTRUCTURE)
        except KeyboardInterrupt:
            click.echo("grader: interrupted, nothing was written", err=True)
            sys.exit(130)

    return wrapped


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


@main.group()
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
