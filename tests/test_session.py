"""A worker under a session: what comes back, what it damages, and every way it can end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from grader import sandbox, session, worker
from grader.arena import POISON, Buffer
from grader.assignment import Assignment
from grader.build import Module
from grader.errors import InfrastructureError
from grader.sandbox import Sandbox
from grader.session import Call, Fault, Returned, Session

F = NDArray[np.float32]

pytestmark = pytest.mark.usefixtures("unfenced")

# Without a module --------------------------------------------------------------------------------


def test_a_file_that_is_no_module_is_a_fault(tmp_path: Path, box: Sandbox) -> None:
    path = tmp_path / "submission.so"
    path.write_bytes(b"not an ELF file")
    with Session(Module(path, "0"), box) as made:
        fault = made.open()
        assert isinstance(fault, Fault)
        assert fault.kind == "load"
        assert "the module cannot be loaded" in fault.sentence
        assert str(tmp_path) not in fault.sentence


def test_a_worker_that_cannot_be_started_is_no_fault_of_the_submission(
    tmp_path: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "python", lambda: (str(tmp_path / "no-python"), []))
    path = tmp_path / "submission.so"
    path.write_bytes(b"")
    with Session(Module(path, "0"), box) as made, pytest.raises(InfrastructureError):
        made.open()


# With a submission -------------------------------------------------------------------------------

Open = Callable[..., Session]


@pytest.fixture
def opened(built: Callable[[str | Path], Module], box: Sandbox) -> Iterator[Open]:
    """Opens a session on a test submission or on a folder; it is closed with the test."""
    sessions: list[Session] = []

    def make(which: str | Path, call_seconds: float = 20.0, rung: Sandbox = box) -> Session:
        sessions.append(Session(built(which), rung, call_seconds))
        return sessions[-1]

    yield make
    for made in sessions:
        made.__exit__()


def buffer(name: str, size: int, data: F | None = None, room: int | None = None) -> Buffer:
    return Buffer(name, (size,), data, room or size)


def saxpy_call(n: int, room: int | None = None, seed: int = 0, schedule: int = 0) -> Call:
    x, y = np.random.default_rng(seed).normal(size=(2, n)).astype(np.float32)
    arrays = [buffer("out", n, None, room), buffer("x", n, x, room), buffer("y", n, y, room)]
    return Call("launch_saxpy", [*arrays, n], schedule, 10**8)


def right(call: Call) -> F:
    data = {a.name: a.data for a in call.arguments if isinstance(a, Buffer)}
    x, y = data["x"], data["y"]
    assert x is not None
    assert y is not None
    return np.float32(2.5) * x + y


def returned(answer: Returned | Fault) -> Returned:
    assert isinstance(answer, Returned), answer
    return answer


def fault(answer: Returned | Fault) -> Fault:
    assert isinstance(answer, Fault), answer
    return answer


@pytest.mark.parametrize("kind", ["bubblewrap", "process"])
def test_a_call_comes_back_with_its_outputs(opened: Open, kind: str) -> None:
    if kind == "bubblewrap" and (why := sandbox.why_not_bubblewrap()):
        pytest.skip(f"no bubblewrap: {why}")
    call = saxpy_call(1000)
    answer = returned(opened("right", rung=Sandbox(kind)).call(call))
    assert answer.damage == ()
    np.testing.assert_allclose(answer.outputs["out"], right(call), rtol=1e-6, atol=1e-6)


def test_one_worker_serves_many_calls_of_any_size(opened: Open) -> None:
    made = opened("right")
    process = None
    for number, n in enumerate([3, 500, 3, 400_000, 1]):  # the arena grows in between
        call = saxpy_call(n, seed=number)
        answer = returned(made.call(call))
        np.testing.assert_allclose(answer.outputs["out"], right(call), rtol=1e-6, atol=1e-6)
        process = process or made._process
        assert made._process is process


def test_outputs_arrive_poisoned(opened: Open, saxpy_folder: Callable[..., Path]) -> None:
    answer = returned(opened(saxpy_folder("    return;")).call(saxpy_call(5)))
    assert list(answer.outputs["out"].view(np.uint32)) == [POISON] * 5


def test_a_case_keeps_its_addresses_from_call_to_call(
    opened: Open, saxpy_folder: Callable[..., Path]
) -> None:
    """The first call's addresses are kept by the submission and used in all later ones."""
    body = (
        "    static float* first = nullptr;\n"
        "    static const float* input = nullptr;\n"
        "    if (!first) { first = out; input = x; }\n"
        "    out = first; x = input;"
    )
    made = opened(saxpy_folder(body))
    for seed, n in enumerate([100, 100, 40, 100]):
        call = saxpy_call(n, room=100, seed=seed)
        answer = returned(made.call(call))
        assert answer.damage == ()
        np.testing.assert_allclose(answer.outputs["out"], right(call), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("out[n]", "out-of-bounds write: element 8 of `out`, which has 8 elements"),
        ("out[n + 5]", "out-of-bounds write: element 13 of `out`, which has 8 elements"),
        ("out[-1]", "out-of-bounds write: 1 elements before the start of `out`"),
        ("const_cast<float*>(y)[-3]", "out-of-bounds write: 3 elements before the start of `y`"),
        ("const_cast<float*>(x)[2]", "the input `x` was written (first at element 2)"),
    ],
)
def test_damage_is_seen(
    opened: Open, saxpy_folder: Callable[..., Path], target: str, said: str
) -> None:
    text = (
        "__global__ void harm(float* out, const float* x, const float* y, int n) "
        f"{{ {target} = 1.0f; }}"
    )
    folder = saxpy_folder("    harm<<<1, 1, 0, stream>>>(out, x, y, n);", text)
    answer = returned(opened(folder).call(saxpy_call(8)))
    assert len(answer.damage) == 1
    assert answer.damage[0].startswith(said)


