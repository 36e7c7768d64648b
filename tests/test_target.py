"""Where kernels run, on machines that have a GPU, part of one, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import gpu, target, toolkit
from grader.errors import InfrastructureError, UsageError
from grader.target import EMULATOR, Target, choose
from grader.toolkit import Toolkit
from tests.fake_gpu import FakeGpu

KIT = Toolkit(Path("/x/bin/nvcc"), Path("/x"), Path("/x/include"), Path("/x/lib"), (13, 0))
NO_GPU = "no GPU: the NVIDIA driver is not installed here"
NO_NVCC = "nvcc is missing"


def machine(
    patch: pytest.MonkeyPatch, *, device: bool = True, nvcc: bool = True, driver: bool = True
) -> FakeGpu:
    """A machine that has these."""
    found = FakeGpu()

    def open_gpu() -> FakeGpu:
        if not device:
            raise InfrastructureError(NO_GPU)
        return found

    def find() -> Toolkit:
        if not nvcc:
            raise InfrastructureError(NO_NVCC)
        return KIT

    patch.setattr(gpu, "open_gpu", open_gpu)
    patch.setattr(toolkit, "find", find)
    patch.setattr(target, "DRIVER", Path("/proc/self/stat" if driver else "/nowhere"))
    return found


@pytest.mark.parametrize("backend", ["auto", "cuda"])
def test_a_gpu_with_a_compiler_is_used(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    found = machine(monkeypatch)
    chosen = choose(backend)
    assert chosen == Target("cuda", "Fake GPU (sm_90, driver 1.2), nvcc 13.0", found)


def test_cpu_never_asks_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "open_gpu", None)
    monkeypatch.setattr(toolkit, "find", None)
    assert choose("cpu") == Target("cpu", EMULATOR)


def test_auto_without_a_gpu_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, device=False, driver=False)
    assert choose("auto") == Target("cpu", EMULATOR, note="")


@pytest.mark.parametrize(
    ("parts", "why"), [({"device": False}, NO_GPU), ({"nvcc": False}, NO_NVCC)]
)
def test_a_gpu_that_is_there_and_not_used_is_noted(
    monkeypatch: pytest.MonkeyPatch, parts: dict[str, bool], why: str
) -> None:
    machine(monkeypatch, **parts)
    assert choose("auto").backend == "cpu"
    assert choose("auto").note == f"a GPU is here but not used: {why}"


@pytest.mark.parametrize(
    ("parts", "why"), [({"device": False}, NO_GPU), ({"nvcc": False}, NO_NVCC)]
)
def test_cuda_that_cannot_be_had_is_this_machines_fault(
    monkeypatch: pytest.MonkeyPatch, parts: dict[str, bool], why: str
) -> None:
    machine(monkeypatch, **parts)
    with pytest.raises(InfrastructureError) as caught:
        choose("cuda")
    assert str(caught.value) == why


@pytest.mark.parametrize("backend", ["", "gpu", "CUDA", "cpu "])
def test_an_unknown_backend_is_a_wrong_call(backend: str) -> None:
    with pytest.raises(UsageError, match=r"unknown backend .*: known are auto, cpu, cuda"):
        choose(backend)
