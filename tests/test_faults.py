"""Faults of the machine are never the student's: each is made here, and a rerun is right."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from grader import build, checks, cli, grading, places, sandbox, score, tools
from grader.assignment import Assignment
from grader.sandbox import Sandbox
from grader.score import Score
from grader.session import Session

RIGHT = Path(__file__).parent / "submissions" / "saxpy" / "right"
INFRASTRUCTURE = 3


def full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def submitted(tmp_path: Path) -> Path:
    """A right submission that nobody has built yet."""
    folder = tmp_path / "right"
    shutil.copytree(RIGHT, folder)
    with (folder / "saxpy.cu").open("a") as file:
        file.write(f"// {tmp_path}\n")
    return folder


@pytest.fixture(autouse=True)
def probe_again() -> Iterator[None]:
    """What was found out about this machine with a fault is forgotten."""
    sandbox.choose()
    yield
    sandbox.why_not_bubblewrap.cache_clear()
    sandbox.choose.cache_clear()


Ends = Callable[..., None]


@pytest.fixture
def is_the_machines_fault(submitted: Path, saxpy_native: Assignment, tmp_path: Path) -> Ends:
    """Grading ends with exit code 3, one sentence, and the earlier score; then, without the fault,
    with all marks."""

    def grade() -> tuple[int, str]:
        done = CliRunner().invoke(
            cli.main,
            ["grade", str(submitted), "--assignment", str(saxpy_native.folder),
             "--backend", "cpu", "--json", str(tmp_path / "score.json")],
        )  # fmt: skip
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, " ".join(done.output.split())

    def check(patch: pytest.MonkeyPatch, said: str) -> None:
        path = tmp_path / "score.json"
        path.write_text("an earlier score")
        code, output = grade()
        assert (code, said in output) == (INFRASTRUCTURE, True), output
        assert "Traceback" not in output
        assert path.read_text() == "an earlier score"
        patch.undo()
        sandbox.why_not_bubblewrap.cache_clear()
        os.environ["KERNEL_GRADER_CACHE"] = str(places_cache)
        code, output = grade()
        assert code == 0, output
        assert score.read(path).score == 10.0

    places_cache = places.cache()
    return check


# The toolchain -----------------------------------------------------------------------------------


def test_without_a_compiler(
    is_the_machines_fault: Ends, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    is_the_machines_fault(monkeypatch, "no C++ compiler: apt install g++")


def test_with_a_compiler_that_is_gone_when_it_is_called(
    is_the_machines_fault: Ends, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/nowhere/sh\n")
    broken.chmod(0o755)
    monkeypatch.setattr(tools, "compiler", lambda: str(broken))
    is_the_machines_fault(monkeypatch, "no submission can be compiled here")


# The disk ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (build, "_write"),
        (shutil, "copyfile"),
        (tempfile, "mkdtemp"),
        (tempfile, "TemporaryFile"),
        (os, "memfd_create"),
        (build, "_checksum"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_full_disk(
    is_the_machines_fault: Ends, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    monkeypatch.setattr(module, name, full)
    is_the_machines_fault(monkeypatch, "No space left on device")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_is_full_when_the_score_is_written(
    is_the_machines_fault: Ends, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(os, step, full)
    is_the_machines_fault(monkeypatch, "score.json: No space left on device")


def test_a_really_full_disk(saxpy_native: Assignment, submitted: Path, tmp_path: Path) -> None:
    """A file system of 2 MB for the cache."""
    mount = tmp_path / "small"
    mount.mkdir()
    script = tmp_path / "grade.py"
    script.write_text(
        "import os, sys\n"
        "from pathlib import Path\n"
        "from grader import build, places\n"
        "from grader.assignment import load\n"
        "from grader.grading import grade\n"
        f"used = load({str(saxpy_native.folder)!r})\n"
        "parts = build.native(used)\n"
        "build.native = lambda *_: parts\n"
        f"os.environ['KERNEL_GRADER_CACHE'] = {str(mount)!r}\n"
        f"score = grade({str(submitted)!r}, assignment=used, backend='cpu')\n"
        "print(score.status, score.score, score.message)\n"
    )
    command = f"mount -t tmpfs -o size=1m none {mount} && exec {sys.executable} {script}"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", command],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no file system of its own: {done.stderr.splitlines()[0]}")
    assert done.stdout.startswith("infrastructure_error None "), done.stdout + done.stderr
    assert "space" in done.stdout


def test_a_cache_that_cannot_be_written(
    is_the_machines_fault: Ends, monkeypatch: pytest.MonkeyPatch, saxpy_native: Assignment
) -> None:
    """A home that is read-only, or not there."""
    parts = build.native(saxpy_native)
    monkeypatch.setattr(build, "native", lambda *_: parts)
    monkeypatch.setenv("KERNEL_GRADER_CACHE", "/proc/nowhere")
    is_the_machines_fault(monkeypatch, "cannot write the build cache /proc/nowhere")


# The sandbox -------------------------------------------------------------------------------------


def test_a_sandbox_that_is_refused_when_a_worker_starts(
    is_the_machines_fault: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> list[str]:
        return ["sh", "-c", "echo bwrap: No permissions to create new namespace >&2; exit 1"]

    monkeypatch.setattr(sandbox, "_bubblewrap", refused)
    monkeypatch.setattr(sandbox, "_under_warden", refused)
    is_the_machines_fault(monkeypatch, "No permissions to create new namespace")


def test_isolation_that_is_demanded_and_not_there(
    is_the_machines_fault: Ends, monkeypatch: pytest.MonkeyPatch, submitted: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(sandbox, "choose", lambda: Sandbox("process"))
    monkeypatch.setattr(sandbox, "why_not_bubblewrap", lambda: "bwrap is not installed")
    arguments = ["grade", str(submitted), "--require-isolation", "--json", str(tmp_path / "s")]
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code == INFRASTRUCTURE
    assert done.output.startswith("grader: submissions cannot be isolated on this machine (bwrap")
    assert not (tmp_path / "s").exists()


# The grader itself -------------------------------------------------------------------------------


def test_a_grader_without_memory(
    is_the_machines_fault: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(checks, "compare", exhausted)
    is_the_machines_fault(monkeypatch, "too little memory to grade")


def test_a_clock_that_jumps(saxpy_native: Assignment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the monotonic clock decides; the other is for the record."""
    jumps = iter(range(10**9, 10**12, 10**8))
    monkeypatch.setattr(time, "time", lambda: float(next(jumps)))
    graded = grading.grade(RIGHT, assignment=saxpy_native, backend="cpu")
    assert (graded.status, graded.score) == ("graded", 10.0)


