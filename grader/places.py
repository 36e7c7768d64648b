"""Where things live, in a checkout (editable install) and in an installed wheel alike.

In a checkout the assignments are the folder `assignment/` beside `grader/`; in a wheel they
travel inside the package, under `grader/_prebuilt`, next to the compiled native parts.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grader.errors import InfrastructureError

PACKAGE = Path(__file__).resolve().parent
EMULATOR = PACKAGE / "emulator"
NATIVE = PACKAGE / "native"
UNFINISHED = "new-"
JUST_MADE = 60  # seconds


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
    """Builds are kept here, by content hash; safe to delete at any time.

    Root's are not kept in its home: the user that submissions run as could not get at them there.
    """
    chosen = os.environ.get("KERNEL_GRADER_CACHE")
    if chosen:
        return Path(chosen).absolute()  # builds run in other folders
    home = "/var/cache" if os.geteuid() == 0 else os.path.expanduser("~/.cache")
    base = os.environ.get("XDG_CACHE_HOME") or home
    return Path(base) / "kernel-grader"


@contextmanager
def fresh_folder(final: Path) -> Iterator[Path]:
    """A new folder that becomes `final` when the block ends well; two builders may race.

    Locked as long as the block runs: what a builder that was killed has left is removed by the
    next one. Raises InfrastructureError when the cache cannot be written.
    """
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:  # who does not know the hash of a build cannot find it
            final.parent.chmod(0o711)
        _remove_abandoned(final.parent)
        folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=final.parent))
    except OSError as error:
        raise InfrastructureError(
            f"cannot write the build cache {final.parent}: {error.strerror} "
            "(set KERNEL_GRADER_CACHE to a folder that can be written)"
        ) from None
    try:
        with _locked(folder):
            folder.chmod(0o711)  # others may pass, to the folders that are shown to them
            yield folder
            folder.chmod(0o755)
            try:
                folder.rename(final)
            except OSError:
                if not final.is_dir():  # somebody else finished the same build first
                    raise
    except OSError as error:
        raise InfrastructureError(f"cannot build in {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Holds the lock of a folder; False when somebody else does."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            ours = False
        else:
            ours = True
        yield ours
    finally:
        os.close(handle)


def _remove_abandoned(parent: Path) -> None:
    """Remove folders that nobody builds in any more."""
    for folder in parent.glob(f"{UNFINISHED}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime < JUST_MADE:
                continue  # perhaps not locked yet
            with _locked(folder) as ours:
                if ours:
                    shutil.rmtree(folder, ignore_errors=True)


def discard(folder: Path) -> None:
    """Remove a finished build that has turned out to be damaged. Raises InfrastructureError."""
    try:
        aside = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder.parent))
        folder.rename(aside / folder.name)  # at once: nobody sees half of it
        shutil.rmtree(aside, ignore_errors=True)
    except FileNotFoundError:  # somebody else did
        return
    except OSError as error:
        raise InfrastructureError(
            f"a damaged build cannot be removed: delete {folder} ({error.strerror})"
        ) from None
