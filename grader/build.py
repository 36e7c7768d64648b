"""From a Submission to a Module: compile and link it, in the sandbox, through CMake.

The slow part, the binding of the assignment, is compiled only once (native_parts.py); a submission
costs one compile of the student's files and a link. Results are kept by content hash.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from grader import diagnostics, nvcc_log, places, recipe, sandbox, symbols, toolkit, tools, usage
from grader.assignment import Assignment
from grader.errors import BuildFailed, Forbidden, InfrastructureError
from grader.native_parts import Native, native
from grader.recipe import Recipe
from grader.sandbox import Limits, Sandbox
from grader.submission import SourceFile, Submission
from grader.usage import Usage

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
LOG_BYTES = 1 << 20
CHECKSUM = "module.sha256"
BUILT_BYTES = 256 << 20  # of any file that a build makes

__all__ = ["Module", "Native", "Usage", "build", "compiled_files", "cross_check", "native"]


@dataclass(frozen=True)
class Module:
    """A built submission: the Python extension module `submission`.

    backend: "cpu" or "cuda". usage: what each kernel takes of a GPU, known for "cuda" only.
    """

    path: Path
    sha256: str
    backend: str = "cpu"
    usage: tuple[Usage, ...] = ()


def build(
    submission: Submission,
    assignment: Assignment,
    box: Sandbox | None = None,
    backend: str = "cpu",
    arch: str = "sm_90",
) -> Module:
    """Build a submission for a backend, "cpu" or "cuda"; arch is that of the GPU.

    Raises BuildFailed with the first error in the student's own file and line, and
    InfrastructureError when the tools are missing or the disk is full.
    """
    parts = native(assignment, backend)
    if backend == "cuda":
        kit = toolkit.find()
        how = recipe.cuda(kit, arch, parts)
        key = _key(submission, assignment, backend, arch, parts.fingerprint, kit.identity)
    else:
        how = recipe.cpu(parts)
        key = _key(submission, assignment, parts.fingerprint, _front_end())
    kept = places.cache() / "modules" / key
    name = f"submission{SUFFIX}"
    if not _whole(kept, name):
        _build(submission, assignment, how, kept, box or sandbox.choose())
    told = usage.read(kept / "usage.json") if backend == "cuda" else ()
    return Module(kept / name, key, backend, told)


def cross_check(
    submission: Submission,
    assignment: Assignment,
    box: Sandbox | None = None,
    arch: str = "sm_80",
) -> tuple[Usage, ...]:
    """Whether nvcc takes the submission too, and what its kernels take of a GPU; no GPU is needed.

    Raises BuildFailed with nvcc's first error, and InfrastructureError when there is no nvcc.
    """
    kit = toolkit.find()
    how = recipe.cuda(kit, arch)
    kept = places.cache() / "checked" / _key(submission, assignment, arch, kit.identity)
    if not _whole(kept):
        try:
            _build(submission, assignment, how, kept, box or sandbox.choose())
        except BuildFailed as error:
            raise BuildFailed(f"nvcc refuses: {error}", error.log) from None
    return usage.read(kept / "usage.json")


def _whole(kept: Path, module: str | None = None) -> bool:
    """Whether a build is there and as it was made; a damaged one is removed.

    Raises InfrastructureError when it can be neither read nor removed.
    """
    if not kept.is_dir():
        return False
    try:
        usage.read(kept / "usage.json")
        if module is None or (kept / CHECKSUM).read_text() == _checksum(kept / module):
            return True
    except (OSError, ValueError):  # msgspec's errors are ValueErrors
        pass
    places.discard(kept)
    return False


def _checksum(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


# What to build -----------------------------------------------------------------------------------


def _key(submission: Submission, assignment: Assignment, *others: str) -> str:
    """Names a build by all that it depends on."""
    parts = [submission.sha256, tools.compiler_identity(), *others]
    digest = hashlib.sha256("\n".join(parts).encode())
    for path in sorted((places.NATIVE / "submission").rglob("CMakeLists.txt")):
        digest.update(path.read_bytes())
    digest.update(assignment.header_path.read_bytes())
    return digest.hexdigest()


def _front_end() -> str:
    """Hex digest of the emulator's translator."""
    digest = hashlib.sha256()
    for path in sorted(places.EMULATOR.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


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


# Building ----------------------------------------------------------------------------------------


def _build(
    submission: Submission, assignment: Assignment, how: Recipe, kept: Path, box: Sandbox
) -> None:
    """Fill the folder `kept` with what the recipe leaves, or raise and leave nothing."""
    with (
        places.fresh_folder(kept) as folder,
        tempfile.TemporaryDirectory(prefix="build-", dir=folder) as name,
    ):
        work = Path(name)
        work.chmod(0o711)
        try:
            try:
                log = _compile(submission, assignment, how, work / "alone", box)
                made = work / "alone"
            except _AcrossFiles:
                log = _compile(submission, assignment, how.across_files(), work / "across", box)
                made = work / "across"
        except _Unexplained as error:
            _blame(error, assignment, how, work / "nothing", box)
            raise
        if how.leaves_module:
            module = folder / f"submission{SUFFIX}"
            shutil.copyfile(made / "build" / module.name, module, follow_symlinks=False)
            module.chmod(0o644)
            (folder / CHECKSUM).write_text(_checksum(module))
        usage.write(folder / "usage.json", usage.parse(log))


def _compile(
    submission: Submission, assignment: Assignment, how: Recipe, work: Path, box: Sandbox
) -> str:
    """Compile in the new folder `work`; what the compilers said."""
    if not box.hides_files:
        _refuse_reaching_out(submission)
    source, contract, target = work / "submission", work / "contract", work / "build"
    for folder in (source, contract, target):
        folder.mkdir(parents=True)
    for file in submission.files:
        _write(source, file, assignment)
    units = how.units(compiled_files(submission))
    for unit, name in units.items():
        if unit != name:
            (source / unit).write_text(f'#include "{name}"\n')
    header = contract / assignment.header
    header.write_bytes(assignment.header_path.read_bytes())
    for path in (work, *work.rglob("*")):  # for another user than root, whatever our umask is
        path.chmod(0o755 if path.is_dir() else 0o644)
    cmake, ninja = tools.cmake_and_ninja()
    configure = [
        cmake, "-S", str(how.project), "-B", str(target), "-G", "Ninja",
        "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_MAKE_PROGRAM={ninja}",
        f"-DFOLDER={source}", f"-DUNITS={';'.join(units)}", f"-DHEADER={header}",
        f"-DSUFFIX={SUFFIX}", *how.options,
    ]  # fmt: skip
    build = [cmake, "--build", str(target)]
    script = (
        f"ulimit -d {how.memory >> 10}\n"
        "{ echo 1000 > /proc/self/oom_score_adj; } 2>/dev/null\n"  # rather this than the grader
        f"{{ {shlex.join(configure)} && {shlex.join(build)}; }} > log 2>&1\n"
        "code=$?\n"
        f"{symbols.commands(shlex.quote(str(path)) for path in how.linked)}\n"
        f"head -c {LOG_BYTES} log | c++filt; exit $code"
    )
    with (work / "log").open("w+b") as log:
        process = box.start(
            ["/bin/sh", "-c", script],
            readable=[
                source, contract, how.project, *how.readable,
                Path(cmake).parent.parent, Path(ninja).parent, *tools.compiler_folders(),
            ],
            writable=[target],
            folder=target,
            stdout=log,
            env={"TMPDIR": str(target)},
            limits=Limits(cpu_seconds=how.seconds, file_bytes=BUILT_BYTES),
        )  # fmt: skip
        try:
            code = process.wait(how.seconds)
        except subprocess.TimeoutExpired:
            raise _too_long(how) from None
        finally:
            sandbox.kill(process)
        log.seek(0)
        text = log.read(LOG_BYTES).decode(errors="replace")
    if code != 0:
        raise _failure(text, submission, how, work)
    objects = {how.object_of(unit): name for unit, name in units.items()}
    symbols.refuse(target, assignment, objects, how.api)
    if how.leaves_module and not (target / f"submission{SUFFIX}").is_file():
        raise InfrastructureError("the build ended well but left no module")
    return text


def _write(folder: Path, file: SourceFile, assignment: Assignment) -> None:
    """Write a student's file; the contract is always the assignment's own copy."""
    if Path(file.name).name == assignment.header:
        return
    path = folder / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.data)


