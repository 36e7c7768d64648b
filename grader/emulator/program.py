"""Builds an ordinary executable from a plain CUDA program, for tests and for the curious."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from grader import places
from grader.emulator.frontend import Unsupported, translate_tree
from grader.places import fresh_folder
from grader.tools import cmake_and_ninja

HERE = Path(__file__).resolve().parent


class BuildError(Exception):
    """What the front end, the compiler or the linker said."""


def compile_options(cxx: str) -> list[str]:
    """The options for a student's file, the same that emulator.cmake hands to CMake."""
    watch = "watch_options_clang.txt" if "clang" in Path(cxx).name else "watch_options_gnu.txt"
    options: list[str] = []
    for name in ("compile_options.txt", watch):
        for line in (HERE / name).read_text(encoding="utf-8").splitlines():
            if line.startswith("-"):
                options.append(line)
            elif line.startswith('"SHELL:'):
                options += line.strip('"').removeprefix("SHELL:").split()
    return options


def runtime_library(cxx: str, folder: Path | None = None) -> Path:
    """libemulator.a for this compiler, built by CMake the first time it is needed."""
    if folder is None:
        sources = b"".join(
            path.read_bytes()
            for pattern in ("CMakeLists.txt", "runtime/*", "include/emulator/*")
            for path in sorted(HERE.glob(pattern))
        )
        folder = places.cache() / "emulator" / hashlib.sha256(sources + cxx.encode()).hexdigest()
    library = folder / "libemulator.a"
    if not library.is_file():
        cmake, ninja = cmake_and_ninja()
        with fresh_folder(folder) as new:
            options = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DCMAKE_BUILD_TYPE="]
            _run([cmake, "-S", HERE, "-B", new, f"-DCMAKE_CXX_COMPILER={cxx}", *options])
            _run([cmake, "--build", new])
    return library


def build(
    sources: Sequence[Path],
    output: Path,
    *,
    cxx: str = "g++",
    include: Sequence[Path] = (),
    options: Sequence[str] = (),
    runtime: Path | None = None,
) -> str:
    """Build `output` from .cu files; returns the compiler's warnings."""
    library = runtime or runtime_library(cxx)
    messages = ""
    with tempfile.TemporaryDirectory(prefix="emulator-") as scratch:
        folder = Path(scratch)
        try:
            translated = translate_tree(list(sources), folder, list(include))
        except Unsupported as error:
            raise BuildError(str(error)) from error
        headers = [f"-I{folder}", "-isystem", str(HERE / "include"), "-include", "cuda_runtime.h"]
        objects = []
        for source in translated:
            target = source.with_suffix(".o")
            command = [
                cxx,
                *compile_options(cxx),
                f"-ffile-prefix-map={folder}=.",
                *options,
                *headers,
            ]
            name = source.relative_to(folder)
            messages += _run([*command, "-c", name, "-o", target], folder)
            objects.append(target)
        libraries: list[str | Path] = [library]
        if sys.platform == "linux":
            libraries += ["-Wl,-z,muldefs", "-ldl", "-Wl,-u,emulator_standalone"]
        messages += _run([cxx, *objects, *libraries, "-o", output.absolute()], folder)
    return messages


def _run(command: Sequence[str | Path], folder: Path | None = None) -> str:
    """Run a build step; its output, or BuildError with it."""
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BuildError((done.stderr or done.stdout).strip())
    return done.stderr
