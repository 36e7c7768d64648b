"""Trials on a GPU made of numpy: what they put into its memory, and what they see in it after."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from grader.arena import ALIGNMENT, GUARD, GUARD_BYTES, POISON
from grader.assignment import Assignment, load
from grader.gpu import OutOfMemory
from grader.records import Placed
from grader.trial import INPUTS, OUTPUTS, Trial, Wrong, base_case
from tests.fake_gpu import GRAIN, FakeGpu, FakeSession, Launch, Launcher, reference, steady

SETS = 3
SPARE = SETS  # the set of outputs that is for copies
N = 96


class Bench:
    """A trial with a session that works on it."""

    def __init__(
        self, gpu: FakeGpu, used: Assignment, part_id: str, dims: dict[str, int], base_rows: int = 0
    ) -> None:
        self.gpu, self.part = gpu, used.part(part_id)
        bound = next(test.bound for test in used.tests.values())
        elements = math.prod(dims.values())
        if base_rows and used.batch:
            elements = elements // dims[used.batch] * base_rows
        base = base_case(used, self.part, dims, "normal", bound, 7, elements)
        assert not base_rows or not used.batch or base.dims[used.batch] == base_rows
        self.trial = Trial(gpu, used, self.part, dims, base, SETS)
        self.right = reference(used, self.part, bound)
        self.session = FakeSession(gpu, used, self.part, self.right, steady(1e-4))
        self.session.map(self.trial.pools)

    def run(
        self, harm: Launcher = lambda _: None, calls: int = SETS, seed: int = 1
    ) -> Wrong | None:
        """Prepare, call the right launcher and then `harm`, copy, and judge."""

        def launch(seen: Launch) -> None:
            self.right(seen)
            harm(seen)

        self.session.launcher = launch
        self.trial.prepare(np.random.default_rng(seed))
        self.session.batch(
            self.part.launcher,
            [self.trial.arguments(number) for number in range(calls)],
            self.trial.keep(calls),
        )
        return self.trial.judge(calls)

    def array(self, number: int, pool: int, position: int = 0) -> Any:
        """An array of a set, as floats; a view."""
        address, size = self.trial.addresses(number, pool)[position]
        return self.gpu.view(address, size // 4, np.float32)


@pytest.fixture
def gpu() -> FakeGpu:
    return FakeGpu()


@pytest.fixture
def bench(gpu: FakeGpu, saxpy: Assignment) -> Iterator[Callable[..., Bench]]:
    """Makes trials of saxpy; they are closed with the test, and must leave nothing behind."""
    with ExitStack() as stack:

        def make(used: Assignment = saxpy, part: str = "saxpy", **options: Any) -> Bench:
            made = Bench(gpu, used, part, options.pop("dims", {"n": N}), **options)
            stack.enter_context(made.trial)
            return made

        yield make
    assert gpu.blocks == {}, "memory was left behind"


Make = Callable[..., Bench]


# Right -------------------------------------------------------------------------------------------


def test_a_right_launcher_has_nothing_wrong(bench: Make) -> None:
    made = bench()
    for seed in range(4):
        assert made.run(seed=seed) is None
    assert 0 < made.trial.worst < 1


@pytest.mark.parametrize("part", ["forward", "dgamma_dbeta", "dinp"])
@pytest.mark.parametrize("base_rows", [12, 3])
def test_the_reference_is_right_however_often_the_base_is_repeated(
    bench: Make, part: str, base_rows: int
) -> None:
    """Sums over the batch grow with it, and so do their bounds."""
    dims = {"rows": 12, "hidden_dim": 20}
    made = bench(load("layernorm"), part, dims=dims, base_rows=base_rows)
    assert made.run() is None
    assert made.trial.worst < 0.5


@pytest.mark.parametrize("part", ["row_sums", "add_bias"])
def test_arrays_of_any_rank(bench: Make, tensor: Assignment, part: str) -> None:
    made = bench(tensor, part, dims={"batch": 4, "rows": 3, "cols": 5}, base_rows=2)
    assert made.run() is None


def test_a_sum_that_looks_at_some_rows_only_is_wrong(bench: Make) -> None:
    dims = {"rows": 12, "hidden_dim": 8}
    made = bench(load("layernorm"), "dgamma_dbeta", dims=dims, base_rows=3)

    def harm(seen: Launch) -> None:
        seen.arrays["beta_grad"][:] = 4 * seen.arrays["out_grad"][:3].sum(axis=0)

    wrong = made.run(harm)
    assert wrong is not None and wrong.output == "beta_grad"


# Memory ------------------------------------------------------------------------------------------


def test_every_set_gets_data_of_its_own_and_other_ones_each_time(bench: Make) -> None:
    made = bench()
    seen = set()
    for seed in range(3):
        made.trial.prepare(np.random.default_rng(seed))
        seen |= {made.array(number, INPUTS).tobytes() for number in range(SETS)}
    assert len(seen) == 3 * SETS


def test_the_same_generator_makes_the_same_data(bench: Make) -> None:
    made = bench()
    made.trial.prepare(np.random.default_rng(4))
    first = made.array(1, INPUTS).copy()
    made.trial.prepare(np.random.default_rng(4))
    np.testing.assert_array_equal(made.array(1, INPUTS), first)


def test_outputs_arrive_poisoned_and_the_cache_without_reservations(bench: Make) -> None:
    made = bench()
    made.run()
    made.gpu.launched.clear()
    made.trial.prepare(np.random.default_rng(4))
    for number in (*range(SETS), SPARE):
        assert (made.array(number, OUTPUTS).view(np.uint32) == POISON).all()
    assert made.gpu.launched[-1] == "reset"


def test_arrays_are_aligned_guarded_and_apart(bench: Make) -> None:
    made = bench(load("layernorm"), "dinp", dims={"rows": 5, "hidden_dim": 7})
    for pool in (INPUTS, OUTPUTS):
        spans = []
        for number in (*range(SETS), *([SPARE] if pool == OUTPUTS else [])):
            for address, size in made.trial.addresses(number, pool):
                assert address % ALIGNMENT == 0
                spans.append((address - GUARD_BYTES, address + size + GUARD_BYTES))
        spans.sort()
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
        memory = made.trial.pools[pool]
        assert memory.size % GRAIN == 0
        start = made.gpu.shared[memory.fd]
        assert start <= spans[0][0] and spans[-1][1] <= start + memory.size


def test_only_outputs_may_be_written(bench: Make) -> None:
    made = bench()
    assert [pool.writable for pool in made.trial.pools] == [False, True]

    def harm(seen: Launch) -> None:
        seen.arrays["x"][0] = 1

    with pytest.raises(ValueError, match="read-only"):
        made.run(harm)


def test_arguments_are_offsets_in_c_order(bench: Make) -> None:
    made = bench()
    for number in range(SETS):
        out, x, y, n = made.trial.arguments(number)
        assert n == N
        assert isinstance(out, Placed) and isinstance(x, Placed) and isinstance(y, Placed)
        assert (out.pool, x.pool, y.pool) == (OUTPUTS, INPUTS, INPUTS)
        starts = [made.gpu.shared[pool.fd] for pool in made.trial.pools]
        (address, _), (other, _) = made.trial.addresses(number, INPUTS)
        assert (starts[INPUTS] + x.offset, starts[INPUTS] + y.offset) == (address, other)
        assert starts[OUTPUTS] + out.offset == made.trial.addresses(number, OUTPUTS)[0][0]


def test_a_call_must_move_every_array_once(bench: Make) -> None:
    assert bench().trial.bytes_per_set == 3 * 4 * N


def test_expected_values_are_not_in_shared_memory(bench: Make) -> None:
    made = bench()
    value = made.trial.base.expected["out"].value.tobytes()
    shared = [made.gpu.blocks[address] for address in made.gpu.shared.values()]
    assert not any(value in block.tobytes() for block in shared)
    assert any(value in block.tobytes() for block in made.gpu.blocks.values())


# Wrong -------------------------------------------------------------------------------------------


def only(call: int, change: Launcher) -> Launcher:
    """Harm in one call of the batch."""
    return lambda seen: change(seen) if seen.call == call else None


def changed(index: int, value: float) -> Launcher:
    def change(seen: Launch) -> None:
        seen.arrays["out"][index] = value

    return change


@pytest.mark.parametrize("call", range(SETS))
@pytest.mark.parametrize("index", [0, 41, N - 1])
def test_one_wrong_element_in_one_call_is_found(bench: Make, call: int, index: int) -> None:
    made = bench()

    def change(seen: Launch) -> None:
        seen.arrays["out"][index] += 100

    wrong = made.run(only(call, change))
    assert wrong is not None and wrong.mismatch is not None
    assert (wrong.kind, wrong.output, wrong.mismatch.index) == ("wrong_result", "out", (index,))
    assert (wrong.mismatch.wrong, wrong.mismatch.size) == (1, N)
    x, y = (made.array(call, INPUTS, position)[index] for position in (0, 1))
    assert wrong.mismatch.expected == pytest.approx(2.5 * float(x) + float(y), rel=1e-6)
    assert isinstance(wrong.mismatch.actual, float)
    assert wrong.mismatch.actual - wrong.mismatch.expected == pytest.approx(100, rel=1e-3)
    assert wrong.mismatch.error is not None
    assert 0 < wrong.mismatch.allowed < 1e-3 < wrong.mismatch.error
    assert made.trial.worst > 1


def test_the_index_is_that_of_the_array(bench: Make, tensor: Assignment) -> None:
    made = bench(tensor, "add_bias", dims={"batch": 4, "rows": 3, "cols": 5})

    def change(seen: Launch) -> None:
        seen.arrays["shifted"][2, 1, 4] += 10

    wrong = made.run(change)
    assert wrong is not None and wrong.mismatch is not None
    assert wrong.mismatch.index == (2, 1, 4)


@pytest.mark.parametrize(
    ("value", "actual"),
    [(np.nan, "NaN"), (np.inf, "Infinity"), (-np.inf, "-Infinity")],
)
def test_what_is_not_finite_is_wrong(bench: Make, value: float, actual: str) -> None:
    wrong = bench().run(changed(5, value))
    assert wrong is not None and wrong.mismatch is not None
    assert (wrong.mismatch.actual, wrong.mismatch.error) == (actual, None)
    assert wrong.sentence.startswith(f"`out`[5] is {actual}, expected ")


def test_an_element_that_was_left_out_is_told(bench: Make) -> None:
    def change(seen: Launch) -> None:
        seen.arrays["out"].view(np.uint32)[-1] = POISON

    wrong = bench().run(change)
    assert wrong is not None
    assert wrong.sentence.startswith(f"`out`[{N - 1}] was never written")
    assert wrong.sentence.endswith(f"1 of {N} elements are wrong")


def test_nothing_written_at_all_is_told(bench: Make) -> None:
    def change(seen: Launch) -> None:
        seen.arrays["out"].view(np.uint32)[:] = POISON

    wrong = bench().run(only(1, change))
    assert wrong is not None
    assert wrong.sentence.endswith(f"{N} of {N} elements are wrong: nothing was written to it")


def test_the_answer_to_another_call_is_wrong(bench: Make) -> None:
    """A submission that keeps what it computed first is found out, because data differ."""
    kept: list[Any] = []

    def change(seen: Launch) -> None:
        kept.append(seen.arrays["out"].copy())
        seen.arrays["out"][:] = kept[0]

    assert bench().run(change) is not None


def test_calls_that_were_not_made_are_not_judged(bench: Make) -> None:
    made = bench()
    assert made.run(calls=1) is None
    assert made.trial.judge(SETS) is not None


# Copies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", range(1, SETS + 1))
def test_the_last_calls_outputs_are_kept(bench: Make, calls: int) -> None:
    """Where they are copied from and to: from the last call's, and into memory that no call got."""
    made = bench(load("layernorm"), "dgamma_dbeta", dims={"rows": 12, "hidden_dim": 20})
    start = made.gpu.shared[made.trial.pools[OUTPUTS].fd]
    kept = made.trial.keep(calls)
    assert [(start + one.offset, one.size) for one in kept] == made.trial.addresses(calls - 1, 1)
    assert [(start + one.copy, one.size) for one in kept] == made.trial.addresses(SPARE, OUTPUTS)
    assert {one.pool for one in kept} == {OUTPUTS}
    assert made.run(calls=calls) is None
    for one, copy in zip(
        made.trial.addresses(calls - 1, OUTPUTS), made.trial.addresses(SPARE, OUTPUTS), strict=True
    ):
        assert bytes(made.gpu.read(*one, np.uint8)) == bytes(made.gpu.read(*copy, np.uint8))


