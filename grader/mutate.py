"""Mutants of a CUDA source: its text with one small fault in it, as a student might make it.

Purely textual, on tokens: comments, strings, directives and code that the emulator does not take
(`#if __CUDA_ARCH__ >= 900`) are left alone. A mutant need not compile, and need not be wrong.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from grader.emulator.tokens import DIRECTIVE, NAME, NUMBER, TRIVIA, Token, tokenize
from grader.statements import Statement, arguments, matching, statements

ARCHITECTURE = 800  # of the emulator

BARRIERS = {"__syncthreads", "__syncwarp", "__threadfence", "__threadfence_block", "sync"}
RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/"}
ROOTS = {
    "sqrtf": "rsqrtf", "rsqrtf": "sqrtf", "sqrt": "rsqrt", "rsqrt": "sqrt",
    "__fsqrt_rn": "__frsqrt_rn", "__frsqrt_rn": "__fsqrt_rn",
}  # fmt: skip
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/="}
NARROWER = {"double": "float", "size_t": "int", "int64_t": "int", "uint64_t": "unsigned"}
KEYWORDS = {
    "return", "else", "case", "const", "constexpr", "static", "auto", "typename", "class", "using",
    "int", "float", "double", "unsigned", "bool", "char", "long", "short", "void", "float4",
    "sizeof", "template", "typedef", "extern", "new", "delete", "throw", "goto",
}  # fmt: skip

Edit = tuple[int, int, str, str]  # the text from start to end becomes that; in words


@dataclass(frozen=True)
class Mutant:
    """`name` is the operator's, `line` counts from 1, `text` is the whole source."""

    name: str
    line: int
    description: str
    text: str


@dataclass(frozen=True)
class Source:
    """The tokens that count, in order, and the text that they come from."""

    text: str
    tokens: list[Token]

    def end(self, index: int) -> int:
        return self.tokens[index].offset + len(self.tokens[index].text)

    def slice(self, first: int, last: int) -> str:
        """The text from one token to another, both included."""
        return self.text[self.tokens[first].offset : self.end(last)]

    def at(self, index: int) -> str:
        """The text of a token; empty outside of the source."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def spaced(self, index: int) -> bool:
        """Whether blanks stand on both sides: `a < b`, but not `f<b>` or `float* b`."""
        before, after = self.tokens[index].offset - 1, self.end(index)
        around = self.text[before : before + 1] + self.text[after : after + 1]
        return len(around) == 2 and around.isspace()

    def replaced(self, index: int, by: str) -> Edit:
        old = self.tokens[index]
        return old.offset, self.end(index), by, f"{old.text} becomes {by}"


def mutants(text: str) -> list[Mutant]:
    """All mutants of a source, by operator and then by place; no two have the same text."""
    source = Source(text, live_tokens(text))
    found: dict[str, Mutant] = {}
    for name, operator in OPERATORS.items():
        for start, end, by, what in operator(source):
            mutated = text[:start] + by + text[end:]
            line = text.count("\n", 0, start) + 1
            if mutated != text:
                found.setdefault(mutated, Mutant(name, line, what, mutated))
    return list(found.values())


def sample(every: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` of them at most, the same ones for the same seed; operators take turns, so that the
    rare ones are among them."""
    chance = random.Random(seed)
    by_name: dict[str, list[Mutant]] = {}
    for mutant in every:
        by_name.setdefault(mutant.name, []).append(mutant)
    for group in by_name.values():
        chance.shuffle(group)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(by_name.values()):
        chosen += [group.pop() for group in by_name.values() if group]
    return chosen[:count]


def live_tokens(text: str) -> list[Token]:
    """The tokens without trivia and without branches that the emulator never takes."""
    kept: list[Token] = []
    taken: list[bool | None] = []  # of each open #if: None is unknown, which may be
    for token in tokenize(text):
        if token.kind == DIRECTIVE:
            _branch(token.text, taken)
        elif token.kind not in TRIVIA and False not in taken:
            if token.text == "=" and kept and _touches(kept[-1], token):
                kept[-1] = Token(token.kind, kept[-1].text + "=", kept[-1].offset)
            else:
                kept.append(token)
    return kept


def _touches(left: Token, right: Token) -> bool:
    """Whether a relation is in two pieces: the tokenizer keeps the `>` of templates apart."""
    return left.text in ("<", ">") and left.offset + 1 == right.offset


def _branch(directive: str, taken: list[bool | None]) -> None:
    """Follow one preprocessor line."""
    match = re.match(r"#\s*(\w+)\s*(.*)", directive.strip(), re.S)
    word, condition = (match[1], match[2]) if match else ("", "")
    if word in ("if", "ifdef", "ifndef"):
        taken.append(_holds(condition) if word == "if" else None)
    elif word in ("else", "elif") and taken:
        before = taken[-1]
        taken[-1] = None if before is None or word == "elif" else not before
    elif word == "endif" and taken:
        taken.pop()


