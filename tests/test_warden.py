"""The weaker rung: what a program gives up there, and that nothing of it stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader import sandbox, warden
from grader.sandbox import Limits, Sandbox

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="not root")
landlock_only = pytest.mark.skipif(not warden.landlock_abi(), reason="no Landlock")
seccomp_only = pytest.mark.skipif(not warden.has_seccomp(), reason="no seccomp filter")

BOX = Sandbox("process")
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a Python program under the warden, in a folder of its own: (exit code, its words)."""

    def execute(program: str, **options: object) -> tuple[int, str]:
        python, folders = sandbox.python()
        with (tmp_path / "said").open("w+b") as said:
            process = BOX.start(
                [python, "-I", "-S", "-c", program],
                readable=folders,
                stdout=said,
                **options,  # type: ignore[arg-type]
            )
            try:
                code = process.wait(30)
            finally:
                sandbox.kill(process)
            said.seek(0)
            return code, said.read().decode()

    return execute


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


DAEMON = """\
import os, sys, time
if os.fork():
    time.sleep({stay})
    sys.exit(0)
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
time.sleep(600)
"""


# Ending ------------------------------------------------------------------------------------------


def test_a_daemon_ends_with_the_program_that_started_it(run: Run) -> None:
    code, said = run(DAEMON.format(stay=0.5))
    assert code == 0
    assert not alive(int(said))


def test_a_daemon_ends_when_the_program_is_killed(tmp_path: Path) -> None:
    python, folders = sandbox.python()
    with (tmp_path / "said").open("w+b") as said:
        program = [python, "-I", "-S", "-c", DAEMON.format(stay=600)]
        process = BOX.start(program, readable=folders, stdout=said)
        daemon = first_number(tmp_path / "said")
        assert alive(daemon)
        sandbox.kill(process)
    assert not alive(daemon)


def first_number(path: Path) -> int:
    """The number that a program prints, once it has."""
    deadline = time.monotonic() + 20
    while not path.read_bytes().endswith(b"\n"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(path.read_text().split()[0])


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            "bubblewrap",
            marks=pytest.mark.skipif(bool(sandbox.why_not_bubblewrap()), reason="no bubblewrap"),
        ),
        "process",
    ],
)
def test_nothing_outlives_a_grader_that_is_killed(kind: str, tmp_path: Path) -> None:
    beat = tmp_path / "beats" / "beat"
    beat.parent.mkdir()
    program = (
        "import os, time\n"
        "if os.fork(): time.sleep(600)\n"
        "os.setsid()\n"
        "while True:\n"
        "    open('beat', 'a').write('x'); time.sleep(0.02)\n"
    )
    grader = (
        "import time\n"
        "from pathlib import Path\n"
        "from grader import sandbox\n"
        "python, folders = sandbox.python()\n"
        f"folder = Path({str(beat.parent)!r})\n"
        f"sandbox.Sandbox({kind!r}).start([python, '-I', '-S', '-c', {program!r}], "
        "readable=folders, writable=[folder], folder=folder)\n"
        "time.sleep(600)\n"
    )
    before = left_behind()
    with subprocess.Popen([sys.executable, "-c", grader], cwd=Path(__file__).parents[1]) as process:
        deadline = time.monotonic() + 30
        while not (beat.exists() and beat.stat().st_size > 2):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
    deadline = time.monotonic() + 20
    size = -1
    while size != beat.stat().st_size or left_behind() > before:
        assert time.monotonic() < deadline
        size = beat.stat().st_size
        time.sleep(0.3)


def left_behind() -> set[str]:
    """Scratch folders of wardens."""
    return {name for name in os.listdir("/tmp") if name.startswith("grader-run-")}


