"""The weaker rung of the sandbox: starts a program behind what a process can take away from itself.

Run by grader.sandbox as `python -I -S warden.py SPECIFICATION PROGRAM [ARGUMENT...]`; standard
library only. The warden stays the parent of all that the program starts, also of daemons (it is
their subreaper), ends all of it when the program has ended, when it is told to (SIGTERM) or when
the grader dies, and removes what was left behind. Its exit code is the program's, 128 + n for
signal n, as a shell has it.

Before the program starts, its process gives up, as far as this kernel lets it:
  the user          when the grader is root: a user that nobody else has
  files             Landlock: only the named ones can be opened
  signals           Landlock from ABI 6 on: to the program's own processes only
  network, IPC      seccomp: no sockets, no System V or POSIX IPC that would outlive it
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import os
import platform
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

CANNOT_START = 125
FOLDER = "grader-run-"
ABANDONED = 3600.0  # seconds: longer than any program runs
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
PR_CAPBSET_DROP = 24
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue")  # where anybody may leave something

# What every program may read, and the devices that it may also write.
SYSTEM = (
    "/usr", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin",
    "/etc/alternatives", "/etc/ld.so.cache", "/dev/urandom", "/dev/random",
)  # fmt: skip
DEVICES = ("/dev/null", "/dev/zero", "/dev/full")

libc = ctypes.CDLL(None, use_errno=True)


# Landlock ----------------------------------------------------------------------------------------

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # alike on all machines
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REFER, TRUNCATE = 1 << 13, 1 << 14
NET = 3  # bind and connect of TCP
SCOPED = 3  # abstract sockets and signals
SIGNALS_SINCE = 6


def landlock_abi() -> int:
    """The version of Landlock that this kernel has, 0 if none."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def confine_files(readable: Iterable[str], writable: Iterable[str], abi: int) -> None:
    """From now on this process opens these files, and what lies below them, and no others."""
    every = (1 << 13) - 1 | (REFER if abi >= 2 else 0) | (TRUNCATE if abi >= 3 else 0)
    scoped = SCOPED if abi >= SIGNALS_SINCE else 0
    wanted = struct.pack("<QQQ", every, NET if abi >= 4 else 0, scoped)
    size = 24 if scoped else 16 if abi >= 4 else 8  # older kernels know fewer fields
    ruleset = libc.syscall(CREATE_RULESET, wanted, ctypes.c_size_t(size), 0)
    _must(ruleset)
    reading = EXECUTE | READ_FILE | READ_DIR
    for path, rights in [*((p, reading) for p in readable), *((p, every) for p in writable)]:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # not on this machine, or not for this user: it stays closed
        if not os.path.isdir(path):
            rights &= EXECUTE | WRITE_FILE | READ_FILE | (every & TRUNCATE)
        _must(libc.syscall(ADD_RULE, ruleset, 1, struct.pack("<Qi", rights, fd), 0))
        os.close(fd)
    _must(libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


# seccomp -----------------------------------------------------------------------------------------

# (audit architecture, socket, other calls): shmget semget msgget mq_open ptrace process_vm_readv
# process_vm_writev unshare setns add_key request_key keyctl bpf perf_event_open userfaultfd
# io_uring_setup
CALLS = {
    "x86_64": (
        0xC000003E, 41,
        (29, 64, 68, 240, 101, 310, 311, 272, 308, 248, 249, 250, 321, 298, 323, 425),
    ),
    "aarch64": (
        0xC00000B7, 198,
        (194, 190, 186, 180, 117, 270, 271, 97, 268, 217, 218, 219, 280, 241, 282, 425),
    ),
}  # fmt: skip
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
LOCAL_SOCKETS = (1, 16)  # AF_UNIX and AF_NETLINK, for a GPU's driver


def has_seccomp() -> bool:
    return platform.machine() in CALLS


def confine_calls(sockets: Iterable[int]) -> None:
    """From now on some system calls fail; sockets only of these families can be made."""
    architecture, socket, refused = CALLS[platform.machine()]
    families = list(sockets)
    # each step: code, value, steps to skip when it holds, and when not; "no" is the last step
    steps: list[tuple[int, int, int | str, int | str]] = [
        (LOAD, 4, 0, 0),
        (EQUAL, architecture, 0, "no"),
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0x40000000, "no", 0),  # the numbers of another ABI
        *((EQUAL, call, "no", 0) for call in refused),
        (EQUAL, socket, 0, "yes"),
        (LOAD, 16, 0, 0),
        *((EQUAL, family, "yes", 0) for family in families),
        (RETURN, REFUSE, 0, 0),
        (RETURN, ALLOW, 0, 0),
    ]
    last = len(steps) - 1

    def skip(at: int, to: int | str) -> int:
        return to if isinstance(to, int) else last - (to == "no") - at - 1

    packed = b"".join(
        struct.pack("<HBBI", code, skip(at, true), skip(at, false), value)
        for at, (code, value, true, false) in enumerate(steps)
    )
    program = ctypes.create_string_buffer(packed)
    head = struct.pack("@HP", len(steps), ctypes.addressof(program))
    _must(libc.prctl(PR_SET_SECCOMP, 2, head, 0, 0))


# The program's own process -----------------------------------------------------------------------


