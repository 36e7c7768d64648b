"""nvcc's words in the form of a C++ compiler's: `file:line: error: text`.

Four programs speak in a log of nvcc, each in its own way:

    saxpy.cu(7): error: identifier "a" is undefined            cudafe++ and cicc
    ptxas objects/.0.ptx, line 80; error   : Not a name ...    ptxas about inline PTX
    ptxas error   : Entry function 'k(float*)' uses too ...    ptxas about a kernel
    nvlink error   : Multiple definition of 'k' in ...         nvlink

What is said of PTX or of a kernel is brought back to the student's own line.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from grader.submission import Submission
from grader.usage import kernel_name

FRONT_END = re.compile(
    r"^(?P<file>\S.*?)\((?P<line>\d+)\): "
    r"(?:catastrophic )?(?P<kind>error|warning|note)(?: #\d+(?:-D)?)?: (?P<text>.*)"
)
END = re.compile(r"^At end of source: error.*?: ")
CARET = re.compile(r"^ *\^ *$")
INSTANTIATED = re.compile(r" at line (?P<line>\d+) of (?P<file>.*)$")
INLINE_PTX = re.compile(
    r"^ptxas (?:.*/)?(?P<ptx>objects/\.\d+\.ptx), line (?P<line>\d+); error +: (?P<text>.*)"
)
KERNEL = re.compile(r"^ptxas error +: Entry function '(?P<kernel>.*)' (?P<text>.*)")
UNRESOLVED = re.compile(r"^ptxas fatal +: Unresolved extern (?:function|variable) '(?P<name>.*)'")
UNLINKED = re.compile(r"^nvlink error +: Undefined reference to '(?P<name>.*?)' in ")
TWICE = re.compile(r"^nvlink error +: (?P<text>Multiple definition of '.*?') in ")
ASSEMBLER = re.compile(r"^ptxas (?:error|fatal) +: (?P<text>.*)")
NOWHERE = "device code: "
ABORTED = "Ptx assembly aborted due to errors"
# device code of one file that uses another's is no error once the files are linked
ACROSS_FILES = re.compile(
    r"Unresolved extern (?:function|variable) '|"
    r"error: extern declaration of the entity .* is treated as a static definition$",
    re.MULTILINE,
)
# what is wrong with this machine, and never with a submission
MACHINE = re.compile(
    r"^(?:nvcc fatal +: |\S*host_config\.h:\d+:\d+: error: #error -- )(?P<text>.*)", re.MULTILINE
)


def translate(log: str, submission: Submission, folder: Path) -> str:
    """The log, line by line; `folder` holds the PTX files that it speaks of. An error without a
    place in a file is one of `device code` or of the `end of the file`."""
    said: list[str] = []
    lines = log.splitlines()
    for number, line in enumerate(lines):
        if FRONT_END.match(line) or END.match(line):
            said.append(_front_end(lines, number, submission))
        elif line and not _is_quote(lines, number):  # quotes say __attribute__((global))
            said.append(_assembler(line, submission, folder))
    return "\n".join(said)


def _front_end(lines: list[str], number: int, submission: Submission) -> str:
    """What cudafe++ or cicc say in this line, with the place that those below it tell."""
    match = FRONT_END.match(lines[number])
    if match is None:
        text = END.sub("", lines[number])
        opened = FRONT_END.match(lines[number + 1]) if number + 1 < len(lines) else None
        place = f"{opened['file']}:{opened['line']}" if opened else "end of the file"
        return f"{place}: error: {text} at the end of the file"
    file, line, kind, text = match["file"], match["line"], match["kind"], match["text"].strip()
    names = {file.name for file in submission.files}
    if kind == "error" and file not in names:
        user = _user_of(lines, number)
        if user is not None and user[0] in names:
            return f"{user[0]}:{user[1]}: error: {text} (in {file}:{line})"
    return f"{file}:{line}: {kind}: {text}"


def _assembler(line: str, submission: Submission, folder: Path) -> str:
    """What ptxas or nvlink say; a line of anybody else's stays as it is."""
    if match := INLINE_PTX.match(line):
        place = _place_in(folder / match["ptx"], int(match["line"]), submission)
        return f"{place or NOWHERE}error: in inline PTX: {match['text']}"
    if match := KERNEL.match(line):
        name = kernel_name(match["kernel"])
        place = _place_of(name, submission)
        return f"{place or NOWHERE}error: the kernel {name} {_in_decimals(match['text'])}"
    if match := (UNRESOLVED.match(line) or UNLINKED.match(line)):
        return f"undefined reference to `{match['name']}'"
    if match := TWICE.match(line):
        return f"{NOWHERE}error: {match['text']}"
    if (match := ASSEMBLER.match(line)) and match["text"] != ABORTED:
        return f"{NOWHERE}error: {_in_decimals(match['text'])}"
    return line


def machine_fault(log: str) -> str:
    """What nvcc says about this machine, such as a compiler that it does not know; else empty."""
    match = MACHINE.search(log)
    return match["text"] if match else ""


def _user_of(lines: list[str], number: int) -> tuple[str, str] | None:
    """(file, line) that made the compiler look at a template of a library: the last one that is
    named between the error in this line and the next one."""
    found = None
    for line in islice(lines, number + 1, None):
        match = FRONT_END.match(line)
        if match and match["kind"] != "note":
            break
        if match := INSTANTIATED.search(line):
            found = match["file"], match["line"]
    return found


def _is_quote(lines: list[str], number: int) -> bool:
    """Whether the line is the front end's quotation of source text, or the caret under one."""
    after = lines[number + 1] if number + 1 < len(lines) else ""
    return bool(CARET.match(lines[number])) or (
        lines[number].startswith("  ") and bool(CARET.match(after))
    )


def _place_in(ptx: Path, number: int, submission: Submission) -> str:
    """The line in the student's files that a line of PTX came from, by its `.loc` directives."""
    try:
        lines = ptx.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    files = dict(re.findall(r'(?m)^\s*\.file\s+(\d+) "(.*?)"', "\n".join(lines)))
    for line in reversed(lines[:number]):
        if match := re.match(r"\s*\.loc\s+(\d+) (\d+) ", line):
            path = files.get(match[1], "")
            for file in submission.files:
                if path.endswith(f"/{file.name}"):
                    return f"{file.name}:{match[2]}: "
            return ""
    return ""


def _place_of(kernel: str, submission: Submission) -> str:
    """Where a kernel is written down: the first `__global__` with its name after it."""
    name = re.split(r"[<(]", kernel)[0].split("::")[-1]
    # so many letters at most: a file may be nothing but such words
    wanted = re.compile(rf"__global__[^;{{}}]{{0,300}}?\b{re.escape(name)}\s*\(")
    for file in submission.files:
        text = file.data.decode(errors="replace")
        if match := wanted.search(text):
            return f"{file.name}:{text.count(chr(10), 0, match.end()) + 1}: "
    return ""


def _in_decimals(text: str) -> str:
    """`0xc000 max` -> `49152 max`"""
    return re.sub(r"\b0x[0-9a-f]+\b", lambda match: str(int(match[0], 16)), text)
