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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader import places
from grader.errors import AssignmentError, UsageError, did_you_mean
from grader.manifest import Part, Test, read

Array = NDArray[Any]
Dims = Mapping[str, int]

# Of the symmetries of a part: what grader/native/gpu/arrays.cu has room for, and what keeps the
# product of all factors of an element within the range of float32.
MAX_FACTORS = 4
MAX_EXPONENT = 30


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


@dataclass(frozen=True)
class Factor:
    """A symmetry of a part: multiplying all of `arrays`, inputs and outputs, by the same factors
    +-2**k with |k| <= exponent carries right results into right results, exactly.

    along: the dimension that has a factor per index; None is one factor for everything. Timing
    makes fresh data that way without another reference (`grader.variation`).
    """

    arrays: tuple[str, ...]
    along: str | None
    exponent: int = 0


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

    @property
    def batch(self) -> str | None:
        """The dimension whose indices are independent problems, if there is one: they may come in
        any order and several times, and an output without it is a sum over them."""
        batch: str | None = getattr(self.reference, "BATCH", None)
        return batch

    def factors(self, part: Part) -> tuple[Factor, ...]:
        """The symmetries of a part; none when the reference names none."""
        known: Mapping[str, tuple[Factor, ...]] = getattr(self.reference, "FACTORS", {})
        return known.get(part.id, ())

    def linear(self, part: Part) -> str | None:
        """The input in which every output of the part, all of them sums over the batch, is linear;
        None when the reference names none."""
        known: Mapping[str, str] = getattr(self.reference, "LINEAR", {})
        return known.get(part.id)

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
        """The part's input arrays, by name, for one call."""
        with self._blamed(f"inputs({part.id!r}, {family!r}, {dict(dims)})"):
            inputs: dict[str, NDArray[np.float32]] = self.reference.inputs(
                part.id, family, dims, scale, rng
            )
            for name in part.arguments:
                if name in self.arrays and name not in part.outputs:
                    _check_array(name, inputs[name], np.float32, self.shape(name, dims))
        return inputs

    def expected(
        self, part: Part, dims: Dims, inputs: Mapping[str, NDArray[np.float32]], bound: str
    ) -> dict[str, Expected]:
        """What the part's output arrays must hold for these inputs."""
        function: Callable[..., dict[str, Expected]] = getattr(self.reference, part.id)
        with self._blamed(f"{part.id}({dict(dims)}, inputs, {bound!r})"):
            expected = function(dims, inputs, bound)
            for name in part.outputs:
                shape = self.shape(name, dims)
                _check_array(name, expected[name].value, np.float64, shape)
                _check_array(name, expected[name].scale, np.float64, shape)
        return expected

    @contextmanager
    def _blamed(self, call: str) -> Iterator[None]:
        """Whatever goes wrong in the author's reference.py is an AssignmentError."""
        try:
            yield
        except Exception as error:
            raise AssignmentError(
                f"{self.folder / 'reference.py'}: {call} failed: {type(error).__name__}: {error}"
            ) from error

    def shape(self, array: str, dims: Dims) -> tuple[int, ...]:
        return tuple(dims[dimension] for dimension in self.arrays[array])


def _check_array(name: str, array: Array, dtype: type, shape: tuple[int, ...]) -> None:
    if array.dtype != dtype or array.shape != shape:
        raise ValueError(
            f"{name} is {array.dtype}{list(array.shape)}, not {np.dtype(dtype)}{list(shape)}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} is not finite everywhere")


def load(name: str | Path) -> Assignment:
    """The assignment of that name, or in that folder.

    Raises UsageError for an unknown name and AssignmentError for a broken folder.
    """
    folder = _find(name)
    if not re.fullmatch(r"[\w.+-]+", folder.name):  # it becomes the name of a CMake target, too
        raise AssignmentError(
            f"{folder} is no usable name of an assignment: "
            "call the folder by letters, digits, _ and - only"
        )
    manifest = read(folder / "assignment.toml")
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
    for path, form in ((made.header_path, r"\b{}\s*\("), (made.binding_path, r"\b{}\s*\)")):
        text = path.read_text(encoding="utf-8", errors="replace")
        for part in made.parts:
            if not re.search(form.format(part.launcher), text):
                raise AssignmentError(
                    f"{path} has no {part.launcher}, the launcher of part {part.id} "
                    f"in {folder / 'assignment.toml'}"
                )
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


# Finding and loading -----------------------------------------------------------------------------


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
    if (Path(name) / "assignment.toml").is_file():
        return Path(name).resolve()
    raise UsageError(
        f"unknown assignment {name!r}{did_you_mean(name, known)}; "
        f"known: {', '.join(sorted(known)) or 'none'}"
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
    _check_symmetries(assignment, module)
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


def _check_symmetries(assignment: Assignment, module: ModuleType) -> None:
    """BATCH and FACTORS must name dimensions, parts and arrays that exist."""
    path = assignment.folder / "reference.py"
    batch = getattr(module, "BATCH", None)
    if batch is not None and batch not in assignment.dimensions:
        raise AssignmentError(
            f"{path}: BATCH is the unknown dimension {batch!r}"
            f"{did_you_mean(batch, assignment.dimensions)}"
        )
    parts = {part.id: part for part in assignment.parts}
    for name, array in getattr(module, "LINEAR", {}).items():
        if name not in parts:
            raise AssignmentError(
                f"{path}: LINEAR has the unknown part {name!r}{did_you_mean(name, parts)}"
            )
        inputs = [one for one in parts[name].arguments if one in module.ARRAYS]
        inputs = [one for one in inputs if one not in parts[name].outputs]
        if array not in inputs or batch not in module.ARRAYS[array]:
            raise AssignmentError(
                f"{path}: LINEAR of {name} is {array!r}, which is no input of that part with the "
                f"dimension of BATCH{did_you_mean(array, inputs)}"
            )
        if any(batch in module.ARRAYS[output] for output in parts[name].outputs):
            raise AssignmentError(
                f"{path}: LINEAR of {name}: not all outputs of that part are sums over BATCH"
            )
    for name, factors in getattr(module, "FACTORS", {}).items():
        if name not in parts:
            raise AssignmentError(
                f"{path}: FACTORS has the unknown part {name!r}{did_you_mean(name, parts)}"
            )
        for array in module.ARRAYS:
            if sum(array in factor.arrays for factor in factors) > MAX_FACTORS:
                raise AssignmentError(
                    f"{path}: FACTORS of {name} multiply {array} more than {MAX_FACTORS} times"
                )
        for factor in factors:
            if not 0 <= factor.exponent <= MAX_EXPONENT:
                raise AssignmentError(
                    f"{path}: FACTORS of {name} have the exponent {factor.exponent}, "
                    f"which is not between 0 and {MAX_EXPONENT}"
                )
            for array in factor.arrays:
                if array not in parts[name].arguments or array not in module.ARRAYS:
                    raise AssignmentError(
                        f"{path}: FACTORS of {name} name {array!r}, which is no array of that part"
                        f"{did_you_mean(array, parts[name].arguments)}"
                    )
                if factor.along is not None and factor.along not in module.ARRAYS[array]:
                    raise AssignmentError(
                        f"{path}: FACTORS of {name}: {array} has no dimension {factor.along!r}"
                        f"{did_you_mean(factor.along, module.ARRAYS[array])}"
                    )
