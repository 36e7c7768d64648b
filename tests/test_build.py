"""From source files to a module: what is compiled, cached, and said when it fails."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import build, diagnostics, places, submission, tools
from grader.assignment import Assignment
from grader.build import Module
from grader.errors import BuildFailed, InfrastructureError
from grader.sandbox import Sandbox
from grader.submission import SourceFile, Submission

# Which files are compiled ------------------------------------------------------------------------


def sources(**files: str) -> Submission:
    made = tuple(
        SourceFile(name.replace("__", "/").replace("_", "."), text.encode())
        for name, text in files.items()
    )
    return Submission("made", Path("."), made, "0")


@pytest.mark.parametrize(
    ("files", "compiled"),
    [
        ({"saxpy_cu": ""}, ["saxpy.cu"]),
        ({"saxpy_cu": "", "more_cu": "", "x_cuh": "", "y_h": ""}, ["saxpy.cu", "more.cu"]),
        ({"saxpy_cu": '#include "more.cu"\n', "more_cu": ""}, ["saxpy.cu"]),
        ({"saxpy_cu": '  #  include "parts/more.cu"\n', "parts__more_cu": ""}, ["saxpy.cu"]),
        (
            {"saxpy_cu": '#include "x.cuh"\n', "x_cuh": '#include "m.cu"\n', "m_cu": ""},
            ["saxpy.cu"],
        ),
        ({"saxpy_cu": '// #include "more.cu"\n', "more_cu": ""}, ["saxpy.cu", "more.cu"]),
    ],
)
def test_an_included_file_is_not_compiled_twice(files: dict[str, str], compiled: list[str]) -> None:
    assert build.compiled_files(sources(**files)) == compiled


# A build -----------------------------------------------------------------------------------------

Make = Callable[[str | Path], Module]


def test_a_module_comes_out(built: Make, cache: Path) -> None:
    made = built("right")
    assert made.path.is_file()
    assert made.path.is_relative_to(cache)
    assert made.path.name.startswith("submission.")


def test_equal_files_are_built_once(
    built: Make, submissions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = built("right")
    shutil.copytree(submissions / "saxpy" / "right", tmp_path / "copy")

    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(build, "_compile", refuse)
    assert built(tmp_path / "copy") == first
    (tmp_path / "copy" / "saxpy.cu").write_text("// other\n")
    with pytest.raises(AssertionError, match="compiled again"):
        built(tmp_path / "copy")


def test_another_compiler_is_another_build(
    built: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = {built("right").sha256}
    monkeypatch.setattr(build, "_compile", lambda *_: (_ for _ in ()).throw(BuildFailed("no", "")))
    other = tmp_path / "some-other-c++"
    other.touch()
    monkeypatch.setattr(tools, "compiler", lambda: str(other))
    with pytest.raises(BuildFailed):
        built("right")
    assert keys


def test_a_failed_build_leaves_nothing_behind(built: Make, own_cache: Path) -> None:
    with pytest.raises(BuildFailed):
        built("does_not_compile")
    assert not list((own_cache / "modules").glob("*"))


def test_two_builders_at_once(
    saxpy_native: Assignment, saxpy_folder: Callable[..., Path], box: Sandbox
) -> None:
    read = submission.read(saxpy_folder("    // built by two at once"), saxpy_native)
    made: list[Module] = []
    builders = [
        threading.Thread(target=lambda: made.append(build.build(read, saxpy_native, box)))
        for _ in range(2)
    ]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert len(made) == 2
    assert made[0] == made[1]
    assert made[0].path.is_file()


@pytest.mark.parametrize("name", ["two_files", "missing_launcher"])
def test_several_files_or_no_launcher_build_too(built: Make, name: str) -> None:
    assert built(name).path.is_file()


@pytest.mark.parametrize(
    "name",
    [
        "with space.cuh",
        "quote'.cuh",
        "50% (1).cuh",
        "dollar$HOME.cuh",
        "umlaut-\u00e4.cuh",
    ],
)
def test_a_header_may_be_called_anything(
    built: Make, saxpy_folder: Callable[..., Path], name: str
) -> None:
    folder = saxpy_folder("    // odd header", f'#include "{name}"')
    (folder / name).write_text("#pragma once\n")
    assert built(folder).path.is_file()


@pytest.mark.parametrize(
    "name",
    ["with space.cu", "quote'.cu", "50% (1).cu", "dollar$HOME.cu", "umlaut-\u00e4.cu"],
)
def test_a_source_file_may_be_called_anything(
    built: Make, saxpy_folder: Callable[..., Path], name: str
) -> None:
    folder = saxpy_folder("    // odd source")
    (folder / name).write_text("int unused_but_compiled() { return 1; }\n")
    assert built(folder).path.is_file()


def test_a_folder_may_be_called_anything(built: Make, saxpy_folder: Callable[..., Path]) -> None:
    assert built(saxpy_folder("    // odd folder", name="Ada L. (50%) $x; 'q'")).path.is_file()


def test_an_included_source_builds(built: Make, saxpy_folder: Callable[..., Path]) -> None:
    folder = saxpy_folder("    helper();", '#include "more.cu"')
    (folder / "more.cu").write_text("void helper() {}\n")
    assert built(folder).path.is_file()


# The contract ------------------------------------------------------------------------------------


def test_the_contract_may_be_included(built: Make, saxpy_folder: Callable[..., Path]) -> None:
    folder = saxpy_folder("", '#include "saxpy.h"\n#include "parts/x.cuh"')
    (folder / "parts").mkdir()
    (folder / "parts" / "x.cuh").write_text('#pragma once\n#include "saxpy.h"\n')
    assert built(folder).path.is_file()


def test_a_copy_of_the_contract_is_ignored(
    built: Make, saxpy_folder: Callable[..., Path], saxpy: Assignment
) -> None:
    folder = saxpy_folder("    static_assert(SAXPY_A == 2.5f);", '#include "saxpy.h"')
    (folder / "saxpy.h").write_text("#error this is the student's own copy\n")
    assert built(folder).path.is_file()


def test_a_launcher_with_another_signature_is_a_compile_error(
    built: Make, saxpy_folder: Callable[..., Path]
) -> None:
    folder = saxpy_folder()
    text = (folder / "saxpy.cu").read_text().replace("launch_saxpy(float*", "launch_saxpy(double*")
    (folder / "saxpy.cu").write_text(text.replace("void launch", 'extern "C" void launch'))
    with pytest.raises(BuildFailed, match=r"^saxpy\.cu:\d+: .*launch_saxpy"):
        built(folder)


# Failures ----------------------------------------------------------------------------------------


def failure(built: Make, folder: Path) -> BuildFailed:
    with pytest.raises(BuildFailed) as caught:
        built(folder)
    return caught.value


def no_machine_paths(error: BuildFailed, cache: Path) -> bool:
    said = f"{error}\n{error.log}"
    return not [word for word in (str(cache), "/tmp/", "build-", ".cpp") if word in said]


def test_an_error_is_in_the_students_own_file_and_line(
    built: Make, submissions: Path, cache: Path
) -> None:
    error = failure(built, submissions / "saxpy" / "does_not_compile")
    assert str(error).startswith("saxpy.cu:4: ")
    assert "SAXPY_B" in str(error)
    assert "SAXPY_B" in error.log
    assert no_machine_paths(error, cache)


def test_the_first_error_is_named(built: Make, saxpy_folder: Callable[..., Path]) -> None:
    folder = saxpy_folder("    first_unknown = 1;\n    second_unknown = 2;")
    error = failure(built, folder)
    assert "first_unknown" in str(error)
    assert "second_unknown" in error.log


def test_an_error_is_shown_with_the_students_own_line(
    built: Make, saxpy_folder: Callable[..., Path]
) -> None:
    error = failure(built, saxpy_folder("    first_unknown = 1;"))
    assert re.search(r"^ +\d+ \|     first_unknown = 1;$", error.log, re.M)
    assert "lambda" not in error.log


def test_an_error_in_a_template_says_who_required_it(
    built: Make, saxpy_folder: Callable[..., Path]
) -> None:
    folder = saxpy_folder(
        "    struct_only(1.0f);",
        "template <class T> __device__ int struct_only(T t) { return t.member; }",
    )
    required = re.search(r"^saxpy\.cu:(\d+):\d+: +required from", failure(built, folder).log, re.M)
    assert required
    lines = (folder / "saxpy.cu").read_text().splitlines()
    assert lines[int(required[1]) - 1] == "    struct_only(1.0f);"


def test_an_error_in_a_header_is_found_there(
    built: Make, saxpy_folder: Callable[..., Path], cache: Path
) -> None:
    folder = saxpy_folder("", '#include "parts/x.cuh"')
    (folder / "parts").mkdir()
    (folder / "parts" / "x.cuh").write_text("#pragma once\n\nint broken(\n;\n")
    error = failure(built, folder)
    assert str(error).startswith("parts/x.cuh:")
    assert no_machine_paths(error, cache)


def test_a_missing_header_is_named(
    built: Make, saxpy_folder: Callable[..., Path], cache: Path
) -> None:
    error = failure(built, saxpy_folder("", '#include "nowhere.cuh"'))
    assert str(error).startswith("saxpy.cu:8: ")
    assert "nowhere.cuh" in str(error)
    assert no_machine_paths(error, cache)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("cudaEventElapsedTime", "float*, cudaEvent_t, cudaEvent_t"), ("cudaDeviceSynchronize", "")],
)
def test_the_runtime_cannot_be_defined_again(
    built: Make, saxpy_folder: Callable[..., Path], name: str, parameters: str
) -> None:
    """A submission's own cudaEventElapsedTime would tell the grader any time that it likes."""
    text = f'extern "C" cudaError_t {name}({parameters}) {{ return cudaSuccess; }}\n'
    with pytest.raises(BuildFailed, match=f"^{name} is a function of the CUDA runtime"):
        built(saxpy_folder("", text))


