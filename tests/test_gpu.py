"""The layer over NVIDIA's driver: its words when something is missing, and what it leaves.

The modules of cuda-bindings are stand-ins here, but for one test that compiles with the real NVRTC.
"""

from __future__ import annotations

import ctypes
import enum
import fcntl
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from grader import gpu
from grader.errors import InfrastructureError
from grader.gpu import Kernel, Memory, OutOfMemory, open_gpu, why_no_gpu

SOURCES: list[tuple[str, str, dict[str, object]]] = [
    ("arrays.cu", "vary", {"INDEX": "unsigned"}),
    ("arrays.cu", "compare", {"INDEX": "unsigned long long"}),
    ("pause.cu", "pause", {}),
    ("probe.cu", "probe", {"READS": 2, "WRITES": 1, "UNROLL": 4, "HINT": 0}),
    ("probe.cu", "probe", {"READS": 4, "WRITES": 0, "UNROLL": 8, "HINT": 1}),
    ("probe.cu", "probe", {"READS": 1, "WRITES": 1, "UNROLL": 2, "HINT": 2}),
]


class Code(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_NOT_SUPPORTED = 801


OK = Code.CUDA_SUCCESS


class Driver(ModuleType):
    """A stand-in for cuda.bindings.driver: one device that works. What is in `fails` returns that
    code instead; `calls` are the names of what was called."""

    CUresult = Code

    def __init__(self, devices: int = 1, version: int = 13000, major: int = 9) -> None:
        super().__init__("cuda.bindings.driver")
        self.devices, self.version, self.major = devices, version, major
        self.fails: dict[str, Code] = {}
        self.calls: list[str] = []
        self.fds: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if not name.startswith("cu"):  # an enumeration or a structure
            return Names(name)

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            if name in self.fails:
                return (self.fails[name], *[None] * 2)[: 1 + (name not in NO_VALUE)]
            answer: Any = getattr(self, f"_{name}", lambda *_: 7)(*arguments)
            return (OK,) if name in NO_VALUE else (OK, answer)

        return call

    def _cuDeviceGetCount(self) -> int:
        return self.devices

    def _cuDriverGetVersion(self) -> int:
        return self.version

    def _cuDeviceGetName(self, *_: object) -> bytes:
        return b"NVIDIA Test\0\0\0"

    def _cuDeviceGetUuid(self, _: object) -> SimpleNamespace:
        return SimpleNamespace(bytes=b"\x01\xab")

    def _cuDeviceGetAttribute(self, which: str, _: object) -> int:
        return self.major if which.endswith("MAJOR") else 0

    def _cuMemGetAllocationGranularity(self, *_: object) -> int:
        return 1 << 21

    def _cuMemExportToShareableHandle(self, *_: object) -> int:
        self.fds.append(os.open(os.devnull, os.O_RDONLY))
        return self.fds[-1]


NO_VALUE = {
    "cuInit", "cuCtxSetCurrent", "cuMemMap", "cuMemUnmap", "cuMemAddressFree", "cuMemRelease",
    "cuMemSetAccess", "cuMemFree", "cuCtxSynchronize", "cuMemcpyHtoD", "cuMemcpyDtoH",
    "cuLaunchKernel", "cuEventRecord", "cuEventSynchronize", "cuEventDestroy",
    "cuMemsetD32Async",
}  # fmt: skip


class Names:
    """An enumeration whose members are their names, or a structure that takes anything."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.location = SimpleNamespace()

    def __call__(self) -> Names:
        return self

    def __getattr__(self, name: str) -> str:
        return name


Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Makes these the modules of cuda-bindings; None is one that cannot be imported."""
    gpu._driver.cache_clear()

    def put(**modules: ModuleType | None) -> None:
        package = ModuleType("cuda.bindings")
        monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
        monkeypatch.setitem(sys.modules, "cuda.bindings", package)
        for name, module in modules.items():
            monkeypatch.delitem(sys.modules, f"cuda.bindings.{name}", raising=False)
            if module is not None:
                monkeypatch.setitem(sys.modules, f"cuda.bindings.{name}", module)
                setattr(package, name, module)

    yield put
    gpu._driver.cache_clear()


@pytest.fixture
def driver(install: Install) -> Driver:
    made = Driver()
    install(driver=made)
    return made


# Opening -----------------------------------------------------------------------------------------


def test_a_gpu_is_described(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_driver_version", lambda: "580.1.2")
    found = open_gpu()
    assert (found.name, found.arch, found.uuid) == ("NVIDIA Test", "sm_90", "01ab")
    assert found.describe() == gpu.describe() == "NVIDIA Test (sm_90, driver 580.1.2)"
    assert why_no_gpu() == ""


def test_a_driver_that_hides_its_version_is_named_by_what_it_supports(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "_driver_version", lambda: "")
    assert open_gpu().driver == "for CUDA 13.0"


class DynamicLibNotFoundError(RuntimeError):
    """As cuda-pathfinder has it."""


def missing_library(text: str) -> ModuleType:
    """A module of cuda-bindings whose library is not there."""
    module = ModuleType("cuda.bindings.driver")

    def absent(*_: object) -> None:
        raise DynamicLibNotFoundError(text)

    module.cuInit = absent  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (None, gpu.MISSING_BINDINGS),
        (
            missing_library('"cuda" is an NVIDIA driver library and can only be found ...'),
            "no GPU: the NVIDIA driver (libcuda.so.1) is not installed here; "
            "use --backend cpu, which needs none",
        ),
        (Driver(devices=0), "no GPU: the NVIDIA driver is here but reports no device"),
        (
            Driver(version=12010),
            "the NVIDIA driver is too old: it supports CUDA 12.1, "
            "needed is 12.2 or newer (update the driver)",
        ),
    ],
    ids=["no bindings", "no driver", "no device", "too old"],
)
def test_what_is_missing_is_said_in_one_sentence(
    install: Install, module: ModuleType | None, said: str
) -> None:
    install(driver=module)
    assert why_no_gpu() == said
    with pytest.raises(InfrastructureError) as caught:
        gpu.describe()
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        ("cuInit", Code.CUDA_ERROR_NO_DEVICE, "no GPU: the NVIDIA driver says CUDA_ERROR_NO_DEV"),
        (
            "cuDevicePrimaryCtxRetain",
            Code.CUDA_ERROR_OUT_OF_MEMORY,
            "no GPU: all of its memory is in use by other programs",
        ),
        (
            "cuDeviceGetCount",
            Code.CUDA_ERROR_NOT_SUPPORTED,
            "the GPU failed the grader's own work: CUDA_ERROR_NOT_SUPPORTED",
        ),
    ],
)
def test_a_driver_that_refuses_is_quoted(driver: Driver, call: str, code: Code, said: str) -> None:
    driver.fails[call] = code
    assert why_no_gpu().startswith(said)


