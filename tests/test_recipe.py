"""What a backend's build is told, and what it may see."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import places, recipe
from grader.errors import InfrastructureError
from grader.native_parts import Native
from grader.toolkit import Toolkit

PARTS = Native("0", Path("/opt/k/l/libcudart_static.a"), Path("/cache/binding.o"))


@pytest.mark.parametrize("arch", ["", "sm_9", "90", "sm_90 -o /tmp/x", "compute_90", "sm_90;x"])
def test_an_architecture_is_a_word(arch: str) -> None:
    kit = Toolkit(Path("nvcc"), Path("/"), Path("/"), Path("/"), (13, 0))
    with pytest.raises(InfrastructureError, match="is no architecture of a GPU"):
        recipe.cuda(kit, arch)


def test_a_recipe_shows_what_it_names() -> None:
    kit = Toolkit(
        Path("/opt/k/bin/nvcc"), Path("/opt/k"), Path("/opt/k/i"), Path("/opt/k/l"), (13, 0)
    )
    how = recipe.cuda(kit, "sm_90a", PARTS)
    assert {kit.root, PARTS.binding} <= set(how.readable)
    assert how.leaves_module
    assert "-DARCH=sm_90a" in how.options
    assert not recipe.cuda(kit, "sm_90a").leaves_module
    assert how.across_files() != how
    assert how.across_files().across_files() == how.across_files()
    assert places.EMULATOR not in how.readable
    assert not any("emulator" in option for option in how.options)


def test_the_emulator_compiles_files_as_they_are() -> None:
    how = recipe.cpu(PARTS)
    assert how.units(["a.cu", "b/c.cu"]) == {"a.cu": "a.cu", "b/c.cu": "b/c.cu"}
    assert "./CMakeFiles/submission.dir/cpp/b/c.cu.cpp.o".endswith(how.object_of("b/c.cu"))
    assert places.EMULATOR in how.readable


def test_nvcc_gets_files_whose_names_no_shell_can_misread() -> None:
    kit = Toolkit(Path("nvcc"), Path("/"), Path("/"), Path("/"), (13, 0))
    units = recipe.cuda(kit, "sm_80").units(["$(touch x).cu", "it's.cu"])
    assert list(units.values()) == ["$(touch x).cu", "it's.cu"]
    assert all(unit.strip(".cu").isdigit() for unit in units)
