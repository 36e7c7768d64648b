"""What this machine can do, and the one-line fix for what it cannot.

Standard library only down to `examine`: `python3 grader/doctor.py` runs before anything is
installed, as the first step of `make`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Diagnosis:
    """state: True it is there, False it is missing and needed, None it would be nice to have."""

    what: str
    state: bool | None
    says: str
    fix: str = ""


def needed() -> Iterator[Diagnosis]:
    """What has to be there before the grader can even be installed."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Diagnosis(
        "Python",
        sys.version_info >= (3, 11),
        version,
        ""
        if sys.version_info >= (3, 11)
        else "install Python 3.11 or newer: make PYTHON=python3.x",
    )
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    yield Diagnosis(
        "Python headers",
        header.is_file(),
        str(header) if header.is_file() else "Python.h is not there",
        "" if header.is_file() else "apt install python3-dev",
    )
    compiler = next(
        (found for name in (os.environ.get("CXX"), "g++", "clang++")
         if name and (found := shutil.which(name))),
        None,
    )  # fmt: skip
    yield Diagnosis(
        "C++ compiler",
        compiler is not None,
        _version([compiler, "--version"]) if compiler else "neither g++ nor clang++ is there",
        "" if compiler else "apt install g++",
    )


def pip() -> Diagnosis:
    """Only needed to install."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True, text=True, check=False
    )
    there = done.returncode == 0
    says = done.stdout.split(" from ")[0] if there else "this Python has no pip"
    return Diagnosis("pip", there, says, "" if there else "apt install python3-pip")


def examine() -> Iterator[Diagnosis]:
    """Everything about an installed grader."""
    from grader import build, places, sandbox
    from grader.assignment import load, names
    from grader.errors import GraderError

    yield from needed()
    for name, path in zip(("cmake", "ninja"), _tools(), strict=True):
        says = _version([path, "--version"]) if path else "missing"
        yield Diagnosis(name, path is not None, says, "" if path else f"pip install {name}")
    reason = sandbox.why_not_bubblewrap()
    yield Diagnosis(
        "sandbox",
        None if reason else True,
        f"process only ({reason})" if reason else "bubblewrap",
        "apt install bubblewrap" if reason == "bwrap is not installed" else "",
    )
    try:
        for name in names():
            parts = build.native(load(name))
            yield Diagnosis(f"assignment {name}", True, f"native parts in {parts.binding.parent}")
    except GraderError as error:
        yield Diagnosis("assignments", False, str(error))
    cache = places.cache()
    nearest = _existing(cache)
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    yield Diagnosis(
        "build cache",
        writable,
        str(cache),
        "" if writable else "set KERNEL_GRADER_CACHE to a folder that can be written",
    )
    nvcc = shutil.which("nvcc")
    yield Diagnosis("nvcc", True if nvcc else None, nvcc or "not there (not needed on a CPU)")


def _tools() -> tuple[str | None, str | None]:
    from grader import tools
    from grader.errors import InfrastructureError

    try:
        return tools.cmake_and_ninja()
    except InfrastructureError:
        return None, None


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _version(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr or "?").splitlines()[0]


def preflight() -> int:
    """Print one sentence for each missing piece; 0 when the grader can be installed here."""
    missing = [found for found in [*needed(), pip()] if found.state is False]
    for found in missing:
        print(f"{found.what}: {found.says}. Fix: {found.fix}", file=sys.stderr)
    return 3 if missing else 0


if __name__ == "__main__":
    sys.exit(preflight())
