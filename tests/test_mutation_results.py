"""The recorded mutants: every survivor has its proof and every proof a survivor; sums are right."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.author_mutants import Report, Tried

FOLDER = Path(__file__).parent / "mutation"
REPORTS = msgspec.json.decode((FOLDER / "results.json").read_bytes(), type=list[Report])
PROOFS = tomllib.loads((FOLDER / "equivalent.toml").read_text(encoding="utf-8"))["mutant"]
KINDS = {"equivalent", "large", "newer_gpu"}


def covers(proof: dict[str, Any], report: Report, tried: Tried) -> bool:
    return (
        report.submission in proof["submissions"]
        and tried.operator == proof["operator"]
        and tried.line == proof.get("line", tried.line)
    )


def survivors() -> list[tuple[Report, Tried]]:
    return [(one, each) for one in REPORTS for each in one.tried if each.outcome == "survived"]


@pytest.mark.parametrize(
    ("report", "tried"),
    survivors(),
    ids=[f"{one.submission}:{each.line}-{each.operator}" for one, each in survivors()],
)
def test_every_survivor_has_a_proof(report: Report, tried: Tried) -> None:
    assert any(covers(proof, report, tried) for proof in PROOFS)


def test_every_proof_is_of_a_survivor() -> None:
    for proof in PROOFS:
        assert proof["kind"] in KINDS and proof["proof"]
        for name in proof["submissions"]:
            assert any(
                report.submission == name and covers(proof, report, tried)
                for report, tried in survivors()
            ), f"{name}: {proof['operator']}"


def test_there_are_enough_mutants_and_the_readme_has_their_numbers() -> None:
    outcomes = Counter(each.outcome for report in REPORTS for each in report.tried)
    assert outcomes["killed"] + outcomes["survived"] >= 120
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    told = re.search(r"(\d+) killed, (\d+) survived, (\d+) do not build", readme)
    assert told is not None
    wanted = [outcomes[name] for name in ("killed", "survived", "discarded")]
    assert [int(number) for number in told.groups()] == wanted