def test_a_write_just_beyond_a_small_call_of_a_larger_case_is_seen(
    opened: Open, saxpy_folder: Callable[..., Path]
) -> None:
    text = "__global__ void harm(float* out, int n) { out[n] = 1.0f; }"
    made = opened(saxpy_folder("    harm<<<1, 1, 0, stream>>>(out, n);", text))
    assert returned(made.call(saxpy_call(8, room=100))).damage
    assert returned(made.call(saxpy_call(100, room=100))).damage


def test_writing_the_same_value_into_an_input_is_no_damage(
    opened: Open, saxpy_folder: Callable[..., Path]
) -> None:
    text = "__global__ void touch(float* x) { x[0] = x[0]; }"
    folder = saxpy_folder("    touch<<<1, 1, 0, stream>>>(const_cast<float*>(x));", text)
    assert returned(opened(folder).call(saxpy_call(8))).damage == ()


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("exits", "exited", "exit code 0"),
        ("crashes", "crashed", "SIGSEGV"),
        ("throws", "exception", "launch_saxpy threw an exception: no more coffee"),
        ("missing_launcher", "missing", "launch_saxpy is not defined in the submission"),
        ("load_crash", "crashed", "while the module was loaded, it aborted"),
        ("load_exit", "exited", r"while the module was loaded, .*exit code 3"),
        ("undefined_helper", "undefined", r"blocks_for\(int\) is used but no file"),
    ],
)
def test_every_way_to_end_is_a_fault(opened: Open, name: str, kind: str, said: str) -> None:
    made = opened(name)
    answer = fault(made.call(saxpy_call(8)))
    assert answer.kind == kind
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(answer.sentence)
    assert made._process is None, "a worker that failed is not used again"


def test_a_loop_without_end_is_counted_out(opened: Open) -> None:
    answer = fault(opened("spins").call(saxpy_call(8)))
    assert answer.kind == "endless_loop"
    assert answer.sentence.startswith("saxpy.cu:10: ")


def test_a_launcher_that_only_waits_is_ended(
    opened: Open, saxpy_folder: Callable[..., Path]
) -> None:
    made = opened(saxpy_folder("    sleep(600);", "#include <unistd.h>"), call_seconds=1.0)
    answer = fault(made.call(saxpy_call(8)))
    assert answer.kind == "timeout"
    assert answer.sentence == "it did not come back within 1 seconds and was ended"
    assert made._process is None


def test_calls_that_are_slow_altogether_are_ended(
    opened: Open, saxpy_folder: Callable[..., Path]
) -> None:
    made = opened(saxpy_folder("    usleep(300000);", "#include <unistd.h>"))
    made.seconds_left = 0.5
    assert isinstance(made.call(saxpy_call(8)), Returned)
    assert isinstance(made.call(saxpy_call(8)), Returned)
    answer = fault(made.call(saxpy_call(8)))
    assert answer.kind == "timeout"
    assert "altogether" in answer.sentence


