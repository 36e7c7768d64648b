"""Where kernels run: on the emulator or on a GPU. Chosen once, before any work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grader import gpu
from grader import toolkit as cuda_toolkit
from grader.errors import InfrastructureError, UsageError
from grader.gpu import Gpu

BACKENDS = ("auto", "cpu", "cuda")
EMULATOR = "CUDA-on-CPU emulator"
DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Target:
    """`gpu` is None on the cpu backend. `note` says why a GPU that is there is not used."""

    backend: Literal["cpu", "cuda"]
    device: str
    gpu: Gpu | None = None
    note: str = ""


def choose(backend: str) -> Target:
    """The target for a backend's name; "auto" is a GPU where one can be used.

    Raises UsageError for an unknown name and InfrastructureError when "cuda" cannot be had.
    """
    if backend not in BACKENDS:
        raise UsageError(f"unknown backend {backend!r}: known are {', '.join(BACKENDS)}")
    if backend == "cpu":
        return Target("cpu", EMULATOR)
    try:
        return _cuda()
    except InfrastructureError as error:
        if backend == "cuda":
            raise
        note = f"a GPU is here but not used: {error}" if DRIVER.exists() else ""
        return Target("cpu", EMULATOR, note=note)


def _cuda() -> Target:
    device = gpu.open_gpu()
    tools = cuda_toolkit.find()
    version = ".".join(map(str, tools.version))
    return Target("cuda", f"{device.describe()}, nvcc {version}", device)
