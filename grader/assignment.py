"""An assignment: a folder that says what to implement, how it is checked and what it is worth.

    assignment.toml   title, dimensions, parts, tests, points
    reference.py      arrays, input families, float64 reference with error scales
    <name>.h          the C contract that a submission implements
    binding.cpp       exposes the launchers to Python

`load` reads and validates one; nothing else in the grader reads these files.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from grader import places
from grader.errors import AssignmentError, UsageError, did_you_mean

Array = NDArray[Any]
Dims = Mapping[str, int]


# What a reference.py is written with -------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """A kind of input data: what it is like, and the decimal exponents its scale is drawn from."""

    title: str
    exponents: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Expected:
    """What one output array must hold.

    value     float64 reference, in the shape of the array
    scale     float64 >= 0, same shape: first-order error scale S of an element
    terms     N, the length of the longest sum behind an element
    mistakes  sentence for a student -> what the array would hold after that well-known mistake

    An element is accepted iff it is finite and |got - value| <= K(N) * 2**-24 * S
    (`grader.compare`).
    """

    value: NDArray[np.float64]
    scale: NDArray[np.float64]
    terms: int
    mistakes: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)


# What an assignment.toml is written with ---------------------------------------------------------


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Legal values of a dimension in a test: min, min + step, ... up to max."""

    min: int
    max: int
    step: int = 1

    def __contains__(self, value: int) -> bool:
        return self.min <= value <= self.max and (value - self.min) % self.step == 0

    def floor(self, value: int) -> int:
        """The largest legal value that is not above `value` (or the smallest legal one)."""
        if value <= self.min:
            return self.min
        return min(value, self.max) - (min(value, self.max) - self.min) % self.step