def test_another_error_of_the_bindings_is_not_hidden(install: Install) -> None:
    module = ModuleType("cuda.bindings.driver")

    def confused(*_: object) -> None:
        raise KeyError("something else")

    module.cuInit = confused  # type: ignore[attr-defined]
    install(driver=module)
    with pytest.raises(KeyError):
        why_no_gpu()


# Memory ------------------------------------------------------------------------------------------


def test_shared_memory_is_whole_grains_and_given_back(driver: Driver) -> None:
    made = open_gpu()
    memory = made.share(5)
    assert memory.size == 1 << 21
    assert memory.fd == driver.fds[0]
    driver.calls.clear()
    made.release(memory)
    assert driver.calls == ["cuCtxSynchronize", "cuMemUnmap", "cuMemAddressFree", "cuMemRelease"]
    with pytest.raises(OSError):
        os.fstat(memory.fd)


@pytest.mark.parametrize(
    ("fails", "undone"),
    [
        ("cuMemCreate", []),
        ("cuMemExportToShareableHandle", ["cuMemRelease"]),
        ("cuMemAddressReserve", ["cuMemRelease"]),
        ("cuMemMap", ["cuMemAddressFree", "cuMemRelease"]),
        ("cuMemSetAccess", ["cuMemUnmap", "cuMemAddressFree", "cuMemRelease"]),
    ],
)
def test_sharing_that_fails_half_way_leaves_nothing(
    driver: Driver, fails: str, undone: list[str]
) -> None:
    made = open_gpu()
    driver.fails[fails] = Code.CUDA_ERROR_NOT_SUPPORTED
    with pytest.raises(InfrastructureError):
        made.share(1)
    assert driver.calls[driver.calls.index(fails) + 1 :] == undone
    for fd in driver.fds:
        with pytest.raises(OSError):
            os.fstat(fd)


def test_whether_memory_can_be_shared_is_tried(driver: Driver) -> None:
    made = open_gpu()
    assert made.why_not_shared() == ""
    driver.fails["cuMemExportToShareableHandle"] = Code.CUDA_ERROR_NOT_SUPPORTED
    said = made.why_not_shared()
    assert said.startswith("this driver cannot share device memory between processes (")
    assert "CUDA_ERROR_NOT_SUPPORTED" in said


def test_too_little_memory_is_an_error_of_its_own(driver: Driver) -> None:
    made = open_gpu()
    driver.fails |= dict.fromkeys(("cuMemAlloc", "cuMemCreate"), Code.CUDA_ERROR_OUT_OF_MEMORY)
    for take in (made.allocate, made.share):
        with pytest.raises(OutOfMemory):
            take(100)


def test_nothing_is_allocated_as_one_byte(driver: Driver) -> None:
    seen: list[int] = []
    driver._cuMemAlloc = lambda size: seen.append(size) or 7  # type: ignore[attr-defined, func-returns-value]
    assert open_gpu().allocate(0) == Memory(7, 0)
    assert seen == [1]


def test_empty_arrays_are_not_copied(driver: Driver) -> None:
    made = open_gpu()
    driver.calls.clear()
    made.write(7, np.empty(0))
    made.fill(7, 0, 1)
    assert made.read(7, 0, np.float32).size == 0
    assert driver.calls == []