def become(specification: dict[str, Any], argv: list[str]) -> NoReturn:
    """Give up all that can be given up, and become the program."""
    os.setsid()  # a signal to its own group must not reach the warden
    uid = specification["uid"]
    for name, value in specification["limits"].items():
        what = getattr(resource, f"RLIMIT_{name}")
        if name == "NPROC" and os.getuid() != 0:
            value += tasks_of(os.getuid())  # the kernel counts all that this user runs
        _, most = resource.getrlimit(what)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(what, (value, value))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when memory runs out, rather this one than the grader
    if os.getuid() == 0:
        for capability in range(64):
            if capability not in (6, 7):  # setgid, setuid: needed once more
                libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        if uid is not None:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            for path in specification["readable"]:
                if not os.access(path, os.R_OK):
                    fail(f"user {uid}, whom submissions run as, cannot read {path}: "
                         "chmod o+rX, or put it where others can read")  # fmt: skip
        else:
            drop_capabilities()
    _must(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    _must(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    os.chdir(specification["folder"] or os.environ["TMPDIR"])
    writable = [*specification["writable"], os.environ["TMPDIR"], *DEVICES]
    readable = [*specification["readable"], *SYSTEM]
    if specification["devices"]:
        writable += specification["nodes"]
        readable += ["/sys", "/proc/driver", "/proc/devices", "/proc/cpuinfo", "/proc/meminfo",
                     "/proc/modules", "/proc/sys"]  # fmt: skip
        writable.append(f"/proc/{os.getpid()}")  # the driver names its threads
    abi = landlock_abi()
    if abi:
        confine_files(readable, writable, abi)
    if has_seccomp():
        confine_calls(LOCAL_SOCKETS if specification["devices"] else ())
    os.execvpe(argv[0], argv, os.environ)


def drop_capabilities() -> None:
    """Stay root by name only. What root owns is still its own: Landlock has to hide that."""
    head = struct.pack("<Ii", 0x20080522, 0)
    _must(libc.syscall(126 if platform.machine() == "x86_64" else 91, head, bytes(24)))


def tasks_of(uid: int) -> int:
    """How many processes and threads a user runs."""
    count = 0
    for pid in _processes():
        with suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == uid:
                count += len(os.listdir(f"/proc/{pid}/task"))
    return count


# Ending ------------------------------------------------------------------------------------------


def end_all(uid: int | None) -> None:
    """End everything that descends from this process, and everything of the program's user."""
    while True:
        if uid is not None:
            _as_user(uid, lambda: os.kill(-1, signal.SIGKILL))
        seen: set[int] = set()
        while found := set(descendants()) - seen:  # nobody forks while it is stopped
            for pid in found:
                _signal(pid, signal.SIGSTOP)
            seen |= found
        for pid in seen:
            _signal(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def descendants() -> Iterator[int]:
    """Processes below this one; those that have ended and wait for their parent are left out."""
    parents: dict[int, int] = {}
    for pid in _processes():
        with suppress(OSError), open(f"/proc/{pid}/stat") as file:
            state, parent = file.read().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[pid] = int(parent)
    own = os.getpid()
    for pid in parents:
        above = pid
        while above in parents and above != own:
            above = parents[above]
        if above == own and pid != own:
            yield pid


def sweep(uid: int | None) -> None:
    """Remove what the program's user left where anybody may leave something."""
    for folder in SCRATCH if uid is not None else ():
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid != uid:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        remove(entry.path)
                    else:
                        os.unlink(entry.path)


def remove(folder: str) -> None:
    """Remove a folder, also one with folders that its owner has closed to himself."""
    for path, _, _ in os.walk(folder):
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    os.chmod(entry.path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove scratch folders of wardens that were killed a while ago."""
    with os.scandir("/tmp") as entries:
        for entry in entries:
            with suppress(OSError):
                if not entry.name.startswith(FOLDER):
                    continue
                pid, info = entry.name.removeprefix(FOLDER).split("-")[0], entry.stat()
                old = time.time() - info.st_mtime > ABANDONED
                if old and info.st_uid == os.geteuid() and not os.path.exists(f"/proc/{pid}"):
                    remove(entry.path)


def _as_user(uid: int, act: Any) -> None:
    """Do something as that user, in a process of its own: kill(-1) means all that he has."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.setresuid(uid, uid, uid)
            act()
        os._exit(0)
    os.waitpid(child, 0)


# The warden --------------------------------------------------------------------------------------

_told: list[int] = []


def stop(uid: int | None, number: int, _: object) -> None:
    """The grader says so, or has died."""
    _told.append(number)
    end_all(uid)


def main() -> None:
    specification, argv = json.loads(sys.argv[1]), sys.argv[2:]
    uid = specification["uid"]
    signal.signal(signal.SIGTERM, functools.partial(stop, uid))
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    _must(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    if os.getppid() != specification["parent"]:
        return  # the grader died before it could be watched
    remove_abandoned()
    own = tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-")
    if uid is not None:
        os.chown(own, uid, uid)
    os.environ["HOME"] = own
    os.environ.setdefault("TMPDIR", own)
    try:
        sys.exit(run(specification, argv))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what follows takes no time
        end_all(uid)
        remove(own)
        sweep(uid)


def run(specification: dict[str, Any], argv: list[str]) -> int:
    """Start the program, wait for it, and say how it ended."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            become(specification, argv)
        except BaseException as error:
            fail(f"cannot start {argv[0]}: {error}")
    for fd in specification["fds"]:
        os.close(fd)  # the other end must see when the program closes it
    if _told:  # before there was anybody to end
        end_all(specification["uid"])
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:  # a SIGTERM has ended and reaped everything
            return 128 + signal.SIGKILL
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def fail(sentence: str) -> NoReturn:
    os.write(2, f"{sentence}\n".encode(errors="surrogateescape"))
    os._exit(CANNOT_START)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _signal(pid: int, number: int) -> None:
    with suppress(OSError):
        os.kill(pid, number)


def _must(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