REACHES_OUT = re.compile(
    rb"""^[ \t]*\#[ \t]*(?:include(?:_next)?|import|embed)[ \t]*["<](?P<path>/|(?:[^">\n]*/)?\.\./)
    |^[ \t]*\#[ \t]*(?P<embed>embed)\b
    |(?<![\w)\]])\.[ \t]*(?P<assembler>incbin|include)[ \t]*\\?["<]""",
    re.MULTILINE | re.VERBOSE,
)


def _refuse_reaching_out(submission: Submission) -> None:
    """Where the sandbox hides no files, at least the plain ways to compile one in are refused. (A
    name that macros put together is not seen: `sandbox.lacks` says that files are within reach.)"""
    for file in submission.files:
        found = REACHES_OUT.search(file.data)
        if found is None:
            continue
        line = file.data.count(b"\n", 0, found.end()) + 1
        what = f".{found['assembler'].decode()}" if found["assembler"] else "#embed"
        why = "a file outside of the submission is included" if found["path"] else f"{what} is used"
        raise BuildFailed(f"{file.name}:{line}: {why}, which is not allowed", "")


# Failing -----------------------------------------------------------------------------------------


class _Unexplained(BuildFailed):
    """The build ended badly, and nothing in the student's own files says why."""


class _AcrossFiles(BuildFailed):
    """Device code of one file uses that of another: it must be linked."""


