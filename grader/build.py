"""From a Submission to a Module: translate, compile and link it, in the sandbox, through CMake.

The slow part, the binding of the assignment, was compiled when the grader was installed
(`Native`); a submission costs one compile of the student's files and a link. Results are kept
by content hash.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from grader import diagnostics, places, sandbox
from grader.assignment import Assignment
from grader.errors import BuildFailed, InfrastructureError
from grader.native.fingerprint import fingerprint
from grader.sandbox import Sandbox
from grader.submission import SourceFile, Submission

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
BUILD_SECONDS = 60
BUILD_BYTES = 3 << 30
LOG_BYTES = 1 << 20


@dataclass(frozen=True)
class Native:
    """What every submission of an assignment is linked with."""

    fingerprint: str
    runtime: Path
    binding: Path


@dataclass(frozen=True)
class Module:
    """A built submission: the Python extension module `submission`."""

    path: Path
    sha256: str
    backend: str = "cpu"


def native(assignment: Assignment) -> Native:
    """The native parts: those of the installation, or compiled now and kept in the cache.

    Raises InfrastructureError when this machine cannot compile them.
    """
    wanted = fingerprint(assignment.folder)
    installed = places.prebuilt()
    if installed is not None:
        found = _native_in(installed / "cpu", assignment, wanted)
        if found is not None:
            return found
    # equal sources in two folders are two assignments: their parts lie under their own names
    kept = places.cache() / "native" / f"{assignment.id}-{wanted}"
    found = _native_in(kept / "grader" / "_prebuilt" / "cpu", assignment, wanted)
    if found is not None:
        return found
    with fresh_folder(kept) as folder:
        _compile_native(assignment, folder)
    found = _native_in(kept / "grader" / "_prebuilt" / "cpu", assignment, wanted)
    if found is None:
        raise InfrastructureError(f"the native parts of {assignment.id} were not where expected")
    return found


def build(submission: Submission, assignment: Assignment, box: Sandbox | None = None) -> Module:
    """Build a submission for the CPU backend.

    Raises BuildFailed with the first error in the student's own file and line, and
    InfrastructureError when the tools are missing or the disk is full.
    """
    parts = native(assignment)
    key = _key(submission, assignment, parts)
    kept = places.cache() / "modules" / key
    name = f"submission{SUFFIX}"
    if not (kept / name).is_file():
        with (
            fresh_folder(kept) as folder,
            tempfile.TemporaryDirectory(prefix="build-", dir=folder.parent) as work,
        ):
            box = box or sandbox.choose()
            try:
                _compile(submission, assignment, parts, Path(work), box)
            except _Unexplained as error:
                _blame(error, assignment, parts, box)
                raise
            shutil.copyfile(Path(work) / "build" / name, folder / name)
    return Module(kept / name, key)


# Native parts ------------------------------------------------------------------------------------


def _native_in(folder: Path, assignment: Assignment, wanted: str) -> Native | None:
    runtime = folder / "libemulator.a"
    binding = folder / assignment.id / "binding.o"
    stamp = folder / assignment.id / "fingerprint"
    if not (runtime.is_file() and binding.is_file() and stamp.is_file()):
        return None
    if stamp.read_text().strip() != wanted:
        return None
    return Native(wanted, runtime, binding)


def _compile_native(assignment: Assignment, folder: Path) -> None:
    import pybind11

    cmake, ninja = tools()
    with tempfile.TemporaryDirectory(prefix="native-") as work:
        configure = [
            cmake, "-S", str(places.NATIVE), "-B", work, "-G", "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DCMAKE_BUILD_TYPE=Release",
            f"-DASSIGNMENT={assignment.folder}", f"-DPython_EXECUTABLE={sys.executable}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
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


def tools() -> tuple[str, str]:
    """Paths of cmake and ninja: those that came from PyPI with the grader, else from PATH."""
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


# A submission ------------------------------------------------------------------------------------


def _key(submission: Submission, assignment: Assignment, parts: Native) -> str:
    digest = hashlib.sha256(
        f"{submission.sha256} {parts.fingerprint} {_compiler_identity()}".encode()
    )
    for path in sorted(places.EMULATOR.glob("*.py")):  # the front end
        digest.update(path.read_bytes())
    digest.update(assignment.header_path.read_bytes())
    return digest.hexdigest()


def compiler() -> str:
    """The C++ compiler to use: $CXX, else g++, else clang++."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        path = shutil.which(name) if name else None
        if path is not None:
            return path
    raise InfrastructureError("no C++ compiler: apt install g++ (or set CXX)")


def _compiler_identity() -> str:
    """Changes when the compiler does: an upgrade must not find what its predecessor built."""
    path = os.path.realpath(compiler())
    info = os.stat(path)
    return f"{path} {info.st_size} {info.st_mtime_ns}"


def compiled_files(submission: Submission) -> list[str]:
    """The .cu files to compile: all but those that another file includes."""
    included = {
        os.path.normpath(Path(file.name).parent / name.decode(errors="replace"))
        for file in submission.files
        for name in re.findall(rb'(?m)^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', file.data)
    }
    return [
        file.name
        for file in submission.files
        if file.name.endswith(".cu") and file.name not in included
    ]


