"""What all tests share: the option --slow, a build cache of their own, and the tiny assignments."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from grader import build, sandbox, submission, symbols, toolkit
from grader.assignment import Assignment, load
from grader.build import Module
from grader.errors import InfrastructureError
from grader.sandbox import Sandbox
from grader.toolkit import Toolkit

TESTS = Path(__file__).resolve().parent

# the same examples in every run: a failure is repeated by running the test again
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# A right saxpy kernel: what tests build variants of.
SAXPY_KERNEL = """\
__global__ void saxpy(float* out, const float* x, const float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = SAXPY_A * x[i] + y[i];
    }
}
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--slow"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The build cache of this test session: one for all workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "build-cache"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNEL_GRADER_CACHE", str(folder))
        yield folder


@pytest.fixture
def own_cache(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build cache in which nobody else builds; the native parts are those of the session."""
    folder = tmp_path / "own-cache"
    folder.mkdir()
    (cache / "native").mkdir(exist_ok=True)
    (folder / "native").symlink_to(cache / "native")
    monkeypatch.setenv("KERNEL_GRADER_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return TESTS.parent


@pytest.fixture(scope="session")
def assignments() -> Path:
    """The folder of the tiny assignments."""
    return TESTS / "assignments"


@pytest.fixture(scope="session")
def submissions() -> Path:
    """The folder of the test submissions, by assignment."""
    return TESTS / "submissions"


@pytest.fixture(scope="session")
def saxpy(assignments: Path) -> Assignment:
    """The tiny assignment with one part."""
    return load(assignments / "saxpy")


@pytest.fixture(scope="session")
def tensor(assignments: Path) -> Assignment:
    """The tiny assignment with two parts, three dimensions and a speed test."""
    return load(assignments / "tensor")


@pytest.fixture(scope="session")
def native(cache: Path) -> Callable[..., None]:
    """Compiles the native parts of an assignment once, whichever test worker comes first."""

    def compile_once(assignment: Assignment, backend: str = "cpu") -> None:
        with (cache / f"{assignment.id}-{backend}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            build.native(assignment, backend)

    return compile_once


@pytest.fixture(scope="session")
def saxpy_native(saxpy: Assignment, native: Callable[..., None]) -> Assignment:
    """The saxpy assignment, ready for submissions."""
    native(saxpy)
    return saxpy


@pytest.fixture(scope="session")
def tensor_native(tensor: Assignment, native: Callable[..., None]) -> Assignment:
    """The tensor assignment, ready for submissions."""
    native(tensor)
    return tensor


@pytest.fixture(scope="session")
def nvidia() -> Toolkit:
    """The CUDA toolkit of this machine; a test that asks for it is skipped where there is none."""
    try:
        return toolkit.find()
    except InfrastructureError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def box() -> Sandbox:
    """The strongest sandbox of this machine."""
    return sandbox.choose()


@pytest.fixture
def saxpy_folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes a submission: a right kernel, `text` in front of its launcher and `body` in it."""

    def write(body: str = "", text: str = "", name: str = "made") -> Path:
        folder = tmp_path / name
        folder.mkdir()
        launcher = (
            "void launch_saxpy(float* out, const float* x, const float* y, int n, "
            f"cudaStream_t stream) {{\n{body}\n"
            "    saxpy<<<(n + 255) / 256, 256, 0, stream>>>(out, x, y, n);\n}\n"
        )
        (folder / "saxpy.cu").write_text(f"{SAXPY_KERNEL}\n{text}\n{launcher}")
        return folder

    return write


@pytest.fixture
def built(saxpy_native: Assignment, submissions: Path) -> Callable[[str | Path], Module]:
    """Builds a submission for saxpy: a folder, or the name of one of the test submissions."""

    def make(which: str | Path) -> Module:
        folder = which if isinstance(which, Path) else submissions / "saxpy" / which
        return build.build(submission.read(folder, saxpy_native), saxpy_native)

    return make


@pytest.fixture
def unfenced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Submissions may call any function: what the fence of grader/symbols.py stops early has to
    do no harm behind the sandbox's walls either."""
    monkeypatch.setattr(symbols, "FORBIDDEN", {})
