"""What all commands share: exit codes, options, and errors as sentences."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from grader.errors import GraderError, InfrastructureError, UsageError

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
