"""Calls every launcher of a submission on small arrays: what compute-sanitizer is run on.

compute-sanitizer --tool memcheck python -m tests.gpu.sanitized FOLDER
"""

from __future__ import annotations

import sys

import numpy as np

import grader

SHAPES = (
    (1, 1),
    (3, 33),
    (7, 132),
    (33, 20),
    (5, 1028),
    (300, 16),
    (2, 4100),
    (2, 8200),
    (130, 768),
)
FAMILY = "normal"


def main() -> None:
    module = grader.load(sys.argv[1], assignment="layernorm", backend="cuda")
    layernorm = grader.assignment("layernorm")
    for part in layernorm.parts:
        for rows, hidden_dim in SHAPES:
            dims = {"rows": rows, "hidden_dim": hidden_dim}
            inputs = layernorm.inputs(part, FAMILY, dims, 1.0, np.random.default_rng(rows))
            arguments = [
                dims[name]
                if name in dims
                else np.empty(layernorm.shape(name, dims), np.float32)
                if name in part.outputs
                else np.ascontiguousarray(inputs[name])
                for name in part.arguments
            ]
            getattr(module, part.launcher)(*arguments)
    print(f"{len(SHAPES)} shapes of {len(layernorm.parts)} parts were run")


if __name__ == "__main__":
    main()
