"""LayerNorm in Triton, after its tutorial 05: a peer of the benchmark on a GPU.

The forward pass keeps a row in one program. The backward pass computes the gradient of the input
row by row and adds the rows' shares of the gradients of gamma and beta into a few partial sums,
under a lock: the order of the programs decides about the rounding, so it is not deterministic.
"""

from typing import Any

import torch
import triton
import triton.language as tl

WIDEST = 16384  # 64 KB a row, as in the tutorial


@triton.jit
def _forward(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    X += row.to(tl.int64) * stride
    Y += row.to(tl.int64) * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(X + columns, mask=columns < N, other=0.0)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(X + columns, mask=columns < N, other=0.0)
        distance = tl.where(columns < N, x - mean, 0.0)
        squares += distance * distance
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        w = tl.load(W + columns, mask=inside)
        b = tl.load(B + columns, mask=inside)
        x = tl.load(X + columns, mask=inside, other=0.0)
        tl.store(Y + columns, (x - mean) * rstd * w + b, mask=inside)


@triton.jit
def _backward(
    DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    offset = row.to(tl.int64) * stride
    x = tl.load(X + offset + columns, mask=inside, other=0)
    dy = tl.load(DY + offset + columns, mask=inside, other=0)
    w = tl.load(W + columns, mask=inside)
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    xhat = tl.where(inside, (x - mean) * rstd, 0.0)
    wdy = tl.where(inside, w * dy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    tl.store(DX + offset + columns, (wdy - (xhat * c1 + c2)) * rstd, mask=inside)
    if SUMS:
        group = row % GROUPS
        lock = Lock + group
        count = lock + GROUPS
        to_dw = DW + group * N + columns
        to_db = DB + group * N + columns
        dw = dy * xhat
        db = dy
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        if tl.load(count) == 0:
            tl.atomic_xchg(count, 1)
        else:
            dw += tl.load(to_dw, mask=inside)
            db += tl.load(to_db, mask=inside)
        tl.store(to_dw, dw, mask=inside)
        tl.store(to_db, db, mask=inside)
        tl.debug_barrier()
        tl.atomic_xchg(lock, 0)


@triton.jit
def _add_groups(DW, DB, FINAL_DW, FINAL_DB, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for i in range(0, M, BLOCK_M):
        rows = i + tl.arange(0, BLOCK_M)
        inside = (rows[:, None] < M) & (columns[None, :] < N)
        offsets = rows[:, None] * N + columns[None, :]
        dw += tl.load(DW + offsets, mask=inside, other=0.0)
        db += tl.load(DB + offsets, mask=inside, other=0.0)
    tl.store(FINAL_DW + columns, tl.sum(dw, axis=0), mask=columns < N)
    tl.store(FINAL_DB + columns, tl.sum(db, axis=0), mask=columns < N)


def _block(hidden_dim: int) -> tuple[int, int]:
    """(elements of a program, warps of a program)"""
    block = min(WIDEST, triton.next_power_of_2(hidden_dim))
    return block, min(max(block // 256, 1), 8)


def forward(x: Any, gamma: Any, beta: Any, eps: float) -> tuple[Any, Any, Any]:
    """(y, mean, rstd) of x [rows, hidden_dim]."""
    rows, hidden_dim = x.shape
    block, warps = _block(hidden_dim)
    y = torch.empty_like(x)
    mean = torch.empty(rows, dtype=torch.float32, device=x.device)
    rstd = torch.empty(rows, dtype=torch.float32, device=x.device)
    _forward[(rows,)](
        x, y, gamma, beta, mean, rstd, x.stride(0), hidden_dim, eps, BLOCK=block, num_warps=warps
    )
    return y, mean, rstd


def backward(
    dy: Any, x: Any, gamma: Any, mean: Any, rstd: Any, sums: bool
) -> tuple[Any, Any | None, Any | None]:
    """(dx, dgamma, dbeta); the last two only with `sums`."""
    rows, hidden_dim = x.shape
    block, warps = _block(hidden_dim)
    groups = 64
    for widest, count in ((8192, 96), (4096, 128), (1024, 256)):
        if hidden_dim <= widest:
            groups = count
    dx = torch.empty_like(x)
    locks = torch.zeros(2 * groups, dtype=torch.int32, device=x.device) if sums else x
    partial = torch.zeros(2, groups, hidden_dim, device=x.device) if sums else x
    dw_part, db_part = (partial[0], partial[1]) if sums else (x, x)
    _backward[(rows,)](
        dx, dy, dw_part, db_part, x, gamma, mean, rstd, locks, x.stride(0), hidden_dim,
        GROUPS=groups, BLOCK=block, SUMS=sums, num_warps=warps,
    )  # fmt: skip
    if not sums:
        return dx, None, None
    dgamma = torch.empty(hidden_dim, device=x.device)
    dbeta = torch.empty(hidden_dim, device=x.device)
    _add_groups[(triton.cdiv(hidden_dim, 128),)](
        dw_part, db_part, dgamma, dbeta, min(groups, rows), hidden_dim, BLOCK_M=32, BLOCK_N=128,
        num_ctas=1,
    )  # fmt: skip
    return dx, dgamma, dbeta
