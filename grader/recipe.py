"""How a backend builds a submission: a CMake project, what it is told, and what it may see.

cpu    the emulator's front end, then the C++ compiler
cuda   nvcc, for one architecture; with parts of the assignment into a module, without them only
       the device code is compiled
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader import places, sandbox, tools
from grader.errors import InfrastructureError
from grader.native_parts import Native
from grader.toolkit import Toolkit

ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")


@dataclass(frozen=True)
class Recipe:
    """project: the folder of its CMakeLists.txt. options: what that file wants to know, beside the
    submission. readable: files and folders that the compilers need, beside the system's own.
    headers: how paths of the library's own headers begin, which nobody wants to read.
    seconds, memory (bytes): the most that a compiler may take. leaves_module: False when code is
    only compiled to see whether it can be. wrapped: each .cu file is compiled by way of a file of
    ours that includes it, because the compiler would not take every file name. linked: what the
    submission is linked with, and must not define again.
    api: headers of the only functions of the emulator that a submission may use.
    """

    project: Path
    options: tuple[str, ...]
    readable: tuple[Path, ...]
    headers: tuple[str, ...]
    seconds: int
    memory: int
    leaves_module: bool = True
    wrapped: bool = False
    linked: tuple[Path, ...] = ()
    api: Path | None = None

    def units(self, sources: Sequence[str]) -> dict[str, str]:
        """The files that are compiled, and the names of the student's files that are in them."""
        if self.wrapped:
            # no student's file begins with a dot: grader.submission leaves those out
            return {f".{number}.cu": name for number, name in enumerate(sources)}
        return {name: name for name in sources}

    def object_of(self, unit: str) -> str:
        """How the path of a unit's object file ends."""
        return f"/objects/{unit}.o" if self.wrapped else f"/cpp/{unit}.cpp.o"

    def across_files(self) -> Recipe:
        """The same, for device code that uses device code of another file."""
        linked = "-DRELOCATABLE=ON"
        return self if linked in self.options else replace(self, options=(*self.options, linked))


def cpu(parts: Native) -> Recipe:
    """For the emulator."""
    python, python_folders = sandbox.python()
    return Recipe(
        project=places.NATIVE / "submission" / "cpu",
        options=(
            f"-DCMAKE_CXX_COMPILER={tools.compiler()}",
            # the compiler was tried when the native parts were built
            "-DCMAKE_CXX_COMPILER_WORKS=TRUE",
            "-DCMAKE_CXX_SCAN_FOR_MODULES=OFF",
            f"-DEMULATOR={places.EMULATOR}",
            f"-DBINDING={parts.binding}",
            f"-DRUNTIME={parts.runtime}",
            f"-DPYTHON={python}",
        ),
        readable=(places.EMULATOR, parts.binding, parts.runtime, *python_folders),
        headers=(f"{places.EMULATOR}/include/",),
        seconds=60,
        memory=3 << 30,
        linked=(parts.binding, parts.runtime),
        api=places.EMULATOR / "include",
    )


def cuda(kit: Toolkit, arch: str, parts: Native | None = None) -> Recipe:
    """For GPUs of one architecture, such as sm_90; without `parts` no module comes out.

    Raises InfrastructureError when `arch` is no name of an architecture.
    """
    if not ARCHITECTURE.fullmatch(arch):
        raise InfrastructureError(f"{arch!r} is no architecture of a GPU: expected one like sm_90")
    linked = (f"-DBINDING={parts.binding}", f"-DRUNTIME={parts.runtime}") if parts else ()
    return Recipe(
        project=places.NATIVE / "submission" / "cuda",
        options=(f"-DNVCC={kit.nvcc}", f"-DCXX={tools.compiler()}", f"-DARCH={arch}", *linked),
        readable=(*kit.folders, *((parts.binding, parts.runtime) if parts else ())),
        headers=kit.header_folders,
        # templates of CUB and of cooperative groups, compiled for the device and for the host
        seconds=180,
        memory=4 << 30,
        leaves_module=parts is not None,
        wrapped=True,
        linked=(parts.binding, parts.runtime) if parts else (),
    )
