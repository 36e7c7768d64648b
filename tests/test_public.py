"""What other programs rely on: the Python interface and the published schema."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import grader
from grader import places
from grader.score import schema


def test_the_public_names_are_sorted_and_there() -> None:
    assert grader.__all__ == sorted(grader.__all__)
    for name in grader.__all__:
        assert callable(getattr(grader, name)), name


def test_every_public_name_is_listed() -> None:
    """Whatever the package imports for its users is in __all__; modules are not listed."""
    source = Path(grader.__file__).read_text()
    code = source.split('"""')[2]
    imported = set(re.findall(r"^    (\w+),$|import .*?(\w+)$", code, re.MULTILINE))
    names = {name for pair in imported for name in pair if name}
    assert names <= {*grader.__all__}


@pytest.mark.parametrize("name", grader.__all__)
def test_every_public_name_is_explained(name: str) -> None:
    assert (getattr(grader, name).__doc__ or "").strip()


def test_the_published_schema_is_up_to_date() -> None:
    """Write it anew, in the repository:

    python -c "import json, grader.score as s; print(json.dumps(s.schema(), indent=2))" \\
        > grader/score.schema.json
    """
    published = (places.PACKAGE / "score.schema.json").read_text(encoding="utf-8")
    assert published == json.dumps(schema(), indent=2) + "\n"


def test_importing_the_package_is_light() -> None:
    """hypothesis is imported when cases are drawn, rich when there is a terminal."""
    program = (
        "import sys, grader, grader.cli\n"
        "print([name for name in ('hypothesis', 'rich', 'pybind11') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=places.PACKAGE.parent,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", sorted(places.PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_the_grader_knows_no_assignment(path: Path, root: Path) -> None:
    names = [folder.name for folder in (root / "assignment").iterdir() if folder.is_dir()]
    assert not [name for name in names if name in path.read_text().lower()]