# Kernels and time --------------------------------------------------------------------------------


def test_arguments_are_passed_by_their_addresses(driver: Driver) -> None:
    seen: list[int] = []

    def launch(handle: str, *numbers: int) -> None:
        assert handle == "handle"
        assert numbers[:8] == (5, 2, 1, 64, 1, 1, 0, 0)
        pointers = ctypes.cast(numbers[8], ctypes.POINTER(ctypes.c_void_p * 2)).contents
        seen.append(ctypes.c_ulonglong.from_address(pointers[0] or 0).value)
        seen.append(ctypes.c_uint.from_address(pointers[1] or 0).value)

    driver._cuLaunchKernel = launch  # type: ignore[attr-defined]
    arguments = [ctypes.c_ulonglong(1 << 40), ctypes.c_uint(3)]
    open_gpu().launch(Kernel("k", "handle"), (5, 2), 64, arguments)
    assert seen == [1 << 40, 3]


def test_a_kernel_is_compiled_once_for_the_same_macros(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, dict[str, object]]] = []
    monkeypatch.setattr(
        gpu,
        "compile_source",
        lambda *request: asked.append(request) or b"",  # type: ignore[func-returns-value]
    )
    made = open_gpu()
    assert made.kernel("a.cu", "k", A=1, B=2) is made.kernel("a.cu", "k", B=2, A=1)
    assert made.kernel("a.cu", "k", A=2, B=2) is not made.kernel("a.cu", "k", B=2, A=1)
    assert asked == [("a.cu", "sm_90", {"A": 1, "B": 2}), ("a.cu", "sm_90", {"A": 2, "B": 2})]


def test_times_are_seconds_and_events_are_given_back(driver: Driver) -> None:
    driver._cuEventElapsedTime = lambda *_: 2.5  # type: ignore[attr-defined]
    made = open_gpu()
    first, second = made.mark(), made.mark()
    assert made.between(first, second) == 0.0025
    assert driver.calls.count("cuEventDestroy") == driver.calls.count("cuEventCreate") == 2


# The compiler ------------------------------------------------------------------------------------


def fake_nvrtc(code: int, log: bytes) -> ModuleType:
    module = ModuleType("cuda.bindings.nvrtc")

    class Result(enum.IntEnum):
        NVRTC_SUCCESS = 0
        NVRTC_ERROR_COMPILATION = 6

    def get_log(_: object, into: Any) -> tuple[int]:
        assert len(into) == len(log)
        ctypes.memmove(into, log, len(log))
        return (0,)

    vars(module).update(
        nvrtcResult=Result,
        nvrtcCreateProgram=lambda *_: (0, "program"),
        nvrtcCompileProgram=lambda *_: (Result(code),),
        nvrtcGetProgramLogSize=lambda _: (0, len(log)),
        nvrtcGetProgramLog=get_log,
    )
    return module


def test_a_compiler_that_is_missing_is_said(install: Install) -> None:
    install(nvrtc=None)
    with pytest.raises(InfrastructureError, match="cuda-bindings is missing"):
        gpu.compile_source("pause.cu", "sm_90", {})
    module = ModuleType("cuda.bindings.nvrtc")

    def absent(*_: object) -> None:
        raise DynamicLibNotFoundError("libnvrtc.so.13 not found")

    module.nvrtcCreateProgram = absent  # type: ignore[attr-defined]
    install(nvrtc=module)
    with pytest.raises(InfrastructureError, match=r"NVRTC cannot be loaded \(libnvrtc\.so\.13 not"):
        gpu.compile_source("pause.cu", "sm_90", {})


def test_what_nvrtc_says_is_shown(install: Install) -> None:
    install(nvrtc=fake_nvrtc(6, b"pause.cu(3): error: what?\n\0"))
    with pytest.raises(InfrastructureError) as caught:
        gpu.compile_source("pause.cu", "sm_20", {})
    assert str(caught.value).startswith(
        "NVRTC cannot compile pause.cu for sm_20:\npause.cu(3): error: what?"
    )


def real_nvrtc() -> bool:
    if importlib.util.find_spec("cuda") is None:
        return False
    try:
        from cuda.bindings import nvrtc

        return bool(nvrtc.nvrtcVersion()[0] == 0)
    except (ImportError, RuntimeError):
        return False


@pytest.mark.skipif(not real_nvrtc(), reason="NVRTC is not installed: pip install '.[cuda]'")
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_our_kernels_compile(arch: str) -> None:
    for source, name, macros in SOURCES:
        made = gpu.compile_source(source, arch, macros)
        assert made.startswith(b"\x7fELF")
        assert name.encode() in made


def test_every_file_of_ours_is_compiled_here() -> None:
    assert {source for source, _, _ in SOURCES} == {path.name for path in gpu.SOURCES.glob("*.cu")}


# Alone -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("driver")
def test_only_one_grader_at_a_time(cache: Path) -> None:
    made = open_gpu()
    lock = cache / f"gpu-{made.uuid}.lock"

    def is_free() -> bool:
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    with made.alone():
        assert not is_free()
    assert is_free()
