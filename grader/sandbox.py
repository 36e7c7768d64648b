"""Runs untrusted programs: compilers on a student's text, and the student's code itself.

Two rungs, the first that works on this machine:
  bubblewrap  own namespaces: no network, no other processes, only the named folders visible
  process     the program gives up what it can by itself (grader/warden.py): it depends on the
              kernel how much that is, and `lacks` says what is missing
Which one was used, and what it lacks, is recorded in every score. A rung is chosen by running it,
not by looking for a binary: containers and hardened kernels often refuse user namespaces.

When the grader is root, programs run as a user that nobody else on the machine has.
GRADER_SANDBOX=process (or bubblewrap) asks for a rung.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from grader import gpu_files, warden
from grader.errors import InfrastructureError, UsageError

TMP_BYTES = 256 << 20
USERS = range(60578, 61184)  # nobody's, by the conventions of Linux distributions
RUNGS = ("bubblewrap", "process")
VARIABLE = "GRADER_SANDBOX"
PATIENCE = 10.0  # seconds for a rung to end all that it started


@dataclass(frozen=True)
class Limits:
    """The most that a program may take: processes and threads, CPU seconds and memory of each
    process, bytes of each file. Memory is the worker's and the compilers' own matter."""

    processes: int = 256
    cpu_seconds: int = 900
    file_bytes: int = 1 << 30

    def names(self) -> dict[str, int]:
        """As the kernel calls them."""
        return {
            "NPROC": self.processes,
            "CPU": self.cpu_seconds,
            "FSIZE": self.file_bytes,
            "CORE": 0,
        }


class Started(subprocess.Popen[bytes]):
    """A sandboxed program. `warden`: it ends what it started when it is told to."""

    warden: bool = False
    user: User | None = None


@dataclass(frozen=True)
class Sandbox:
    """How to start a program so that it can do no harm. `kind` goes into the score."""

    kind: str

    @property
    def hides_files(self) -> bool:
        """Whether a program sees no files but the system's and those that are named to `start`."""
        return self.kind == "bubblewrap" or warden.landlock_abi() > 0

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
        limits: Limits | None = None,
    ) -> Started:
        """Start argv in a session of its own; end it with `kill`.

        readable, writable: files and folders it may see (read-only, read-write) beside the
        system's own under /usr. folder: where it starts; a scratch folder of its own when left
        out. devices: it may use this machine's GPUs. Raises OSError when it cannot be started.
        """
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/tmp"}
        if devices:
            environment.update(gpu_files.environment())
            readable = [*readable, *gpu_files.driver_folders()]
        environment.update(env or {})
        user = User() if drops_root(self.kind) else None
        try:
            if user is not None:
                for path in writable:
                    os.chown(path, user.uid, user.uid)
            wanted = _Wanted(
                list(argv), readable, writable, folder, devices, limits or Limits(),
                None if user is None else user.uid, list(pass_fds),
            )  # fmt: skip
            walled = self.kind == "bubblewrap"
            process = Started(
                _bubblewrap(wanted) if walled else _under_warden(wanted),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                pass_fds=pass_fds,
                start_new_session=True,
            )
        except BaseException:
            if user is not None:
                user.give_back()
            raise
        process.warden = not walled
        process.user = user
        return process


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a sandboxed program and all that it started, and reap it."""
    under_warden = isinstance(process, Started) and process.warden
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            if under_warden:
                process.terminate()
            else:
                # the first process of the namespace: when it is gone, so is everything in it
                os.kill(_only_child(process.pid), signal.SIGKILL)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
    if under_warden and process.returncode < 0:
        _in_place_of_the_warden(process)
    if isinstance(process, Started) and process.user is not None:
        process.user.give_back()


def _in_place_of_the_warden(process: subprocess.Popen[bytes]) -> None:
    """Somebody killed the warden, so it could not clear up."""
    if isinstance(process, Started) and process.user is not None:
        uid = process.user.uid
        command = ["setpriv", "--reuid", str(uid), "--clear-groups", "sh", "-c", "kill -9 -1"]
        with suppress(OSError):
            subprocess.run(command, capture_output=True, check=False)
        warden.sweep(uid)
    for folder in Path("/tmp").glob(f"{warden.FOLDER}{process.pid}-*"):
        warden.remove(str(folder))


def _only_child(pid: int) -> int:
    """Raises ProcessLookupError when there is none yet, or no more."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    except (OSError, IndexError):
        raise ProcessLookupError from None


