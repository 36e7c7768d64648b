"""Where things live, in a checkout (editable install) and in an installed wheel alike.

In a checkout the assignments are the folder `assignment/` beside `grader/`; in a wheel they
travel inside the package, under `grader/_prebuilt`, next to the compiled native parts.
"""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
EMULATOR = PACKAGE / "emulator"
NATIVE = PACKAGE / "native"


def checkout() -> Path | None:
    """The repository this package runs from, or None when it is an installed wheel."""
    root = PACKAGE.parent
    return root if (root / "pyproject.toml").is_file() and (root / "assignment").is_dir() else None


def prebuilt() -> Path | None:
    """The folder that `pip install` filled with native parts (and, in a wheel, assignments)."""
    try:
        import grader._prebuilt as package
    except ImportError:
        return None
    assert package.__file__ is not None
    return Path(package.__file__).resolve().parent


def assignments() -> Path:
    """The folder whose sub-folders are the known assignments."""
    root = checkout()
    if root is not None:
        return root / "assignment"
    return (prebuilt() or PACKAGE) / "assignment"


def cache() -> Path:
    """Builds are kept here, by content hash; safe to delete at any time."""
    chosen = os.environ.get("KERNEL_GRADER_CACHE")
    if chosen:
        return Path(chosen).absolute()  # builds run in other folders
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "kernel-grader"
