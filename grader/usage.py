"""What each kernel takes of a GPU: registers, spills, shared memory, as `ptxas -v` tells.

ptxas info    : Compiling entry function 'void scale<float>(float*)' for 'sm_90'
ptxas info    : Function properties for void scale<float>(float*)
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 8448 bytes smem
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

ENTRY = re.compile(r"^ptxas info +: Compiling entry function '(.*)' for '\w+'$")
FUNCTION = re.compile(r"^ptxas info +: Function properties for (.*)$")
STACK = re.compile(
    r"^ +(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads$"
)
USED = re.compile(r"^ptxas info +: Used (\d+) registers(?:,|$)")
EMPTY = re.compile(r"cub::.*\bEmptyKernel<.*>")  # CUB asks it questions, nobody runs it
SHARED = re.compile(r"\b(\d+) bytes smem\b")


@dataclass(frozen=True)
class Usage:
    """One kernel as compiled for one architecture.

    kernel: its name with template arguments, without its parameters. registers: per thread.
    spill_stores, spill_loads, stack: bytes per thread, in slow local memory.
    shared: bytes per block that are known when it is compiled.
    """

    kernel: str
    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared: int = 0
    stack: int = 0


def parse(log: str) -> tuple[Usage, ...]:
    """All kernels in a log of nvcc with `-Xptxas -v`, whose symbols were demangled, by name."""
    found: list[Usage] = []
    entry = ""
    own = False  # the properties that come next are the kernel's, not those of one it calls
    for line in log.splitlines():
        if match := ENTRY.match(line):
            entry = match[1]
            found.append(Usage(kernel_name(entry)))
        elif match := FUNCTION.match(line):
            own = match[1] == entry
        elif not found:
            continue
        elif own and (match := STACK.match(line)):
            stack, stores, loads = map(int, match.groups())
            found[-1] = replace(found[-1], stack=stack, spill_stores=stores, spill_loads=loads)
        elif match := USED.match(line):
            shared = SHARED.search(line)
            found[-1] = replace(
                found[-1], registers=int(match[1]), shared=int(shared[1]) if shared else 0
            )
    # a set: two files that include one kernel compile it alike
    kernels = {usage for usage in found if not EMPTY.fullmatch(usage.kernel)}
    return tuple(sorted(kernels, key=lambda usage: (usage.kernel, usage.registers)))


def kernel_name(signature: str) -> str:
    """`void scale<float, 4>(float*, int)` -> `scale<float, 4>`.

    Only templates have a return type in front; brackets inside of brackets are left alone.
    """
    name = signature.replace("(anonymous namespace)::", "")
    depth = 0
    start, end = 0, len(name)
    for place, letter in enumerate(name):
        if letter in "<{[":
            depth += 1
        elif letter in ">}]":
            depth -= 1
        elif depth == 0 and letter == " ":
            start = place + 1
        elif depth == 0 and letter == "(":
            end = place
            break
    return name[start:end]


def write(path: Path, usage: Sequence[Usage]) -> None:
    """Keep it as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(list(usage))) + b"\n")


def read(path: Path) -> tuple[Usage, ...]:
    """What `write` kept."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[Usage, ...])
