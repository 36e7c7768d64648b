"""A source file as tokens, with the brackets paired and the scope of every token known."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass, field

if __package__:
    from grader.emulator.tokens import DIRECTIVE, NAME, TRIVIA, Token, tokenize
else:  # run as a script, without the package
    from tokens import DIRECTIVE, NAME, TRIVIA, Token, tokenize  # type: ignore[import-not-found, no-redef]

_DIRECTIVE = re.compile(r"#\s*(\w*)")
_OPEN = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Diagnostic:
    """A refusal, printed the way compilers print errors."""

    name: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.name}:{self.line}:{self.column}: error: {self.message}"


@dataclass(frozen=True)
class Scope:
    """What a pair of braces encloses."""

    kind: str  # "namespace" | "class" | "function" | "other"
    device: bool = False  # code that only ever runs on the device
    function: bool = False  # inside the body of a function, at any depth
    body: int = -1  # where the body of that function begins


_FILE_SCOPE = Scope("namespace")


@dataclass
class Source:
    """Tokens of one file. Positions are indices into `code`, the tokens without the trivia."""

    text: str
    name: str
    tokens: list[Token] = field(init=False)
    code: list[int] = field(init=False)  # indices of the significant tokens
    partner: dict[int, int] = field(init=False, default_factory=dict)  # bracket -> its other half
    scope: list[Scope] = field(init=False, default_factory=list)  # of every significant token
    conditional: list[bool] = field(init=False, default_factory=list)  # inside #if ... #endif
    offset: int = 0  # of this text in the file: a macro body is a source of its own
    origin: str = ""  # the whole file, for line numbers
    macro: bool = False  # a macro body

    def __post_init__(self) -> None:
        self.origin = self.origin or self.text
        self.tokens = tokenize(self.text, directives=not self.macro)
        self.code = [i for i, token in enumerate(self.tokens) if token.kind not in TRIVIA]
        self._pair_and_scope()
        self._lines = [match.end() for match in re.finditer("\n", self.origin)]

    def at(self, position: int) -> str:
        """Text of a significant token; "" beyond either end."""
        return self.tokens[self.code[position]].text if 0 <= position < len(self.code) else ""

    def is_name(self, position: int) -> bool:
        """Whether the token is an identifier or keyword."""
        return 0 <= position < len(self.code) and self.tokens[self.code[position]].kind == NAME

    def diagnostic(self, offset: int, message: str) -> Diagnostic:
        """A refusal at a character of this text."""
        at = offset + self.offset
        line = bisect.bisect_right(self._lines, at)
        start = self._lines[line - 1] if line else 0
        return Diagnostic(self.name, line + 1, at - start + 1, message)

    def _pair_and_scope(self) -> None:
        """One walk over the tokens. Each branch of an #if starts from the state at its #if."""
        State = tuple[list[int], list[Scope], int]
        brackets: list[int] = []
        scopes: list[Scope] = [_FILE_SCOPE]
        branches: list[State] = []
        start = 0  # where the current declaration or statement began
        position = -1
        for token in self.tokens:
            if token.kind == DIRECTIVE:
                match = _DIRECTIVE.match(token.text)
                word = match.group(1) if match else ""
                if word in ("if", "ifdef", "ifndef"):
                    branches.append((brackets.copy(), scopes.copy(), start))
                elif word in ("else", "elif", "elifdef", "elifndef") and branches:
                    brackets, scopes, start = (
                        branches[-1][0].copy(),
                        branches[-1][1].copy(),
                        branches[-1][2],
                    )
                elif word == "endif" and branches:
                    branches.pop()
                continue
            if token.kind in TRIVIA:
                continue
            position += 1
            self.conditional.append(bool(branches))
            text = token.text
            if text == "}" and len(scopes) > 1:
                scopes.pop()
            self.scope.append(scopes[-1])
            if text in _OPEN:
                brackets.append(position)
                if text == "{":
                    scopes.append(self._scope_of(start, position, scopes[-1]))
            elif brackets and _OPEN[self.at(brackets[-1])] == text:
                other = brackets.pop()
                self.partner[position] = other
                self.partner[other] = position
            in_parentheses = any(self.at(open_) == "(" for open_ in brackets[-1:])
            if text in ("{", "}", ";") and not in_parentheses:
                start = position + 1

    def _scope_of(self, start: int, brace: int, outer: Scope) -> Scope:
        """What the brace at `brace` opens, judged by the tokens of its declaration."""
        head: list[str] = []
        depth = 0
        for position in range(start, brace):
            text = self.at(position)
            depth -= text in ")]"
            if depth == 0:
                head.append(text)
            depth += text in "(["
        if outer.function:
            return Scope("other", outer.device, True, outer.body)
        if "namespace" in head or (head[:1] == ["extern"] and len(head) == 2):
            return Scope("namespace")
        if "(" in head and "=" not in head[: head.index("(")]:
            attributes = {"__align__", "alignas", "__attribute__", "__launch_bounds__"}
            calls = [head[i - 1] if i else "" for i, text in enumerate(head) if text == "("]
            if any(call not in attributes for call in calls):
                device = "__global__" in head or ("__device__" in head and "__host__" not in head)
                return Scope("function", device, True, brace)
        if any(word in head for word in ("class", "struct", "union")) and "=" not in head:
            return Scope("class")
        return Scope("other", outer.device, "[" in head or outer.function)
