"""What an assignment.toml says: the dimensions, the parts, the tests and their cases.

Every name is checked to refer to something, and every test to be able to fail: an author learns of
a slip when the file is read, not from a strange score.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from grader.errors import AssignmentError, did_you_mean

MAX_POINTS = 1e6
MAX_DRAWS = 1000


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


class Slope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Marks for speed: none up to `zero`, all from `full` on, both fractions of the memory ceiling;
    linear in between."""

    zero: float
    full: float


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
    large: tuple[dict[str, int], ...] = ()  # shapes for a GPU only
    shapes: tuple[dict[str, int], ...] = ()  # that a speed test times
    marks: dict[str, dict[str, Slope]] = {}  # of a speed test: backend -> part -> slope


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kernel launcher that a submission implements."""

    id: str
    title: str
    launcher: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    points: dict[str, float]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    version: str
    source: str
    header: str
    dimensions: dict[str, str]
    parts: tuple[Part, ...]
    tests: dict[str, Test]


def read(toml: Path) -> Manifest:
    """Read and validate an assignment.toml.

    Raises AssignmentError: what is wrong, with the line, the key and the name that was meant.
    """
    try:
        text = toml.read_text(encoding="utf-8")
        manifest = msgspec.convert(tomllib.loads(text), Manifest)
    except OSError as error:
        raise AssignmentError(f"cannot read {toml}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AssignmentError(f"{toml} is not UTF-8 text") from None
    except msgspec.ValidationError as error:
        raise AssignmentError(_explain(toml, text, str(error))) from None
    except ValueError as error:  # tomllib's own, and what int() says to thousands of digits
        raise AssignmentError(f"{toml} is not valid TOML: {error}") from None
    except RecursionError:
        raise AssignmentError(f"{toml} is not valid TOML: it is nested too deeply") from None
    _validate(toml, text, manifest)
    return manifest


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
        fields = [*Manifest.__struct_fields__, *Part.__struct_fields__]
        fields += [*Test.__struct_fields__, *Range.__struct_fields__, *Slope.__struct_fields__]
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


def _validate(toml: Path, text: str, manifest: Manifest) -> None:
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
            if not 0 <= points <= MAX_POINTS or abs(points * 10 - round(points * 10)) > 1e-9:
                raise fail(
                    scored, f"part {part.id}: {points} points are not tenths of a point >= 0"
                )
    ids = [part.id for part in manifest.parts]
    for repeated in {name for name in ids if ids.count(name) > 1}:
        raise fail(f'id = "{repeated}"', f"two parts are called {repeated!r}")
    for name, test in manifest.tests.items():
        _validate_test(name, test, manifest, fail)


def _validate_test(
    name: str, test: Test, manifest: Manifest, fail: Callable[[str, str], AssignmentError]
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
    for shape in (*test.large, *test.shapes):
        if min(shape.values(), default=1) < 1:
            raise fail(at, f"test {name}: the shape {shape} has a size below 1")
        if set(shape) != set(manifest.dimensions):
            raise fail(
                at,
                f"test {name}: the shape {shape} must give a size to each of "
                f"{', '.join(manifest.dimensions)} and to nothing else",
            )
    if test.kind == "speed":
        _validate_marks(name, test, manifest, fail)
        return
    if test.shapes or test.marks:
        raise fail(at, f"test {name} is no speed test: it has neither shapes to time nor marks")
    if not test.families:
        raise fail(at, f"test {name} names no input families")
    if not 0 <= test.draws <= MAX_DRAWS:
        raise fail(at, f"test {name}: draws must be 0 to {MAX_DRAWS}, not {test.draws}")
    if test.max_elements < 1:
        raise fail(at, f"test {name}: max_elements must be 1 or more")
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
            if corner[dimension] < 1:
                raise fail(at, f"test {name}: the pinned case {corner} has no size for {dimension}")
        scale = corner.get("scale", 1.0)
        if not isinstance(scale, int | float) or not math.isfinite(scale):
            raise fail("scale", f"test {name}: the scale of a pinned case is no number: {scale!r}")
        ids = [part.id for part in manifest.parts]
        named = corner.get("parts", [])
        if not isinstance(named, list):
            raise fail(at, f"test {name}: the parts of a pinned case are no list: {named!r}")
        for part_id in named:
            if part_id not in ids:
                raise fail(
                    str(part_id),
                    f"test {name}: a pinned case names the unknown part {part_id!r}"
                    + did_you_mean(str(part_id), ids),
                )
        family = corner.get("family", test.families[0])
        if family not in test.families:
            raise fail(
                str(family),
                f"test {name}: a pinned case has the family {family!r}, which "
                f"the test does not list{did_you_mean(str(family), test.families)}",
            )
    for part in manifest.parts:
        cases = [corner for corner in test.pinned if part.id in corner.get("parts", [part.id])]
        if name in part.points and not cases and not test.draws:
            raise fail(at, f"test {name} has no case for the part {part.id}: it could never fail")


def _validate_marks(
    name: str, test: Test, manifest: Manifest, fail: Callable[[str, str], AssignmentError]
) -> None:
    """A speed test that times shapes needs a family of data, and a slope for each of its parts."""
    at = f"tests.{name}"
    if test.large or test.pinned or test.draws:
        raise fail(at, f"test {name} is a speed test: it times shapes and checks no cases")
    if test.shapes and len(test.families) != 1:
        raise fail(at, f"test {name} times shapes: name one input family for them")
    if test.marks and not test.shapes:
        raise fail(at, f"test {name} gives marks but names no shapes to time")
    for backend, slopes in test.marks.items():
        if backend not in ("cpu", "cuda"):
            raise fail(
                backend,
                f"test {name}: marks for the unknown backend {backend!r}"
                + did_you_mean(backend, ("cpu", "cuda")),
            )
        table = f"{at}.marks.{backend}"
        wanted = [part.id for part in manifest.parts if name in part.points]
        for part, slope in slopes.items():
            if part not in wanted:
                raise fail(
                    part,
                    f"test {name}: marks.{backend} names {part!r}, which is no part with points "
                    f"for it{did_you_mean(part, wanted)}",
                )
            if not 0 <= slope.zero < slope.full <= 1:
                raise fail(
                    table,
                    f"test {name}: marks.{backend}.{part} must have 0 <= zero < full <= 1",
                )
        for part in wanted:
            if part not in slopes:
                raise fail(table, f"test {name}: marks.{backend} lacks the part {part}")
