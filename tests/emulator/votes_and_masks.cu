// Votes, matches, reductions, active masks, __syncwarp, and barriers that count.
#include <cstdio>

__device__ int errors;
__device__ void check(bool ok) {
    if (!ok) atomicAdd(&errors, 1);
}

__global__ void votes() {
    const unsigned full = 0xffffffff;
    int lane = threadIdx.x & 31;
    check(__ballot_sync(full, lane % 2) == 0xaaaaaaaa);
    check(__any_sync(full, lane == 31) != 0);
    check(__any_sync(full, lane == 32) == 0);
    check(__all_sync(full, lane < 32) != 0);
    check(__all_sync(full, lane < 31) == 0);
    check(__match_any_sync(full, lane / 8) == 0xffu << (lane / 8 * 8));
    check(__match_any_sync(full, lane * 1.5) == 1u << lane);
    int same;
    check(__match_all_sync(full, 7, &same) == full && same);
    check(__match_all_sync(full, lane, &same) == 0 && !same);
    check(__reduce_add_sync(full, lane) == 496);
    check(__reduce_add_sync(full, (unsigned)lane) == 496u);
    check(__reduce_min_sync(full, lane - 10) == -10);
    check(__reduce_max_sync(full, (unsigned)lane) == 31u);
    check(__reduce_max_sync(full, -lane) == 0);
    check(__reduce_and_sync(full, 0xf0u | lane) == 0xf0u);
    check(__reduce_or_sync(full, 1u << lane) == full);
    check(__reduce_xor_sync(full, (unsigned)lane) == 0u);
    __syncwarp();
    if (lane < 8) {
        check(__activemask() == 0xff);
        check(__ballot_sync(0xff, 1) == 0xff);
        __syncwarp(0xff);
    }
    // a warp-aggregated counter
    if (lane % 3 == 0) {
        unsigned mask = __activemask();
        int leader = __ffs(mask) - 1;
        int rank = __popc(mask & ((1u << lane) - 1));
        int base = lane == leader ? 100 : 0;
        base = __shfl_sync(mask, base, leader);
        check(base + rank == 100 + lane / 3);
    }
}

__global__ void counting_barriers() {
    int t = threadIdx.x;
    check(__syncthreads_count(t < 10) == 10);
    check(__syncthreads_or(t == 63) != 0);
    check(__syncthreads_or(0) == 0);
    check(__syncthreads_and(t >= 0) != 0);
    check(__syncthreads_and(t != 5) == 0);
    int rounds = 0;
    do {
        rounds++;
    } while (__syncthreads_or(rounds * 16 < t));
    check(rounds == 4);
}

// Warps of one block may exchange data through shared memory with __syncwarp alone.
__global__ void warp_synchronous() {
    __shared__ int values[64];
    int t = threadIdx.x, warp = t / 32 * 32;
    values[t] = t;
    __syncwarp();
    int sum = 0;
    for (int i = 0; i < 32; i++) sum += values[warp + i];
    check(sum == 496 + 32 * warp);
    for (int stride = 16; stride > 0; stride /= 2) {
        int other = t % 32 < stride ? values[t + stride] : 0;
        __syncwarp();
        values[t] += other;
        __syncwarp();
    }
    if (t % 32 == 0) check(values[t] == sum);
}

// Threads that have returned count as arrived at barriers.
__global__ void returned() {
    if (threadIdx.x >= 40) return;
    __shared__ int values[40];
    values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    check(values[39 - threadIdx.x] == 39 - (int)threadIdx.x);
    check(__ballot_sync(0xffffffff, 1) == (threadIdx.x < 32 ? 0xffffffffu : 0xffu));
}

int main() {
    votes<<<1, 64>>>();
    counting_barriers<<<1, 64>>>();
    warp_synchronous<<<2, 64>>>();
    returned<<<1, 128>>>();
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
