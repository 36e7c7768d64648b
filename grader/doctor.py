"""What this machine can do, and the one-line fix for what it cannot.

Standard library only down to `examine`: `python3 grader/doctor.py` runs before anything is
installed, as the first step of `make`.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

NOT_ON_CPU = "(not needed on a CPU)"
CUDA_EXTRA = "make gpu (pip install '.[cuda]') in the repository"


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
    from grader import build, places
    from grader.assignment import load, names
    from grader.errors import GraderError

    yield from needed()
    for name, path in zip(("cmake", "ninja"), _tools(), strict=True):
        says = _version([path, "--version"]) if path else "missing"
        yield Diagnosis(name, path is not None, says, "" if path else f"pip install {name}")
    yield sandboxed()
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
    yield from gpu()


def sandboxed() -> Diagnosis:
    """The rung that submissions run on, and what it does not promise here."""
    from grader import sandbox
    from grader.errors import GraderError

    reason = sandbox.why_not_bubblewrap()
    fix = "apt install bubblewrap" if reason == "bwrap is not installed" else ""
    try:
        box = sandbox.choose()
    except GraderError as error:
        return Diagnosis("sandbox", False, str(error), fix)
    if box.kind == "bubblewrap":
        return Diagnosis("sandbox", True, "bubblewrap")
    why = reason or f"{sandbox.VARIABLE} asks for it"
    return Diagnosis("sandbox", None, f"process only ({why}): {'; '.join(sandbox.lacks(box))}", fix)


def gpu() -> Iterator[Diagnosis]:
    """What grading on a GPU needs, and checking with nvcc on a CPU; never an error to lack it."""
    from grader import toolkit
    from grader.errors import InfrastructureError

    yield _card()
    kit = None
    try:
        kit = toolkit.find()
        yield Diagnosis("nvcc", True, f"{kit.version[0]}.{kit.version[1]}, {kit.nvcc}")
    except InfrastructureError as error:
        says, _, fix = str(error).partition(" Fix: ")
        yield Diagnosis("nvcc", None, f"{says} {NOT_ON_CPU}", fix or CUDA_EXTRA)
    yield _bindings()
    yield _nvrtc()
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None and kit is not None:
        sanitizer = shutil.which("compute-sanitizer", path=str(kit.root / "bin"))
    yield Diagnosis(
        "compute-sanitizer",
        True if sanitizer else None,
        sanitizer or f"not there {NOT_ON_CPU}",
        "" if sanitizer else "install NVIDIA's CUDA toolkit: it comes with it",
    )


def _card() -> Diagnosis:
    """The GPU and its driver, in the words of the backend that would use them."""
    from grader.errors import GraderError

    try:
        describe = importlib.import_module("grader.gpu").describe
        return Diagnosis("GPU", True, str(describe()))
    except GraderError as error:
        says, _, fix = str(error).partition(" Fix: ")
        return Diagnosis("GPU", None, f"{says} {NOT_ON_CPU}", fix)
    except (ImportError, AttributeError) as error:  # cuda-bindings are missing, or too old
        return Diagnosis("GPU", None, f"cannot be asked: {error} {NOT_ON_CPU}", CUDA_EXTRA)


def _bindings() -> Diagnosis:
    try:
        return Diagnosis("cuda-bindings", True, metadata.version("cuda-bindings"))
    except metadata.PackageNotFoundError:
        return Diagnosis("cuda-bindings", None, f"not there {NOT_ON_CPU}", CUDA_EXTRA)


def _nvrtc() -> Diagnosis:
    """The compiler of the grader's own kernels, if its library can be loaded."""
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        _, major, minor = nvrtc.nvrtcVersion()
        return Diagnosis("NVRTC", True, f"{major}.{minor}")
    except (ImportError, RuntimeError) as error:  # cuda-bindings raise when they find no library
        says = (
            "not there"
            if isinstance(error, ImportError)
            else f"not there: {' '.join(str(error).split())}"
        )
        return Diagnosis("NVRTC", None, f"{says} {NOT_ON_CPU}", CUDA_EXTRA)


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
