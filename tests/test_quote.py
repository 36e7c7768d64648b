"""Lines of source below the messages that speak of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import quote


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.cu").write_text("first\n\tsecond\n  third\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.cuh").write_text("x = y;\n")
    return tmp_path


def test_both_lines_of_a_race(folder: Path) -> None:
    message = "a.cu:3: write by thread 1, and read at more/b.cuh:1 by thread 2 (a.cu:3 again)"
    assert quote.lines(message, folder) == ["a.cu:3       |   third", "more/b.cuh:1 | x = y;"]


def test_a_file_may_stand_for_its_folder(folder: Path) -> None:
    assert quote.lines("a.cu:2: tab", folder / "a.cu") == ["a.cu:2 |     second"]


@pytest.mark.parametrize(
    "message",
    ["no place", "a.cu:9: beyond", "a.cu:0: before", "c.cu:1: elsewhere", "../x/a.cu:1: outside"],
)
def test_what_is_not_there_is_left_out(folder: Path, message: str) -> None:
    assert quote.lines(message, folder) == []


def test_links_are_not_followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("secret\n")
    (folder / "l.cu").symlink_to(secret)
    assert quote.lines("l.cu:1: x", folder) == []


def test_long_and_many_lines_are_cut(folder: Path) -> None:
    (folder / "a.cu").write_text("\n".join("x" * 300 for _ in range(9)))
    shown = quote.lines(" ".join(f"a.cu:{n}" for n in range(1, 9)), folder)
    assert len(shown) == quote.MOST and all(len(line) == quote.WIDTH for line in shown)


def test_nothing_without_a_folder() -> None:
    assert quote.lines("a.cu:1: x", None) == []