def _compile(
    submission: Submission, assignment: Assignment, parts: Native, work: Path, box: Sandbox
) -> None:
    source, contract, target = work / "submission", work / "contract", work / "build"
    for folder in (source, contract, target):
        folder.mkdir()
    for file in submission.files:
        _write(source, file, assignment)
    header = contract / assignment.header
    header.write_bytes(assignment.header_path.read_bytes())
    cmake, ninja = tools()
    python, python_folders = sandbox.python()
    configure = [
        cmake, "-S", str(places.NATIVE / "submission"), "-B", str(target), "-G", "Ninja",
        "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_MAKE_PROGRAM={ninja}",
        f"-DCMAKE_CXX_COMPILER={compiler()}",
        # the compiler was tried when the native parts were built
        "-DCMAKE_CXX_COMPILER_WORKS=TRUE", "-DCMAKE_CXX_SCAN_FOR_MODULES=OFF",
        f"-DFOLDER={source}", f"-DSOURCES={';'.join(compiled_files(submission))}",
        f"-DHEADER={header}", f"-DEMULATOR={places.EMULATOR}",
        f"-DBINDING={parts.binding}", f"-DRUNTIME={parts.runtime}",
        f"-DPYTHON={python}", f"-DSUFFIX={SUFFIX}",
    ]  # fmt: skip
    script = (
        f"ulimit -d {BUILD_BYTES >> 10}; ulimit -t {BUILD_SECONDS}; ulimit -c 0; "
        f"{shlex.join(configure)} && {shlex.join([cmake, '--build', str(target)])} && "
        "find . -name '*.cu.cpp.o' -exec nm -A -g --defined-only {} + > symbols"
    )
    with (work / "log").open("w+b") as log:
        process = box.start(
            ["/bin/sh", "-c", script],
            readable=[
                source, contract, places.EMULATOR, places.NATIVE / "submission",
                parts.binding, parts.runtime, Path(cmake).parent.parent, Path(ninja).parent,
                *python_folders, *_compiler_folders(),
            ],
            writable=[target],
            folder=target,
            stdout=log,
        )  # fmt: skip
        try:
            code = process.wait(BUILD_SECONDS)
        except subprocess.TimeoutExpired:
            raise BuildFailed(
                f"compiling took longer than {BUILD_SECONDS} seconds and was ended", ""
            ) from None
        finally:
            sandbox.kill(process)
        log.seek(0)
        text = log.read(LOG_BYTES).decode(errors="replace")
    if code != 0:
        raise _failure(text, submission, work)
    _refuse_two_definitions(target / "symbols", assignment)
    if not (target / f"submission{SUFFIX}").is_file():
        raise InfrastructureError("the build ended well but left no module")


def _refuse_two_definitions(symbols: Path, assignment: Assignment) -> None:
    """The linker takes the first of two equal launchers (helpers in headers need that), but which
    one a student meant is not ours to guess."""
    with symbols.open(errors="replace") as file:
        lines = file.read(LOG_BYTES).splitlines()
    for part in assignment.parts:
        found = [line for line in lines if line.endswith(f" T {part.launcher}")]
        names = sorted(line.split(".cpp.o:")[0].split("/cpp/")[-1] for line in found)
        if len(names) > 1:
            raise BuildFailed(
                f"{part.launcher} is defined in {' and in '.join(names)}: remove one of them", ""
            )


def _compiler_folders() -> list[Path]:
    """Where the compiler lives if that is not /usr, which every sandbox shows."""
    root = Path(compiler()).resolve().parent.parent
    return [] if root.is_relative_to("/usr") or root == Path("/") else [root]


def _write(folder: Path, file: SourceFile, assignment: Assignment) -> None:
    """Write a student's file; the contract is always the assignment's own copy."""
    if Path(file.name).name == assignment.header:
        return
    path = folder / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)


def _failure(log: str, submission: Submission, work: Path) -> BuildFailed:
    """What a failed build means, from its log. Raises InfrastructureError for a full disk."""
    hidden = [f"{places.EMULATOR}/include/"]
    hidden += [f"{work}/{name}" for name in ("build/cpp/", "submission/", "contract/", "")]
    text = diagnostics.without(log, hidden)
    found = diagnostics.explain(text, submission)
    if found is not None:
        return BuildFailed(*found)
    if "No space left on device" in text:
        raise InfrastructureError(f"no space left to build in {places.cache()}")
    if re.search(r"virtual memory exhausted|out of memory|Killed|Cannot allocate", text):
        return BuildFailed(f"compiling needed more than {BUILD_BYTES >> 30} GB of memory", "")
    if "CPU time limit" in text or "XCPU" in text:
        return BuildFailed(f"compiling took longer than {BUILD_SECONDS} seconds and was ended", "")
    return _Unexplained("the submission does not build", diagnostics.first_lines(text))


class _Unexplained(BuildFailed):
    """The build ended badly, and its log names neither an error nor a missing symbol."""


def _blame(error: BuildFailed, assignment: Assignment, parts: Native, box: Sandbox) -> None:
    """Raises InfrastructureError if not even a submission without any code builds here."""
    nothing = Submission("nothing", Path(), (SourceFile(assignment.source, b"\n"),), "")
    with tempfile.TemporaryDirectory(prefix="build-", dir=places.cache() / "modules") as work:
        try:
            _compile(nothing, assignment, parts, Path(work), box)
        except BuildFailed:
            raise InfrastructureError(
                f"no submission can be compiled here (run `grader doctor`):\n{error.log}"
            ) from None


@contextmanager
def fresh_folder(final: Path) -> Iterator[Path]:
    """A new folder that becomes `final` when the block ends well; two builders may race."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="new-", dir=final.parent))
    except OSError as error:
        raise InfrastructureError(
            f"cannot write the build cache {final.parent}: {error.strerror} "
            "(set KERNEL_GRADER_CACHE to a folder that can be written)"
        ) from None
    try:
        yield folder
        folder.chmod(0o755)
        try:
            folder.rename(final)
        except OSError:
            if not final.is_dir():  # somebody else finished the same build first
                raise
    except OSError as error:
        raise InfrastructureError(f"cannot build in {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
