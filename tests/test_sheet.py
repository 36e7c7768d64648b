"""A small file is a call at a large size: the same arrays, and the same answers."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grader
from grader import sheet
from grader.assignment import Assignment
from grader.sheet import Sheet, Unmade
from tests.sheet_arrays import SheetArrays

ROWS, COLUMNS = 512, 64
DIMS = {"rows": ROWS, "hidden_dim": COLUMNS}
Make = Callable[..., Sheet]


@pytest.fixture(scope="module")
def used() -> Assignment:
    return grader.assignment("layernorm")


@pytest.fixture
def make(used: Assignment, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(sheet, "BASE_ELEMENTS", 64 * COLUMNS)

    def made(part: str, dims: dict[str, int] | None = None) -> Sheet:
        return Sheet(used, used.part(part), dims or DIMS, "normal", "one_pass", 5)

    return made


def answers(used: Assignment, part: str, made: Sheet) -> tuple[SheetArrays, dict[str, Any]]:
    """What the reference says for the arrays as a launcher sees them."""
    arrays = SheetArrays(made.file[0], made.arguments)
    names = [name for name, one in arrays.laid.items() if not one.output]
    inputs = {name: arrays.read(name) for name in names}
    expected = used.expected(used.part(part), DIMS, inputs, "one_pass")
    return arrays, {name: one.value for name, one in expected.items()}


@pytest.mark.parametrize("part", ["forward", "dgamma_dbeta", "dinp"])
def test_right_answers_are_right(used: Assignment, make: Make, part: str) -> None:
    """The reference at the large size agrees with what is made of the small one, signs and all."""
    with make(part) as made:
        arrays, values = answers(used, part, made)
        assert made.file[1] < 4 * 4 * ROWS * COLUMNS, "repetitions take no room"
        for name, value in values.items():
            arrays.write(name, value)
        for every in (True, False):
            for name, look in made.look(every).items():
                assert (look.wrong, look.first) == (0, None), name
                assert look.written == values[name].size


@pytest.mark.parametrize("part", ["forward", "dinp", "dgamma_dbeta"])
def test_one_wrong_element_is_seen(used: Assignment, make: Make, part: str) -> None:
    with make(part) as made:
        arrays, values = answers(used, part, made)
        name = used.part(part).outputs[0]
        value = values[name].copy()
        at = np.unravel_index(value.size - 5, value.shape)
        value[at] += 1.0
        arrays.write(name, value)
        look = made.look(False)[name]
        assert (look.wrong, look.written) == (1, value.size)
        assert look.first is not None and look.first.index == tuple(map(int, at))
        assert look.first.wrong == 1


def test_what_was_not_written_is_wrong_only_when_everything_ran(
    used: Assignment, make: Make
) -> None:
    with make("forward") as made:
        arrays, values = answers(used, "forward", made)
        part_of_it = values["ln_res"].copy()
        part_of_it[:-3] = 0
        arrays.write("ln_res", part_of_it)
        look = made.look(False)["ln_res"]
        assert (look.wrong, look.written) == (0, 3 * COLUMNS)
        assert made.look(True)["ln_res"].wrong == (ROWS - 3) * COLUMNS
        assert made.look(False)["vars"].written == 0


def test_nan_is_wrong(used: Assignment, make: Make) -> None:
    with make("forward") as made:
        arrays, _ = answers(used, "forward", made)
        arrays.write("means", np.float32(np.nan))
        assert made.look(False)["means"].wrong == ROWS


def test_the_rows_repeat_and_the_signs_differ(used: Assignment, make: Make) -> None:
    with make("dgamma_dbeta") as made:
        arrays = SheetArrays(made.file[0], made.arguments)
        gradient, x = arrays.read("out_grad"), arrays.read("inp")
        assert np.array_equal(x[:64], x[64:128])
        signs = [float(gradient[64 * k, 0] / gradient[0, 0]) for k in range(8)]
        assert set(signs) == {1.0, -1.0}


def test_a_worker_cannot_cut_it_off(make: Make) -> None:
    with make("forward") as made, pytest.raises(PermissionError):
        os.ftruncate(made.file[0], 4096)


def test_what_cannot_be_repeated_by_pages_is_written_as_a_whole(
    used: Assignment, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = {"rows": 512, "hidden_dim": 63}
    with make("forward", odd) as made:
        arrays = SheetArrays(made.file[0], made.arguments)
        assert arrays.laid["inp"].piece == 4 * 512 * 63
        x = arrays.read("inp")
        assert np.array_equal(x[:64], x[64:128])
    monkeypatch.setattr(sheet, "WHOLE_BYTES", 1000)
    with pytest.raises(Unmade, match="`inp`"):
        make("forward", odd)


def test_an_assignment_without_a_batch_is_laid_out_as_it_is(
    tensor: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(tensor), "batch", None)
    dims = {"batch": 2, "rows": 4, "cols": 8}
    with Sheet(tensor, tensor.part("row_sums"), dims, "normal", "plain", 1) as made:
        arrays = SheetArrays(made.file[0], made.arguments)
        arrays.write("sums", arrays.read("a").sum(axis=2))
        assert made.look(True)["sums"].wrong == 0


@pytest.mark.usefixtures("tensor_native")
def test_pages_of_a_file_are_device_memory(tensor: Assignment, submissions: Path) -> None:
    """The emulator maps them: inputs in private, outputs so that the file shows what is written."""
    module = grader.load(submissions / "tensor" / "right", assignment=tensor.folder, backend="cpu")
    page = mmap.PAGESIZE
    with tempfile.TemporaryFile() as file:
        file.write(b"a" * page + b"b" * page)
        file.flush()
        fd = file.fileno()
        address = module.reserve(3 * page)
        module.lay(address, 3 * page, fd, [page, 0, page], page, False)
        seen = bytearray(3 * page)
        module.copy_out(memoryview(seen), address)
        assert seen == b"b" * page + b"a" * page + b"b" * page
        module.copy_in(address, memoryview(b"c" * page))
        shared = module.reserve(page)
        module.lay(shared, page, fd, [0], page, True)
        module.copy_in(shared, memoryview(b"d" * page))
        assert os.pread(fd, 2 * page, 0) == b"d" * page + b"b" * page
        module.release(shared)
        module.copy_in(module.allocate(page), memoryview(b"e" * page))
        assert os.pread(fd, 1, 0) == b"d", "what comes later is not written into the file"
        with pytest.raises(RuntimeError, match="cannot map"):
            module.lay(address, 3 * page, fd, [0], page, False)
        with pytest.raises(RuntimeError, match="cannot map"):
            module.lay(address, 4 * page, fd, [0] * 4, page, False)
