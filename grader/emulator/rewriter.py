"""The edits that make C++17 of CUDA C++; see frontend.py for what they look like."""

from __future__ import annotations

import re

if __package__:
    from grader.emulator.refusals import DEVICE_LAUNCH, INLINE_PTX, refused_header, refused_name
    from grader.emulator.source import Source
    from grader.emulator.tokens import DIRECTIVE
    from grader.emulator.variables import VARIABLE_KEYWORDS, Variables
else:  # run as a script, without the package
    from refusals import (  # type: ignore[import-not-found, no-redef]
        DEVICE_LAUNCH,
        INLINE_PTX,
        refused_header,
        refused_name,
    )
    from source import Source  # type: ignore[import-not-found, no-redef]
    from tokens import DIRECTIVE  # type: ignore[import-not-found, no-redef]
    from variables import (  # type: ignore[import-not-found, no-redef]
        VARIABLE_KEYWORDS,
        Variables,
    )

_DEFINE = re.compile(
    r"(?P<head>\#(?:\s|\\\r?\n)*define(?:\s|\\\r?\n)+(?P<name>\w+)(?P<parameters>\([^()]*\))?)(?P<body>(?:.|\n)*)",
    re.DOTALL,
)
_INCLUDE = re.compile(r"#\s*include\s*[<\"](?P<path>[^>\"]+)[>\"]")
_UNROLL = re.compile(r"#\s*pragma\s+(?:unroll|nounroll)\b")
_NV_PRAGMA = re.compile(r"#\s*pragma\s+(?:nv_\w+|hd_warning_disable|diag_\w+)\b")
# Host functions whose declarations take the place of the call as further arguments.
_CALLED_WITH_PLACE = (
    "cudaFree",
    "cudaFreeAsync",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemset",
    "cudaMemsetAsync",
)


