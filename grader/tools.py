"""The programs that builds need: cmake, ninja and a C++ compiler. For nvcc see toolkit.py."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from grader.errors import InfrastructureError


def cmake_and_ninja() -> tuple[str, str]:
    """Paths of cmake and ninja: those that came from PyPI with the grader, else from PATH.

    Raises InfrastructureError when one is missing.
    """
    found = []
    for name in ("cmake", "ninja"):
        beside = Path(sys.executable).parent / name
        path = str(beside) if beside.is_file() else shutil.which(name)
        if path is None:
            raise InfrastructureError(f"{name} is missing: pip install {name}")
        found.append(_real_tool(name, path))
    return found[0], found[1]


def _real_tool(name: str, path: str) -> str:
    """The binary behind PyPI's Python wrapper script: it also works without that Python."""
    try:
        if name == "cmake":
            import cmake

            return str(Path(cmake.CMAKE_BIN_DIR) / "cmake")
        import ninja

        return str(Path(ninja.BIN_DIR) / "ninja")
    except (ImportError, AttributeError):
        return path


def compiler() -> str:
    """The C++ compiler to use: $CXX, else g++, else clang++.

    Raises InfrastructureError when there is none.
    """
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        path = shutil.which(name) if name else None
        if path is not None:
            return path
    raise InfrastructureError("no C++ compiler: apt install g++ (or set CXX)")


def compiler_identity() -> str:
    """Changes when the compiler does: an upgrade must not find what its predecessor built."""
    return identity(Path(compiler()))


def identity(program: Path) -> str:
    """Path, size and time of a program's file: cheap to ask, and an upgrade changes them."""
    path = os.path.realpath(program)
    info = os.stat(path)
    return f"{path} {info.st_size} {info.st_mtime_ns}"


def compiler_folders() -> list[Path]:
    """Where the compiler lives if that is not /usr, which every sandbox shows."""
    root = Path(compiler()).resolve().parent.parent
    return [] if root.is_relative_to("/usr") or root == Path("/") else [root]
