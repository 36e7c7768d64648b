"""What a submission can do to the machine while it is compiled: read nothing, and not for long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from grader import build, recipe, sandbox, submission, warden
from grader.assignment import Assignment
from grader.build import Module
from grader.errors import BuildFailed, GraderError
from grader.native_parts import Native
from grader.recipe import Recipe
from grader.sandbox import Sandbox

SECRET = "the_secret_of_the_grader"

RUNGS = [
    pytest.param(
        "bubblewrap",
        marks=pytest.mark.skipif(bool(sandbox.why_not_bubblewrap()), reason="no bubblewrap"),
    ),
    pytest.param(
        "process", marks=pytest.mark.skipif(not warden.landlock_abi(), reason="no Landlock")
    ),
]

Compile = Callable[[Path], Module]


@pytest.fixture(params=RUNGS)
def compile_it(request: pytest.FixtureRequest, saxpy_native: Assignment) -> Compile:
    """Builds a submission on each rung that hides files."""

    def compile_one(folder: Path) -> Module:
        read = submission.read(folder, saxpy_native)
        return build.build(read, saxpy_native, Sandbox(request.param))

    return compile_one


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that everybody may read, outside of the submission: it would compile."""
    path = tmp_path / "secret.h"
    path.write_text(f'static const char secret[] = "{SECRET}";\nint {SECRET};\n')
    path.chmod(0o644)
    return path


# Reading -----------------------------------------------------------------------------------------

READS = {
    "include": '#include "{}"',
    "include system": "#include <{}>",
    "include upwards": '#include "../../../../../../../../../../../../..{}"',
    "include by macro": "#define STR(x) #x\n#define FILE_NAME {}\n#define S(x) STR(x)\n"
    "#include S(FILE_NAME)",
    "import": '#import "{}"',
    "embed": 'static const unsigned char kept[] = {{\n#embed "{}"\n}};',
    "incbin": 'asm(".incbin \\"{}\\"");',
    "incbin in a section": 'asm(".section .rodata\\n.global stolen\\nstolen: .incbin \\"{}\\"\\n'
    '.previous");',
    "section": '__attribute__((section(".data\\n.incbin \\"{}\\"\\n#"))) int stolen = 1;',
    "assembler include": 'asm(".include \\"{}\\"");',
    "line": '#line 1 "{}"\nint broken(\n;',
    "line of an error": '# 1 "{}"\nint broken = nowhere;',
    "dependency": '#pragma GCC dependency "{}"\nint broken = nowhere;',
    "precompiled header": '#pragma GCC pch_preprocess "{}"',
    "diagnostic": '#pragma message "x"\n#line 2 "{}"\n#error here',
}


@pytest.mark.parametrize("how", READS)
def test_files_of_this_machine_cannot_be_compiled_in(
    compile_it: Compile, saxpy_folder: Callable[..., Path], secret: Path, how: str
) -> None:
    folder = saxpy_folder("", READS[how].format(secret))
    try:
        made = compile_it(folder)
    except BuildFailed as error:
        assert SECRET not in f"{error}\n{error.log}"
    else:
        assert SECRET.encode() not in made.path.read_bytes()


