"""Times parts of submissions at many shapes in little time, with the grader's own stopwatch.

What a speed test does (probe and student in turn, cold caches, every output compared), but with few
samples, without the sample that ends the worker, and shape by shape: one that goes wrong or does
not fit leaves the others alone.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import msgspec
import numpy as np

from grader import stopwatch
from grader.assignment import Assignment
from grader.cases import PUBLIC_MASTER, seed
from grader.gpu import Gpu, OutOfMemory
from grader.manifest import Part
from grader.session import Session
from grader.speed import _case, _kernels
from grader.trial import Base, Trial, base_case

TEST = "speed"
SAMPLES, FEWEST = 12, 3
SHAPE_SECONDS = 0.25  # after so long, the fewest samples are enough
PART_SECONDS = 12.0  # after so long, no other shape of the part is begun

Row = dict[str, Any]


@contextlib.contextmanager
def in_haste() -> Iterator[None]:
    """The stopwatch, content with few samples."""
    with (
        mock.patch.object(stopwatch, "SAMPLES", SAMPLES),
        mock.patch.object(stopwatch, "FEWEST_SAMPLES", FEWEST),
        mock.patch.object(stopwatch, "SHAPE_SECONDS", SHAPE_SECONDS),
    ):
        yield


@dataclass
class Times:
    """Times parts on one GPU. The data of a part and a shape are made once for all submissions."""

    gpu: Gpu
    used: Assignment
    shapes: Sequence[Mapping[str, int]]
    now: Callable[[], float] = time.monotonic
    bases: dict[tuple[str, int], Base] = field(default_factory=dict)

    def part(self, session: Session, part: Part) -> Row:
        """One row: the part at every shape, each with the kernels that were launched there."""
        began = self.now()
        rows: list[Row] = []
        with self.gpu.alone(), in_haste():
            for number, dims in enumerate(self.shapes):
                if self.now() - began > PART_SECONDS:
                    rows.append({**dims, "note": "left out: the shapes before took too long"})
                else:
                    rows.append({**dims, **self._shape(session, part, number)})
        return {"part": part.id, "seconds": round(self.now() - began, 2), "shapes": rows}

    def _shape(self, session: Session, part: Part, number: int) -> Row:
        """What was measured, or a note why nothing was."""
        began = self.now()
        try:
            measured = self._measure(session, part, number)
        except OutOfMemory:
            session.stop()
            return {"note": "left out: the GPU's memory is too small"}
        except Exception as error:
            session.stop()
            return {"note": f"{type(error).__name__}: {error}"[:300]}
        row: Row = {"seconds": round(self.now() - began, 2), "sets": measured.sets}
        if measured.wrong is not None:
            return {**row, "note": f"wrong: {measured.wrong.sentence}"[:300]}
        case = msgspec.to_builtins(_case(measured))
        del case["dims"]
        kernels = msgspec.to_builtins(_kernels([measured], session.module, self.gpu))
        return {**row, **case, "doubt": measured.doubt, "kernels": kernels}

    def _measure(self, session: Session, part: Part, number: int) -> stopwatch.Measured:
        dims = dict(self.shapes[number])
        names = (self.used.id, part.id, TEST, number)
        test = self.used.test(TEST)
        if (part.id, number) not in self.bases:
            self.bases[part.id, number] = base_case(
                self.used, part, dims, test.families[0], test.bound, seed(PUBLIC_MASTER, *names)
            )
        base = self.bases[part.id, number]
        make = functools.partial(Trial, self.gpu, self.used, part, dims, base)
        rng = np.random.default_rng([seed(PUBLIC_MASTER, *names, "variations"), 0])
        return stopwatch.measure(self.gpu, session, make, rng)
