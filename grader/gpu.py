"""The GPU as the grader itself uses it: memory that a worker can map, kernels of our own, a clock.

A thin layer over NVIDIA's cuda-bindings (driver API and NVRTC, from PyPI), so that the trusted
process needs no C++ and never loads a submission. Everything here is imported only once the cuda
backend is asked for; a machine without a GPU never gets further than `open_gpu`, which says in one
sentence what is missing.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader import places
from grader.errors import InfrastructureError

SOURCES = places.NATIVE / "gpu"
OLDEST_DRIVER = 12020  # as the driver counts: exportable memory and what our kernels need
EXTRA = "make gpu (pip install '.[cuda]') in the repository"
MISSING_BINDINGS = f"the Python package cuda-bindings is missing: {EXTRA}"


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel of ours."""

    name: str
    handle: Any


@dataclass
class Memory:
    """Device memory of the grader's own process. `fd` is set when a worker may map it, too."""

    address: int
    size: int
    fd: int = -1
    handle: Any = None


@dataclass
class Gpu:
    """One NVIDIA GPU, opened by `open_gpu`. Sizes are in bytes, times in seconds."""

    index: int
    name: str
    uuid: str
    arch: str
    driver: str
    multiprocessors: int
    threads_per_multiprocessor: int
    l2_bytes: int
    memory_bytes: int
    _kernels: dict[tuple[str, str, tuple[tuple[str, object], ...]], Kernel] = field(
        default_factory=dict
    )

    def describe(self) -> str:
        return f"{self.name} ({self.arch}, driver {self.driver})"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Only one grader of a user measures on a GPU at a time, or fills its memory: others that
        want to wait. Their small cases go on."""
        folder = places.cache()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = (folder / f"gpu-{self.uuid}.lock").open("w")
        except OSError as error:
            raise InfrastructureError(
                f"cannot lock the GPU in {folder}: {error.strerror}"
            ) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    # Memory -------------------------------------------------------------------------------------

    def free_bytes(self) -> int:
        free, _ = _do(_driver().cuMemGetInfo())
        return int(free)

    def allocate(self, size: int) -> Memory:
        """Memory of our own. Raises OutOfMemory."""
        return Memory(int(_do(_driver().cuMemAlloc(max(size, 1)))), size)

    def share(self, size: int) -> Memory:
        """Memory that a worker can map from a file descriptor. Raises OutOfMemory."""
        cu = _driver()
        kind = self._shared_kind()
        grain = int(
            _do(
                cu.cuMemGetAllocationGranularity(
                    kind, cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
                )
            )
        )
        size = -(-size // grain) * grain
        with ExitStack() as undo:  # whatever fails, nothing of it stays
            handle = _do(cu.cuMemCreate(size, kind, 0))
            undo.callback(cu.cuMemRelease, handle)
            posix = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
            fd = int(_do(cu.cuMemExportToShareableHandle(handle, posix, 0)))
            undo.callback(os.close, fd)
            address = _do(cu.cuMemAddressReserve(size, 0, 0, 0))
            undo.callback(cu.cuMemAddressFree, address, size)
            _do(cu.cuMemMap(address, size, 0, handle, 0))
            undo.callback(cu.cuMemUnmap, address, size)
            _do(cu.cuMemSetAccess(address, size, [self._read_and_write()], 1))
            undo.pop_all()
        return Memory(int(address), size, fd, handle)

    def _read_and_write(self) -> Any:
        cu = _driver()
        access = cu.CUmemAccessDesc()
        access.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = self.index
        access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        return access

    def release(self, memory: Memory) -> None:
        cu = _driver()
        self.synchronize()
        if memory.handle is None:
            _do(cu.cuMemFree(memory.address))
            return
        _do(cu.cuMemUnmap(memory.address, memory.size))
        _do(cu.cuMemAddressFree(memory.address, memory.size))
        _do(cu.cuMemRelease(memory.handle))
        with suppress(OSError):
            os.close(memory.fd)

    def why_not_shared(self) -> str:
        """Empty when memory can be shared with a worker here, else the reason. Raises OutOfMemory
        when that cannot be tried."""
        try:
            self.release(self.share(1))
        except InfrastructureError as error:
            return f"this driver cannot share device memory between processes ({error})"
        return ""

    def _shared_kind(self) -> Any:
        cu = _driver()
        kind = cu.CUmemAllocationProp()
        kind.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        kind.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        kind.location.id = self.index
        kind.requestedHandleTypes = (
            cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        )
        return kind

    def upload(self, array: NDArray[Any]) -> Memory:
        """A copy of a C-contiguous array in memory of our own."""
        memory = self.allocate(array.nbytes)
        self.write(memory.address, array)
        return memory

    def write(self, address: int, array: NDArray[Any]) -> None:
        if array.nbytes:
            data = np.ascontiguousarray(array)
            _do(_driver().cuMemcpyHtoD(address, data.ctypes.data, data.nbytes))

    def read(self, address: int, count: int, dtype: Any) -> NDArray[Any]:
        """`count` elements from `address` on."""
        made = np.empty(count, dtype)
        if made.nbytes:
            _do(_driver().cuMemcpyDtoH(made.ctypes.data, address, made.nbytes))
        return made

    def fill(self, address: int, words: int, pattern: int) -> None:
        """Put a 32-bit pattern into `words` words; does not wait."""
        if words:
            _do(_driver().cuMemsetD32Async(address, pattern, words, 0))

    # Kernels ------------------------------------------------------------------------------------

    def kernel(self, source: str, name: str, **macros: object) -> Kernel:
        """Kernel `name` of the file `source` in grader/native/gpu, compiled with these macros."""
        key = (source, name, tuple(sorted(macros.items())))
        if key not in self._kernels:
            cu = _driver()
            module = _do(cu.cuModuleLoadData(compile_source(source, self.arch, macros)))
            handle = _do(cu.cuModuleGetFunction(module, name.encode()))
            self._kernels[key] = Kernel(name, handle)
        return self._kernels[key]

    def launch(
        self, kernel: Kernel, grid: int | tuple[int, int], threads: int, arguments: Sequence[Any]
    ) -> None:
        """Start a kernel on the default stream. Arguments are ctypes values."""
        width, height = (grid, 1) if isinstance(grid, int) else grid
        pointers = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments))
        _do(
            _driver().cuLaunchKernel(
                kernel.handle, width, height, 1, threads, 1, 1, 0, 0,
                ctypes.addressof(pointers), 0,
            )
        )  # fmt: skip

    def synchronize(self) -> None:
        _do(_driver().cuCtxSynchronize())

    def reset_persisting_l2(self) -> None:
        """Nothing stays in the L2 cache because somebody asked for that. (Old cards have no such
        thing and say so.)"""
        _driver().cuCtxResetPersistingL2Cache()

    def mark(self) -> Any:
        """An event now, in the order of the default stream."""
        cu = _driver()
        event = _do(cu.cuEventCreate(0))
        _do(cu.cuEventRecord(event, 0))
        return event

    def between(self, first: Any, second: Any) -> float:
        """Seconds from one mark to another; waits for the second."""
        cu = _driver()
        _do(cu.cuEventSynchronize(second))
        milliseconds = float(_do(cu.cuEventElapsedTime(first, second)))
        for event in (first, second):
            _do(cu.cuEventDestroy(event))
        return milliseconds / 1e3


class OutOfMemory(Exception):
    """The GPU has not as much memory free as was asked for."""


def open_gpu(index: int = 0) -> Gpu:
    """The GPU that CUDA counts as number `index`.

    Raises InfrastructureError: what is missing, and how to get it.
    """
    cu = _driver()
    count = int(_do(cu.cuDeviceGetCount()))
    if count <= index:
        raise InfrastructureError("no GPU: the NVIDIA driver is here but reports no device")
    version = int(_do(cu.cuDriverGetVersion()))
    if version < OLDEST_DRIVER:
        raise InfrastructureError(
            f"the NVIDIA driver is too old: it supports CUDA {_dotted(version)}, "
            f"needed is {_dotted(OLDEST_DRIVER)} or newer (update the driver)"
        )
    device = _do(cu.cuDeviceGet(index))
    try:
        context = _do(cu.cuDevicePrimaryCtxRetain(device))
    except OutOfMemory:
        raise InfrastructureError(
            "no GPU: all of its memory is in use by other programs (nvidia-smi names them)"
        ) from None
    _do(cu.cuCtxSetCurrent(context))
    ask = cu.CUdevice_attribute

    def attribute(which: Any) -> int:
        return int(_do(cu.cuDeviceGetAttribute(which, device)))

    major = attribute(ask.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    minor = attribute(ask.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    return Gpu(
        index=index,
        name=_do(cu.cuDeviceGetName(128, device)).split(b"\0")[0].decode(),
        uuid=bytes(_do(cu.cuDeviceGetUuid(device)).bytes).hex(),
        arch=f"sm_{major}{minor}",
        driver=_driver_version() or f"for CUDA {_dotted(version)}",
        multiprocessors=attribute(ask.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        threads_per_multiprocessor=attribute(
            ask.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR
        ),
        l2_bytes=attribute(ask.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        memory_bytes=int(_do(cu.cuDeviceTotalMem(device))),
    )


def why_no_gpu() -> str:
    """Empty when a GPU can be used here, else what is missing."""
    try:
        open_gpu()
    except InfrastructureError as error:
        return str(error)
    return ""


def describe() -> str:
    """The GPU in words. Raises InfrastructureError when there is none."""
    return open_gpu().describe()


def compile_source(source: str, arch: str, macros: Mapping[str, object]) -> bytes:
    """Machine code for one of our own CUDA files. Needs NVRTC, but no GPU.

    Raises InfrastructureError with the compiler's log.
    """
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise InfrastructureError(MISSING_BINDINGS) from None
    text = (SOURCES / source).read_text(encoding="utf-8")
    options = [f"--gpu-architecture={arch}", "--std=c++17"]
    options += [f"-D{name}={value}" for name, value in macros.items()]
    encoded = [option.encode() for option in options]
    try:
        program = _do(nvrtc.nvrtcCreateProgram(text.encode(), source.encode(), 0, [], []))
        (code,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        if code != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * int(_do(nvrtc.nvrtcGetProgramLogSize(program)))
            _do(nvrtc.nvrtcGetProgramLog(program, log))
            said = log.rstrip(b"\0 ").decode(errors="replace")
            raise InfrastructureError(f"NVRTC cannot compile {source} for {arch}:\n{said}")
        made = b" " * int(_do(nvrtc.nvrtcGetCUBINSize(program)))
        _do(nvrtc.nvrtcGetCUBIN(program, made))
    except RuntimeError as error:  # the library itself is missing
        raise InfrastructureError(f"NVRTC cannot be loaded ({error}): {EXTRA}") from None
    return made


@functools.cache
def _driver() -> Any:
    """NVIDIA's driver API, initialised. Raises InfrastructureError in one sentence."""
    try:
        from cuda.bindings import driver
    except ImportError:
        raise InfrastructureError(MISSING_BINDINGS) from None
    try:
        (code,) = driver.cuInit(0)
    except Exception as error:  # the package has an exception of its own for a missing library
        if "driver" not in str(error).lower() and not isinstance(error, RuntimeError):
            raise
        raise InfrastructureError(
            "no GPU: the NVIDIA driver (libcuda.so.1) is not installed here; "
            "use --backend cpu, which needs none"
        ) from None
    if code != driver.CUresult.CUDA_SUCCESS:
        raise InfrastructureError(f"no GPU: the NVIDIA driver says {_name(code)}")
    return driver


def _do(result: tuple[Any, ...]) -> Any:
    """What a call of cuda-bindings returned, without its error code."""
    code, *values = result
    if int(code) != 0:
        name = _name(code)
        if name in ("CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation"):
            raise OutOfMemory("not enough memory on the GPU")
        raise InfrastructureError(f"the GPU failed the grader's own work: {name}")
    return values[0] if len(values) == 1 else values


def _name(code: Any) -> str:
    return str(getattr(code, "name", code))


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _driver_version() -> str:
    """The driver's own version, such as 580.159.04; empty if it does not say."""
    with suppress(OSError):
        with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
            words = file.readline().split()
        for word in words:
            if word.replace(".", "").isdigit() and word.count(".") >= 1:
                return word
    return ""
