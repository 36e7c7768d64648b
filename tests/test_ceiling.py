"""The memory ceiling: which streams stand for a part, and the fastest way to move them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.ceiling import MOST_STREAMS, VARIANTS, Buffers, Ceiling, mix
from tests.fake_gpu import FakeGpu

BIG, SMALL = 1 << 20, 1 << 10


def buffers(*sizes: int) -> Buffers:
    return [(4096 * number, size) for number, size in enumerate(sizes)]


# Mixes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "outputs", "streams"),
    [
        ([BIG], [BIG], (1, 1)),
        ([BIG, BIG], [BIG], (2, 1)),
        ([BIG, SMALL, SMALL], [BIG, SMALL, SMALL], (1, 1)),
        ([BIG, BIG, SMALL, SMALL], [SMALL, SMALL], (2, 0)),
        ([BIG, BIG // 8], [BIG], (2, 1)),  # an eighth still counts
        ([BIG, BIG // 8 - 16], [BIG], (1, 1)),
        ([SMALL], [BIG], (1, 1)),  # hardly anything is read: reading as much is near enough
        ([], [BIG, BIG], (2, 2)),
        ([BIG] * 6, [BIG] * 5, (4, 4)),
    ],
)
def test_large_arrays_are_the_streams(
    inputs: list[int], outputs: list[int], streams: tuple[int, int]
) -> None:
    found = mix(buffers(*inputs), buffers(*outputs))
    assert (found.reads, found.writes) == streams


def test_a_time_is_corrected_for_what_the_probe_does_not_move() -> None:
    found = mix(buffers(BIG, BIG, SMALL), buffers(BIG))
    assert found.vectors == BIG // 16
    assert found.correction == pytest.approx((3 * BIG + SMALL) / (3 * BIG))


def test_streams_are_as_long_as_the_shortest() -> None:
    found = mix(buffers(BIG, BIG // 4), buffers(BIG))
    assert found.vectors == BIG // 64
    assert found.correction == pytest.approx(2.25 / 0.75)


sizes = st.lists(st.integers(4, 1 << 24).map(lambda size: size - size % 4), max_size=6)


@given(sizes, sizes.filter(bool))
def test_every_mix_can_be_run(inputs: list[int], outputs: list[int]) -> None:
    found = mix(buffers(*inputs), buffers(*outputs))
    assert 1 <= found.reads <= MOST_STREAMS
    assert 0 <= found.writes <= MOST_STREAMS
    assert found.vectors >= 1
    moved = 16 * found.vectors * (found.reads + found.writes)
    assert found.correction * moved == pytest.approx(sum(inputs) + sum(outputs))


# On a GPU ----------------------------------------------------------------------------------------


@pytest.fixture
def gpu() -> FakeGpu:
    return FakeGpu()


def made(gpu: FakeGpu, inputs: list[int], outputs: list[int], sets: int = 3) -> Ceiling:
    def allocated(sizes: list[int]) -> Buffers:
        return [(gpu.allocate(size).address, size) for size in sizes]

    return Ceiling(gpu, [(allocated(inputs), allocated(outputs)) for _ in range(sets)])


@pytest.mark.parametrize("best", VARIANTS)
def test_the_fastest_variant_is_taken(gpu: FakeGpu, best: tuple[int, int]) -> None:
    gpu.probe = lambda macros, _: 1e-6 if (macros["UNROLL"], macros["HINT"]) == best else 2e-6
    ceiling = made(gpu, [1 << 12], [1 << 12])
    assert ceiling.variant == best
    assert ceiling.seconds() == pytest.approx(1e-6)


def test_a_variant_is_not_judged_by_one_unlucky_run(gpu: FakeGpu) -> None:
    unlucky = iter([9e-6])  # the best variant's first run

    def probe(macros: dict[str, object], _: int) -> float:
        best = (macros["UNROLL"], macros["HINT"]) == (4, 1)
        return next(unlucky, 1e-6) if best else 2e-6

    gpu.probe = probe
    assert made(gpu, [1 << 12], [1 << 12], sets=1).variant == (4, 1)


def test_seconds_are_per_call_and_leave_out_the_pause(gpu: FakeGpu) -> None:
    gpu.probe = lambda _, moved: moved * 1e-9
    ceiling = made(gpu, [1 << 14], [1 << 14], sets=7)
    assert ceiling.seconds() == pytest.approx(2 * (1 << 14) * 1e-9)


def test_seconds_count_small_arrays_too(gpu: FakeGpu) -> None:
    gpu.probe = lambda _, moved: moved * 1e-9
    ceiling = made(gpu, [1 << 14, 64], [1 << 14, 128])
    assert ceiling.seconds() == pytest.approx((2 * (1 << 14) + 192) * 1e-9)


def test_the_probe_reads_inputs_and_writes_large_outputs_only(gpu: FakeGpu) -> None:
    inputs = [(gpu.allocate(size).address, size) for size in (1 << 12, 64, 1 << 12)]
    outputs = [(gpu.allocate(size).address, size) for size in (64, 1 << 12)]
    for address, size in [*inputs, *outputs]:
        gpu.view(address, size // 4, np.float32)[:] = 1
    Ceiling(gpu, [(inputs, outputs)])
    assert (gpu.view(outputs[1][0], 1 << 10, np.float32) == 2).all(), "the sum of two inputs"
    for address, size in [*inputs, outputs[0]]:
        assert (gpu.view(address, size // 4, np.float32) == 1).all()


def test_without_large_inputs_outputs_are_read(gpu: FakeGpu) -> None:
    assert made(gpu, [16], [1 << 12, 1 << 12]).mix.reads == 2
