"""Whatever is handed to the grader from outside: one sentence, never a traceback, never a hang."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader import cases, cli, grading, manifest, review, score, submission
from grader.assignment import Assignment, load
from grader.errors import AssignmentError, GraderError, Rejected, UsageError
from grader.score import Score

ASSIGNMENTS = Path(__file__).parent / "assignments"
SAXPY = (ASSIGNMENTS / "saxpy" / "assignment.toml").read_text()
TENSOR = (ASSIGNMENTS / "tensor" / "assignment.toml").read_text()
RIGHT = (Path(__file__).parent / "submissions" / "saxpy" / "right" / "saxpy.cu").read_text()
DONE, FAILED, USAGE, INFRASTRUCTURE = range(4)

ODD = st.sampled_from(
    [
        float("nan"), float("inf"), float("-inf"), -0.0, 1e308, 0, -1, 1, 2**31, 2**63 - 1,
        -(2**63), True, "", " ", "\n", "x" * 5000, "\u202e", "../x", "/etc/passwd",
        "a\tb", "saxpy", "base", [], [[]], {}, {"x": 1}, [{}], ["saxpy", "saxpy"], [float("nan")],
        {"": ""},
    ]
)  # fmt: skip
repeatedly = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


# assignment.toml ---------------------------------------------------------------------------------


def toml(value: Any) -> str:
    """A value as TOML; tables are written inline."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=True) if value != "\u202e" else '"\u202e"'


def document(top: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in top.items())


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from places_in(one, (*path, key))
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from places_in(one, (*path, number))


def changed(top: Any, path: tuple[Any, ...], how: str, value: Any) -> Any:
    copy = json.loads(json.dumps(top))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if how == "replace":
        inner[path[-1]] = value
    elif how == "delete":
        del inner[path[-1]]
    elif how == "rename" and isinstance(inner, dict):
        inner["renamed"] = inner.pop(path[-1])
    elif how == "repeat" and isinstance(inner, list):
        inner.append(inner[path[-1]])
    return copy


@st.composite
def documents(draw: st.DrawFn) -> str:
    top = tomllib.loads(draw(st.sampled_from([SAXPY, TENSOR])))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(list(places_in(top))))
        how = draw(st.sampled_from(["replace", "replace", "delete", "rename", "repeat"]))
        top = changed(top, path, how, draw(ODD))
        if not list(places_in(top)):
            break
    return document(top)


def test_the_documents_are_right(tmp_path: Path) -> None:
    """Unchanged, what the fuzzer writes is the assignment."""
    (tmp_path / "assignment.toml").write_text(document(tomllib.loads(TENSOR)))
    assert manifest.read(tmp_path / "assignment.toml") == manifest.read(
        ASSIGNMENTS / "tensor" / "assignment.toml"
    )


def usable(folder: Path) -> None:
    """A manifest that is taken has cases, too."""
    used = load(folder)
    for part in used.parts:
        for name in used.tests_of(part):
            if used.test(name).kind == "correctness":
                assert cases.cases(used, part, name, b"master")


@repeatedly
@given(text=documents())
def test_an_odd_manifest_is_one_sentence(tmp_path_factory: Any, text: str) -> None:
    folder = tmp_path_factory.mktemp("odd") / ("saxpy" if "launch_saxpy" in text else "tensor")
    shutil.copytree(ASSIGNMENTS / folder.name, folder)
    (folder / "assignment.toml").write_text(text, encoding="utf-8")
    try:
        usable(folder)
    except AssignmentError as error:
        assert str(error).strip()
        assert len(str(error)) < 20_000
    finally:
        shutil.rmtree(folder.parent)


