"""Declarations of variables in shared and in device memory."""

from __future__ import annotations

import itertools

if __package__:
    from grader.emulator.edits import Edits
    from grader.emulator.refusals import SHARED_INITIALIZER
else:  # run as a script, without the package
    from edits import Edits  # type: ignore[import-not-found, no-redef]
    from refusals import SHARED_INITIALIZER  # type: ignore[import-not-found, no-redef]

VARIABLE_KEYWORDS = ("__device__", "__constant__", "__managed__")
_SPECIFIERS = {"static", "extern", "volatile", "const", "inline", "__align__", "alignas"}


class Variables(Edits):
    """Gives shared variables fresh bytes per block, and tells the runtime of device variables."""

    # ----------------------------------------------------------------------------- shared memory

    def _shared(self, position: int) -> None:
        source = self.source
        start = position
        while source.at(start - 1) in _SPECIFIERS or (
            source.at(start - 1) == ")"
            and source.at(source.partner.get(start - 1, 0) - 1) in _SPECIFIERS
        ):
            start = source.partner[start - 1] - 1 if source.at(start - 1) == ")" else start - 1
        end = position
        while end < len(source.code) and source.at(end) != ";":
            if source.at(end) == "{" and end not in source.partner:
                return
            end = source.partner.get(end, end) if source.at(end) in ("(", "[", "{") else end
            end += 1
        external = False
        for at in range(start, end):
            text = source.at(at)
            if text in ("static", "extern") and (
                at < position or source.at(at - 1) in _SPECIFIERS | {"__shared__"}
            ):
                external = external or text == "extern"
                self._blank(at)
            if text == "alignas" and at > position:
                self._replace(at, "__align__")
        names = self._declarators(position + 1, end)
        if external:
            for name in names:
                self._insert_before(name, "(&")
                self._insert_after(name, ")")
                close = name
                while source.at(close + 1) == "[":
                    close = source.partner[close + 1]
                self._insert_after(close, " = ::__emulator::DynamicShared()")
            self._replace(position, "__EMULATOR_DYNAMIC_SHARED__")
            return
        if source.at(end) != ";":
            return
        self._refuse_initializer(position + 1, end)
        if source.scope[position].function or source.macro:
            register = "__EMULATOR_SHARED__"
        else:
            register = "__EMULATOR_SHARED_GLOBAL__"
        room, made = "0", ""
        if names and not self._declares_type(start, end):
            room, made = "__EMULATOR_ROOM_BYTES__", self._make_room(start, position, end, names)
        calls = "".join(f" {register}({room}, {source.at(name)});" for name in names)
        self._insert_after(end, made + calls)

    def _declares_type(self, start: int, end: int) -> bool:
        """struct Name {...} variable: the name is for what follows, too."""
        words = [self.source.at(at) for at in range(start, end)]
        keywords = ("struct", "union", "class", "enum")
        named = any(a in keywords and b != "{" for a, b in itertools.pairwise(words))
        return named and "{" in words

    def _make_room(self, start: int, position: int, end: int, names: list[int]) -> str:
        """Make the variables members of a structure with room around each, so that an access beyond
        one meets no other; returns what makes their names known behind it."""
        first = self.source.at(names[0])
        self._insert_before(start, f"__EMULATOR_ROOM__({first}) ")
        self._blank(position)
        for name in names:
            after = self._declarator_end(name, end)
            self._insert_before(after, f", __room_after_{self.source.at(name)}")
        known = [f" __EMULATOR_IN_ROOM__({first}, {self.source.at(name)});" for name in names]
        return f" __EMULATOR_ROOM_ENDS__({first});{''.join(known)}"

    def _declarator_end(self, name: int, end: int) -> int:
        """Position of the comma or semicolon behind the declarator of `name`."""
        at = name + 1
        while at < end and self.source.at(at) != ",":
            at = self.source.partner.get(at, at) + 1
        return at

    def _refuse_initializer(self, start: int, end: int) -> None:
        """nvcc does so too: no thread could be the one that initialises."""
        at = start
        while at < end:
            if self.source.at(at) == "=":
                self._refuse(at, SHARED_INITIALIZER)
                return
            at = self.source.partner.get(at, at) + 1

    def _declarators(self, start: int, end: int) -> list[int]:
        """Positions of the names that `start..end` declares: int a[3], *b, c;"""
        source = self.source
        names: list[int] = []
        last = -1
        at = start
        angle = 0
        while at <= end:
            text = source.at(at)
            if text in ("(", "[", "{") and at in source.partner:
                if text == "(" and source.at(at + 1) in ("&", "*"):  # float (*p)[4]
                    at += 1
                    continue
                at = source.partner[at] + 1
                continue
            if text == "<":
                angle += 1
            elif text in (">", ">>>"):
                angle -= len(text)
            elif angle == 0:
                if text in (",", ";", "=") or at == end:
                    if last >= 0:
                        names.append(last)
                    last = -1
                    if text == "=":
                        while at < end and source.at(at) != ",":
                            at = source.partner.get(at, at) + 1
                        continue
                elif source.is_name(at) and not (
                    source.at(at + 1) in ("::", "<") or text in ("const", "volatile")
                ):
                    last = at
            at += 1
        return names

    # ------------------------------------------------------------------------- device variables

    def _variable(self, position: int) -> None:
        """Tell the runtime the name of a variable in device memory; functions are left alone."""
        source = self.source
        if source.macro or source.scope[position].kind != "namespace":
            return
        start = position
        while start > 0 and source.at(start - 1) not in (";", "}", "{"):
            start -= 1
        end = position
        while end < len(source.code) and source.at(end) != ";":
            if source.at(end) == "(" and source.at(end - 1) not in (
                "__align__",
                "alignas",
                "__attribute__",
            ):
                return  # a function
            if source.at(end) == "{" and end not in source.partner:
                return
            end = source.partner.get(end, end) if source.at(end) in ("(", "[", "{") else end
            end += 1
        head = [source.at(i) for i in range(start, end)]
        if source.at(end) != ";" or {
            "template",
            "extern",
            "using",
            "typedef",
            "constexpr",
            "__shared__",
        } & set(head):
            return
        if any(word in VARIABLE_KEYWORDS for word in head[: position - start]):
            return
        for name in self._declarators(position + 1, end):
            first = name
            while source.at(first - 1) == "::" and source.is_name(first - 2):
                first -= 2
            qualified = "".join(source.at(i) for i in range(first, name + 1))
            self._insert_after(end, f" __EMULATOR_VARIABLE__({source.at(name)}, {qualified});")
