"""The machines whose time is modelled: their files, and what becomes of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import machine, model
from grader.errors import UsageError
from tests.fake_counts import CONSTANTS, MACHINE

FILES = sorted(machine.FOLDER.glob("*.toml"))
load = machine.load.__wrapped__  # without what is known already


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_every_machine_has_all_constants_of_the_model(name: str) -> None:
    loaded = load(name)
    priced = {demand for demands in model.RESOURCES.values() for demand in demands}
    assert priced < set(loaded.model)
    assert set(loaded.model) == set(CONSTANTS)
    assert all(value > 0 for value in loaded.model.values())
    assert loaded.model["p"] >= 1 and loaded.model["q"] >= 1, "or it is no norm"


def test_the_default_is_an_h200() -> None:
    loaded = machine.load()
    assert loaded.name == "NVIDIA H200"
    assert (loaded.limits.sms, loaded.limits.threads_per_sm) == (132, 2048)


def test_the_emulator_is_told_every_limit() -> None:
    assert MACHINE.settings() == (
        "sms=10 threads_per_sm=2048 max_blocks_per_sm=32 shared_per_sm=200000 l1_bytes=256000 "
        "l2_bytes=50000000"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [("h20", " (did you mean 'h200'?)"), ("H200", " (did you mean 'h200'?)"), ("tpu", "")],
)
def test_an_unknown_machine_is_told_in_a_sentence(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        machine.load(name)
    assert str(raised.value) == f"no machine {name!r} in {machine.FOLDER}{hint}"


def test_a_name_is_no_path() -> None:
    with pytest.raises(UsageError, match=r"no machine '\.\./machines/h200'"):
        machine.load("../machines/h200")


def test_another_file_is_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (machine.FOLDER / "h200.toml").read_text()
    (tmp_path / "half.toml").write_text(text.replace("sms = 132", "sms = 66"))
    monkeypatch.setattr(machine, "FOLDER", tmp_path)
    assert load("half").limits.sms == 66
    with pytest.raises(UsageError, match="no machine 'h200'"):
        load("h200")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("sms = 132", "sms = 'many'", "`$.limits.sms`"),
        ("sms = 132", "smz = 132", "unknown field `smz`"),
        ("[model]", "[model", "line "),
        ("[limits]", "[limit]", "unknown field `limit`"),
    ],
)
def test_a_machine_file_with_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str
) -> None:
    text = (machine.FOLDER / "h200.toml").read_text()
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new))
    monkeypatch.setattr(machine, "FOLDER", tmp_path)
    with pytest.raises(UsageError) as raised:
        load("mine")
    assert str(raised.value).startswith(f"{tmp_path / 'mine.toml'}: ")
    assert said in str(raised.value)
