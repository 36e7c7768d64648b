"""The grader's own kernels, on the emulator: arrays.cu does what numpy does, bit for bit."""

from __future__ import annotations

import ctypes
import fcntl
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from grader import places
from grader.arena import GUARD, POISON
from grader.assignment import load
from grader.emulator.program import build
from grader.native_parts import native
from grader.trial import _VERDICT, _record, _Variation
from grader.variation import Rule, Vector, with_signs

PROGRAMS = Path(__file__).parent / "gpu"
INDEXES = {"unsigned": "32 bits", "unsigned long long": "64 bits"}
VARY, COMPARE, GUARDS = range(3)


def ruled(
    rows: int, base_rows: int, inner: int, multiplier: int, shift: int, vectors: tuple[Vector, ...]
) -> Rule:
    """A rule whose rows come in a random order."""
    repeated = np.arange(rows, dtype=np.uint32) % np.uint32(base_rows)
    order = np.random.default_rng(rows).permutation(repeated)
    return Rule(rows, base_rows, inner, multiplier, shift, order, vectors)


NOTHING = ruled(1, 1, 1, 1, 0, ())


def signed(rule: Rule) -> Rule:
    """The same rule, and some rows change their signs."""
    return replace(rule, order=with_signs(rule.order, np.random.default_rng(1)))


RULES = {
    "as it is": (ruled(1, 1, 60, 1, 0, ()), (60,)),
    "rows permuted": (ruled(12, 12, 5, 7, 3, ()), (12, 5)),
    "rows repeated": (ruled(12, 3, 5, 5, 11, ()), (12, 5)),
    "one column": (ruled(100, 25, 1, 33, 99, ()), (100,)),
    "rows in the middle": (ruled(4, 2, 3, 3, 1, ()), (5, 4, 3)),
    "a factor a column": (ruled(12, 12, 5, 1, 0, (Vector(1, 5, 77, 3),)), (12, 5)),
    "a factor a row": (ruled(12, 12, 5, 1, 0, (Vector(5, 12, 2**32 - 1, 0),)), (12, 5)),
    "one factor": (ruled(12, 12, 5, 1, 0, (Vector(1, 1, 5, 30),)), (12, 5)),
    "rows with signs": (signed(ruled(100, 25, 3, 33, 99, ())), (100, 3)),
    "everything": (
        ruled(
            1000, 250, 7, 999, 13,
            (Vector(1, 7, 1, 2), Vector(7, 1000, 2, 0), Vector(1, 1, 3, 1), Vector(1, 7, 4, 4)),
        ),
        (1000, 7),
    ),
}  # fmt: skip


def compiled(cache: Path, source: str, *options: str) -> Path:
    """A program of tests/gpu, built once for all test workers."""
    name = "".join(char if char.isalnum() else "_" for char in f"{source}{options}")
    program = cache / name
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            build(
                [PROGRAMS / source],
                program,
                include=[places.NATIVE / "gpu"],
                options=[f"-D{option}" for option in options],
                runtime=native(load("layernorm")).runtime,
            )
    return program


Request = tuple[int, int, int, int, Rule, Sequence[NDArray[Any]]]
Run = Callable[[Request], bytes]


@pytest.fixture(params=[*INDEXES], ids=[*INDEXES.values()])
def run(request: pytest.FixtureRequest, cache: Path, tmp_path: Path) -> Run:
    """Runs one request: kernel, count, length of the base, blocks, rule, data."""
    program = compiled(cache, "run_arrays.cu", f"INDEX={request.param}")

    def one(asked: Request) -> bytes:
        kernel, count, base, blocks, rule, data = asked
        record = bytes(_record(rule, 0)) + rule.order.tobytes()
        head = struct.pack("<5Q", kernel, count, base, blocks, ctypes.sizeof(_Variation))
        (tmp_path / "in").write_bytes(head + record + b"".join(array.tobytes() for array in data))
        subprocess.run([program, tmp_path / "in", tmp_path / "out"], check=True, timeout=60)
        return (tmp_path / "out").read_bytes()

    return one


def base_of(rule: Rule, shape: tuple[int, ...]) -> NDArray[np.float32]:
    length = int(np.prod(shape)) // rule.rows * rule.base_rows
    return np.random.default_rng(length).normal(size=length).astype(np.float32)


