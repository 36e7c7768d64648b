"""What the compiled files of a submission define and use, and what of that is not allowed.

The linker would let a submission take the place of functions of the grader, or call them; a few
functions of the system serve no kernel, but would let it meddle with its process: with the channel
to the grader, or with what watches its accesses. All of this is refused before anything runs.
It is a fence, not the wall: the wall is the sandbox, and that only numbers which the grader itself
has compared decide (grader/threat-model.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.assignment import Assignment
from grader.errors import BuildFailed, Forbidden

MOST_BYTES = 64 << 20  # of a list
# What the build leaves for us, by the shell's commands: see `commands`.
DEFINED, USED, LINKED, NEEDED, TRAPS = "defined", "used", "linked", "needed", "traps"

_REASONS: Mapping[str, str] = {
    "starts or ends processes": """
        fork vfork _Fork clone clone3 execl execlp execle execv execve execvp execvpe execveat
        fexecve posix_spawn posix_spawnp system popen daemon setsid setpgid wait3 wait4 waitpid
        kill killpg tgkill raise pthread_kill sigqueue""",
    "reaches into processes": """
        ptrace process_vm_readv process_vm_writev prctl arch_prctl personality setrlimit
        setrlimit64 prlimit prlimit64 setns unshare pivot_root chroot mount umount2""",
    "looks up functions by name": "dlopen dlmopen dlsym dlvsym dladdr dladdr1 dl_iterate_phdr",
    "asks the system directly": "syscall vsyscall",
    "changes how memory is mapped": """
        mmap mmap64 munmap mprotect pkey_mprotect mremap remap_file_pages madvise msync
        memfd_create shm_open shm_unlink shmget shmat shmctl userfaultfd""",
    "works on descriptors": """
        open open64 openat openat64 creat read write pread pread64 pwrite pwrite64 readv writev
        preadv pwritev close closefrom close_range dup dup2 dup3 fcntl fcntl64 ioctl pipe pipe2
        sendfile sendfile64 splice tee vmsplice lseek lseek64 ftruncate ftruncate64 fdopen
        socket socketpair connect bind listen accept accept4 send sendto sendmsg sendmmsg
        recv recvfrom recvmsg recvmmsg shutdown getsockopt setsockopt poll select epoll_create
        epoll_create1 eventfd inotify_init""",
    "handles signals": """
        signal sigaction sigaltstack sigprocmask pthread_sigmask sigset sighold siginterrupt
        sigsuspend timer_create setitimer alarm ualarm""",
}
# A program needs none of these to compute something. `fopen`, `printf`, `exit` and threads do no
# harm: files are not there, output is only shown, and a process that ends is a failed call.
FORBIDDEN = {name: why for why, names in _REASONS.items() for name in names.split()}
PYTHON = re.compile(r"_?Py[A-Z_]\w*")
LIST = re.compile(r"^(?:(?P<file>.*?):)?\s*(?:[0-9a-fA-F]+\s+)?(?P<type>[A-Za-z]) (?P<name>.+)$")
WEAK = "VvWwu"  # the linker takes another one if there is one


@dataclass(frozen=True)
class Symbol:
    """A line of nm: the object file ("" if there is one alone), its type, and the name."""

    file: str
    type: str
    name: str


def commands(linked: Iterable[str]) -> str:
    """Shell commands that list what is in the object files below the working folder, and in the
    files that they are linked with (quoted for a shell)."""
    objects = "find . -name '*.cu*.o' -exec"
    others = " ".join(linked)
    lists = [
        f"{objects} nm -A -g --defined-only {{}} + > {DEFINED}",
        f"{objects} nm -A -u {{}} + > {USED}",
        # what only an assembler can write; compilers make none of it
        f"{objects} objdump -d --no-show-raw-insn {{}} + 2>/dev/null"
        f" | grep -E '^ *[0-9a-f]+:.(syscall|sysenter|int +.0x80|wrpkru|svc)' > {TRAPS}; true",
    ]
    if others:
        lists += [
            f"nm -g --defined-only {others} > {LINKED} 2>/dev/null",
            f"nm -u {others} > {NEEDED} 2>/dev/null; true",
        ]
    return "; ".join(lists)


def refuse(
    target: Path, assignment: Assignment, units: Mapping[str, str], api: Path | None
) -> None:
    """Raises Forbidden for what a submission must not define or use, BuildFailed for two launchers
    of one name.

    target: where `commands` ran. units: how the path of each object file ends, and the name of the
    student's file that is in it. api: headers of the only functions of the emulator that may be
    used; None when there is no emulator.
    """
    defined = read(target / DEFINED)
    _refuse_two_definitions(defined, assignment, units)
    ours = {symbol.name for symbol in read(target / LINKED) if symbol.type not in WEAK}
    needed = {symbol.name for symbol in read(target / NEEDED)}
    launchers = {part.launcher for part in assignment.parts}
    _refuse_redefinitions(defined, (ours | needed) - launchers)
    used = read(target / USED)
    _refuse_forbidden(used, units)
    if api is not None:
        _refuse_internals(used, units, _words(api))
    if (target / TRAPS).stat().st_size:
        raise Forbidden("the submission asks the system directly, by assembler: it must not", "")


def read(path: Path) -> list[Symbol]:
    """The symbols in a list of nm's; none if there is no such list."""
    if not path.is_file():
        return []
    if path.stat().st_size > MOST_BYTES:
        raise BuildFailed("the submission defines too many names", "")
    found = []
    for line in path.read_text(errors="replace").splitlines():
        match = LIST.match(line)
        if match:
            found.append(Symbol(match["file"] or "", match["type"], match["name"].split("@")[0]))
    return found


