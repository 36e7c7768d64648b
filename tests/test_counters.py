"""Counters of a call: only what a worker says in the right form is believed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from grader import counters
from grader.counters import Buffer, Counters, Launch, parse
from tests.fake_counts import MB, as_report, copying, launch


def report(**changes: Any) -> str:
    """A sensible report, but for some fields of its launch."""
    told = msgspec.to_builtins(Counters([copying()]))
    told["launches"][0].update(changes)
    return f"\n{json.dumps(told)}"


def only(report: str) -> Launch:
    found = parse(report)
    assert found is not None
    (one,) = found.launches
    return one


# What is taken -----------------------------------------------------------------------------------


def test_a_report_survives_its_way() -> None:
    found = Counters([copying(), launch({"shuffles": 0.5})], [counters.ApiCall("cudaMemset", 64)])
    assert parse(as_report(found)) == found


def test_findings_stand_in_front_of_the_counters() -> None:
    findings = "error\tleak\t\t0\t1\tit leaks\nerror\tleak\t\t0\t1\tagain\n"
    assert parse(as_report(Counters([copying()]), findings)) == Counters([copying()])


def test_a_report_of_findings_alone_has_no_counters() -> None:
    assert parse("error\tleak\t\t0\t1\tit leaks\n") is None
    assert parse(as_report(Counters([]), "not followed by an empty line")) is None


def test_nothing_launched_is_counted_as_that() -> None:
    assert parse('\n{"launches": []}') == Counters([], [])


def test_a_newer_emulator_may_tell_more() -> None:
    assert only(report(colour="blue")) == copying()


def test_the_largest_numbers_are_taken_and_no_larger_ones() -> None:
    assert only(report(counters={"warps": 1e18})).counters == {"warps": 1e18}
    assert parse(report(counters={"warps": 1.01e18})) is None


# What is not -------------------------------------------------------------------------------------

LINE = {"file": "a.cu", "line": 1, "buffer": "x", "kind": "load"}
BUFFER = {"name": "x", "bytes": 4, "read_sectors": 1, "written_sectors": 0, "in_l2": 0}


@pytest.mark.parametrize(
    "said",
    [
        "",
        "{",
        "[]",
        "null",
        "nonsense",
        "{}",
        '{"launches": {}}',
        '{"launches": [1]}',
        '{"launches": [{}]}',
        '{"launches": [], "api": [{"call": "cudaMemset"}]}',
        '{"launches": [], "api": [{"call": "cudaMemset", "bytes": -1}]}',
        '{"launches": []} {"launches": []}',
        '{"launches": []}\x00',
    ],
)
def test_text_without_counters(said: str) -> None:
    assert parse(f"\n{said}") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"grid": [1, 1]},
        {"grid": [1, 1, -1]},
        {"block": "256"},
        {"blocks_per_sm": -1},
        {"blocks_per_sm": 10**19},
        {"blocks_per_sm": 1.5},
        {"line": True},
        {"kernel": None},
        {"truncated": 1},
        {"counters": []},
        {"counters": {"warps": -1e-9}},
        {"counters": {"warps": "many"}},
        {"counters": {"warps": None}},
        {"counters": {"warps": [1]}},
        {"lines": [LINE]},
        {"lines": [{**LINE, "requests": -1}]},
        {"buffers": [{**BUFFER, "bytes": -4}]},
        {"buffers": [{**BUFFER, "in_l2": -0.5}]},
    ],
    ids=str,
)
def test_a_launch_that_makes_no_sense(changes: dict[str, Any]) -> None:
    assert parse(report(**changes)) is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "9" * 5000, "1e"])
def test_numbers_that_are_none(number: str) -> None:
    said = report(counters={"warps": 12345}).replace("12345", number)
    assert number in said
    assert parse(said) is None


@pytest.mark.parametrize("opening", ["[", '{"x":'])
def test_no_depth_is_too_deep(opening: str) -> None:
    assert parse("\n" + opening * 100_000) is None
    assert parse('\n{"launches": [], "more": ' + opening * 100_000) is None


def test_names_cannot_harm_a_terminal() -> None:
    line = {**LINE, "requests": 1, "buffer": "x\u202e\x9b"}
    found = only(report(kernel="\x1b[31mred\n", lines=[line], counters={"\x07bell": 1}))
    assert found.kernel == "?[31mred?"
    assert found.lines[0].buffer == "x??"
    assert found.counters == {"?bell": 1.0}


# What follows from a launch ----------------------------------------------------------------------


def test_blocks_threads_and_warps() -> None:
    odd = launch(grid=(4, 3, 2), block=(33, 2, 1))
    assert (odd.blocks, odd.threads, odd.warps) == (24, 66, 24 * 3)


def touched(read: float, written: float, **changes: Any) -> Launch:
    buffers = [Buffer("x", MB, read, 0.0, 0.0), Buffer("out", MB, 0.0, written, 0.0)]
    return launch(buffers=buffers, **changes)


def test_coverage_is_the_share_of_the_arrays_that_a_truncated_launch_has_touched() -> None:
    assert touched(MB / 64, MB / 128, truncated=True).coverage == 0.375
    assert touched(MB / 64, MB / 128).coverage == 1.0


def test_coverage_lies_between_a_millionth_and_all() -> None:
    assert touched(MB, MB, truncated=True).coverage == 1.0
    assert touched(1e-300, 0, truncated=True).coverage == counters.LEAST_COVERAGE


def test_nothing_is_known_of_a_launch_that_touched_no_array() -> None:
    assert touched(0, 0, truncated=True).coverage == 1.0
    assert launch(truncated=True).coverage == 1.0