class User:
    """A user id that no other sandbox on this machine has, until it is given back."""

    def __init__(self) -> None:
        for uid in USERS:
            self._lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                self._lock.bind(f"\0kernel-grader-user-{uid}")
            except OSError:  # somebody has it
                self._lock.close()
                continue
            self.uid = uid
            return
        raise InfrastructureError(
            f"{len(USERS)} submissions run on this machine already: wait for some to end"
        )

    def give_back(self) -> None:
        self._lock.close()


@dataclass(frozen=True)
class _Wanted:
    argv: list[str]
    readable: Sequence[Path]
    writable: Sequence[Path]
    folder: Path | None
    devices: bool
    limits: Limits
    uid: int | None
    fds: list[int]


# The rungs ---------------------------------------------------------------------------------------


def _under_warden(wanted: _Wanted) -> list[str]:
    interpreter, folders = python()
    specification = {
        "parent": os.getpid(),
        "uid": wanted.uid,
        "limits": wanted.limits.names(),
        "readable": [str(path) for path in [*folders, *wanted.readable]],
        "writable": [str(path) for path in wanted.writable],
        "folder": None if wanted.folder is None else str(wanted.folder),
        "devices": wanted.devices,
        "nodes": [str(path) for path in gpu_files.nodes()] if wanted.devices else [],
        "fds": wanted.fds,
    }
    script = str(warden.__file__)
    return [interpreter, "-I", "-S", script, json.dumps(specification), *wanted.argv]


