"""What a launcher costs and why: counters and modelled times per part, kernel and line of source.

Nothing is timed and nothing is judged: this is `grader profile`, the emulator's stand-in for a
profiler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from grader import advice, build, machine, model, modelled, quote, sandbox, submission
from grader.advice import Advice
from grader.assignment import Assignment
from grader.counters import Counters, Launch, Line
from grader.errors import UsageError, did_you_mean
from grader.machine import Machine
from grader.manifest import Part
from grader.session import Fault, Session

LINES = 12  # of a kernel: the rest costs next to nothing
KERNELS = 6
ADVICE = 6
KB, MB = 1e3, 1e6


class KernelProfile(msgspec.Struct, frozen=True):
    """One launch. seconds: modelled. parts: resource -> seconds, if that were all."""

    launch: Launch
    seconds: float
    limit: str
    parts: dict[str, float]


class PartProfile(msgspec.Struct, frozen=True):
    """One call of a part's launcher. fraction: of the memory ceiling. fault: why there is nothing
    to tell, if it went wrong."""

    part: str
    title: str
    dims: dict[str, int]
    seconds: float
    ceiling: float
    fraction: float
    kernels: list[KernelProfile]
    advice: list[Advice]
    fault: str = ""


def profile(
    folder: str | Path,
    used: Assignment,
    parts: Sequence[str] = (),
    dims: Mapping[str, int] | None = None,
    on: Machine | None = None,
) -> list[PartProfile]:
    """Profile the submission in a folder, at the given size or the first that is timed.

    Raises Rejected and BuildFailed as grading would, and UsageError for an unknown part.
    """
    on = on or machine.load()
    box = sandbox.choose()
    wanted = [used.part(name) for name in dict.fromkeys(parts)] or list(used.parts)
    module = build.build(submission.read(folder, used), used, box)
    found = []
    for part in wanted:
        size = dict(dims or _first_shape(used, part))
        with Session(module, box) as session:
            counted = modelled.count(session, used, part, size, on)
        if isinstance(counted, Fault):
            nothing = PartProfile(part.id, part.title, size, 0, 0, 0, [], [], counted.sentence)
            found.append(nothing)
        else:
            found.append(_priced(counted, used, part, size, on))
    return found


def _priced(
    counted: Counters, used: Assignment, part: Part, dims: dict[str, int], on: Machine
) -> PartProfile:
    shape = modelled.price(counted, used, part, dims, on)
    return PartProfile(
        part=part.id,
        title=part.title,
        dims=dims,
        seconds=shape.seconds,
        ceiling=shape.ceiling,
        fraction=shape.fraction,
        kernels=kernels(counted, on),
        advice=advice.advise(counted, on),
    )


def kernels(counted: Counters, on: Machine) -> list[KernelProfile]:
    """All launches of a call, priced."""
    priced = [model.price(launch, on) for launch in counted.launches]
    return [KernelProfile(one.launch, one.seconds, one.limit, one.parts) for one in priced]


def _first_shape(used: Assignment, part: Part) -> dict[str, int]:
    for name in used.tests_of(part):
        for shape in used.test(name).shapes:
            return shape
    raise UsageError(
        f"the part {part.id} has no shapes that are timed: say one, such as --shape "
        + ",".join(f"{name}=1024" for name in used.dimensions)
    )


def parse_shape(text: str, used: Assignment) -> dict[str, int]:
    """A size such as "rows=8192,cols=1024". Raises UsageError with what is wrong in it."""
    given = dict(item.split("=", 1) for item in text.split(",") if "=" in item)
    for name in given:
        if name not in used.dimensions:
            raise UsageError(
                f"unknown dimension {name!r} in --shape{did_you_mean(name, used.dimensions)}"
            )
    for name in used.dimensions:
        value = given.get(name, "")
        if not (re.fullmatch("[0-9]{1,10}", value) and 1 <= int(value) < 1 << 31):
            raise UsageError(f"--shape must say {name}=... with a size of at least 1")
    return {name: int(given[name]) for name in used.dimensions}


# As text -----------------------------------------------------------------------------------------


def show(found: Sequence[PartProfile], folder: Path, on: Machine | None = None) -> str:
    """All of it for a terminal."""
    on = on or machine.load()
    lines: list[str] = []
    for part in found:
        lines += [*_part(part, folder, on), ""]
    return "\n".join(lines).rstrip()


def _part(part: PartProfile, folder: Path, on: Machine) -> Iterator[str]:
    sizes = " ".join(f"{name}={size}" for name, size in part.dims.items())
    if part.fault:
        yield f"{part.title}, {sizes}: {part.fault}"
        return
    yield (
        f"{part.title}, {sizes}: {_time(part.seconds)} modelled for an {on.name}, memory ceiling "
        f"{_time(part.ceiling)}: {part.fraction:.2f} of it"
    )
    for kernel in part.kernels[:KERNELS]:
        yield ""
        yield from _kernel(kernel, on)
    if len(part.kernels) > KERNELS:
        yield f"\n  and {len(part.kernels) - KERNELS} more launches"
    for number, one in enumerate(part.advice[:ADVICE]):
        if number == 0:
            yield "\n  What would help most:"
        place = f"{one.file}:{one.line}: " if one.file else ""
        yield f"  - {place}{one.message}"
        yield from (f"      {line}" for line in quote.lines(place, folder))


def _kernel(kernel: KernelProfile, on: Machine) -> Iterator[str]:
    launch, count = kernel.launch, kernel.launch.counters.get
    grid = " x ".join(str(size) for size in launch.grid if size > 1) or "1"
    resident = launch.blocks_per_sm * launch.threads / on.limits.threads_per_sm
    yield (
        f"  {launch.kernel}, {grid} blocks of {launch.threads} threads "
        f"({launch.file}:{launch.line}): {_time(kernel.seconds)}, limited by {kernel.limit}"
    )
    times = sorted(kernel.parts.items(), key=lambda item: -item[1])
    yield "    alone: " + ", ".join(f"{name} {_time(spent)}" for name, spent in times if spent)
    read, least = count("dram_read_sectors", 0), count("unique_read_sectors", 0)
    written = count("dram_write_sectors", 0) + count("dirty_sectors_left", 0)
    yield (
        f"    device memory: {_bytes(read)} read (at least {_bytes(least)}), {_bytes(written)} "
        f"written; L2: {_bytes(count('l2_read_sectors', 0))} read, "
        f"{_bytes(count('l2_write_sectors', 0))} written"
    )
    shared = launch.shared_static + launch.shared_dynamic
    yield (
        f"    {launch.blocks_per_sm} blocks on a multiprocessor (occupancy {min(1, resident):.0%}, "
        f"registers not counted), {shared} bytes of shared memory a block, "
        f"{count('block_barriers', 0) / max(1, launch.blocks):.0f} barriers a block, "
        f"{count('warp_instructions', 0):.3g} warp instructions"
    )
    if launch.truncated:
        yield "    it was too long to be run to its end: the figures are of its beginning"
    yield from _table(launch.lines, on)


def _table(lines: Sequence[Line], on: Machine) -> Iterator[str]:
    """The most expensive lines first."""
    worst = sorted(lines, key=lambda line: -advice.cost(line, on))[:LINES]
    if not worst:
        return
    rows = [("line", "access", "requests", "sectors each (ideal)", "passes each (ideal)")]
    rows += [
        (
            f"{line.file}:{line.line}",
            f"{line.kind.replace('_', ' ')} {line.buffer}",
            f"{line.requests:.0f}",
            _each(line.sectors, line.ideal_sectors, line.requests),
            _each(line.waves, line.ideal_waves, line.requests),
        )
        for line in worst
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)]
        yield "    " + "  ".join(cells).rstrip()


def _each(real: float, ideal: float, requests: float) -> str:
    return f"{real / requests:.1f} ({ideal / requests:.1f})" if requests and real else ""


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} us"


def _bytes(sectors: float) -> str:
    size = model.SECTOR * sectors
    return f"{size / MB:.1f} MB" if size >= MB else f"{size / KB:.1f} kB"
