#pragma once
#include <cuda_runtime.h>

__device__ float warpReduceSum(float val) {
  for (int offset = 16; offset > 0; offset /= 2) {
    val += __shfl_down_sync(0xffffffff, val, offset);
  }
  return val;
}

// sum over the whole block, every thread gets it
__device__ float blockReduceSum(float val) {
  __shared__ float shared[33];
  int lane = threadIdx.x % 32;
  int warp = threadIdx.x / 32;
  val = warpReduceSum(val);
  if (lane == 0) shared[warp] = val;
  __syncthreads();
  if (warp == 0) {
    val = lane < (blockDim.x + 31) / 32 ? shared[lane] : 0.0f;
    val = warpReduceSum(val);
    if (lane == 0) shared[32] = val;
  }
  __syncthreads();
  val = shared[32];
  __syncthreads();  // shared is used again by the next call
  return val;
}
