"""The machine whose time is modelled: limits of its architecture, and the constants of the model.

One small TOML file each in grader/machines; others can be added there.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from grader.errors import UsageError, did_you_mean

FOLDER = Path(__file__).parent / "machines"
DEFAULT = "h200"


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Per multiprocessor (SM): threads, blocks and bytes of shared memory that are resident
    together. l1_bytes is what L1 and shared memory share; l2_bytes is for all."""

    sms: int
    threads_per_sm: int
    max_blocks_per_sm: int
    shared_per_sm: int
    l1_bytes: int
    l2_bytes: int


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """name: as its maker calls it. model: constants of grader/model.py, which says their units."""

    name: str
    limits: Limits
    model: dict[str, float]

    def settings(self) -> str:
        """The limits as the emulator takes them (emu_set_machine)."""
        limits = msgspec.to_builtins(self.limits)
        return " ".join(f"{name}={value}" for name, value in limits.items())


@cache
def load(name: str = DEFAULT) -> Machine:
    """Raises UsageError when there is no such machine, or its file makes no sense."""
    known = sorted(path.stem for path in FOLDER.glob("*.toml"))
    if name not in known:
        raise UsageError(f"no machine {name!r} in {FOLDER}{did_you_mean(name, known)}")
    path = FOLDER / f"{name}.toml"
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Machine)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}: {error}") from None
