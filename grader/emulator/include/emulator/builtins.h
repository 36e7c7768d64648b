// threadIdx and its kin: variables, because `dim3 blockDim(256);` in host code is legal.
#pragma once

#include "keywords.h"
#include "vector_types.h"

// The runtime sets them whenever it resumes a thread. To the compiler they are constants, which is
// what they are for the thread that reads them.
extern "C" {
extern __EMULATOR_HIDDEN__ const uint3 threadIdx;
extern __EMULATOR_HIDDEN__ const uint3 blockIdx;
extern __EMULATOR_HIDDEN__ const dim3 blockDim;
extern __EMULATOR_HIDDEN__ const dim3 gridDim;
}
static constexpr int warpSize = 32;

namespace __emulator {
// Names for one thread of the running block in the order of its linear index.
static __EMULATOR_INLINE__ unsigned __thread_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
static __EMULATOR_INLINE__ unsigned __block_size() { return blockDim.x * blockDim.y * blockDim.z; }
}  // namespace __emulator
