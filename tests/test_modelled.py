"""The speed test without a GPU: what a worker counts decides the marks, and cannot do harm."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import jsonschema  # type: ignore[import-untyped]
import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from grader import grading, modelled, review
from grader.assignment import Assignment
from grader.counters import ApiCall, Buffer, Counters
from grader.manifest import Slope
from grader.modelled import IMPOSSIBLE, STEPS, ModelledSpeed
from grader.rationales import RATIONALES
from grader.score import Finding, PartResult, Score, Timing, decode, encode, schema
from grader.score import TestResult as Result  # pytest collects what is called Test...
from grader.session import Fault, Session
from grader.sheet import Look, Sheet
from grader.worker import COUNTS_BYTES
from tests import fake_counts
from tests.fake_counts import ANY_COUNTS, CONSTANTS, as_report, launch
from tests.sheet_arrays import SheetArrays
from tests.test_score import made as a_score

# Nothing is for free, but next to nothing: what a call fills decides how long it takes.
MACHINE = msgspec.structs.replace(
    fake_counts.MACHINE, model={**CONSTANTS, "launch": 1e-12, "block": 0.0}
)
PICOSECOND = 1e-12  # for each byte


MASTER = b"a master"
Kernel = Callable[..., None]  # works on a sheet: its arrays by name, and whether all blocks run


class FakeSession:
    """Answers each shape with the next of its reports, and runs a kernel on the sheet."""

    def __init__(self, *answers: str | Fault, kernel: Kernel | None = None) -> None:
        self.answers = [*answers]
        self.kernel = kernel
        self.calls: list[tuple[str, list[Any], int, str]] = []
        self.stops = 0
        self.whole: list[str] = []  # sizes of which every block was run

    def stop(self) -> None:
        self.stops += 1

    def model(
        self,
        launcher: str,
        arguments: Sequence[Any],
        steps: int,
        machine: str,
        sheet: tuple[int, int],
        every_block: bool,
    ) -> str | Fault:
        self.calls.append((launcher, [*arguments], steps, machine))
        if every_block:
            self.whole.append(" x ".join(str(one) for one in arguments if isinstance(one, int)))
        if self.kernel is not None:
            self.kernel(SheetArrays(sheet[0], arguments), every_block)
        return self.answers.pop(0)


@pytest.fixture(scope="module")
def used(tensor: Assignment) -> Assignment:
    """The tensor assignment with marks for modelled speed."""
    marks = {"cpu": {"row_sums": Slope(zero=0.2, full=0.8)}}
    speed = msgspec.structs.replace(tensor.test("speed"), marks=marks)
    return dataclasses.replace(tensor, tests={**tensor.tests, "speed": speed})


@pytest.fixture(scope="module")
def ceilings(used: Assignment) -> list[float]:
    """Of both shapes, in seconds, by hand: 1 us, 2 ps for each byte of `a`, 3 ps of `sums`."""
    return [
        1e-6 + 2e-12 * 4 * 8 * 64 * 32 + 3e-12 * 4 * 8 * 64,
        1e-6 + 2e-12 * 4 * 16 * 16 * 16 + 3e-12 * 4 * 16 * 16,
    ]


def taking(seconds: float, truncated: bool = False) -> str:
    """A report of a call that takes so long: it fills memory."""
    empty = [launch(truncated=True)] if truncated else []
    filled = round((seconds - PICOSECOND * (1 + 1e6 * truncated)) / PICOSECOND)
    return as_report(Counters(empty, [ApiCall("cudaMemset", filled)]))


Run = Callable[..., tuple[Result, Timing | None]]


@pytest.fixture
def findings() -> list[Finding]:
    return []


@pytest.fixture
def told() -> list[str]:
    """The progress."""
    return []


@pytest.fixture
def run(
    used: Assignment, findings: list[Finding], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Runs the test with a launcher whose results are right, and whose accesses nobody doubts."""
    monkeypatch.setattr(Sheet, "look", lambda *_: {"sums": Look(1, 0, None)})
    monkeypatch.setattr(ModelledSpeed, "_touches_all", lambda *_: True)

    def with_answers(*answers: str | Fault) -> tuple[Result, Timing | None]:
        return speed_test(used, FakeSession(*answers), told, findings).run("speed")

    return with_answers


