"""The fit of the model's constants: it finds what is there, and reports it as it is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from grader import machine, model
from grader.counters import ApiCall, Counters
from grader.machine import Machine
from grader.manifest import Slope
from tests.calibration import fit, fit_report, kernels
from tests.calibration.fit import START
from tests.calibration.fit_data import Array, Data, join, moved
from tests.fake_counts import LIMITS, copying, launch

COUNTED = fit.HERE / "counted.json"
SHAPES = [(1024, 256), (4096, 1024), (512, 4096), (8192, 64)]
NAMES = ["one", "two", "three", "four", "five"]


def constants(logs: Array) -> dict[str, float]:
    return dict(zip(START, map(float, np.exp(logs)), strict=True))


STARTING: Array = np.log([value for value, _ in START.values()])


# Made-up counts and times ------------------------------------------------------------------------


def call(seed: int) -> Counters:
    """Counts of all kinds, each of them what the launch is limited by in some of the calls."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(1 + seed % 3):
        names = {
            "dram_read_sectors": 3e6, "dram_write_sectors": 1e6, "dirty_sectors_left": 1e5,
            "l2_write_sectors": 1e7, "l2_atomic_sectors": 1e7, "l1_waves": 3e7,
            "shared_load_waves": 3e7, "shared_store_waves": 1e7, "shared_atomic_waves": 1e6,
            "warp_instructions": 1e8, "global_atomic_turns": 1e7,
            "global_atomics_on_one_address": 1e4, "global_load_requests": 3e6,
            "shared_load_requests": 1e7, "shuffles": 1e7, "warp_barriers": 1e7,
            "l1_hit_sectors": 1e6, "busiest_warp_load_rounds": 30.0,
        }  # fmt: skip
        counts = {name: most * 10 ** rng.uniform(-3, 0) for name, most in names.items()}
        counts["l2_read_sectors"] = counts["dram_read_sectors"] * rng.uniform(1, 2)
        grid = (int(10 ** rng.uniform(0, 4)), 1, 1)
        made.append(launch(counts, grid=grid, blocks_per_sm=int(rng.integers(1, 9))))
    return Counters(made, [ApiCall("cudaMemset", 1 << 20)] * (seed % 2))


def row(name: str, part: str, microseconds: list[float]) -> dict[str, Any]:
    """A row of times.json."""
    shapes = [
        {"rows": rows, "hidden_dim": hidden_dim, "time_us": time, "ceiling_us": 10.0}
        for (rows, hidden_dim), time in zip(SHAPES, microseconds, strict=False)
    ]
    return {"submission": name, "part": part, "shapes": shapes}


def word(shape: tuple[int, int]) -> str:
    return f"{shape[0]}x{shape[1]}"


def on(logs: Array) -> Machine:
    """The machine with these constants. The model of a call needs none of the ceiling's."""
    return Machine("X100", LIMITS, {"clock": fit.CLOCK, **constants(logs)})


def calls() -> dict[str, Counters]:
    keys = [
        f"{name} {part} {word(shape)}" for name in NAMES for part in kernels.ALL for shape in SHAPES
    ]
    return {key: call(seed) for seed, key in enumerate(keys)}


def measured_on(logs: Array) -> Data:
    """What a card with these constants would have been measured to do, if the model were right."""
    found = calls()
    times = [
        row(
            name,
            part,
            [1e6 * model.seconds(found[f"{name} {part} {word(s)}"], on(logs)) for s in SHAPES],
        )
        for name in NAMES
        for part in kernels.ALL
    ]
    return join({key: msgspec.to_builtins(one) for key, one in found.items()}, times, LIMITS)


# Data --------------------------------------------------------------------------------------------


def test_only_what_was_counted_and_timed_is_joined() -> None:
    counted = {"one forward 1024x256": msgspec.to_builtins(Counters([copying(), copying()]))}
    counted["one forward 4096x1024"] = msgspec.to_builtins(Counters([], [ApiCall("x", 64)] * 3))
    counted["two forward 1024x256"] = msgspec.to_builtins(Counters([copying()]))
    untimed = row("two", "forward", [1.0])
    del untimed["shapes"][0]["time_us"]
    data = join(counted, [row("one", "forward", [5.0, 7.0, 9.0]), untimed], LIMITS)
    assert data.keys == [("one", "forward", "1024x256"), ("one", "forward", "4096x1024")]
    assert data.measured.tolist() == pytest.approx([5e-6, 7e-6])
    assert data.ceilings.tolist() == pytest.approx([1e-5, 1e-5])
    assert data.owner.tolist() == [0, 0], "two launches of the first"
    assert data.further.tolist() == [1, 2]
    assert data.filled.tolist() == [0, 192]
    assert data.submissions() == ["one"]


