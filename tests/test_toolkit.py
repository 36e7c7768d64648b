"""Finding nvcc: where it is looked for, what it is asked, and what is said without it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import build, diagnostics, submission, toolkit, tools
from grader.assignment import Assignment
from grader.errors import InfrastructureError
from grader.toolkit import Toolkit

Make = Callable[..., Path]


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without a toolkit: nvcc would be found in the folder that is returned."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "on-path"
    path.mkdir()
    monkeypatch.setenv("PATH", f"{path}:/bin")
    monkeypatch.setenv("CXX", "/bin/true")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    if shutil.which("nvcc"):
        pytest.skip("nvcc is in /bin")
    return path


@pytest.fixture
def tree() -> Make:
    """Makes a toolkit whose nvcc answers as NVIDIA's does."""

    def make(root: Path, release: str = "13.0", target: str = "targets/x86_64-linux") -> Path:
        for folder in ("bin", f"{target}/include", f"{target}/lib"):
            (root / folder).mkdir(parents=True)
        (root / target / "include" / "cuda_runtime.h").touch()
        (root / target / "lib" / "libcudart_static.a").touch()
        bin_folder = root / "bin"
        held = f"{bin_folder}/../{target}"
        (bin_folder / "nvcc").write_text(
            "#!/bin/sh\n"
            f'if [ "$1" = --version ]; then echo "Cuda compilation tools, release {release}, V1"\n'
            "else cat >&2 <<'END'\n"
            f"#$ _HERE_={bin_folder}\n"
            f"#$ TOP={bin_folder}/..\n"
            f'#$ INCLUDES="-I{held}/include"  \n'
            f'#$ LIBRARIES=  "-L{held}/lib/stubs" "-L{held}/lib"\n'
            "#$ gcc -E -x c++ /dev/null\nEND\nfi\n"
        )
        (bin_folder / "nvcc").chmod(0o755)
        return bin_folder / "nvcc"

    return make


@pytest.mark.parametrize("name", ["CUDA_HOME", "CUDA_PATH"])
def test_the_environment_comes_first(
    nowhere: Path, tree: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (nowhere / "nvcc").symlink_to(tree(tmp_path / "other", "12.8"))
    tree(tmp_path / "chosen", "13.0")
    monkeypatch.setenv(name, str(tmp_path / "chosen"))
    found = toolkit.find()
    assert found == Toolkit(
        nvcc=tmp_path / "chosen" / "bin" / "nvcc",
        root=tmp_path / "chosen",
        include=tmp_path / "chosen" / "targets" / "x86_64-linux" / "include",
        libraries=tmp_path / "chosen" / "targets" / "x86_64-linux" / "lib",
        version=(13, 0),
    )
    monkeypatch.delenv(name)
    assert toolkit.find().version == (12, 8)


def test_a_folder_without_nvcc_is_passed_over(
    nowhere: Path, tree: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "empty"))
    (nowhere / "nvcc").symlink_to(tree(tmp_path / "kit"))
    assert toolkit.find().root == tmp_path / "kit"


def test_a_script_in_front_of_nvcc_is_seen_through(
    nowhere: Path, tree: Make, tmp_path: Path
) -> None:
    real = tree(tmp_path / "kit")
    (nowhere / "nvcc").write_text(f'#!/bin/sh\nexec {real} "$@"\n')
    (nowhere / "nvcc").chmod(0o755)
    assert toolkit.find().nvcc == real


def test_wheels_come_last_and_the_newest_of_them_first(
    nowhere: Path, tree: Make, tmp_path: Path
) -> None:
    packages = tmp_path / "site-packages" / "nvidia"
    tree(packages / "cu13", "13.0", ".")
    tree(packages / "cu12", "12.9", ".")
    assert toolkit.find().nvcc == packages / "cu13" / "bin" / "nvcc"
    assert toolkit.find().folders == [packages / "cu13"]
    (nowhere / "nvcc").symlink_to(tree(tmp_path / "kit", "12.8"))
    assert toolkit.find().version == (12, 8)


@pytest.mark.usefixtures("nowhere")
def test_a_machine_without_nvcc_is_told_where_and_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "empty"))
    with pytest.raises(InfrastructureError) as caught:
        toolkit.find()
    said = str(caught.value)
    assert said.startswith(
        f"nvcc is missing: looked in CUDA_HOME ({tmp_path}/empty), PATH, the wheels in "
    )
    assert said.endswith(
        "Fix: install NVIDIA's CUDA toolkit, or make gpu (pip install '.[cuda]') in the repository"
    )
    assert "\n" not in said


