"""What a compiler said, as a student needs to hear it.

The compiler saw a translation, in folders of ours, among the words of CMake and ninja. Here the
first error in the student's own file is found, the rest is trimmed, and the student's own line is
shown under each error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.submission import Submission

SHOWN_LINES = 40
QUOTED_WIDTH = 200
HIDES = "is not allowed: it would hide accesses from the checkers"

ERROR = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<text>.*)"
)
NOWHERE = re.compile(r"^(?P<where>device code|end of the file): error: (?P<text>.*)")
UNDEFINED = re.compile(r"undefined reference to [`'](?P<name>.*?)'$")
BEFORE_AN_ERROR = re.compile(r"^(In file|\s+from|.*: In |.*: At |\S+: +(recursively )?required )")
# The build's own words. The body of a kernel is translated into a lambda function.
CHATTER = re.compile(
    r"^(\[\d+/\d+\]|-- |ninja: |FAILED: |CMake Error|Call Stack|/\S*/(g\+\+|c\+\+) "
    r"|cd \S+ && |ptxas info|    \d+ bytes stack frame|ptxas fatal|nvlink fatal|Remark: The warn"
    r"|\d+ errors? detected in the compilation|In file included from \.\d+\.cu:"
    r"|\s+from \.\d+\.cu:"
    r"|.*: In lambda function:$|compilation terminated\.|  the front end refused"
    r"|In file included from (<command-line>|cuda_runtime\.h)|\s+from <command-line>"
    r"|.*note: \(if you use .-fpermissive)"
)


def without(log: str, hidden: Sequence[str]) -> str:
    """The log without folders of ours, and without advice about options of ours."""
    for text in (*hidden, " [-fpermissive]"):
        log = log.replace(text, "")
    return log


def explain(log: str, submission: Submission) -> tuple[str, str] | None:
    """(the first error in a sentence, the log from there on), or None when it names no error."""
    lines = log.splitlines()
    errors = [match for match in map(ERROR.match, lines) if match]
    names = {file.name for file in submission.files}
    own = [match for match in errors if match["file"] in names]
    if errors:
        first = (own or errors)[0]
        start = lines.index(first.group(0))
        # "In function ...", "In instantiation of ...", "required from ..." stand before their error
        while start > 0 and BEFORE_AN_ERROR.match(lines[start - 1]):
            start -= 1
        sentence = f"{first['file']}:{first['line']}: {_in_our_words(first['text'])}"
        return sentence, first_lines("\n".join(_with_quotes(lines[start:], submission)))
    for line in lines:
        nowhere = NOWHERE.match(line)
        if nowhere:
            return f"{nowhere['where']}: {nowhere['text']}", line
        undefined = UNDEFINED.search(line)
        if undefined:
            name = undefined["name"]
            return f"{name} is used but no file of the submission defines it", line
    return None


def _in_our_words(error: str) -> str:
    """What an error of the compiler's means here, where its words would puzzle."""
    poisoned = re.search(r"attempt to use (?:a )?poisoned (?:identifier|\W(\w+))", error)
    if poisoned is None:
        return error
    name = f"`{poisoned[1]}`" if poisoned[1] else "this attribute"
    return f"{name} {HIDES}"


def first_lines(log: str) -> str:
    """The first lines that are not chatter, and how many more there are."""
    lines = [line for line in log.strip().splitlines() if not CHATTER.match(line)]
    more = len(lines) - SHOWN_LINES
    return "\n".join(lines[:SHOWN_LINES]) + (f"\n... {more} more lines" if more > 0 else "")


def _with_quotes(lines: Sequence[str], submission: Submission) -> list[str]:
    """The lines, and below each error the student's own line: the compiler saw a translation."""
    shown: list[str] = []
    for line in lines:
        shown.append(line)
        quoted = _quoted(line, submission)
        if quoted and quoted not in shown:
            shown.append(quoted)
    return shown


def _quoted(line: str, submission: Submission) -> str:
    error = ERROR.match(line)
    for file in submission.files:
        if error and file.name == error["file"]:
            number = int(error["line"])
            found = file.data.decode(errors="replace").split("\n")[number - 1 : number]
            text = "".join(found).rstrip().expandtabs(4)
            if text.isprintable() and 0 < len(text) <= QUOTED_WIDTH:
                return f"{number:>5} | {text}"
    return ""
