"""The faults of the test submissions that the emulator's checkers find, as a table in
tests/submissions/README.md. `python -m tests.fault_table` writes it anew."""

from __future__ import annotations

from tests.expectations import SUBMISSIONS, read_all

README = SUBMISSIONS / "README.md"
BEGIN = "<!-- written by python -m tests.fault_table -->\n"
HEAD = "| kind | severity | submission | fault |\n|---|---|---|---|\n"


def table() -> str:
    """A line for each kind of finding of each submission, sorted by kind."""
    rows = {
        f"| `{fault.kind}` | {fault.severity} | {expect.name} | {expect.why} |\n"
        for expect in read_all("layernorm")
        for fault in expect.findings
    }
    return HEAD + "".join(sorted(rows))


def written() -> str:
    """The whole page, with its table as it should be now."""
    before, _ = README.read_text(encoding="utf-8").split(BEGIN)
    return before + BEGIN + table()


if __name__ == "__main__":
    README.write_text(written(), encoding="utf-8")