class Test(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scored test of a part: which cases, which bound. See `assignment.toml`."""

    title: str
    kind: str = "correctness"
    needs: tuple[str, ...] = ()
    bound: str = ""
    families: tuple[str, ...] = ()
    dimensions: dict[str, Range] = {}
    max_elements: int = 65536
    draws: int = 0
    pinned: tuple[dict[str, Any], ...] = ()


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kernel launcher that a submission implements."""

    id: str
    title: str
    launcher: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    points: dict[str, float]


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    version: str
    source: str
    header: str
    dimensions: dict[str, str]
    parts: tuple[Part, ...]
    tests: dict[str, Test]


# The assignment ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assignment:
    """A validated assignment. `id` is the folder's name."""

    id: str
    folder: Path
    title: str
    version: str
    source: str
    header: str
    dimensions: Mapping[str, str]
    parts: tuple[Part, ...]
    tests: Mapping[str, Test]

    @property
    def header_path(self) -> Path:
        return self.folder / self.header

    @property
    def binding_path(self) -> Path:
        return self.folder / "binding.cpp"

    @cached_property
    def reference(self) -> ModuleType:
        """The reference module. Loaded on first use: only the grading side ever needs it."""
        return _load_reference(self)

    @property
    def arrays(self) -> Mapping[str, tuple[str, ...]]:
        """Array name -> names of its dimensions."""
        arrays: Mapping[str, tuple[str, ...]] = self.reference.ARRAYS
        return arrays

    @property
    def families(self) -> Mapping[str, Family]:
        families: Mapping[str, Family] = self.reference.FAMILIES
        return families

    def part(self, name: str) -> Part:
        for part in self.parts:
            if part.id == name:
                return part
        known = [part.id for part in self.parts]
        raise UsageError(
            f"{self.id} has no part {name!r}{did_you_mean(name, known)}; "
            f"its parts are {', '.join(known)}"
        )

    def test(self, name: str) -> Test:
        if name in self.tests:
            return self.tests[name]
        raise UsageError(
            f"{self.id} has no test {name!r}{did_you_mean(name, self.tests)}; "
            f"its tests are {', '.join(self.tests)}"
        )

    def tests_of(self, part: Part) -> list[str]:
        """Ids of the tests that give this part points, in the order they run."""
        return [name for name in self.tests if name in part.points]

    def inputs(
        self, part: Part, family: str, dims: Dims, scale: float, rng: np.random.Generator
    ) -> dict[str, NDArray[np.float32]]:
        inputs: dict[str, NDArray[np.float32]] = self.reference.inputs(
            part.id, family, dims, scale, rng
        )
        return inputs

    def expected(
        self, part: Part, dims: Dims, inputs: Mapping[str, NDArray[np.float32]], bound: str
    ) -> dict[str, Expected]:
        function: Callable[..., dict[str, Expected]] = getattr(self.reference, part.id)
        return function(dims, inputs, bound)

    def shape(self, array: str, dims: Dims) -> tuple[int, ...]:
        return tuple(dims[dimension] for dimension in self.arrays[array])


def load(name: str | Path) -> Assignment:
    """The assignment of that name, or in that folder.

    Raises UsageError for an unknown name and AssignmentError for a broken folder.
    """
    folder = _find(name)
    toml = folder / "assignment.toml"
    try:
        text = toml.read_text(encoding="utf-8")
        manifest = msgspec.convert(tomllib.loads(text), _Manifest)
    except OSError as error:
        raise AssignmentError(f"cannot read {toml}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AssignmentError(f"{toml} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise AssignmentError(f"{toml} is not valid TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise AssignmentError(_explain(toml, text, str(error))) from None
    _validate(toml, text, manifest)
    made = Assignment(
        id=folder.name,
        folder=folder,
        title=manifest.title,
        version=manifest.version,
        source=manifest.source,
        header=manifest.header,
        dimensions=manifest.dimensions,
        parts=manifest.parts,
        tests=manifest.tests,
    )
    for path in (made.header_path, made.binding_path, folder / "reference.py"):
        if not path.is_file():
            raise AssignmentError(f"{folder} has no {path.name}: an assignment needs one")
    return made


def names() -> list[str]:
    """Names of the assignments that are known here."""
    return sorted(_known())


def detect(submission: Path) -> str:
    """The name of the assignment that a submission's files belong to.

    Raises UsageError when the files fit none or several: then it has to be named.
    """
    known = _known()
    if len(known) == 1:
        return next(iter(known))
    sources = {name: load(folder).source for name, folder in known.items()}
    fits = [name for name, source in sources.items() if (submission / source).exists()]
    if len(fits) == 1:
        return fits[0]
    raise UsageError(
        f"cannot tell which assignment {submission} belongs to: "
        f"name it with --assignment, one of {', '.join(sorted(known))}"
    )


# Finding and validating --------------------------------------------------------------------------


def _known() -> dict[str, Path]:
    root = places.assignments()
    return {path.parent.name: path.parent for path in sorted(root.glob("*/assignment.toml"))}


def _find(name: str | Path) -> Path:
    if isinstance(name, Path) or "/" in name:
        folder = Path(name).resolve()
        if not (folder / "assignment.toml").is_file():
            raise UsageError(f"{name} is not an assignment: it has no assignment.toml")
        return folder
    known = _known()
    if name in known:
        return known[name]
    raise UsageError(
        f"unknown assignment {name!r}{did_you_mean(name, known)}; "
        f"known: {', '.join(sorted(known)) or 'none'}"
    )


def _line_of(text: str, key: str) -> int | None:
    """Line of the first mention of a key in TOML text (tomllib itself keeps no positions)."""
    match = re.search(rf"(?m)^[^#\n]*?(?<![\w-]){re.escape(key)}(?![\w-])", text)
    return None if match is None else text.count("\n", 0, match.end()) + 1


def _at(toml: Path, text: str, key: str) -> str:
    line = _line_of(text, key)
    return f"{toml}:{line}" if line else str(toml)


def _explain(toml: Path, text: str, problem: str) -> str:
    """A msgspec sentence with the file, the line and, for a typo, the name that was meant."""
    unknown = re.search(r"unknown field `([^`]+)`", problem)
    where = re.search(r" - at `\$(.*?)`", problem)
    if unknown:
        key = unknown.group(1)
        fields = [*_Manifest.__struct_fields__, *Part.__struct_fields__]
        fields += [*Test.__struct_fields__, *Range.__struct_fields__]
        inside = f" in {where.group(1).lstrip('.')}" if where else ""
        return f"{_at(toml, text, key)}: unknown key {key!r}{inside}{did_you_mean(key, fields)}"
    missing = re.search(r"missing required field `([^`]+)`", problem)
    if missing:
        inside = where.group(1).lstrip(".") if where else "the file"
        return f"{toml}: the key {missing.group(1)!r} is missing in {inside}"
    path = where.group(1).lstrip(".") if where else ""
    named = [word for word in re.findall(r"[A-Za-z_][\w-]*", path) if word in text]
    key = named[-1] if named else ""
    wrong = problem.split(" - at ")[0]
    return f"{_at(toml, text, key) if key else toml}: {path or 'the file'}: {wrong}"


def _validate(toml: Path, text: str, manifest: _Manifest) -> None:
    """Names must refer to something; points must be tenths; corners must be legal."""

    def fail(key: str, sentence: str) -> AssignmentError:
        return AssignmentError(f"{_at(toml, text, key)}: {sentence}")

    if not manifest.parts:
        raise AssignmentError(f"{toml}: an assignment needs at least one [[parts]]")
    for what in ("source", "header"):
        value = getattr(manifest, what)
        if Path(value).name != value:
            raise fail(what, f"{what} must be a plain file name, not {value!r}")
    for part in manifest.parts:
        if not part.id.isidentifier():
            raise fail(part.id, f"the part id {part.id!r} must be a Python identifier")
        for output in part.outputs:
            if output not in part.arguments:
                raise fail(
                    output,
                    f"part {part.id}: the output {output!r} is not among its arguments"
                    + did_you_mean(output, part.arguments),
                )
        for scored, points in part.points.items():
            if scored not in manifest.tests:
                raise fail(
                    scored,
                    f"part {part.id} gives points to the unknown test {scored!r}"
                    + did_you_mean(scored, manifest.tests),
                )
            if points < 0 or abs(points * 10 - round(points * 10)) > 1e-9:
                raise fail(
                    scored, f"part {part.id}: {points} points are not tenths of a point >= 0"
                )
    ids = [part.id for part in manifest.parts]
    for repeated in {name for name in ids if ids.count(name) > 1}:
        raise fail(f'id = "{repeated}"', f"two parts are called {repeated!r}")
    for name, test in manifest.tests.items():
        _validate_test(name, test, manifest, fail)


def _validate_test(
    name: str, test: Test, manifest: _Manifest, fail: Callable[[str, str], AssignmentError]
) -> None:
    at = f"tests.{name}"  # where the table starts
    if test.kind not in ("correctness", "speed"):
        raise fail(test.kind, f"test {name}: kind must be 'correctness' or 'speed'")
    earlier = list(manifest.tests)[: list(manifest.tests).index(name)]
    for need in test.needs:
        if need not in earlier:
            raise fail(
                need,
                f"test {name} needs {need!r}, which is no earlier test"
                + did_you_mean(need, earlier),
            )
    if test.kind == "speed":
        return
    if not test.families:
        raise fail(at, f"test {name} names no input families")
    if not test.pinned and not test.draws:
        raise fail(at, f"test {name} has neither pinned cases nor draws: it could never fail")
    for dimension in manifest.dimensions:
        if dimension not in test.dimensions:
            raise fail(at, f"test {name} does not say the range of the dimension {dimension!r}")
    for dimension, legal in test.dimensions.items():
        if dimension not in manifest.dimensions:
            raise fail(
                dimension,
                f"test {name} has the unknown dimension {dimension!r}"
                + did_you_mean(dimension, manifest.dimensions),
            )
        if legal.min < 1 or legal.max < legal.min or legal.step < 1:
            raise fail(at, f"test {name}: the range of {dimension} is empty")
    extra = {"family", "scale", "parts"}
    for corner in test.pinned:
        for key in corner:
            if key not in manifest.dimensions and key not in extra:
                known = [*manifest.dimensions, *extra]
                raise fail(
                    key,
                    f"test {name}: unknown key {key!r} in a pinned case" + did_you_mean(key, known),
                )
        for dimension in manifest.dimensions:
            if not isinstance(corner.get(dimension), int):
                raise fail(at, f"test {name}: the pinned case {corner} lacks {dimension}")
        family = corner.get("family", test.families[0])
        if family not in test.families:
            raise fail(
                str(family),
                f"test {name}: a pinned case has the family {family!r}, which "
                f"the test does not list{did_you_mean(str(family), test.families)}",
            )


def _load_reference(assignment: Assignment) -> ModuleType:
    path = assignment.folder / "reference.py"
    spec = importlib.util.spec_from_file_location(f"_reference_{assignment.id}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickling look modules up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise AssignmentError(
            f"{path} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    needed = ["ARRAYS", "FAMILIES", "inputs", *(part.id for part in assignment.parts)]
    for name in needed:
        if not hasattr(module, name):
            raise AssignmentError(f"{path} does not define {name}")
    for part in assignment.parts:
        known = [*module.ARRAYS, *assignment.dimensions]
        for argument in part.arguments:
            if argument not in known:
                raise AssignmentError(
                    f"{assignment.folder / 'assignment.toml'}: part {part.id} has the argument "
                    f"{argument!r}, which is neither an array of reference.py nor a dimension"
                    f"{did_you_mean(argument, known)}"
                )
    for name, test in assignment.tests.items():
        for family in test.families:
            if family not in module.FAMILIES:
                raise AssignmentError(
                    f"{assignment.folder / 'assignment.toml'}: test {name} uses the unknown input "
                    f"family {family!r}{did_you_mean(family, module.FAMILIES)}"
                )
    return module