def test_rows_are_chosen_by_submission_part_and_shape() -> None:
    data = measured_on(STARTING)
    assert len(data.keys) == len(NAMES) * 3 * len(SHAPES)
    for wanted, rows in (
        ({"submission": "two"}, 12),
        ({"part": "dinp"}, 20),
        ({"submission": "two", "part": "dinp", "shape": "512x4096"}, 1),
        ({"submission": "nobody"}, 0),
    ):
        chosen = data.where(**wanted)
        assert chosen.sum() == rows
        for key in (data.keys[number] for number in np.flatnonzero(chosen)):
            assert set(wanted.values()) <= set(key)


def test_bytes_that_a_part_moves_at_least() -> None:
    used = kernels.assignment()
    # y, var and mean from x, gamma and beta; dgamma and dbeta from dy, x, var and mean
    assert moved(used, "forward", "8x4") == [4 * (32 + 4 + 4), 4 * (32 + 8 + 8)]
    assert moved(used, "dgamma_dbeta", "8x4") == [4 * (32 + 32 + 8 + 8), 4 * (4 + 4)]


# Fitting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_all_rows_at_once_cost_what_the_model_says_of_each(seed: int) -> None:
    logs = STARTING + np.random.default_rng(seed).normal(0, 0.3, len(STARTING))
    data = measured_on(STARTING)
    expected = [model.seconds(one, on(logs)) for one in calls().values()]
    assert fit.times(data, logs).tolist() == pytest.approx(expected, rel=1e-9)


def test_calls_without_a_kernel_cost_their_starting() -> None:
    counted: dict[str, Any] = {
        "one forward 1024x256": {"launches": []},
        "one forward 4096x1024": {"launches": []},
        "two forward 1024x256": msgspec.to_builtins(call(1)),
    }
    data = join(counted, [row(n, "forward", [5.0, 5.0]) for n in ("one", "two")], LIMITS)
    expected = [START["launch"][0]] * 2 + [model.seconds(call(1), on(STARTING))]
    assert fit.times(data, STARTING).tolist() == pytest.approx(expected)


def test_the_fit_finds_the_constants_that_the_times_were_made_with() -> None:
    changes = {"dram": 1.5, "request": 0.6, "wave": 1.4, "instruction": 1.5}
    logs = STARTING + np.log([changes.get(name, 1.0) for name in START])
    data = measured_on(logs)
    everything = np.ones(len(data.keys), bool)
    before = np.abs(np.log(fit.times(data, STARTING) / data.measured))
    found = fit.fit(data, everything)
    after = np.abs(np.log(fit.times(data, found) / data.measured))
    assert before.max() > 0.3
    assert after.max() < 0.06
    for name, value in constants(found).items():
        assert value == pytest.approx(constants(logs)[name], rel=0.25), name


def test_the_fit_sees_only_the_rows_that_it_is_given() -> None:
    data = measured_on(STARTING)
    own = data.where(submission="two", part="dinp")
    data.measured[own] *= 100
    assert fit.fit(data, ~own).tolist() == pytest.approx(STARTING.tolist(), abs=1e-6)
    assert not np.allclose(fit.fit(data, np.ones(len(own), bool)), STARTING, atol=0.01)


