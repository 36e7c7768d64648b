"""What every submission of an assignment is linked with: its binding, and CUDA's runtime.

The binding is the slow part of a module (pybind11's templates), so it is compiled only once: for
the CPU when the grader is installed, for a GPU when it is first needed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from grader import diagnostics, places, toolkit, tools
from grader.assignment import Assignment
from grader.errors import InfrastructureError
from grader.native.fingerprint import fingerprint
from grader.toolkit import Toolkit


@dataclass(frozen=True)
class Native:
    """fingerprint: of all that went into the parts. runtime: a static library, the emulator's or
    NVIDIA's. binding: an object file."""

    fingerprint: str
    runtime: Path
    binding: Path


def native(assignment: Assignment, backend: str = "cpu") -> Native:
    """The native parts: those of the installation, or compiled now and kept in the cache.

    Raises InfrastructureError when this machine cannot compile them.
    """
    sources = fingerprint(assignment.folder)
    kit = toolkit.find() if backend == "cuda" else None
    if kit is None:
        installed = places.prebuilt()
        found = _parts_in(installed / "cpu", assignment, sources) if installed else None
        if found is not None:
            return found
    wanted = sources if kit is None else _with_toolkit(sources, kit)
    # equal sources in two folders are two assignments: their parts lie under their own names
    kept = places.cache() / "native" / f"{assignment.id}-{wanted}"
    parts = kept / "grader" / "_prebuilt" / backend
    found = _parts_in(parts, assignment, sources, kit)
    if found is not None:
        return found
    with places.fresh_folder(kept) as folder:
        _compile(assignment, folder, kit)
    found = _parts_in(parts, assignment, sources, kit)
    if found is None:
        raise InfrastructureError(f"the native parts of {assignment.id} were not where expected")
    return found


def _with_toolkit(sources: str, kit: Toolkit) -> str:
    """The sources and the headers that they were compiled with."""
    return hashlib.sha256(f"{sources} {kit.identity}".encode()).hexdigest()


def _parts_in(
    folder: Path, assignment: Assignment, sources: str, kit: Toolkit | None = None
) -> Native | None:
    runtime = kit.libraries / "libcudart_static.a" if kit else folder / "libemulator.a"
    binding = folder / assignment.id / "binding.o"
    stamp = folder / assignment.id / "fingerprint"
    if not (runtime.is_file() and binding.is_file() and stamp.is_file()):
        return None
    if stamp.read_text().strip() != sources:
        return None
    return Native(_with_toolkit(sources, kit) if kit else sources, runtime, binding)


def _compile(assignment: Assignment, folder: Path, kit: Toolkit | None) -> None:
    import pybind11

    cmake, ninja = tools.cmake_and_ninja()
    with tempfile.TemporaryDirectory(prefix="native-", dir=folder) as work:
        configure = [
            cmake, "-S", str(places.NATIVE), "-B", work, "-G", "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DCMAKE_BUILD_TYPE=Release",
            f"-DASSIGNMENT={assignment.folder}", f"-DPython_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            *([f"-DCUDA_INCLUDE={kit.include}"] if kit else []),
        ]  # fmt: skip
        for command in (
            configure,
            [cmake, "--build", work],
            [cmake, "--install", work, "--prefix", str(folder)],
        ):
            done = subprocess.run(
                command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
            )
            if done.returncode != 0:
                log = diagnostics.first_lines(done.stdout + done.stderr)
                raise InfrastructureError(
                    f"cannot compile the native parts of {assignment.id} "
                    f"(run `grader doctor`):\n{log}"
                )