def test_a_function_that_two_files_define_in_a_header_is_no_error(
    built: Make, saxpy_folder: Callable[..., Path]
) -> None:
    folder = saxpy_folder("", '#include "both.cuh"')
    (folder / "both.cuh").write_text(
        "#pragma once\n__device__ float twice(float x) { return x; }\n"
    )
    (folder / "more.cu").write_text('#include "both.cuh"\n')
    assert built(folder).path.is_file()


def test_the_log_is_bounded(built: Make, saxpy_folder: Callable[..., Path]) -> None:
    error = failure(built, saxpy_folder("\n".join(f"    unknown_{i} = 1;" for i in range(500))))
    assert len(error.log.splitlines()) <= diagnostics.SHOWN_LINES + 1
    assert error.log.splitlines()[-1].endswith("more lines")


def test_the_log_cannot_control_a_terminal(built: Make, saxpy_folder: Callable[..., Path]) -> None:
    error = failure(built, saxpy_folder('    unknown = "\x1b]0;hello\x07";'))
    assert "\x1b" not in f"{error}\n{error.log}"
    assert "\x07" not in f"{error}\n{error.log}"


def test_build_files_of_a_submission_are_never_run(
    built: Make, saxpy_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = saxpy_folder("    // with build files")
    marker = tmp_path / "was-run"
    (folder / "CMakeLists.txt").write_text(f'file(WRITE "{marker}" "x")\n')
    (folder / "Makefile").write_text(f"all:\n\ttouch {marker}\n")
    (folder / "emulator.cmake").write_text(f'file(WRITE "{marker}" "x")\n')
    built(folder)
    assert not marker.exists()


# This machine's own trouble ----------------------------------------------------------------------


def test_a_compiler_that_breaks_later_is_not_the_students_fault(
    built: Make, saxpy_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho no licence >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(InfrastructureError, match="no submission can be compiled here"):
        built(saxpy_folder("    // unlike any other"))


def test_a_relative_cache_will_do(
    built: Make,
    saxpy_native: Assignment,
    saxpy_folder: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = build.native(saxpy_native)
    monkeypatch.setattr(build, "native", lambda *_: kept)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNEL_GRADER_CACHE", "kept here")
    assert built(saxpy_folder()).path.is_relative_to(tmp_path / "kept here")


def test_a_change_of_the_front_end_or_the_contract_is_another_build(
    saxpy_native: Assignment, submissions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = submission.read(submissions / "saxpy" / "right", saxpy_native)
    parts = build.native(saxpy_native)

    def key() -> str:
        return build._key(read, saxpy_native, parts.fingerprint, build._front_end())

    keys = {key()}
    emulator = tmp_path / "emulator"
    emulator.mkdir()
    for path in places.EMULATOR.glob("*.py"):
        shutil.copy(path, emulator)
    monkeypatch.setattr(places, "EMULATOR", emulator)
    assert {key()} == keys
    for path in sorted(emulator.iterdir()):
        with path.open("a") as file:
            file.write("# changed\n")
        keys.add(key())
    assert len(keys) == 1 + len(os.listdir(emulator))


def test_a_launcher_that_two_files_define_is_refused(
    built: Make, saxpy_folder: Callable[..., Path]
) -> None:
    folder = saxpy_folder()
    (folder / "old.cu").write_text((folder / "saxpy.cu").read_text())
    with pytest.raises(BuildFailed, match=r"^launch_saxpy is defined in old.cu and in saxpy.cu: "):
        built(folder)
