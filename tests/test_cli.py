"""The command `grader`: exit codes, what is printed, and when a score is written."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from grader import build, cli, gpu, grading, native_parts
from grader.assignment import Assignment
from grader.errors import InfrastructureError
from grader.gpu import Gpu, why_no_gpu
from grader.score import decode

SUBMISSIONS = Path(__file__).parent / "submissions" / "saxpy"
ASSIGNMENTS = Path(__file__).parent / "assignments"
SAXPY = ["--assignment", str(ASSIGNMENTS / "saxpy")]
DONE, FAILED, USAGE, INFRASTRUCTURE = range(4)

Grader = Callable[..., Result]


@pytest.fixture
def run() -> Grader:
    def invoke(*arguments: object) -> Result:
        result = CliRunner().invoke(cli.main, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result

    return invoke


@pytest.fixture
def ready(saxpy_native: Assignment) -> None:
    """Submissions for saxpy can be built."""


builds = pytest.mark.usefixtures("ready")


# Help --------------------------------------------------------------------------------------------


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("path", [*commands(cli.main)], ids=" ".join)
def test_every_command_has_help(run: Grader, path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == DONE
    described = re.sub(r"^Usage: .*\n", "", result.output)
    assert re.match(r"\s+\w[^.]*\.", described), "a sentence comes first"
    assert result.output == run(*path, "-h").output


@pytest.mark.parametrize("path", [*commands(cli.main)], ids=" ".join)
def test_every_option_is_explained(path: tuple[str, ...]) -> None:
    command: click.Command = cli.main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_the_version_is_told(run: Grader) -> None:
    assert re.fullmatch(r"grader, version \d+\.\d+.*\n", run("--version").output)


# grade -------------------------------------------------------------------------------------------


@builds
@pytest.mark.parametrize(
    ("name", "said", "score"),
    [
        ("right", "Score: 10 of 10", 10.0),
        ("wrong_tail", "Score: 7.5 of 10", 7.5),
        ("does_not_compile", "The submission does not build.", 0.0),
    ],
)
def test_grade_ends_with_0_whatever_the_marks(
    run: Grader, tmp_path: Path, name: str, said: str, score: float
) -> None:
    out = tmp_path / "score.json"
    result = run("grade", SUBMISSIONS / name, *SAXPY, "--json", out)
    assert result.exit_code == DONE
    assert said in result.output
    assert decode(out.read_bytes()).score == score


def test_grade_rejects_with_a_score_of_0(run: Grader, tmp_path: Path) -> None:
    out = tmp_path / "score.json"
    (tmp_path / "empty").mkdir()
    result = run("grade", tmp_path / "empty", *SAXPY, "--json", out)
    assert result.exit_code == DONE
    assert "there is no saxpy.cu in the folder" in result.output
    assert decode(out.read_bytes()).status == "rejected"


@builds
def test_grade_prints_a_table_and_how_to_repeat_a_failure(run: Grader) -> None:
    output = run("grade", SUBMISSIONS / "wrong_tail", *SAXPY).output
    assert re.search(r"^Saxpy +7\.5 / 10$", output, re.MULTILINE)
    assert re.search(r"^  base +pass +5 cases +7\.5 / 7\.5$", output, re.MULTILINE)
    assert re.search(r"^  general +FAIL +\d cases? +0 / 2\.5$", output, re.MULTILINE)
    assert "grader repro saxpy.general:" in output
    assert "\x1b[" not in output, "no colours outside of a terminal"


@builds
def test_compiler_errors_are_shown(run: Grader) -> None:
    output = run("grade", SUBMISSIONS / "does_not_compile", *SAXPY).output
    assert "saxpy.cu:4" in output
    assert "SAXPY_B" in output


def broken(name: str) -> list[str]:
    return ["--assignment", str(ASSIGNMENTS / "broken" / name)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["grade", "nowhere", *SAXPY], "no such folder: nowhere"),
        (["grade", SUBMISSIONS / "right" / "saxpy.cu", *SAXPY], "is a file"),
        (["grade", SUBMISSIONS / "right", "--assignment", "laiernorm"], "unknown assignment"),
        (["grade", SUBMISSIONS / "right", "--assignment", "./nowhere"], "has no assignment.toml"),
        (["grade", SUBMISSIONS / "right", *broken("bad_toml")], "is not valid TOML"),
        (["grade", SUBMISSIONS / "right", *broken("reference_raises")], "cannot be loaded"),
        (["grade", SUBMISSIONS / "right", *SAXPY, "--part", "saxpi"], "did you mean 'saxpy'?"),
        (["grade", SUBMISSIONS / "right", *SAXPY, "--backend", "tpu"], "unknown backend 'tpu'"),
        (
            ["grade", SUBMISSIONS / "right", *SAXPY, "--seed-file", "nowhere"],
            "cannot read the seed",
        ),
        (["grade", SUBMISSIONS / "right", *SAXPY, "--seed", "1", "--seed-file", "x"], "not both"),
        (["grade", SUBMISSIONS / "right", *SAXPY, "--sead", "1"], "No such option"),
        (["grade"], "Missing argument"),
        (["check", "nowhere", *SAXPY], "no such folder: nowhere"),
        (["check", SUBMISSIONS / "right", *SAXPY, "--part", "saxpi"], "did you mean 'saxpy'?"),
        (["graed"], "No such command"),
    ],
)
def test_a_wrong_command_ends_with_2_and_writes_nothing(
    run: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    score = ["--json", "score.json"] if len(arguments) > 1 else []
    result = run(*arguments, *score)
    assert result.exit_code == USAGE
    assert said in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_assignment_gets_a_suggestion(run: Grader) -> None:
    result = run("grade", SUBMISSIONS / "right", "--assignment", "layernrom")
    assert result.exit_code == USAGE
    assert re.search(r"unknown assignment 'layernrom' \(did you mean '\w+'\?\)", result.stderr)


@pytest.mark.parametrize(
    ("where", "said"), [("no/score.json", "there is no folder"), (".", "it is a folder")]
)
@pytest.mark.parametrize("command", ["grade", "check"])
def test_an_unwritable_score_is_noticed_before_any_work(
    run: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    command: str, where: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(build, "build", None)  # would raise another error
    result = run(command, SUBMISSIONS / "right", *SAXPY, "--json", tmp_path / where)
    assert result.exit_code == USAGE
    assert said in result.stderr


# Seeds -------------------------------------------------------------------------------------------


@builds
def test_a_seed_file_keeps_the_master_off_the_command_line(run: Grader, tmp_path: Path) -> None:
    scores = []
    (tmp_path / "seed").write_bytes(b"a secret master\n")
    choices: list[list[object]] = [
        ["--seed-file", tmp_path / "seed"],
        ["--seed", "a secret master"],
        [],
    ]
    for number, options in enumerate(choices):
        out = tmp_path / f"{number}.json"
        run("grade", SUBMISSIONS / "right", *SAXPY, *options, "--json", out)
        assert b"a secret master" not in out.read_bytes()
        scores.append(decode(out.read_bytes()))
    assert scores[0].parts == scores[1].parts
    assert scores[0].parts != scores[2].parts
    assert [score.environment.seed for score in scores] == ["secret", "secret", "public"]


def test_an_empty_seed_file_is_no_master(run: Grader, tmp_path: Path) -> None:
    (tmp_path / "seed").write_bytes(b"\n")
    result = run("grade", SUBMISSIONS / "right", *SAXPY, "--seed-file", tmp_path / "seed")
    assert result.exit_code == USAGE
    assert "is empty" in result.stderr


def test_an_empty_seed_is_no_master(run: Grader) -> None:
    result = run("grade", SUBMISSIONS / "right", *SAXPY, "--seed", "")
    assert result.exit_code == USAGE


# check and repro ---------------------------------------------------------------------------------


@builds
@pytest.mark.parametrize(
    ("name", "code"), [("right", DONE), ("wrong_tail", FAILED), ("does_not_compile", FAILED)]
)
def test_check_says_by_its_exit_code_whether_all_is_well(run: Grader, name: str, code: int) -> None:
    assert run("check", SUBMISSIONS / name, *SAXPY).exit_code == code


@builds
def test_check_looks_here_when_no_folder_is_named(
    run: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SUBMISSIONS / "right")
    result = run("check", *SAXPY)
    assert result.exit_code == DONE
    assert "right" in result.output


@builds
def test_a_printed_repro_line_works_as_it_is(run: Grader) -> None:
    output = run("check", SUBMISSIONS / "wrong_tail", *SAXPY).output
    found = re.search(r"  run it alone: grader (repro .*)", output)
    assert found is not None
    words = shlex.split(found[1])
    token = words[1]
    again = run(*words, *SAXPY)
    assert again.exit_code == FAILED
    assert "wrong" in again.output
    assert "never written" in again.output
    fine = run("repro", token, SUBMISSIONS / "right", *SAXPY)
    assert fine.exit_code == DONE
    assert "right" in fine.output


@builds
def test_repro_shows_what_the_kernel_printed(
    run: Grader, saxpy_folder: Callable[..., Path]
) -> None:
    folder = saxpy_folder('    printf("n is %d\\n", n);', "#include <cstdio>")
    result = run("repro", "saxpy.base:n=4,family=normal,scale=1.0,seed=5", folder, *SAXPY)
    assert result.exit_code == DONE
    assert "The submission printed:\nn is 4" in result.output


@pytest.mark.parametrize("token", ["", "nonsense", "saxpy.base:n=4"])
def test_repro_of_nonsense(run: Grader, token: str) -> None:
    result = run("repro", token, SUBMISSIONS / "right", *SAXPY)
    assert result.exit_code == USAGE
    assert result.stderr.startswith("grader: ")


@builds
def test_repro_of_what_does_not_build(run: Grader) -> None:
    token = "saxpy.base:n=4,family=normal,scale=1.0,seed=5"
    result = run("repro", token, SUBMISSIONS / "does_not_compile", *SAXPY)
    assert result.exit_code == FAILED
    assert "saxpy.cu:4" in result.stderr


# This machine at fault ---------------------------------------------------------------------------


@pytest.fixture
def broken_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def tools() -> tuple[str, str]:
        raise InfrastructureError("cmake is missing: pip install cmake")

    def no_compile(*_: object) -> None:
        tools()

    monkeypatch.setattr(build, "_compile", no_compile)
    monkeypatch.setattr(native_parts, "_compile", no_compile)
    monkeypatch.setattr(native_parts, "_parts_in", lambda *_: None)


@pytest.mark.usefixtures("broken_machine")
@pytest.mark.parametrize("command", ["grade", "check"])
def test_a_machine_that_cannot_grade_ends_with_3(run: Grader, command: str) -> None:
    result = run(command, SUBMISSIONS / "right", *SAXPY)
    assert result.exit_code == INFRASTRUCTURE
    assert "cmake is missing: pip install cmake" in result.output
    assert "the submission is not at fault" in result.output
    assert "Score:" not in result.output


@pytest.mark.usefixtures("broken_machine")
def test_an_infrastructure_error_keeps_an_earlier_score(run: Grader, tmp_path: Path) -> None:
    out = tmp_path / "score.json"
    out.write_text("the earlier score\n")
    result = run("grade", SUBMISSIONS / "right", *SAXPY, "--json", out)
    assert result.exit_code == INFRASTRUCTURE
    assert out.read_text() == "the earlier score\n"


@pytest.mark.usefixtures("broken_machine")
def test_repro_on_a_broken_machine(run: Grader) -> None:
    token = "saxpy.base:n=4,family=normal,scale=1.0,seed=5"
    result = run("repro", token, SUBMISSIONS / "right", *SAXPY)
    assert result.exit_code == INFRASTRUCTURE


# Without a GPU -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["grade", "check", "repro"])
def test_cuda_without_a_gpu_ends_with_3_in_one_sentence(
    run: Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def none() -> Gpu:
        raise InfrastructureError("no GPU: the NVIDIA driver is not installed here")

    monkeypatch.setattr(gpu, "open_gpu", none)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "build", None)  # nothing is built
    words: list[object] = [SUBMISSIONS / "right", *SAXPY, "--backend", "cuda"]
    if command == "repro":
        words.insert(0, "saxpy.base:n=4,family=normal,scale=1.0,seed=5")
    else:
        words += ["--json", "score.json"]
    result = run(command, *words)
    assert result.exit_code == INFRASTRUCTURE
    assert result.stderr == "grader: no GPU: the NVIDIA driver is not installed here\n"
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not why_no_gpu(), reason="this machine has a GPU")
def test_cuda_on_this_very_machine() -> None:
    done = command("grade", SUBMISSIONS / "right", *SAXPY, "--backend", "cuda")
    assert (done.returncode, done.stdout) == (INFRASTRUCTURE, "")
    assert done.stderr.startswith("grader: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("command", "timed"), [("grade", True), ("check", True)])
def test_speed_is_left_out_on_request_only(
    run: Grader, monkeypatch: pytest.MonkeyPatch, command: str, timed: bool
) -> None:
    seen: list[bool] = []

    def graded(*_: object, **options: Any) -> None:
        seen.append(options["timed"])
        raise InfrastructureError("enough")

    monkeypatch.setattr(grading, "grade", graded)
    run(command, SUBMISSIONS / "right", *SAXPY)
    run(command, SUBMISSIONS / "right", *SAXPY, "--no-speed")
    assert seen == [timed, not timed]


# author ------------------------------------------------------------------------------------------

SOLUTION = "int a;\n// BEGIN SOLUTION\n// STEP 1\nint secret;\n// END SOLUTION\n"


def test_a_starter_is_written_and_checked(run: Grader, tmp_path: Path) -> None:
    solution, starter = tmp_path / "solution", tmp_path / "starter"
    solution.mkdir()
    (solution / "x.cu").write_text(SOLUTION)
    assert run("author", "strip", solution, starter, "--check").exit_code == FAILED
    result = run("author", "strip", solution, starter)
    assert (result.exit_code, result.output) == (DONE, f"wrote {starter / 'x.cu'}\n")
    assert "secret" not in (starter / "x.cu").read_text()
    assert run("author", "strip", solution, starter, "--check").output == "in step\n"
    (starter / "x.cu").write_text(SOLUTION)
    result = run("author", "strip", solution, starter, "--check")
    assert (result.exit_code, result.stderr) == (FAILED, "x.cu is out of step\n")


def test_a_wrong_solution_is_a_wrong_command(run: Grader, tmp_path: Path) -> None:
    assert run("author", "strip", tmp_path / "no", tmp_path / "starter").exit_code == USAGE
    assert run("author", "handout", "nosuch").exit_code == USAGE


@builds
def test_mutants_are_shown_and_written(run: Grader, tmp_path: Path) -> None:
    out = tmp_path / "mutants.json"
    arguments = ("--count", 1, "--masters", 1, "--json", out)
    result = run("author", "mutants", SUBMISSIONS / "right", *SAXPY, *arguments)
    assert result.exit_code == DONE
    assert result.output.splitlines()[-1].endswith("do not build")
    report = json.loads(out.read_text())
    assert (report["submission"], len(report["tried"])) == ("right", 1)


def test_no_mutants_are_a_wrong_command(run: Grader) -> None:
    result = run("author", "mutants", SUBMISSIONS / "right", *SAXPY, "--count", 0)
    assert (result.exit_code, result.stderr) == (
        USAGE, "grader: the numbers of mutants and of masters must be 1 or more\n",
    )  # fmt: skip


# doctor ------------------------------------------------------------------------------------------


def test_doctor_ends_with_3_when_something_is_missing(
    run: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grader import doctor

    found = [doctor.Diagnosis("Python", True, "3"), doctor.Diagnosis("X", False, "no X", "get X")]
    monkeypatch.setattr(doctor, "examine", lambda: iter(found))
    result = run("doctor")
    assert result.exit_code == INFRASTRUCTURE
    assert result.output == "ok      Python: 3\nMISSING X: no X\n        fix: get X\n"


def test_doctor_ends_with_0_when_only_niceties_are_missing(
    run: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grader import doctor

    monkeypatch.setattr(doctor, "examine", lambda: iter([doctor.Diagnosis("X", None, "no X")]))
    assert run("doctor").exit_code == DONE


# As a real command -------------------------------------------------------------------------------


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "grader", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, **environment},
    )


@builds
def test_the_command_grades(tmp_path: Path) -> None:
    out = tmp_path / "score.json"
    done = command("grade", SUBMISSIONS / "right", *SAXPY, "--json", out)
    assert (done.returncode, done.stderr) == (DONE, "")
    assert "Score: 10 of 10" in done.stdout
    assert json.loads(out.read_text())["status"] == "graded"


def test_the_command_fails_in_one_line() -> None:
    done = command("grade", "nowhere", *SAXPY)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert done.stderr == "grader: no such folder: nowhere\n"


def test_a_missing_compiler_is_not_the_students_fault(tmp_path: Path) -> None:
    out = tmp_path / "score.json"
    out.write_text("the earlier score\n")
    done = command(
        "grade", SUBMISSIONS / "right", *SAXPY, "--json", out,
        PATH=str(tmp_path), CXX="no-such-compiler", KERNEL_GRADER_CACHE=str(tmp_path / "cache"),
    )  # fmt: skip
    assert done.returncode == INFRASTRUCTURE, done.stdout + done.stderr
    assert "not at fault" in done.stdout
    assert "Traceback" not in done.stderr
    assert out.read_text() == "the earlier score\n"
