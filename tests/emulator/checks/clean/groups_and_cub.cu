// Cooperative groups and CUB, their storage used again behind a barrier.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/cub.cuh>

namespace cg = cooperative_groups;

struct Larger {
    __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

__global__ void groups(float* out) {
    __shared__ float s[256];
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    s[block.thread_rank()] = block.thread_rank();
    tile.sync();
    float v = s[tile.meta_group_rank() * 16 + 15 - tile.thread_rank()];
    block.sync();
    v = cg::reduce(tile, v, cg::plus<float>());
    if (tile.thread_rank() == 0) s[tile.meta_group_rank()] = v;
    block.sync();
    if (block.thread_rank() % 3 == 0) {
        auto some = cg::coalesced_threads();
        v += some.shfl(v, 0);
    }
    out[block.thread_rank()] = v + s[block.thread_rank() / 16];
}
__global__ void collectives(float* out) {
    using Reduce = cub::BlockReduce<float, 256>;
    using Scan = cub::BlockScan<float, 256>;
    using Warps = cub::WarpReduce<float>;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Scan::TempStorage scan;
    } storage;
    __shared__ typename Warps::TempStorage warps[8];
    __shared__ float total;
    float v = threadIdx.x, before;
    float sum = Reduce(storage.reduce).Sum(v);
    if (threadIdx.x == 0) total = sum;
    __syncthreads();
    Scan(storage.scan).ExclusiveSum(v, before);
    __syncthreads();
    sum = Reduce(storage.reduce).Reduce(before, Larger(), 200);
    float mine = Warps(warps[threadIdx.x / 32]).Sum(v);
    if (threadIdx.x == 0) out[0] = total + sum + mine;
}
int main() {
    float* out;
    cudaMalloc(&out, 256 * sizeof(float));
    groups<<<1, 256>>>(out);
    collectives<<<1, 256>>>(out);
    cudaDeviceSynchronize();
}
