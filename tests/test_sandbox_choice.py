"""Which rung is chosen, by trying; and how each is asked for or refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from grader import sandbox, warden
from grader.errors import InfrastructureError, UsageError
from grader.sandbox import Sandbox
from tests.test_sandbox import RUNGS, bubblewrap_only


@pytest.fixture
def unprobed() -> None:
    """Lets a test probe for itself, and forgets what it found."""
    sandbox.why_not_bubblewrap.cache_clear()


@pytest.fixture(autouse=True)
def probe_again_later() -> object:
    yield
    sandbox.why_not_bubblewrap.cache_clear()
    sandbox.choose.cache_clear()


@pytest.mark.usefixtures("unprobed")
def test_without_bwrap_the_process_rung_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sandbox.choose.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sandbox.why_not_bubblewrap() == "bwrap is not installed"
    assert sandbox.choose() == Sandbox("process")


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("words", ["bwrap: No permissions to create new namespace", ""])
def test_a_bwrap_that_does_not_work_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str
) -> None:
    sandbox.choose.cache_clear()
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\n{f'echo {words!r} >&2' if words else ''}\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert sandbox.why_not_bubblewrap() == (words or "bwrap failed")
    assert sandbox.choose().kind == "process"


@bubblewrap_only
def test_a_working_bwrap_is_chosen() -> None:
    assert sandbox.choose().kind == "bubblewrap"


@pytest.mark.parametrize("kind", [*RUNGS[:1], "process"])
def test_a_rung_can_be_asked_for(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    sandbox.choose.cache_clear()
    monkeypatch.setenv(sandbox.VARIABLE, kind)
    assert sandbox.choose() == Sandbox(kind)


def test_there_is_no_other_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.choose.cache_clear()
    monkeypatch.setenv(sandbox.VARIABLE, "docker")
    with pytest.raises(UsageError, match="'docker': it can be bubblewrap or process"):
        sandbox.choose()


@pytest.mark.usefixtures("unprobed")
def test_a_rung_that_is_asked_for_has_to_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sandbox.choose.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(sandbox.VARIABLE, "bubblewrap")
    with pytest.raises(InfrastructureError, match="does not work: bwrap is not installed"):
        sandbox.choose()


@pytest.mark.parametrize("asked", ["process", ""])
def test_isolation_can_be_demanded(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    sandbox.choose.cache_clear()
    monkeypatch.setenv(sandbox.VARIABLE, asked)
    if sandbox.choose().kind == "bubblewrap":
        sandbox.isolated()
        return
    with pytest.raises(InfrastructureError, match="cannot be isolated on this machine"):
        sandbox.isolated()


def test_what_a_rung_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sandbox.lacks(Sandbox("bubblewrap")) == []
    monkeypatch.setattr(warden, "landlock_abi", lambda: 0)
    monkeypatch.setattr(warden, "has_seccomp", lambda: False)
    monkeypatch.setattr(sandbox, "drops_root", lambda _: False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    weak = sandbox.lacks(Sandbox("process"))
    assert "every file that its user may read or write is within reach" in weak
    assert "it can end other processes of its user, the grader among them" in weak
    assert "it can use the network, and leave shared memory behind" in weak
    monkeypatch.setattr(warden, "landlock_abi", lambda: warden.SIGNALS_SINCE)
    monkeypatch.setattr(warden, "has_seccomp", lambda: True)
    assert set(sandbox.lacks(Sandbox("process"))) == set(weak[-2:])


def test_root_runs_nothing_as_root_without_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "why_not_bubblewrap", lambda: "bwrap is not installed")
    monkeypatch.setattr(sandbox, "_why_root", lambda: "user 60578 cannot read /root")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(warden, "landlock_abi", lambda: warden.SIGNALS_SINCE - 1)
    sandbox.choose.cache_clear()
    with pytest.raises(InfrastructureError, match="would run as root: user 60578 cannot read"):
        sandbox.choose()
    monkeypatch.setattr(warden, "landlock_abi", lambda: warden.SIGNALS_SINCE)
    assert sandbox.choose().kind == "process"


def test_users_are_given_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "USERS", range(61000, 61002))
    first, second = sandbox.User(), sandbox.User()
    assert {first.uid, second.uid} == {61000, 61001}
    with pytest.raises(InfrastructureError, match="2 submissions run on this machine already"):
        sandbox.User()
    first.give_back()
    third = sandbox.User()
    assert third.uid == first.uid
    for user in (second, third):
        user.give_back()


def test_the_interpreter_is_no_virtual_environment() -> None:
    python, folders = sandbox.python()
    assert Path(python).is_file()
    assert not Path(python).is_relative_to(sys.prefix) or sys.prefix == sys.base_prefix
    assert all(folder.is_dir() for folder in folders)
