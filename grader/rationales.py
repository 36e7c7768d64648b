"""Why a kind of finding is a fault, in a sentence for a student."""

from __future__ import annotations

RATIONALES = {
    # Memory
    "out_of_bounds": "Memory beyond an array belongs to something else: on a GPU such a write "
    "corrupts another tensor without any message, and such a read returns whatever is there.",
    "input_written": "The caller still needs its inputs: another kernel may be reading them.",
    "illegal_address": "On a GPU this access ends the kernel with cudaErrorIllegalAddress, and "
    "every later CUDA call fails too.",
    "misaligned": "A vector access must be aligned to its own size: a float4 to 16 bytes.",
    "stray_write": "A local variable lives in its own thread: written through another thread's "
    "address, it is some other variable on a GPU.",
    "stray_read": "A local variable lives in its own thread: read through another thread's "
    "address, it is some other variable on a GPU. Pass the value by shared memory or a shuffle.",
    "leak": "A launcher is called thousands of times: memory that each call leaves behind uses "
    "up the GPU's.",
    # Initialisation
    "uninitialised_read": "cudaMalloc does not clear memory, and an output holds whatever was "
    "there before: the value read differs from run to run.",
    "uninitialised_shared": "Shared memory holds whatever an earlier block left there: every "
    "element must be written by this block, and behind a barrier, before it is read.",
    "uninitialised_atomic": "An atomic adds to what is there: set the output to zero on the same "
    "stream before the kernel.",
    # Races
    "race_shared": "Warps run at their own pace: only __syncthreads() makes what one warp wrote "
    "to shared memory visible to another, and keeps it there until it was read.",
    "race_global": "Warps of a block run at their own pace: __syncthreads() must lie between a "
    "write to global memory and another thread's access to it.",
    "race_warp": "Lanes of a warp need not run in lock-step: __syncwarp() must lie between a "
    "write and another lane's access to it. A shuffle orders no memory.",
    "race_blocks": "Blocks run at the same time and in any order, so a result that depends on "
    "which comes first differs from run to run.",
    "race_streams": "Work on different streams runs at the same time unless an event or the host "
    "orders it; the caller only orders its own work with the stream that it passes.",
    "same_value_race": "Several threads write the same value without an order. It does no harm "
    "here, but one thread would do.",
    "mixed_atomic": "A plain read beside other threads' atomics sees any of their intermediate "
    "values, and the compiler may keep an old one.",
    # Synchronisation
    "deadlock": "Threads wait for others that never come: on a GPU the kernel would hang.",
    "divergent_barrier": "All threads of a block must reach the same __syncthreads(): "
    "otherwise its behaviour is undefined.",
    "shuffle": "Every lane named in the mask must execute the same shuffle: "
    "otherwise the values read are undefined.",
    "undefined_shuffle": "A shuffle that reads from a lane outside its mask returns an undefined "
    "value; it must not be used.",
    "endless_loop": "The loop does not come to an end: look at its condition and its step.",
    # Launches and the host
    "launch": "The kernel never ran. Check cudaGetLastError() after a launch.",
    "nothing": "A launcher has to do its work at every size that the assignment allows.",
    "too_many": "Starting a kernel costs microseconds each time: let one kernel do more.",
    "unchecked_error": "A CUDA call that fails says so only in what it returns: everything after "
    "it works with what is not there.",
    "assert": "An assert of your own found its condition false.",
    "exited": "A launcher is called many times in one process: it has to return.",
    "crashed": "A launcher crashed in its own code, outside of any kernel: look there.",
    "timeout": "A launcher enqueues its work and returns.",
    "missing": "The part cannot be run without its launcher.",
    "exception": "A launcher reports nothing by exceptions: its caller is C.",
}
