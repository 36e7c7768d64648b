"""Brackets, arguments and statements in a list of C++ tokens without trivia."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grader.emulator.tokens import NAME, Token

CLOSING = {"(": ")", "[": "]", "{": "}"}
DECLARING = {
    "const", "constexpr", "static", "auto", "extern", "using", "typedef", "struct", "union", "enum",
    "int", "float", "double", "unsigned", "bool", "char", "long", "short", "void", "template",
    "typename", "__shared__", "__device__", "__constant__", "volatile", "friend", "size_t",
}  # fmt: skip
CONTROL = {"if", "for", "while", "switch"}
JUMPS = {"return", "break", "continue", "goto", "case", "default", "public", "private", "else"}


@dataclass(frozen=True)
class Statement:
    """From the first token to the semicolon. Simple: no control flow, and nothing in braces."""

    first: int
    last: int
    simple: bool
    declares: bool


def matching(tokens: list[Token], index: int) -> int | None:
    """The index of the bracket that closes the one at `index`; None when it never closes."""
    if not 0 <= index < len(tokens) or tokens[index].text not in CLOSING:
        return None
    depth = 0
    for at in range(index, len(tokens)):
        if tokens[at].text in CLOSING:
            depth += 1
        elif tokens[at].text in CLOSING.values():
            depth -= 1
            if depth == 0:
                return at
    return None


def arguments(tokens: list[Token], index: int) -> list[tuple[int, int]]:
    """The first and last token of each argument between the parenthesis at `index` and its end."""
    close = matching(tokens, index)
    if close is None or close == index + 1:
        return []
    found, start, at = [], index + 1, index + 1
    while at < close:
        inner = matching(tokens, at)
        if inner is not None:
            at = inner
        elif tokens[at].text == ",":
            found.append((start, at - 1))
            start = at + 1
        at += 1
    found.append((start, close - 1))
    return [(first, last) for first, last in found if first <= last]


def statements(tokens: list[Token]) -> Iterator[Statement]:
    """The statements that end with a semicolon within braces, in order.

    What stands behind the head of an `if` or a loop is a statement of its own, and not simple to
    move: only its deletion makes sense, so it begins behind the head.
    """
    opened: list[str] = []
    start = 0
    for at, token in enumerate(tokens):
        if token.text in CLOSING:
            opened.append(token.text)
        elif token.text in CLOSING.values() and opened:
            opened.pop()
        if token.text in "{}" or not opened:
            start = at + 1
        elif token.text == ";" and opened[-1] == "{":
            first = _behind_heads(tokens, start)
            if first < at:
                yield _statement(tokens, first, at)
            start = at + 1


def _behind_heads(tokens: list[Token], start: int) -> int:
    while start < len(tokens):
        if tokens[start].text in CONTROL:
            head = start + 1 + (tokens[start + 1].text == "constexpr")
            close = matching(tokens, head)
            if close is None:
                return start
            start = close + 1
        elif tokens[start].text in ("else", "do"):
            start += 1
        else:
            return start
    return start


def _statement(tokens: list[Token], first: int, last: int) -> Statement:
    head = [token.text for token in tokens[first:last]]
    jumps = head[0] in JUMPS or (len(head) > 1 and head[1] == ":")
    whole = sum((text in CLOSING) - (text in CLOSING.values()) for text in head) == 0
    return Statement(first, last, not jumps and whole, _declares(tokens[first:last]))


def _declares(tokens: list[Token]) -> bool:
    """Whether a statement declares something: `Vec x`, `Vec* x`, `dim3 grid(4)`."""
    if tokens[0].text in DECLARING:
        return True
    for one, two, three in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if one.text in ("=", "+=", "(", "[", "<<<", "."):
            return False
        if one.kind == NAME and two.kind == NAME:
            return True
        if one.kind == NAME and two.text in ("*", "&") and three.kind == NAME:
            return True
        if one.text == ">" and two.kind == NAME:
            return True
    return len(tokens) == 2 and all(token.kind == NAME for token in tokens)
