"""NVIDIA's CUDA toolkit on this machine: nvcc, its headers and its libraries.

Looked for where people put it: CUDA_HOME or CUDA_PATH, the `nvcc` of PATH, and the wheels that
the extra `cuda` brings. The nvcc that is found may be a link or a script;
asked for its plan (`nvcc --dryrun`) it names the folders it works with.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader import tools
from grader.errors import InfrastructureError

FIX = "install NVIDIA's CUDA toolkit, or make gpu (pip install '.[cuda]') in the repository"
ASK_SECONDS = 60


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit that was asked and answered.

    nvcc: the compiler itself, never a link or a script in front of it. root: the folder that holds
    all of it. include, libraries: where cuda_runtime.h and libcudart_static.a are.
    version: (major, minor) of the release.
    """

    nvcc: Path
    root: Path
    include: Path
    libraries: Path
    version: tuple[int, int]

    @property
    def identity(self) -> str:
        """Changes when nvcc does: an upgrade must not find what its predecessor built."""
        return f"{tools.identity(self.nvcc)} {self.version[0]}.{self.version[1]}"

    @property
    def folders(self) -> list[Path]:
        """Where the toolkit lives if that is not /usr, which every sandbox shows."""
        found = {self.root, self.include, self.libraries, self.nvcc.parent}
        outside = {folder for folder in found if not folder.is_relative_to("/usr")}
        return sorted(f for f in outside if not any(f.is_relative_to(o) for o in outside - {f}))

    @property
    def header_folders(self) -> tuple[str, ...]:
        """How the paths of the toolkit's own headers may begin in what nvcc says."""
        here = self.nvcc.parent  # nvcc finds everything by way of its own folder
        folders = [self.include, here / ".." / "include"]
        folders += [here / ".." / path.relative_to(self.root)
                    for path in self.root.glob("targets/*/include")]  # fmt: skip
        return tuple(f"{folder}/{name}" for folder in folders for name in ("cccl/", ""))


def find() -> Toolkit:
    """The toolkit of this machine.

    Raises InfrastructureError when there is none, or when the first one that there is lacks a
    part: what is missing, where it was looked for, and how to get it.
    """
    tried = []
    for where, nvcc in _places():
        if nvcc is not None and os.access(nvcc, os.X_OK) and nvcc.is_file():
            return _ask(nvcc, where)
        tried.append(where)
    raise InfrastructureError(f"nvcc is missing: looked in {', '.join(tried)}. Fix: {FIX}")


def _places() -> Iterator[tuple[str, Path | None]]:
    """Where nvcc may be, in words, and the file that it would be."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        folder = os.environ.get(name)
        if folder:
            yield f"{name} ({folder})", Path(folder).absolute() / "bin" / "nvcc"
    on_path = shutil.which("nvcc")
    yield "PATH", Path(on_path).absolute() if on_path else None
    for wheel in _wheels():
        yield f"the wheels in {wheel}", wheel / "bin" / "nvcc"


def _wheels() -> list[Path]:
    """Folders that NVIDIA's wheels unpack into, the newest first; at least the one to expect."""
    folders = dict.fromkeys(Path(entry) / "nvidia" for entry in sys.path if entry)
    found = [path for folder in folders for path in folder.glob("cu[0-9]*/bin/nvcc")]
    newest = sorted((path.parent.parent for path in found), key=lambda p: p.name, reverse=True)
    return newest or [Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13"]


def _ask(nvcc: Path, where: str) -> Toolkit:
    """Let nvcc tell what it consists of."""
    plan = _run([str(nvcc), "--dryrun", "-ccbin", tools.compiler(), "-x", "cu", os.devnull], where)
    says = dict(re.findall(r"(?m)^#\$ (\w+)=(.*)$", plan))
    real = Path(os.path.realpath(Path(says.get("_HERE_", str(nvcc.parent))) / "nvcc"))
    if not real.is_file():
        real = Path(os.path.realpath(nvcc))
    root = Path(says.get("TOP", str(real.parent.parent))).resolve()
    version = re.search(r"release (\d+)\.(\d+)", _run([str(real), "--version"], where))
    if version is None:
        raise InfrastructureError(f"{nvcc} is no nvcc: it does not tell its version. Fix: {FIX}")
    include = _holder(
        "cuda_runtime.h",
        [*_options("-I", says.get("INCLUDES", "")), root / "include", Path("/usr/include")],
        where,
    )
    libraries = _holder(
        "libcudart_static.a",
        [
            *_options("-L", says.get("LIBRARIES", "")),
            *(root / name for name in ("lib64", "lib")),
            *Path("/usr/lib").glob("*-linux-gnu"),
        ],
        where,
    )
    return Toolkit(real, root, include, libraries, (int(version[1]), int(version[2])))


def _run(command: list[str], where: str) -> str:
    """What nvcc says; it plans on the error output."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfrastructureError(f"{command[0]} does not run: {error}. Fix: {FIX}") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it says nothing"]
        raise InfrastructureError(
            f"nvcc from {where} does not work: {said[-1]}. Fix: repair it, or {FIX}"
        )
    return done.stdout + done.stderr


def _options(flag: str, text: str) -> list[Path]:
    """The folders of `-I` or `-L` options, as a shell would read them."""
    try:
        words = shlex.split(text)
    except ValueError:  # an unclosed quote: not a line that nvcc would run
        return []
    return [Path(word[len(flag) :]) for word in words if word.startswith(flag)]


def _holder(name: str, folders: list[Path], where: str) -> Path:
    for folder in folders:
        if (folder / name).is_file():
            return folder.resolve()
    raise InfrastructureError(
        f"nvcc from {where} comes without {name}: looked in {', '.join(map(str, folders))}. "
        f"Fix: {FIX}"
    )
