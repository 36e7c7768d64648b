"""How close right results came to what is allowed: the worst of each output of each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Margin:
    """used: the largest error of an output as a fraction of the allowed one (infinity when it is
    not finite). case: in words, where that was."""

    part: str
    test: str
    output: str
    used: float
    case: str

    def __str__(self) -> str:
        return f"{self.part}.{self.test}: {self.output}: {self.used:.2f} of the bound [{self.case}]"


@dataclass
class Margins:
    """Filled by the checks of a submission, which may run side by side: each test of a part has
    keys of its own. Large cases, which are compared on the GPU, are not among them."""

    _worst: dict[Key, Margin] = field(default_factory=dict)

    def note(self, margin: Margin) -> None:
        """Keep it if it is the worst so far of its output in its test."""
        key = (margin.part, margin.test, margin.output)
        if key not in self._worst or margin.used > self._worst[key].used:
            self._worst[key] = margin

    def __iter__(self) -> Iterator[Margin]:
        return iter(self._worst.values())
