"""Counts as the emulator tells them, made up: what tests of the model and of advice start from."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import strategies as st

from grader.counters import ApiCall, Buffer, Counters, Launch, Line
from grader.machine import Limits, Machine

# Constants so plain that a time can be computed by hand: a cycle is a nanosecond, a byte of device
# memory takes a picosecond.
CONSTANTS = {
    "clock": 1e9,
    "dram": 1e-12,
    "l2": 5e-13,
    "request": 1.0,
    "wave": 2.0,
    "shared_atomic": 4.0,
    "instruction": 1.0,
    "l1_latency": 30.0,
    "l2_latency": 200.0,
    "dram_latency": 500.0,
    "shared_latency": 20.0,
    "shuffle": 10.0,
    "barrier": 40.0,
    "round": 100.0,
    "block": 300.0,
    "atomic": 0.5,
    "turn": 0.25,
    "same_address": 3.0,
    "launch": 2e-6,
    "next_launch": 1e-6,
    "host": 2e-11,
    "p": 2.0,
    "q": 2.0,
    "ceiling_launch": 1e-6,
    "ceiling_read": 2e-12,
    "ceiling_write": 3e-12,
}
LIMITS = Limits(
    sms=10,
    threads_per_sm=2048,
    max_blocks_per_sm=32,
    shared_per_sm=200_000,
    l1_bytes=256_000,
    l2_bytes=50_000_000,
)
MACHINE = Machine("X100", LIMITS, CONSTANTS)

MB = 1 << 20
ARRAYS = [Buffer("out", 64 * MB, 0.0, 2.0 * MB, 0.0), Buffer("x", 64 * MB, 2.0 * MB, 0.0, 0.0)]


def launch(counters: dict[str, float] | None = None, **changes: Any) -> Launch:
    """A launch of 1000 blocks of 256 threads, 8 at a time on each of 10 multiprocessors."""
    made = Launch(
        kernel="scale",
        file="scale.cu",
        line=40,
        grid=(1000, 1, 1),
        block=(256, 1, 1),
        shared_static=0,
        shared_dynamic=0,
        sampled_blocks=4,
        truncated=False,
        blocks_per_sm=8,
        counters=counters or {},
        lines=[],
        buffers=[],
    )
    return msgspec.structs.replace(made, **changes)


def copying() -> Launch:
    """A launch that reads one large array and writes another, as well as that can be done: four
    floats a thread, neighbours side by side, each byte once."""
    requests = 64 * MB / 512  # 32 lanes with 16 bytes each
    sectors = 2.0 * MB
    lines = [
        Line("scale.cu", 10, "x", "load", requests, sectors, sectors),
        Line("scale.cu", 11, "out", "store", requests, sectors, sectors),
    ]
    counters = {
        "global_load_requests": requests,
        "global_store_requests": requests,
        "l1_waves": 8 * requests,
        "l2_read_sectors": sectors,
        "l2_write_sectors": sectors,
        "dram_read_sectors": sectors,
        "dram_write_sectors": sectors,
        "unique_read_sectors": sectors,
        "warp_instructions": 10 * requests,
    }
    return launch(counters, grid=(8192, 1, 1), lines=lines, buffers=ARRAYS)


def counted(*launches: Launch) -> Counters:
    return Counters([*launches])


def as_report(found: Counters, findings: str = "") -> str:
    """What a worker says: findings, an empty line, counters."""
    return f"{findings}\n{json.dumps(msgspec.to_builtins(found))}"


# What a worker under a submission's control may say: any numbers that are counts, however large.
NAMES = [
    *copying().counters, "dirty_sectors_left", "global_atomic_turns",
    "global_atomics_on_one_address", "l1_hit_sectors", "l2_atomic_sectors", "shuffles",
    "shared_load_waves", "block_barriers", "busiest_block_barriers", "busiest_warp_load_rounds",
]  # fmt: skip
NUMBERS = st.sampled_from([0.0, 1e-300, 0.5, 1.0, 33.0, 1e9, 1e18])
INTEGERS = st.sampled_from([0, 1, 31, 1025, 1 << 31, 10**18])
TRIPLES = st.tuples(INTEGERS, INTEGERS, INTEGERS)
LINES = st.builds(
    Line,
    file=st.sampled_from(["", "scale.cu", "../scale.cu", "/"]),
    line=INTEGERS,
    buffer=st.text(max_size=3),
    kind=st.sampled_from(["load", "store", "atomic", "shared_load", "shared_store", "x"]),
    requests=NUMBERS,
    sectors=NUMBERS,
    ideal_sectors=NUMBERS,
    waves=NUMBERS,
    ideal_waves=NUMBERS,
)
BUFFERS = st.builds(
    Buffer,
    name=st.text(max_size=3),
    bytes=INTEGERS,
    read_sectors=NUMBERS,
    written_sectors=NUMBERS,
    in_l2=NUMBERS,
)
LAUNCHES = st.builds(
    Launch,
    kernel=st.text(max_size=3),
    file=st.text(max_size=3),
    line=INTEGERS,
    grid=TRIPLES,
    block=TRIPLES,
    shared_static=INTEGERS,
    shared_dynamic=INTEGERS,
    sampled_blocks=INTEGERS,
    truncated=st.booleans(),
    blocks_per_sm=INTEGERS,
    counters=st.dictionaries(st.sampled_from(NAMES), NUMBERS, max_size=12),
    lines=st.lists(LINES, max_size=3),
    buffers=st.lists(BUFFERS, max_size=3),
)
CALLS = st.builds(ApiCall, call=st.text(max_size=3), bytes=INTEGERS)
ANY_COUNTS = st.builds(Counters, st.lists(LAUNCHES, max_size=3), st.lists(CALLS, max_size=3))
