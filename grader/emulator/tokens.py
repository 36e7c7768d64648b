"""C++ tokens of a CUDA source, with every character kept: joining the texts gives the source back.

Whitespace, comments and preprocessor directives are tokens too, so an edit of one token can never
move another one to a different line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SPACE, COMMENT, DIRECTIVE, NAME, NUMBER, STRING, CHARACTER, PUNCTUATION = range(8)

TRIVIA = (SPACE, COMMENT, DIRECTIVE)

_RAW_STRING = re.compile(r'(?:u8|[uUL])?R"([^()\\\s]{0,16})\(')
_TOKEN = re.compile(
    r"""
      (?P<space>(?:\s|\\\r?\n)+)
    | (?P<comment>//(?:[^\n\\]|\\(?:\r?\n|.)|\\$)*|/\*(?:.|\n)*?(?:\*/|\Z))
    | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\(?:\r?\n|.))*(?:"|(?=\n)|\Z))
    | (?P<character>(?:u8|[uUL])?'(?:[^'\\\n]|\\(?:\r?\n|.))*(?:'|(?=\n)|\Z))
    | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
    | (?P<name>[A-Za-z_$\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
    | (?P<punctuation><<<|>>>|::|->\*?|\#\#|<<=?|\.\.\.|[-+*/%&|^=!]=|&&|\|\||\+\+|--|.)
    """,
    re.VERBOSE,
)
_KINDS = {
    "space": SPACE,
    "comment": COMMENT,
    "string": STRING,
    "character": CHARACTER,
    "number": NUMBER,
    "name": NAME,
    "punctuation": PUNCTUATION,
}


@dataclass(slots=True)
class Token:
    """One piece of the source; `offset` is where it starts."""

    kind: int
    text: str
    offset: int


def _directive_end(text: str, start: int) -> int:
    """The end of a preprocessor line: a newline that is neither continued nor in a comment."""
    at = start
    while at < len(text):
        if text.startswith("/*", at):
            end = text.find("*/", at + 2)
            at = len(text) if end < 0 else end + 2
            continue
        if text.startswith("//", at):
            match = re.compile(r"(?:[^\n\\]|\\(?:\r?\n|.)|\\$)*").match(text, at)
            return match.end() if match else len(text)
        if text[at] in "\"'":
            match = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'").match(text, at)
            at = match.end() if match else at + 1
            continue
        if text[at] == "\\":
            at += 3 if text.startswith("\\\r\n", at) else 2
            continue
        if text[at] == "\n":
            return at
        at += 1
    return len(text)


def tokenize(text: str, directives: bool = True) -> list[Token]:
    """Split `text`; `directives` is false inside a macro body, where # stringises."""
    tokens: list[Token] = []
    at = 0
    line_start = True
    while at < len(text):
        if directives and line_start and text[at] == "#":
            end = _directive_end(text, at)
            tokens.append(Token(DIRECTIVE, text[at:end], at))
            at = end
            continue
        raw = _RAW_STRING.match(text, at)
        if raw and not (tokens and tokens[-1].kind == NAME and tokens[-1].offset == at):
            close = text.find(f'){raw.group(1)}"', raw.end())
            end = len(text) if close < 0 else close + len(raw.group(1)) + 2
            tokens.append(Token(STRING, text[at:end], at))
            at, line_start = end, False
            continue
        match = _TOKEN.match(text, at)
        assert match is not None and match.lastgroup is not None  # "." and \s cover every character
        kind = _KINDS[match.lastgroup]
        tokens.append(Token(kind, match.group(), at))
        at = match.end()
        if kind == SPACE:
            line_start = line_start or "\n" in match.group()
        elif kind != COMMENT:
            line_start = False
    return tokens
