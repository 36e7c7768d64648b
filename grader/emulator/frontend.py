"""Turns CUDA C++ into C++17 that an ordinary compiler accepts; needs nothing but Python.

    python frontend.py --out DIR [--include DIR]... FILE.cu [FILE.cu ...]

It works on tokens, not on a syntax tree: what CUDA adds to C++ is little and local, and everything
else must reach the compiler exactly as the student wrote it. Nothing ever moves to another line.

    k<<<g, b, s>>>(x)           ->  (::__emulator::configure(g, b, s), k(x))
    __global__ void k(...) {B}  ->  void k(...) { __EMULATOR_KERNEL__(k, ...) {B}; }
    __shared__ float s[32];     ->  a member of a static structure with room around it,
                                    and a call that gives it fresh (NaN) bytes per block
    extern __shared__ float s[] ->  a reference to the block's dynamic shared memory
    for (...) / while (...)     ->  the same, and a step counted, so that endless loops end
A kernel is thus an ordinary function whose body became a lambda: called on the host, it runs the
lambda once per thread of the grid that `configure` asked for. Overloads, templates, conversions of
arguments, function pointers and launches from other files are then the compiler's business.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

if __package__:
    from grader.emulator.rewriter import Rewriter
    from grader.emulator.source import Diagnostic, Source
else:  # run as a script, without the package
    from rewriter import Rewriter  # type: ignore[import-not-found, no-redef]
    from source import Diagnostic, Source  # type: ignore[import-not-found, no-redef]

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


class Unsupported(Exception):
    """The source holds something that the emulator cannot run; str() is the compiler-style text."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__("\n".join(str(diagnostic) for diagnostic in diagnostics))
        self.diagnostics = diagnostics


def translate(text: str, name: str) -> str:
    """The C++ for the CUDA source `text`; `name` is how its author knows the file."""
    rewriter = Rewriter(Source(text.removeprefix("\ufeff"), name))
    code = rewriter.run()
    if rewriter.diagnostics:
        raise Unsupported(rewriter.diagnostics)
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{escaped}"\n{code}'


def _local_headers(text: str, folder: Path, include: list[Path]) -> list[Path]:
    found = []
    for match in _INCLUDE.finditer(text):
        for base in (folder, *include):
            if (base / match.group(1)).is_file():
                found.append(base / match.group(1))
                break
    return found


def translate_tree(files: list[Path], out: Path, include: list[Path]) -> list[Path]:
    """Write the files and every local header they reach into `out`; returns the .cpp files."""
    base = Path.cwd()
    if any(file.is_absolute() for file in files):
        base = Path(os.path.commonpath([file.resolve().parent for file in files]))
    diagnostics: list[Diagnostic] = []
    written: dict[tuple[Path, str], Path] = {}
    # A .cu may be compiled and included as well; the two copies have different names.
    waiting = [(file, ".cpp") for file in files]
    while waiting:
        file, suffix = waiting.pop(0)
        key = (file.resolve(), suffix)
        if key in written:
            continue
        name = _relative(file, [base, *include])
        target = written[key] = out / (name + suffix)
        text = file.read_bytes().decode("utf-8", errors="surrogateescape")
        try:
            code = translate(text, name)
        except Unsupported as error:
            diagnostics += [found for found in error.diagnostics if found not in diagnostics]
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(code, encoding="utf-8", errors="surrogateescape", newline="")
        waiting += [(header, "") for header in _local_headers(text, file.parent, include)]
    if diagnostics:
        raise Unsupported(diagnostics)
    return [written[file.resolve(), ".cpp"] for file in files]


def _relative(file: Path, bases: list[Path]) -> str:
    """The file's name as its author would write it: relative to the first folder that holds it."""
    for base in bases:
        try:
            return file.resolve().relative_to(base.resolve()).as_posix()
        except ValueError:
            continue
    return file.name


def main(arguments: list[str] | None = None) -> int:
    """Command line; exit status 1 with compiler-style messages when a construct cannot run."""
    parser = argparse.ArgumentParser(description="Translate CUDA C++ into C++17.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--include", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.cu")
    options = parser.parse_args(arguments)
    try:
        translate_tree(options.files, options.out, options.include)
    except Unsupported as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: error: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