# vary --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_rule_means_the_same_on_a_gpu(run: Run, name: str, blocks: int) -> None:
    rule, shape = RULES[name]
    base, count = base_of(rule, shape), int(np.prod(shape))
    made = np.frombuffer(run((VARY, count, base.size, blocks, rule, [base])), np.float32)
    np.testing.assert_array_equal(made, rule.apply(base, shape).ravel())


# compare -----------------------------------------------------------------------------------------


def verdict(
    run: Run, rule: Rule, got: NDArray[np.float32], value: NDArray[np.float64], allowed: float
) -> Any:
    blank = np.zeros(1, _VERDICT)
    blank["first"] = np.iinfo(np.uint64).max
    data: list[NDArray[Any]] = [got, value, np.full(value.size, allowed), blank]
    return np.frombuffer(run((COMPARE, got.size, value.size, 3, rule, data)), _VERDICT)[0]


@pytest.mark.parametrize("name", RULES)
def test_what_follows_from_the_base_is_right(run: Run, name: str) -> None:
    rule, shape = RULES[name]
    base = base_of(rule, shape)
    got = rule.apply(base, shape).ravel()
    found = verdict(run, rule, got, base.astype(np.float64), 1e-9)
    assert (found["wrong"], found["unwritten"], found["worst"]) == (0, 0, 0)
    assert found["first"] == np.iinfo(np.uint64).max


def test_wrong_elements_are_counted_and_the_first_is_named(run: Run) -> None:
    rule, shape = RULES["everything"]
    base = base_of(rule, shape)
    got = rule.apply(base, shape).ravel()
    got[[6999, 4321, 5000]] += 1e3
    got[4400] = np.nan
    found = verdict(run, rule, got, base.astype(np.float64), 1e-9)
    assert (found["wrong"], found["first"], found["unwritten"]) == (4, 4321, 0)


def test_the_allowance_is_multiplied_as_well(run: Run) -> None:
    rule = ruled(1, 1, 64, 1, 0, (Vector(1, 64, 9, 5),))
    base, factor = base_of(rule, (64,)), rule.factor(np.arange(64))
    for error, wrong in ((0.9, 0), (1.1, 64)):
        got = (base * factor + error * np.abs(factor) * 2.0**-10).astype(np.float32)
        found = verdict(run, rule, got, base.astype(np.float64), 2.0**-10)
        assert found["wrong"] == wrong
        assert found["worst"].view(np.float32) == pytest.approx(error, rel=2e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_wrong(run: Run, value: float) -> None:
    got, expected = np.zeros(70, np.float32), np.zeros(70)
    got[66] = value
    for allowed in (1.0, np.inf):  # whatever is allowed
        found = verdict(run, ruled(1, 1, 70, 1, 0, ()), got, expected, allowed)
        assert (found["wrong"], found["first"], found["unwritten"]) == (1, 66, 0)


def test_what_was_never_written_is_counted(run: Run) -> None:
    got = np.zeros(70, np.float32)
    got.view(np.uint32)[[3, 69]] = POISON
    found = verdict(run, ruled(1, 1, 70, 1, 0, ()), got, np.zeros(70), 1.0)
    assert (found["wrong"], found["first"], found["unwritten"]) == (2, 3, 2)


# guards ------------------------------------------------------------------------------------------


def test_damaged_guards_name_the_word_nearest_to_the_array(run: Run) -> None:
    guards = np.full((6, 200), GUARD, np.uint32)
    guards[2, [5, 150, 17]] = 0  # before an array: the last word counts
    guards[3, [5, 150, 17]] = 0  # after it: the first
    guards[4, 199] = guards[5, 0] = GUARD ^ 1
    found = np.frombuffer(run((GUARDS, 6, 200, 6, NOTHING, [guards])), np.uint32)
    assert list(found) == [0, 0, 151, 6, 200, 1]


# probe.cu ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reads", "writes"), [(1, 1), (2, 0), (4, 3)])
def test_the_probe_adds_streams_up(cache: Path, reads: int, writes: int) -> None:
    unroll = {1: 1, 2: 4, 4: 2}[reads]
    options = [f"READS={reads}", f"WRITES={writes}", f"UNROLL={unroll}", "HINT=0"]
    program = compiled(cache, "run_probe.cu", *options)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
