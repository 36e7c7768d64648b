"""The emulator's counters: programs whose counts were derived by hand, in their comments.

`// expect KERNEL: COUNTER = NUMBER, ...` is what every launch of the kernel must count; `~`
for `=` means within 5 %, and `<` and `>` what they say. `// machine: ...` and
`// sample: BLOCKS` are settings of the run.
"""

from __future__ import annotations

import json
import operator
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.emulator.program import build, runtime_library

PROGRAMS = Path(__file__).parent / "emulator" / "meter"
COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.cu"))
SAMPLED = {"sampled_uniform": ("rows",)}
# scaled by nothing: how much was looked at, and what is left in a cache of which blocks have a part
UNSCALED = {"accesses", "dram_write_sectors", "dirty_sectors_left"}
HOLDS: dict[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "~": lambda value, number: abs(value - number) <= number / 20,
}


@pytest.fixture(scope="session")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The runtime library, built once for every compiler."""
    folder = tmp_path_factory.mktemp("meter")
    return {cxx: runtime_library(cxx, folder / cxx) for cxx in COMPILERS}


def settings(source: Path) -> dict[str, str]:
    """What the program's comments ask for."""
    found = re.findall(r"^// (machine|sample): (.*)$", source.read_text(), re.MULTILINE)
    return {key.upper(): value for key, value in found}