def _bubblewrap(wanted: _Wanted) -> list[str]:
    size = str(TMP_BYTES)
    command = ["bwrap", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if wanted.uid is None:
        command += ["--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534"]
    else:
        # Root needs no user namespace, in which it would stay root outside of it, and without any
        # bound on its processes. Root sets up the walls, so that folders of its own can be shown.
        command += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
        command += ["--unshare-cgroup-try"]
        for capability in ("SETUID", "SETGID", "DAC_READ_SEARCH"):  # until setpriv, below
            command += ["--cap-add", f"CAP_{capability}"]
    command += [
        "--proc", "/proc", "--dev", "/dev",
        "--perms", "1777", "--size", size, "--tmpfs", "/dev/shm",
        "--perms", "1777", "--size", size, "--tmpfs", "/tmp",
        "--ro-bind", "/usr", "/usr",
    ]  # fmt: skip
    for name in ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin"):
        if os.path.islink(name):
            command += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            command += ["--ro-bind", name, name]
    for above in _folders_above([Path("/etc/any"), *wanted.readable, *wanted.writable]):
        command += ["--perms", "0755", "--dir", above]  # by itself bwrap makes them for root only
    for name in ("/etc/alternatives", "/etc/ld.so.cache"):
        command += ["--ro-bind-try", name, name]
    if wanted.devices:  # after --dev: that makes a /dev of its own, without any of them
        for path in gpu_files.nodes():
            command += ["--dev-bind", str(path), str(path)]
        command += ["--ro-bind-try", "/sys", "/sys"]  # some drivers look there for the card
    for path in wanted.readable:
        command += ["--ro-bind", str(path), str(path)]
    for path in wanted.writable:
        command += ["--bind", str(path), str(path)]
    command += ["--remount-ro", "/dev", "--remount-ro", "/"]  # memory that no size bounds
    command += ["--chdir", str(wanted.folder or "/tmp"), "--", "prlimit"]
    command += [f"--{name.lower()}={value}" for name, value in wanted.limits.names().items()]
    if wanted.uid is not None:
        user = str(wanted.uid)
        command += ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
        command += ["--inh-caps=-all", "--no-new-privs"]
    return [*command, *wanted.argv]


def _folders_above(paths: Sequence[Path]) -> list[str]:
    """The folders that lead to these, outermost first; the system's own are there already."""
    found = {above for path in paths for above in path.parents}
    known = (Path("/"), Path("/tmp"))
    return [str(one) for one in sorted(found) if one not in known and one.parts[1] != "usr"]


# Choosing ----------------------------------------------------------------------------------------


@functools.cache
def choose() -> Sandbox:
    """The strongest rung that works here, or the one that GRADER_SANDBOX names.

    Raises UsageError when it names none, and InfrastructureError when it does not work here.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked and asked not in RUNGS:
        raise UsageError(f"{VARIABLE} is {asked!r}: it can be {' or '.join(RUNGS)}")
    if asked != "process":
        reason = why_not_bubblewrap()
        if not reason:
            return Sandbox("bubblewrap")
        if asked:
            raise InfrastructureError(f"{VARIABLE} is bubblewrap, which does not work: {reason}")
    if os.geteuid() == 0 and not drops_root("process") and not _hides("process"):
        raise InfrastructureError(
            f"submissions would run as root: {_why_root()}, and this kernel's Landlock cannot "
            "contain them. Install bubblewrap, or grade as an ordinary user"
        )
    return Sandbox("process")


def isolated() -> None:
    """Raises InfrastructureError when only the weaker rung works here."""
    box = choose()
    if box.kind != "bubblewrap":
        reason = why_not_bubblewrap() or f"{VARIABLE} is {box.kind}"
        raise InfrastructureError(
            f"submissions cannot be isolated on this machine ({reason}), as --require-isolation "
            "demands: install bubblewrap, and allow namespaces"
        )


@functools.cache
def why_not_bubblewrap() -> str:
    """Empty when bubblewrap works here, else the reason in its own words."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    with _another_user() as uid:
        wanted = _Wanted(["true"], [], [], Path("/tmp"), False, Limits(), uid, [])
        return _complaint(_bubblewrap(wanted), "bwrap failed")


@contextmanager
def _another_user() -> Iterator[int | None]:
    """For root, an id that nobody has meanwhile: all that it runs is ended in the end."""
    user = User() if os.geteuid() == 0 else None
    try:
        yield None if user is None else user.uid
    finally:
        if user is not None:
            user.give_back()


def _complaint(command: Sequence[str], silent: str) -> str:
    """The last line that a program which fails says, empty when it does not fail."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    said = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else said[-1] if said else silent


def drops_root(kind: str) -> bool:
    """Whether the grader is root, and programs on that rung run as another user."""
    return os.geteuid() == 0 and (kind == "bubblewrap" or not _why_root())


@functools.cache
def _why_root() -> str:
    """Empty when another user can run a program under the warden, else the reason."""
    interpreter, folders = python()
    program = [interpreter, "-I", "-S", "-c", "pass"]
    readable = [*folders, Path(warden.__file__)]
    with _another_user() as uid:
        wanted = _Wanted(program, readable, [], None, False, Limits(), uid, [])
        return _complaint(_under_warden(wanted), "another user cannot run Python here")


def _hides(kind: str) -> bool:
    """Whether files and processes of others are out of reach."""
    return kind == "bubblewrap" or warden.landlock_abi() >= warden.SIGNALS_SINCE


def lacks(box: Sandbox) -> list[str]:
    """What this rung does not promise here, as sentences; none for bubblewrap."""
    if box.kind == "bubblewrap":
        return []
    found = []
    if os.geteuid() == 0 and not drops_root(box.kind):
        found.append(f"it runs as root, but without root's capabilities: {_why_root()}")
        found.append("the number of its processes is not limited")
    if not box.hides_files:
        found.append("every file that its user may read or write is within reach")
    if not _hides(box.kind) and not drops_root(box.kind):
        found.append("it can end other processes of its user, the grader among them")
    if not warden.has_seccomp():
        found.append("it can use the network, and leave shared memory behind")
    found.append("whether a file or a process of some name exists can be found out")
    found.append("its scratch files are limited one by one, not altogether")
    return found


def python() -> tuple[str, list[Path]]:
    """An interpreter without site-packages for the sandbox, and the folders that it needs."""
    executable = getattr(sys, "_base_executable", sys.executable) or sys.executable
    prefix = Path(sys.base_prefix).resolve()
    needed = [] if prefix.is_relative_to("/usr") else [prefix]
    binary = Path(executable).resolve()
    if not any(binary.is_relative_to(root) for root in [Path("/usr"), *needed]):
        needed.append(binary.parent)
    return str(binary), needed
