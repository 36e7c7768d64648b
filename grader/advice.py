"""What would make a launcher faster, from what the emulator counted of it: sentences for a student.

Each rule looks at one kind of waste that the hardware counters of a profiler would show, says how
large it is and what to do. Advice costs no marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from grader import model
from grader.counters import Counters, Launch, Line
from grader.machine import Machine

SHARE = 0.05  # of all traffic of its kind: less than that is not worth a word
LEAST = 0.02  # of the time of a call: less waste is not, either
SMALL = 0.1  # of all arrays: those that are smaller fit into a cache


class Advice(msgspec.Struct, frozen=True):
    """file and line are those of the access, or of the launch. waste: seconds, roughly."""

    kind: str
    file: str
    line: int
    message: str
    waste: float


def advise(counted: Counters, machine: Machine) -> list[Advice]:
    """The most expensive first."""
    found: list[Advice] = []
    for launch in counted.launches:
        for rule in RULES:
            found += rule(launch, machine)
    found += _many_launches(counted, machine)
    worst: dict[tuple[str, str, int], Advice] = {}
    for one in found:
        place = (one.kind, one.file, one.line)
        if place not in worst or worst[place].waste < one.waste:
            worst[place] = one
    least = LEAST * model.seconds(counted, machine)
    worth = [one for one in worst.values() if one.waste >= least]
    return sorted(worth, key=lambda one: -one.waste)


# Rules about a line of source --------------------------------------------------------------------


def _uncoalesced(launch: Launch, machine: Machine) -> Iterator[Advice]:
    """Sectors that hold bytes nobody asked for."""
    lines = [line for line in launch.lines if line.kind in ("load", "store")]
    total = sum(line.sectors for line in lines)
    for line in lines:
        if not _much(line.requests, line.sectors, 2 * line.ideal_sectors, total):
            continue
        each, ideal = line.sectors / line.requests, line.ideal_sectors / line.requests
        verb = "read" if line.kind == "load" else "write"
        yield Advice(
            "uncoalesced",
            line.file,
            line.line,
            f"each warp {line.kind} of `{line.buffer}` touches {each:.0f} sectors of 32 bytes "
            f"where {max(1, ideal):.0f} would do: neighbouring threads should {verb} neighbouring "
            "elements",
            (line.sectors - line.ideal_sectors) * model.SECTOR * machine.model["l2"],
        )


def _bank_conflicts(launch: Launch, machine: Machine) -> Iterator[Advice]:
    lines = [line for line in launch.lines if line.kind.startswith("shared_")]
    total = sum(line.waves for line in lines)
    for line in lines:
        if not _much(line.requests, line.waves, 1.5 * line.ideal_waves, total):
            continue
        each, ideal = line.waves / line.requests, line.ideal_waves / line.requests
        what = line.kind.removeprefix("shared_")
        yield Advice(
            "bank_conflicts",
            line.file,
            line.line,
            f"each warp {what} of `{line.buffer}` takes {each:.0f} passes over the 32 banks of "
            f"shared memory where {ideal:.0f} would do: let the threads of a warp use different "
            "banks, for example by one more column in each row of the array",
            (line.waves - line.ideal_waves)
            * machine.model["wave"]
            / (machine.limits.sms * machine.model["clock"]),
        )


def _much(requests: float, seen: float, usual: float, total: float) -> bool:
    """Whether a line does more than is usual, and enough of all to be worth a word."""
    return requests > 0 and seen > 0 and seen >= max(usual, SHARE * total)


def _scalar_accesses(launch: Launch, machine: Machine) -> Iterator[Advice]:
    """Neighbouring elements one by one, although four at a time would be a quarter of the work."""
    price = model.price(launch, machine)
    if price.limit not in ("requests", "latency", "instructions"):
        return
    lines = [line for line in launch.lines if line.kind in ("load", "store")]
    total = sum(line.requests for line in lines)
    for line in lines:
        each = line.sectors / line.requests if line.requests else 0.0
        if line.requests < 4 * SHARE * total or not 3.5 < each < 5.5:
            continue
        yield Advice(
            "scalar_accesses",
            line.file,
            line.line,
            f"each thread moves 4 bytes of `{line.buffer}` at a time: a float4 needs a quarter of "
            "the instructions and requests, and keeps more bytes on their way",
            0.5
            * line.requests
            / max(1.0, launch.counters.get("global_load_requests", 1.0))
            * price.parts[price.limit],
        )


# Rules about a launch ----------------------------------------------------------------------------


def _read_again(launch: Launch, machine: Machine) -> Iterator[Advice]:
    """Arrays too large for a cache that are read several times."""
    largest = max((buffer.bytes for buffer in launch.buffers), default=0)
    for buffer in launch.buffers:
        reads = [
            line for line in launch.lines if line.kind == "load" and line.buffer == buffer.name
        ]
        if buffer.bytes < SMALL * largest or not buffer.read_sectors or not reads:
            continue
        times = sum(line.ideal_sectors for line in reads) / buffer.read_sectors
        if times < 1.75:
            continue
        last = max(reads, key=lambda line: line.line)
        yield Advice(
            "read_again",
            last.file,
            last.line,
            f"`{buffer.name}` is read {times:.1f} times in this kernel: keep what a thread has "
            "read in registers, or the row in shared memory",
            (times - 1) * buffer.read_sectors * model.SECTOR * machine.model["l2"],
        )


def _memory_twice(launch: Launch, machine: Machine) -> Iterator[Advice]:
    read = launch.counters.get("dram_read_sectors", 0.0)
    least = sum(buffer.read_sectors for buffer in launch.buffers)
    if not least or read < 1.3 * least:
        return
    yield Advice(
        "traffic",
        launch.file,
        launch.line,
        f"{launch.kernel} reads {read / least:.1f} times as much from device memory as it has to: "
        "what is used again has left the cache by then, so use it while it is there",
        (read - least) * model.SECTOR * machine.model["dram"],
    )


def _few_blocks(launch: Launch, machine: Machine) -> Iterator[Advice]:
    sms = machine.limits.sms
    if launch.blocks >= sms:
        return
    yield Advice(
        "few_blocks",
        launch.file,
        launch.line,
        f"{launch.kernel} has {launch.blocks} block{'' if launch.blocks == 1 else 's'} for {sms} "
        "multiprocessors, and the others have nothing to do: share the work among more blocks",
        (1 - launch.blocks / sms) * model.price(launch, machine).seconds,
    )


def _low_occupancy(launch: Launch, machine: Machine) -> Iterator[Advice]:
    limits = machine.limits
    resident = launch.blocks_per_sm * launch.threads
    if resident >= limits.threads_per_sm / 4 or launch.blocks < limits.sms:
        return
    shared = launch.shared_static + launch.shared_dynamic
    reason = (
        f"a block takes {shared} bytes of shared memory"
        if shared * (launch.blocks_per_sm + 1) > limits.shared_per_sm
        else f"blocks have {launch.threads} threads"
    )
    yield Advice(
        "low_occupancy",
        launch.file,
        launch.line,
        f"only {resident} of {limits.threads_per_sm} threads of {launch.kernel} fit on a "
        f"multiprocessor together, because {reason}: there is little to do while loads are on "
        "their way",
        0.5 * model.price(launch, machine).parts["latency"],
    )


def _contention(launch: Launch, machine: Machine) -> Iterator[Advice]:
    meeting = launch.counters.get("global_atomics_on_one_address", 0.0)
    spent = model.price(launch, machine)
    if meeting < 64 or spent.parts["atomics"] < 0.2 * spent.seconds:
        return
    lines = [line for line in launch.lines if line.kind == "atomic"]
    busiest = max(lines, key=lambda line: line.requests, default=None)
    yield Advice(
        "contention",
        busiest.file if busiest else launch.file,
        busiest.line if busiest else launch.line,
        f"{meeting:.0f} atomics meet on one address: they take place one after another; add up "
        "within a thread, a warp and a block first, and use one atomic for each block",
        spent.parts["atomics"],
    )


Rule = Callable[[Launch, Machine], Iterator[Advice]]
RULES: tuple[Rule, ...] = (
    _uncoalesced,
    _bank_conflicts,
    _scalar_accesses,
    _read_again,
    _memory_twice,
    _few_blocks,
    _low_occupancy,
    _contention,
)


def _many_launches(counted: Counters, machine: Machine) -> Iterator[Advice]:
    """What the call as a whole spends on starting work."""
    more = model.further(counted)
    spent = more * machine.model["next_launch"]
    if more < 3 or spent < 0.1 * model.seconds(counted, machine):
        return
    first = counted.launches[0] if counted.launches else None
    yield Advice(
        "launches",
        first.file if first else "",
        first.line if first else 0,
        f"a call makes {more + 1} launches, copies and fills, and starting them takes "
        f"{1e6 * spent:.0f} us: do more in each",
        spent,
    )


def cost(line: Line, machine: Machine) -> float:
    """Seconds that the accesses of a line would take alone: what lines are sorted by."""
    cycle = 1 / (machine.limits.sms * machine.model["clock"])
    return (
        line.sectors * model.SECTOR * machine.model["l2"]
        + line.requests * machine.model["request"] * cycle
        + line.waves * machine.model["wave"] * cycle
    )
