"""Submissions are read as bytes; unusable ones are rejected in one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import submission
from grader.assignment import Assignment
from grader.errors import Rejected, UsageError
from grader.submission import Submission

CODE = "void launch_saxpy() {}\n"


@pytest.fixture
def read(saxpy: Assignment, tmp_path: Path) -> Callable[..., Submission]:
    """Writes files (name=content, None for no saxpy.cu) into a folder and reads it."""

    def write_and_read(files: dict[str, bytes] | None = None, folder: str = "ada") -> Submission:
        root = tmp_path / folder
        for name, data in {"saxpy.cu": CODE.encode(), **(files or {})}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return submission.read(root, saxpy)

    return write_and_read


# Usable ------------------------------------------------------------------------------------------


def test_source_files_are_read_in_order(read: Callable[..., Submission]) -> None:
    made = read(
        {"util.cuh": b"// u\n", "deep/er/x.h": b"// x\n", "notes.txt": b"no", "a.out": b"\0"}
    )
    assert made.id == "ada"
    assert [file.name for file in made.files] == ["deep/er/x.h", "saxpy.cu", "util.cuh"]
    assert made.files[1].data == CODE.encode()


@pytest.mark.parametrize(
    "name", [".hidden.cu", ".git/x.cu", "build/x.cu", "__MACOSX/saxpy.cu", "node_modules/x/y.h"]
)
def test_hidden_and_generated_files_do_not_count(
    read: Callable[..., Submission], name: str
) -> None:
    assert read({name: b"\0"}).sha256 == read(folder="bob").sha256


def test_a_byte_order_mark_is_dropped(read: Callable[..., Submission]) -> None:
    made = read({"saxpy.cu": b"\xef\xbb\xbf" + CODE.encode()})
    assert made.files[0].data == CODE.encode()


def test_text_in_any_encoding_is_kept(read: Callable[..., Submission]) -> None:
    assert read({"saxpy.cu": b"// caf\xe9\r\n"}).files[0].data == b"// caf\xe9\r\n"


def test_the_digest_depends_on_names_and_contents_only(read: Callable[..., Submission]) -> None:
    made = read(folder="ada")
    assert read(folder="bob").sha256 == made.sha256
    assert read({"README.md": b"hello"}, folder="cyd").sha256 == made.sha256
    assert read({"saxpy.cu": b"// other\n"}, folder="dan").sha256 != made.sha256
    assert read({"a.h": b""}, folder="eve").sha256 != made.sha256


def test_the_digest_tells_where_a_file_ends(read: Callable[..., Submission]) -> None:
    one = read({"a.h": b"x", "b.h": b"y"}, folder="one")
    other = read({"a.h": b"xb.hy", "b.h": b""}, folder="other")
    renamed = read({"a.h": b"y", "b.h": b"x"}, folder="renamed")
    assert len({one.sha256, other.sha256, renamed.sha256}) == 3


def test_links_inside_the_folder_are_followed(
    read: Callable[..., Submission], tmp_path: Path
) -> None:
    (tmp_path / "ada" / "sub").mkdir(parents=True)
    (tmp_path / "ada" / "sub" / "real.cuh").write_text("// real\n")
    (tmp_path / "ada" / "link.cuh").symlink_to("sub/real.cuh")
    (tmp_path / "ada" / "folder").symlink_to("sub")
    (tmp_path / "ada" / "gone.cuh").symlink_to("sub/gone.cuh")
    made = read()
    assert [file.name for file in made.files] == ["link.cuh", "saxpy.cu", "sub/real.cuh"]
    assert made.files[0].data == b"// real\n"


@pytest.mark.parametrize(
    "name", [b"caf\xe9.cuh", b"caf\n.cuh", b"caf;.cuh", b'caf".cuh', b"caf\\.cuh", b"caf[.cuh"]
)
def test_a_name_that_tools_cannot_handle_is_rejected(
    read: Callable[..., Submission], tmp_path: Path, name: bytes
) -> None:
    (tmp_path / "ada").mkdir()
    try:
        (tmp_path / "ada" / os.fsdecode(name)).write_text("// x\n")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    with pytest.raises(Rejected, match=r"'caf.*\.cuh' is no usable file name"):
        read()


# Unusable ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"saxpy.cu": b""}, r"^saxpy\.cu is empty$"),
        ({"saxpy.cu": b" \n\t\n"}, r"^saxpy\.cu is empty$"),
        ({"saxpy.cu": b"a\0b"}, r"^saxpy\.cu is a binary file"),
        ({"saxpy.cu": "\ufeffint i;".encode("utf-16-le")}, "UTF-16 text: save it as UTF-8"),
        ({"big.h": b" " * ((1 << 20) + 1)}, r"^big\.h has 1\.0 MB: a source file may have 1 MB$"),
        ({f"{i}.h": b"" for i in range(100)}, "^more than 100 source files"),
    ],
)
def test_rejected_for_its_files(
    read: Callable[..., Submission], files: dict[str, bytes], said: str
) -> None:
    with pytest.raises(Rejected, match=said):
        read(files)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Saxpy.cu", r"there is no saxpy\.cu, but a Saxpy\.cu: rename it to saxpy\.cu"),
        ("hw1/saxpy.cu", r"there is no saxpy\.cu in ada, but there is one in hw1: hand in that"),
        ("kernel.cu", r"there is no saxpy\.cu in the folder \(found kernel\.cu\)"),
        ("saxpy.txt", r"there is no saxpy\.cu in the folder$"),
        ("saxpy.cu/notes.txt", r"there is no saxpy\.cu in the folder$"),
    ],
)
def test_rejected_without_the_required_file(
    saxpy: Assignment, tmp_path: Path, name: str, said: str
) -> None:
    path = tmp_path / "ada" / name
    path.parent.mkdir(parents=True)
    path.write_text(CODE)
    with pytest.raises(Rejected, match=said):
        submission.read(tmp_path / "ada", saxpy)


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret.h", "..", "sub/../../secret.h"])
def test_rejected_for_a_link_out_of_the_folder(
    read: Callable[..., Submission], tmp_path: Path, target: str
) -> None:
    (tmp_path / "ada" / "sub").mkdir(parents=True)
    (tmp_path / "secret.h").write_text("// secret\n")
    (tmp_path / "ada" / "link.h").symlink_to(target)
    with pytest.raises(Rejected, match=r"link\.h is a link out of the folder"):
        read()


def test_a_link_to_itself_is_no_file(saxpy: Assignment, tmp_path: Path) -> None:
    (tmp_path / "saxpy.cu").symlink_to("saxpy.cu")
    with pytest.raises(Rejected, match=r"there is no saxpy\.cu"):
        submission.read(tmp_path, saxpy)


def test_rejected_for_a_pipe(read: Callable[..., Submission], tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    os.mkfifo(tmp_path / "ada" / "pipe.h")
    with pytest.raises(Rejected, match=r"pipe\.h is not an ordinary file"):
        read()


def test_a_huge_folder_is_rejected_unread(read: Callable[..., Submission], tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    with (tmp_path / "ada" / "data.bin").open("wb") as file:
        file.truncate(51 << 20)  # sparse: takes no room
    with pytest.raises(Rejected, match="more than 50 MB"):
        read()


def test_very_many_files_are_rejected(
    read: Callable[..., Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MAX_ENTRIES", 3)
    with pytest.raises(Rejected, match="more than 3 files"):
        read({f"{i}.txt": b"" for i in range(4)})


# Not a folder ------------------------------------------------------------------------------------


def test_no_such_folder(saxpy: Assignment, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such folder: .*nowhere"):
        submission.read(tmp_path / "nowhere", saxpy)


def test_a_file_is_not_a_submission(saxpy: Assignment, tmp_path: Path) -> None:
    (tmp_path / "saxpy.cu").write_text(CODE)
    with pytest.raises(UsageError, match=r"is a file: name the folder that holds saxpy\.cu"):
        submission.read(tmp_path / "saxpy.cu", saxpy)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(read: Callable[..., Submission], tmp_path: Path) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "locked.h").touch(0)
    with pytest.raises(UsageError, match=r"cannot read .*locked\.h: permission denied"):
        read()
