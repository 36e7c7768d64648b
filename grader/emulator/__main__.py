"""python -m grader.emulator PROGRAM.cu -o PROGRAM: build a CUDA program that runs on the CPU."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from grader.emulator.program import BuildError, build


def main(arguments: list[str] | None = None) -> int:
    """Command line; exit status 1 when the program does not build."""
    parser = argparse.ArgumentParser(prog="python -m grader.emulator", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.cu")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("-I", "--include", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("-D", "--define", action="append", default=[], metavar="NAME[=VALUE]")
    parser.add_argument("--cxx", default="g++", help="g++ (default) or clang++")
    options = parser.parse_args(arguments)
    defines = [f"-D{define}" for define in options.define]
    try:
        messages = build(
            options.files, options.output, cxx=options.cxx, include=options.include, options=defines
        )
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: error: {error.strerror}", file=sys.stderr)
        return 1
    print(messages, end="", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
