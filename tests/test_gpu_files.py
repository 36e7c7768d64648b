"""What a sandboxed program is shown of a GPU, found on made-up machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import gpu_files


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose linker knows no driver."""
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(gpu_files, "_linker_cache", list)
    monkeypatch.setattr(gpu_files, "USUAL_FOLDERS", ())


def driver(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "libcuda.so.1").touch()
    return folder


def test_the_device_files_of_all_gpus(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "dxg", "sda"):
        (tmp_path / name).touch()
    (tmp_path / "nvidia-caps").mkdir()
    assert [path.name for path in gpu_files.nodes(tmp_path)] == [
        "dxg", "nvidia-caps", "nvidia-uvm", "nvidia0", "nvidia12", "nvidiactl",
    ]  # fmt: skip


def test_a_machine_without_a_gpu_has_none(tmp_path: Path) -> None:
    (tmp_path / "null").touch()
    assert gpu_files.nodes(tmp_path) == []


def test_the_choice_of_a_gpu_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in gpu_files.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SECRET", "seed")
    assert gpu_files.environment() == {}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # none at all, unlike a variable that is not set
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert gpu_files.environment() == {
        "CUDA_VISIBLE_DEVICES": "",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


@pytest.mark.usefixtures("bare")
def test_without_a_driver_nothing_is_shown() -> None:
    assert gpu_files.driver_folders() == []


@pytest.mark.usefixtures("bare")
def test_the_linkers_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual, cached, chosen = (driver(tmp_path / name) for name in ("usual", "cached", "chosen"))
    monkeypatch.setattr(gpu_files, "USUAL_FOLDERS", (str(usual),))
    assert gpu_files.driver_folders() == [usual]
    monkeypatch.setattr(
        gpu_files,
        "_linker_cache",
        lambda: [
            "\tlibc.so.6 (libc6,x86-64) => /lib/libc.so.6",
            f"\tlibcuda.so.1 (libc6,x86-64) => {cached}/libcuda.so.1",
        ],
    )
    assert gpu_files.driver_folders() == [cached]
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}::{chosen}")
    assert gpu_files.driver_folders() == [chosen]


@pytest.mark.usefixtures("bare")
def test_a_driver_in_a_store_of_packages_is_shown_there_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = driver(tmp_path / "store" / "x")
    front = tmp_path / "front"
    front.mkdir()
    (front / "libcuda.so.1").symlink_to(store / "libcuda.so.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(front))
    assert gpu_files.driver_folders() == [front, store]


@pytest.mark.usefixtures("bare")
def test_a_driver_under_usr_is_shown_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_file", lambda self: self == Path("/usr/lib/x/libcuda.so.1"))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/lib/x")
    assert gpu_files.driver_folders() == []


def test_the_linker_cache_of_this_machine_can_be_read() -> None:
    lines = gpu_files._linker_cache()
    assert all(Path(line.split(" => ")[1]).is_absolute() for line in lines)
