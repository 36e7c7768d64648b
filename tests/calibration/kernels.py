"""Which kernels are measured, and at which shapes.

A submission holds the launchers of all parts, but often only one of them is worth a measurement:
many share the starter's 32 x 32 tile for the gradients of gamma and beta, for example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import grader
from grader.assignment import Assignment

ASSIGNMENT = "layernorm"
FORWARD, COLUMNS, DINP = "forward", "dgamma_dbeta", "dinp"
ALL, ROWS = (FORWARD, COLUMNS, DINP), (FORWARD, DINP)

# Submission -> the parts in which it differs from all others; the most important ones first.
KERNELS: Mapping[str, Sequence[str]] = {
    "solution": ALL,
    "odd/thread_per_row": ALL,
    "classic/block_per_row_two_pass": ALL,
    "odd/starter_layout_float4": ALL,
    "odd/warp_per_row": ALL,
    "classic/two_stage_partials": (COLUMNS,),
    "classic/rows_split_with_atomics": (COLUMNS,),
    "classic/float4_in_registers": ROWS,
    "pace/uncoalesced": ALL,
    "pace/bank_conflicts": ALL,
    "pace/global_atomics": ALL,
    "pace/atomics_per_tile": ALL,
    "pace/three_kernels": ALL,
    "pace/low_occupancy": ALL,
    "pace/too_few_blocks": ALL,
    "pace/tiny_blocks": ALL,
    "pace/many_small_launches": ALL,
    "odd/persistent_blocks": ROWS,
    "odd/row_in_dynamic_shared_memory": (FORWARD,),
    "odd/last_block_adds_up": (COLUMNS,),
    "odd/atomics_after_memset": (COLUMNS,),
    "odd/double_precision": ALL,
    "odd/workspace_kept_and_reused": (COLUMNS,),
    "odd/cooperative_groups_everywhere": (COLUMNS,),
    "odd/three_dimensional_blocks": ALL,
    "odd/welford": (FORWARD,),
    "odd/regrouped_formulas": (DINP,),
    "odd/cub_block_reduce": ROWS,
    "odd/one_block_for_everything": ROWS,
    "classic/block_per_row_one_pass": (FORWARD,),
}

# Submission -> the parts whose hardware counters are read.
COUNTED: Mapping[str, Sequence[str]] = {
    "odd/thread_per_row": ALL,
    "odd/starter_layout_float4": ALL,
    "classic/block_per_row_two_pass": ALL,
    "odd/warp_per_row": ALL,
    "pace/uncoalesced": ALL,
    "pace/bank_conflicts": ALL,
    "pace/global_atomics": ALL,
    "solution": ALL,
    "classic/two_stage_partials": (COLUMNS,),
    "classic/float4_in_registers": ROWS,
    "pace/three_kernels": ALL,
    "pace/low_occupancy": ALL,
    "pace/tiny_blocks": ALL,
    "pace/too_few_blocks": ALL,
    "odd/row_in_dynamic_shared_memory": (FORWARD,),
    "odd/last_block_adds_up": (COLUMNS,),
}

SMALL = {"rows": 1024, "hidden_dim": 1024}  # beside the shapes that are scored
COUNTED_SHAPES = (
    {"rows": 8192, "hidden_dim": 1024},
    {"rows": 4096, "hidden_dim": 4096},
)
# Small enough for a checker that slows a kernel down a hundred times: partial warps, more than a
# block's threads in a row, more rows than a tile, and a width that no vector divides.
CHECKED_SHAPES = (
    {"rows": 5, "hidden_dim": 36},
    {"rows": 4, "hidden_dim": 252},
    {"rows": 3, "hidden_dim": 1028},
    {"rows": 33, "hidden_dim": 31},
    {"rows": 300, "hidden_dim": 16},
    {"rows": 2, "hidden_dim": 4100},
)


def assignment() -> Assignment:
    return grader.assignment(ASSIGNMENT)


def shapes(used: Assignment) -> list[dict[str, int]]:
    """The shapes that are timed: those that are scored, and a small one."""
    return [*used.test("speed").shapes, SMALL]


def word(dims: Mapping[str, int]) -> str:
    """A shape in one word: 8192x1024."""
    return "x".join(map(str, dims.values()))