def _failure(log: str, submission: Submission, how: Recipe, work: Path) -> BuildFailed:
    """What a failed build means, from its log. Raises InfrastructureError for a full disk or an
    nvcc that does not fit this machine."""
    ours = [f"{work}/{name}" for name in ("build/cpp/", "build/", "submission/", "contract/", "")]
    text = diagnostics.without(log, [*how.headers, *ours])
    across = nvcc_log.ACROSS_FILES.search(text)
    if across and len(compiled_files(submission)) > 1 and how.across_files() != how:
        return _AcrossFiles("device code uses that of another file", text)
    fault = nvcc_log.machine_fault(text)
    if fault:
        raise InfrastructureError(f"nvcc does not work here: {fault} (run `grader doctor`)")
    if how.wrapped:
        text = nvcc_log.translate(text, submission, work / "build")
    found = diagnostics.explain(text, submission)
    if found is not None:
        if found[0].endswith(diagnostics.HIDES):
            return Forbidden(*found)
        place = re.match(r"(.*?):\d+: ", found[0])
        foreign = place and place[1] not in {file.name for file in submission.files}
        return _Unexplained(*found) if foreign else BuildFailed(*found)
    if "No space left on device" in text:
        raise InfrastructureError(f"no space left to build in {places.cache()}")
    if re.search(r"virtual memory exhausted|out of memory|Killed|Cannot allocate", text):
        return BuildFailed(f"compiling needed more than {how.memory >> 30} GB of memory", "")
    if "CPU time limit" in text or "XCPU" in text:
        return _too_long(how)
    return _Unexplained("the submission does not build", diagnostics.first_lines(text))


def _too_long(how: Recipe) -> BuildFailed:
    return BuildFailed(f"compiling took longer than {how.seconds} seconds and was ended", "")


def without_code(assignment: Assignment) -> Submission:
    """A submission that is at fault for nothing: what fails with it is this machine's doing."""
    data = b"\n"
    sha256 = hashlib.sha256(data).hexdigest()
    return Submission("nothing", Path(), (SourceFile(assignment.source, data),), sha256)


def _blame(
    error: BuildFailed, assignment: Assignment, how: Recipe, work: Path, box: Sandbox
) -> None:
    """Raises InfrastructureError if not even a submission without any code builds here."""
    try:
        _compile(without_code(assignment), assignment, how, work, box)
    except BuildFailed:
        raise InfrastructureError(
            f"no submission can be compiled here (run `grader doctor`):\n{error.log}"
        ) from None
