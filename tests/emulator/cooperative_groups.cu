// Cooperative groups: blocks, tiles, coalesced and labelled groups, reductions, scans.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cstdio>
namespace cg = cooperative_groups;

__device__ int errors;
__device__ int first_line;
__device__ void check(bool ok, int line) {
    if (!ok && atomicAdd(&errors, 1) == 0) first_line = line;
}
#define CHECK(condition) check(condition, __LINE__)

template <typename Group>
__device__ float sum(Group group, float value) {
    for (int offset = group.size() / 2; offset > 0; offset /= 2) value += group.shfl_down(value, offset);
    return group.shfl(value, 0);
}

__device__ int sum_any(cg::thread_group group, int* scratch, int value) {
    int lane = group.thread_rank();
    for (int i = group.size() / 2; i > 0; i /= 2) {
        scratch[lane] = value;
        group.sync();
        if (lane < i) value += scratch[lane + i];
        group.sync();
    }
    return value;
}

__device__ int take_tile(const cg::thread_block_tile<16>& tile) { return tile.shfl(threadIdx.x, 3); }

struct Wide {
    double a, b, c;
};

__global__ void groups(int* counter) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<16>(warp);
    auto quad = cg::tiled_partition<4>(tile);
    int t = block.thread_rank();
    CHECK(block.size() == 96 && block.num_threads() == 96 && block.group_index().x == blockIdx.x);
    CHECK(block.thread_index().y == threadIdx.y && block.group_dim().x == 32 && block.dim_threads().y == 3);
    CHECK(warp.size() == 32 && warp.meta_group_rank() == t / 32 && warp.meta_group_size() == 3);
    CHECK(tile.thread_rank() == t % 16 && tile.meta_group_rank() == t % 32 / 16 && tile.meta_group_size() == 2);
    CHECK(quad.meta_group_size() == 4 && quad.num_threads() == 4);

    CHECK(sum(warp, 1.f) == 32.f && sum(tile, 2.f) == 32.f && sum(quad, t % 4) == 6.f);
    CHECK(take_tile(tile) == (t / 16 * 16 + 3) % 32);
    CHECK(warp.shfl_xor(t, 5) == (t ^ 5) && quad.shfl_up(t, 1) == (t % 4 ? t - 1 : t));
    CHECK(warp.any(t % 32 == 3) && !warp.all(t % 32 == 3) && tile.ballot(t % 16 == 2) == 4u);
    CHECK(tile.match_any(t % 2) == (t % 2 ? 0xaaaau : 0x5555u));
    int same = 0;
    CHECK(quad.match_all(t / 4, same) == 0xfu && same);
    Wide wide = warp.shfl(Wide{1.0 * t, 2.0 * t, 3.0 * t}, 7);
    CHECK(wide.c == 3.0 * (t / 32 * 32 + 7));

    CHECK(cg::reduce(warp, t % 32, cg::plus<int>()) == 496);
    CHECK(cg::reduce(tile, (float)(t % 16), cg::greater<float>()) == 15.f);
    CHECK(cg::reduce(quad, t, cg::less<int>()) == t / 4 * 4);
    CHECK(cg::reduce(warp, 1u << (t % 32), cg::bit_or<unsigned>()) == 0xffffffffu);
    CHECK(cg::reduce(warp, 2, [](int a, int b) { return a + b; }) == 64);
    CHECK(cg::inclusive_scan(warp, 1) == t % 32 + 1 && cg::exclusive_scan(warp, 1) == t % 32);
    CHECK(cg::inclusive_scan(tile, t % 16, cg::greater<int>()) == t % 16);

    if (t % 32 < 10) {
        cg::coalesced_group active = cg::coalesced_threads();
        CHECK(active.size() == 10 && (int)active.thread_rank() == t % 32);
        CHECK(active.shfl(t, 4) == t / 32 * 32 + 4);
        CHECK(cg::reduce(active, 1, cg::plus<int>()) == 10);
        int base = 0;
        if (active.thread_rank() == 0) base = atomicAdd(counter, (int)active.size());
        base = active.shfl(base, 0);
        CHECK(base % 10 == 0);
    }
    auto odd = cg::binary_partition(warp, t % 2 == 1);
    CHECK(odd.size() == 16 && (int)odd.thread_rank() == t % 32 / 2);
    auto thirds = cg::labeled_partition(warp, t % 3);
    CHECK(cg::reduce(thirds, 1, cg::plus<int>()) == (t % 32 % 3 == 2 ? 10 : 11) || t >= 32);

    __shared__ int scratch[96];
    cg::thread_group dynamic = cg::tiled_partition(block, 8);
    int total = sum_any(dynamic, scratch + t / 8 * 8, 1);
    if (dynamic.thread_rank() == 0) CHECK(total == 8);
    cg::sync(block);
    if (warp.thread_rank() == 0) CHECK(cg::this_grid().num_blocks() == 2);
    cg::invoke_one(block, [&] { atomicAdd(counter, 1000); });
    block.sync();
    warp.sync();
    tile.sync();
}

__global__ void one_block() {
    cg::grid_group grid = cg::this_grid();
    __shared__ int value;
    if (grid.thread_rank() == 0) value = 3;
#ifdef __CUDA_EMULATOR__
    grid.sync();
#else
    __syncthreads();
#endif
    CHECK(value == 3);
}

int main() {
    int* counter;
    cudaMalloc(&counter, sizeof(int));
    cudaMemset(counter, 0, sizeof(int));
    groups<<<2, dim3(32, 3)>>>(counter);
    one_block<<<1, 64>>>();
    cudaError_t error = cudaDeviceSynchronize();
    int count = -1, line = 0, total = 0;
    cudaMemcpyFromSymbol(&count, errors, sizeof(int));
    cudaMemcpyFromSymbol(&line, first_line, sizeof(int));
    cudaMemcpy(&total, counter, sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(counter);
    if (error != cudaSuccess || count != 0 || total != 2060) {
        printf("failed: %s, %d errors, line %d, %d\n", cudaGetErrorString(error), count, line, total);
        return 1;
    }
    puts("ok");
    return 0;
}
