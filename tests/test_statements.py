"""Statements and arguments of a text, whatever brackets stand in them."""

from __future__ import annotations

import pytest

from grader.emulator.tokens import TRIVIA, Token, tokenize
from grader.statements import Statement, arguments, matching, statements


def tokens(text: str) -> list[Token]:
    return [token for token in tokenize(text) if token.kind not in TRIVIA]


def found(text: str) -> list[tuple[str, Statement]]:
    every = tokens(text)
    return [
        (" ".join(token.text for token in every[each.first : each.last]), each)
        for each in statements(every)
    ]


def test_brackets_match_across_each_other() -> None:
    every = tokens("f(a[1], {2})")
    assert matching(every, 1) == len(every) - 1
    assert matching(every, 0) is None
    assert matching(tokens("f(a"), 1) is None


def test_arguments_are_split_at_their_own_commas_only() -> None:
    every = tokens("f(a, g(b, c), {d, e})")
    spans = [[token.text for token in every[a : b + 1]] for a, b in arguments(every, 1)]
    assert spans == [["a"], ["g", "(", "b", ",", "c", ")"], ["{", "d", ",", "e", "}"]]
    assert arguments(tokens("f()"), 1) == []


def test_statements_begin_behind_the_heads_of_loops_and_branches() -> None:
    text = "int g; void f() { a = 1; for (i = 0; i < n; i++) b(i); if (c) d = 2; else e = 3; }"
    assert [what for what, _ in found(text)] == ["a = 1", "b ( i )", "d = 2", "e = 3"]


def test_a_lambda_is_not_simple() -> None:
    (inner, body), *_ = found("void f() { g([=](int a) { h(a); }); }")
    assert (inner, body.simple) == ("h ( a )", True)


@pytest.mark.parametrize(
    ("statement", "declares"),
    [
        ("int a", True),
        ("Vec a = b", True),
        ("Vec* a = b", True),
        ("std::vector<int> a(3)", True),
        ("dim3 grid(4)", True),
        ("a = b * c", False),
        ("a[i] += b", False),
        ("f(a, b)", False),
        ("kernel<<<a, b>>>(c)", False),
    ],
)
def test_declarations_are_told_from_the_rest(statement: str, declares: bool) -> None:
    ((_, only),) = found(f"void f() {{ {statement}; }}")
    assert only.declares is declares


def test_jumps_are_not_simple() -> None:
    assert [each.simple for _, each in found("void f() { return a; break; b = 1; }")] == [
        False,
        False,
        True,
    ]
