"""A submission: a folder of source files, read once, never executed here.

Everything later works on the bytes that were read, so nothing changes between hashing,
compiling and grading.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader import words
from grader.assignment import Assignment
from grader.errors import Rejected, UsageError

SOURCE_SUFFIXES = (".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl")
IGNORED_FOLDERS = ("__pycache__", "build", "venv", "node_modules", "CMakeFiles", "__MACOSX")
UNSAFE = set('"\\;[]')  # characters that mean something else in a list of files or an #include
MAX_FILE_BYTES = 1 << 20
MAX_FILES = 100
MAX_FOLDER_BYTES = 50 << 20
MAX_ENTRIES = 10_000
MAX_DEPTH = 40
# what a file says that has just become something else
CHANGED = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP, errno.ENXIO)


@dataclass(frozen=True)
class SourceFile:
    """A source file: its name relative to the submission, with `/`, and its bytes."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Submission:
    """`id` is the folder's name; `sha256` depends on names and contents of the files only."""

    id: str
    folder: Path
    files: tuple[SourceFile, ...]
    sha256: str


def read(folder: str | Path, assignment: Assignment) -> Submission:
    """Read the source files of a submission.

    Raises UsageError when there is no such folder, and Rejected when it cannot be graded: the
    required file is missing, empty or binary, it is too large, a link leads out of the folder.
    """
    root = Path(folder)
    shown = words.name(str(folder))
    if not there(root):
        raise UsageError(f"no such folder: {shown}")
    if not root.is_dir():
        raise UsageError(f"{shown} is a file: name the folder that holds {assignment.source}")
    root = root.resolve()
    try:
        files = tuple(sorted(_source_files(root), key=lambda file: file.name))
    except PermissionError as error:
        raise UsageError(f"cannot read {words.name(error.filename)}: permission denied") from None
    except OSError as error:
        if error.errno not in CHANGED:
            raise
        raise UsageError(f"{shown} changed while it was read: run it again") from None
    _require(assignment.source, root, files)
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{len(file.name)}:{file.name}:{len(file.data)}:".encode())
        digest.update(file.data)
    return Submission(words.name(root.name), root, files, digest.hexdigest())


def there(path: Path) -> bool:
    """Whether a path exists; one that cannot even be a name does not."""
    try:
        return path.exists()
    except OSError:  # too long
        return False


def _source_files(root: Path) -> Iterator[SourceFile]:
    total = 0
    count = 0
    for path, info in _walk(root):
        total += info.st_size
        if total > MAX_FOLDER_BYTES:
            raise Rejected(
                f"the folder holds more than {MAX_FOLDER_BYTES >> 20} MB: hand in source files only"
            )
        if path.suffix not in SOURCE_SUFFIXES:
            continue
        name = path.relative_to(root).as_posix()
        if not name.isprintable() or set(name) & UNSAFE:  # no tool could name it
            raise Rejected(f"{name!a} is no usable file name: rename the file")
        count += 1
        if count > MAX_FILES:
            raise Rejected(f"more than {MAX_FILES} source files: hand in your own files only")
        if not stat.S_ISREG(info.st_mode):
            raise Rejected(f"{name} is not an ordinary file")
        if info.st_size > MAX_FILE_BYTES:
            raise Rejected(
                f"{name} has {info.st_size / (1 << 20):.1f} MB: "
                f"a source file may have {MAX_FILE_BYTES >> 20} MB"
            )
        yield SourceFile(name, _text(name, _read(root, path, name)))


def _read(root: Path, path: Path, name: str) -> bytes:
    """A file's bytes, even if it has become something else since it was looked at."""
    handle = os.open(os.path.realpath(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise Rejected(f"{name} is not an ordinary file")
        opened = f"/proc/self/fd/{handle}"
        if os.path.islink(opened) and not Path(os.readlink(opened)).is_relative_to(root):
            raise Rejected(f"{name} is a link out of the folder: hand in the file itself")
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise Rejected(f"{name} grew while it was read: a source file may have 1 MB")
    return data


def _walk(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Files below root that are not hidden; a link must stay inside the folder."""
    entries = 0
    folders = [root]
    while folders:
        folder = folders.pop()
        if len(folder.parts) - len(root.parts) > MAX_DEPTH:
            raise Rejected(f"folders in folders, more than {MAX_DEPTH} deep: hand in source only")
        with os.scandir(folder) as found:
            listed = sorted(found, key=lambda entry: entry.name)
        for entry in listed:
            entries += 1
            if entries > MAX_ENTRIES:
                raise Rejected(f"more than {MAX_ENTRIES} files: hand in source files only")
            if entry.name.startswith(".") or entry.name in IGNORED_FOLDERS:
                continue
            path = Path(entry.path)
            if entry.is_symlink():
                target = Path(os.path.realpath(path))  # unlike resolve(), no error for a loop
                if not target.is_relative_to(root):
                    raise Rejected(
                        f"{words.name(str(path.relative_to(root)))} is a link out of the folder: "
                        "hand in the file itself"
                    )
                if not target.is_file():
                    continue  # a link to a folder inside is walked under its own name
                yield path, target.stat()
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            else:
                yield path, entry.stat(follow_symlinks=False)


def _text(name: str, data: bytes) -> bytes:
    """The bytes, if they look like text; a UTF-8 byte-order mark is dropped."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Rejected(f"{name} is UTF-16 text: save it as UTF-8")
    if b"\0" in data:
        raise Rejected(f"{name} is a binary file, not CUDA source text")
    return data.removeprefix(b"\xef\xbb\xbf")


def _require(source: str, root: Path, files: tuple[SourceFile, ...]) -> None:
    for file in files:
        if file.name == source:
            if not file.data.strip():
                raise Rejected(f"{source} is empty")
            return
    for file in files:
        if file.name.lower() == source.lower():
            raise Rejected(f"there is no {source}, but a {file.name}: rename it to {source}")
        if file.name.endswith("/" + source):
            raise Rejected(
                f"there is no {source} in {words.name(root.name)}, but there is one in "
                f"{file.name.removesuffix('/' + source)}: hand in that folder"
            )
    others = [file.name for file in files if file.name.endswith(".cu")]
    found = f" (found {', '.join(others[:3])})" if others else ""
    raise Rejected(f"there is no {source} in the folder{found}")
