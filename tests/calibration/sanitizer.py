"""What NVIDIA's compute-sanitizer says about submissions, for comparison with the emulator."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.calibration import kernels

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SECONDS = 40.0  # of one run
HANG_SECONDS = 12.0  # of one that is not likely to end by itself
HANGS = ("endless", "without_end", "all_host_memory")
MESSAGES, LETTERS = 4, 200  # that are kept
REPORT_BYTES = 1 << 20

SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)\b")
PLACE = re.compile(r"(?:\bin |:)([^\s:/]*/)*([^\s:/]+\.cuh?):(\d+)")
# the sentences that begin a complaint, by their first words
BEGINS = re.compile(
    r"^=+ (?P<said>(?:(?:Error|Warning|Warn): )?"
    r"(?:Invalid |Uninitialized |Race reported|Potential |Barrier error|Misaligned |Program hit |"
    r"Out-of-|Leaked |Missing |Hardware exception|Fatal |Internal |Malloc|Free|Error|Warning).*)$",
    re.I,
)
# the places of a complaint come next, and then other things
ELSE = re.compile(r"^=+(?: +(?:by thread|Saved|Host|Device|Address|Access|Current|In ).*)? *$")

Row = dict[str, Any]


def parse(text: str) -> Row:
    """The number of errors, and the first distinct messages with the line of the student's file.

    `errors` is None when the tool did not come to its summary.
    """
    errors: int | None = None
    counts: dict[tuple[str, str | None], int] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if match := SUMMARY.match(line):
            errors = (errors or 0) + int(match[1])
        elif match := BEGINS.match(line):
            said = without_addresses(match["said"])[:LETTERS]
            key = (said, place([line, *lines[number + 1 : number + 5]]))
            counts[key] = counts.get(key, 0) + 1
    kept = list(counts.items())[:MESSAGES]
    return {
        "errors": errors,
        "messages": [
            {"said": said, "line": where, "count": count} for (said, where), count in kept
        ],
    }


def place(lines: Sequence[str]) -> str | None:
    """`layernorm.cu:67`, from a complaint and the lines below it; a race has two places."""
    found: list[str] = []
    for number, line in enumerate(lines):
        if number and ELSE.match(line):
            break
        found += [f"{match[2]}:{match[3]}" for match in PLACE.finditer(line)]
    return " ".join(dict.fromkeys(found[:2])) or None


def without_addresses(said: str) -> str:
    """A message as it is every time: addresses differ, and folders are nobody's business."""
    said = re.sub(r"0x[0-9a-fA-F]+", "0x", said)
    return re.sub(r"\bin (?:[^\s:/]*/)+", "in ", said).strip()


def hangs(name: str) -> bool:
    return any(word in name for word in HANGS)


def run(command: str, tool: str, folder: str, parts: Sequence[str], until: float) -> Row:
    """One tool on one submission; `until` is a time of time.monotonic(), after which nothing is
    begun any more and what runs is ended."""
    began = time.monotonic()
    most = min(HANG_SECONDS if hangs(folder) else SECONDS, until - began)
    if most <= 1:
        return {"note": "not run: no time was left"}
    jobs = [f"{part}:{kernels.word(dims)}" for part in parts for dims in kernels.CHECKED_SHAPES]
    with tempfile.TemporaryDirectory() as name:
        report, printed = Path(name) / "report", Path(name) / "printed"
        with printed.open("wb") as file:
            process = subprocess.Popen(
                [
                    command, "--tool", tool, "--log-file", str(report), "--print-limit", "50",
                    sys.executable, "-m", "tests.calibration.run_once", folder, *jobs,
                ],
                cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                stdout=subprocess.DEVNULL if hangs(folder) else file,  # one prints all the time
                start_new_session=True,
            )  # fmt: skip
            note = ""
            try:
                process.wait(most)
            except subprocess.TimeoutExpired:
                note = f"ended after {most:.0f} seconds"
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said = read(report)
        shown = read(printed)
    row = {**parse(said), "code": process.returncode, "seconds": round(time.monotonic() - began, 1)}
    failures = [line[:LETTERS] for line in shown.splitlines() if " failed: " in line]
    if failures:
        row["failed"] = failures[:MESSAGES]
    elif row["errors"] is None and not note:
        note = without_addresses((said.strip() or shown.strip())[-300:])
    return {**row, "note": note} if note else row


def read(path: Path) -> str:
    """The beginning of a file, which may not be there."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(REPORT_BYTES).decode(errors="replace")


def plan(checked: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """(submission, tool) in the order in which they are begun: what is likely to hang comes last,
    and before it the tools in the order of what they find."""
    quiet = [name for name in checked if not hangs(name)]
    return [
        *((name, tool) for tool in TOOLS for name in quiet),
        *((name, tool) for tool in TOOLS[:1] for name in checked if hangs(name)),
    ]
