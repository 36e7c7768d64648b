"""`grader profile`: what it shows of counts, and one run of it all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings

from grader import build, cli, modelled, profile
from grader.advice import Advice
from grader.assignment import Assignment
from grader.counters import Counters, Launch
from grader.errors import UsageError
from grader.profile import PartProfile, parse_shape, show
from grader.session import Fault
from tests.fake_counts import ANY_COUNTS, MACHINE, copying, launch

HERE = Path(__file__).parent
SAXPY = ["--assignment", str(HERE / "assignments" / "saxpy")]
RIGHT = HERE / "submissions" / "saxpy" / "right"
SIZES = {"batch": 1, "rows": 4096, "cols": 4096}


# Sizes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["batch=2,rows=3,cols=2147483647", "cols=2147483647,batch=2,rows=3"]
)
def test_a_shape_says_every_dimension_in_any_order(tensor: Assignment, text: str) -> None:
    found = parse_shape(text, tensor)
    assert [*found.items()] == [("batch", 2), ("rows", 3), ("cols", 2147483647)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch=1,row=1,cols=1", "unknown dimension 'row' in --shape (did you mean 'rows'?)"),
        ("batch=1,rows=1,cols=1,depth=2", "unknown dimension 'depth' in --shape"),
        ("rows=1,cols=1", "--shape must say batch=... with a size of at least 1"),
        ("batch=1,rows=1,cols", "--shape must say cols=... with a size of at least 1"),
        ("batch=0,rows=1,cols=1", "--shape must say batch=... with a size of at least 1"),
        ("batch=1,rows=-1,cols=1", "--shape must say rows=... with a size of at least 1"),
        ("batch=1,rows=1e3,cols=1", "--shape must say rows=... with a size of at least 1"),
        ("batch=1,rows=1,cols=²", "--shape must say cols=... with a size of at least 1"),
        ("batch=1,rows=1,cols=2147483648", "--shape must say cols=... with a size of at least 1"),
        (f"batch={'9' * 5000},rows=1,cols=1", "--shape must say batch=..."),
        ("1x2x3", "--shape must say batch=... with a size of at least 1"),
    ],
)
def test_a_shape_with_a_mistake(tensor: Assignment, text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_shape(text, tensor)
    assert str(raised.value).startswith(said)


# As text -----------------------------------------------------------------------------------------


def profiled(tensor: Assignment, *launches: Launch) -> PartProfile:
    part = tensor.part("add_bias")
    return profile._priced(Counters([*launches]), tensor, part, SIZES, MACHINE)


def shown(*parts: PartProfile, folder: Path = HERE) -> list[str]:
    return show(parts, folder, MACHINE).splitlines()


def test_a_launch_is_told_line_by_line(tensor: Assignment) -> None:
    # by hand: 64 MiB read and written take 134.2 us of device memory and 67.1 us of L2; a tenth of
    # 1048576 waves 105 us; a fortieth of 1310720 instructions 32.8 us; 102.4 starts and ends of
    # blocks 30.7 us, and two loads in each 102.4 us. Busy: the norm of the first four, 186 us;
    # alone: 133.1 + 186 / 8 us; the norm of both is 243 us
    assert shown(profiled(tensor, copying())) == [
        "Bias, batch=1 rows=4096 cols=4096: 245.0 us modelled for an X100, memory ceiling "
        "336.6 us: 1.00 of it",
        "",
        "  scale, 8192 blocks of 256 threads (scale.cu:40): 243.0 us, limited by device memory",
        "    alone: device memory 134.2 us, latency 133.1 us, requests 105.0 us, L2 67.1 us, "
        "instructions 32.8 us",
        "    device memory: 67.1 MB read (at least 67.1 MB), 67.1 MB written; L2: 67.1 MB read, "
        "67.1 MB written",
        "    8 blocks on a multiprocessor (occupancy 100%, registers not counted), 0 bytes of "
        "shared memory a block, 0 barriers a block, 1.31e+06 warp instructions",
        "    line         access     requests  sectors each (ideal)  passes each (ideal)",
        "    scale.cu:10  load x     131072    16.0 (16.0)",
        "    scale.cu:11  store out  131072    16.0 (16.0)",
    ]


def changed(made: Launch, **changes: Any) -> Launch:
    return msgspec.structs.replace(made, **changes)


def test_grids_barriers_and_shared_memory(tensor: Assignment) -> None:
    made = launch(
        {"block_barriers": 48.0},
        grid=(4, 1, 3), block=(32, 8, 1), shared_static=4096, shared_dynamic=1024, blocks_per_sm=2,
    )  # fmt: skip
    text = shown(profiled(tensor, made))
    assert "  scale, 4 x 3 blocks of 256 threads" in text[2]
    assert text[5].startswith(
        "    2 blocks on a multiprocessor (occupancy 25%, registers not counted), 5120 bytes of "
        "shared memory a block, 4 barriers a block"
    )


def test_a_kernel_that_was_cut_short_says_so(tensor: Assignment) -> None:
    sentence = "    it was too long to be run to its end: the figures are of its beginning"
    assert sentence in shown(profiled(tensor, changed(copying(), truncated=True)))
    assert sentence not in shown(profiled(tensor, copying()))


def test_many_launches_are_counted_and_lines_that_cost_nothing_left_out(tensor: Assignment) -> None:
    load = copying().lines[0]
    lines = [msgspec.structs.replace(load, line=n, sectors=1e6 * n) for n in range(1, 30)]
    text = shown(profiled(tensor, *[changed(copying(), lines=lines)] * 9))
    assert sum("scale, 8192 blocks" in line for line in text) == profile.KERNELS
    assert "  and 3 more launches" in text
    table = [line.split()[0] for line in text if "  load x" in line][: profile.LINES + 1]
    assert table[: profile.LINES] == [f"scale.cu:{n}" for n in range(29, 29 - profile.LINES, -1)]
    assert table[profile.LINES] == "scale.cu:29", "the next launch"


def test_advice_is_shown_with_the_line_that_it_speaks_of(
    tensor: Assignment, tmp_path: Path
) -> None:
    (tmp_path / "scale.cu").write_text("\n" * 9 + "    out[i] = x[i * n];\n")
    one = Advice("uncoalesced", "scale.cu", 10, "neighbouring threads should ...", 1e-3)
    many = [one, *(Advice("x", "", 0, f"advice {n}", 0.0) for n in range(9))]
    part = changed_part(profiled(tensor, copying()), advice=many)
    text = shown(part, folder=tmp_path)
    start = text.index("  What would help most:")
    assert text[start + 1 :] == [
        "  - scale.cu:10: neighbouring threads should ...",
        "      scale.cu:10 |     out[i] = x[i * n];",
        *(f"  - advice {n}" for n in range(profile.ADVICE - 1)),
    ]


def changed_part(part: PartProfile, **changes: Any) -> PartProfile:
    return msgspec.structs.replace(part, **changes)


def test_without_advice_there_is_no_such_section(tensor: Assignment) -> None:
    part = changed_part(profiled(tensor, copying()), advice=[])
    assert "  What would help most:" not in shown(part)


def test_a_fault_is_all_there_is_to_say(tensor: Assignment) -> None:
    part = changed_part(profiled(tensor, copying()), fault="it crashed")
    assert shown(part) == ["Bias, batch=1 rows=4096 cols=4096: it crashed"]


def test_parts_stand_apart(tensor: Assignment) -> None:
    part = changed_part(profiled(tensor, copying()), fault="it crashed")
    assert shown(part, part) == [*shown(part), "", *shown(part)]


@settings(max_examples=50)
@given(ANY_COUNTS)
def test_no_counts_are_too_strange(found: Counters) -> None:
    kernels = profile.kernels(found, MACHINE)
    part = PartProfile("p", "P", SIZES, 1.0, 1.0, 1.0, kernels, [])
    assert shown(part)[0].startswith("P, batch=1")


# A real run --------------------------------------------------------------------------------------


@pytest.fixture
def run(saxpy_native: Assignment) -> Callable[..., Result]:
    def invoke(*arguments: object) -> Result:
        result = CliRunner().invoke(cli.main, ["profile", *map(str, arguments), *SAXPY])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result

    return invoke


Run = Callable[..., Result]


def test_a_submission_is_profiled(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    done = run(RIGHT, "--shape", "n=1048576", "--json", out)
    assert done.exit_code == 0
    assert "Saxpy, n=1048576: " in done.output
    assert "modelled for an NVIDIA H200" in done.output

    (part,) = msgspec.json.decode(out.read_bytes(), type=list[PartProfile])
    assert (part.part, part.dims, part.fault) == ("saxpy", {"n": 1 << 20}, "")
    assert 0 < part.fraction < 1
    (kernel,) = part.kernels
    assert kernel.launch.blocks * kernel.launch.threads == 1 << 20
    # 1048576 floats in 32768 requests of 4 sectors: of two arrays that are read, and of one written
    assert {(line.kind, line.requests, line.sectors) for line in kernel.launch.lines} == {
        ("load", 32768, 131072),
        ("store", 32768, 131072),
    }
    assert sum(line.kind == "load" for line in kernel.launch.lines) == 2
    (line,) = {one.line for one in kernel.launch.lines}
    source = (RIGHT / "saxpy.cu").read_text().splitlines()
    assert "SAXPY_A * x[i] + y[i]" in source[line - 1]
    assert f"saxpy.cu:{line}  load x" in done.output


def test_a_launcher_that_crashes_is_told_in_a_sentence(run: Run) -> None:
    done = run(RIGHT.parent / "throws", "--shape", "n=4096")
    assert done.exit_code == 0
    assert done.output.startswith("Saxpy, n=4096: launch_saxpy threw an exception")
    assert done.output.count("\n") == 1


def test_a_thousand_launches_are_counted(run: Run, saxpy_folder: Callable[..., Path]) -> None:
    """More than fits into what a worker may say after other calls."""
    body = "    for (int i = 0; i < 1000; ++i) saxpy<<<1, 32, 0, stream>>>(out, x, y, n);"
    done = run(saxpy_folder(body), "--shape", "n=4096")
    assert "  and 995 more launches" in done.output
    assert "a call makes 1001 launches" in done.output


def test_a_launcher_that_does_nothing_is_told_so(
    run: Run, saxpy_folder: Callable[..., Path]
) -> None:
    done = run(saxpy_folder("    if (n > 4000) return;"), "--shape", "n=4096")
    assert done.output.startswith("Saxpy, n=4096: it does nothing at this size")


def test_without_timed_shapes_one_must_be_given(run: Run) -> None:
    done = run(RIGHT)
    assert done.exit_code == 2
    assert done.stderr == (
        "grader: the part saxpy has no shapes that are timed: say one, such as --shape n=1024\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((RIGHT, "--shape", "m=5"), "unknown dimension 'm' in --shape"),
        ((RIGHT, "--shape", "n=5", "--part", "saxpi"), "did you mean 'saxpy'?"),
        (("nowhere", "--shape", "n=5"), "no such folder: nowhere"),
        ((RIGHT, "--shape", "n=5", "--json", "no/where.json"), "there is no folder no"),
    ],
)
def test_a_wrong_command(run: Run, arguments: tuple[object, ...], said: str) -> None:
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_what_does_not_build_is_not_profiled(run: Run) -> None:
    done = run(RIGHT.parent / "does_not_compile", "--shape", "n=5")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "saxpy.cu:4" in done.stderr


def test_each_part_is_counted_at_its_own_size(
    tensor: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of a test of time when none is given; a fault of one part spares the others."""
    seen: list[tuple[str, dict[str, int]]] = []

    def count(_: object, __: object, part: Any, dims: dict[str, int], ___: object) -> Any:
        seen.append((part.id, dims))
        return Fault("launch", "it is too large") if part.id == "row_sums" else Counters([])

    monkeypatch.setattr(modelled, "count", count)
    monkeypatch.setattr(build, "build", lambda *_: None)
    folder = HERE / "submissions" / "tensor" / "right"
    (sums,) = profile.profile(folder, tensor, ["row_sums"])
    assert (sums.fault, sums.kernels) == ("it is too large", [])
    assert seen == [("row_sums", tensor.test("speed").shapes[0])]
    both = profile.profile(folder, tensor, dims=SIZES)
    assert [part.fault for part in both] == ["it is too large", ""]
    assert seen[1:] == [("row_sums", SIZES), ("add_bias", SIZES)]