def _refuse_two_definitions(
    defined: list[Symbol], assignment: Assignment, units: Mapping[str, str]
) -> None:
    """The linker takes the first of two equal launchers (helpers in headers need that), but which
    one a student meant is not ours to guess."""
    for part in assignment.parts:
        files = [one.file for one in defined if one.name == part.launcher and one.type == "T"]
        names = sorted(name for end, name in units.items() if any(f.endswith(end) for f in files))
        if len(names) > 1:
            raise BuildFailed(
                f"{part.launcher} is defined in {' and in '.join(names)}: remove one of them", ""
            )


def _refuse_redefinitions(defined: list[Symbol], ours: set[str]) -> None:
    """A submission that defines one of the runtime's functions, such as cudaEventElapsedTime, or
    one that the runtime calls, would put itself between the grader and the device."""
    for name in sorted({one.name for one in defined if one.type not in WEAK} & ours):
        raise Forbidden(
            f"{name} is a function of the CUDA runtime or of the grader: call yours another name",
            "",
        )


def _refuse_forbidden(used: list[Symbol], units: Mapping[str, str]) -> None:
    for one in used:
        why = FORBIDDEN.get(one.name)
        if why is None and PYTHON.fullmatch(one.name):
            why = "belongs to Python"
        if why is not None:
            raise Forbidden(
                f"{_file(one, units)} uses {one.name}(), which {why}: a submission must not", ""
            )


def _refuse_internals(used: list[Symbol], units: Mapping[str, str], words: set[str]) -> None:
    """Of the emulator a submission may use what its headers offer to device code and to CUDA
    programs, and nothing that a program around the emulator would use."""
    for one in used:
        parts = _own_names(one.name)
        if any(part not in words for part in parts):
            raise Forbidden(
                f"{_file(one, units)} uses {'::'.join(parts)}, which is the grader's own", ""
            )


def _own_names(name: str) -> list[str]:
    """The parts of the name of something of the emulator's; none for other names."""
    if name.startswith(("emu_", "__emulator")):
        return [name]
    nested = re.match(r"_ZN[KVRO]*8emulator", name)
    if nested is None:
        return []
    parts, at = ["emulator"], nested.end()
    while (length := re.compile(r"[1-9]\d*").match(name, at)) is not None:
        at = length.end() + int(length[0])
        parts.append(name[length.end() : at])
    return parts


@cache
def _words(api: Path) -> set[str]:
    """All identifiers in the headers."""
    words: set[str] = set()
    for path in sorted(api.rglob("*")):
        if path.is_file() and path.name != "control.h":
            words |= set(re.findall(r"[A-Za-z_]\w*", path.read_text(errors="replace")))
    return words


def _file(one: Symbol, units: Mapping[str, str]) -> str:
    """The student's file that an object file was made of."""
    return next((name for end, name in units.items() if one.file.endswith(end)), "the submission")
