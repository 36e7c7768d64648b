"""From counts to time: a roofline with latency.

What a launch asks of each resource takes a time of its own: bytes of device memory, sectors of L2,
requests in the load/store units, waves in shared memory, instructions, atomics, and the latency
that the warps which are resident together cannot hide. They overlap, but never perfectly: the
time of the launch is their p-norm, which lies between the longest of them (p -> infinity) and
their sum (p = 1). (Williams, Waterman, Patterson: Roofline, CACM 2009; Little's law for the
latency.) The constants are fitted to times measured on a card: tests/calibration/fit.py.

Constants of a machine, in seconds, bytes per second or cycles:
    clock        cycles per second
    launch       of a call of a launcher: seconds until its first kernel runs
    next_launch  seconds that each further kernel, copy or fill adds
    dram, l2     bytes per second
    request      cycles of a multiprocessor for 128 bytes that a request touches
    wave         cycles for a pass over the banks of shared memory
    instruction  cycles of one of the four schedulers of a multiprocessor
    l1_latency, l2_latency, dram_latency, shared_latency, barrier
                 cycles that a warp waits, if nothing else can run
    atomic       cycles of L2 for a sector; same_address: for another atomic on one address
    p            of the norm
"""

from __future__ import annotations

from dataclasses import dataclass

from grader.counters import Counters, Launch
from grader.machine import Machine

SECTOR = 32  # bytes
SCHEDULERS = 4  # of a multiprocessor


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
    extra = max(0, len(counted.launches) + len(counted.api) - 1)
    filled = sum(call.bytes for call in counted.api) / constants["dram"]
    kernels = sum(price(launch, machine).seconds for launch in counted.launches)
    return constants["launch"] + extra * constants["next_launch"] + filled + kernels


def price(launch: Launch, machine: Machine) -> Modelled:
    """The times of one launch, resource by resource, and together."""
    constants = machine.model
    parts = _throughput(launch, machine) | {"latency": _latency(launch, machine)}
    p = constants["p"]
    longest = max(parts.values())
    together = 0.0
    if longest > 0:
        together = longest * sum((part / longest) ** p for part in parts.values()) ** (1 / p)
    return Modelled(launch, parts, together)


def _throughput(launch: Launch, machine: Machine) -> dict[str, float]:
    """Times that only depend on how much there is to do, and on how many multiprocessors do it."""
    constants = machine.model
    count = launch.counters.get
    dram = count("dram_read_sectors", 0) + count("dram_write_sectors", 0)
    dram += count("dirty_sectors_left", 0)
    l2 = count("l2_read_sectors", 0) + count("l2_write_sectors", 0) + count("l2_atomic_sectors", 0)
    waves = (
        count("shared_load_waves", 0)
        + count("shared_store_waves", 0)
        + count("shared_atomic_waves", 0)
    )
    cycle = _unevenness(launch, machine) / (machine.limits.sms * constants["clock"])
    return {
        "dram": SECTOR * dram / constants["dram"],
        "l2": SECTOR * l2 / constants["l2"],
        "requests": constants["request"] * count("l1_waves", 0) * cycle,
        "shared": constants["wave"] * waves * cycle,
        "instructions": constants["instruction"] * count("warp_instructions", 0) * cycle
        / SCHEDULERS,
        "atomics": (
            constants["atomic"] * count("l2_atomic_sectors", 0)
            + constants["same_address"] * count("global_atomics_on_one_address", 0)
        )
        / constants["clock"],
    }  # fmt: skip


def _unevenness(launch: Launch, machine: Machine) -> float:
    """How much longer the busiest multiprocessor works than the average of all."""
    sms, blocks = machine.limits.sms, max(1, launch.blocks)
    return -(-blocks // sms) * sms / blocks


def _latency(launch: Launch, machine: Machine) -> float:
    """What warps wait when they cannot hide each other's waits: the accesses and barriers of one
    warp after the other, as often as blocks follow each other on a multiprocessor."""
    constants = machine.model
    count = launch.counters.get
    sms, blocks = machine.limits.sms, max(1, launch.blocks)
    resident = max(1, launch.blocks_per_sm)
    rounds = max(1.0, blocks / (sms * resident))
    warps = max(1.0, count("warps", 1))
    # of an average warp; the busiest one of a launch that has one round only
    loads = max(
        count("global_load_requests", 0) / warps * rounds, count("busiest_warp_load_requests", 0)
    )
    shared = (count("shared_load_requests", 0) + count("shuffles", 0)) / warps * rounds
    barriers = max(count("warp_barriers", 0) / warps * rounds, count("busiest_block_barriers", 0))
    sectors = max(1.0, count("l1_hit_sectors", 0) + count("l2_read_sectors", 0))
    missed = count("dram_read_sectors", 0)
    wait = (
        count("l1_hit_sectors", 0) * constants["l1_latency"]
        + max(0.0, count("l2_read_sectors", 0) - missed) * constants["l2_latency"]
        + missed * constants["dram_latency"]
    ) / sectors
    cycles = loads * wait + shared * constants["shared_latency"] + barriers * constants["barrier"]
    return cycles / constants["clock"]


def ceiling(read: int, written: int, machine: Machine) -> float:
    """The time of the grader's probe: so many bytes read and written once, in seconds."""
    constants = machine.model
    return constants["ceiling_launch"] + (read + written) / constants["ceiling_dram"]