@repeatedly
@given(
    at=st.integers(0, len(SAXPY)),
    gone=st.integers(0, 40),
    put=st.one_of(st.binary(max_size=20), st.sampled_from([
        b"\xff", b"\0", b"\r", b"x = " + b"[" * 3000, b"x = " + b"9" * 5000, b"x = 9999-99-99",
        b'"""', b"[[parts]]", b"[tests.base]", b"=", b"x = 1e999999", b"\xef\xbb\xbf",
    ])),
)  # fmt: skip
def test_a_damaged_manifest_is_one_sentence(tmp_path: Path, at: int, gone: int, put: bytes) -> None:
    raw = SAXPY.encode()
    path = tmp_path / "assignment.toml"
    path.write_bytes(raw[:at] + put + raw[at + gone :])
    try:
        manifest.read(path)
    except AssignmentError as error:
        assert str(error).strip()


@pytest.mark.parametrize("text", ["x = " + "[" * 3000, "x = " + "9" * 5000, "x = " + "{a=" * 3000])
def test_a_manifest_that_python_gives_up_on(tmp_path: Path, text: str) -> None:
    (tmp_path / "assignment.toml").write_text(text)
    with pytest.raises(AssignmentError):
        manifest.read(tmp_path / "assignment.toml")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("base = 7.5", "base = nan", "nan points are not tenths"),
        ("base = 7.5", "base = 1e308", "points are not tenths"),
        ("draws = 3", "draws = 9223372036854775807", "draws must be 0 to 1000"),
        ("draws = 3", "draws = -1", "draws must be 0 to 1000"),
        ("max_elements = 4096", "max_elements = 0", "max_elements must be 1 or more"),
        ("scale = 1e3", "scale = inf", "the scale of a pinned case is no number: inf"),
        ("{ n = 4 }", "{ n = 4, parts = 2.0 }", "the parts of a pinned case are no list: 2.0"),
    ],
)
def test_what_the_fuzzer_found(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "assignment.toml"
    assert old in SAXPY
    path.write_text(SAXPY.replace(old, new, 1))
    with pytest.raises(AssignmentError, match=said):
        manifest.read(path)


@pytest.mark.parametrize("kind", ["folder", "fifo", "nothing"])
def test_a_manifest_that_is_no_file(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    path = folder / "assignment.toml"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    done = CliRunner().invoke(cli.main, ["grade", str(tmp_path), "--assignment", str(folder)])
    assert done.exit_code == USAGE
    assert "Traceback" not in done.output


# Scores ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scored(saxpy_native: Assignment, tensor_native: Assignment) -> list[Any]:
    """Scores as JSON: of a right submission, and of one whose marks for speed are withheld."""
    made = grading.grade(
        Path(__file__).parent / "submissions" / "saxpy" / "wrong_tail",
        assignment=saxpy_native, backend="cpu",
    )  # fmt: skip
    plain = json.loads(score.encode(made))
    held = json.loads(score.encode(made))
    held["parts"][0]["timing"] = {
        "test": held["parts"][0]["tests"][0]["id"], "source": "measured", "fraction": 0.5,
        "low": 0.4, "high": 0.6, "zero": 0.1, "full": 0.9, "verdict": "withheld", "cases": [],
        "kernels": [],
    }  # fmt: skip
    held["needs_review"] = True
    return [plain, held]


@repeatedly
@given(data=st.data())
def test_an_odd_score_is_one_sentence(
    tmp_path: Path, scored: list[Any], data: st.DataObject
) -> None:
    top = data.draw(st.sampled_from(scored))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(places_in(top))))
        how = data.draw(st.sampled_from(["replace", "replace", "delete", "rename", "repeat"]))
        top = changed(top, path, how, data.draw(ODD))
        if not list(places_in(top)):
            break
    file = tmp_path / "score.json"
    file.write_text(json.dumps(top))
    options = data.draw(
        st.sampled_from([[], ["--accept", "--reason", "fine"], ["--deny", "--reason", "no"],
                         ["--part", "saxpy"], ["--accept", "--part", "nobody", "--reason", "x"]])
    )  # fmt: skip
    done = CliRunner().invoke(cli.main, ["review", str(file), *options])
    assert done.exit_code in (DONE, USAGE), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    if done.exit_code == DONE and "--accept" in options:
        score.read(file)


