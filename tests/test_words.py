"""What a worker says, in words for people; and that its words do no harm."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from grader import words


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (0, "exited", r"exit code 0\)"),
        (3, "exited", r"exit code 3\)"),
        (-signal.SIGSEGV, "crashed", r"segmentation fault in host code.*\(SIGSEGV\)"),
        (128 + signal.SIGSEGV, "crashed", r"\(SIGSEGV\)"),
        (-signal.SIGABRT, "crashed", r"aborted.*\(SIGABRT\)"),
        (-signal.SIGFPE, "crashed", "division by zero"),
        (-signal.SIGKILL, "crashed", "too much memory"),
        (-signal.SIGUSR1, "crashed", r"ended by a signal \(SIGUSR1\)"),
        (-63, "crashed", "signal"),
        (None, "garbage", "closed the grader's control channel"),
    ],
)
def test_every_ending_has_a_sentence(code: int | None, kind: str, said: str) -> None:
    assert words.ending(code)[0] == kind
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(words.ending(code)[1])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain\0\0\0", "plain"),
        (b"two\nlines", "two\nlines"),
        (b"\x1b[31mred\x07", "?[31mred?"),
        (b"caf\xc3\xa9 \xff", "caf\u00e9 \ufffd"),
        (b"a\0b\0", "a"),
    ],
)
def test_the_words_of_a_worker_are_made_printable(raw: bytes, text: str) -> None:
    assert words.text(raw) == text


@pytest.mark.parametrize("symbol", ["@{file}", "-h", "x @{file}", "--version"])
def test_a_symbol_is_never_a_file_or_an_option(tmp_path: Path, symbol: str) -> None:
    """Symbols come from a worker, which must not make its parent read a file to it."""
    secret = tmp_path / "secret"
    secret.write_text("S3CRET")
    told = symbol.format(file=secret)
    assert words.demangle(told) == told


def test_a_symbol_is_told_as_it_was_written() -> None:
    assert words.demangle("_Z6helperf") == "helper(float)"
    assert words.demangle("launch_saxpy") == "launch_saxpy"
