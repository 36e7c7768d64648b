"""What the emulator's checkers found, from a worker's words to the findings of a score.

A worker tells one finding a line, with tabs between: severity, kind, file, line (0 if unknown),
count, message. It is the untrusted side: a line that makes no sense is left out, and a submission
that invents findings only harms itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, get_args

import msgspec

from grader.rationales import RATIONALES
from grader.score import Finding, Severity

MOST = 200  # of one call
MESSAGE = 1000  # characters
SEVERITIES = get_args(Severity)


def parse(report: str, part: str) -> list[Finding]:
    """The findings in a worker's report: all lines before the first empty one."""
    found = []
    for line in report.split("\n")[:MOST]:
        if not line:
            break
        fields = line.split("\t")
        if len(fields) != 6 or fields[0] not in SEVERITIES:
            continue
        severity, kind, file, number, count, message = fields
        if not (number.isascii() and number.isdigit() and count.isascii() and count.isdigit()):
            continue
        found.append(
            Finding(
                severity=cast(Severity, severity),
                kind=kind[:40],
                part=part,
                file=file or None,
                line=int(number[:9]) or None,
                message=message[:MESSAGE],
                rationale=RATIONALES.get(kind, ""),
                count=max(1, int(count[:9])),
            )
        )
    return found


def add(findings: list[Finding], more: Iterable[Finding]) -> None:
    """Put findings to those that are known: the same at the same line once, with the sum of counts.

    The first message stays. A finding that is an error anywhere is an error.
    """
    for new in more:
        for position, known in enumerate(findings):
            if _place(known) == _place(new):
                worst = min(known, new, key=lambda one: SEVERITIES.index(one.severity))
                count = known.count + new.count
                findings[position] = msgspec.structs.replace(
                    known, severity=worst.severity, count=count
                )
                break
        else:
            findings.append(new)


def _place(finding: Finding) -> tuple[str, str, str | None, int | None, str]:
    where = finding.message if finding.line is None else ""
    return finding.part, finding.kind, finding.file, finding.line, where


def sentence(finding: Finding) -> str:
    """The finding in one line, with its place in front."""
    if finding.file is None:
        return finding.message
    line = "" if finding.line is None else f":{finding.line}"
    return f"{finding.file}{line}: {finding.message}"
