"""Which launchers reach a line of a source: a call graph of the text.

Coarse on purpose: a top-level declaration reaches whatever its text names, so a table of kernels,
a macro or a functor is followed, too. It may reach too much, and hardly ever too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grader.emulator.tokens import DIRECTIVE, NAME, TRIVIA, Token, tokenize
from grader.statements import DECLARING, matching

_WORDS = DECLARING | {
    "namespace", "extern", "inline", "__global__", "__host__", "__forceinline__", "if", "for",
    "while", "return", "else", "threadIdx", "blockIdx", "blockDim", "gridDim", "x", "y", "z", "w",
}  # fmt: skip


@dataclass(frozen=True)
class Chunk:
    """A top-level declaration: lines from 1, what it may define, and what it names."""

    file: str
    first: int
    last: int
    defines: frozenset[str]
    names: frozenset[str]

    @property
    def lines(self) -> range:
        return range(self.first, self.last + 1)


def chunks(file: str, text: str) -> list[Chunk]:
    """The functions, types, macros and other top-level declarations of a source, in order."""
    every = tokenize(text)
    found = [
        _chunk(file, text, [token], _macro(token.text))
        for token in every
        if token.kind == DIRECTIVE and token.text.lstrip("# \t").startswith("define")
    ]
    tokens = [token for token in every if token.kind not in TRIVIA]
    start = at = 0
    while at < len(tokens):
        body = matching(tokens, at) if tokens[at].text in ("(", "[", "{") else None
        opens = tokens[at].text == "{" and _transparent(tokens[start:at])
        if opens or tokens[at].text == "}":
            start = at = at + 1
        elif tokens[at].text == ";":
            whole = tokens[start : at + 1]
            if len(whole) > 1:
                found.append(_chunk(file, text, whole, _declared(whole)))
            start = at = at + 1
        elif tokens[at].text == "{" and body is not None and _function(tokens[start:at]):
            whole = tokens[start : body + 1]
            found.append(_chunk(file, text, whole, _declared(whole)))
            start = at = body + 1
        else:
            at = at + 1 if body is None else body + 1
    return found


class CallGraph:
    """The call graph of a submission's files, name -> text."""

    def __init__(self, texts: Mapping[str, str], launchers: Iterable[str]) -> None:
        self._chunks = [chunk for name, text in texts.items() for chunk in chunks(name, text)]
        self._reached = {launcher: _closure(launcher, self._chunks) for launcher in launchers}

    def launchers_of(self, file: str, line: int) -> set[str]:
        """The launchers that reach a line of a file; all of them when that is not clear."""
        here = {each for each in self._chunks if each.file == file and line in each.lines}
        found = {launcher for launcher, reached in self._reached.items() if reached & here}
        return found or set(self._reached)


def _closure(launcher: str, every: list[Chunk]) -> set[Chunk]:
    """All that a launcher's text leads to."""
    reached: set[Chunk] = set()
    waiting = {launcher}
    while waiting:
        new = {each for each in every if each.defines & waiting} - reached
        reached |= new
        waiting = set().union(*(each.names for each in new))
    return reached


def _chunk(file: str, text: str, tokens: list[Token], defines: frozenset[str]) -> Chunk:
    end = tokens[-1].offset + len(tokens[-1].text)
    first = text.count("\n", 0, tokens[0].offset) + 1
    last = text.count("\n", 0, end) + 1
    kinds = [tokenize(each.text, False) if each.kind == DIRECTIVE else [each] for each in tokens]
    names = _names([token for several in kinds for token in several])
    return Chunk(file, first, last, defines, names)


def _macro(text: str) -> frozenset[str]:
    match = re.match(r"#\s*define\s+(\w+)", text)
    return frozenset({match[1]} if match else ())


def _declared(tokens: list[Token]) -> frozenset[str]:
    """What a declaration declares: the name before its first `(`, `[`, `=`, `{` or `;`.

    An enumeration and a typedef of a function pointer may declare any name in them.
    """
    texts = [token.text for token in tokens]
    if texts[0] in ("typedef", "enum"):
        return _names(tokens)
    for at, token in enumerate(tokens[1:], start=1):
        before = tokens[at - 1]
        attribute = before.text.startswith("__") and before.text.endswith("__")
        template = "template" in texts[:at] and texts[:at].count("<") > texts[:at].count(">")
        if token.text in ("(", "[", "=", "{", ";", ":") and not attribute and not template:
            if before.kind == NAME:
                return frozenset({before.text})
            break
    return _names(tokens)


def _names(tokens: list[Token]) -> frozenset[str]:
    return frozenset({token.text for token in tokens if token.kind == NAME} - _WORDS)


def _transparent(head: list[Token]) -> bool:
    """Whether braces hold top-level declarations themselves: namespaces, and extern "C"."""
    texts = [token.text for token in head]
    return "namespace" in texts or (len(texts) == 2 and texts[0] == "extern")


def _function(head: list[Token]) -> bool:
    """Whether a brace begins the body of a function, which no semicolon follows."""
    texts = [token.text for token in head]
    return ")" in texts and "=" not in texts