# The cache ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["truncated", "changed", "no sum", "no usage", "a folder"])
def test_a_damaged_build_is_made_again(
    saxpy_native: Assignment, submitted: Path, damage: str
) -> None:
    def grade() -> Score:
        return grading.grade(submitted, assignment=saxpy_native, backend="cpu")

    first = grade()
    folder = places.cache() / "modules" / _key(submitted, saxpy_native)
    module = next(folder.glob("submission.*"))
    if damage == "truncated":
        os.truncate(module, module.stat().st_size // 2)
    elif damage == "changed":
        module.write_bytes(module.read_bytes()[::-1])
    elif damage == "a folder":
        module.unlink()
        module.mkdir()
    else:
        (folder / ("usage.json" if damage == "no usage" else build.CHECKSUM)).unlink()
    again = grade()
    assert (again.status, again.score) == (first.status, first.score) == ("graded", 10.0)


def _key(folder: Path, used: Assignment) -> str:
    from grader import submission

    return build.build(submission.read(folder, used), used).sha256


def test_what_a_killed_builder_left_is_removed(saxpy_native: Assignment, submitted: Path) -> None:
    modules = places.cache() / "modules"
    left = modules / f"{places.UNFINISHED}left"
    (left / "deep").mkdir(parents=True)
    os.utime(left, (0, 0))
    in_use = modules / f"{places.UNFINISHED}in-use"
    in_use.mkdir()
    with places._locked(in_use):
        os.utime(in_use, (0, 0))
        grading.grade(submitted, assignment=saxpy_native, backend="cpu")
        assert not left.exists()
        assert in_use.exists()
    shutil.rmtree(in_use)


# kill -9 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bubblewrap", "process"])
def test_a_grader_that_is_killed_leaves_nothing_that_matters(
    kind: str,
    saxpy_native: Assignment,
    submitted: Path,
    tmp_path: Path,
    own_cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kind == "bubblewrap" and (why := sandbox.why_not_bubblewrap()):
        pytest.skip(f"no bubblewrap: {why}")
    target = tmp_path / "score.json"
    command = [
        sys.executable, "-c", "from grader.cli import main; main()", "grade", str(submitted),
        "--assignment", str(saxpy_native.folder), "--backend", "cpu", "--json", str(target),
    ]  # fmt: skip
    environment = {**os.environ, sandbox.VARIABLE: kind}
    root = Path(__file__).parents[1]
    chosen = random.Random(kind)
    for _ in range(5):
        with subprocess.Popen(
            command, cwd=root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(chosen.uniform(0.3, 3.0))
            process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while relatives(submitted, places.cache()):
        assert time.monotonic() < deadline, relatives(submitted, places.cache())
        time.sleep(0.1)
    if target.exists():
        assert score.read(target).score == 10.0
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert score.read(target).score == 10.0
    monkeypatch.setattr(places, "JUST_MADE", 0)
    modules = places.cache() / "modules"
    places._remove_abandoned(modules)
    assert list(modules.glob(f"{places.UNFINISHED}*")) == []


def relatives(*paths: Path) -> list[str]:
    """Command lines of processes that have to do with a submission."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if any(os.fsencode(path) in words for path in paths):
                found.append(words.replace(b"\0", b" ").decode(errors="replace")[:200])
    return found


def test_a_session_says_why_a_call_was_made_again(
    saxpy_native: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The score tells that a worker was killed, although it cost nothing."""
    real = Session._call
    killed: list[bool] = []

    def call(self: Session, *arguments: Any) -> Any:
        if not killed:
            killed.append(True)
            self.open()
            assert self._process is not None
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(20)
        return real(self, *arguments)

    monkeypatch.setattr(Session, "_call", call)
    graded = grading.grade(RIGHT, assignment=saxpy_native, backend="cpu")
    assert graded.score == 10.0
    (note,) = [one for one in graded.environment.notes if "once more" in one]
    assert "SIGKILL" in note