def speed_test(
    used: Assignment, session: FakeSession, told: list[str], findings: list[Finding]
) -> ModelledSpeed:
    return ModelledSpeed(
        used, used.part("row_sums"), cast(Session, session), MACHINE, MASTER, told.append, findings
    )


@pytest.fixture
def at(run: Run, ceilings: list[float]) -> Run:
    """Runs the test with a launcher that reaches these fractions of the ceiling."""

    def reaching(*fractions: float) -> tuple[Result, Timing | None]:
        return run(*(taking(top / each) for top, each in zip(ceilings, fractions, strict=True)))

    return reaching


def as_score(result: Result, record: Timing | None) -> Score:
    """A score with this result; raises if it is not a valid one."""
    part = PartResult("row_sums", "Row sums", result.score, result.max_score, [result], record)
    score = a_score(
        parts=[part],
        score=result.score,
        max_score=result.max_score,
        needs_review=review.needs_review([part]),
    )
    written = encode(score)
    assert decode(written) == score
    jsonschema.Draft202012Validator(schema()).validate(json.loads(written))
    return score


# Advice ------------------------------------------------------------------------------------------


def test_who_lacks_marks_is_told_what_would_earn_them(
    run: Run, findings: list[Finding], ceilings: list[float]
) -> None:
    """At the shape that is furthest from the ceiling."""
    slow = as_report(Counters([launch({"dram_read_sectors": 1e6}, grid=(2, 1, 1))], []))
    run(taking(ceilings[0] / 0.5), slow)
    assert findings, "two blocks on ten multiprocessors are too few"
    assert all((one.severity, one.part) == ("advice", "row_sums") for one in findings)
    told = findings[0]
    assert (told.kind, told.file, told.line) == ("few_blocks", "scale.cu", 40)
    assert told.message.startswith("scale has 2 blocks for 10 multiprocessors")
    assert told.message.endswith("(at 16 x 16 x 16)")
    assert len(findings) <= modelled.ADVICE


def test_who_has_all_marks_needs_no_advice(
    run: Run, findings: list[Finding], monkeypatch: pytest.MonkeyPatch, ceilings: list[float]
) -> None:
    def asked(*_: Any) -> Any:
        raise AssertionError("nobody wants to know")

    monkeypatch.setattr("grader.advice.advise", asked)
    run(*(taking(top / 0.81) for top in ceilings))
    assert not findings


# Marks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fractions", "mean", "earned"),
    [
        ((0.6, 0.6), 0.6, 0.3),
        ((0.36, 1.0), 0.6, 0.3),
        ((0.8, 0.8), 0.8, 0.5),
        ((0.9, 1.1), math.sqrt(0.9), 0.5),
        ((0.2, 0.2), 0.2, 0.0),
        ((0.01, 0.02), math.sqrt(0.0002), 0.0),
    ],
)
def test_the_geometric_mean_of_the_shapes_decides(
    at: Run, fractions: Sequence[float], mean: float, earned: float
) -> None:
    result, record = at(*fractions)
    assert record is not None
    assert record.fraction == pytest.approx(mean, abs=1e-4)
    assert (result.score, result.max_score, result.passed) == (earned, 0.5, earned > 0)
    assert result.message == (
        f"{mean:.2f} of the memory ceiling, modelled for an X100; marks from 0.2, all of "
        "them from 0.8"
    )
    as_score(result, record)


def test_a_timing_is_marked_as_modelled(at: Run, ceilings: list[float], used: Assignment) -> None:
    _, record = at(0.5, 0.125)
    assert record is not None
    assert (record.test, record.source, record.verdict) == ("speed", "modelled", "scored")
    assert (record.fraction, record.low, record.high) == (0.25, 0.25, 0.25)
    assert (record.zero, record.full, record.kernels) == (0.2, 0.8, [])
    assert [case.dims for case in record.cases] == [*used.test("speed").shapes]
    for case, ceiling, fraction in zip(record.cases, ceilings, (0.5, 0.125), strict=True):
        assert case.fraction == case.low == case.high == pytest.approx(fraction, abs=1e-4)
        assert case.ceiling_us == pytest.approx(1e6 * ceiling, abs=1e-3)
        assert case.time_us == pytest.approx(1e6 * ceiling / fraction, abs=2e-3)
        assert (case.samples, case.overhead_us) == (0, 0.0), "nothing was timed"