def test_each_kernel_is_predicted_by_a_fit_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = measured_on(STARTING)
    left_out: list[set[tuple[str, str]]] = []

    def fitted(_: Data, rows: Array, start: Array) -> Array:
        left_out.append({data.keys[number][:2] for number in np.flatnonzero(~rows.astype(bool))})
        own = [data.keys[number][:2] in left_out[-1] for number in range(len(rows))]
        assert rows.tolist() == [not one for one in own], "all its shapes, and nothing else"
        slower = start.copy()
        slower[list(START).index("dram")] += len(left_out)
        return slower

    monkeypatch.setattr(fit, "fit", fitted)
    predicted = fit.leave_one_out(data, STARTING)
    assert left_out == [{key} for key in dict.fromkeys(key[:2] for key in data.keys)]
    for number, (kernel,) in enumerate(left_out, start=1):
        own = data.where(submission=kernel[0], part=kernel[1])
        logs = STARTING.copy()
        logs[list(START).index("dram")] += number
        assert predicted[own].tolist() == fit.times(data, logs)[own].tolist()


def test_the_ceiling_is_linear_in_what_is_read_and_written() -> None:
    keys = [
        ("solution", part, f"{rows}x{hidden_dim}")
        for part in kernels.ALL
        for rows, hidden_dim in [*SHAPES, (65536, 512)]
    ]
    used = kernels.assignment()
    moves = np.array([moved(used, *key[1:]) for key in keys])
    ceilings = 3e-6 + moves @ np.array([2e-13, 3e-13])
    nothing = np.zeros(len(keys))
    data = Data(
        keys, nothing, ceilings, np.zeros((0, 0)), nothing, np.zeros(0, np.int64), nothing, nothing
    )
    assert fit.fit_ceiling(data) == pytest.approx(
        {"ceiling_launch": 3e-6, "ceiling_read": 2e-13, "ceiling_write": 3e-13}
    )


def test_constants_are_written_in_place_of_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = machine.load()
    file = tmp_path / "h200.toml"
    file.write_bytes((machine.FOLDER / "h200.toml").read_bytes())
    monkeypatch.setattr(fit, "MACHINE", file)
    fit.write_constants({**old.model, "dram": 1.23456e-13})
    new = msgspec.toml.decode(file.read_bytes(), type=Machine)
    assert new.model == {**old.model, "dram": 1.235e-13}
    assert (new.name, new.limits) == (old.name, old.limits)
    assert file.read_text().startswith(fit.MACHINE.read_text().split("[model]")[0])


# The report --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "correlation"),
    [
        ([1, 2, 3], [10, 20, 30], 1.0),
        ([1, 2, 3], [0.1, 500, 501], 1.0),
        ([1, 2, 3], [9, 5, 1], -1.0),
        ([1, 2, 3, 4], [2, 1, 4, 3], 0.6),
        ([3, 1, 2], [1, 2, 3], -0.5),
        ([1, 2, 3, 4, 5], [3, 5, 1, 2, 4], -0.1),
    ],
)
def test_rank_correlation_by_hand(a: list[float], b: list[float], correlation: float) -> None:
    # 1 - 6 sum d^2 / (n (n^2 - 1))
    assert fit_report.spearman(np.array(a), np.array(b)) == pytest.approx(correlation)


@pytest.mark.parametrize(
    ("fraction", "marks"),
    [(0.1, (0.0, "zero")), (0.3, (3.5, "partial")), (0.5, (7.0, "full")), (1.0, (7.0, "full"))],
)
def test_marks_are_none_some_or_all(fraction: float, marks: tuple[float, str]) -> None:
    assert fit_report.marks(fraction, Slope(zero=0.1, full=0.5), 7.0) == marks


@pytest.fixture(scope="module")
def scored() -> Data:
    """Two kernels for each part at the scored shapes, as fast as memory and a twentieth of that."""
    test = kernels.assignment().test("speed")
    shapes = [(shape["rows"], shape["hidden_dim"]) for shape in test.shapes]
    times: list[dict[str, Any]] = []
    counted: dict[str, Any] = {}
    for name, time in (("fast", 20.0), ("slow", 400.0)):
        for part in kernels.ALL:
            rows = [
                {"rows": r, "hidden_dim": h, "time_us": time, "ceiling_us": 20.0} for r, h in shapes
            ]
            times.append({"submission": name, "part": part, "shapes": rows})
            counted |= {f"{name} {part} {word(one)}": {"launches": []} for one in shapes}
    return join(counted, times, LIMITS)