def test_a_session_can_be_abandoned_by_another_thread(
    opened: Open, saxpy_folder: Callable[..., Path]
) -> None:
    made = opened(saxpy_folder("    sleep(600);", "#include <unistd.h>"), call_seconds=600.0)
    assert made.open() is None
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(made.call, saxpy_call(8))
        while not running.running():
            time.sleep(0.01)
        made.abandon()
        assert fault(running.result(timeout=60)).kind in ("crashed", "timeout")
    fault(made.call(saxpy_call(8)))
    assert made._process is None, "no other worker was started"


def test_a_module_cannot_blame_the_machine(opened: Open, saxpy_folder: Callable[..., Path]) -> None:
    text = (
        "#include <cstdio>\n#include <cstdlib>\n"
        'static int start() { puts("bwrap: can\'t open, Fatal Python"); exit(1); }\n'
        "static int started = start();\n"
    )
    answer = fault(opened(saxpy_folder("", text)).call(saxpy_call(8)))
    assert (answer.kind, answer.loading) == ("exited", True)


def test_a_worker_that_dies_between_calls_is_a_fault(
    opened: Open, saxpy_folder: Callable[..., Path]
) -> None:
    text = "#include <thread>\n#include <unistd.h>\n"
    body = "    std::thread([] { usleep(50000); _exit(5); }).detach();"
    made = opened(saxpy_folder(body, text))
    returned(made.call(saxpy_call(8)))
    assert made._process is not None
    made._process.wait(20)
    answer = fault(made.call(saxpy_call(8)))
    assert (answer.kind, "exit code 5" in answer.sentence) == ("exited", True)


def test_memory_is_bounded(opened: Open, saxpy_folder: Callable[..., Path]) -> None:
    body = "    std::vector<char> much(size_t(3) << 30, 1);\n    if (much[n] == 2) { return; }"
    answer = fault(opened(saxpy_folder(body, "#include <vector>")).call(saxpy_call(8)))
    assert answer.kind == "exception"
    assert "bad_alloc" in answer.sentence