@pytest.mark.parametrize("calls", range(1, SETS + 1))
def test_work_that_the_stream_does_not_wait_for_is_missing_in_the_copy(
    bench: Make, calls: int
) -> None:
    made = bench()
    made.session.unjoined = True
    wrong = made.run(calls=calls)
    assert wrong is not None
    assert wrong.sentence.endswith(f"{N} of {N} elements are wrong: nothing was written to it")
    assert not np.isnan(made.array(calls - 1, OUTPUTS)).any(), "too late, it was written"


def test_of_the_last_call_the_copy_is_judged_and_described(bench: Make) -> None:
    made = bench()
    assert made.run(calls=2) is None
    made.array(1, OUTPUTS)[:] = 0  # after the copy: nothing that anybody looks at
    assert made.trial.judge(2) is None
    made.array(SPARE, OUTPUTS)[17] = -12345
    wrong = made.trial.judge(2)
    assert wrong is not None and wrong.mismatch is not None
    assert (wrong.mismatch.index, wrong.mismatch.actual) == ((17,), -12345)
    assert made.run(calls=SETS) is None, "another number of calls later"


@pytest.mark.parametrize("end", [0, 1])
def test_the_copy_is_guarded_too(bench: Make, end: int) -> None:
    made = bench()

    def harm(_: Launch) -> None:
        address, size = made.trial.addresses(SPARE, OUTPUTS)[0]
        made.gpu.view(address + (size if end else -4), 1, np.uint32)[:] = 0

    wrong = made.run(harm)
    assert wrong is not None and wrong.kind == "out_of_bounds"
    assert wrong.sentence.endswith(f"{N} elements" if end else "the start of `out`")


