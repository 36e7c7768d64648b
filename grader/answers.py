"""What is asked of a worker, and how it can answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.arena import Buffer, Float32
from grader.errors import InfrastructureError


@dataclass(frozen=True)
class Call:
    """One call of a launcher, arguments in C order with the stream left out.

    checked: the emulator's checkers watch every access, which takes several times as long.
    """

    launcher: str
    arguments: Sequence[Buffer | int]
    schedule: int = 0
    steps: int = 0
    checked: bool = False


@dataclass(frozen=True)
class Returned:
    """The call came back. `damage` names what was written that must not be, as sentences; `note` is
    something doubtful that the emulator saw and that may explain a wrong result; `report` is what
    its checkers found."""

    outputs: dict[str, Float32]
    damage: tuple[str, ...]
    note: str = ""
    report: str = ""


@dataclass(frozen=True)
class Timed:
    """A batch came back. Seconds: `done` until the work on the launcher's stream was finished,
    `settled` until the device was idle, both by the worker's events; `wall` by our own clock, from
    the word to go to the answer. `launches` is what it says about kernels of the batch before."""

    done: float
    settled: float
    wall: float
    launches: str


@dataclass(frozen=True)
class Fault:
    """The call did not come back well; the next one starts with a clean worker."""

    kind: str
    sentence: str
    loading: bool = False  # before any call: it has nothing to do with a case
    report: str = ""  # what the emulator's checkers found until then
    outside: bool = False  # it may have come from outside of the submission: try once more
    machine: bool = False  # and if it comes again, the machine is to be looked at


class NoDevice(InfrastructureError):
    """A worker says that it cannot use the GPU; whether that is so, its parent finds out."""


TAMPERED = Fault("garbage", "the submission tampered with the grader's control channel")


@dataclass(frozen=True)
class Reply:
    status: int
    code: int
    kind: str
    sentence: str
    done: float
    settled: float
    report: str = ""
