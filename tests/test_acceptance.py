"""The acceptance on a GPU, as far as no GPU is needed: what it concludes from what it measured."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import grader
from grader import gpu, toolkit
from grader.errors import InfrastructureError
from grader.expectations import Expectation, failed
from grader.toolkit import Toolkit
from tests.gpu import accept, audit, pages, timings, verdicts
from tests.gpu.audit import Kernels, Record

ROOT = Path(__file__).resolve().parent.parent

Row = dict[str, Any]


def expectation(**given: Any) -> Expectation:
    return Expectation(Path("hostile/made"), "made up", "graded", ("forward",), **given)


def graded(*names: str) -> Row:
    return {"status": "graded", "failed": list(names)}


def timed(passed: bool | None, fraction: float | None = None, verdict: str = "scored") -> Row:
    row: Row = {"passed": passed, "fraction": fraction, "score": 0.0, "max_score": 7.0}
    return row if fraction is None else {**row, "verdict": verdict}


# Verdicts ----------------------------------------------------------------------------------------


def test_a_row_without_problems_needs_both_verdicts_as_expected() -> None:
    expect = expectation(cpu_fails=(), cuda_fails=("forward.general",), difference="large")
    row = verdicts.judge(expect, graded(), graded("forward.general"), {}, None)
    assert row["problems"] == []
    assert (row["cpu"], row["cuda"]) == ("nothing", "forward.general")


@pytest.mark.parametrize(
    ("cpu", "cuda", "says"),
    [
        (graded("forward.base"), graded("forward.general"), "cpu: failed forward.base"),
        (graded(), graded(), "cuda: failed nothing instead of forward.general"),
        (None, graded("forward.general"), "cpu: not graded"),
        (graded(), {"error": "it crashed"}, "cuda: it crashed"),
        ({"status": "rejected"}, graded("forward.general"), "cpu: rejected instead of graded"),
    ],
)
def test_another_verdict_is_a_problem(cpu: Row | None, cuda: Row | None, says: str) -> None:
    expect = expectation(cuda_fails=("forward.general",), difference="large")
    (problem,) = verdicts.judge(expect, cpu, cuda, {}, None)["problems"]
    assert says in problem


FAILS = expectation(cuda_fails=("forward.speed",))
EITHER = expectation(cuda_fails=("forward.speed",), withheld=("forward.speed",))
GAINS = expectation(gains_nothing=True, twin="classic/honest")
TWIN = timed(True, 0.60)


@pytest.mark.parametrize(
    ("expect", "measured", "says"),
    [
        (FAILS, timed(False), ""),
        (FAILS, timed(True, 0.9), "scored at 0.900"),
        (FAILS, timed(None, 0.9, "withheld"), "withheld"),
        (FAILS, None, "not timed"),
        (FAILS, {"error": "no GPU"}, "no GPU"),
        (EITHER, timed(False), ""),
        (EITHER, timed(None, 2.0, "withheld"), ""),
        (EITHER, timed(True, 0.9), "scored"),
        (GAINS, timed(True, 0.62), ""),
        (GAINS, timed(True, 0.70), "0.700, its honest twin 0.600"),
        (GAINS, timed(False), ""),
        (GAINS, timed(None, 2.0, "withheld"), ""),
    ],
)
def test_a_cheat_must_not_earn_anything(expect: Expectation, measured: Row, says: str) -> None:
    problem = verdicts.cheated(expect, "forward", measured, TWIN)
    assert (says in problem) if says else problem == ""


def test_a_twin_that_was_not_timed_proves_nothing() -> None:
    assert "twin" in verdicts.cheated(GAINS, "forward", timed(True, 0.1), None)


def test_everything_is_the_solution_the_starter_and_all_test_submissions() -> None:
    names = [expect.name for expect in verdicts.everything()]
    assert names[:2] == ["solution/layernorm", "starter/layernorm"]
    assert len(names) == len(set(names)) > 100
    assert all((expect.folder / "layernorm.cu").is_file() for expect in verdicts.everything())


def test_only_parts_with_something_to_see_are_graded() -> None:
    one = expectation(cpu_fails=("dinp.base",), cuda_fails=("dinp.base",))
    assert verdicts.parts_of(one) == ("forward",)  # it says itself which
    whole = Expectation(Path("wrong/x"), "", "graded", (), ("dinp.base",), ("dinp.base",))
    assert verdicts.parts_of(whole) == ("dinp",)
    assert verdicts.parts_of(Expectation(Path("odd/x"), "", "graded")) == ()


def test_large_shapes_are_left_out_of_an_assignment() -> None:
    layernorm = grader.assignment("layernorm")
    assert any(test.large for test in layernorm.tests.values())
    trimmed = verdicts.without_large_shapes(layernorm)
    assert not any(test.large for test in trimmed.tests.values())
    assert [*trimmed.tests] == [*layernorm.tests]


def test_a_verdict_is_that_of_the_grader() -> None:
    folder = verdicts.ROOT / "starter" / "layernorm"
    row = verdicts.verdict(str(folder), "cpu", ["dinp"], False)
    assert (row["status"], row["failed"], row["score"]) == ("graded", ["dinp.base"], 0.0)
    assert "never written" in row["message"]


# Times -------------------------------------------------------------------------------------------


def test_the_spread_is_that_of_the_marks_of_complete_runs() -> None:
    def run(forward: float, dinp: float | None) -> dict[str, Row]:
        return {
            "forward": {"score": forward, "fraction": forward / 10},
            "dinp": {"score": dinp or 0.0, "fraction": dinp and dinp / 10},
        }

    found = timings.spread([run(7.0, 9.0), run(6.8, 9.5), run(7.0, None)])
    assert (found["repeats"], found["complete"]) == (3, 2)
    assert found["totals"] == [16.0, 16.3] and found["spread_of_total"] == 0.3
    assert found["parts"]["forward"]["spread_of_marks"] == 0.2
    assert found["parts"]["dinp"]["marks"] == [9.0, 9.5]


def test_classics_are_complete_submissions() -> None:
    for name, _ in timings.CLASSICS.values():
        text = "".join(file.read_text() for file in timings.folder_of(name).glob("*.cu"))
        for part in grader.assignment("layernorm").parts:
            assert part.launcher in text, name


@pytest.mark.skipif(not gpu.why_no_gpu(), reason="a GPU is here")
def test_timing_without_a_gpu_says_so() -> None:
    with pytest.raises(InfrastructureError):
        timings.time_part("solution", "forward")


# The audit ---------------------------------------------------------------------------------------


def record(used: float, shortcut: str = "", flags: str = "", name: str = "k") -> Record:
    return Record(
        name, flags, shortcut, "dinp", "base", "normal", "large", "inp_grad", used, cases=3
    )


@pytest.mark.parametrize(
    ("right", "weakest", "says"),
    [
        (0.4, 1.5, "keep"),
        (0.7, 1.5, "would let a short-cut pass"),
        (0.7, 2.5, "raise"),
        (1.3, 2.5, "raise"),
        (1.3, 1.5, "no K(N) serves"),
    ],
)
def test_what_the_audit_concludes(right: float, weakest: float, says: str) -> None:
    records = [record(right), record(9.0, flags="--use_fast_math"), record(weakest, "xhat in half")]
    found = audit.conclude(records)
    assert says in found["so"]
    assert found["right kernels use at most"] == right
    assert found["the weakest short-cut shows at"] == weakest


def test_a_short_cut_is_as_strong_as_its_worst_output() -> None:
    records = [record(0.0, "xhat in half"), record(80.0, "xhat in half")]
    assert audit.conclude(records)["short-cuts"] == {"xhat in half, dinp": 80.0}


def test_a_table_shows_the_worst_of_each_row_first() -> None:
    records = [record(0.1, name="a"), record(0.3, name="b"), record(0.2, name="b")]
    assert audit.table(records, ["kernels"]) == [("b", "0.300", "b"), ("a", "0.100", "a")]
    assert audit.table(records, ["part"]) == [("dinp", "0.300", "b")]


def test_the_worst_of_every_kind_and_of_every_kernel_is_kept() -> None:
    records = [record(0.1, name="a"), record(0.3, name="b"), record(0.2, name="b")]
    assert audit.condensed(records) == [record(0.3, name="b"), record(0.1, name="a")]
    assert audit.table(audit.condensed(records), ["kernels"]) == audit.table(records, ["kernels"])


def test_the_page_of_the_audit_is_made_from_its_json(tmp_path: Path) -> None:
    records = [record(0.25), record(math.inf, "xhat in half")]
    report = {
        "device": "a card",
        "date": "today",
        "compared": 6,
        "conclusion": audit.conclude(records),
        "records": [vars(one) for one in records],
    }
    audit.write(report, tmp_path)
    read = json.loads((tmp_path / "audit.json").read_text())
    assert (tmp_path / "audit.md").read_text() == audit.markdown(read)
    assert "at most **0.250**" in audit.markdown(read)


def test_short_cuts_are_wrong_and_the_same_kernels_without_one_are_right(tmp_path: Path) -> None:
    made = {kernels.name.split("/")[1]: kernels for kernels in audit.shortcuts(tmp_path)}
    assert len(made) == 1 + len(audit.PLACES) * len(audit.FORMATS)
    assert not made["none"].shortcut and made["xhat_half"].shortcut == "xhat rounded to half"
    for name, wrong in (("none", []), ("product_tf32", ["dinp.base"])):
        score = grader.grade(
            made[name].folder, assignment="layernorm", backend="cpu", parts=["dinp"], timed=False
        )
        assert failed(score) == wrong, score.message


def test_the_audit_measures_the_share_of_the_bound() -> None:
    solution = Kernels("solution", str(timings.folder_of("solution")), fails=("dinp.base",))
    records = audit.audit([solution], "cpu", [b"public"], with_large=False, quick=True)
    assert {one.part for one in records} == {"forward", "dgamma_dbeta", "dinp"}
    assert all(0 <= one.used < audit.HALF and one.cases > 0 for one in records)
    assert ("dinp", "base") not in {(one.part, one.test) for one in records}


def test_fast_maths_is_a_flag_of_nvcc_in_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Toolkit(Path("/usr/bin/nvcc"), Path("/usr"), Path("/usr"), Path("/usr"), (13, 0))
    monkeypatch.setattr(toolkit, "find", lambda: kit)
    with audit.nvcc_with("--use_fast_math"):
        inside = toolkit.find()
        assert inside.nvcc.parent in inside.folders
        assert '"/usr/bin/nvcc" --use_fast_math "$@"' in inside.nvcc.read_text()
    assert toolkit.find() == kit


# The command -------------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path) -> accept.Job:
    return accept.Job("cpu", tmp_path, True, 1, 2, accept.load(tmp_path))


def test_a_step_that_crashes_takes_nothing_with_it(
    job: accept.Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(_: accept.Job) -> None:
        raise RuntimeError("out of luck")

    def work(job: accept.Job) -> None:
        job.results["accept"]["bench"] = {"note": "worked"}

    job.results["accept"]["audit"] = {"so": "kept"}
    steps: dict[str, Callable[[accept.Job], None]] = {"crash": crash, "work": work}
    monkeypatch.setattr(accept, "STEPS", steps)
    assert not accept.perform(job, ["crash", "work"])
    again = accept.load(job.out)
    assert again["accept"]["bench"] == {"note": "worked"}
    assert again["accept"]["audit"] == {"so": "kept"}
    assert "out of luck" in again["accept"]["steps"]["crash"]["error"]
    assert "out of luck" in capsys.readouterr().out


def test_all_results_make_a_page() -> None:
    measured = {part: {**timed(True, 0.5), "seconds": 1.0} for part in accept.PARTS}
    shapes = [{"shape": "8192 x 1024", "fraction": 0.5}]
    results: dict[str, Row] = {
        "accept": {
            "machine": {"device": "a card", "host": "h", "commit": "c", "card": "", "doctor": ""},
            "sanitizer": {"memcheck": {"code": 0, "says": ["ERROR SUMMARY: 0 errors"]}},
            "steps": {"graded": {"seconds": 1.0, "date": "today", "error": ""}},
        },
        "grading": {"verdicts": {"hostile/side_stream": {"cpu": graded(), "cuda": graded()}}},
        "speed": {
            "hostile": {"hostile/side_stream": {"forward": timed(True, 0.9)}},
            "repeats": timings.spread([measured, measured]),
            "classics": {
                "a | b": {part: {**row, "shapes": shapes} for part, row in measured.items()}
            },
        },
    }
    text = pages.page(results)
    assert "0 of 1 submissions are graded as expected" in text
    assert "its twin was not timed" in text
    assert "goal 2: met" in text and "| a / b | 0.500 (0 of 7) |" in text
    assert "ERROR SUMMARY: 0 errors" in text
    assert "hostile/side_stream: forward.speed: its twin was not timed" in pages.summary(results)


def test_no_results_make_a_page_too() -> None:
    assert pages.page({"accept": {}, "grading": {}, "speed": {}}).startswith("# Acceptance")


def test_the_handout_has_the_table_that_was_measured() -> None:
    results = {"speed": json.loads((ROOT / "tests" / "gpu" / "speed.json").read_text())}
    table = pages.handout(results, grader.assignment("layernorm"))
    assert table.count("\n") >= 7
    assert table in (ROOT / "assignment" / "layernorm" / "README.md").read_text()
