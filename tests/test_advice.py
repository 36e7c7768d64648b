"""Advice about speed: each rule speaks where its waste is, and nowhere else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from grader import machine, model
from grader.advice import Advice, advise
from grader.counters import ApiCall, Buffer, Counters, Launch, Line
from tests.fake_counts import ANY_COUNTS, ARRAYS, LIMITS, MACHINE, MB, copying, counted, launch

SECTORS = 2.0 * MB  # of each array of a copying launch


def changed(line: dict[str, Any] | None = None, **changes: Any) -> Launch:
    """A launch that copies, but for some fields, also of the line that loads."""
    made = copying()
    load, store = made.lines
    made = msgspec.structs.replace(made, lines=[msgspec.structs.replace(load, **line or {}), store])
    return msgspec.structs.replace(made, **changes)


def with_counts(made: Launch, **counts: float) -> Launch:
    return msgspec.structs.replace(made, counters=made.counters | counts)


def kinds(*launches: Launch) -> list[str]:
    return [one.kind for one in advise(counted(*launches), MACHINE)]


def only(*launches: Launch) -> Advice:
    (one,) = advise(counted(*launches), MACHINE)
    assert one.waste > 0
    return one


def in_shared_memory(**changes: Any) -> Launch:
    """A launch that copies by way of shared memory, in as few passes as possible."""
    line = Line("scale.cu", 20, "tile", "shared_load", 1e6, 0, 0, 1e6, 1e6)
    made = copying()
    lines = [*made.lines, msgspec.structs.replace(line, **changes)]
    return msgspec.structs.replace(made, lines=lines)


def test_nothing_to_say_of_a_launch_that_does_as_well_as_can_be() -> None:
    for on in (MACHINE, machine.load()):
        assert advise(counted(copying()), on) == []
        assert advise(counted(in_shared_memory()), on) == []


def test_nothing_to_say_of_a_call_that_does_nothing() -> None:
    assert advise(Counters([]), MACHINE) == []
    assert advise(counted(launch()), MACHINE) == []


# Lines -------------------------------------------------------------------------------------------


def test_a_thread_a_row() -> None:
    one = only(changed({"sectors": 4 * SECTORS}))
    assert (one.kind, one.file, one.line) == ("uncoalesced", "scale.cu", 10)
    assert one.message == (
        "each warp load of `x` touches 64 sectors of 32 bytes where 16 would do: neighbouring "
        "threads should read neighbouring elements"
    )
    assert one.waste == pytest.approx(3 * SECTORS * 32 * MACHINE.model["l2"])


def test_stores_are_written() -> None:
    made = copying()
    load, store = made.lines
    lines = [load, msgspec.structs.replace(store, sectors=2 * SECTORS)]
    one = only(msgspec.structs.replace(made, lines=lines))
    assert (one.kind, one.line) == ("uncoalesced", 11)
    assert "warp store of `out`" in one.message
    assert "threads should write neighbouring" in one.message


@pytest.mark.parametrize(
    ("factor", "kind"), [(1.9, []), (2.0, ["uncoalesced"]), (8.0, ["uncoalesced"])]
)
def test_twice_the_sectors_are_too_many(factor: float, kind: list[str]) -> None:
    assert kinds(changed({"sectors": factor * SECTORS})) == kind


def test_a_broadcast_touches_one_sector_at_least() -> None:
    """One float for all lanes: an eighth of a sector would hold it."""
    made = changed({"requests": SECTORS, "sectors": SECTORS, "ideal_sectors": SECTORS / 8})
    assert "touches 1 sectors of 32 bytes where 1 would do" in only(made).message


def test_lines_with_little_of_the_traffic_are_not_worth_a_word() -> None:
    rare = Line("scale.cu", 12, "y", "load", 1e3, 3.2e4, 4e3)
    made = copying()
    assert kinds(msgspec.structs.replace(made, lines=[*made.lines, rare])) == []


def test_a_column_of_a_tile() -> None:
    one = only(in_shared_memory(waves=32e6))
    assert (one.kind, one.file, one.line) == ("bank_conflicts", "scale.cu", 20)
    assert one.message.startswith(
        "each warp load of `tile` takes 32 passes over the 32 banks of shared memory where 1 would "
        "do"
    )
    assert one.waste == pytest.approx(31e6 * 2.0 * 1e-9 / 10)


@pytest.mark.parametrize("kind", ["shared_store", "shared_atomic"])
def test_other_accesses_to_shared_memory_conflict_too(kind: str) -> None:
    one = only(in_shared_memory(waves=2e6, kind=kind))
    assert f"each warp {kind.removeprefix('shared_')} of `tile` takes 2 passes" in one.message


def test_a_float4_needs_four_passes_anyway() -> None:
    assert kinds(in_shared_memory(waves=4e6, ideal_waves=4e6)) == []


def scalar(**counts: float) -> Launch:
    """Four bytes a thread: four times as many requests for the same sectors."""
    requests = 4 * copying().lines[0].requests
    made = changed({"requests": requests})
    store = msgspec.structs.replace(made.lines[1], requests=requests)
    made = msgspec.structs.replace(made, lines=[made.lines[0], store])
    return with_counts(made, global_load_requests=requests, **counts)


def test_single_floats_where_requests_are_what_it_waits_for() -> None:
    load, store = advise(counted(scalar(l1_waves=1e8)), MACHINE)
    assert (load.kind, load.line) == ("scalar_accesses", 10)
    assert load.message.startswith("each thread moves 4 bytes of `x` at a time: a float4 needs a")
    assert (store.kind, store.line) == ("scalar_accesses", 11)
    assert "4 bytes of `out`" in store.message


def test_single_floats_cost_nothing_where_memory_is_what_it_waits_for() -> None:
    made = msgspec.structs.replace(scalar(), blocks_per_sm=32)
    assert model.price(made, MACHINE).limit == "device memory"
    assert kinds(made) == []


# Launches ----------------------------------------------------------------------------------------


def reading_twice(buffers: list[Buffer], name: str = "x") -> Launch:
    made = copying()
    load, store = made.lines
    again = msgspec.structs.replace(load, line=15)
    lines = [msgspec.structs.replace(one, buffer=name) for one in (load, again)]
    return msgspec.structs.replace(made, lines=[*lines, store], buffers=buffers)


def test_an_array_that_is_read_twice() -> None:
    one = only(reading_twice(ARRAYS))
    assert (one.kind, one.line) == ("read_again", 15), "where it was last read"
    assert one.message.startswith("`x` is read 2.0 times in this kernel: keep what a thread has")


def test_small_arrays_may_be_read_as_often_as_one_likes() -> None:
    """A vector that every block reads stays in L2."""
    small = Buffer("weights", 4096, 128.0, 0.0, 0.9)
    assert kinds(reading_twice([*ARRAYS, small], "weights")) == []


def test_what_has_left_the_cache_is_read_from_memory_again() -> None:
    one = only(with_counts(copying(), dram_read_sectors=1.5 * SECTORS))
    assert (one.kind, one.line) == ("traffic", 40), "the launch"
    assert one.message.startswith("scale reads 1.5 times as much from device memory as it has to")
    assert one.waste == pytest.approx(0.5 * SECTORS * 32 * 1e-12)


@pytest.mark.parametrize(
    ("blocks", "said"), [(1, "1 block for"), (4, "4 blocks for"), (9, "9 blocks for"), (10, "")]
)
def test_multiprocessors_without_a_block(blocks: int, said: str) -> None:
    found = advise(counted(changed(grid=(1, blocks, 1))), MACHINE)
    assert [one.kind for one in found] == (["few_blocks"] if said else [])
    assert all(one.message.startswith(f"scale has {said} 10 multi") for one in found)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"blocks_per_sm": 1, "shared_static": 100_000, "shared_dynamic": 1}, "100001 bytes"),
        ({"blocks_per_sm": 32, "block": (15, 1, 1)}, "because blocks have 15 threads"),
    ],
)
def test_few_threads_on_a_multiprocessor(changes: dict[str, Any], reason: str) -> None:
    made = with_counts(changed(**changes), shuffles=1e7)
    one = only(made)
    assert one.kind == "low_occupancy"
    assert reason in one.message
    assert one.waste == pytest.approx(0.5 * model.price(made, MACHINE).parts["latency"])


def test_a_quarter_of_the_threads_is_enough() -> None:
    fitting = changed(blocks_per_sm=LIMITS.threads_per_sm // 4 // 256)
    assert kinds(with_counts(fitting, shuffles=1e7)) == []


def atomics(meeting: float) -> Launch:
    line = Line("scale.cu", 30, "sum", "atomic", 1e5, 1e5, 1e5)
    made = copying()
    made = msgspec.structs.replace(made, lines=[*made.lines, line])
    return with_counts(made, global_atomics_on_one_address=meeting)


def test_atomics_that_meet_on_one_address() -> None:
    one = only(atomics(1e5))
    assert (one.kind, one.line) == ("contention", 30), "where most of them are"
    assert one.message.startswith("100000 atomics meet on one address")
    assert one.waste == pytest.approx(1e5 * 3e-9)


@pytest.mark.parametrize("meeting", [63.0, 1000.0])
def test_a_few_atomics_do_no_harm(meeting: float) -> None:
    assert kinds(atomics(meeting)) == []


# Calls -------------------------------------------------------------------------------------------


def small(line: int) -> Launch:
    return launch({"l1_waves": 1e4}, line=line)


def test_a_call_of_many_launches() -> None:
    found = Counters([small(1), small(2), small(3)], [ApiCall("cudaMemset", 4)])
    (one,) = advise(found, MACHINE)
    assert (one.kind, one.line) == ("launches", 1)
    assert one.message == (
        "a call makes 4 launches, copies and fills, and starting them takes 3 us: do more in each"
    )
    assert one.waste == pytest.approx(3e-6)


def test_three_launches_or_long_ones_are_fine() -> None:
    assert kinds(small(1), small(2), small(3)) == []
    long = with_counts(copying(), l1_waves=1e8)
    assert kinds(*[msgspec.structs.replace(long, line=line) for line in range(4)]) == []


# All of it ---------------------------------------------------------------------------------------


def test_the_most_expensive_comes_first() -> None:
    conflicts = in_shared_memory(waves=4e6)
    worse = msgspec.structs.replace(conflicts.lines[0], line=9, sectors=64 * SECTORS)
    both = msgspec.structs.replace(conflicts, lines=[*conflicts.lines[1:], worse])
    found = advise(counted(both), MACHINE)
    assert [one.kind for one in found] == ["uncoalesced", "bank_conflicts"]
    assert found[0].waste > found[1].waste


def test_a_place_is_told_once_by_its_worst_launch() -> None:
    first, worst, last = (changed({"sectors": each * SECTORS}) for each in (4, 16, 8))
    one = only(first, worst, last)
    assert "touches 256 sectors" in one.message


def test_what_takes_a_hundredth_of_the_time_is_not_worth_a_word() -> None:
    """As a second kernel that adds up what the first has left: its few blocks do no harm."""
    little = launch({"dram_read_sectors": 100.0}, grid=(4, 1, 1))
    assert kinds(little) == ["few_blocks"]
    assert kinds(copying(), little) == []


@given(ANY_COUNTS)
def test_no_counts_are_too_strange(found: Counters) -> None:
    for one in advise(found, MACHINE):
        assert one.waste >= 0 and one.message
