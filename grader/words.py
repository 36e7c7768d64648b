"""What a worker says, in words for people: how it ended, error codes, names, printed text.

All of it comes from the untrusted side: it is made harmless before anybody sees it.
"""

from __future__ import annotations

import re
import signal
import subprocess
from contextlib import suppress

SYMBOL = re.compile(r"[A-Za-z_][\w.$]*")

# CUDA error codes with a kind of their own in findings; the emulator names its kinds itself.
CUDA_KINDS = {
    1: "launch", 9: "launch", 98: "launch", 209: "launch", 700: "illegal_address",
    701: "launch", 702: "timeout", 710: "assert", 715: "illegal_instruction",
    716: "misaligned", 717: "illegal_address", 719: "illegal_address",
}  # fmt: skip

# What a GPU says that no kernel can make it say: it is not there, in use, or broken.
GPU_FAILURES = frozenset({46, 100, 214, 220, 802, 803})


def ending(code: int | None) -> tuple[str, str]:
    """(kind, sentence) for the way a worker ended; a shell-like 128 + n is a signal too."""
    if code is None:
        return "garbage", "the submission closed the grader's control channel"
    number = -code if code < 0 else code - 128 if 128 < code < 160 else 0
    if number == 0:
        return "exited", (
            f"the submission ended the process (exit code {code}): a launcher must return"
        )
    reasons = {
        signal.SIGSEGV: "segmentation fault in host code: it used an invalid or a device pointer",
        signal.SIGBUS: "bus error in host code: it used an invalid pointer",
        signal.SIGABRT: "it aborted: abort(), a failed assert, an exception nobody catches, "
        "or a damaged heap",
        signal.SIGFPE: "arithmetic error in host code: an integer division by zero",
        signal.SIGILL: "illegal instruction in host code: a division by zero or a null pointer "
        "that the compiler foresaw, the end of a function without a return, or a trap",
        signal.SIGKILL: "it was killed, most likely for using too much memory",
        signal.SIGTERM: "it was ended by SIGTERM",
    }
    try:
        known = signal.Signals(number)
    except ValueError:
        return "crashed", f"it was ended by signal {number}"
    return "crashed", f"{reasons.get(known, 'it was ended by a signal')} ({known.name})"


def text(raw: bytes) -> str:
    """Text out of a fixed-size field that the worker filled."""
    return printable(raw.split(b"\0", 1)[0])


def name(text: str) -> str:
    """A file's name on one line that can do no harm to a terminal or a report."""
    return "".join(char if char.isprintable() else "?" for char in text)


def printable(raw: bytes) -> str:
    """Text that can do no harm to a terminal or a report."""
    text = raw.decode(errors="replace")
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


def demangle(symbol: str) -> str:
    """The C++ name of a symbol, which a worker told us: by no means a file name or an option."""
    if not SYMBOL.fullmatch(symbol):
        return symbol
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            ["c++filt"], input=symbol, capture_output=True, text=True, check=False, timeout=5
        )
        return done.stdout.strip() or symbol
    return symbol
