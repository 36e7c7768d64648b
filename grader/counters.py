"""What the emulator counted of one call of a launcher, as it travels from the worker.

All of it comes from the untrusted side: only what has the right form is taken.
"""

from __future__ import annotations

from typing import Any

import msgspec

LARGEST = 1e18
LEAST_COVERAGE = 1e-6  # nobody can say more about a launch that has done less


class Line(msgspec.Struct, frozen=True):
    """Accesses by one line of source to one array, scaled up to the whole grid.

    kind: load, store, atomic, shared_load, shared_store or shared_atomic. Sectors have 32 bytes;
    `ideal_sectors` would hold the bytes that were asked for. A wave is one pass through the banks
    of shared memory.
    """

    file: str
    line: int
    buffer: str
    kind: str
    requests: float
    sectors: float = 0.0
    ideal_sectors: float = 0.0
    waves: float = 0.0
    ideal_waves: float = 0.0


class Buffer(msgspec.Struct, frozen=True):
    """What a launch asked of one array: sectors that it read before it wrote them, and sectors that
    it wrote, each once. in_l2: the share of what it read that earlier launches had left there."""

    name: str
    bytes: int
    read_sectors: float
    written_sectors: float
    in_l2: float


class Launch(msgspec.Struct, frozen=True):
    """One launch of a kernel. `sampled_blocks` were run; `truncated`: not to their end, so that the
    counts are too small. blocks_per_sm: as many are resident together on a multiprocessor."""

    kernel: str
    file: str
    line: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_static: int
    shared_dynamic: int
    sampled_blocks: int
    truncated: bool
    blocks_per_sm: int
    counters: dict[str, float]
    lines: list[Line]
    buffers: list[Buffer] = []

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        """Warps of the grid."""
        return self.blocks * -(-self.threads // 32)

    @property
    def coverage(self) -> float:
        """How much of its work a truncated launch has done, by how much of its arrays it has
        touched; 1 for others."""
        size = sum(buffer.bytes for buffer in self.buffers)
        touched = sum(32 * (one.read_sectors + one.written_sectors) for one in self.buffers)
        if not self.truncated or not size or not touched:
            return 1.0
        return min(1.0, max(LEAST_COVERAGE, touched / size))


class ApiCall(msgspec.Struct, frozen=True):
    """A call of the runtime that works on the device: a copy, a fill."""

    call: str
    bytes: int


class Counters(msgspec.Struct, frozen=True):
    """One call of a launcher."""

    launches: list[Launch]
    api: list[ApiCall] = []


def parse(report: str) -> Counters | None:
    """The counters in a worker's report: what follows its first empty line. None if there are none
    or they make no sense."""
    _, _, text = f"\n{report}".partition("\n\n")
    try:
        found = msgspec.json.decode(text, type=Counters)
        return msgspec.convert(_harmless(msgspec.to_builtins(found)), Counters)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _harmless(value: Any) -> Any:
    """The same with text that can be shown. Raises ValueError for a number that is no count."""
    if isinstance(value, dict):
        return {_harmless(name): _harmless(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_harmless(one) for one in value]
    if isinstance(value, str):
        return "".join(char if char.isprintable() else "?" for char in value)
    if not 0 <= value <= LARGEST:
        raise ValueError(f"{value} is no count")
    return value