def _holds(condition: str) -> bool | None:
    """Whether the emulator takes a branch; None when that is not plain to see."""
    condition = re.sub(r"/\*.*?\*/|//.*", "", condition).strip()
    if condition in ("0", "1"):
        return condition == "1"
    match = re.fullmatch(r"\(?\s*__CUDA_ARCH__\s*(>=|>|<=|<|==)\s*(\d+)\s*\)?", condition)
    if match is None:
        return None
    limit = int(match[2])
    return {
        ">=": limit <= ARCHITECTURE, ">": limit < ARCHITECTURE, "==": limit == ARCHITECTURE,
        "<=": limit >= ARCHITECTURE, "<": limit > ARCHITECTURE,
    }[match[1]]  # fmt: skip


# Operators ---------------------------------------------------------------------------------------


def _barrier_dropped(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        if token.text not in BARRIERS or source.at(index + 1) != "(":
            continue
        close = matching(source.tokens, index + 1)
        if close is None or source.at(close + 1) != ";":
            continue
        first = index
        while source.at(first - 1) in (".", "->", "::"):
            first -= 2
        if source.at(first - 1) in (";", "{", "}", ")", "else"):
            yield *_without(source, first, close), f"{source.slice(first, close)} is dropped"


def _relation(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        if token.text in RELATIONS and source.spaced(index):
            yield source.replaced(index, RELATIONS[token.text])


def _index_off_by_one(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        close = matching(source.tokens, index) if token.text == "[" else None
        if close is None or close == index + 1 or not _is_subscript(source, index):
            continue
        start, end = source.tokens[index + 1].offset, source.end(close - 1)
        inside = source.text[start:end]
        for sign in "+-":
            yield start, end, f"({inside}) {sign} 1", f"[{inside}] becomes [{inside} {sign} 1]"


def _is_subscript(source: Source, index: int) -> bool:
    """Whether the bracket follows something that is indexed, and declares no array."""
    base = index - 1
    while source.at(base) == "]":
        opening = next(
            (at for at in range(base, -1, -1) if matching(source.tokens, at) == base), None
        )
        if opening is None:
            return False
        base = opening - 1
    if source.at(base) == ")":
        return True
    if base < 1 or source.tokens[base].kind != NAME or source.at(base) in KEYWORDS:
        return False
    before = source.tokens[base - 1]
    return before.text == "return" or not (before.kind == NAME or before.text in (">", "*"))


def _operator(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        if token.text not in ARITHMETIC or not source.spaced(index) or index == 0:
            continue
        left = source.tokens[index - 1]
        operand = left.kind in (NAME, NUMBER) or left.text in (")", "]")
        if operand and left.text not in KEYWORDS:
            yield source.replaced(index, ARITHMETIC[token.text])


def _constant(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        if token.kind == NUMBER:
            for other in _other_numbers(token.text):
                yield source.replaced(index, other)


def _other_numbers(text: str) -> list[str]:
    """What a literal is exchanged for: integers stay integers, with their suffix."""
    whole = re.fullmatch(r"(\d+)([uUlL]*)", text)
    if whole:
        value, suffix = int(whole[1]), whole[2]
        if value < 2:
            return [f"{value + 1}{suffix}"]
        return [f"{value // 2}{suffix}", f"{value * 2}{suffix}"] if not value & value - 1 else []
    real = re.fullmatch(r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([fFlL]?)", text)
    if real is None:
        return []
    number = float(real[1])
    return [f"{number * 2 if number else 1.0!r}{real[2]}"]


def _mask(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        if re.fullmatch(r"0x[fF]{8}[uUlL]*", token.text):
            yield source.replaced(index, "0x7" + token.text[3:])


def _shuffle_distance(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        match = re.fullmatch(r"(?:__)?shfl(?:_(?:up|down|xor))?(_sync)?", token.text)
        if match is None or source.at(index + 1) != "(":
            continue
        given = arguments(source.tokens, index + 1)
        wanted = 2 if match[1] else 1
        if len(given) > wanted:
            start, end = source.tokens[given[wanted][0]].offset, source.end(given[wanted][1])
            old = source.text[start:end]
            yield start, end, f"({old}) + 1", f"the distance {old} of a shuffle becomes {old} + 1"


def _guard_dropped(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        close = matching(source.tokens, index + 1) if source.at(index + 1) == "(" else None
        if token.text != "if" or close is None:
            continue
        leaves = "return" in (source.at(close + 1), source.at(close + 2))
        always = "false" if leaves else "true"
        start, end = source.end(index + 1), source.tokens[close].offset
        yield start, end, always, f"if ({source.text[start:end]}) becomes if ({always})"


def _type(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        if token.text in NARROWER and source.at(index - 1) not in (".", "->"):
            yield source.replaced(index, NARROWER[token.text])
        if token.text == "long" and source.at(index + 1) == "long":
            first = index - (source.at(index - 1) == "unsigned")
            old = source.slice(first, index + 1)
            yield (
                source.tokens[first].offset, source.end(index + 1), "int", f"{old} becomes int",
            )  # fmt: skip


def _statements_swapped(source: Source) -> Iterator[Edit]:
    before: Statement | None = None
    for now in statements(source.tokens):
        if (
            before is not None and now.first == before.last + 1
            and before.simple and now.simple and _depend(source, before, now)
        ):  # fmt: skip
            one, two = source.slice(before.first, before.last), source.slice(now.first, now.last)
            start, end = source.tokens[before.first].offset, source.end(now.last)
            between = source.text[source.end(before.last) : source.tokens[now.first].offset]
            yield start, end, two + between + one, f"{_short(one)} and {_short(two)} are swapped"
        before = now


def _depend(source: Source, one: Statement, two: Statement) -> bool:
    """Whether the order can matter, and the second does not need a name that the first declares."""
    barrier = any(source.at(at) in BARRIERS for at in (one.first, two.first))
    names, written = zip(*(_names(source, each) for each in (one, two)), strict=True)
    if one.declares and names[0] & names[1] - KEYWORDS:
        return False
    return barrier or bool(written[0] & names[1] or written[1] & names[0])


def _names(source: Source, statement: Statement) -> tuple[set[str], set[str]]:
    """All names in a statement, and those that it may write: all of them in a call."""
    tokens = source.tokens[statement.first : statement.last]
    names = {token.text for token in tokens if token.kind == NAME} - KEYWORDS
    ends = [at for at, token in enumerate(tokens) if token.text in ASSIGNMENTS]
    if not ends:
        return names, names
    target = [token.text for token in tokens[: ends[0]] if token.kind == NAME]
    return names, set(target[-1:] if statement.declares else target[:1])


def _assigns_only(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        if token.text == "+=" and source.at(index + 1) != "blockDim":
            yield source.replaced(index, "=")


def _atomic_dropped(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        given = arguments(source.tokens, index + 1) if token.text == "atomicAdd" else []
        close = matching(source.tokens, index + 1) if len(given) == 2 else None
        if close is None:
            continue
        where, what = (source.slice(*each) for each in given)
        start, end = token.offset, source.end(close)
        alone = source.at(index - 1) in (";", "{", "}", ")") and source.at(close + 1) == ";"
        plain = f"*({where}) += {what}" if alone else f"((*({where}) += ({what})) - ({what}))"
        yield start, end, plain, f"{source.text[start:end]} becomes a plain addition"


def _arguments_swapped(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        if token.text != "(" or not (source.at(index - 1) == ">>>" or _is_called(source, index)):
            continue
        given = arguments(source.tokens, index)
        for (first, last), (start, end) in pairwise(given):
            one, two = source.slice(first, last), source.slice(start, end)
            if first == last and start == end and source.tokens[first].kind == NAME and one != two:
                span = source.tokens[first].offset, source.end(end)
                what = f"the arguments {one} and {two} are swapped"
                yield *span, f"{two}, {one}", what


def _is_called(source: Source, index: int) -> bool:
    name = source.at(index - 1)
    controls = name in KEYWORDS or name in ("if", "for", "while", "switch")
    return index > 0 and source.tokens[index - 1].kind == NAME and not controls


def _root(source: Source) -> Iterator[Edit]:
    for index, token in enumerate(source.tokens):
        if token.text in ROOTS and source.at(index + 1) == "(":
            yield source.replaced(index, ROOTS[token.text])


def _statement_deleted(source: Source) -> Iterator[Edit]:
    for each in statements(source.tokens):
        if each.simple and not each.declares and source.at(each.first) not in BARRIERS:
            what = f"{_short(source.slice(each.first, each.last))} is deleted"
            yield *_without(source, each.first, each.last - 1), what


def _without(source: Source, first: int, last: int) -> tuple[int, int, str]:
    """The edit that takes tokens away and leaves the lines as they are counted."""
    start, end = source.tokens[first].offset, source.end(last)
    return start, end, "\n" * source.text.count("\n", start, end)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "..."


OPERATORS: dict[str, Callable[[Source], Iterator[Edit]]] = {
    "barrier_dropped": _barrier_dropped,
    "relation": _relation,
    "index_off_by_one": _index_off_by_one,
    "operator": _operator,
    "constant": _constant,
    "mask": _mask,
    "shuffle_distance": _shuffle_distance,
    "guard_dropped": _guard_dropped,
    "type": _type,
    "statements_swapped": _statements_swapped,
    "assigns_only": _assigns_only,
    "atomic_dropped": _atomic_dropped,
    "arguments_swapped": _arguments_swapped,
    "root": _root,
    "statement_deleted": _statement_deleted,
}
