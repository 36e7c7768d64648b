"""Implementations of LayerNorm from PyPI, as peers of the benchmark on a GPU.

A peer offers, for each part, a function of one set of tensors that returns the part's outputs; or
None where it does not support the shape. What cannot be imported is no peer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

EPSILON = 1e-5
WIDEST_COMPILED = 65536


@dataclass
class Tensors:
    """The arrays of one call on [rows, hidden_dim]; y, dx, ... are what a launcher writes."""

    x: Any
    dy: Any
    gamma: Any
    beta: Any
    mean: Any  # [rows], with var and rstd what the forward pass should give
    var: Any
    rstd: Any
    y: Any
    dx: Any
    dgamma: Any
    dbeta: Any
    got_mean: Any
    got_var: Any

    @property
    def shape(self) -> tuple[int, int]:
        rows, hidden_dim = self.x.shape
        return rows, hidden_dim


Call = Callable[[Tensors], tuple[Any, ...]]
Offer = Callable[[str, tuple[int, int]], Call | None]


def eager(part: str, shape: tuple[int, int]) -> Call | None:
    aten = torch.ops.aten
    width = [shape[1]]

    def backward(t: Tensors, mask: list[bool]) -> Any:
        column = t.mean[:, None], t.rstd[:, None]
        return aten.native_layer_norm_backward(t.dy, t.x, width, *column, t.gamma, t.beta, mask)

    return {
        "forward": lambda t: aten.native_layer_norm(t.x, width, t.gamma, t.beta, EPSILON)[:1],
        "dgamma_dbeta": lambda t: backward(t, [False, True, True])[1:],
        "dinp": lambda t: backward(t, [True, False, False])[:1],
    }[part]


def compiled(part: str, shape: tuple[int, int]) -> Call | None:
    if shape[1] > WIDEST_COMPILED:
        return None
    aten = torch.ops.aten
    width = [shape[1]]
    mask = [part == "dinp", part != "dinp", part != "dinp"]

    def forward(x: Any, gamma: Any, beta: Any) -> Any:
        return aten.native_layer_norm(x, width, gamma, beta, EPSILON)

    def backward(dy: Any, x: Any, mean: Any, rstd: Any, gamma: Any, beta: Any) -> Any:
        return aten.native_layer_norm_backward(dy, x, width, mean, rstd, gamma, beta, mask)

    torch._dynamo.reset()  # or the ninth shape would not be compiled any more
    if part == "forward":
        run = torch.compile(forward, dynamic=False, fullgraph=True)
        return lambda t: tuple(run(t.x, t.gamma, t.beta)[:1])
    run = torch.compile(backward, dynamic=False, fullgraph=True)

    def call(t: Tensors) -> tuple[Any, ...]:
        dx, dgamma, dbeta = run(t.dy, t.x, t.mean[:, None], t.rstd[:, None], t.gamma, t.beta)
        return (dx,) if part == "dinp" else (dgamma, dbeta)

    return call


def triton_tutorial(part: str, shape: tuple[int, int]) -> Call | None:
    from tests import bench_gpu_triton as tutorial

    if shape[1] > tutorial.WIDEST:
        return None

    def backward(t: Tensors, sums: bool) -> tuple[Any, ...]:
        return tutorial.backward(t.dy, t.x, t.gamma, t.mean, t.rstd, sums)

    return {
        "forward": lambda t: tutorial.forward(t.x, t.gamma, t.beta, EPSILON)[:1],
        "dgamma_dbeta": lambda t: backward(t, True)[1:],
        "dinp": lambda t: backward(t, False)[:1],
    }[part]


def liger(part: str, shape: tuple[int, int]) -> Call | None:
    from liger_kernel.ops import layer_norm as ops

    if shape[1] > 65536:
        return None

    def backward(t: Tensors, sums: bool) -> tuple[Any, ...]:
        done = ops.layer_norm_backward(
            t.dy, t.x, t.gamma, t.beta, t.mean, t.rstd, needs_dw=sums, needs_db=sums
        )
        return tuple(done)

    return {
        "forward": lambda t: ops.layer_norm_forward(t.x, t.gamma, t.beta, EPSILON)[:1],
        "dgamma_dbeta": lambda t: backward(t, True)[1:],
        "dinp": lambda t: backward(t, False)[:1],
    }[part]


def quack(part: str, shape: tuple[int, int]) -> Call | None:
    from quack import rmsnorm

    if shape[1] > 65536:
        return None

    def backward(t: Tensors) -> tuple[Any, ...]:
        return tuple(rmsnorm.layernorm_bwd(t.x, t.gamma, t.dy, t.rstd, t.mean))

    return {
        "forward": lambda t: (
            rmsnorm.layernorm_fwd(
                t.x, t.gamma, t.beta, eps=EPSILON, return_rstd=True, return_mean=True
            )[0],
        ),
        "dgamma_dbeta": lambda t: backward(t)[1:],
        "dinp": lambda t: backward(t)[:1],
    }[part]


# name -> what it offers, the package that must be importable, its name on PyPI, a remark
PEERS: dict[str, tuple[Offer, str, str, str]] = {
    "PyTorch": (eager, "torch", "torch", "native_layer_norm and native_layer_norm_backward"),
    "torch.compile": (compiled, "triton", "torch", "the same functions compiled for each shape"),
    "Triton": (
        triton_tutorial, "triton", "triton",
        "after tutorial 05; its gradients of gamma and beta come with that of the input",
    ),
    "Liger": (
        liger, "liger_kernel.ops.layer_norm", "liger-kernel",
        "its gradients of gamma and beta come with that of the input",
    ),
    "quack": (quack, "quack.rmsnorm", "quack-kernels", "its backward pass does everything at once"),
}  # fmt: skip


def available() -> tuple[dict[str, Offer], dict[str, str]]:
    """(the peers that can be imported, what to say about each)"""
    offers: dict[str, Offer] = {}
    said: dict[str, str] = {}
    for name, (offer, module, package, remark) in PEERS.items():
        try:
            importlib.import_module(module)
            said[name] = f"{package} {version(package)}; {remark}"
            offers[name] = offer
        except PackageNotFoundError:
            said[name] = f"{package}, version unknown; {remark}"
            offers[name] = offer
        except Exception as error:  # whatever a package of another's raises on import
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            said[name] = f"not installed ({reason[:100]})"
    return offers, said
