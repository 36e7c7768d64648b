"""Runs untrusted programs: compilers on a student's text, and the student's code itself.

Two rungs, the first that works on this machine:
  bubblewrap  own namespaces: no network, no other processes, only the named folders visible
  process     own session, clean environment; nothing is hidden
Which one was used is recorded in every score. A rung is chosen by running it, not by looking
for a binary: containers and hardened kernels often refuse user namespaces.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from grader import gpu_files

TMP_BYTES = 256 << 20


@dataclass(frozen=True)
class Sandbox:
    """How to start a program so that it can do no harm. `kind` goes into the score."""

    kind: str

    def start(
        self,
        argv: Sequence[str],
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        folder: Path | None = None,
        pass_fds: Sequence[int] = (),
        stdout: int | IO[bytes] = subprocess.DEVNULL,
        stderr: int | IO[bytes] = subprocess.STDOUT,
        env: Mapping[str, str] | None = None,
        devices: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start argv in a session of its own; end it with `kill`.

        readable, writable: files and folders it may see (read-only, read-write) beside the
        system's own under /usr. folder: where it starts. devices: it may use this machine's GPUs.
        """
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/tmp"}
        if devices:
            environment.update(gpu_files.environment())
            readable = [*readable, *gpu_files.driver_folders()]
        environment.update(env or {})
        command = list(argv)
        if self.kind == "bubblewrap":
            walls = _bubblewrap(readable, writable, folder or Path("/tmp"), devices)
            command = [*walls, *argv]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            cwd=None if self.kind == "bubblewrap" else folder,
            pass_fds=pass_fds,
            start_new_session=True,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a sandboxed program and all that it started, and reap it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()


def _bubblewrap(
    readable: Sequence[Path], writable: Sequence[Path], folder: Path, devices: bool = False
) -> list[str]:
    command = [
        "bwrap", "--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534",
        "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        "--proc", "/proc", "--dev", "/dev",
        "--size", str(TMP_BYTES), "--tmpfs", "/tmp",
        "--ro-bind", "/usr", "/usr",
    ]  # fmt: skip
    for name in ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"):
        if os.path.islink(name):
            command += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            command += ["--ro-bind", name, name]
    for name in ("/etc/alternatives", "/etc/ld.so.cache"):
        command += ["--ro-bind-try", name, name]
    if devices:  # after --dev: that makes a /dev of its own, without any of them
        for path in gpu_files.nodes():
            command += ["--dev-bind", str(path), str(path)]
        command += ["--ro-bind-try", "/sys", "/sys"]  # some drivers look there for the card
    for path in readable:
        command += ["--ro-bind", str(path), str(path)]
    for path in writable:
        command += ["--bind", str(path), str(path)]
    return [*command, "--chdir", str(folder), "--"]


@functools.cache
def choose() -> Sandbox:
    """The strongest rung that works here."""
    return Sandbox("bubblewrap" if why_not_bubblewrap() == "" else "process")


@functools.cache
def why_not_bubblewrap() -> str:
    """Empty when bubblewrap works here, else the reason in its own words."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    probe = subprocess.run(
        [*_bubblewrap([], [], Path("/tmp")), "true"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    if probe.returncode == 0:
        return ""
    return probe.stderr.strip().splitlines()[-1] if probe.stderr.strip() else "bwrap failed"


def python() -> tuple[str, list[Path]]:
    """An interpreter without site-packages for the sandbox, and the folders that it needs."""
    executable = getattr(sys, "_base_executable", sys.executable) or sys.executable
    prefix = Path(sys.base_prefix).resolve()
    needed = [] if prefix.is_relative_to("/usr") else [prefix]
    binary = Path(executable).resolve()
    if not any(binary.is_relative_to(root) for root in [Path("/usr"), *needed]):
        needed.append(binary.parent)
    return str(binary), needed
