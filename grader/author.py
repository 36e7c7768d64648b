"""For authors: the starter is generated from the solution, the handout from the repository.

In a solution, `BEGIN SOLUTION` and `END SOLUTION` in comments enclose what students write. Within
such a block, comment lines that begin with STEP (and lines that go on three spaces deeper) stay as
hints, everything else goes, and `YOUR CODE HERE` marks the place. A block without hints vanishes:
for helpers that a student need not write.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from grader import places
from grader.assignment import Assignment, load
from grader.errors import UsageError
from grader.submission import SOURCE_SUFFIXES

BEGIN, END = "BEGIN SOLUTION", "END SOLUTION"
MARKER = "YOUR CODE HERE"
HINT = re.compile(r"^\s*//\s*STEP\b")
# A fixed date: the same content gives the same zip.
ZIP_DATE = (2020, 1, 1, 0, 0, 0)

START = """\
# {title}: start here

On Linux (or WSL) with python3 (3.11 or newer, with its headers), pip and g++, for example after
`apt install python3-dev python3-pip python3-venv g++`:

    python3 -m venv .venv
    . .venv/bin/activate
    pip install ./kernel-grader
    cd {id}
    grader check

The first `grader check` shows that nothing is written yet. `README.md` is the assignment; you edit
the files in `{id}/`. In a new terminal say `. .venv/bin/activate` again.
"""


def strip_text(text: str, name: str) -> str:
    """One source file without its solution blocks.

    Raises UsageError, with the line, for a block that is not opened, closed or that is nested.
    """
    kept: list[str] = []
    opened = 0
    hinting = False
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if BEGIN in line:
            if opened:
                raise UsageError(f"{name}:{number}: {BEGIN} within the block of line {opened}")
            opened = number
            hints: list[str] = []
            hinting = False
            indent = line[: len(line) - len(line.lstrip())]
        elif END in line:
            if not opened:
                raise UsageError(f"{name}:{number}: {END} without {BEGIN}")
            if hints:
                kept += [*hints, f"{indent}// {MARKER}\n"]
            opened = 0
        elif not opened:
            kept.append(line)
        else:
            # a hint may go on over several comment lines
            hinting = bool(HINT.match(line)) or (hinting and line.lstrip().startswith("//   "))
            if hinting:
                hints.append(line)
    if opened:
        raise UsageError(f"{name}:{opened}: {BEGIN} without {END}")
    return "".join(kept)


def stripped(solution: Path) -> dict[str, str]:
    """Name -> text of every file of the starter that belongs to a solution folder."""
    if not solution.is_dir():
        raise UsageError(f"no such folder: {solution}")
    texts = {
        path.relative_to(solution).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(solution.rglob("*"))
        if path.suffix in SOURCE_SUFFIXES
    }
    if not any(BEGIN in text for text in texts.values()):
        raise UsageError(f"nothing in {solution} is marked with {BEGIN}: there is nothing to strip")
    return {name: strip_text(text, name) for name, text in texts.items()}


def strip(solution: Path, starter: Path) -> list[Path]:
    """Write the starter of a solution; returns the files written."""
    if starter.resolve() == solution.resolve():
        raise UsageError("the starter would overwrite the solution: name another folder")
    written = []
    for name, text in stripped(solution).items():
        path = starter / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def out_of_step(solution: Path, starter: Path) -> list[str]:
    """Names of starter files that differ from what `strip` would write now."""
    wanted = stripped(solution)
    return [
        name
        for name, text in wanted.items()
        if not (starter / name).is_file() or (starter / name).read_text(encoding="utf-8") != text
    ]


def handout(name: str, out: Path) -> Path:
    """Write the zip that students get, and return its path.

    It holds the starter, the contract and the handout text, and the grader itself without any
    solution, test submission or seed. Works in a checkout, where the starter is.
    """
    root = places.checkout()
    if root is None:
        raise UsageError("a handout is made in a checkout of the repository, not in a wheel")
    used = load(name)
    starter = root / "starter" / used.id
    if not starter.is_dir():
        raise UsageError(f"there is no starter in {starter}: make it with `grader author strip`")
    if not out.parent.is_dir():
        raise UsageError(f"cannot write {out}: there is no folder {out.parent}")
    folder = Path(f"{used.id}-handout")
    try:
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for source, target in sorted(_handout_files(root, starter, used)):
                info = zipfile.ZipInfo(str(folder / target), ZIP_DATE)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, source.read_bytes())
            start = zipfile.ZipInfo(str(folder / "START.md"), ZIP_DATE)
            start.external_attr = 0o644 << 16
            archive.writestr(start, START.format(id=used.id, title=used.title))
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from None
    return out


def _handout_files(root: Path, starter: Path, used: Assignment) -> set[tuple[Path, Path]]:
    files: set[tuple[Path, Path]] = set()
    for path in starter.rglob("*"):
        if path.is_file():
            files.add((path, Path(used.id) / path.relative_to(starter)))
    files.add((used.header_path, Path(used.id) / used.header))
    files.add((used.folder / "README.md", Path("README.md")))
    # the grader, so that `pip install ./kernel-grader` works without any other source
    package = Path("kernel-grader")
    for top in ("CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md"):
        files.add((root / top, package / top))
    for tree in (root / "grader", used.folder):
        for path in tree.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                files.add((path, package / path.relative_to(root)))
    return files
