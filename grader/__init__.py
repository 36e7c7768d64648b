"""Autograding assignments for CUDA kernels, with or without a GPU.

import grader
score = grader.grade("solution/saxpy")        # Score: status, parts, tests, findings
module = grader.load("starter/saxpy")         # the submission's launchers, on numpy arrays
grader.assignment("saxpy").parts              # what an assignment consists of
"""

from grader.assignment import load as assignment
from grader.errors import (
    AssignmentError,
    BuildFailed,
    GraderError,
    InfrastructureError,
    Rejected,
    UsageError,
)
from grader.grading import grade, load
from grader.score import Score

__all__ = [
    "AssignmentError",
    "BuildFailed",
    "GraderError",
    "InfrastructureError",
    "Rejected",
    "Score",
    "UsageError",
    "assignment",
    "grade",
    "load",
]