def running(module: Path) -> list[str]:
    """Processes that have to do with a module."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if os.fsencode(module) in words and state != "Z":
                    found.append(entry.name)
    return found


@pytest.mark.parametrize("kind", ["bubblewrap", "process"])
def test_children_of_a_launcher_end_with_the_session(
    opened: Open, saxpy_folder: Callable[..., Path], kind: str
) -> None:
    if kind == "bubblewrap" and (why := sandbox.why_not_bubblewrap()):
        pytest.skip(f"no bubblewrap: {why}")
    # bubblewrap also ends those that leave their session
    leave = "setsid();" if kind == "bubblewrap" else ""
    body = f"    if (fork() == 0) {{ {leave} for (;;) {{ sleep(100); }} }}"
    made = opened(saxpy_folder(body, "#include <unistd.h>"), rung=Sandbox(kind))
    returned(made.call(saxpy_call(8)))
    assert len(running(made.module.path)) >= 2
    made.stop()
    deadline = time.monotonic() + 10
    while running(made.module.path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running(made.module.path) == []


def test_a_launcher_cannot_see_the_reference(
    opened: Open, saxpy_folder: Callable[..., Path], saxpy: Assignment, box: Sandbox
) -> None:
    if box.kind == "process":
        pytest.skip("nothing is hidden without bubblewrap")
    paths = [saxpy.folder / "reference.py", Path(session.__file__), Path(__file__)]
    checks = "".join(f'    printf("%d\\n", access("{path}", F_OK));\n' for path in paths)
    made = opened(saxpy_folder(checks, "#include <cstdio>\n#include <unistd.h>"))
    returned(made.call(saxpy_call(8)))
    assert made.log.split() == ["-1"] * len(paths)


def test_the_next_call_gets_a_clean_worker(opened: Open, saxpy_folder: Callable[..., Path]) -> None:
    made = opened(saxpy_folder("    static int calls = 0;\n    if (++calls == 2) { _exit(9); }",
                               "#include <unistd.h>"))  # fmt: skip
    assert isinstance(made.call(saxpy_call(8)), Returned)
    assert fault(made.call(saxpy_call(8))).kind == "exited"
    assert isinstance(made.call(saxpy_call(8)), Returned)
    assert fault(made.call(saxpy_call(8))).kind == "exited"


# Killed from outside -----------------------------------------------------------------------------


def kill_worker(made: Session) -> None:
    """As an out-of-memory killer, or somebody else on the machine."""
    assert made._process is not None
    os.kill(made._process.pid, signal.SIGKILL)
    made._process.wait(20)


@pytest.mark.parametrize("kind", ["bubblewrap", "process"])
def test_a_worker_that_is_killed_once_costs_nothing(opened: Open, kind: str) -> None:
    if kind == "bubblewrap" and (why := sandbox.why_not_bubblewrap()):
        pytest.skip(f"no bubblewrap: {why}")
    made = opened("right", rung=Sandbox(kind))
    for seed in range(3):
        call = saxpy_call(100, seed=seed)
        answer = returned(made.call(call))
        np.testing.assert_allclose(answer.outputs["out"], right(call), rtol=1e-6, atol=1e-6)
        if seed == 0:
            kill_worker(made)
    assert "SIGKILL" in made.repeated


def test_a_worker_that_is_killed_in_the_middle_of_a_call_costs_nothing(
    opened: Open, saxpy_folder: Callable[..., Path]
) -> None:
    made = opened(saxpy_folder("    usleep(700000);", "#include <unistd.h>"))
    assert made.open() is None
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(made.call, saxpy_call(8))
        time.sleep(0.2)
        assert made._process is not None
        os.kill(made._process.pid, signal.SIGKILL)
        returned(running.result(60))
    assert made.repeated


def test_a_submission_that_kills_itself_is_blamed(
    opened: Open, saxpy_folder: Callable[..., Path]
) -> None:
    made = opened(saxpy_folder("    raise(SIGKILL);", "#include <csignal>"))
    answer = fault(made.call(saxpy_call(8)))
    assert (answer.kind, "SIGKILL" in answer.sentence) == ("crashed", True)


def test_a_submission_that_kills_itself_now_and_then_is_blamed(
    opened: Open, saxpy_folder: Callable[..., Path]
) -> None:
    body = "    static int calls = 0;\n    if (++calls == 2) { raise(SIGKILL); }"
    made = opened(saxpy_folder(body, "#include <csignal>"))
    answers = [made.call(saxpy_call(8)) for _ in range(4)]
    assert [isinstance(answer, Fault) for answer in answers] == [False, False, True, False]


def on_every_descriptor(statement: str) -> dict[str, str]:
    """A launcher that does something to all descriptors but the standard ones."""
    return {
        "body": f"    for (int fd = 3; fd < 64; ++fd) {{ {statement} }}",
        "text": "#include <unistd.h>\n#include <sys/socket.h>\n",
    }


@pytest.mark.parametrize(
    "statement",
    [
        "char junk[4096] = {90}; (void)!write(fd, junk, sizeof junk);",
        "close(fd);",
        "shutdown(fd, SHUT_RDWR);",
    ],
    ids=["writes", "closes", "shuts down"],
)
def test_tampering_with_the_control_channel_is_a_fault(
    opened: Open, saxpy_folder: Callable[..., Path], statement: str
) -> None:
    made = opened(saxpy_folder(**on_every_descriptor(statement)), call_seconds=3.0)
    answer = fault(made.call(saxpy_call(8)))
    assert answer.kind in ("garbage", "exited", "crashed", "timeout")
    assert made._process is None


def test_a_forged_reply_earns_nothing(opened: Open, saxpy_folder: Callable[..., Path]) -> None:
    """Saying RETURNED at once does not help: the outputs decide."""
    forged = worker.REPLY.pack(worker.RETURNED, 0, b"", b"", 0.0, 0.0, 0)
    text = f"static unsigned char reply[{len(forged)}] = {{{worker.RETURNED}}};\n"
    parts = on_every_descriptor("(void)!send(fd, reply, sizeof reply, 0);")
    parts["body"] += "\n    for (;;) { sleep(1); }"
    parts["text"] += text
    made = opened(saxpy_folder(**parts), call_seconds=3.0)
    answer = returned(made.call(saxpy_call(8)))
    assert np.isnan(answer.outputs["out"]).all()


# What it prints ----------------------------------------------------------------------------------


def test_what_is_printed_is_kept(opened: Open, saxpy_folder: Callable[..., Path]) -> None:
    body = '    printf("n is %d\\n", n);\n    fprintf(stderr, "an error\\n");'
    made = opened(saxpy_folder(body, "#include <cstdio>"))
    returned(made.call(saxpy_call(8)))
    made.stop()
    assert "an error" in made.log


def test_very_long_output_is_cut(opened: Open) -> None:
    made = opened("prints_much")
    for seed in range(12):  # more than the file may hold
        call = saxpy_call(8, seed=seed)
        np.testing.assert_allclose(
            returned(made.call(call)).outputs["out"], right(call), rtol=1e-6, atol=1e-6
        )
    assert len(made.log) < 2 * session.LOG_SHOWN
    assert made._log.seek(0, os.SEEK_END) <= worker.LOG_BYTES
