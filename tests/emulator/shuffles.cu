// Warp shuffles: directions, widths, types from 1 to 8 bytes, divergent warps, partial warps.
#include <cstdio>
#include <cuda_fp16.h>

#define FULL 0xffffffffu

template <typename T>
__device__ T warp_sum(T value) {
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_down_sync(FULL, value, offset);
    return value;
}

template <typename T>
__device__ T warp_sum_xor(T value) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(FULL, value, mask, 32);
    return value;
}

__device__ int errors;

__device__ void check(bool ok) {
    if (!ok) atomicAdd(&errors, 1);
}

__global__ void whole_warps() {
    int lane = threadIdx.x & 31;
    check(__shfl_sync(FULL, lane, 5) == 5);
    check(__shfl_sync(FULL, lane, lane + 1) == ((lane + 1) & 31));
    check(__shfl_up_sync(FULL, lane, 3) == (lane < 3 ? lane : lane - 3));
    check(__shfl_down_sync(FULL, lane, 3) == (lane > 28 ? lane : lane + 3));
    check(__shfl_xor_sync(FULL, lane, 9) == (lane ^ 9));
    check(warp_sum_xor(lane) == 496);
    int sum = warp_sum(lane);
    if (lane == 0) check(sum == 496);

    // widths split the warp
    check(__shfl_sync(FULL, lane, 2, 8) == (lane & ~7) + 2);
    check(__shfl_up_sync(FULL, lane, 1, 8) == (lane % 8 ? lane - 1 : lane));
    check(__shfl_down_sync(FULL, lane, 1, 4) == (lane % 4 == 3 ? lane : lane + 1));
    check(__shfl_xor_sync(FULL, lane, 1, 2) == (lane ^ 1));

    // types
    check(warp_sum_xor((float)lane) == 496.f);
    check(warp_sum_xor((double)lane) == 496.0);
    check(warp_sum_xor((long long)lane << 40) == 496ll << 40);
    check(warp_sum_xor((unsigned)lane) == 496u);
    check(__shfl_sync(FULL, (unsigned long long)lane << 33, 4) == 4ull << 33);
    check(__shfl_sync(FULL, (long)lane, 4) == 4);
    check(__half2float(__shfl_sync(FULL, __float2half(lane * 0.5f), 3)) == 1.5f);
}

__global__ void divergent_warps() {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // one warp alone, as in the second half of a block reduction
    if (warp == 1) {
        float value = __shfl_down_sync(FULL, (float)lane, 16);
        check(value == (lane < 16 ? lane + 16 : lane));
    }
    __syncthreads();
    // parts of a warp with the right masks
    if (lane < 16) {
        int value = lane;
        for (int offset = 8; offset; offset /= 2) value += __shfl_down_sync(0xffff, value, offset, 16);
        if (lane == 0) check(value == 120);
    } else {
        check(__shfl_sync(0xffff0000, lane, 20) == 20);
    }
    // the mask of those who take part
    unsigned mask = __ballot_sync(FULL, lane < 20);
    if (lane < 20) {
        int left = __shfl_up_sync(mask, lane, 1);
        if (lane > 0) check(left == lane - 1);
        int next = __shfl_down_sync(mask, lane, 4);  // expect: warning undefined_shuffle
        if (lane + 4 < 20) check(next == lane + 4);  // the others get something undefined and ignore it
    }
}

// A block of 40 threads: the second warp has 8 lanes, and the full mask is fine.
__global__ void partial_warp() {
    int lane = threadIdx.x % 32;
    check(__shfl_sync(FULL, lane, 7) == 7);
    check(__shfl_xor_sync(FULL, lane, 1) == (lane ^ 1));
    check(__shfl_up_sync(FULL, lane, 1) == (lane ? lane - 1 : 0));
}

// Lanes that have returned are not waited for.
__global__ void early_return() {
    if (threadIdx.x >= 8) return;
    check(__shfl_xor_sync(0xff, threadIdx.x, 4) == (threadIdx.x ^ 4));
    check(__shfl_sync(FULL, threadIdx.x, 3) == 3);
    __syncthreads();
}

int main() {
    whole_warps<<<2, 96>>>();
    divergent_warps<<<2, 64>>>();
    partial_warp<<<1, 40>>>();
    early_return<<<1, 64>>>();
    cudaError_t error = cudaDeviceSynchronize();
    int count = -1;
    cudaMemcpyFromSymbol(&count, errors, sizeof(int));
    if (error != cudaSuccess || count != 0) {
        printf("failed: %s, %d errors\n", cudaGetErrorString(error), count);
        return 1;
    }
    puts("ok");
    return 0;
}
