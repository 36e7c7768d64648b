"""What an untrusted program can see and do, on each rung that works here."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import gpu_files, sandbox
from grader.sandbox import Limits, Sandbox

WHY_NOT = sandbox.why_not_bubblewrap()
bubblewrap_only = pytest.mark.skipif(bool(WHY_NOT), reason=f"no bubblewrap: {WHY_NOT}")
RUNGS = [pytest.param("bubblewrap", marks=bubblewrap_only), "process"]


@pytest.fixture(params=RUNGS)
def rung(request: pytest.FixtureRequest) -> Sandbox:
    return Sandbox(request.param)


@pytest.fixture
def walls() -> Sandbox:
    """The rung that hides things."""
    return Sandbox("bubblewrap")


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Runs a Python program in a sandbox: (exit code, what it printed)."""

    def execute(box: Sandbox, program: str, **options: object) -> tuple[int, str]:
        python, folders = sandbox.python()
        with (tmp_path / "said").open("w+b") as said:
            process = box.start(
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


Run = Callable[..., tuple[int, str]]


def unwalled(program: str) -> tuple[int, str]:
    """The same without any sandbox."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


# Both rungs --------------------------------------------------------------------------------------


def test_a_program_runs_in_its_folder(rung: Sandbox, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    code, said = run(
        rung, "import os; print(os.getcwd()); open('made', 'w')", writable=[folder], folder=folder
    )
    assert (code, said) == (0, f"{folder}\n")
    assert (folder / "made").exists()


def test_the_environment_is_clean(rung: Sandbox, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_GRADER_SECRET", "seed")
    _, said = run(rung, "import os; print(sorted(os.environ))", env={"EXTRA": "1"})
    assert "KERNEL_GRADER_SECRET" not in said
    assert "'EXTRA'" in said
    assert "'LC_ALL'" in said


def test_standard_input_is_empty(rung: Sandbox, run: Run) -> None:
    assert run(rung, "import sys; print(len(sys.stdin.read()))") == (0, "0\n")


def test_the_exit_code_comes_through(rung: Sandbox, run: Run) -> None:
    assert run(rung, "raise SystemExit(7)")[0] == 7


def test_a_signal_can_be_told(rung: Sandbox, run: Run) -> None:
    code, _ = run(rung, "import os; os.kill(os.getpid(), 11)")
    assert code in (-signal.SIGSEGV, 128 + signal.SIGSEGV)


def test_file_descriptors_are_passed_and_no_others(rung: Sandbox, run: Run) -> None:
    ours, theirs = os.pipe()
    secret = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        program = (
            "import os\n"
            f"os.write({theirs}, b'hello')\n"
            f"try: os.fstat({secret}); print('leaked')\n"
            "except OSError: print('closed')\n"
        )
        assert run(rung, program, pass_fds=[theirs]) == (0, "closed\n")
        os.close(theirs)
        assert os.read(ours, 99) == b"hello"
    finally:
        os.close(secret)
        os.close(ours)


def gone(marker: Path) -> bool:
    """Nobody goes on writing to the file."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        size = marker.stat().st_size
        time.sleep(0.2)
        if marker.stat().st_size == size:
            return True
    return False


def test_killing_ends_the_children_too(rung: Sandbox, tmp_path: Path) -> None:
    python, folders = sandbox.python()
    program = (
        "import os, time\n"
        "os.fork()\n"
        "while True:\n"
        "    open('beat', 'a').write('x'); time.sleep(0.02)\n"
    )
    process = rung.start(
        [python, "-I", "-S", "-c", program], readable=folders, writable=[tmp_path], folder=tmp_path
    )
    beat = tmp_path / "beat"
    deadline = time.monotonic() + 20
    while not (beat.exists() and beat.stat().st_size > 2) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert beat.stat().st_size > 2
    sandbox.kill(process)
    assert gone(beat)


def test_killing_twice_is_harmless(rung: Sandbox) -> None:
    process = rung.start(["true"])
    process.wait(10)
    sandbox.kill(process)
    sandbox.kill(process)


# Walls -------------------------------------------------------------------------------------------


@bubblewrap_only
def test_files_outside_cannot_be_read(walls: Sandbox, run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the seed")
    program = f"print(open({str(secret)!r}).read())"
    code, said = run(walls, program)
    assert code == 1
    assert "FileNotFoundError" in said
    assert unwalled(program) == (0, "the seed\n"), "the program itself is right"


@bubblewrap_only
def test_the_grader_and_the_home_are_not_there(walls: Sandbox, run: Run) -> None:
    places = [str(Path(sandbox.__file__).parent), os.path.expanduser("~"), "/home", "/root", "/var"]
    needed = sandbox.python()[1]
    hidden = [name for name in places if not any(p.is_relative_to(name) for p in needed)]
    _, said = run(walls, f"import os; print([p for p in {hidden!r} if os.path.exists(p)])")
    assert said == "[]\n"


@bubblewrap_only
def test_readable_files_cannot_be_written(walls: Sandbox, run: Run, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.write_text("kept")
    python, folders = sandbox.python()
    process = walls.start(
        [python, "-I", "-S", "-c", f"open({str(shown)!r}, 'w')"], readable=[*folders, shown]
    )
    assert process.wait(30) == 1
    sandbox.kill(process)
    assert shown.read_text() == "kept"


@bubblewrap_only
@pytest.mark.parametrize("path", ["/usr/made", "/made", "/etc/made"])
def test_the_system_cannot_be_written(walls: Sandbox, run: Run, path: str) -> None:
    program = f"import os\nos.makedirs('/etc', exist_ok=True)\nopen({path!r}, 'w').write('x')"
    run(walls, program)
    assert not Path(path).exists()


@bubblewrap_only
def test_there_is_no_network(walls: Sandbox, run: Run) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('in')"
        code, said = run(walls, program)
        assert code == 1
        assert "in\n" not in said
        assert unwalled(program) == (0, "in\n"), "the program itself is right"


@bubblewrap_only
def test_other_processes_cannot_be_seen_or_killed(walls: Sandbox, run: Run) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        program = (
            "import os\n"
            "print(len([name for name in os.listdir('/proc') if name.isdigit()]))\n"
            f"try: os.kill({other.pid}, 9); print('killed')\n"
            "except ProcessLookupError: print('nobody')\n"
        )
        code, said = run(walls, program)
        assert code == 0
        count, found = said.split()
        assert int(count) <= 3
        assert found == "nobody" or int(other.pid) <= 3
        assert other.poll() is None
        assert other.stdin is not None
        other.stdin.write(b"\n")


@bubblewrap_only
def test_the_program_is_nobody(walls: Sandbox, run: Run) -> None:
    _, said = run(walls, "import os; print(os.getuid(), os.getgid())")
    nobody = sandbox.USERS if os.geteuid() == 0 else [65534]
    assert said in [f"{uid} {uid}\n" for uid in nobody]


@bubblewrap_only
def test_the_scratch_space_is_bounded_and_gone_afterwards(
    walls: Sandbox, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "TMP_BYTES", 1 << 20)
    code, said = run(walls, "open('/tmp/kernel-grader-made', 'wb').write(bytes(2 << 20))")
    assert code == 1
    assert "No space left" in said
    assert not Path("/tmp/kernel-grader-made").exists()


@bubblewrap_only
def test_processes_are_counted(walls: Sandbox, run: Run) -> None:
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
    code, said = run(walls, program, limits=Limits(processes=20))
    assert code == 0
    assert 15 <= int(said) <= 20  # bubblewrap's own processes count for an ordinary user


@bubblewrap_only
def test_a_daemon_is_gone_when_kill_returns(walls: Sandbox, tmp_path: Path) -> None:
    python, folders = sandbox.python()
    program = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork(): os._exit(0)\n"
        "    open('beat', 'w').write('x')\n"
        "time.sleep(600)\n"
    )
    process = walls.start(
        [python, "-I", "-S", "-c", program], readable=folders, writable=[tmp_path], folder=tmp_path
    )
    deadline = time.monotonic() + 20
    while not (tmp_path / "beat").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    inside = os.readlink(f"/proc/{sandbox._only_child(process.pid)}/ns/pid")
    assert len(in_namespace(inside)) >= 3
    sandbox.kill(process)
    assert in_namespace(inside) == []


def in_namespace(namespace: str) -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == namespace:
                found.append(name)
    return found


@bubblewrap_only
@pytest.mark.parametrize("folder", ["/", "/dev"])
def test_the_walls_themselves_are_no_scratch_space(walls: Sandbox, run: Run, folder: str) -> None:
    """Both are in memory, of a size that nothing bounds."""
    code, said = run(walls, f"open({folder + '/made'!r}, 'w')")
    assert (code, "Read-only file system" in said or "Permission denied" in said) == (1, True)


@bubblewrap_only
def test_shared_memory_is_bounded_and_private(
    walls: Sandbox, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "TMP_BYTES", 1 << 20)
    code, said = run(walls, "open('/dev/shm/kernel-grader-made', 'wb').write(bytes(2 << 20))")
    assert (code, "No space left" in said) == (1, True)
    assert not Path("/dev/shm/kernel-grader-made").exists()


# GPUs --------------------------------------------------------------------------------------------


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with a GPU, as far as files can tell; a folder of device files is returned."""
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "libcuda.so.1").write_text("a driver")
    monkeypatch.setattr(gpu_files, "nodes", lambda: [Path("/dev/full")])
    monkeypatch.setattr(gpu_files, "driver_folders", lambda: [tmp_path / "driver"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")
    return tmp_path / "driver"


LOOKS = (
    "import os\n"
    "print(os.environ.get('CUDA_VISIBLE_DEVICES'), os.path.exists('/sys/devices'))\n"
    "print(os.path.exists({!r}))"
)


def test_a_program_without_need_of_a_gpu_sees_none(rung: Sandbox, run: Run, card: Path) -> None:
    _, said = run(rung, LOOKS.format(str(card / "libcuda.so.1")))
    assert said.startswith("None ")
    if rung.kind == "bubblewrap":
        assert said == "None False\nFalse\n"


def test_a_program_that_needs_a_gpu_finds_it(rung: Sandbox, run: Run, card: Path) -> None:
    _, said = run(rung, LOOKS.format(str(card / "libcuda.so.1")), devices=True)
    assert said == f"GPU-1 {os.path.exists('/sys/devices')}\nTrue\n"


def test_the_environment_of_a_gpu_can_be_overruled(rung: Sandbox, run: Run, card: Path) -> None:
    program = LOOKS.format(str(card))
    _, said = run(rung, program, devices=True, env={"CUDA_VISIBLE_DEVICES": "GPU-2"})
    assert said.startswith("GPU-2 ")


@bubblewrap_only
def test_device_files_work_in_the_new_dev(
    walls: Sandbox, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # a device that a sandbox's own /dev does not have
    nodes = [path for path in map(Path, ("/dev/kmsg", "/dev/fuse", "/dev/loop-control"))
             if path.exists() and not path.is_symlink()]  # fmt: skip
    if not nodes:
        pytest.skip("no other device file on this machine")
    monkeypatch.setattr(gpu_files, "nodes", lambda: nodes[:1])
    program = (
        f"import os, stat; p = {str(nodes[0])!r}\n"
        "print(os.path.exists(p) and stat.S_ISCHR(os.stat(p).st_mode))"
    )
    assert run(walls, program) == (0, "False\n")
    assert run(walls, program, devices=True) == (0, "True\n")


def wanted(devices: bool = False) -> sandbox._Wanted:
    return sandbox._Wanted([], [], [], Path("/tmp"), devices, Limits(), None, [])


def test_device_files_come_after_the_new_dev(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [Path("/dev/nvidia0"), Path("/dev/nvidiactl")]
    monkeypatch.setattr(gpu_files, "nodes", lambda: nodes)
    command = sandbox._bubblewrap(wanted(devices=True))
    for node in map(str, nodes):
        at = command.index("--dev-bind", command.index("--dev"))
        assert node in command
        assert command[command.index(node) - 1] == "--dev-bind"
        assert command.index(node) > at
    assert "/dev/nvidia0" not in sandbox._bubblewrap(wanted())
