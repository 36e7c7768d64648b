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
from pathlib import Path

from grader.submission import Submission
from grader.usage import kernel_name

FRONT_END = re.compile(
    r"^(?P<file>\S.*?)\((?P<line>\d+)\): "
    r"(?:catastrophic )?(?P<kind>error|warning|note)(?: #\d+(?:-D)?)?: (?P<text>.*)"
)
END = re.compile(r"^At end of source: error(?: #\d+(?:-D)?)?: (?P<text>.*)")
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
    names = {file.name for file in submission.files}
    for number, line in enumerate(lines):
        if match := FRONT_END.match(line):
            user = _user_of(lines[number + 1 :]) if match["kind"] == "error" else None
            if user and user[0] in names and match["file"] not in names:
                inside = f"(in {match['file']}:{match['line']})"
                said.append(f"{user[0]}:{user[1]}: error: {match['text'].strip()} {inside}")
                continue
            said.append(
                f"{match['file']}:{match['line']}: {match['kind']}: {match['text'].strip()}"
            )
        elif match := END.match(line):
            opened = FRONT_END.match(lines[number + 1]) if number + 1 < len(lines) else None
            place = f"{opened['file']}:{opened['line']}: " if opened else "end of the file: "
            said.append(f"{place}error: {match['text']} at the end of the file")
        elif not line or _is_quote(lines, number):
            continue  # quotations show __global__ as __attribute__((global))
        elif match := INLINE_PTX.match(line):
            place = _place_in(folder / match["ptx"], int(match["line"]), submission)
            said.append(f"{place or NOWHERE}error: in inline PTX: {match['text']}")
        elif match := KERNEL.match(line):
            name = kernel_name(match["kernel"])
            text = _in_decimals(match["text"])
            place = _place_of(name, submission)
            said.append(f"{place or NOWHERE}error: the kernel {name} {text}")
        elif match := (UNRESOLVED.match(line) or UNLINKED.match(line)):
            said.append(f"undefined reference to `{match['name']}'")
        elif match := TWICE.match(line):
            said.append(f"{NOWHERE}error: {match['text']}")
        elif (match := ASSEMBLER.match(line)) and match["text"] != ABORTED:
            said.append(f"{NOWHERE}error: {_in_decimals(match['text'])}")
        else:
            said.append(line)
    return "\n".join(said)


def machine_fault(log: str) -> str:
    """What nvcc says about this machine, such as a compiler that it does not know; else empty."""
    match = MACHINE.search(log)
    return match["text"] if match else ""


def _user_of(lines: list[str]) -> tuple[str, str] | None:
    """(file, line) that made the compiler look at a template of a library: the last one named
    under the error that stands before these lines."""
    found = None
    for line in lines:
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
    wanted = re.compile(rf"__global__[^;{{}}]*?\b{re.escape(name)}\s*\(")
    for file in submission.files:
        text = file.data.decode(errors="replace")
        if match := wanted.search(text):
            return f"{file.name}:{text.count(chr(10), 0, match.end()) + 1}: "
    return ""


def _in_decimals(text: str) -> str:
    """`0xc000 max` -> `49152 max`"""
    return re.sub(r"\b0x[0-9a-f]+\b", lambda match: str(int(match[0], 16)), text)