# Guards ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out", "x"])
@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (-1, "out-of-bounds write: 1 elements before the start of `{}`"),
        (-GUARD_BYTES // 4, "out-of-bounds write: 1024 elements before the start of `{}`"),
        (N, f"out-of-bounds write: element {N} of `{{}}`, which has {N} elements"),
        (N + 9, f"out-of-bounds write: element {N + 9} of `{{}}`, which has {N} elements"),
    ],
)
@pytest.mark.parametrize("call", [0, SETS - 1])
def test_a_damaged_guard_is_found(
    bench: Make, name: str, offset: int, said: str, call: int
) -> None:
    def change(seen: Launch) -> None:
        seen.around(name, offset)[:] = 1

    wrong = bench().run(only(call, change))
    assert wrong is not None
    assert (wrong.kind, wrong.sentence) == ("out_of_bounds", said.format(name))


def test_the_nearest_damage_is_told(bench: Make) -> None:
    def change(seen: Launch) -> None:
        for offset in (-7, -2, -30):
            seen.around("out", offset)[:] = 1

    wrong = bench().run(change)
    assert wrong is not None
    assert wrong.sentence == "out-of-bounds write: 2 elements before the start of `out`"


def test_guards_are_nan(bench: Make) -> None:
    """So that what is read beyond an array spoils the result."""
    made = bench()
    address, size = made.trial.addresses(0, INPUTS)[0]
    after = made.gpu.view(address + size, GUARD_BYTES // 4, np.float32)
    assert np.isnan(after).all() and (after.view(np.uint32) == GUARD).all()


# Too small a GPU ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shortage", range(11))
def test_whatever_does_not_fit_leaves_nothing_behind(
    gpu: FakeGpu, saxpy: Assignment, monkeypatch: pytest.MonkeyPatch, shortage: int
) -> None:
    """The n-th allocation fails, for every one of them: two pools, two inputs, the order of
    rows and none, value and bound of the output, verdicts, guards, damage."""
    base = base_case(saxpy, saxpy.parts[0], {"n": N}, "normal", "plain", 1)
    take, taken = FakeGpu._take, itertools.count()

    def limited(self: FakeGpu, size: int, grain: int) -> int:
        if next(taken) == shortage:
            raise OutOfMemory("not enough memory on the GPU")
        return take(self, size, grain)

    monkeypatch.setattr(FakeGpu, "_take", limited)
    with pytest.raises(OutOfMemory):
        Trial(gpu, saxpy, saxpy.parts[0], {"n": N}, base, SETS)
    assert gpu.blocks == {}
    assert next(taken) == shortage + 1


def test_closing_twice_is_no_harm(bench: Make) -> None:
    made = bench()
    made.trial.close()
    made.trial.close()
