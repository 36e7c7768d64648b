"""What is read from the output of NVIDIA's profiler and of its checkers."""

from __future__ import annotations

import json

import pytest

from tests.calibration import counters, sanitizer

# Nsight Compute -----------------------------------------------------------------------------------

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","dram__bytes_read.sum","launch__registers_per_thread",'
    '"smsp__inst_executed.sum"'
)
UNITS = '"","","","","","","","","","","","byte","register/thread","inst"'


def launched(number: int, name: str, bytes_read: str, executed: str = "1,024") -> str:
    return (
        f'"{number}","77","python3.12","127.0.0.1","{name}","1","7","(256, 1, 1)",'
        f'"(8192, 1, 1)","0","9.0","{bytes_read}","24","{executed}"'
    )


TABLE = "\n".join(
    [
        "==PROF== Connected to process 77 (/usr/bin/python3.12)",
        '==PROF== Profiling "pause" - 0: 0%....50%....100% - 7 passes',
        "==PROF== Disconnected from process 77",
        HEADER,
        UNITS,
        launched(0, "pause", "0"),
        launched(1, "void rows<(int)4>(float *, int)", "33,554,944"),
        launched(2, "add_up(float *, const float *)", "12.5", "n/a"),
        launched(3, "pause", "0"),
        launched(4, "void rows<(int)4>(float *, int)", "67,109,888"),
    ]
)


def test_a_table_of_ncu_is_read() -> None:
    found = counters.parse(TABLE)
    assert [one["name"] for one in found] == ["pause", "rows<(int)4>", "add_up", "pause",
                                              "rows<(int)4>"]  # fmt: skip
    assert found[1]["block"] == [256, 1, 1] and found[1]["grid"] == [8192, 1, 1]
    assert found[1]["metrics"] == {
        "dram__bytes_read.sum": 33554944,
        "launch__registers_per_thread": 24,
        "smsp__inst_executed.sum": 1024,
    }
    assert found[2]["metrics"]["dram__bytes_read.sum"] == 12.5
    assert "smsp__inst_executed.sum" not in found[2]["metrics"]
    assert counters.units(TABLE)["dram__bytes_read.sum"] == "byte"
    assert "127.0.0.1" not in json.dumps(found)


def test_kernels_belong_to_the_call_behind_their_marker() -> None:
    first, second = counters.split(counters.parse(TABLE), 2)
    assert [one["name"] for one in first] == ["rows<(int)4>", "add_up"]
    assert [one["metrics"]["dram__bytes_read.sum"] for one in second] == [67109888]
    with pytest.raises(ValueError, match="2 markers for 3 calls"):
        counters.split(counters.parse(TABLE), 3)


def test_output_without_a_table_gives_nothing() -> None:
    assert counters.parse("==ERROR== ERR_NVGPUCTRPERM\n") == []
    assert counters.units("") == {}
    assert counters.parse(HEADER) == []


def test_metrics_that_ncu_complains_about_are_named() -> None:
    metrics = ("a__b.sum", "a__b_c.sum", "d__e_pct")
    assert counters.refused("==ERROR== Failed to find metric a__b.sum\n", metrics) == ["a__b.sum"]
    assert counters.refused("==ERROR== Failed to find metric d__e_pct", metrics) == ["d__e_pct"]
    assert counters.refused("a__b.sum is fine", metrics) == []
    assert counters.known("Device NVIDIA H200\n  a__b   Counter   inst   # of\n") == {"a__b"}


def test_no_metric_is_asked_for_twice() -> None:
    assert len(set(counters.METRICS)) == len(counters.METRICS)
    assert set(counters.CORE) <= set(counters.METRICS)


# compute-sanitizer -------------------------------------------------------------------------------

MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at ker_layer_norm(float *, int)+0x1b0 in /somewhere/submission/layernorm.cu:67
=========     by thread (4,0,0) in block (0,0,0)
=========     Address 0x7f22c2a00410 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f22c2a00400 of size 16 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: launch_layernorm in layernorm.cu:99 [0x1234] in submission.so
=========
========= Invalid __global__ write of size 4 bytes
=========     at ker_layer_norm(float *, int)+0x1b0 in /somewhere/submission/layernorm.cu:67
=========     by thread (5,0,0) in block (0,0,0)
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sums(float *)+0x110 in /a/b/layernorm.cu:43
=========     and Read access at sums(float *)+0x3d0 in /a/b/layernorm.cu:53 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
INITCHECK = """\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at rows(float *)+0x70 in layernorm.cu:12
=========     by thread (0,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
"""
SYNCCHECK = """\
========= Barrier error detected. Divergent thread(s) in block
=========     at sums(float *)+0x70 in layernorm.cu:31
=========     by thread (3,0,0) in block (0,0,0)
========= ERROR SUMMARY: 4 errors
"""


def test_errors_and_their_lines_are_read() -> None:
    row = sanitizer.parse(MEMCHECK)
    assert row["errors"] == 3
    first, second = row["messages"]
    assert first == {
        "said": "Invalid __global__ write of size 4 bytes", "line": "layernorm.cu:67", "count": 2
    }  # fmt: skip
    assert second["said"].startswith("Program hit cudaErrorLaunchFailure")
    assert second["line"] is None


def test_a_race_has_two_lines_and_no_folders() -> None:
    row = sanitizer.parse(RACECHECK)
    assert row["errors"] == 1
    (message,) = row["messages"]
    assert message["line"] == "layernorm.cu:43 layernorm.cu:53"
    assert message["said"] == (
        "Error: Race reported between Write access at sums(float *)+0x in layernorm.cu:43"
    )


def test_a_place_may_have_a_line_of_its_own() -> None:
    text = """\
========= ERROR: Race reported between Write access at
=========     sums(float *)+0xb0 in layernorm.cu:28
=========     and Read access at
=========     sums(float *)+0xc0 in layernorm.cu:30
=========     [1024 hazards]
"""
    (message,) = sanitizer.parse(text)["messages"]
    assert message["line"] == "layernorm.cu:28 layernorm.cu:30"


@pytest.mark.parametrize(
    ("text", "errors", "said", "line"),
    [
        (INITCHECK, 1, "Uninitialized __global__", "layernorm.cu:12"),
        (SYNCCHECK, 4, "Barrier error detected", "layernorm.cu:31"),
    ],
)
def test_what_other_tools_say(text: str, errors: int, said: str, line: str) -> None:
    row = sanitizer.parse(text)
    (message,) = row["messages"]
    assert (row["errors"], message["line"]) == (errors, line)
    assert message["said"].startswith(said)


def test_a_clean_report_and_none_at_all() -> None:
    assert sanitizer.parse("========= ERROR SUMMARY: 0 errors\n") == {"errors": 0, "messages": []}
    assert sanitizer.parse("") == {"errors": None, "messages": []}
