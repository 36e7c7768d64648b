// CUB, as far as kernels use it: collective reductions and scans of warps and blocks.
#pragma once

#include "block/block_reduce.cuh"
#include "block/block_scan.cuh"
#include "thread/thread_operators.cuh"
#include "warp/warp_reduce.cuh"
#include "warp/warp_scan.cuh"