def test_a_launch_that_was_cut_short_takes_at_least_so_long(run: Run) -> None:
    result, record = run(taking(2e-6), taking(4e-6, truncated=True))
    assert record is not None
    assert result.message.startswith(f"at most {record.fraction:.2f} of the memory ceiling")


@pytest.mark.usefixtures("run")
def test_each_shape_is_one_call_of_the_launcher(used: Assignment, told: list[str]) -> None:
    session = FakeSession(taking(1e-5), taking(1e-5))
    speed_test(used, session, told, []).run("speed")
    launcher, arguments, steps, machine = session.calls[0]
    assert (launcher, steps, machine) == ("launch_row_sums", STEPS, MACHINE.settings())
    sums, a = arguments[:2]
    assert (sums.name, sums.size, sums.output) == ("sums", 4 * 8 * 64, True)
    assert (a.name, a.size, a.output) == ("a", 4 * 8 * 64 * 32, False)
    assert arguments[2:] == [8, 64, 32]
    assert [one.size for one in session.calls[1][1][:2]] == [4 * 16 * 16, 4 * 16**3]
    assert told == ["Row sums, speed: 8 x 64 x 32", "Row sums, speed: 16 x 16 x 16"]


# Too fast ----------------------------------------------------------------------------------------


def test_work_that_is_left_out_is_not_paid_for(at: Run) -> None:
    result, record = at(0.5, 2 * IMPOSSIBLE)
    assert record is not None
    assert (result.passed, result.score, record.verdict) == (None, 0.0, "withheld")
    assert "2.40 of the memory ceiling at 16 x 16 x 16 is impossible" in result.message
    assert "8 x 64 x 32" not in result.message
    assert as_score(result, record).needs_review


def test_a_little_more_than_all_is_an_error_of_the_model(at: Run) -> None:
    result, record = at(0.99 * IMPOSSIBLE, 0.99 * IMPOSSIBLE)
    assert record is not None
    assert (result.passed, result.score, record.fraction) == (True, 0.5, 1.0)
    assert not as_score(result, record).needs_review


def test_a_person_may_give_the_marks_all_the_same(at: Run) -> None:
    score = as_score(*at(0.36, 2.0))
    accepted = review.decide(score, None, "accepted", "it works in place")
    assert (accepted.score, accepted.needs_review) == (0.3, False)


# Wrong -------------------------------------------------------------------------------------------


def right(arrays: SheetArrays, every_block: bool) -> None:
    arrays.write("sums", arrays.read("a").sum(axis=2))


def right_as_a_whole(arrays: SheetArrays, every_block: bool) -> None:
    """Like sums that only all blocks together can make."""
    arrays.write("sums", arrays.read("a").sum(axis=2) if every_block else np.float32(7))


def never_right(arrays: SheetArrays, every_block: bool) -> None:
    arrays.write("sums", np.float32(7))


def one_row_only(arrays: SheetArrays, every_block: bool) -> None:
    sums = arrays.read("a").sum(axis=2)
    arrays.write("sums", np.where(np.arange(sums.shape[1]) == 3, sums, 0))


