"""From counts to time: a roofline with latency.

What a launch demands of each resource takes a time of its own: bytes of device memory and of L2,
requests in the load/store units, waves in shared memory, instructions, atomics. They overlap, but
never perfectly: together they take the p-norm of these times, which lies between the longest of
them (p -> infinity) and their sum (p = 1). That is the time if there is always a warp that can go
on. If there is none, a block waits for its own loads, shuffles and barriers, and in between does
its own share of the work: latency + throughput / blocks that are resident together. The q-norm of
both is the time of the launch. (Williams, Waterman, Patterson: Roofline, CACM 2009; Hong and Kim:
An analytical model for a GPU architecture, ISCA 2009, for the two cases.) The constants are fitted
to times measured on a card: tests/calibration/fit.py.

A time is a demand times the machine's constant of the same name, which is in seconds per byte for
`dram` and `l2`, and in cycles for the others:
    request, wave, shared_atomic, instruction
                                 of a multiprocessor: for 128 bytes that a request touches, a pass
                                 over the banks of shared memory, a pass of an atomic operation
                                 there, an instruction of a warp
    atomic, turn, same_address   of L2: for a sector, lanes of one request on one address, and
                                 requests of a launch on one address
    l1_latency, l2_latency, dram_latency, shared_latency, shuffle, barrier, round, block
                                 that a warp waits if nothing else can run: for a load, by where its
                                 data are; for a load of shared memory; a shuffle; a barrier; the
                                 first load after one; a block's start and end
Further constants: `clock` (cycles per second), `launch` (seconds until the first kernel runs),
`next_launch` (seconds that each further kernel, copy or fill adds), `host` (seconds per byte that
is copied from or to the host's memory), `p` and `q` (of the norms), and those of the ceiling:
`ceiling_launch` (seconds), `ceiling_read` and `ceiling_write` (seconds per byte).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grader.counters import Counters, Launch
from grader.machine import Limits, Machine

SECTOR = 32  # bytes
SCHEDULERS = 4  # of a multiprocessor

# Resource -> the demands that it has to meet one after the other.
LATENCY = "latency"
RESOURCES: Mapping[str, tuple[str, ...]] = {
    "device memory": ("dram",),
    "L2": ("l2",),
    "requests": ("request",),
    "shared memory": ("wave", "shared_atomic"),
    "instructions": ("instruction",),
    LATENCY: (
        "l1_latency", "l2_latency", "dram_latency", "shared_latency", "shuffle", "barrier",
        "round", "block",
    ),
    "atomics": ("atomic", "turn", "same_address"),
}  # fmt: skip
IN_BYTES = ("dram", "l2")
TO_OR_FROM_HOST = " host"  # how the emulator calls such a copy


@dataclass(frozen=True)
class Modelled:
    """A launch, priced. parts: resource -> seconds, if that were all. seconds: of the launch, but
    for what starting it costs."""

    launch: Launch
    parts: dict[str, float]
    seconds: float

    @property
    def limit(self) -> str:
        """The resource that takes the longest."""
        return max(self.parts, key=lambda name: self.parts[name])


def seconds(counted: Counters, machine: Machine) -> float:
    """The time of one call of a launcher."""
    constants = machine.model
    kernels = sum(price(launch, machine).seconds for launch in counted.launches)
    filled = sum(
        constants["host" if call.call.endswith(TO_OR_FROM_HOST) else "dram"] * call.bytes
        for call in counted.api
    )
    return constants["launch"] + constants["next_launch"] * further(counted) + filled + kernels


def further(counted: Counters) -> int:
    """Kernels, copies and fills after the first."""
    return max(0, len(counted.launches) + len(counted.api) - 1)


def price(launch: Launch, machine: Machine) -> Modelled:
    """The times of one launch, resource by resource, and together."""
    constants = machine.model
    wanted = demands(launch, machine.limits)
    cycle = 1 / constants["clock"]
    parts = {
        resource: sum(
            wanted[name] * constants[name] * (1.0 if name in IN_BYTES else cycle) for name in names
        )
        for resource, names in RESOURCES.items()
    }
    busy = norm([parts[name] for name in parts if name != LATENCY], constants["p"])
    alone = parts[LATENCY] + busy / resident(launch, machine.limits)
    return Modelled(launch, parts, norm([busy, alone], constants["q"]))


def norm(times: Sequence[float], p: float) -> float:
    """The p-norm: between the largest (p -> infinity) and the sum (p = 1)."""
    longest = max(times)
    if longest <= 0:
        return 0.0
    total: float = sum((one / longest) ** p for one in times) ** (1 / p)
    return longest * total


def resident(launch: Launch, limits: Limits) -> float:
    """Blocks that a multiprocessor has at a time, on average."""
    return max(1.0, min(launch.blocks_per_sm, launch.blocks / limits.sms))


def demands(launch: Launch, limits: Limits) -> dict[str, float]:
    """What a launch demands: of throughput, what the busiest multiprocessor has to do; of latency,
    what one warp waits for, as often as blocks follow each other on a multiprocessor."""
    done = launch.coverage

    def count(*names: str) -> float:
        return sum(launch.counters.get(name, 0.0) for name in names) / done

    blocks = max(1, launch.blocks)
    uneven = -(-blocks // limits.sms) / blocks  # the share of the busiest multiprocessor
    rounds = max(1.0, blocks / (limits.sms * max(1, launch.blocks_per_sm)))
    turns = rounds / max(1, launch.warps)  # of an average warp, after one another
    loads = max(turns * count("global_load_requests"), _busiest(launch, "warp_load_requests"))
    sectors = max(1.0, count("l1_hit_sectors", "l2_read_sectors"))
    missed = min(count("dram_read_sectors"), count("l2_read_sectors"))
    return {
        "dram": SECTOR * count("dram_read_sectors", "dram_write_sectors", "dirty_sectors_left"),
        "l2": SECTOR * count("l2_read_sectors", "l2_write_sectors", "l2_atomic_sectors"),
        "request": uneven * count("l1_waves"),
        "wave": uneven * count("shared_load_waves", "shared_store_waves"),
        "shared_atomic": uneven * count("shared_atomic_waves"),
        "instruction": uneven * count("warp_instructions") / SCHEDULERS,
        "atomic": count("l2_atomic_sectors"),
        "turn": count("global_atomic_turns"),
        "same_address": count("global_atomics_on_one_address"),
        "l1_latency": loads * count("l1_hit_sectors") / sectors,
        "l2_latency": loads * (count("l2_read_sectors") - missed) / sectors,
        "dram_latency": loads * missed / sectors,
        "shared_latency": turns * count("shared_load_requests", "shared_atomic_requests"),
        "shuffle": turns * count("shuffles", "votes"),
        "barrier": max(turns * count("warp_barriers"), _busiest(launch, "block_barriers")),
        "round": rounds * _busiest(launch, "warp_load_rounds"),
        "block": rounds,
    }


def _busiest(launch: Launch, name: str) -> float:
    return launch.counters.get(f"busiest_{name}", 0.0)


def ceiling(read: int, written: int, machine: Machine) -> float:
    """The time of the grader's probe: so many bytes read and written once, in seconds."""
    constants = machine.model
    moved = read * constants["ceiling_read"] + written * constants["ceiling_write"]
    return constants["ceiling_launch"] + moved