@repeatedly
@given(raw=st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"[" * 100_000, b'{"schema":' * 50_000, b"1" * 10_000, b"null", b'"x"',
                     b"\xff\xfe", b"{}" * 3, b'{"schema": "kernel-grader/score/v1"}', b"1e9999"]),
))  # fmt: skip
def test_no_score_is_one_sentence(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "score.json").write_bytes(raw)
    with pytest.raises(UsageError):
        score.read(tmp_path / "score.json")


@pytest.mark.parametrize("kind", ["folder", "fifo", "nothing", "loop", "long"])
def test_a_score_that_is_no_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "score.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "long":
        path = tmp_path / ("x" * 300)
    done = CliRunner().invoke(cli.main, ["review", str(path)])
    assert done.exit_code == USAGE, done.output
    assert "Traceback" not in done.output


# Submissions -------------------------------------------------------------------------------------

Make = Callable[[Path], None]


def name_of(raw: bytes) -> str:
    return os.fsdecode(raw)


def many(folder: Path) -> None:
    for number in range(10_001):
        (folder / f"{number}.txt").touch()


def many_sources(folder: Path) -> None:
    for number in range(101):
        (folder / f"{number}.cu").write_text("// x\n")


def deep(folder: Path) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("deeper-and-deeper", dir_fd=here)
        below = os.open("deeper-and-deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def bound_socket(folder: Path) -> None:
    here = os.getcwd()
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("x.cu")
    finally:
        os.chdir(here)


def emoji(folder: Path) -> None:
    (folder / "\U0001f600.cu").write_text("// x\n")


def binary(folder: Path) -> None:
    (folder / "x.cu").write_bytes(b"\x7fELF\0")


def source_folder(folder: Path) -> None:
    (folder / "saxpy.cu").unlink()
    (folder / "saxpy.cu").mkdir()


def circle(folder: Path) -> None:
    (folder / "a.cu").symlink_to("b.cu")
    (folder / "b.cu").symlink_to("a.cu")
    (folder / "self").symlink_to(".")
    (folder / "up").mkdir()
    (folder / "up" / "down").symlink_to("..")


def huge(folder: Path) -> None:
    with (folder / "saxpy.cu").open("wb") as file:
        file.truncate(1 << 40)


ODD_FOLDERS: dict[str, tuple[Make, type[GraderError] | None]] = {
    "newline": (lambda f: (f / "a\nb.cu").touch(), Rejected),
    "escape": (lambda f: (f / "a\x1b[31m.cuh").touch(), Rejected),
    "emoji": (emoji, None),
    "right to left": (lambda f: (f / "a\u202eb.cu").touch(), Rejected),
    "not utf-8": (lambda f: (f / name_of(b"a\xff.cu")).touch(), Rejected),
    "not utf-8, no source": (lambda f: (f / name_of(b"\xff.txt")).touch(), None),
    "not utf-8, a link out": (
        lambda f: (f / name_of(b"\xff\n")).symlink_to("/etc/passwd"), Rejected),
    "not utf-8, a folder": (lambda f: (f / name_of(b"\xff")).mkdir(), None),
    "many files": (many, Rejected),
    "many sources": (many_sources, Rejected),
    "deep": (deep, Rejected),
    "fifo": (lambda f: os.mkfifo(f / "x.cu"), Rejected),
    "fifo, no source": (lambda f: os.mkfifo(f / "x"), None),
    "socket": (bound_socket, Rejected),
    "link out": (lambda f: (f / "x.cu").symlink_to("/etc/passwd"), Rejected),
    "link to a device": (lambda f: (f / "x.cu").symlink_to("/dev/zero"), Rejected),
    "link to a process": (lambda f: (f / "x.cu").symlink_to("/proc/self/environ"), Rejected),
    "link out of a folder": (lambda f: (f / "x").symlink_to("/"), Rejected),
    "circle": (circle, None),
    "huge": (huge, Rejected),
    "a folder named like the source": (source_folder, Rejected),
    "a broken link": (lambda f: (f / "x.cu").symlink_to("nowhere"), None),
    "binary": (binary, Rejected),
}  # fmt: skip


def in_time(act: Callable[[], Any]) -> Any:
    """Raises TimeoutError rather than hang."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(act())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    if not found:
        raise TimeoutError
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


@pytest.mark.parametrize("kind", ODD_FOLDERS)
def test_an_odd_folder_is_read_or_rejected(tmp_path: Path, saxpy: Assignment, kind: str) -> None:
    make, expected = ODD_FOLDERS[kind]
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "saxpy.cu").write_text(RIGHT)
    make(folder)
    if expected is None:
        assert in_time(lambda: submission.read(folder, saxpy)).files
        return
    with pytest.raises(expected) as caught:
        in_time(lambda: submission.read(folder, saxpy))
    assert str(caught.value).isprintable(), "it can do no harm to a terminal"
    graded = grading.grade(folder, assignment=saxpy, backend="cpu")
    assert (graded.status, graded.score) == ("rejected", 0.0)
    assert score.decode(score.encode(graded)) == graded


@pytest.mark.parametrize(
    "name", [b"a\xff", b"a\nb", b"a\x1b]0;x\x07", "\U0001f600".encode(), b"\xe2\x80\xae"]
)
def test_an_odd_name_of_a_folder(tmp_path: Path, saxpy: Assignment, name: bytes) -> None:
    folder = tmp_path / name_of(name)
    folder.mkdir()
    arguments = ["--assignment", str(saxpy.folder), "--json", str(tmp_path / "score.json")]
    done = CliRunner().invoke(cli.main, ["grade", os.fspath(folder), *arguments])
    assert done.exit_code == DONE, done.output
    found = score.read(tmp_path / "score.json")
    assert found.status == "rejected"
    assert found.submission.id.isprintable()
    assert "\x1b]" not in done.output


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 3000, "\0", "no\nfolder"])
def test_no_folder_at_all(name: str) -> None:
    with pytest.raises(UsageError):
        grading.grade(name, assignment=ASSIGNMENTS / "saxpy", backend="cpu")


def test_a_folder_that_changes_while_it_is_read(tmp_path: Path, saxpy: Assignment) -> None:
    """Files come, grow, become something else and go."""
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "saxpy.cu").write_text(RIGHT)
    stop = threading.Event()
    chosen = random.Random(7)

    def change() -> None:
        number = 0
        while not stop.is_set():
            path = folder / f"{chosen.randrange(3)}.cu"
            number += 1
            try:
                what = chosen.randrange(6)
                if path.is_symlink() or path.exists():
                    shutil.rmtree(
                        path
                    ) if path.is_dir() and not path.is_symlink() else path.unlink()
                if what == 0:
                    path.write_text("// x\n" * chosen.randrange(1000))
                elif what == 1:
                    os.mkfifo(path)
                elif what == 2:
                    path.symlink_to("saxpy.cu")
                elif what == 3:
                    path.mkdir()
                elif what == 4:
                    path.symlink_to("/etc/passwd")
            except OSError:
                pass

    changer = threading.Thread(target=change)
    changer.start()
    until = time.monotonic() + 3
    seen: set[str] = set()
    try:
        while time.monotonic() < until:
            try:
                read = in_time(lambda: submission.read(folder, saxpy))
                seen.add("read")
                for file in read.files:
                    assert b"root:" not in file.data, "never what a link out leads to"
            except (Rejected, UsageError) as error:
                seen.add(type(error).__name__)
    finally:
        stop.set()
        changer.join()
    assert {"read", "Rejected"} <= seen


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_named(tmp_path: Path, saxpy: Assignment) -> None:
    (tmp_path / "saxpy.cu").write_text(RIGHT)
    (tmp_path / "saxpy.cu").chmod(0)
    with pytest.raises(UsageError, match=r"cannot read .*saxpy\.cu: permission denied"):
        submission.read(tmp_path, saxpy)


def test_reviews_are_scores(scored: list[Any]) -> None:
    """The fuzzer's own input is valid."""
    plain, held = (msgspec.convert(one, Score) for one in scored)
    assert not review.withheld(plain)
    assert [test.id for _, test in review.withheld(held)] == ["base"]