def touching(used: Assignment, *shares: float, requests: float = 0.0) -> list[str]:
    """Reports of calls, one a shape and as often as needed, that read such a share of `a`."""
    reports = []
    for dims, share in zip(used.test("speed").shapes, shares, strict=True):
        size = 4 * dims["batch"] * dims["rows"] * dims["cols"]
        sums = Buffer("sums", size // dims["cols"], 0.0, size / dims["cols"] / 32, 0.0)
        buffers = [Buffer("a", size, share * size / 32, 0.0, 0.0), sums]
        counts = {"dram_read_sectors": 5e4, "global_load_requests": requests}  # 1.6 us
        made = launch(counts, buffers=buffers)
        reports.append(as_report(Counters([made], [])))
    return reports


def graded(
    used: Assignment, kernel: Kernel, *reports: str
) -> tuple[Result, Timing | None, FakeSession]:
    session = FakeSession(*reports, kernel=kernel)
    result, record = speed_test(used, session, [], []).run("speed")
    assert not session.answers, "every report was asked for"
    return result, record, session


def test_right_blocks_are_enough(used: Assignment) -> None:
    result, _, session = graded(used, right, *touching(used, 1.0, 1.0))
    assert result.passed and not session.whole
    result, _, session = graded(used, one_row_only, *touching(used, 1.0, 1.0))
    assert result.passed and not session.whole


def test_shapes_are_run_as_a_whole_when_blocks_alone_tell_nothing(used: Assignment) -> None:
    first, second = touching(used, 1.0, 1.0)
    session = FakeSession(first, second, *[first] * 2, kernel=right_as_a_whole)
    result, record = speed_test(used, session, [], []).run("speed")
    assert result.passed and record is not None
    assert sorted(session.whole) == ["16 x 16 x 16", "8 x 64 x 32"]
    assert session.stops == 2, "a sample may leave counters in device memory half done"


def test_the_master_chooses_when_not_all_can_be_afforded(used: Assignment) -> None:
    first, second = touching(used, 1.0, 1.0, requests=0.6 * modelled.AFFORDABLE / 32)
    chosen = set()
    for number in range(20):
        session = FakeSession(first, second, first, kernel=right_as_a_whole)
        made = dataclasses.replace(speed_test(used, session, [], []), master=b"%d" % number)
        made.run("speed")
        assert len(session.whole) == 1
        chosen |= set(session.whole)
    assert chosen == {"8 x 64 x 32", "16 x 16 x 16"}


def test_what_is_too_slow_as_a_whole_is_looked_at_by_a_person(used: Assignment) -> None:
    slow = Fault("timeout", "it did not come back")
    session = FakeSession(*touching(used, 1.0, 1.0), slow, slow, kernel=right_as_a_whole)
    result, record = speed_test(used, session, [], []).run("speed")
    assert record is not None
    assert (result.passed, record.verdict) == (None, "withheld")
    assert "it could not be run as a whole at 8 x 64 x 32" in result.message


def test_wrong_results_at_a_large_size_earn_nothing(used: Assignment) -> None:
    first, second = touching(used, 1.0, 1.0)
    result, record, _ = graded(used, never_right, first, second, first)
    assert (result.passed, result.score, record) == (False, 0.0, None)
    assert "`sums`[0, 0] is 7, expected" in result.message
    assert "512 of 512" in result.message or "256 of 256" in result.message


def test_where_work_is_left_out_the_whole_is_looked_at(used: Assignment) -> None:
    first, second = touching(used, 1.0, 0.5)
    result, _, session = graded(used, one_row_only, first, second, second)
    assert session.whole == ["16 x 16 x 16"]
    assert result.passed is False
    assert "is 0, expected" in result.message


def test_a_sample_that_is_cheaper_than_the_whole_is_looked_at_by_a_person(
    used: Assignment,
) -> None:
    first, half = touching(used, 1.0, 0.5)
    _, all_of_it = touching(used, 1.0, 1.0)
    slow = as_report(Counters([launch({"dram_read_sectors": 1e7})], []))
    result, record, _ = graded(used, right, first, half, slow)
    assert record is not None
    assert (result.passed, result.score, record.verdict) == (None, 0.0, "withheld")
    assert "when it is run as a whole it takes longer at 16 x 16 x 16" in result.message
    result, record, _ = graded(used, right, first, half, all_of_it)
    assert result.passed and record is not None and record.verdict == "scored"


def test_who_earns_nothing_is_not_run_as_a_whole(used: Assignment) -> None:
    endless = as_report(Counters([launch({"dram_read_sectors": 1e9})], []))
    result, _, session = graded(used, never_right, endless, endless)
    assert result.score == 0 and not session.whole


def test_a_call_that_was_cut_short_touches_what_it_can(used: Assignment) -> None:
    buffers = [Buffer("a", 4 * 16**3, 1.0, 0.0, 0.0)]
    cut = as_report(Counters([launch(truncated=True, buffers=buffers)], []))
    _, _, session = graded(used, right, cut, cut)
    assert not session.whole


# Faults ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("report", ["nonsense", "\n", "\n{}", "\n" + "[" * 100_000])
def test_a_report_that_makes_no_sense_is_the_submissions_fault(
    run: Run, findings: list[Finding], report: str
) -> None:
    result, record = run(report)
    assert (result.passed, result.score, record) == (False, 0.0, None)
    assert "the submission tampered with it" in result.message
    assert [(one.severity, one.kind, one.part) for one in findings] == [
        ("error", "garbage", "row_sums")
    ]
    as_score(result, record)


def test_a_launcher_that_does_nothing_earns_nothing(run: Run, findings: list[Finding]) -> None:
    result, record = run("")
    assert (result.passed, result.score, record) == (False, 0.0, None)
    assert result.message.startswith("it does nothing at this size")
    assert [one.kind for one in findings] == ["nothing"]


def test_too_many_launches_are_no_tampering(run: Run, findings: list[Finding]) -> None:
    cut = as_report(Counters([launch()] * 9)).ljust(COUNTS_BYTES, "0")
    result, _ = run(cut)
    assert (result.passed, result.score) == (False, 0.0)
    assert result.message.startswith("one call starts more kernels than the emulator")
    assert [one.kind for one in findings] == ["too_many"]


def test_a_fault_ends_the_test_and_names_the_shape(
    run: Run, findings: list[Finding], told: list[str]
) -> None:
    result, record = run(taking(1e-5), Fault("launch", "it is too large"))
    assert (result.passed, result.score, record) == (False, 0.0, None)
    assert result.message == "it is too large [batch=16 rows=16 cols=16]"
    assert findings == [
        Finding(
            "error", "launch", "row_sums", None, None, "it is too large", RATIONALES["launch"], 1
        )
    ]
    as_score(result, record)


def test_after_a_fault_no_other_shape_is_tried(run: Run, told: list[str]) -> None:
    run(Fault("timeout", "it did not come back"))
    assert told == ["Row sums, speed: 8 x 64 x 32"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANY_COUNTS, ANY_COUNTS)
def test_whatever_is_counted_there_is_a_valid_score(
    run: Run, one: Counters, other: Counters
) -> None:
    result, record = run(as_report(one), as_report(other))
    assert record is not None, "these are counts"
    assert 0 <= record.fraction <= 1
    as_score(result, record)


def test_no_count_is_so_large_that_it_counts_as_nothing(run: Run) -> None:
    """Infinity / infinity would be no number, and no number is smaller than all of the ceiling."""
    buffers = [Buffer("a", 10**18, 1e-300, 0.0, 0.0)]
    endless = launch({"shuffles": 1e18, "l1_waves": 1e18}, truncated=True, buffers=buffers)
    result, record = run(*[as_report(Counters([endless]))] * 2)
    assert record is not None
    assert (result.passed, result.score, record.fraction) == (False, 0.0, 0.0)


def test_no_array_is_forgotten_in_the_ceiling(used: Assignment, ceilings: list[float]) -> None:
    part, shapes = used.part("row_sums"), used.test("speed").shapes
    for dims, ceiling in zip(shapes, ceilings, strict=True):
        priced = modelled.price(Counters([]), used, part, dims, MACHINE)
        assert priced.ceiling == pytest.approx(ceiling)


# In a score --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tensor_native")
def test_a_part_with_marks_for_the_cpu_is_modelled(used: Assignment, submissions: Path) -> None:
    folder = submissions / "tensor" / "right"
    one, other = (grading.grade(folder, assignment=used, backend="cpu") for _ in range(2))
    sums, bias = one.parts
    assert bias.timing is None, "no test of time"
    assert sums.timing is not None
    assert (sums.timing.source, sums.timing.verdict) == ("modelled", "scored")
    assert 0 < sums.timing.fraction < 1
    assert [case.dims for case in sums.timing.cases] == [*used.test("speed").shapes]
    assert sums.tests[1].passed is (sums.tests[1].score > 0)
    assert one.parts == other.parts, "it is the same every time"
    jsonschema.Draft202012Validator(schema()).validate(json.loads(encode(one)))
