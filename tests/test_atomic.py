"""A file is written whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from grader import atomic


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "score.json"
    atomic.write(path, b"old")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"old", 0o644)
    path.chmod(0o600)
    atomic.write(path, b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fdopen", "fsync", "chmod", "replace"])
def test_whatever_fails_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "score.json"
    path.write_bytes(b"old")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space left"):
        atomic.write(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