def count(program: Path, **options: str) -> dict[str, Any]:
    """Run a program with the counters on; its counters."""
    environment = os.environ | {f"EMULATOR_{key}": value for key, value in options.items()}
    environment["EMULATOR_COUNT"] = "1"
    done = subprocess.run(
        [program], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counted: dict[str, Any] = json.loads(done.stderr)
    return counted


def expectations(source: Path) -> list[tuple[str, str, str, int]]:
    """(kernel, counter, relation, number) for everything that the comments expect."""
    found = []
    for kernel, text in re.findall(r"^// expect (\w+): (.*)$", source.read_text(), re.MULTILINE):
        for item in text.split(", "):
            counter, relation, number = item.split(" ")
            found.append((kernel, counter, relation, int(number)))
    return found


def launches(counted: dict[str, Any], kernel: str) -> list[dict[str, Any]]:
    return [launch for launch in counted["launches"] if launch["kernel"] == kernel]


@pytest.mark.parametrize("cxx", COMPILERS)
@pytest.mark.parametrize("name", NAMES)
def test_counts(name: str, cxx: str, tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """Every number that was derived by hand is what is counted."""
    source = PROGRAMS / f"{name}.cu"
    program = tmp_path / name
    build([source], program, cxx=cxx, runtime=runtimes[cxx])
    counted = count(program, **settings(source))
    expected = expectations(source)
    assert expected
    for kernel, counter, relation, number in expected:
        found = launches(counted, kernel)
        assert found, kernel
        for launch in found:
            value = launch["counters"][counter]
            assert HOLDS[relation](value, number), f"{kernel}: {counter} is {value}, not {number}"


@pytest.mark.skipif(len(COMPILERS) < 2, reason="needs g++ and clang++")
@pytest.mark.parametrize("name", NAMES)
def test_same_for_all(name: str, tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """The counters, of every line too, are the same for every compiler, optimisation and run."""
    source = PROGRAMS / f"{name}.cu"
    counted = []
    for cxx, level in (("g++", "-O2"), ("clang++", "-O2"), ("g++", "-O1"), ("clang++", "-O1")):
        program = tmp_path / f"{name}{level}{cxx}"
        build([source], program, cxx=cxx, options=[level], runtime=runtimes[cxx])
        counted.append(count(program, **settings(source)))
    counted.append(count(program, **settings(source)))
    for other in counted[1:]:
        assert other == counted[0]


@pytest.mark.parametrize("name", ["coalescing", "banks", "atomics"])
def test_order_of_lanes_does_not_matter(
    name: str, tmp_path: Path, runtimes: dict[str, Path]
) -> None:
    """Lanes, warps and blocks may run in any order: requests and waves stay the same."""
    source = PROGRAMS / f"{name}.cu"
    build([source], tmp_path / name, runtime=runtimes["g++"])
    ascending, *others = (count(tmp_path / name, SCHEDULE=str(seed)) for seed in (0, 1, 7))
    for other in others:
        assert other == ascending


@pytest.mark.parametrize("name", SAMPLED)
def test_sample_tells_the_same(name: str, tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """A sample of the blocks, scaled up, counts what all of them do."""
    build([PROGRAMS / f"{name}.cu"], tmp_path / name, runtime=runtimes["g++"])
    whole, sampled = count(tmp_path / name), count(tmp_path / name, SAMPLE="20")
    for kernel in SAMPLED[name]:
        (all_blocks,), (some,) = launches(whole, kernel), launches(sampled, kernel)
        assert some["sampled_blocks"] < 40 < all_blocks["sampled_blocks"]
        for counter, number in all_blocks["counters"].items():
            if counter not in UNSCALED:
                assert some["counters"][counter] == number, counter
        for one, other in zip(all_blocks["lines"], some["lines"], strict=True):
            assert one == other


def test_fewer_accesses_on_demand(tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """Heavy blocks are sampled more thinly, and count the same."""
    build([PROGRAMS / "sampled_uniform.cu"], tmp_path / "p", runtime=runtimes["g++"])
    many = count(tmp_path / "p", SAMPLE="100")
    few = count(tmp_path / "p", SAMPLE="100", ACCESSES="10000", MACHINE="max_blocks_per_sm=2")
    (one,), (other,) = launches(many, "rows"), launches(few, "rows")
    assert other["sampled_blocks"] < one["sampled_blocks"]
    assert other["counters"]["accesses"] < 25_000
    assert other["counters"]["global_load_sectors"] == one["counters"]["global_load_sectors"]


def test_truncated(tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """A launch that is given up says so, is no error, and leaves the next one alone."""
    source = PROGRAMS / "endless.cu"
    build([source], tmp_path / "endless", runtime=runtimes["g++"])
    counted = count(tmp_path / "endless", **settings(source))
    waits, after = counted["launches"]
    assert waits["truncated"]
    assert 10_000 <= waits["counters"]["accesses"] <= 10_001
    assert not after["truncated"]


def test_report(tmp_path: Path, runtimes: dict[str, Path]) -> None:
    """Launches, lines of the source with the arrays they use, and calls of the API."""
    source = tmp_path / "report.cu"
    source.write_text(
        "__global__ void gather(float* out, const float* inp, const float* weight) {\n"
        "    __shared__ float row[64];\n"
        "    extern __shared__ float more[];\n"
        "    int i = threadIdx.x;\n"
        "    row[i] = more[i] = inp[2 * i];\n"
        "    __syncthreads();\n"
        "    out[i] = row[63 - i]\n"
        "             * weight[0];\n"
        "}\n"
        "int main() {\n"
        "    float *a, *b;\n"
        "    cudaMalloc(&a, 1024); cudaMalloc(&b, 1024);\n"
        "    cudaMemset(a, 0, 1024);\n"
        "    float here[16]; cudaMemcpy(here, a, 64, cudaMemcpyDeviceToHost);\n"
        "    cudaMemcpy(b, here, 32, cudaMemcpyDefault); cudaMemcpy(b, a, 16, cudaMemcpyDefault);\n"
        "    gather<<<dim3(1, 3), 64, 512>>>(b, a, a);\n"
        "}\n"
    )
    build([source], tmp_path / "report", runtime=runtimes["g++"])
    counted = count(tmp_path / "report")
    assert counted["api"] == [
        {"call": "cudaMemset", "bytes": 1024},
        {"call": "cudaMemcpy host", "bytes": 64},
        {"call": "cudaMemcpy host", "bytes": 32},
        {"call": "cudaMemcpy", "bytes": 16},
    ]
    (launch,) = counted["launches"]
    assert (launch["kernel"], launch["file"], launch["line"]) == ("gather", "report.cu", 16)
    assert (launch["grid"], launch["block"]) == ([1, 3, 1], [64, 1, 1])
    assert (launch["shared_static"], launch["shared_dynamic"]) == (256, 512)
    assert not launch["truncated"]
    lines = {(x["line"], x["kind"], x["buffer"]): x for x in launch["lines"]}
    assert set(lines) == {
        (5, "load", "inp"),
        (5, "shared_store", "row"),
        (5, "shared_store", "dynamic shared memory"),
        (7, "shared_load", "row"),
        (7, "store", "out"),
        (8, "load", "inp"),
    }
    # 6 warps; every second float of 256 bytes
    read = lines[5, "load", "inp"]
    assert (read["requests"], read["sectors"], read["ideal_sectors"]) == (6, 48, 24)
    stored = lines[5, "shared_store", "row"]
    assert (stored["waves"], stored["ideal_waves"]) == (6, 6)


@pytest.mark.parametrize(
    ("machine", "threads", "blocks"),
    [
        ("", 256, 8),  # 2048 threads
        ("", 1024, 2),
        ("", 100, 16),  # 4 warps
        ("", 32, 32),  # no more blocks than that
        ("registers:k=64", 256, 4),  # 64 * 256 of 65536
        ("registers:other=64", 256, 8),
        ("shared_per_sm=8192", 256, 2),  # 3072 bytes and 1024 of the system's
        ("max_blocks_per_sm=3", 256, 3),
    ],
)
def test_blocks_per_sm(
    machine: str, threads: int, blocks: int, tmp_path: Path, runtimes: dict[str, Path]
) -> None:
    """How many blocks are resident together: threads, blocks, shared memory, registers."""
    source = tmp_path / "k.cu"
    source.write_text(
        "__global__ void k(float* out) {\n"
        "    __shared__ float s[768];\n"
        "    s[threadIdx.x % 768] = 1; out[threadIdx.x] = s[threadIdx.x % 768];\n"
        "}\n"
        f"int main() {{ float* out; cudaMalloc(&out, 4096); k<<<1, {threads}>>>(out); }}\n"
    )
    build([source], tmp_path / "k", runtime=runtimes["g++"])
    (launch,) = count(tmp_path / "k", MACHINE=machine)["launches"]
    assert launch["blocks_per_sm"] == blocks