def test_the_scratch_folder_is_private_and_gone_afterwards(run: Run) -> None:
    program = (
        "import os, tempfile\n"
        "open('made', 'w').write('x')\n"
        "os.makedirs('deep/er'); os.chmod('deep', 0)\n"
        "print(os.getcwd(), os.environ['HOME'], tempfile.gettempdir(), oct(os.stat('.').st_mode))"
    )
    code, said = run(program)
    folder, home, scratch, mode = said.split()
    assert code == 0
    assert folder == home == scratch
    assert mode == "0o40700"
    assert not Path(folder).exists()


def test_a_program_that_stops_the_warden_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "PATIENCE", 0.5)
    process = BOX.start(["sleep", "600"])
    deadline = time.monotonic() + 20
    while not sandbox_children(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (child,) = sandbox_children(process.pid)
    os.kill(process.pid, signal.SIGSTOP)
    sandbox.kill(process)
    deadline = time.monotonic() + 10
    while alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not list(Path("/tmp").glob(f"{warden.FOLDER}{process.pid}-*"))


@root_only
@pytest.mark.usefixtures("systems_python")
def test_a_warden_that_is_killed_is_stood_in_for(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w+b") as said:
        program = ["python3", "-I", "-S", "-c", DAEMON.format(stay=600)]
        process = BOX.start(program, stdout=said)
        daemon = first_number(tmp_path / "said")
        process.kill()
        process.wait()
        sandbox.kill(process)
    deadline = time.monotonic() + 10
    while alive(daemon):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not list(Path("/tmp").glob(f"{warden.FOLDER}{process.pid}-*"))


def test_what_a_killed_warden_left_does_not_stay_for_ever() -> None:
    old, new, running = (
        Path(f"/tmp/{warden.FOLDER}{pid}-{os.getpid()}") for pid in (0, 4194305, os.getpid())
    )
    for folder in (old, new, running):
        folder.mkdir()
    for folder in (old, running):
        os.utime(folder, (0, 0))
    try:
        warden.remove_abandoned()
        assert [folder.exists() for folder in (old, new, running)] == [False, True, True]
    finally:
        new.rmdir()
        running.rmdir()


def test_a_probe_disturbs_nobody(tmp_path: Path) -> None:
    """Two graders at once: what one finds out about the machine ends no program of the other."""
    for kind in sandbox.RUNGS:
        if kind == "bubblewrap" and sandbox.why_not_bubblewrap():
            continue
        process = Sandbox(kind).start(["sleep", "600"])
        sandbox.why_not_bubblewrap.__wrapped__()
        sandbox._why_root.__wrapped__()
        time.sleep(0.2)
        assert process.poll() is None
        sandbox.kill(process)


def sandbox_children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_program_that_is_not_there_is_told(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "words").open("w+b") as words:
        process = BOX.start(["no-such-program"], stdout=words)
        assert process.wait(20) == warden.CANNOT_START
        sandbox.kill(process)
        words.seek(0)
        assert words.read().startswith(b"cannot start no-such-program: ")


# What is given up --------------------------------------------------------------------------------


@landlock_only
def test_only_the_named_files_can_be_opened(run: Run, tmp_path: Path) -> None:
    for name in ("secret", "shown"):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(0o644)
    program = (
        f"for name in ({str(tmp_path / 'secret')!r}, {str(tmp_path / 'shown')!r}, '/etc/passwd',\n"
        "             '/proc/1/cmdline', '/proc/self/maps'):\n"
        "    try: print(len(open(name).read()))\n"
        "    except OSError as error: print(error.strerror)\n"
    )
    readable = [tmp_path / "shown", *sandbox.python()[1]]
    python = sandbox.python()[0]
    with (tmp_path / "said").open("w+b") as said:
        process = BOX.start([python, "-I", "-S", "-c", program], readable=readable, stdout=said)
        process.wait(20)
        sandbox.kill(process)
        said.seek(0)
        lines = said.read().decode().splitlines()
    assert lines == ["Permission denied", "5", *3 * ["Permission denied"]]


@landlock_only
@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/dev/shm"])
def test_nothing_can_be_left_where_anybody_may_write(run: Run, folder: str) -> None:
    path = Path(folder) / f"left-{os.getpid()}"
    code, said = run(f"open({str(path)!r}, 'w')")
    assert (code, "PermissionError" in said) == (1, True)
    assert not path.exists()


@pytest.mark.skipif(warden.landlock_abi() < warden.SIGNALS_SINCE, reason="an older Landlock")
def test_other_processes_cannot_be_ended(run: Run) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        program = (
            "import os\n"
            f"for pid in ({other.pid}, {os.getpid()}, os.getppid()):\n"
            "    try: os.kill(pid, 0); print('reached')\n"
            "    except PermissionError: print('refused')\n"
        )
        assert run(program) == (0, "refused\n" * 3)
        other.kill()


@seccomp_only
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET"])
def test_no_socket_can_be_made(run: Run, family: str) -> None:
    code, said = run(f"import socket; socket.socket(socket.{family}, socket.SOCK_RAW)")
    assert (code, "PermissionError" in said) == (1, True)


@seccomp_only
def test_a_gpu_driver_may_make_local_sockets(run: Run) -> None:
    program = (
        "import socket\n"
        "socket.socket(socket.AF_UNIX)\n"
        "try: socket.socket(socket.AF_INET)\n"
        "except PermissionError: print('refused')\n"
    )
    assert run(program, devices=True) == (0, "refused\n")


@seccomp_only
def test_no_shared_memory_can_be_left_behind(run: Run) -> None:
    program = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.shmget(0, 4096, 0o1666), libc.semget(0, 1, 0o1666), libc.msgget(0, 0o1666))\n"
        "print(libc.mq_open(b'/left', 0o102, 0o666, None), ctypes.get_errno())\n"
    )
    assert run(program) == (0, "-1 -1 -1\n-1 1\n")


