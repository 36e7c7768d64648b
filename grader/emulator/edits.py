"""Edits of a source, token by token: nothing ever moves to another line."""

from __future__ import annotations

if __package__:
    from grader.emulator.source import Diagnostic, Source
    from grader.emulator.tokens import SPACE
else:  # run as a script, without the package
    from source import Diagnostic, Source  # type: ignore[import-not-found, no-redef]
    from tokens import SPACE  # type: ignore[import-not-found, no-redef]


class Edits:
    """Collects insertions and replacements per token, then joins the tokens."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self._before: dict[int, list[str]] = {}
        self._after: dict[int, list[str]] = {}
        self._replaced: dict[int, str] = {}

    def _joined(self) -> str:
        """The edited text."""
        parts: list[str] = []
        index_of = {index: position for position, index in enumerate(self.source.code)}
        for index, token in enumerate(self.source.tokens):
            position = index_of.get(index, -1)
            parts += self._before.get(position, []) if position >= 0 else []
            parts.append(self._replaced.get(index, token.text))
            parts += reversed(self._after.get(position, [])) if position >= 0 else []
        return "".join(parts)

    def _insert_before(self, position: int, text: str) -> None:
        self._before.setdefault(position, []).append(text)

    def _insert_after(self, position: int, text: str) -> None:
        self._after.setdefault(position, []).append(text)

    def _replace(self, position: int, text: str) -> None:
        self._replaced[self.source.code[position]] = text

    def _refuse(self, position: int, message: str) -> None:
        """An error; where an #if may hide the construct, one for the preprocessor to give."""
        if self.source.macro or self.source.conditional[position]:
            self._insert_before(position, f'_Pragma("GCC error \\"{message}\\"") ')
        else:
            token = self.source.tokens[self.source.code[position]]
            self.diagnostics.append(self.source.diagnostic(token.offset, message))

    def _text(self, start: int, stop: int) -> str:
        """Source between two tokens without comments."""
        pieces = []
        for index in range(self.source.code[start], self.source.code[stop]):
            token = self.source.tokens[index]
            pieces.append(token.text if token.kind in (SPACE,) or index in self._codes else " ")
        return "".join(pieces)

    @property
    def _codes(self) -> set[int]:
        if not hasattr(self, "_code_set"):
            self._code_set = set(self.source.code)
        return self._code_set

    def _blank(self, position: int) -> None:
        """Remove a token, and the comments or newlines stay."""
        self._replace(position, "")
