"""Why a kind of finding is a fault, in a sentence for a student."""

from __future__ import annotations

RATIONALES = {
    "out_of_bounds": "Memory beyond an array belongs to something else: on a GPU such a write "
    "corrupts another tensor without any message.",
    "input_written": "The caller still needs its inputs: another kernel may be reading them.",
    "illegal_address": "On a GPU this access ends the kernel with cudaErrorIllegalAddress, and "
    "every later CUDA call fails too.",
    "misaligned": "A vector access must be aligned to its own size: a float4 to 16 bytes.",
    "deadlock": "Threads wait for others that never come: on a GPU the kernel would hang.",
    "divergent_barrier": "All threads of a block must reach the same __syncthreads(): "
    "otherwise its behaviour is undefined.",
    "shuffle": "Every lane named in the mask must execute the same shuffle: "
    "otherwise the values read are undefined.",
    "endless_loop": "The loop does not come to an end: look at its condition and its step.",
    "launch": "The kernel never ran. Check cudaGetLastError() after a launch.",
    "assert": "An assert of your own found its condition false.",
    "exited": "A launcher is called many times in one process: it has to return.",
    "crashed": "A launcher crashed in its own code, outside of any kernel: look there.",
    "timeout": "A launcher enqueues its work and returns.",
    "missing": "The part cannot be run without its launcher.",
    "exception": "A launcher reports nothing by exceptions: its caller is C.",
}
