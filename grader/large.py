"""Shapes that only a GPU can check: many gigabytes, compared on the device.

Index arithmetic in 32 bits, grids beyond 65535 blocks in y or z, and tables of a fixed size show
only there. The data are variations of one small case (`grader.trial`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from grader.assignment import Assignment
from grader.cases import Case, seed
from grader.gpu import Gpu, OutOfMemory
from grader.manifest import Part
from grader.session import Fault, Session
from grader.trial import Base, Trial, Wrong, base_case

RESERVE = 1 << 30  # bytes of the GPU's memory that stay free, for the submission's own workspace


def large_cases(assignment: Assignment, part: Part, test_id: str, master: bytes) -> Iterator[Case]:
    """One case for each large shape of a test, smallest first."""
    test = assignment.test(test_id)
    for number, dims in enumerate(sorted(test.large, key=lambda dims: math.prod(dims.values()))):
        made = seed(master, assignment.id, part.id, test_id, "large", number)
        yield Case(dict(dims), test.families[0], 1.0, made)


def try_large(
    gpu: Gpu, session: Session, assignment: Assignment, part: Part, test_id: str, case: Case
) -> Wrong | Fault | None:
    """One call on fresh data; None when every output element was right.

    Raises OutOfMemory when this GPU is too small for the case.
    """
    bound = assignment.test(test_id).bound
    base = base_case(assignment, part, case.dims, case.family, bound, case.seed)
    needed = _bytes(assignment, part, case) + RESERVE
    with gpu.alone():
        if needed > gpu.free_bytes():
            session.stop()  # what the submission holds must not spare it the case
        if needed > gpu.free_bytes():
            raise OutOfMemory(f"{needed / 1e9:.0f} GB of GPU memory are needed")
        return _run(gpu, session, assignment, part, case, base)


def _run(
    gpu: Gpu, session: Session, assignment: Assignment, part: Part, case: Case, base: Base
) -> Wrong | Fault | None:
    with Trial(gpu, assignment, part, case.dims, base, sets=1) as trial:
        session.map(trial.pools)
        trial.prepare(case.rng(1))
        answer = session.batch(part.launcher, [trial.arguments(0)], trial.keep(1))
        session.map(())  # or the worker would hold the memory for the next shape
        if isinstance(answer, Fault):
            return answer
        return trial.judge(1)


def _bytes(assignment: Assignment, part: Part, case: Case) -> int:
    arrays = [name for name in part.arguments if name not in case.dims]
    arrays += part.outputs  # the spare set
    rows = case.dims[assignment.batch] if assignment.batch is not None else 1
    elements = sum(math.prod(assignment.shape(name, case.dims)) for name in arrays)
    return 4 * (elements + rows)  # and the order of the rows