def test_a_program_gains_nothing_from_setuid_programs(run: Run) -> None:
    program = (
        "import ctypes\n"
        "print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))\n"  # PR_GET_NO_NEW_PRIVS
    )
    assert run(program) == (0, "1\n")


def test_limits_hold(run: Run) -> None:
    program = (
        "import resource as r\n"
        "print([r.getrlimit(n) for n in (r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_CORE)])\n"
        "file = open('large', 'wb', 0)\n"
        "try: print(file.write(bytes(5000))); file.write(b'x')\n"
        "except OSError as error: print(error.strerror)\n"
    )
    code, said = run(program, limits=Limits(50, 7, 4096))
    assert (code, said) == (0, "[(7, 7), (4096, 4096), (0, 0)]\n4096\nFile too large\n")


def test_a_program_may_not_compute_for_ever(run: Run) -> None:
    assert run("while True: pass", limits=Limits(50, 1))[0] == 128 + signal.SIGKILL


# Users -------------------------------------------------------------------------------------------


@pytest.fixture
def systems_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An interpreter that every user can run, whatever runs the tests."""
    python = "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip(f"no {python}")
    monkeypatch.setattr(sandbox, "python", lambda: (python, []))
    sandbox._why_root.cache_clear()
    yield python
    sandbox._why_root.cache_clear()


@root_only
@pytest.mark.usefixtures("systems_python")
def test_root_becomes_somebody_else(run: Run) -> None:
    program = (
        "import os\n"
        "print(os.getresuid() == os.getresgid(), os.getuid(), os.getgroups())\n"
        "try: os.setuid(0)\n"
        "except PermissionError: print('stays so')\n"
    )
    code, said = run(program)
    same, uid, groups, *rest = said.split()
    assert (code, same, groups, rest) == (0, "True", "[]", ["stays", "so"])
    assert int(uid) in sandbox.USERS


@root_only
@pytest.mark.usefixtures("systems_python")
def test_two_programs_at_once_are_two_users(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "words").open("w+b") as words:
        one = BOX.start(["sh", "-c", "id -u; sleep 600"], stdout=words)
        uid = first_number(tmp_path / "words")
        _, said = run("import os; print(os.getuid())")
        assert int(said) != uid
        sandbox.kill(one)


@root_only
@pytest.mark.usefixtures("systems_python")
def test_processes_are_counted(run: Run) -> None:
    program = (
        "import os, time\n"
        "made = 0\n"
        "while made < 60:\n"
        "    try: pid = os.fork()\n"
        "    except BlockingIOError: break\n"
        "    if pid == 0: time.sleep(60)\n"
        "    made += 1\n"
        "print(made)\n"
    )
    assert run(program, limits=Limits(processes=20)) == (0, "19\n")


@root_only
def test_what_the_user_may_not_read_is_named(systems_python: str, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.write_text("x")
    closed.chmod(0o600)
    with (tmp_path / "words").open("w+b") as words:
        process = BOX.start([systems_python, "-c", "pass"], readable=[closed], stdout=words)
        assert process.wait(20) == warden.CANNOT_START
        sandbox.kill(process)
        words.seek(0)
        assert f"cannot read {closed}: chmod o+rX" in words.read().decode()


@root_only
def test_what_a_user_left_anywhere_is_removed(tmp_path: Path) -> None:
    """Without Landlock there are folders where everybody may leave something."""
    folder = Path("/dev/shm") / f"left-{os.getpid()}"
    folder.mkdir()
    (folder / "file").write_text("x")
    os.chown(folder, sandbox.USERS[-1], -1)
    kept = Path("/dev/shm") / f"kept-{os.getpid()}"
    kept.touch()
    try:
        warden.sweep(sandbox.USERS[-1])
        assert not folder.exists()
        assert kept.exists()
    finally:
        kept.unlink()


@root_only
@landlock_only
def test_root_without_another_user_has_no_capabilities(
    monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path
) -> None:
    monkeypatch.setattr(sandbox, "drops_root", lambda _: False)
    (tmp_path / "others").touch()
    os.chown(tmp_path / "others", 1, 1)
    (tmp_path / "others").chmod(0o600)
    program = (
        "import os\n"
        f"try: open({str(tmp_path / 'others')!r})\n"
        "except PermissionError: print('refused')\n"
        "try: os.chroot('/')\n"
        "except PermissionError: print('refused')\n"
    )
    assert run(program, writable=[tmp_path]) == (0, "refused\n" * 2)


@root_only
def test_an_ordinary_user_has_the_same_walls(root: Path) -> None:
    """These tests and those of the sandbox again, as nobody."""
    python = Path("/usr/bin/python3")
    version = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if not python.exists() or subprocess.run([python, "-c", version], check=False).returncode:
        pytest.skip("no interpreter of this version that everybody can run")
    packages = [path for path in sys.path if path.endswith("site-packages")]
    if subprocess.run(
        ["setpriv", "--reuid", "65534", "--clear-groups", "ls", root, *packages],
        check=False, capture_output=True,
    ).returncode:  # fmt: skip
        pytest.skip("nobody cannot read this checkout")
    tests = [root / "tests" / name for name in ("test_warden.py", "test_sandbox.py")]
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        os.chown(name, 65534, 65534)
        done = subprocess.run(
            ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", python, "-m",
             "pytest", *tests, "-q", "-p", "no:xdist", "-p", "no:cacheprovider",
             "--basetemp", f"{name}/base"],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": ":".join([str(root), *packages]),
                 "HOME": name, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=root, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert done.stdout.count(".") > 40


def test_the_specification_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on a command line, which everybody can read."""
    wanted = sandbox._Wanted(["true"], [], [], None, False, Limits(), None, [])
    told = json.loads(sandbox._under_warden(wanted)[4])
    assert set(told) == {
        "parent", "uid", "limits", "readable", "writable", "folder", "devices", "nodes", "fds",
    }  # fmt: skip
