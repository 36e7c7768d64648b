"""Where things live, in a checkout and in a wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import places


def test_a_checkout_knows_its_assignments(root: Path) -> None:
    assert places.checkout() == root
    assert places.assignments() == root / "assignment"


def test_a_wheel_carries_its_assignments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(places, "PACKAGE", tmp_path / "site-packages" / "grader")
    monkeypatch.setattr(places, "prebuilt", lambda: tmp_path / "prebuilt")
    assert places.checkout() is None
    assert places.assignments() == tmp_path / "prebuilt" / "assignment"


@pytest.mark.parametrize(
    ("user", "chosen", "xdg", "expected"),
    [
        (1000, "/chosen", "/xdg", "/chosen"),
        (1000, None, "/xdg", "/xdg/kernel-grader"),
        (1000, None, None, "/home/me/.cache/kernel-grader"),
        (1000, "", "", "/home/me/.cache/kernel-grader"),
        (0, None, None, "/var/cache/kernel-grader"),
        (0, "/chosen", "/xdg", "/chosen"),
        (0, None, "/xdg", "/xdg/kernel-grader"),
    ],
)
def test_the_cache(
    monkeypatch: pytest.MonkeyPatch, user: int, chosen: str | None, xdg: str | None, expected: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in (("KERNEL_GRADER_CACHE", chosen), ("XDG_CACHE_HOME", xdg)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert places.cache() == Path(expected)


def test_the_parts_that_every_build_needs_are_there() -> None:
    assert (places.NATIVE / "binding.h").is_file()
    for backend in ("cpu", "cuda"):
        assert (places.NATIVE / "submission" / backend / "CMakeLists.txt").is_file()
    assert (places.EMULATOR / "frontend.py").is_file()