@pytest.mark.parametrize("how", ["include", "include by macro", "section", "line"])
def test_the_tricks_are_right(
    saxpy_native: Assignment,
    saxpy_folder: Callable[..., Path],
    secret: Path,
    how: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the secret is shown to the compiler, they find it: the walls hide it, nothing else."""
    start = Sandbox.start

    def showing(self: Sandbox, *args: object, **options: object) -> object:
        options["readable"] = [*options["readable"], secret]  # type: ignore[misc]
        return start(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Sandbox, "start", showing)
    text = READS[how].format(secret) + f"\n// shown: {how}"
    read = submission.read(saxpy_folder("", text), saxpy_native)
    try:
        made = build.build(read, saxpy_native)
    except BuildFailed as error:
        assert SECRET in f"{error}\n{error.log}"
    else:
        assert SECRET.encode() in made.path.read_bytes()


@pytest.mark.parametrize("path", ["{secret}", "/etc/passwd", "/root/.bashrc"])
def test_a_file_cannot_even_be_asked_for(
    compile_it: Compile, saxpy_folder: Callable[..., Path], secret: Path, path: str
) -> None:
    name = path.format(secret=secret)
    asks = f'#if __has_include("{name}")\n#error it is there\n#endif\n// {name}'
    try:
        compile_it(saxpy_folder("", asks))
    except BuildFailed as error:
        assert "it is there" not in f"{error}\n{error.log}"


def test_the_toolchain_may_be_asked_for(
    compile_it: Compile, saxpy_folder: Callable[..., Path]
) -> None:
    asks = "#if !__has_include(<vector>)\n#error no vector\n#endif"
    assert compile_it(saxpy_folder("", asks)).path.is_file()


# A rung that hides nothing -----------------------------------------------------------------------


class Open(Sandbox):
    """A rung without any walls, as far as files go."""

    @property
    def hides_files(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('#include "/etc/passwd"', "a file outside of the submission is included"),
        ("  #  include </etc/passwd>", "a file outside of the submission is included"),
        ('#include "../x.h"', "a file outside of the submission is included"),
        ('#include "a/../../x.h"', "a file outside of the submission is included"),
        ('#include_next "/x.h"', "a file outside of the submission is included"),
        ('#embed "x"', "#embed is used"),
        ('asm(".incbin \\"/etc/passwd\\"");', ".incbin is used"),
        ('asm(".include \\"/etc/passwd\\"");', ".include is used"),
    ],
)
def test_the_plain_ways_are_refused_where_nothing_is_hidden(
    saxpy_native: Assignment, saxpy_folder: Callable[..., Path], text: str, said: str
) -> None:
    read = submission.read(saxpy_folder("", text), saxpy_native)
    with pytest.raises(BuildFailed, match=rf"^saxpy\.cu:8: {said}, which is not allowed"):
        build.build(read, saxpy_native, Open("process"))


def test_ordinary_includes_are_not_refused(
    saxpy_native: Assignment, saxpy_folder: Callable[..., Path]
) -> None:
    folder = saxpy_folder("", '#include "parts/x.cuh"\n#include <vector>\n// a.include "x", 1/2')
    (folder / "parts").mkdir()
    (folder / "parts" / "x.cuh").write_text("#pragma once\n")
    read = submission.read(folder, saxpy_native)
    assert build.build(read, saxpy_native, Open("process")).path.is_file()


# Taking for ever ---------------------------------------------------------------------------------

SECONDS = 6

BOMBS = {
    "templates": "template <int n, int m> struct Bomb { static const long value = "
    "Bomb<n - 1, 2 * m>::value + Bomb<n - 1, 2 * m + 1>::value; };\n"
    "template <int m> struct Bomb<0, m> { static const long value = m; };\n"
    "static long exploded = Bomb<28, 1>::value;",
    "deep templates": "template <int n> struct Deep { typedef typename Deep<n + 1>::type type; };\n"
    "typedef Deep<0>::type deep;",
    "includes": '#include "bomb.h"',
    "constexpr": "constexpr int spin() { for (;;) {} return 1; }\nconstexpr int spun = spin();",
    "macros": "\n".join(
        ["#define A0 x,x,x,x,x,x,x,x", *(f"#define A{i} {','.join([f'A{i - 1}'] * 8)}"
                                         for i in range(1, 11))]
    ) + "\nint many[] = { A10 };",
    "object": "asm(\".data\\n.fill 0x7fffffff\\n.fill 0x7fffffff\\n.fill 0x7fffffff\");",
    "array": "char large[1ul << 34] = {1};",
    "errors": "\n".join(
        ["#define E0 nowhere();", *(f"#define E{i} {' '.join([f'E{i - 1}'] * 10)}"
                                    for i in range(1, 8))]
    ) + "\nvoid wrong() { E7 }",
    "warnings": '#include "loud.h"',
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_compiler_is_stopped(
    compile_it: Compile,
    saxpy_folder: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    own_cache: Path,
    bomb: str,
) -> None:
    original = recipe.cpu

    def impatient(parts: Native) -> Recipe:
        return replace(original(parts), seconds=SECONDS, memory=512 << 20)

    monkeypatch.setattr(recipe, "cpu", impatient)
    monkeypatch.setattr(build, "BUILT_BYTES", 32 << 20)
    folder = saxpy_folder("", BOMBS[bomb])
    (folder / "bomb.h").write_text('#include "bomb.h"\n' * 2)
    (folder / "loud.h").write_text("#warning one more\n" * 50_000)
    began = time.monotonic()
    try:
        compile_it(folder)
    except GraderError as error:
        assert isinstance(error, BuildFailed), "never the machine's fault"
        assert len(error.log) < 20_000
    assert time.monotonic() - began < 4 * SECONDS
    assert not list((own_cache / "modules").glob("new-*"))