class Rewriter(Variables):
    """Kernels, launches, loops and what else CUDA adds; variables are in their own module."""

    def __init__(self, source: Source, kernel_words: frozenset[str] = frozenset()) -> None:
        super().__init__(source)
        self._kernel_words = kernel_words or _kernel_words(source)
        self._do_whiles: set[int] = set()  # positions of the `while` that ends a do statement
        self._wrapped: set[int] = set()  # kernel bodies
        self._hides_variables = False  # macros may declare variables in device memory

    def run(self) -> str:
        """The rewritten text, with as many lines as before."""
        self._rewrite_directives()
        handlers = {
            "__shared__": self._shared,
            "<<<": self._launch,
            "<<": self._spaced_launch,
            "for": self._loop,
            "while": self._loop,
            "do": self._do,
            "goto": self._goto,
            "asm": self._assembly,
            "__asm__": self._assembly,
            "__asm": self._assembly,
            "__noinline__": self._noinline,
            "cudaLaunchKernel": self._launch_call,
            "cudaLaunchCooperativeKernel": self._launch_call,
            "cudaLaunchKernelExC": self._launch_call,
        } | dict.fromkeys(_CALLED_WITH_PLACE, self._function_pointer)
        for position in range(len(self.source.code)):
            text = self.source.at(position)
            if text in self._kernel_words:
                self._kernel(position)
            elif text in VARIABLE_KEYWORDS:
                self._variable(position)
            elif text in handlers:
                handlers[text](position)
            if self.source.is_name(position):
                before = self.source.at(position - 1)
                reason = refused_name(text, before, self.source.at(position - 2))
                if reason:
                    self._refuse(position, reason)
        code = self._joined()
        return f"{code} __EMULATOR_HIDES_VARIABLES__" if self._hides_variables else code

    # ------------------------------------------------------------------------------- directives

    def _rewrite_directives(self) -> None:
        depth = 0
        for index, token in enumerate(self.source.tokens):
            if token.kind != DIRECTIVE:
                continue
            text = token.text
            depth += bool(re.match(r"#\s*if", text))
            depth -= bool(re.match(r"#\s*endif", text))
            include = _INCLUDE.match(text)
            define = _DEFINE.match(text)
            if include:
                reason = refused_header(include.group("path"))
                if reason and depth:
                    self._replaced[index] = f"#error {reason}" + "\\\n" * text.count("\n")
                elif reason:
                    self.diagnostics.append(self.source.diagnostic(token.offset, reason))
            elif define:
                head, body = define.group("head"), define.group("body")
                macro = Source(
                    body,
                    self.source.name,
                    offset=token.offset + len(head),
                    origin=self.source.text,
                    macro=True,
                )
                rewriter = Rewriter(macro, self._kernel_words)
                self._replaced[index] = head + rewriter.run()
                self._hides_variables |= any(word in body for word in VARIABLE_KEYWORDS)
            elif _UNROLL.match(text) or _NV_PRAGMA.match(text):
                # A hint about registers. Unrolling costs compile time here and buys nothing.
                self._replaced[index] = "\n" * text.count("\n")

    # ---------------------------------------------------------------------------------- kernels

    def _kernel(self, position: int) -> None:
        """Find the body of the kernel declared here, if it has one, and make it a lambda."""
        source = self.source
        at = position + 1
        while at < len(source.code):
            text = source.at(at)
            if text in (";", "{", "}") or text in self._kernel_words:
                return
            if text == "(" and at in source.partner:
                close = source.partner[at]
                after = close + 1
                while source.at(after) in ("noexcept", "__attribute__"):
                    after += 1
                    if source.at(after) == "(" and after in source.partner:
                        after = source.partner[after] + 1
                if source.at(after) == "{" and after in source.partner:
                    self._wrap(at, after)
                    return
                at = close
            at += 1

    def _wrap(self, parameters: int, brace: int) -> None:
        source = self.source
        if brace in self._wrapped:
            return
        self._wrapped.add(brace)
        name = self._name_before(parameters)
        pointers = "".join(
            f', {{"{parameter}", {parameter}}}'
            for parameter in self._pointer_parameters(parameters)
            if not source.macro
        )
        self._insert_after(brace, f" __EMULATOR_KERNEL__({name}{pointers}) {{")
        self._insert_before(source.partner[brace], "}; ")

    def _name_before(self, parenthesis: int) -> str:
        """The kernel's name as text: also `op##_kernel` in a macro and `k<float>` specialised."""
        source = self.source
        start = self._expression_start(parenthesis - 1)
        if source.at(parenthesis - 1) == ">":
            start = parenthesis - 1
            depth = 0
            while start >= 0:
                depth += source.at(start) == ">"
                depth -= source.at(start) == "<"
                start -= 1
                if depth == 0:
                    break
            return source.at(start)
        if source.at(start) in self._kernel_words:  # KERNEL(name)(parameters)
            start, parenthesis = start + 2, min(start + 3, parenthesis)
        return "".join(source.at(i) for i in range(start, parenthesis))

    def _pointer_parameters(self, parenthesis: int) -> list[str]:
        """Names of the parameters that are plainly pointers: T* name, T name[]."""
        source = self.source
        names: list[str] = []
        close = source.partner[parenthesis]
        piece: list[int] = []
        depth = 0
        for position in range(parenthesis + 1, close + 1):
            text = source.at(position)
            if position == close or (text == "," and depth == 0):
                words = [source.at(i) for i in piece]
                if "=" in words:
                    piece = piece[: words.index("=")]
                    words = words[: len(piece)]
                while words[-1:] == ["]"]:
                    piece = [i for i in piece if i < source.partner[piece[-1]]]
                    words = [source.at(i) for i in piece] + ["*"]
                    break
                plain = not any(word in ("...", "(", "#", "##") for word in words)
                last = piece[-1] if piece else -1
                qualifiers = ("const", "__restrict__", "restrict")
                if plain and "*" in words and source.is_name(last):
                    names += [] if source.at(last) in qualifiers else [source.at(last)]
                piece = []
                continue
            depth += text in ("(", "[", "{", "<")
            depth -= text in (")", "]", "}", ">")
            piece.append(position)
        return names

    # --------------------------------------------------------------------------------- launches

    def _expression_start(self, position: int) -> int:
        """Where the postfix expression that ends at `position` begins."""
        source = self.source
        at = position
        while at >= 0:
            text = source.at(at)
            if text in (")", "]", "}") and at in source.partner:
                at = source.partner[at] - 1
                if source.at(at) == ")" and self._is_condition(at):
                    return at + 1  # if (c) (*f)<<<...>>>(x)
                # (*table[i])<<<...>>>: nothing need stand before the bracket
                if not (source.is_name(at) or source.at(at) in (")", "]", ">")):
                    return at + 1
                if source.at(at) in ("return", "else", "do", "case"):
                    return at + 1
                continue
            if text in (">", ">>>"):
                depth = len(text)
                at -= 1
                while at >= 0 and depth:
                    inner = source.at(at)
                    if inner in (")", "]", "}") and at in source.partner:
                        at = source.partner[at]
                    elif set(inner) == {">"}:
                        depth += len(inner)
                    elif inner == "<":
                        depth -= 1
                    at -= 1
                continue
            if not source.is_name(at):
                return at + 1
            before = source.at(at - 1)
            if before == "template":
                at -= 1
                before = source.at(at - 1)
            if before in ("::", ".", "->", "->*", "##"):
                qualifier = source.at(at - 2)
                qualified = source.is_name(at - 2) or qualifier in (">", ")", "]")
                if (before == "::" and not qualified) or qualifier in ("return", "else", "do"):
                    return at - 1
                at -= 2
                continue
            return at
        return 0

    def _is_condition(self, close: int) -> bool:
        """Whether the parenthesis ends the head of a statement."""
        open_ = self.source.partner.get(close, 0)
        return self.source.at(open_ - 1) in ("if", "while", "for", "switch", "constexpr")

    def _launch(self, position: int) -> None:
        close = position + 1
        while close < len(self.source.code) and self.source.at(close) != ">>>":
            close = (
                self.source.partner.get(close, close) if self.source.at(close) in "([{" else close
            )
            close += 1
        if self.source.at(close) == ">>>":
            self._rewrite_launch(position, position, close, close)

    def _spaced_launch(self, position: int) -> None:
        """`k<< <g, b>> >(x)`, which some formatters make of a launch."""
        if self.source.at(position + 1) != "<":
            return
        close = position + 2
        while close < len(self.source.code):
            if self.source.at(close) in ("(", "[", "{"):
                close = self.source.partner.get(close, close)
            elif self.source.at(close) == ">>>":
                return self._rewrite_launch(position, position + 1, close, close)
            elif all(self.source.at(close + i) == ">" for i in range(3)):
                return self._rewrite_launch(position, position + 1, close, close + 2)
            elif self.source.at(close) == ";":
                return
            close += 1

    def _rewrite_launch(self, first: int, open_: int, close: int, last: int) -> None:
        source = self.source
        scope = source.scope[first]
        if scope.device and scope.body in source.partner:  # else a brace is missing somewhere
            self._refuse(first, DEVICE_LAUNCH)
        start = self._expression_start(first - 1)
        configuration = self._text(open_ + 1, close)
        # The configuration moves in front of the kernel: lines are kept by moving no newline.
        configure = f"::__emulator::configure({' '.join(configuration.split())}), "
        for position in range(first, last + 1):
            self._blank(position)
        if source.at(last + 1) == "(" and last + 1 in source.partner:
            self._insert_before(start, "(" + configure)
            self._insert_after(source.partner[last + 1], ")")
        else:
            # #define LAUNCH(k) k<<<g, b>>>, and the arguments follow the macro: LAUNCH(k)(x);
            self._insert_before(start, configure)

    def _launch_call(self, position: int) -> None:
        """cudaLaunchKernel((void*)k, ...): the cast would hide the types of the parameters."""
        source = self.source
        at = position + 1
        if source.at(position) == "cudaLaunchKernelExC" and at in source.partner:
            while at < source.partner[position + 1] and source.at(at) != ",":
                at = source.partner.get(at, at) + 1 if at > position + 1 else at + 1
        words = [source.at(at + i) for i in range(1, 8)]
        for cast in (["void", "*"], ["const", "void", "*"], ["void", "const", "*"]):
            end = 1 + len(cast)
            if words[: end + 1] == ["(", *cast, ")"]:
                blanked = range(1, end + 2)
            elif words[: end + 2] == ["reinterpret_cast", "<", *cast, ">"]:
                blanked = range(1, end + 3)
            else:
                continue
            for i in blanked:
                self._blank(at + i)

    def _function_pointer(self, position: int) -> None:
        """cudaFree as a value: unique_ptr<float, decltype(&cudaFree)>."""
        if self.source.at(position + 1) != "(":
            self._replace(position, f"__emulator_{self.source.at(position)}")

    # ------------------------------------------------------------------------------------ steps

    def _loop(self, position: int) -> None:
        open_ = position + 1
        if self.source.at(position) == "while":
            # the end of a do statement, perhaps one that another macro began
            orphan = self.source.at(position - 1) == "}" and position - 1 not in self.source.partner
            if position in self._do_whiles or orphan:
                return
        if self.source.at(open_) == "(" and open_ in self.source.partner:
            self._insert_after(self.source.partner[open_], " __EMULATOR_STEP__ ")

    def _do(self, position: int) -> None:
        source = self.source
        at = position + 1
        if source.at(at) == "{":
            if at not in source.partner:
                return
            at = source.partner[at] + 1
        else:
            while at < len(source.code) and source.at(at) != ";":
                at = source.partner.get(at, at) + 1
            at += 1
        if source.at(at) != "while":
            return
        self._do_whiles.add(at)
        once = source.at(at + 2) in ("0", "false") and source.at(at + 3) == ")"
        if not once:
            self._insert_after(position, " __EMULATOR_STEP__ ")

    def _goto(self, position: int) -> None:
        self._insert_before(position, "__EMULATOR_STEP__ ")

    # ------------------------------------------------------------------------------------- others

    def _noinline(self, position: int) -> None:
        """CUDA's keyword cannot be a macro: the C++ library uses the word in its attributes."""
        if self.source.at(position - 1) not in ("(", ","):
            self._replace(position, "__attribute__((noinline))")

    def _assembly(self, position: int) -> None:
        """Inline PTX; an empty template is only a compiler fence and may stay."""
        at = position + 1
        while self.source.at(at) in ("volatile", "__volatile__", "goto", "inline"):
            at += 1
        if self.source.at(at) == "(" and self.source.at(at + 1) != '""':
            self._refuse(position, INLINE_PTX)


def _kernel_words(source: Source) -> frozenset[str]:
    """`__global__` and the macros that hide it: #define KERNEL(name) __global__ void name."""
    words = {"__global__"}
    for token in source.tokens:
        define = _DEFINE.match(token.text) if token.kind == DIRECTIVE else None
        if (
            define
            and re.search(r"\b__global__\b", define.group("body"))
            and "{" not in define.group("body")
        ):
            words.add(define.group("name"))
    return frozenset(words)