def test_figures_of_a_perfect_model(scored: Data) -> None:
    page = fit_report.page(scored, scored.measured)
    assert "| forward | 2 | 1.000 | 0% | 0% |" in page
    assert "on both backends in 100% of all" in page
    assert "being modelled: none.\n" in page
    assert "| fast | dinp | 10 | 10 |" in page
    assert "| slow | dinp | 0 | 0 |" in page
    assert "| forward | slow | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |" in page


def test_errors_are_ratios_whichever_way(scored: Data) -> None:
    wrong = scored.measured * np.where(np.arange(len(scored.keys)) % 2, 1.25, 1 / 1.25)
    for part in fit_report.figures(scored, wrong).values():
        assert part["median error"] == pytest.approx(0.25)
        assert part["90 % below"] == pytest.approx(0.25)


def test_a_kernel_that_loses_marks_by_the_model_is_named(scored: Data) -> None:
    wrong = scored.measured * np.where(scored.where(submission="fast", part="dinp"), 3.0, 1.0)
    page = fit_report.page(scored, wrong)
    assert "being modelled: fast dinp.\n" in page
    share, earned = fit_report.agreement(scored, wrong)
    assert share == pytest.approx(5 / 6), "some marks for the fast one, not all of them"
    cpu = kernels.assignment().test("speed").marks["cpu"]["dinp"]
    expected = 10 * (1 / 3 - cpu.zero) / (cpu.full - cpu.zero)
    ((real, made),) = [one[2:] for one in earned if one[:2] == ("fast", "dinp")]
    assert real == 10
    assert made == pytest.approx(expected, abs=0.051)


def test_every_point_is_in_the_plot(scored: Data) -> None:
    plot = fit_report.plot(scored, scored.measured)
    assert plot.count("<circle") == len(scored.keys)
    assert "<title>slow dinp 8192x1024: measured 0.050, modelled 0.050</title>" in plot


# What is committed -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def committed() -> Data:
    if not COUNTED.is_file():
        pytest.skip("the counts are not here")
    times = json.loads((fit.HERE / "times.json").read_text())
    return join(json.loads(COUNTED.read_text()), times, machine.load().limits)


@pytest.fixture(scope="module")
def fitted(committed: Data) -> Array:
    return fit.fit(committed, np.ones(len(committed.keys), bool))


def test_the_machine_file_is_what_the_data_give(committed: Data, fitted: Array) -> None:
    expected = {
        "clock": fit.CLOCK,
        **constants(fitted),
        "host": fit.host_copy(),
        **fit.fit_ceiling(committed),
    }
    assert machine.load().model == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("key", [("solution", "forward"), ("odd/warp_per_row", "dinp")])
def test_the_page_is_what_the_data_give(
    committed: Data, fitted: Array, key: tuple[str, str]
) -> None:
    """One kernel each: its rows of the page, by constants fitted to the others."""
    own = committed.where(submission=key[0], part=key[1])
    ratios = (fit.times(committed, fit.fit(committed, ~own, fitted)) / committed.measured)[own]
    page = (fit.HERE / "model.md").read_text()
    (told,) = [line for line in page.splitlines() if line.startswith(f"| {key[1]} | {key[0]} |")]
    assert [float(cell) for cell in told.split("|")[3:-1]] == pytest.approx(ratios, abs=0.011)


@pytest.mark.slow
def test_all_of_the_page_is_what_the_data_give(committed: Data, fitted: Array) -> None:
    predicted = fit.leave_one_out(committed, fitted)
    assert fit_report.page(committed, predicted) == (fit.HERE / "model.md").read_text()
    assert fit_report.plot(committed, predicted) == (fit.HERE / "model.svg").read_text()


def test_the_handout_says_how_sure_the_model_is() -> None:
    page = (fit.HERE / "model.md").read_text()
    handout = " ".join((kernels.assignment().folder / "README.md").read_text().split())
    medians = [int(one) for one in re.findall(r"\| (\d+)% \| \d+% \|$", page, re.MULTILINE)]
    assert len(medians) == 3
    assert 14 <= sum(medians) / 3 < 19
    assert "off by about a sixth in the median" in handout
    assert "by being modelled: none." in page
    assert "no kernel that was measured loses more than 2 points by being modelled" in handout
    for part, slope in kernels.assignment().test("speed").marks["cpu"].items():
        assert re.search(rf"`{part}` {slope.zero:g}0? to {slope.full:g}0?\b", handout), part
