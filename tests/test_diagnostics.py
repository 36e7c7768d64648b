"""What a compiler said, as a student hears it."""

from __future__ import annotations

from pathlib import Path

from grader.diagnostics import SHOWN_LINES, explain, first_lines, without
from grader.submission import SourceFile, Submission

MINE = Submission("mine", Path(), (SourceFile("saxpy.cu", b"int a;\nint b = c;\n"),), "")


def test_the_first_error_in_an_own_file_is_the_sentence() -> None:
    log = "vector:9: error: in a header\nsaxpy.cu:2:9: error: 'c' was not declared\n"
    found = explain(log, MINE)
    assert found is not None
    assert found[0] == "saxpy.cu:2: 'c' was not declared"


def test_without_an_own_error_the_first_one_counts() -> None:
    found = explain("note: so\ncub.cuh:4:1: fatal error: no such thing\n", MINE)
    assert found == ("cub.cuh:4: no such thing", "cub.cuh:4:1: fatal error: no such thing")


def test_the_own_line_stands_under_its_error_once() -> None:
    error = "saxpy.cu:2:9: error: 'c' was not declared"
    found = explain(f"[1/2] Building\n{error}\n{error}\nninja: build stopped\n", MINE)
    assert found is not None
    assert found[1].splitlines() == [error, "    2 | int b = c;", error]


def test_what_leads_to_an_error_stays_with_it() -> None:
    log = (
        "saxpy.cu: In instantiation of 'void f(T)':\n"
        "saxpy.cu:1:5:   required from here\n"
        "saxpy.cu:2:9: error: no match\n"
    )
    found = explain(f"-- Configuring\n{log}", MINE)
    assert found is not None
    assert found[1].startswith(log.rstrip())


def test_a_missing_definition_is_named() -> None:
    found = explain("saxpy.cu:(.text+0x5): undefined reference to `helper(float*)'\n", MINE)
    assert found is not None
    assert found[0] == "helper(float*) is used but no file of the submission defines it"


def test_a_log_that_names_no_error_explains_nothing() -> None:
    assert explain("[1/2] Building\nsomething odd\n", MINE) is None
    assert explain("", MINE) is None


def test_folders_of_ours_are_left_out() -> None:
    assert without("/tmp/x/submission/saxpy.cu:1: a [-fpermissive]", ["/tmp/x/submission/"]) == (
        "saxpy.cu:1: a"
    )


def test_a_long_log_is_cut_and_says_so() -> None:
    lines = first_lines("\n".join(f"line {n}" for n in range(SHOWN_LINES + 7))).splitlines()
    assert len(lines) == SHOWN_LINES + 1
    assert lines[-1] == "... 7 more lines"
