"""From counts to time: prices that were computed by hand, and what must hold for all counts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import machine, model
from grader.counters import ApiCall, Buffer, Counters
from tests.fake_counts import LIMITS, MACHINE, MB, counted, launch

NS = 1e-9  # a cycle of the machine

# What every launch of 1000 blocks costs, 8 x 10 of which run at a time: 12.5 starts and ends.
BLOCKS = 12.5 * 300 * NS


def alone(counters: dict[str, float], **changes: Any) -> dict[str, float]:
    """Resource -> seconds, those that take none left out."""
    parts = model.price(launch(counters, **changes), MACHINE).parts
    return {name: spent for name, spent in parts.items() if spent > 0}


# The norm ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "p", "norm"),
    [
        ([3.0, 4.0], 1.0, 7.0),
        ([3.0, 4.0], 2.0, 5.0),
        ([2.0, 2.0, 2.0, 2.0], 2.0, 4.0),
        ([3.0, 4.0], 100.0, 4.0),
        ([5.0, 0.0], 2.6, 5.0),
        ([0.0, 0.0], 2.6, 0.0),
        ([3e-200, 4e-200], 2.0, 5e-200),
    ],
)
def test_the_norm_by_hand(times: list[float], p: float, norm: float) -> None:
    assert model.norm(times, p) == pytest.approx(norm, rel=1e-9)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=8), st.floats(1, 50))
def test_the_norm_lies_between_the_longest_and_the_sum(times: list[float], p: float) -> None:
    norm = model.norm(times, p)
    assert max(times) * (1 - 1e-12) <= norm <= sum(times) * (1 + 1e-12)


# One launch, one demand --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counters", "resource", "seconds"),
    [
        # 4e6 sectors of 32 bytes, a picosecond each
        (
            {"dram_read_sectors": 1e6, "dram_write_sectors": 2e6, "dirty_sectors_left": 1e6},
            "device memory",
            128e-6,
        ),
        # half a picosecond
        ({"l2_read_sectors": 1e6, "l2_write_sectors": 3e6}, "L2", 64e-6),
        # a tenth of them on each multiprocessor
        ({"l1_waves": 1e6}, "requests", 1e5 * NS),
        ({"shared_load_waves": 1e5, "shared_store_waves": 2e5}, "shared memory", 6e4 * NS),
        ({"shared_atomic_waves": 1e5}, "shared memory", 4e4 * NS),
        # four schedulers on each
        ({"warp_instructions": 4e6}, "instructions", 1e5 * NS),
        ({"global_atomic_turns": 1e5}, "atomics", 2.5e4 * NS),
        ({"global_atomics_on_one_address": 1e4}, "atomics", 3e4 * NS),
    ],
)
def test_a_launch_with_one_demand(
    counters: dict[str, float], resource: str, seconds: float
) -> None:
    assert alone(counters) == pytest.approx({resource: seconds, model.LATENCY: BLOCKS})
    priced = model.price(launch(counters), MACHINE)
    assert priced.limit == resource
    # a block does an eighth of the work of its multiprocessor while it waits
    waiting = BLOCKS + seconds / 8
    assert priced.seconds == pytest.approx(math.sqrt(seconds**2 + waiting**2))


def test_atomics_travel_through_l2_and_are_done_there() -> None:
    found = alone({"l2_atomic_sectors": 1e6})
    assert found == pytest.approx({"L2": 16e-6, "atomics": 5e5 * NS, model.LATENCY: BLOCKS})


def test_demands_of_throughput_overlap_but_not_perfectly() -> None:
    counters = {"dram_read_sectors": 3e6, "l1_waves": 1.28e6}  # 96 us and 128 us
    busy = 160e-6
    expected = math.sqrt(busy**2 + (BLOCKS + busy / 8) ** 2)
    assert model.price(launch(counters), MACHINE).seconds == pytest.approx(expected)


# Waiting -----------------------------------------------------------------------------------------

# 8000 warps; on a multiprocessor 12.5 turns of blocks follow each other.
EACH = 8000.0


@pytest.mark.parametrize(
    ("counters", "cycles"),
    [
        ({"shuffles": 4 * EACH, "votes": EACH}, 12.5 * 5 * 10),
        ({"warp_barriers": 3 * EACH}, 12.5 * 3 * 40),
        ({"shared_load_requests": 2 * EACH}, 12.5 * 2 * 20),
        ({"shared_atomic_requests": 2 * EACH}, 12.5 * 2 * 20),
        ({"busiest_block_barriers": 7.0}, 7 * 40),
        # the first load after a barrier, in every turn
        ({"busiest_warp_load_rounds": 3.0}, 12.5 * 3 * 100),
    ],
)
def test_what_a_warp_waits_for(counters: dict[str, float], cycles: float) -> None:
    assert alone(counters) == pytest.approx({model.LATENCY: BLOCKS + cycles * NS})


@pytest.mark.parametrize(
    ("where", "cycles"),
    [
        ({"l1_hit_sectors": 6e4}, 30),
        ({"l2_read_sectors": 6e4}, 200),
        ({"l2_read_sectors": 6e4, "dram_read_sectors": 6e4}, 500),
        ({"l1_hit_sectors": 3e4, "l2_read_sectors": 3e4}, 115),
        ({"l1_hit_sectors": 2e4, "l2_read_sectors": 4e4, "dram_read_sectors": 2e4}, 730 / 3),
    ],
)
def test_a_load_waits_by_where_its_data_are(where: dict[str, float], cycles: float) -> None:
    loads = {"global_load_requests": 4 * EACH, **where}
    assert alone(loads)[model.LATENCY] == pytest.approx(BLOCKS + 12.5 * 4 * cycles * NS)


def test_the_busiest_warp_counts_where_others_have_less_to_do() -> None:
    counters = {"global_load_requests": 4 * EACH, "l2_read_sectors": 1e4}
    even = model.demands(launch(counters), LIMITS)["l2_latency"]
    assert even == pytest.approx(12.5 * 4)
    counters["busiest_warp_load_requests"] = 60.0
    assert model.demands(launch(counters), LIMITS)["l2_latency"] == 60


@pytest.mark.parametrize(
    ("grid", "resident", "rounds", "blocks"),
    [
        (1000, 8, 12.5, 8),
        (1000, 1, 100, 1),
        (40, 8, 1, 4),  # not enough for 8 everywhere
        (10, 8, 1, 1),
        (3, 8, 1, 1),
        (1, 0, 1, 1),
    ],
)
def test_blocks_follow_each_other_where_not_all_are_resident(
    grid: int, resident: int, rounds: float, blocks: float
) -> None:
    some = launch(grid=(grid, 1, 1), blocks_per_sm=resident)
    assert model.demands(some, LIMITS)["block"] == rounds
    assert model.resident(some, LIMITS) == blocks


@pytest.mark.parametrize(("blocks", "share"), [(1, 1.0), (10, 0.1), (11, 2 / 11), (20, 0.1)])
def test_the_busiest_multiprocessor_decides(blocks: int, share: float) -> None:
    some = launch({"l1_waves": 1e6}, grid=(blocks, 1, 1))
    assert model.demands(some, LIMITS)["request"] == pytest.approx(share * 1e6)


# A call ------------------------------------------------------------------------------------------


def test_a_call_costs_its_launches_and_their_starting() -> None:
    one, other = launch({"l1_waves": 1e6}), launch({"shuffles": EACH})
    kernels = sum(model.price(each, MACHINE).seconds for each in (one, other))
    assert model.seconds(counted(one), MACHINE) == pytest.approx(
        2e-6 + model.price(one, MACHINE).seconds
    )
    assert model.seconds(counted(one, other), MACHINE) == pytest.approx(2e-6 + 1e-6 + kernels)
    filled = Counters([one, other], [ApiCall("cudaMemset", MB), ApiCall("cudaMemcpy", 2 * MB)])
    assert model.further(filled) == 3
    assert model.seconds(filled, MACHINE) == pytest.approx(2e-6 + 3e-6 + 3 * MB * 1e-12 + kernels)
    there_and_back = Counters([one], [ApiCall("cudaMemcpy host", MB)] * 2)
    assert model.seconds(there_and_back, MACHINE) == pytest.approx(
        2e-6 + 2e-6 + 2 * MB * 2e-11 + model.price(one, MACHINE).seconds
    )


def test_a_call_that_does_nothing_costs_a_launch() -> None:
    assert model.further(Counters([])) == 0
    assert model.seconds(Counters([]), MACHINE) == 2e-6


def test_the_ceiling_by_hand() -> None:
    assert model.ceiling(3_000_000, 1_000_000, MACHINE) == pytest.approx(1e-6 + 6e-6 + 3e-6)


def test_the_ceiling_is_what_the_card_was_measured_to_need() -> None:
    # 4096 x 4096 floats in and out took the grader's probe 34.5 us (tests/calibration/times.json)
    assert model.ceiling(64 * MB, 64 * MB, machine.load()) == pytest.approx(34.5e-6, rel=0.05)


# All counts --------------------------------------------------------------------------------------

WORK = [
    "dram_read_sectors", "dram_write_sectors", "dirty_sectors_left", "l2_write_sectors",
    "l2_atomic_sectors", "l1_waves", "shared_load_waves", "shared_store_waves",
    "shared_atomic_waves", "warp_instructions", "global_atomic_turns",
    "global_atomics_on_one_address", "global_load_requests", "shared_load_requests",
    "shared_atomic_requests", "shuffles", "votes", "warp_barriers", "busiest_warp_load_requests",
    "busiest_block_barriers", "busiest_warp_load_rounds",
]  # fmt: skip
# More of these with as many requests means only that data lie closer.
WHERE = ["l1_hit_sectors", "l2_read_sectors"]
COUNTS = st.fixed_dictionaries(dict.fromkeys(WORK + WHERE, st.floats(0, 1e9)))
GRIDS = st.tuples(st.integers(1, 10_000), st.integers(1, 5), st.just(1))


@given(COUNTS, GRIDS, st.integers(0, 32), st.sampled_from(WORK), st.floats(1, 1e9))
def test_more_work_never_takes_less_time(
    counts: dict[str, float], grid: tuple[int, int, int], resident: int, name: str, more: float
) -> None:
    one = launch(counts, grid=grid, blocks_per_sm=resident)
    other = launch({**counts, name: counts[name] + more}, grid=grid, blocks_per_sm=resident)
    before, after = model.price(one, MACHINE).seconds, model.price(other, MACHINE).seconds
    assert after >= before * (1 - 1e-12)


@pytest.mark.parametrize("name", WORK)
def test_no_work_is_for_free(name: str) -> None:
    near = {"global_load_requests": 1e5, "l2_read_sectors": 1e5, "l1_hit_sectors": 1e5}
    some, more = near | {name: 1e6}, near | {name: 2e6}
    before, after = (model.price(launch(one), MACHINE).seconds for one in (some, more))
    assert after > before


def test_data_that_lie_closer_are_there_sooner() -> None:
    loads = {"global_load_requests": 4e6, "l2_read_sectors": 1e6, "dram_read_sectors": 1e6}
    in_l2 = loads | {"dram_read_sectors": 0.0}
    in_l1 = in_l2 | {"l2_read_sectors": 0.0, "l1_hit_sectors": 1e6}
    times = [model.price(launch(one), MACHINE).seconds for one in (loads, in_l2, in_l1)]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 3


@given(COUNTS)
def test_a_launch_that_was_cut_short_is_scaled_up(counts: dict[str, float]) -> None:
    """A quarter of its arrays touched: it will do four times as much of everything, but for what
    the busiest warp or block has done already."""
    grown = {
        name: number if name.startswith("busiest") else 4 * number
        for name, number in counts.items()
    }
    buffers = [Buffer("x", MB, MB / 128, 0.0, 0.0)]
    cut = model.price(launch(counts, truncated=True, buffers=buffers), MACHINE)
    whole = model.price(launch(grown, buffers=buffers), MACHINE)
    assert cut.seconds == pytest.approx(whole.seconds, rel=1e-9)
    assert cut.parts == pytest.approx(whole.parts, rel=1e-9)