@pytest.mark.parametrize(
    ("lost", "name"),
    [
        ("include/cuda_runtime.h", "cuda_runtime.h"),
        ("lib/libcudart_static.a", "libcudart_static.a"),
    ],
)
def test_a_toolkit_that_lacks_a_part_says_which(
    nowhere: Path, tree: Make, tmp_path: Path, lost: str, name: str
) -> None:
    (nowhere / "nvcc").symlink_to(tree(tmp_path / "kit"))
    (tmp_path / "kit" / "targets" / "x86_64-linux" / lost).unlink()
    with pytest.raises(InfrastructureError, match=f"nvcc from PATH comes without {name}: looked"):
        toolkit.find()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo 'nvcc fatal   : no licence' >&2; exit 1",
            "does not work: nvcc fatal   : no licence",
        ),
        ("exit 1", "does not work: it says nothing"),
        ("echo hello", "does not tell its version"),
    ],
)
def test_an_nvcc_that_does_not_work_is_quoted(nowhere: Path, script: str, said: str) -> None:
    (nowhere / "nvcc").write_text(f"#!/bin/sh\n{script}\n")
    (nowhere / "nvcc").chmod(0o755)
    with pytest.raises(InfrastructureError, match=said):
        toolkit.find()


def test_a_program_that_cannot_be_started_is_named(nowhere: Path) -> None:
    (nowhere / "nvcc").write_text("#!/no/such/shell\n")
    (nowhere / "nvcc").chmod(0o755)
    with pytest.raises(InfrastructureError, match="on-path/nvcc does not run: "):
        toolkit.find()


def test_another_nvcc_has_another_identity(nowhere: Path, tree: Make, tmp_path: Path) -> None:
    nvcc = tree(tmp_path / "kit")
    (nowhere / "nvcc").symlink_to(nvcc)
    before = toolkit.find().identity
    assert toolkit.find().identity == before
    nvcc.write_text(nvcc.read_text() + "# upgraded\n")
    assert toolkit.find().identity != before


def test_only_folders_outside_of_usr_have_to_be_shown() -> None:
    there = Path("/usr/local/cuda")
    assert (
        Toolkit(there / "bin/nvcc", there, there / "include", there / "lib64", (13, 0)).folders
        == []
    )
    opt = Path("/opt/cuda")
    kit = Toolkit(opt / "bin/nvcc", opt, opt / "include", Path("/opt/libraries"), (13, 0))
    assert kit.folders == [opt, Path("/opt/libraries")]


def test_its_headers_are_known_as_nvcc_names_them(
    nowhere: Path, tree: Make, tmp_path: Path
) -> None:
    (nowhere / "nvcc").symlink_to(tree(tmp_path / "kit"))
    folders = toolkit.find().header_folders
    for header in (
        f"{tmp_path}/kit/targets/x86_64-linux/include/cuda_fp16.hpp",
        f"{tmp_path}/kit/bin/../targets/x86_64-linux/include/cuda_fp16.hpp",
        f"{tmp_path}/kit/bin/../include/cccl/cuda_fp16.hpp",
    ):
        assert diagnostics.without(header, folders) == "cuda_fp16.hpp"


def test_the_toolkit_of_this_machine(nvidia: Toolkit) -> None:
    assert (nvidia.include / "cuda_runtime.h").is_file()
    assert (nvidia.libraries / "libcudart_static.a").is_file()
    said = subprocess.run([nvidia.nvcc, "--version"], capture_output=True, text=True, check=True)
    assert f"release {nvidia.version[0]}.{nvidia.version[1]}," in said.stdout
    assert nvidia.nvcc.is_relative_to(nvidia.root)
    assert tools.identity(nvidia.nvcc) in nvidia.identity


@pytest.mark.slow
def test_the_wheels_of_the_extra_are_a_toolkit(
    root: Path,
    saxpy: Assignment,
    submissions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extra = [name for name in project["optional-dependencies"]["cuda"] if name.startswith("nvidia")]
    python = getattr(sys, "_base_executable", sys.executable)
    packages = tmp_path / "site-packages"
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--target", packages, *extra], check=True
    )
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("KERNEL_GRADER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    if shutil.which("nvcc"):
        pytest.skip("nvcc is in /usr/bin")
    assert toolkit.find().root == packages / "nvidia" / "cu13"
    assert toolkit.find().version == (13, 0)
    for name in ("right", "two_files"):
        read = submission.read(submissions / "saxpy" / name, saxpy)
        module = build.build(read, saxpy, backend="cuda")
        assert [usage.registers > 0 for usage in module.usage] == [True]
