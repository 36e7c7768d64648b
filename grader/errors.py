"""Everything that can go wrong, as a tree; each exception is one sentence: what, where, what to do.

GraderError
├── UsageError            the command or a configuration is wrong      exit code 2
│   └── AssignmentError   an assignment folder is broken
├── InfrastructureError   this machine is at fault, not the student    exit code 3
├── Rejected              the submission cannot be used at all         a score of 0
└── BuildFailed           the submission does not compile or link      a score of 0
    └── Forbidden         it would, but meddles with what grades it
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GraderError(Exception):
    """Base of all errors that the grader raises on purpose."""


class UsageError(GraderError):
    """The command line, a path or a configuration file is wrong. Nothing was written."""


class AssignmentError(UsageError):
    """An assignment folder is broken."""


class InfrastructureError(GraderError):
    """This machine cannot do the job. Never held against a submission."""


class Rejected(GraderError):
    """The submission is unusable: a required file is missing, empty, binary, too large, ..."""


class BuildFailed(GraderError):
    """The submission does not compile or link; `log` holds the compiler's words.

    The sentence (``str(error)``) names the first error in the student's own file and line.
    """

    def __init__(self, sentence: str, log: str) -> None:
        super().__init__(sentence)
        self.log = log


class Forbidden(BuildFailed):
    """The submission defines or uses what a submission must not (grader/symbols.py)."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """`" (did you mean 'x'?)"` when one of the known names is close to the wrong one, else `""`."""
    close = difflib.get_close_matches(wrong, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
