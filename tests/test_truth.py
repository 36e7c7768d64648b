"""What a submission can find out: nothing but its inputs, wherever it looks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import build, places, sandbox, submission, warden
from grader.assignment import Assignment
from grader.checks import Checker
from grader.sandbox import Sandbox
from grader.session import Session

pytestmark = pytest.mark.usefixtures("unfenced")

MASTER = b"the-masters-secret-words"
SNOOP = Path(__file__).parent / "snoop.cu"
VARIABLES = {"PATH", "LC_ALL", "HOME", "TMPDIR", "PWD", "SHLVL", "_"}


def masked(words: bytes) -> str:
    return "{" + ", ".join(str(byte ^ 0x5A) for byte in words) + "}"


@pytest.fixture
def looked(
    saxpy_native: Assignment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[list[str], Path]]:
    """Lets a submission look around while it is graded: (the lines it printed, its module)."""

    def look(box: Sandbox) -> tuple[list[str], Path]:
        monkeypatch.setenv("KERNEL_GRADER_SECRET", MASTER.decode())
        seed = tmp_path / "seed"
        seed.write_bytes(MASTER)
        score = tmp_path / "score.json"
        score.write_text('{"results": "of-all-others"}')
        modules = places.cache() / "modules"
        other = modules / "0123-another-submission"
        other.mkdir(parents=True, exist_ok=True)
        (other / "submission.so").write_text("work-of-another-student")
        paths = [
            seed, score, other / "submission.so", modules, places.cache(),
            saxpy_native.folder / "reference.py", saxpy_native.folder / "assignment.toml",
            saxpy_native.folder, places.PACKAGE / "session.py", places.PACKAGE / "compare.py",
            places.PACKAGE, Path(__file__), tmp_path, Path("/etc/passwd"),
        ]  # fmt: skip
        needles = {
            "the master": MASTER,
            "results": b"of-all-others",
            "another submission": b"work-of-another-student",
            "the reference": b"It looks as if y was not added",
            "points": b"general = 2.5",
            "the path of the result": os.fsencode(score),
            "the path of the assignment": os.fsencode(saxpy_native.folder / "reference"),
        }
        text = SNOOP.read_text()
        made = "".join(
            f'look_for("{name}", std::vector<unsigned char>{masked(words)});'
            for name, words in needles.items()
        )
        tried = "".join(
            f"try_path({number}, {masked(os.fsencode(path))});" for number, path in enumerate(paths)
        )
        folder = tmp_path / "submission"
        folder.mkdir()
        (folder / "saxpy.cu").write_text(text.replace("NEEDLES", made).replace("PATHS", tried))
        module = build.build(submission.read(folder, saxpy_native), saxpy_native, box)
        with Session(module, box, call_seconds=60.0) as session:
            result = Checker(saxpy_native, saxpy_native.parts[0], session, MASTER).run("base")
            assert result.passed, result.message
            session._log.seek(0)
            lines = session._log.read().decode().splitlines()
        assert "done" in lines, "it came to its end"
        return lines, module.path

    return look


def found(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("found ") and "an input" not in line]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(
            "bubblewrap",
            marks=pytest.mark.skipif(bool(sandbox.why_not_bubblewrap()), reason="no bubblewrap"),
        ),
        "process",
    ],
)
def test_a_submission_finds_nothing_but_its_inputs(
    looked: Callable[..., tuple[list[str], Path]], kind: str
) -> None:
    lines, module = looked(Sandbox(kind))
    walled = kind == "bubblewrap"
    hidden = walled or bool(warden.landlock_abi())
    assert any(line.startswith("found an input in descriptor") for line in lines), "it can look"
    if walled:
        assert "looked at memory of self" in lines
        assert any(line.startswith("found an input in map") for line in lines), "it can look"
    if hidden:
        assert found(lines) == []
        assert [line for line in lines if line.startswith("open ")] == []
        # folders that lead to its module and to the worker's script, with nothing else in them
        listed = {line.split(": ")[1] for line in lines if line.startswith("in path ")}
        assert listed <= {module.parent.name, *module.parts, "worker.py"}
    seen = {line.split()[-1] for line in lines if line.startswith("looked at memory of")}
    assert seen <= {"self", *(["1"] if walled else [])}, "bubblewrap's own, which knows nothing"
    others = [line for line in lines if line.startswith("process ")]
    assert others == ["process 1"] if walled else True
    variables = {line.split()[1].split("=")[0] for line in lines if line.startswith("variable ")}
    assert variables <= VARIABLES
    # standard input, its own words, the control channel, the arena (its mapping has one, too)
    told = [re.search(r"descriptor \d+ \((\S+).* is a (\w+)", line) for line in lines]
    held = sorted({one[2] for one in told if one})
    assert held == ["device", "file", "socket"]
    files = {one[1] for one in told if one and one[2] == "file"}
    assert len(files) == 2, "what it prints, and the arena"
