"""The LayerNorm solution on a GPU, against the memory and against its peers: `make bench-gpu`.

    python tests/bench_gpu.py [--out FOLDER] [--no-peers] [--shape ROWSxHIDDEN]...

Needs an NVIDIA GPU, nvcc and PyTorch; peers are measured if they can be imported. Writes bench.json
and bench.md into FOLDER (tests/gpu) and prints what was measured. Exit status: 0 when all goals are
met, 1 when some are not, 3 when this machine cannot measure.

Everything is measured in one process by one method: a CUDA graph of back-to-back calls over several
sets of buffers, so many that each call finds its arrays outside the L2 cache; the median of 11
replays, divided by the number of calls.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.bench_gpu_report import GOALS, PARTS, STREAMS, Cell, markdown, missed  # noqa: E402

CANNOT = 3
ROTATED_BYTES = 320_000_000  # several times the L2 cache of an H200
MOST_SETS = 48
REPLAYS = 13  # the first two warm up
VARIANTS = [(unroll, hint) for unroll in (1, 2, 4, 8) for hint in (0, 1, 2)]
TOLERANCE = 3e-6  # of the solution: norm of the error / norm of the result
PEER_TOLERANCE = 1e-4  # of a peer: only whether it computes the same thing
WARM_SECONDS = 90
METHOD = (
    "Times are microseconds a call: the median of 11 replays of a CUDA graph of back-to-back calls "
    "over rotating sets of buffers (at least 320 MB of inputs and outputs, at most 48 sets), so "
    "that all but the smallest shapes are read from memory. The ceiling is the fastest of "
    f"{len(VARIANTS)} variants of `grader/native/gpu/probe.cu`, which reads and writes as "
    "many streams of the same size; the fraction is time of the ceiling / time of the solution."
)
# Every path through the launchers: widths that are no multiple of 4, rows wider than a cluster,
# a few rows, many, one more than fits.
AWKWARD = [
    (1, 1), (2, 3), (1000, 1), (70000, 3), (300000, 2), (70000, 4), (65, 4), (66, 24), (2048, 16),
    (77, 37), (35, 1000), (129, 100), (257, 1022), (33, 1025), (40, 4097), (700, 132), (64, 512),
    (129, 768), (513, 3072), (9, 8196), (5, 16384), (70, 20000), (130, 24576), (140, 32768),
    (133, 36864), (40, 40004), (1, 65532), (3, 65536), (3, 65540), (37, 131072), (2, 262148),
    (1, 100000), (65, 99999), (2, 100003), (3, 1000003), (2049, 16384), (1025, 65536),
]  # fmt: skip


def cannot(why: str) -> NoReturn:
    print(f"bench_gpu: {why}", file=sys.stderr)
    sys.exit(CANNOT)


try:
    import torch
except ImportError:
    cannot("PyTorch is missing: pip install torch (with CUDA)")

from tests import bench_gpu_peers as peers  # noqa: E402
from tests.bench_gpu_peers import EPSILON, Call, Tensors  # noqa: E402

# Our own kernels ---------------------------------------------------------------------------------


def nvcc() -> str:
    try:
        from grader import toolkit
        from grader.errors import InfrastructureError
    except ImportError:  # the grader's own dependencies are not installed here
        found = shutil.which("nvcc")
        return found or cannot("nvcc is missing on PATH")
    try:
        return str(toolkit.find().nvcc)
    except InfrastructureError as error:
        cannot(str(error))


def probes() -> str:
    """All variants of the probe in one file, with one C function that starts any of them."""
    text, cases = "", ""
    for part, (reads, writes) in STREAMS.items():
        for unroll, hint in VARIANTS:
            name = f"{part}_{unroll}_{hint}"
            macros = {"READS": reads, "WRITES": writes, "UNROLL": unroll, "HINT": hint}
            text += "".join(f"#define {key} {value}\n" for key, value in macros.items())
            text += f"#define probe {name}\nnamespace n_{name} {{\n"
            text += f'#include "{ROOT}/grader/native/gpu/probe.cu"\n}}\n'
            text += "".join(f"#undef {key}\n" for key in [*macros, "probe", "THREADS"])
            number = [*STREAMS].index(part) * 100 + unroll * 10 + hint
            cases += (
                f"case {number}: n_{name}::{name}<<<(vectors + {256 * unroll - 1}) / "
                f"{256 * unroll}, 256, 0, stream>>>"
                "({{in0, in1}, {out}}, vectors); break;\n"
            )
    arguments = "const float4* in0, const float4* in1, float4* out, unsigned long long vectors"
    return (
        f'{text}extern "C" void launch_probe(int number, {arguments}, cudaStream_t stream) {{\n'
        f"switch (number) {{\n{cases}}}\n}}\n"
    )


class Ours:
    """The solution's launchers and the probes, compiled by nvcc."""

    def __init__(self, folder: Path) -> None:
        major, minor = torch.cuda.get_device_capability()
        (folder / "probes.cu").write_text(probes())
        (folder / "solution.cu").write_text(
            f'#include "{ROOT}/assignment/layernorm/layernorm.h"\n'
            f'#include "{ROOT}/solution/layernorm/layernorm.cu"\n'
        )
        options = ["-O3", "-std=c++17", f"-arch=sm_{major}{minor}", "-shared", "-Xcompiler=-fPIC"]
        self.nvcc = nvcc()
        self._started = {
            name: subprocess.Popen(
                [self.nvcc, *options, f"{name}.cu", "-o", f"{name}.so"],
                cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for name in ("solution", "probes")
        }  # fmt: skip
        self._folder = folder
        self._libraries: dict[str, Any] = {}

    def _function(self, library: str, name: str) -> Callable[..., None]:
        if library not in self._libraries:
            process = self._started[library]
            log, _ = process.communicate()
            if process.returncode != 0:
                cannot(f"nvcc does not compile {library}.cu:\n{log}")
            self._libraries[library] = ctypes.CDLL(str(self._folder / f"{library}.so"))
        function: Callable[..., None] = getattr(self._libraries[library], name)
        return function

    def solution(self, part: str) -> Call:
        launcher = self._function("solution", f"launch_{LAUNCHERS[part]}")

        def call(t: Tensors) -> tuple[Any, ...]:
            inputs, outputs = arrays(part, t)
            pointers = [ctypes.c_void_p(a.data_ptr()) for a in (*outputs, *inputs)]
            launcher(*pointers, *t.shape, stream())
            return outputs

        return call

    def probe(self, part: str, variant: tuple[int, int]) -> Call:
        launcher = self._function("probes", "launch_probe")
        number = [*STREAMS].index(part) * 100 + variant[0] * 10 + variant[1]

        def call(t: Tensors) -> tuple[Any, ...]:
            out = t.dx if part == "dinp" else t.y
            streams = [ctypes.c_void_p(a.data_ptr()) for a in (t.x, t.dy, out)]
            launcher(number, *streams, ctypes.c_ulonglong(t.x.numel() // 4), stream())
            return ()

        return call


LAUNCHERS = {"forward": "layernorm", "dgamma_dbeta": "ln_bw_dgamma_dbeta", "dinp": "ln_bw_dinp"}


def arrays(part: str, t: Tensors) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(inputs, outputs) of a launcher, in its order."""
    if part == "forward":
        return (t.x, t.gamma, t.beta), (t.y, t.got_var, t.got_mean)
    if part == "dgamma_dbeta":
        return (t.dy, t.x, t.var, t.mean), (t.dgamma, t.dbeta)
    return (t.dy, t.x, t.gamma, t.var, t.mean), (t.dx,)


def stream() -> ctypes.c_void_p:
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


# Data and what is right --------------------------------------------------------------------------


def tensors(rows: int, hidden_dim: int, seed: int) -> Tensors:
    random = torch.Generator("cuda").manual_seed(seed)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda", generator=random)

    x = normal(rows, hidden_dim).mul_(1.7).add_(0.6)
    var, mean = torch.var_mean(x, dim=1, correction=0)
    return Tensors(
        x=x, dy=normal(rows, hidden_dim).add_(0.1),
        gamma=normal(hidden_dim).mul_(0.3).add_(1), beta=normal(hidden_dim).mul_(0.3),
        mean=mean, var=var, rstd=torch.rsqrt(var + EPSILON),
        y=torch.empty_like(x), dx=torch.empty_like(x),
        dgamma=x.new_empty(hidden_dim), dbeta=x.new_empty(hidden_dim),
        got_mean=x.new_empty(rows), got_var=x.new_empty(rows),
    )  # fmt: skip


def expected(part: str, t: Tensors) -> tuple[Any, ...]:
    """The outputs in float64, in the order of the launcher's."""
    x = t.x.double()
    if part == "forward":
        var, mean = torch.var_mean(x, dim=1, correction=0)
        x = (x - mean[:, None]) * torch.rsqrt(var + EPSILON)[:, None]
        return x.mul_(t.gamma).add_(t.beta), var, mean
    rstd = torch.rsqrt(t.var.double() + EPSILON)[:, None]
    xhat = (x - t.mean.double()[:, None]) * rstd
    if part == "dgamma_dbeta":
        return (xhat * t.dy).sum(0), t.dy.double().sum(0)
    dxhat = t.dy.double() * t.gamma
    mean1 = dxhat.mean(1, keepdim=True)
    mean2 = (dxhat * xhat).mean(1, keepdim=True)
    return ((dxhat - mean1 - xhat.mul_(mean2)) * rstd,)


def error(got: tuple[Any, ...], right: tuple[Any, ...]) -> float:
    """The largest norm of an error / norm of the result; infinite if anything is not a number."""
    worst = 0.0
    for mine, value in zip(got, right, strict=False):
        off = float(torch.linalg.vector_norm(mine.double().reshape(value.shape) - value))
        size = float(torch.linalg.vector_norm(value))
        if not off < float("inf"):
            return float("inf")
        worst = max(worst, off / size if size > 0 else off)
    return worst


def poison(outputs: tuple[Any, ...]) -> None:
    for array in outputs:
        array.fill_(float("nan"))


def same_twice(call: Call, part: str, t: Tensors) -> bool:
    """Whether two calls give the same bits."""
    first = [array.clone() for array in call(t)]
    poison(arrays(part, t)[1])
    return all(
        torch.equal(a.view(torch.int32), b.view(torch.int32))
        for a, b in zip(first, call(t), strict=True)
    )


def check(ours: Ours) -> dict[str, Any]:
    """The solution on awkward shapes: right, and the same twice."""
    wrong = []
    worst = 0.0
    for rows, hidden_dim in AWKWARD:
        t = tensors(rows, hidden_dim, seed=rows)
        for part in PARTS:
            call = ours.solution(part)
            poison(arrays(part, t)[1])
            found = error(call(t), expected(part, t))
            # with up to three elements a row, the gradient of the input all but cancels: there is
            # no relative error to speak of
            if part == "dinp" and hidden_dim <= 3:
                found = 0.0 if found < float("inf") else found
            worst = max(worst, found)
            if not found <= TOLERANCE:
                wrong.append(f"{part} {rows}x{hidden_dim}: relative error {found:.1e}")
            if not same_twice(call, part, t):
                wrong.append(f"{part} {rows}x{hidden_dim}: not the same bits twice")
    return {"shapes": len(AWKWARD), "worst_error": worst, "wrong": wrong}


# Time --------------------------------------------------------------------------------------------


def timed(call: Call, sets: list[Tensors], calls: int) -> float:
    """Microseconds a call."""
    calls = len(sets) * -(-calls // len(sets))
    for t in sets[:2]:
        call(t)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            # kept: else a peer would write all its results to the same memory, which stays in L2
            kept = [call(sets[k % len(sets)]) for k in range(calls)]
        finally:
            graph.capture_end()
    times = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(float(begin.elapsed_time(end)) * 1e3 / calls)
    del kept, graph
    return statistics.median(times[2:])


def measure(ours: Ours, offers: dict[str, peers.Offer], shape: tuple[int, int]) -> Iterator[Cell]:
    rows, hidden_dim = shape
    n = rows * hidden_dim
    count = min(MOST_SETS, max(2, -(-ROTATED_BYTES // (8 * n))))
    sets = [tensors(rows, hidden_dim, seed) for seed in range(count)]
    calls = 8 if n > 4_000_000 else 24 if n > 100_000 else 48
    for part in PARTS:
        call = ours.solution(part)
        right = expected(part, sets[0])
        poison(arrays(part, sets[0])[1])
        found = error(call(sets[0]), right)
        twice = same_twice(call, part, sets[0])
        times = {v: timed(ours.probe(part, v), sets, calls) for v in VARIANTS}
        best = min(times, key=lambda v: times[v])
        cell = Cell(
            part, rows, hidden_dim, ceiling=times[best], probe=f"UNROLL={best[0]} HINT={best[1]}",
            solution=timed(call, sets, calls), error=found, deterministic=twice,
        )  # fmt: skip
        for name, offer in offers.items():
            cell.peers[name] = timed_peer(name, offer, part, shape, sets, right, calls)
        torch.cuda.empty_cache()
        yield cell


def timed_peer(
    name: str, offer: peers.Offer, part: str, shape: tuple[int, int], sets: list[Tensors],
    right: tuple[Any, ...], calls: int,
) -> float | None:  # fmt: skip
    """Microseconds a call; None if the peer does not support the shape, or fails."""
    try:
        call = offer(part, shape)
        if call is None:
            return None
        found = error(call(sets[0]), right)
        if found > PEER_TOLERANCE:
            print(f"  {name} {part} {shape}: relative error {found:.1e}, not timed")
            return None
        return timed(call, sets, calls)
    except Exception as failure:  # a peer is somebody else's code: it may fail in any way
        said = str(failure).splitlines()[0][:150] if str(failure) else ""
        print(f"  {name} {part} {shape}: {type(failure).__name__}: {said}")
        torch.cuda.synchronize()
        return None


# Peers compile for each shape: beforehand, in parallel processes that fill caches -----------------


def warm(shape: tuple[int, int]) -> None:
    offers, _ = peers.available()
    t = tensors(*shape, seed=0)
    for name, offer in offers.items():
        for part in PARTS:
            try:
                call = offer(part, shape)
                if call is not None:
                    call(t)
            except Exception as failure:
                print(f"{name} {part} {shape}: {failure}", file=sys.stderr)
    torch.cuda.synchronize()


def use_caches(folder: Path) -> None:
    """Fresh caches of the peers' compilers, for this process and those that it starts."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"


def warm_all(shapes: list[tuple[int, int]], caches: Path) -> None:
    use_caches(caches)
    command = [sys.executable, str(Path(__file__).resolve()), "--warm"]
    waiting = [f"{rows}x{hidden_dim}" for rows, hidden_dim in shapes]
    running: list[subprocess.Popen[bytes]] = []
    deadline = time.monotonic() + WARM_SECONDS
    most = max(1, (os.cpu_count() or 2) - 2)
    while waiting or running:
        while waiting and len(running) < most:
            running.append(
                subprocess.Popen([*command, waiting.pop()], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
            )  # fmt: skip
        running = [process for process in running if process.poll() is None]
        if time.monotonic() > deadline:
            for process in running:
                process.kill()
            break
        time.sleep(0.1)
    # What inductor timed while others used the GPU is forgotten: it tunes again, alone.
    for path in caches.rglob("*.best_config"):
        path.unlink()


# The whole ---------------------------------------------------------------------------------------


def versions(ours: Ours) -> dict[str, str]:
    said = subprocess.run([ours.nvcc, "--version"], capture_output=True, text=True, check=True)
    release = said.stdout.strip().splitlines()[-2].split("release ")[-1]
    return {"nvcc": release, "torch": torch.__version__, "CUDA of torch": str(torch.version.cuda)}


def driver() -> str:
    ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.strip().splitlines()[0]


def run(shapes: list[tuple[int, int]], with_peers: bool, folder: Path) -> dict[str, Any]:
    began = time.monotonic()
    ours = Ours(folder)
    offers: dict[str, peers.Offer] = {}
    said: dict[str, str] = {}
    if with_peers:
        warm_all(shapes, folder)
        offers, said = peers.available()
        print(f"peers compiled after {time.monotonic() - began:.0f} s", flush=True)
    checks = check(ours)
    print(f"checked after {time.monotonic() - began:.0f} s: {checks}", flush=True)
    found: list[Cell] = []
    for shape in shapes:
        for cell in measure(ours, offers, shape):
            found.append(cell)
            times = " ".join(f"{name} {t:.2f}" for name, t in cell.peers.items() if t is not None)
            print(
                f"{cell.part:<13}{cell.rows}x{cell.hidden_dim}: {cell.solution:.2f} us of "
                f"{cell.ceiling:.2f} = {cell.fraction:.3f} (goal {cell.goal}) error "
                f"{cell.error:.0e} {'' if cell.deterministic else 'NOT THE SAME TWICE '}{times}",
                flush=True,
            )
    return {
        "card": torch.cuda.get_device_name(),
        "driver": driver(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "command": "make bench-gpu" if with_peers else "python tests/bench_gpu.py --no-peers",
        "seconds": round(time.monotonic() - began, 1),
        "versions": versions(ours),
        "method": METHOD,
        "peers": said,
        "checks": checks,
        "cells": [asdict(cell) for cell in found],
    }


def shape_of(text: str) -> tuple[int, int]:
    rows, _, hidden_dim = text.partition("x")
    return int(rows), int(hidden_dim)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "gpu")
    parser.add_argument("--no-peers", action="store_true", help="only the solution and the memory")
    parser.add_argument("--shape", type=shape_of, action="append", choices=[*GOALS])
    parser.add_argument("--warm", type=shape_of, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        cannot("PyTorch finds no GPU")
    if options.warm:
        return warm(options.warm)
    with tempfile.TemporaryDirectory() as folder:
        data = run(options.shape or [*GOALS], not options.no_peers, Path(folder))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(data, indent=1) + "\n")
    (options.out / "bench.md").write_text(markdown(data))
    unmet = missed(data)
    print("all goals are met" if not unmet else "not met:\n  " + "\n  ".join(unmet))
    print(f"{data['seconds']} s; written to {options.out}")
    sys.exit(1 if unmet else 0)


if __name__ == "__main__":
    main()
