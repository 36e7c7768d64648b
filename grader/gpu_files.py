"""What of this machine a sandboxed program must see to use a GPU: device files and the driver.

Seeing them is no choice of a GPU: which one is used is said by the environment, or by a cluster's
scheduler, which lets a job open no other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

DRIVER = "libcuda.so.1"
NODES = (
    "nvidiactl", "nvidia-uvm", "nvidia[0-9]*",
    "nvidia-caps",  # slices of a GPU (MIG)
    "dxg",  # Windows Subsystem for Linux
)  # fmt: skip
# Both processes must number the GPUs alike.
VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH")
# Where containers, WSL and NixOS keep the driver, for a linker cache that does not know.
USUAL_FOLDERS = ("/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib")


def nodes(dev: Path = Path("/dev")) -> list[Path]:
    """The device files of all GPUs; empty on a machine without one."""
    return sorted(path for name in NODES for path in dev.glob(name))


def environment() -> dict[str, str]:
    """The variables that choose a GPU or find the driver, as they are here."""
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def driver_folders() -> list[Path]:
    """Where the driver's libraries are if that is not /usr, which every sandbox shows.

    A link's target counts too: the driver may lie in a store of packages.
    """
    for folder in _library_folders(os.environ):
        library = folder / DRIVER
        if library.is_file():
            found = dict.fromkeys([folder, library.resolve().parent])
            return [path for path in found if not path.resolve().is_relative_to("/usr")]
    return []


def _library_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Where the dynamic linker looks, in its order, and then the usual places."""
    yield from (Path(name) for name in environ.get("LD_LIBRARY_PATH", "").split(":") if name)
    yield from (Path(line.split(" => ")[1]).parent for line in _linker_cache() if DRIVER in line)
    yield from map(Path, USUAL_FOLDERS)


def _linker_cache() -> list[str]:
    """Lines such as `libcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1`."""
    program = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        done = subprocess.run([program, "-p"], capture_output=True, text=True, check=False)
    except OSError:
        return []
    return [line for line in done.stdout.splitlines() if " => " in line]
